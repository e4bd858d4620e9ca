package main

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
)

// equivalents is the list of mutants that no test can notice.
//
//go:embed equivalent.txt
var equivalents string

// equivalent is an entry of that list: a mutant that behaves like the program, or differs
// only where nothing is promised.
type equivalent struct {
	line   int // in the file
	id     string
	change string // as mutant.change has it
	why    string
}

// parseEquivalents reads the entries. An entry is the mutant's name on a line of its own,
// then an indented line with what it changes, then indented lines with the reason. Lines
// that begin with # are comments.
func parseEquivalents(text string) ([]equivalent, error) {
	var all []equivalent
	seen := make(map[string]bool)
	for i, line := range strings.Split(text, "\n") {
		words := strings.TrimSpace(line)
		switch {
		case words == "" || strings.HasPrefix(line, "#"):
		case line[0] != '\t' && line[0] != ' ':
			if seen[words] {
				return nil, fmt.Errorf("equivalent.txt:%d: duplicate entry %s", i+1, words)
			}
			seen[words] = true
			all = append(all, equivalent{line: i + 1, id: words})
		case len(all) == 0:
			return nil, fmt.Errorf("equivalent.txt:%d: indented line without an entry", i+1)
		default:
			e := &all[len(all)-1]
			if e.change == "" {
				e.change = words
			} else {
				e.why = strings.TrimSpace(e.why + " " + words)
			}
		}
	}
	for _, e := range all {
		if e.why == "" {
			return nil, fmt.Errorf("equivalent.txt:%d: %s has no reason", e.line, e.id)
		}
	}
	return all, nil
}

// explained returns the reasons in text by mutant name. An entry whose mutant does not
// exist, or changes something else, is an error.
func explained(text string, all []*mutant) (map[string]string, error) {
	entries, err := parseEquivalents(text)
	if err != nil {
		return nil, err
	}
	changes := make(map[string]string, len(all))
	for _, m := range all {
		changes[m.id] = m.change()
	}
	reasons := make(map[string]string, len(entries))
	var errs []error
	for _, e := range entries {
		reasons[e.id] = e.why
		switch change, ok := changes[e.id]; {
		case !ok:
			errs = append(errs, fmt.Errorf("equivalent.txt:%d: mutant %s no longer exists: delete the entry", e.line, e.id))
		case change != e.change:
			errs = append(errs, fmt.Errorf("equivalent.txt:%d: %s makes another change: %s", e.line, e.id, change))
		}
	}
	return reasons, errors.Join(errs...)
}

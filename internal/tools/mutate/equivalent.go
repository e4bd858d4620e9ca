package main

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
)

// equivalents is the file of mutants that no test can notice.
//
//go:embed equivalent.txt
var equivalents string

// equivalent is a mutant that does what the program does, or nothing that anybody was
// promised otherwise.
type equivalent struct {
	line   int // in the file
	id     string
	change string // as the tool tells of it
	why    string
}

// parseEquivalents reads entries: the mutant's name on a line of its own, what it changes,
// and the reason, both indented. Lines that begin with # are remarks.
func parseEquivalents(text string) ([]equivalent, error) {
	var all []equivalent
	seen := make(map[string]bool)
	for i, line := range strings.Split(text, "\n") {
		words := strings.TrimSpace(line)
		switch {
		case words == "" || strings.HasPrefix(line, "#"):
		case line[0] != '\t' && line[0] != ' ':
			if seen[words] {
				return nil, fmt.Errorf("equivalent.txt:%d: %s is there twice", i+1, words)
			}
			seen[words] = true
			all = append(all, equivalent{line: i + 1, id: words})
		case len(all) == 0:
			return nil, fmt.Errorf("equivalent.txt:%d: no mutant is named before this", i+1)
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

// explained returns why mutants are equivalent, by their names. An entry whose mutant
// does not exist, or changes something else, is an error.
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
			errs = append(errs, fmt.Errorf("equivalent.txt:%d: there is no mutant %s any more: take the entry out", e.line, e.id))
		case change != e.change:
			errs = append(errs, fmt.Errorf("equivalent.txt:%d: %s changes something else: %s", e.line, e.id, change))
		}
	}
	return reasons, errors.Join(errs...)
}

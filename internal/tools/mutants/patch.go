package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// patch is one mutant as its file has it.
type patch struct {
	name     string // of the file, without .patch
	file     string
	rule     string
	leaves   string // which sentence of the rule it leaves out
	watchers []watcher
}

// watcher is a test that must notice a mutant, and how.
type watcher struct {
	pkg, test string
	message   string // how the test's message begins; * stands for any text
	seeds     int    // not zero: the test has the flags -seeds and -seed, and names the seed
	args      []string
}

func (w watcher) String() string { return w.pkg + " " + w.test }

// expects reports whether a message is the one that the watcher must give.
func (w watcher) expects(message string) bool {
	parts := strings.Split(w.message, "*")
	message, ok := strings.CutPrefix(message, parts[0])
	for _, part := range parts[1:] {
		_, after, found := strings.Cut(message, part)
		message, ok = after, ok && found
	}
	return ok
}

var (
	mutantName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	ruleName   = regexp.MustCompile(`^(none|[PG][0-9]+(, [PG][0-9]+)*)$`)
	testName   = regexp.MustCompile(`^Test\S*$`)
)

// readPatches returns the patches of a directory, in the order of their names, whose names
// match. The errors are those of single patches; err is that of the directory.
func readPatches(dir string, match *regexp.Regexp) (all []*patch, wrong []problem, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".patch")
		if !match.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		p, err := parsePatch(name, text)
		if err != nil {
			wrong = append(wrong, problem{name, err})
			continue
		}
		p.file = file
		all = append(all, p)
	}
	return all, wrong, nil
}

// problem is what is wrong with one mutant.
type problem struct {
	mutant string
	err    error
}

func (p problem) Error() string { return p.mutant + ": " + p.err.Error() }

// parsePatch reads a patch's header. What follows the header is for git apply.
func parsePatch(name string, text []byte) (*patch, error) {
	p := &patch{name: name}
	if !mutantName.MatchString(name) {
		return nil, fmt.Errorf("its name must be letters and digits, and begin with a capital letter")
	}
	ended, number := false, 0
	for line := range bytes.Lines(text) {
		number++
		if ended = bytes.HasPrefix(line, []byte("diff --git ")); ended {
			break
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		key, value, ok := strings.Cut(string(line), ":")
		value = strings.TrimSpace(value)
		err := fmt.Errorf("it is not of the form Name: value")
		if ok {
			err = p.take(key, value)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	switch {
	case !ended:
		return nil, fmt.Errorf("it has no diff as git writes it")
	case p.rule == "":
		return nil, fmt.Errorf("its header has no Rule")
	case p.leaves == "":
		return nil, fmt.Errorf("its header does not say what it leaves out")
	case len(p.watchers) == 0:
		return nil, fmt.Errorf("its header does not say where it is Noticed")
	}
	return p, nil
}

// take reads one line of the header.
func (p *patch) take(key, value string) (err error) {
	switch key {
	case "Rule":
		if p.rule != "" {
			return fmt.Errorf("a second Rule: name all of them in one line")
		}
		if !ruleName.MatchString(value) {
			return fmt.Errorf("rule %q is not of the form P5, or none", value)
		}
		p.rule = value
	case "Leaves out":
		if p.leaves != "" || value == "" {
			return fmt.Errorf("what it leaves out is said in one line")
		}
		p.leaves = value
	case "Noticed":
		w := watcher{}
		rest := value
		for _, word := range []*string{&w.pkg, &w.test} {
			*word, rest, _ = strings.Cut(rest, " ")
			rest = strings.TrimSpace(rest)
		}
		w.message = rest
		if w.pkg == "" || path.Clean(w.pkg) != w.pkg || path.IsAbs(w.pkg) || strings.HasPrefix(w.pkg, "..") ||
			!testName.MatchString(w.test) || w.message == "" {
			return fmt.Errorf("%q is not a package, relative to the module, a test, and how its message begins", value)
		}
		p.watchers = append(p.watchers, w)
	case "Seeds", "Args":
		if len(p.watchers) == 0 {
			return fmt.Errorf("%s belongs behind the line Noticed that it is for", key)
		}
		w := &p.watchers[len(p.watchers)-1]
		if key == "Args" {
			if w.args = append(w.args, strings.Fields(value)...); value == "" {
				return fmt.Errorf("no arguments")
			}
			return nil
		}
		if n, err := strconv.ParseUint(value, 10, 31); err != nil || n == 0 || w.seeds != 0 {
			return fmt.Errorf("%q is not one number of seeds, from 1 on", value)
		} else {
			w.seeds = int(n)
		}
	default:
		return fmt.Errorf("%q is not one of Rule, Leaves out, Noticed, Seeds and Args", key)
	}
	return nil
}

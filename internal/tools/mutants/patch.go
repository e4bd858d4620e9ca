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

// patch is a mutant as its file describes it.
type patch struct {
	name     string // of the file, without .patch
	file     string
	rule     string
	leaves   string // what it leaves out of the rule
	watchers []watcher
}

// watcher is a test that must notice a mutant.
type watcher struct {
	pkg, test string
	message   string // how the test's message begins; * stands for any text
	seeds     int    // not zero: how many seeds to try; the test has flags -seeds and -seed, and its message names the seed
	args      []string
}

func (w watcher) String() string { return w.pkg + " " + w.test }

// expects reports whether a message of the test is the expected one.
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
	ruleName   = regexp.MustCompile(`^(none|[CGP][0-9]+(, [CGP][0-9]+)*)$`)
	testName   = regexp.MustCompile(`^Test\S*$`)
)

// readPatches returns the patches of a directory whose names match, in the order of their
// names. Patches that cannot be parsed are in wrong.
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

// parsePatch parses a patch's header. The rest of the patch is for git apply.
func parsePatch(name string, text []byte) (*patch, error) {
	p := &patch{name: name}
	if !mutantName.MatchString(name) {
		return nil, fmt.Errorf("its name must consist of letters and digits, and begin with a capital letter")
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
		err := fmt.Errorf("not of the form Name: value")
		if ok {
			err = p.set(key, value)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	switch {
	case !ended:
		return nil, fmt.Errorf("it has no diff in the format of git")
	case p.rule == "":
		return nil, fmt.Errorf("its header has no line Rule")
	case p.leaves == "":
		return nil, fmt.Errorf("its header has no line Leaves out")
	case len(p.watchers) == 0:
		return nil, fmt.Errorf("its header has no line Noticed")
	}
	return p, nil
}

// set takes in one line of the header.
func (p *patch) set(key, value string) error {
	switch key {
	case "Rule":
		if p.rule != "" {
			return fmt.Errorf("a second line Rule: name all rules in one line")
		}
		if !ruleName.MatchString(value) {
			return fmt.Errorf("rule %q is not of the form P5, G5 or C5, or none", value)
		}
		p.rule = value
	case "Leaves out":
		if p.leaves != "" || value == "" {
			return fmt.Errorf("want one sentence, in one line Leaves out")
		}
		p.leaves = value
	case "Noticed":
		w, err := parseWatcher(value)
		if err != nil {
			return err
		}
		p.watchers = append(p.watchers, w)
	case "Seeds", "Args":
		if len(p.watchers) == 0 {
			return fmt.Errorf("%s must follow the line Noticed that it is for", key)
		}
		w := &p.watchers[len(p.watchers)-1]
		if key == "Seeds" {
			return w.setSeeds(value)
		}
		if value == "" {
			return fmt.Errorf("no arguments")
		}
		w.args = append(w.args, strings.Fields(value)...)
	default:
		return fmt.Errorf("%q is not one of Rule, Leaves out, Noticed, Seeds and Args", key)
	}
	return nil
}

// parseWatcher parses the value of a line Noticed: a package, a test and a message.
func parseWatcher(value string) (watcher, error) {
	w := watcher{}
	rest := value
	for _, word := range []*string{&w.pkg, &w.test} {
		*word, rest, _ = strings.Cut(rest, " ")
		rest = strings.TrimSpace(rest)
	}
	w.message = rest
	if w.pkg == "" || path.Clean(w.pkg) != w.pkg || path.IsAbs(w.pkg) || strings.HasPrefix(w.pkg, "..") ||
		!testName.MatchString(w.test) || w.message == "" {
		return w, fmt.Errorf("%q is not a package, relative to the module, a test, and the beginning of its message", value)
	}
	return w, nil
}

func (w *watcher) setSeeds(value string) error {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a number of seeds, from 1 on", value)
	}
	if w.seeds != 0 {
		return fmt.Errorf("a second line Seeds: %q", value)
	}
	w.seeds = int(n)
	return nil
}

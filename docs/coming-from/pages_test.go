// Package comingfrom_test has the code that the pages in this directory show, as examples that run, and the test
// that the pages show this code.
package comingfrom_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A page is X.md, and its code is in X_test.go: each block of Go that is ours, as it stands there at some
// indentation, and each piece of code in the column "ours" of its table, where … stands for what is left out. The code of other systems is in blocks with
// another info string, such as "go etcd" or "java", and is not compiled.
func TestPagesShowTheseExamples(t *testing.T) {
	for _, p := range pages(t) {
		code := read(t, strings.TrimSuffix(p, ".md")+"_test.go")
		text := read(t, p)
		blocks := blocks(t, p, text)
		for _, b := range blocks {
			if !shows(code, b) {
				t.Errorf("%s shows code that is not in its file of examples:\n%s", p, b)
			}
		}
		calls := calls(text)
		for _, c := range calls {
			for part := range strings.SplitSeq(c, "…") {
				if !strings.Contains(code, part) {
					t.Errorf("%s has a call in its table that is not in its file of examples: %s", p, c)
				}
			}
		}
		if p == "README.md" {
			continue
		}
		if len(blocks) < 2 || len(calls) < 5 {
			t.Errorf("%s has %d blocks of our code, and %d calls in its table", p, len(blocks), len(calls))
		}
		for _, section := range []string{"## Calls", "## What you no longer do", "## What you lose"} {
			if !strings.Contains(text, "\n"+section+"\n") {
				t.Errorf("%s has no section %q", p, section)
			}
		}
	}
}

// The index leads to each page, and no link within the repository leads nowhere.
func TestPagesAreLinked(t *testing.T) {
	index := read(t, "README.md")
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`) // with a colon it leads out of the repository
	for _, p := range pages(t) {
		if p != "README.md" && !strings.Contains(index, "("+p+")") {
			t.Errorf("README.md does not lead to %s", p)
		}
		for _, l := range link.FindAllStringSubmatch(read(t, p), -1) {
			if _, err := os.Stat(l[1]); err != nil {
				t.Errorf("%s: %v", p, err)
			} else if l[2] != "" && !hasHeading(read(t, l[1]), l[2][1:]) {
				t.Errorf("%s: %s has no heading %s", p, l[1], l[2])
			}
		}
	}
}

// pages returns the names of all pages, the index among them.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.md")
	if err != nil || len(all) < 2 {
		t.Fatalf("%d pages, and the error %v", len(all), err)
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the blocks of a page that are our code.
func blocks(t *testing.T, page, text string) (ours []string) {
	t.Helper()
	var info string
	var block strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		mark, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			inside, info = true, strings.TrimSpace(mark)
			block.Reset()
			if info == "" {
				t.Errorf("%s has a block that does not say what it is", page)
			}
		case fence:
			inside = false
			if info == "go" {
				ours = append(ours, block.String())
			}
		case inside:
			block.WriteString(line)
		}
	}
	if inside {
		t.Errorf("%s has a block without an end", page)
	}
	return ours
}

// shows reports whether the lines of a block are in the code, one after the other, all at one indentation.
func shows(code, block string) bool {
	for range 4 {
		if strings.Contains("\n"+code, "\n"+block) {
			return true
		}
		var deeper strings.Builder
		for line := range strings.Lines(block) {
			if line != "\n" {
				line = "\t" + line
			}
			deeper.WriteString(line)
		}
		block = deeper.String()
	}
	return false
}

// calls returns the pieces of code in the second columns of a page's tables that have the heading "ours".
func calls(text string) (all []string) {
	code := regexp.MustCompile("`([^`]+)`")
	ours := false
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(line, "|") {
			ours = false // no table, or the end of one
			continue
		}
		cell := strings.TrimSpace(cells[2])
		if cell == "ours" {
			ours = true
		}
		if ours {
			for _, c := range code.FindAllStringSubmatch(cell, -1) {
				all = append(all, c[1])
			}
		}
	}
	return all
}

// hasHeading reports whether a document has a heading whose anchor is as given.
func hasHeading(text, anchor string) bool {
	drop := regexp.MustCompile("[^a-z0-9 _-]")
	for line := range strings.Lines(text) {
		heading := strings.TrimLeft(line, "#")
		if heading == line {
			continue
		}
		heading = drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		if strings.ReplaceAll(heading, " ", "-") == anchor {
			return true
		}
	}
	return false
}

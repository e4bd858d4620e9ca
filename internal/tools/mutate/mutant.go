package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/internal/tools/load"
)

// mutant is a program with one small change.
type mutant struct {
	id       string
	op       operator
	pkg      *load.Package
	path     string // of the file
	file     string // the same, relative to the module
	line     int
	function string // Receiver.method
	was, is  string // the code before and after the change, in one line each

	from, to int    // byte range of the file that is replaced
	text     string // its replacement
}

// kin returns the name of the mutant's package.
func (m *mutant) kin() string { return m.pkg.Types.Name() }

// longest limits how many characters of code change shows.
const longest = 160

// change returns the code before and after the change. Long code is cut to the part around
// the first difference.
func (m *mutant) change() string {
	was, is := []rune(m.was), []rune(m.is)
	if len(is) == 0 {
		is = []rune("(nothing)")
	}
	from := 0
	for from < min(len(was), len(is)) && was[from] == is[from] {
		from++
	}
	cut := func(code []rune) string {
		if len(code) <= longest {
			return string(code)
		}
		first := min(max(0, from-longest/2), len(code)-longest)
		text := string(code[first : first+longest])
		if first > 0 {
			text = "…" + text
		}
		if first+longest < len(code) {
			text += "…"
		}
		return text
	}
	return cut(was) + " → " + cut(is)
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s %s:%d: %s", m.id, m.file, m.line, m.change())
}

// source returns the mutant's file.
func (m *mutant) source() ([]byte, error) {
	src, err := os.ReadFile(m.path)
	if err != nil {
		return nil, err
	}
	if m.to > len(src) {
		return nil, fmt.Errorf("%s was changed while the tool ran", m.file)
	}
	return slices.Concat(src[:m.from], []byte(m.text), src[m.to:]), nil
}

// compiles reports whether the mutant passes the type checker. One goroutine at a time may
// call it.
func (m *mutant) compiles() bool {
	src, err := m.source()
	if err != nil {
		return false
	}
	file, err := m.pkg.Parse(m.path, src)
	if err != nil {
		return false
	}
	files := slices.Clone(m.pkg.Files)
	for i, f := range files {
		if m.pkg.Fset.File(f.Pos()).Name() == m.path {
			files[i] = file
		}
	}
	_, _, err = m.pkg.Check(files)
	return err == nil
}

// identify sets the mutants' names: package, function, operator, and a hash of the changed
// code and of how many equal changes come before it in the function. A mutant keeps its
// name when lines move, and gets another when the code that it changes is edited.
func identify(all []*mutant) error {
	before := make(map[string]int)
	byID := make(map[string]*mutant)
	for _, m := range all {
		key := strings.Join([]string{m.pkg.Path, m.function, string(m.op), m.was, m.is}, "\x00")
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, before[key]))
		before[key]++
		m.id = fmt.Sprintf("%s.%s:%s:%x", m.kin(), m.function, m.op, sum[:4])
		if o := byID[m.id]; o != nil {
			return fmt.Errorf("two mutants have the same name:\n\t%v\n\t%v", o, m)
		}
		byID[m.id] = m
	}
	return nil
}

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
	was, is  string // what was changed, and to what, in one line each

	from, to int    // bytes of the file
	text     string // in their place
}

// kin is the name of the mutant's package.
func (m *mutant) kin() string { return m.pkg.Types.Name() }

// longest is how much of code is shown.
const longest = 160

// change tells what was changed, and to what. Of long code it shows the place where the
// two begin to differ.
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
		return nil, fmt.Errorf("%s has changed", m.file)
	}
	return slices.Concat(src[:m.from], []byte(m.text), src[m.to:]), nil
}

// compiles reports whether a mutant is a program. One goroutine at a time may ask.
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

// identify names mutants after what they change: package, function, operator, and a hash
// of the code and of how often it came before in the function. So a mutant keeps its name
// when lines move, and has another one when what it changes does.
func identify(all []*mutant) error {
	before := make(map[string]int)
	byID := make(map[string]*mutant)
	for _, m := range all {
		key := strings.Join([]string{m.pkg.Path, m.function, string(m.op), m.was, m.is}, "\x00")
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, before[key]))
		before[key]++
		m.id = fmt.Sprintf("%s.%s:%s:%x", m.kin(), m.function, m.op, sum[:4])
		if o := byID[m.id]; o != nil {
			return fmt.Errorf("two mutants have one name:\n\t%v\n\t%v", o, m)
		}
		byID[m.id] = m
	}
	return nil
}

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/internal/tools/load"
)

// source is one Go file.
type source struct {
	rel   string // relative to the module, with slashes
	text  []byte
	fset  *token.FileSet
	file  *ast.File
	funcs map[string]*ast.FuncDecl // by Receiver.name, without repeatable functions
}

func parseSource(rel, file string) (*source, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &source{rel: rel, text: text, fset: token.NewFileSet(), funcs: make(map[string]*ast.FuncDecl)}
	if s.file, err = parser.ParseFile(s.fset, rel, text, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	for _, d := range s.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && !repeatable(fn) {
			s.funcs[load.FuncName(fn)] = fn
		}
	}
	return s, nil
}

// repeatable reports whether a package may have several functions of this name.
func repeatable(fn *ast.FuncDecl) bool {
	return fn.Name.Name == "_" || fn.Name.Name == "init" && fn.Recv == nil
}

func (s *source) offset(p token.Pos) int { return s.fset.PositionFor(p, false).Offset }
func (s *source) line(p token.Pos) int   { return s.fset.PositionFor(p, false).Line }

func (s *source) code(from, to token.Pos) string { return string(s.text[s.offset(from):s.offset(to)]) }

// signature returns the tokens of a function up to its body.
func (s *source) signature(fn *ast.FuncDecl) string {
	to := fn.End()
	if fn.Body != nil {
		to = fn.Body.Lbrace
	}
	return tokens(s.code(fn.Pos(), to))
}

// tokens returns the tokens of code as text. Code that differs only in comments and spaces
// has equal tokens.
func tokens(code string) string {
	var b strings.Builder
	scan(code, func(_ int, tok token.Token, lit string) {
		if tok != token.COMMENT {
			if tok == token.SEMICOLON {
				lit = ";"
			}
			b.WriteString(tok.String() + " " + lit + "\x00")
		}
	})
	return b.String()
}

// scan calls f for each token, with its offset.
func scan(code string, f func(offset int, tok token.Token, lit string)) {
	var sc scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(code))
	sc.Init(file, []byte(code), nil, scanner.ScanComments)
	for {
		pos, tok, lit := sc.Scan()
		if tok == token.EOF {
			return
		}
		f(file.Offset(pos), tok, lit)
	}
}

// declaration is one constant, variable or type, or a group of constants or variables.
type declaration struct {
	names string // all names it declares, which identify it
	kind  token.Token
	code  string        // a complete declaration
	spec  *ast.TypeSpec // nil unless it is a type
}

// declarations returns what a file declares, except functions and imports.
func (s *source) declarations() (all []declaration) {
	for _, d := range s.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok == token.IMPORT {
			continue
		}
		if g.Tok == token.TYPE {
			for _, spec := range g.Specs {
				t := spec.(*ast.TypeSpec)
				all = append(all, declaration{t.Name.Name, g.Tok, "type " + s.code(t.Pos(), t.End()), t})
			}
			continue
		}
		var names []string
		for _, spec := range g.Specs {
			for _, id := range spec.(*ast.ValueSpec).Names {
				if id.Name != "_" {
					names = append(names, id.Name)
				}
			}
		}
		code := s.code(g.Pos(), g.End())
		if len(names) == 0 {
			names = append(names, "_ = "+tokens(code))
		}
		all = append(all, declaration{strings.Join(names, ", "), g.Tok, code, nil})
	}
	return all
}

// field is one field of a struct.
type field struct{ name, code string }

func (s *source) fields(t *ast.StructType) (all []field) {
	for _, f := range t.Fields.List {
		typ := s.code(f.Type.Pos(), f.End())
		if len(f.Names) == 0 {
			name := strings.TrimPrefix(typ, "*")
			all = append(all, field{name[strings.LastIndexByte(name, '.')+1:], typ})
		}
		for _, id := range f.Names {
			all = append(all, field{id.Name, id.Name + " " + typ})
		}
	}
	return all
}

// addedFields returns the fields that type b of the changed file has in addition to type a
// of the original. It is ok only if both are structs and nothing else differs.
func addedFields(was, is *source, a, b *ast.TypeSpec) (added []field, ok bool) {
	x, isStruct := a.Type.(*ast.StructType)
	y, both := b.Type.(*ast.StructType)
	if !isStruct || !both || tokens(was.code(a.Pos(), x.Pos())) != tokens(is.code(b.Pos(), y.Pos())) {
		return nil, false
	}
	left := was.fields(x)
	for _, f := range is.fields(y) {
		if len(left) > 0 && tokens(left[0].code) == tokens(f.code) {
			left = left[1:]
		} else {
			added = append(added, f)
		}
	}
	return added, len(left) == 0
}

// imported is one import of a file.
type imported struct{ name, spec string }

func (s *source) imports() (all []imported) {
	for _, i := range s.file.Imports {
		name := path.Base(strings.Trim(i.Path.Value, "`\""))
		if i.Name != nil {
			name = i.Name.Name
		}
		all = append(all, imported{name, s.code(i.Pos(), i.End())})
	}
	return all
}

// change is what a mutant changes in one file.
type change struct {
	mutant   string
	was, is  *source
	changed  []string // keys of functions
	added    []string // keys of functions
	declared []declaration
	imports  []imported
	fields   map[string][]field // by type
}

// compare finds what a patch changes in a file, and refuses changes that cannot be compiled
// beside the correct code.
func compare(mutant string, was, is *source) (*change, error) {
	c := &change{mutant: mutant, was: was, is: is, fields: make(map[string][]field)}
	if was.file.Name.Name != is.file.Name.Name {
		return nil, fmt.Errorf("%s: it changes the package clause", was.rel)
	}
	if err := c.functions(); err != nil {
		return nil, fmt.Errorf("%s: %w", was.rel, err)
	}
	if err := c.declarations(); err != nil {
		return nil, fmt.Errorf("%s: %w", was.rel, err)
	}
	for _, i := range is.imports() {
		if !slices.Contains(was.imports(), i) {
			c.imports = append(c.imports, i)
		}
	}
	return c, nil
}

// functions finds the changed and the added functions.
func (c *change) functions() error {
	if !slices.Equal(c.was.repeatables(), c.is.repeatables()) {
		return fmt.Errorf("it changes a function init, which cannot be told from others of that name")
	}
	for _, fn := range c.was.functions() {
		differs, err := c.differs(fn)
		if err != nil {
			return err
		}
		if differs {
			c.changed = append(c.changed, load.FuncName(fn))
		}
	}
	for _, fn := range c.is.functions() {
		key := load.FuncName(fn)
		if c.was.funcs[key] != nil {
			continue
		}
		if fn.Recv != nil && fn.Name.IsExported() {
			return fmt.Errorf("it adds the exported method %s: the type would also have it with the mutant switched off", key)
		}
		c.added = append(c.added, key)
	}
	return nil
}

// functions returns the functions of a file in order, without repeatable ones.
func (s *source) functions() (all []*ast.FuncDecl) {
	for _, d := range s.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && !repeatable(fn) {
			all = append(all, fn)
		}
	}
	return all
}

// repeatables returns the tokens of the repeatable functions of a file, in order.
func (s *source) repeatables() (all []string) {
	for _, d := range s.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && repeatable(fn) {
			all = append(all, tokens(s.code(fn.Pos(), fn.End())))
		}
	}
	return all
}

// differs reports whether the patch changes a function of the original file.
func (c *change) differs(fn *ast.FuncDecl) (bool, error) {
	key := load.FuncName(fn)
	other := c.is.funcs[key]
	switch {
	case other == nil:
		return false, fmt.Errorf("it removes %s: empty its body, or remove its calls", key)
	case tokens(c.was.code(fn.Pos(), fn.End())) == tokens(c.is.code(other.Pos(), other.End())):
		return false, nil
	case c.was.signature(fn) != c.is.signature(other):
		return false, fmt.Errorf("it changes the signature of %s: add a function, and call that", key)
	case fn.Body == nil || other.Body == nil:
		return false, fmt.Errorf("%s has no body", key)
	}
	return true, callable(fn)
}

// callable returns an error if a function cannot pass on its arguments.
func callable(fn *ast.FuncDecl) error {
	lists := []struct {
		what string
		list *ast.FieldList
	}{{"receiver", fn.Recv}, {"type parameter", fn.Type.TypeParams}, {"parameter", fn.Type.Params}}
	for _, l := range lists {
		if l.list == nil {
			continue
		}
		for _, f := range l.list.List {
			if len(f.Names) == 0 || slices.ContainsFunc(f.Names, func(id *ast.Ident) bool { return id.Name == "_" }) {
				return fmt.Errorf("%s has a %s without a name: give it one", load.FuncName(fn), l.what)
			}
		}
	}
	return nil
}

// declarations finds the added constants and types, and the added fields.
func (c *change) declarations() error {
	before := make(map[string]declaration)
	for _, d := range c.was.declarations() {
		before[d.names] = d
	}
	for _, d := range c.is.declarations() {
		old, ok := before[d.names]
		delete(before, d.names)
		switch {
		case !ok && d.kind == token.VAR:
			return fmt.Errorf("it adds or changes the variable %s, which all mutants and the correct code would share", d.names)
		case !ok:
			c.declared = append(c.declared, d)
		case tokens(old.code) == tokens(d.code):
		case old.spec != nil && d.spec != nil:
			added, ok := addedFields(c.was, c.is, old.spec, d.spec)
			if !ok {
				return fmt.Errorf("it changes the type %s: only fields can be added, to structs", d.names)
			}
			c.fields[d.names] = added
		default:
			return fmt.Errorf("it changes the declaration of %s, which also applies with the mutant switched off: change the functions that use it", d.names)
		}
	}
	for _, d := range c.was.declarations() { // in the order of the file, not of the map
		if _, gone := before[d.names]; gone {
			return fmt.Errorf("it changes the declaration of %s, which also applies with the mutant switched off: change the functions that use it", d.names)
		}
	}
	return nil
}

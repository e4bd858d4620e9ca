package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmesh/mesh/internal/tools/load"
)

// finding is one place where a package does what it must not.
type finding struct {
	pos  token.Position
	rule rule
	what string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.pos.Filename, f.pos.Line, f.rule, f.what)
}

// marker begins the remark that allows a range over a map.
const marker = "// order-free:"

// check looks at the packages called pure and seeded, without their tests, and returns
// what it found and how many files it read. A package that cannot be loaded is an error.
func check(dir, module string, pure, seeded []string, leaves map[string]string, exceptions []exception) ([]finding, int, error) {
	var paths []string
	for _, p := range slices.Concat(pure, seeded) {
		paths = append(paths, module+"/"+p)
	}
	packages, err := load.Packages(dir, paths)
	if err != nil {
		return nil, 0, err
	}
	var findings []finding
	files := 0
	used := make([]bool, len(exceptions))
	for _, p := range packages {
		c := checker{
			pkg: p, name: strings.TrimPrefix(p.Path, module+"/"),
			module: module, pure: pure, leaves: leaves, exceptions: exceptions, used: used,
		}
		if slices.Contains(seeded, c.name) {
			c.rules = leaks
		}
		for _, file := range p.Files {
			c.file(file)
			files++
		}
		findings = append(findings, c.findings...)
	}
	for i, e := range exceptions {
		if !used[i] {
			findings = append(findings, finding{
				pos:  token.Position{Filename: "rules.go"},
				rule: ruleUnused, what: fmt.Sprintf("nothing in %s/%s needs the exception from %q", e.pkg, e.file, e.rule),
			})
		}
	}
	for i, f := range findings {
		if abs, err := filepath.Abs(dir); err == nil {
			if rel, err := filepath.Rel(abs, f.pos.Filename); err == nil {
				findings[i].pos.Filename = rel
			}
		}
	}
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.pos.Filename, b.pos.Filename), cmp.Compare(a.pos.Line, b.pos.Line))
	})
	return findings, files, nil
}

// checker looks at one package.
type checker struct {
	pkg        *load.Package
	name       string // relative to the module
	module     string
	pure       []string
	leaves     map[string]string
	exceptions []exception
	used       []bool // exceptions
	rules      []rule // those that hold; nil: all
	findings   []finding

	remarks map[int]*remark // of the current file, by the line that they speak of
	sorted  map[ast.Expr]bool
}

type remark struct {
	pos  token.Pos
	used bool
}

func (c *checker) report(pos token.Pos, r rule, format string, args ...any) {
	if c.rules != nil && !slices.Contains(c.rules, r) {
		return
	}
	at := c.pkg.Fset.Position(pos)
	for i, e := range c.exceptions {
		if e.pkg != c.name || e.rule != r {
			continue
		}
		if ok, err := filepath.Match(e.file, filepath.Base(at.Filename)); ok && err == nil {
			c.used[i] = true
			return
		}
	}
	c.findings = append(c.findings, finding{pos: at, rule: r, what: fmt.Sprintf(format, args...)})
}

// reportOrder reports unless a remark on the line says why the order does not matter.
func (c *checker) reportOrder(pos token.Pos, format string, args ...any) {
	if r := c.remarks[c.line(pos)]; r != nil {
		r.used = true
		return
	}
	c.report(pos, ruleMap, format, args...)
}

func (c *checker) file(file *ast.File) {
	c.readRemarks(file)
	c.sorted = make(map[ast.Expr]bool)
	for _, spec := range file.Imports {
		c.importSpec(spec)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		c.node(n)
		return true
	})
	for _, r := range c.remarks {
		if !r.used {
			c.report(r.pos, ruleUnused, "no map is ranged over here")
		}
	}
}

// readRemarks collects the order-free remarks. One at the end of a line speaks of
// that line, one on lines of its own of the next.
func (c *checker) readRemarks(file *ast.File) {
	c.remarks = make(map[int]*remark)
	code := make(map[int]bool) // lines on which something stands
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.Comment, *ast.CommentGroup:
			return false
		}
		code[c.line(n.Pos())] = true
		code[c.line(n.End()-1)] = true
		return true
	})
	for _, group := range file.Comments {
		for _, comment := range group.List {
			why, ok := strings.CutPrefix(comment.Text, marker)
			if !ok {
				continue
			}
			if strings.TrimSpace(why) == "" {
				c.report(comment.Pos(), ruleMap, "%q without a reason", marker)
			}
			at := c.line(comment.Pos())
			if !code[at] {
				at = c.line(group.End()) + 1
			}
			c.remarks[at] = &remark{pos: comment.Pos()}
		}
	}
}

func (c *checker) line(pos token.Pos) int { return c.pkg.Fset.Position(pos).Line }

func (c *checker) importSpec(spec *ast.ImportSpec) {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return
	}
	if below, ok := strings.CutPrefix(path, c.module+"/"); ok {
		if _, leaf := c.leaves[below]; !leaf && !slices.Contains(c.pure, below) {
			c.report(spec.Pos(), ruleImport, "%s is no sans-I/O package", below)
		}
		return
	}
	r, ok := imports[path]
	for prefix := path; !ok; {
		i := strings.LastIndexByte(prefix, '/')
		if i < 0 {
			return
		}
		prefix = prefix[:i]
		r, ok = imports[prefix+"/"]
	}
	c.report(spec.Pos(), r, "imports %s", path)
}

func (c *checker) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.report(n.Pos(), ruleGo, "starts a goroutine")
	case *ast.SelectStmt:
		c.report(n.Pos(), ruleSelect, "selects")
	case *ast.ChanType:
		c.report(n.Pos(), ruleChannel, "names a channel type")
	case *ast.SendStmt:
		c.report(n.Pos(), ruleWait, "sends")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			c.report(n.Pos(), ruleWait, "receives")
		}
	case *ast.RangeStmt:
		c.rangeOver(n)
	case *ast.CallExpr:
		c.call(n)
	case *ast.Ident:
		c.ident(n)
	}
}

func (c *checker) rangeOver(n *ast.RangeStmt) {
	t := c.pkg.Info.TypeOf(n.X)
	if t == nil {
		return
	}
	if over[*types.Map](t) {
		c.reportOrder(n.Pos(), "ranges over a map")
	}
	if over[*types.Chan](t) {
		c.report(n.Pos(), ruleWait, "receives in a range")
	}
}

// over tells whether t, or a type that the type parameter t can be, is a T.
func over[T types.Type](t types.Type) bool {
	if p, ok := t.(*types.TypeParam); ok {
		iface, ok := p.Constraint().Underlying().(*types.Interface)
		if !ok {
			return false
		}
		for e := range iface.EmbeddedTypes() {
			switch e := e.(type) {
			case *types.Union:
				for term := range e.Terms() {
					if over[T](term.Type()) {
						return true
					}
				}
			default:
				if over[T](e) {
					return true
				}
			}
		}
		return false
	}
	_, ok := t.Underlying().(T)
	return ok
}

// call sees to close, and notes maps.Keys and maps.Values whose order
// slices.Sorted undoes.
func (c *checker) call(n *ast.CallExpr) {
	switch fun := ast.Unparen(n.Fun).(type) {
	case *ast.Ident:
		if b, ok := c.pkg.Info.Uses[fun].(*types.Builtin); ok && b.Name() == "close" {
			c.report(n.Pos(), ruleChannel, "closes a channel")
		}
	case *ast.SelectorExpr:
		f, ok := c.pkg.Info.Uses[fun.Sel].(*types.Func)
		if ok && f.Pkg() != nil && f.Pkg().Path() == "slices" && f.Name() == "Sorted" && len(n.Args) == 1 {
			if arg, ok := ast.Unparen(n.Args[0]).(*ast.CallExpr); ok {
				if sel, ok := ast.Unparen(arg.Fun).(*ast.SelectorExpr); ok {
					c.sorted[sel.Sel] = true
				}
			}
		}
	}
}

// ident reports what is forbidden wherever it is named: called, stored or passed on.
func (c *checker) ident(n *ast.Ident) {
	if o := c.pkg.Info.Uses[n]; o != nil && o.Pkg() != nil && o.Parent() == o.Pkg().Scope() {
		if o, name := only[o.Pkg().Path()], o.Name(); o.names != nil && !slices.Contains(o.names, name) {
			c.report(n.Pos(), o.rule, "uses %s", name)
		}
	}
	f, ok := c.pkg.Info.Uses[n].(*types.Func)
	if !ok || f.Pkg() == nil || f.Pkg() == c.pkg.Types {
		return
	}
	path := f.Pkg().Path()
	if recv := f.Signature().Recv(); recv != nil {
		t := recv.Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		if named, ok := t.(*types.Named); ok {
			full := path + "." + named.Obj().Name() + "." + f.Name()
			if r, ok := methods[full]; ok {
				c.report(n.Pos(), r, "uses %s", full)
			}
		}
		return
	}
	r, ok := functions[path][f.Name()]
	if !ok {
		r = functions[path]["*"]
	}
	switch {
	case r == "" || c.sorted[n]:
	case r == ruleMap:
		c.reportOrder(n.Pos(), "uses %s.%s", path, f.Name())
	default:
		c.report(n.Pos(), r, "uses %s.%s", path, f.Name())
	}
}

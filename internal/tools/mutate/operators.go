package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/internal/tools/load"
)

// operator is a way to change code.
type operator string

const (
	compare operator = "compare" // < and <=, > and >=, == and !=
	part    operator = "part"    // a && b or a || b to a, or to b
	negate  operator = "negate"  // a condition, or an operand of && or ||, to its opposite; true and false
	drop    operator = "drop"    // an assignment, a call, ++ and --, an early return, break and continue
	one     operator = "one"     // n to n + 1, x + 1 and x - 1 to x
	sign    operator = "sign"    // + and -, += and -=, ++ and --
	minmax  operator = "minmax"  // min and max
	swap    operator = "swap"    // adjacent arguments of the same type, or adjacent fields in a literal
	forget  operator = "forget"  // a field of a literal, one of several assigned variables, an encoded value
)

// mutants returns all mutants of the packages, in the order of files and lines. Their
// files are named relative to dir.
func mutants(dir string, packages []*load.Package, left []exception) ([]*mutant, error) {
	dead, err := excepted(packages, left)
	if err != nil {
		return nil, err
	}
	f := learn(packages, dead)
	var all []*mutant
	for _, p := range packages {
		sources := make(map[string][]byte)
		for _, file := range p.Files {
			name := p.Fset.File(file.Pos()).Name()
			src, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			sources[name] = src
		}
		for _, fn := range functions(p) {
			own := nameOf(p, fn)
			if f.dead[own] || f.funcs[own] != unknown {
				continue
			}
			name := p.Fset.File(fn.Pos()).Name()
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				return nil, err
			}
			m := maker{facts: f, p: p, path: name, file: filepath.ToSlash(rel), function: load.FuncName(fn), src: sources[name]}
			f.walk(p, fn, m.look)
			all = append(all, m.made...)
		}
	}
	return all, identify(all)
}

// excepted returns the full names of the functions that exceptions exclude. An exception
// that excludes none is an error.
func excepted(packages []*load.Package, left []exception) (map[string]bool, error) {
	used, names := make([]bool, len(left)), make(map[string]bool)
	for _, p := range packages {
		for _, fn := range functions(p) {
			for i, e := range left {
				if (e.pkg == "*" || path(e.pkg) == p.Path) && e.name.MatchString(load.FuncName(fn)) {
					used[i], names[nameOf(p, fn)] = true, true
				}
			}
		}
	}
	for i, e := range left {
		if !used[i] {
			return nil, fmt.Errorf("rules.go: exception %v matches no function of %s: delete it", e.name, e.pkg)
		}
	}
	return names, nil
}

// path returns the import path of a package, which is given relative to the module.
func path(pkg string) string {
	if pkg == "." {
		return module
	}
	return module + "/" + pkg
}

// maker makes the mutants of one function.
type maker struct {
	*facts
	p          *load.Package
	path, file string
	function   string
	src        []byte
	made       []*mutant
}

func (m *maker) offset(pos token.Pos) int { return m.p.Fset.Position(pos).Offset }

func (m *maker) text(from, to token.Pos) string {
	return string(m.src[m.offset(from):m.offset(to)])
}

// make makes a mutant in which text replaces the code between from and to. The node around
// is what the mutant shows, before and after the change.
func (m *maker) make(op operator, from, to token.Pos, text string, around ast.Node) {
	m.add(op, from, from, to, text, m.text(around.Pos(), around.End()), m.text(around.Pos(), from)+text+m.text(to, around.End()))
}

// add makes a mutant in which text replaces the code between from and to. The mutant shows
// was and is, and the line of at.
func (m *maker) add(op operator, at, from, to token.Pos, text, was, is string) {
	m.made = append(m.made, &mutant{
		op: op, pkg: m.p, path: m.path, file: m.file, line: m.p.Fset.Position(at).Line, function: m.function,
		from: m.offset(from), to: m.offset(to), text: text, was: flat(was), is: flat(is),
	})
}

// replace makes a mutant that has text in place of n.
func (m *maker) replace(op operator, n ast.Node, text string) { m.make(op, n.Pos(), n.End(), text, n) }

// flat puts code on one line.
func flat(code string) string { return strings.Join(strings.Fields(code), " ") }

// look makes the mutants of one live node.
func (m *maker) look(n ast.Node, above []ast.Node) {
	parent := above[len(above)-1]
	if s, ok := n.(ast.Stmt); ok {
		m.statement(s, above)
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		m.binary(n, parent)
	case *ast.BasicLit:
		m.number(n, above)
	case *ast.Ident:
		if literal(n) && m.p.Info.Uses[n] != nil && m.p.Info.Uses[n].Pkg() == nil {
			m.make(negate, n.Pos(), n.End(), map[string]string{"true": "false", "false": "true"}[n.Name], surroundings(n, parent))
		}
	case *ast.IfStmt:
		m.condition(n.Cond)
	case *ast.ForStmt:
		m.condition(n.Cond)
	case *ast.CaseClause:
		if s, ok := above[len(above)-2].(*ast.SwitchStmt); ok && s.Tag == nil {
			for _, e := range n.List {
				m.condition(e)
			}
		}
	case *ast.AssignStmt:
		m.assignment(n)
	case *ast.IncDecStmt:
		to := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
		m.replace(sign, n, m.text(n.X.Pos(), n.TokPos)+to)
	case *ast.CallExpr:
		m.call(n)
	case *ast.CompositeLit:
		m.literal(n)
	}
}

var (
	comparisons = map[token.Token]string{
		token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	}
	signs = map[token.Token]string{token.ADD: "-", token.SUB: "+", token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}
)

func (m *maker) binary(n *ast.BinaryExpr, parent ast.Node) {
	with := func(op string) string {
		return m.text(n.Pos(), n.OpPos) + op + m.text(n.OpPos+token.Pos(len(n.Op.String())), n.End())
	}
	if m.constant(n) {
		return
	}
	if to := comparisons[n.Op]; to != "" {
		m.replace(compare, n, with(to))
	}
	if to := signs[n.Op]; to != "" && isNumber(m.p.Info.TypeOf(n)) {
		m.replace(sign, n, with(to))
		if lit, ok := n.Y.(*ast.BasicLit); ok && lit.Value == "1" {
			m.replace(one, n, m.text(n.X.Pos(), n.X.End()))
		}
	}
	if n.Op != token.LAND && n.Op != token.LOR {
		return
	}
	if up, ok := parent.(*ast.BinaryExpr); ok && up.Op == n.Op {
		return // its operands are part of the parent's chain
	}
	parts := chain(n, n.Op)
	for i, e := range parts {
		if m.truth(m.p, e) != unknown {
			continue
		}
		rest := make([]string, 0, len(parts))
		for j, o := range parts {
			if j != i {
				rest = append(rest, m.text(o.Pos(), o.End()))
			}
		}
		m.replace(part, n, strings.Join(rest, " "+n.Op.String()+" "))
		m.opposite(e)
	}
}

// chain returns the operands of a && b && c, or of another op.
func chain(e ast.Expr, op token.Token) []ast.Expr {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == op {
		return append(chain(b.X, op), chain(b.Y, op)...)
	}
	return []ast.Expr{e}
}

// condition negates a whole condition, unless binary changes it: a comparison, or one with
// && or ||.
func (m *maker) condition(e ast.Expr) {
	if e == nil || m.truth(m.p, e) != unknown {
		return
	}
	if b, ok := ast.Unparen(e).(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR || comparisons[b.Op] != "") {
		return
	}
	m.opposite(e)
}

// opposite negates e, unless compare does so already.
func (m *maker) opposite(e ast.Expr) {
	switch x := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		if x.Op == token.NOT {
			m.replace(negate, e, m.text(x.X.Pos(), x.X.End()))
			return
		}
	case *ast.BinaryExpr:
		if x.Op == token.EQL || x.Op == token.NEQ {
			return
		}
	}
	if _, ok := e.(*ast.ParenExpr); ok {
		m.replace(negate, e, "!"+m.text(e.Pos(), e.End()))
		return
	}
	m.replace(negate, e, "!("+m.text(e.Pos(), e.End())+")")
}

// surroundings returns the node to show for a short expression: its parent, if that is
// usually short as well.
func surroundings(n, parent ast.Node) ast.Node {
	switch parent.(type) {
	case *ast.BinaryExpr, *ast.CallExpr, *ast.IndexExpr, *ast.SliceExpr, *ast.KeyValueExpr, *ast.AssignStmt, *ast.ReturnStmt:
		return parent
	}
	return n
}

// number replaces n by n + 1, if it is a count or an index.
func (m *maker) number(n *ast.BasicLit, above []ast.Node) {
	v, exact := constant.Int64Val(constant.ToInt(constant.MakeFromLiteral(n.Value, n.Kind, 0)))
	if n.Kind != token.INT || !exact || strings.ContainsAny(n.Value, "xX") {
		return // a hash's factor, for example
	}
	if typeName(m.p.Info.TypeOf(n)) == "time.Duration" {
		return // a nanosecond
	}
	switch up := above[len(above)-1].(type) {
	case *ast.BinaryExpr:
		switch {
		case m.constant(up), up.Op == token.SHL, up.Op == token.SHR:
			return // a limit, a setting or a shift count
		case signs[up.Op] != "" && up.Y == n && n.Value == "1":
			return // see binary
		case (up.Op == token.MUL || up.Op == token.QUO) && typeName(m.p.Info.TypeOf(up)) == "time.Duration":
			return // a setting
		}
	case *ast.CallExpr:
		if builtin(m.p, up) == "make" {
			_, isMap := m.p.Info.TypeOf(up).Underlying().(*types.Map)
			if isMap || len(up.Args) == 3 && up.Args[2] == n {
				return // a capacity
			}
		}
		if strings.HasPrefix(callee(m.p, up), "strconv.") {
			return // a base or a bit size
		}
	}
	m.make(one, n.Pos(), n.End(), fmt.Sprint(v+1), surroundings(n, above[len(above)-1]))
}

// statement drops a statement, unless it declares something or is a return at the top level
// of a function.
func (m *maker) statement(n ast.Stmt, above []ast.Node) {
	list := listOf(above[len(above)-1])
	if !slices.Contains(list, n) {
		return // the init of an if, for example
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return
		}
	case *ast.ReturnStmt:
		switch above[max(0, len(above)-2)].(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return // without the final return nothing changes, or it does not compile
		}
	case *ast.DeferStmt:
		if m.quiet(m.p, n.Call) {
			return
		}
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt, *ast.SendStmt:
	default:
		return
	}
	m.make(drop, n.Pos(), n.End(), "", n)
}

func (m *maker) assignment(n *ast.AssignStmt) {
	if to := signs[n.Tok]; to != "" && isNumber(m.p.Info.TypeOf(n.Lhs[0])) {
		m.replace(sign, n, m.text(n.Pos(), n.TokPos)+to+m.text(n.TokPos+2, n.End()))
	}
	if n.Tok != token.ASSIGN || len(n.Lhs) < 2 {
		return
	}
	for _, e := range n.Lhs {
		if !m.lost(m.p, e) {
			m.make(forget, e.Pos(), e.End(), "_", n)
		}
	}
}

func (m *maker) call(n *ast.CallExpr) {
	if b := builtin(m.p, n); b != "" {
		if to := map[string]string{"min": "max", "max": "min"}[b]; to != "" && !m.constant(n) {
			m.replace(minmax, n, to+m.text(n.Fun.End(), n.End()))
		}
		return
	}
	if m.p.Info.Types[n.Fun].IsType() {
		return
	}
	name := callee(m.p, n)
	if !even.MatchString(name) && !n.Ellipsis.IsValid() {
		m.neighbours(n, n.Args)
	}
	short := name[strings.LastIndexByte(name, '.')+1:]
	if strings.HasPrefix(strings.ToLower(short), "append") && len(n.Args) == 2 {
		m.blank(n, n.Args[1])
	}
}

// blank replaces the argument e of an encoding function by zero.
func (m *maker) blank(n *ast.CallExpr, e ast.Expr) {
	t := m.p.Info.TypeOf(e)
	b, ok := t.Underlying().(*types.Basic)
	if !ok || m.constant(e) {
		return
	}
	zero := "0"
	switch {
	case b.Info()&types.IsString != 0:
		zero = `""`
	case b.Info()&types.IsBoolean != 0:
		zero = "false"
	case b.Info()&types.IsNumeric == 0:
		return
	}
	m.make(forget, e.Pos(), e.End(), zero, n)
}

// neighbours swaps adjacent expressions of the same type.
func (m *maker) neighbours(n ast.Node, list []ast.Expr) {
	for i := 0; i+1 < len(list); i++ {
		a, b := list[i], list[i+1]
		s, t := m.text(a.Pos(), a.End()), m.text(b.Pos(), b.End())
		at, bt := m.p.Info.TypeOf(a), m.p.Info.TypeOf(b)
		if flat(s) == flat(t) || at == nil || bt == nil || !types.Identical(at, bt) || at == types.Typ[types.UntypedNil] {
			continue
		}
		m.make(swap, a.Pos(), b.End(), t+m.text(a.End(), b.Pos())+s, n)
	}
}

// literal drops one field of a struct literal at a time, or swaps adjacent ones.
func (m *maker) literal(n *ast.CompositeLit) {
	if structOf(m.p.Info.TypeOf(n)) == nil || len(n.Elts) == 0 {
		return
	}
	if _, keyed := n.Elts[0].(*ast.KeyValueExpr); !keyed {
		m.neighbours(n, n.Elts)
		return
	}
	for i, e := range n.Elts {
		if m.mute(m.p, e) || m.mute(m.p, e.(*ast.KeyValueExpr).Value) {
			continue
		}
		from, to := e.Pos(), e.End()
		switch {
		case i+1 < len(n.Elts):
			to = n.Elts[i+1].Pos()
		case i > 0:
			from = n.Elts[i-1].End()
		}
		kind := m.text(n.Pos(), n.Lbrace)
		m.add(forget, e.Pos(), from, to, "", kind+"{… "+m.text(e.Pos(), e.End())+" …}", kind+"{…}")
	}
}

func (m *maker) constant(e ast.Expr) bool { return m.p.Info.Types[e].Value != nil }

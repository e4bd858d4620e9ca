package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"

	"github.com/lockmesh/mesh/internal/tools/load"
)

// truth is what is known of a condition.
type truth int8

const (
	no      truth = -1
	unknown truth = 0
	yes     truth = 1
)

// facts is what holds in every production program: which conditions never change, and
// which code never runs or has no effect because it belongs to fault points or to observers.
type facts struct {
	packages []*load.Package
	values   map[types.Object]truth // variables and unexported fields that never change
	funcs    map[string]truth       // functions that always return the same
	dead     map[string]bool        // functions that only dead code calls
	read     map[types.Object]bool  // variables and unexported fields that live code reads; nil: not known yet
}

// learn finds the facts of packages. The functions in dead are taken to be dead. A fact
// makes more code dead, and dead code yields more facts, so passes over the code are
// repeated until one finds nothing new.
func learn(packages []*load.Package, dead map[string]bool) *facts {
	f := &facts{
		packages: packages, values: make(map[types.Object]truth), funcs: make(map[string]truth), dead: dead,
	}
	f.pass()
	for before := f.size() - 1; before != f.size(); {
		before = f.size()
		f.pass()
	}
	return f
}

// size grows with each new fact, from the first pass on.
func (f *facts) size() int { return len(f.values) + len(f.funcs) + len(f.dead) - len(f.read) }

// pass goes over all code once, and adds what it finds to the facts. Facts are never
// withdrawn: a condition whose value is known is not visited again, so what it reads
// would look unused.
func (f *facts) pass() {
	s := &survey{
		facts: f, assigned: make(map[types.Object][]truth), declared: make(map[types.Object]bool),
		named: make(map[string]bool), calls: make(map[string]bool),
		writes: make(map[*ast.Ident]bool), read: make(map[types.Object]bool),
	}
	for _, p := range f.packages {
		s.variables(p)
		for _, fn := range functions(p) {
			s.function(p, fn)
		}
		s.fields(p)
	}
	s.conclude()
}

// survey is what one pass finds in live code.
type survey struct {
	*facts
	assigned map[types.Object][]truth // what is known of each value that a boolean is given
	declared map[types.Object]bool    // by a statement or as a field: parameters and results are not
	named    map[string]bool          // functions that other functions name, in live code or in dead
	calls    map[string]bool          // functions that live code names
	writes   map[*ast.Ident]bool
	read     map[types.Object]bool
}

// variables visits the package's variables. A function in a table is called by the users
// of that table, so it counts as live.
func (s *survey) variables(p *load.Package) {
	for _, file := range p.Files {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.VAR {
				ast.Inspect(d, func(n ast.Node) bool {
					s.look(p, "", n)
					return true
				})
			}
		}
	}
}

// function visits a function, and notes whether it always returns the same.
func (s *survey) function(p *load.Package, fn *ast.FuncDecl) {
	own := nameOf(p, fn)
	ast.Inspect(fn, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if o, ok := p.Info.Uses[id].(*types.Func); ok && fullName(o) != own {
				s.named[fullName(o)] = true
			}
		}
		return true
	})
	if v := s.result(p, fn); v != unknown {
		s.funcs[own] = v
	}
	if !s.dead[own] && s.funcs[own] == unknown {
		s.walk(p, fn, func(n ast.Node, _ []ast.Node) { s.look(p, own, n) })
	}
}

// fields notes that unexported booleans in structs begin as false.
func (s *survey) fields(p *load.Package) {
	for _, o := range p.Info.Defs {
		if v, ok := o.(*types.Var); ok && v.IsField() && !v.Exported() && isBool(v.Type()) {
			s.declared[v] = true
			s.assigned[v] = append(s.assigned[v], no)
		}
	}
}

// conclude adds to the facts what follows from the whole survey.
func (s *survey) conclude() {
	f := s.facts
	if f.read != nil {
		maps.DeleteFunc(s.read, func(o types.Object, _ bool) bool { return !f.read[o] })
	}
	f.read = s.read
	for o, all := range s.assigned {
		v := all[0]
		for _, w := range all {
			if w != v {
				v = unknown
			}
		}
		if v != unknown && s.declared[o] {
			f.values[o] = v
		}
	}
	for name := range s.named {
		if !s.calls[name] {
			f.dead[name] = true
		}
	}
}

// look notes what one live node of the function own reads, calls and assigns.
func (s *survey) look(p *load.Package, own string, n ast.Node) {
	switch n := n.(type) {
	case *ast.Ident:
		s.use(p, own, n)
	case *ast.AssignStmt:
		s.assignment(p, n)
	case *ast.IncDecStmt:
		if id, _ := assigned(p, n.X); id != nil {
			s.writes[id] = true
		}
	case *ast.RangeStmt:
		for _, e := range []ast.Expr{n.Key, n.Value} {
			if _, o := assigned(p, e); o != nil {
				s.assign(o, unknown)
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			if _, o := assigned(p, n.X); o != nil {
				s.assign(o, unknown)
				s.read[o] = true
			}
		}
	case *ast.ValueSpec:
		s.declaration(p, n)
	case *ast.CompositeLit:
		s.literal(p, n)
	}
}

// assign notes that a boolean is given a value of which v is known.
func (s *survey) assign(o types.Object, v truth) {
	if o != nil && isBool(o.Type()) {
		s.assigned[o] = append(s.assigned[o], v)
	}
}

func (s *survey) use(p *load.Package, own string, id *ast.Ident) {
	switch o := used(p, id).(type) {
	case *types.Func:
		if fullName(o) != own {
			s.calls[fullName(o)] = true
		}
	case *types.Var:
		if !s.writes[id] {
			s.read[o] = true
		}
	}
}

func (s *survey) assignment(p *load.Package, n *ast.AssignStmt) {
	for i, lhs := range n.Lhs {
		id, o := assigned(p, lhs)
		if id == nil {
			continue
		}
		s.writes[id] = true
		if n.Tok == token.DEFINE && p.Info.Defs[id] != nil {
			s.declared[o] = true
		}
		switch {
		case len(n.Lhs) == len(n.Rhs):
			s.assign(o, s.truth(p, n.Rhs[i]))
		case i == 1 && watches(p, n.Rhs[0]):
			s.assign(o, no)
		default:
			s.assign(o, unknown)
		}
	}
}

func (s *survey) declaration(p *load.Package, n *ast.ValueSpec) {
	for i, id := range n.Names {
		o := p.Info.Defs[id]
		if o == nil || !isBool(o.Type()) {
			continue
		}
		s.declared[o] = true
		v := no
		if len(n.Values) == len(n.Names) {
			v = s.truth(p, n.Values[i])
		}
		s.assign(o, v)
	}
}

func (s *survey) literal(p *load.Package, n *ast.CompositeLit) {
	t := structOf(p.Info.TypeOf(n))
	if t == nil {
		return
	}
	for i, e := range n.Elts {
		kv, keyed := e.(*ast.KeyValueExpr)
		if !keyed {
			s.assign(t.Field(i).Origin(), unknown)
			continue
		}
		id := kv.Key.(*ast.Ident)
		s.writes[id] = true
		s.assign(used(p, id), s.truth(p, kv.Value))
	}
}

// watches reports whether e asks for an observer: x.(env.Instrumented).
func watches(p *load.Package, e ast.Expr) bool {
	a, ok := ast.Unparen(e).(*ast.TypeAssertExpr)
	return ok && a.Type != nil && watchers[typeName(p.Info.TypeOf(a.Type))]
}

// truth returns what is known of a condition.
func (f *facts) truth(p *load.Package, e ast.Expr) truth {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		switch o := used(p, e); {
		case o == types.Universe.Lookup("true"):
			return yes
		case o == types.Universe.Lookup("false"):
			return no
		default:
			return f.values[o]
		}
	case *ast.SelectorExpr:
		return f.values[used(p, e.Sel)]
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return -f.truth(p, e.X)
		}
	case *ast.CallExpr:
		name := callee(p, e)
		if v := always[name]; v != unknown {
			return v
		}
		return f.funcs[name]
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND:
			return min(f.truth(p, e.X), f.truth(p, e.Y))
		case token.LOR:
			return max(f.truth(p, e.X), f.truth(p, e.Y))
		case token.EQL, token.NEQ:
			if id, ok := e.Y.(*ast.Ident); ok && id.Name == "nil" && f.observer(p, e.X) {
				if e.Op == token.EQL {
					return yes
				}
				return no
			}
		}
	}
	return unknown
}

// observer reports whether e is an observer or one of its functions. Both are nil in
// production.
func (f *facts) observer(p *load.Package, e ast.Expr) bool {
	if watchers[typeName(p.Info.TypeOf(e))] {
		return true
	}
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	s := p.Info.Selections[sel]
	return s != nil && hooks[typeName(s.Recv())+"."+sel.Sel.Name]
}

// result returns what is known of a boolean function's result.
func (f *facts) result(p *load.Package, fn *ast.FuncDecl) truth {
	if r := fn.Type.Results; fn.Body == nil || r.NumFields() != 1 || !isBool(p.Info.TypeOf(r.List[0].Type)) {
		return unknown
	}
	v, _ := f.returned(p, fn.Body.List, 0)
	return v
}

// returned follows statements to the first return. asked counts the known conditions on the
// way: a literal counts only behind one of them, so that a function that merely returns a
// constant is still mutated.
func (f *facts) returned(p *load.Package, list []ast.Stmt, asked int) (v truth, ends bool) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ReturnStmt:
			if len(s.Results) != 1 || asked == 0 && literal(s.Results[0]) {
				return unknown, true
			}
			return f.truth(p, s.Results[0]), true
		case *ast.IfStmt:
			switch c := f.truth(p, s.Cond); {
			case c == no && s.Else == nil:
				asked++
				continue
			case c == yes:
				if v, ends := f.returned(p, s.Body.List, asked+1); ends {
					return v, true
				}
			}
		}
		if !f.inert(p, s) {
			return unknown, true
		}
	}
	return unknown, false
}

// walk visits the live nodes of a function, each before its children; above holds its
// ancestors. Types and the arguments of mute functions count as dead.
func (f *facts) walk(p *load.Package, fn *ast.FuncDecl, visit func(n ast.Node, above []ast.Node)) {
	if fn.Body == nil {
		return
	}
	pruned := make(map[ast.Node]bool)
	above := []ast.Node{fn}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]
			return true
		}
		if pruned[n] || f.mute(p, n) {
			return false
		}
		f.prune(p, n, pruned)
		visit(n, above)
		above = append(above, n)
		return true
	})
}

// mute reports whether n cannot change what a production program does.
func (f *facts) mute(p *load.Package, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ArrayType, *ast.StructType, *ast.FuncType, *ast.InterfaceType, *ast.MapType, *ast.ChanType, *ast.TypeSpec, *ast.Comment:
		return true
	case *ast.GenDecl:
		return n.Tok != token.VAR
	case *ast.KeyValueExpr:
		id, ok := n.Key.(*ast.Ident)
		return ok && (switches[typeName(p.Info.TypeOf(n.Value))] || f.unread(used(p, id)))
	case *ast.CaseClause:
		return f.never(p, n) // a clause that can be met hides those below it, even if its body has no effect
	case ast.Stmt:
		return f.inert(p, n)
	case *ast.CallExpr:
		if f.quiet(p, n) {
			return true
		}
	}
	e, ok := n.(ast.Expr)
	return ok && !literal(e) && f.truth(p, e) != unknown
}

// quiet reports whether a call goes to a mute function, to a dead one or to an observer.
func (f *facts) quiet(p *load.Package, call *ast.CallExpr) bool {
	name := callee(p, call)
	return mute.MatchString(name) || f.dead[name] || f.observer(p, call.Fun)
}

// unread reports whether o is a variable or an unexported field that no live code reads.
func (f *facts) unread(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && f.read != nil && !f.read[v] && (v.IsField() && !v.Exported() || !v.IsField() && v.Parent() != v.Pkg().Scope())
}

// inert reports whether a statement has no effect in a production program, except to log, to
// call an observer or to panic. Conditions are taken to have no side effects.
func (f *facts) inert(p *load.Package, s ast.Stmt) bool {
	all := func(list []ast.Stmt) bool {
		for _, s := range list {
			if !f.inert(p, s) {
				return false
			}
		}
		return true
	}
	switch s := s.(type) {
	case *ast.EmptyStmt:
		return true
	case *ast.BlockStmt:
		return all(s.List)
	case *ast.LabeledStmt:
		return f.inert(p, s.Stmt)
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && (f.quiet(p, call) || builtin(p, call) == "panic")
	case *ast.IfStmt:
		c := f.truth(p, s.Cond)
		return (c == no || f.inert(p, s.Body)) && (c == yes || s.Else == nil || f.inert(p, s.Else))
	case *ast.SwitchStmt:
		return all(s.Body.List)
	case *ast.TypeSwitchStmt:
		return all(s.Body.List)
	case *ast.CaseClause:
		return f.never(p, s) || all(s.Body)
	case *ast.ForStmt:
		return len(s.Body.List) > 0 && all(s.Body.List)
	case *ast.RangeStmt:
		return len(s.Body.List) > 0 && all(s.Body.List)
	case *ast.IncDecStmt:
		return f.lost(p, s.X)
	case *ast.AssignStmt:
		if call, ok := s.Rhs[0].(*ast.CallExpr); ok && idle.MatchString(callee(p, call)) {
			return true
		}
		for _, e := range s.Lhs {
			if !f.lost(p, e) {
				return false
			}
		}
		return !calls(p, s.Rhs)
	}
	return false
}

// lost reports whether a value that is assigned to e is never read.
func (f *facts) lost(p *load.Package, e ast.Expr) bool {
	id, o := assigned(p, e)
	return id != nil && (f.unread(o) || id.Name == "_")
}

// never reports whether it is known that no condition of a clause is ever met.
func (f *facts) never(p *load.Package, c *ast.CaseClause) bool {
	for _, e := range c.List {
		if !isBool(p.Info.TypeOf(e)) || literal(e) || f.truth(p, e) != no {
			return false
		}
	}
	return len(c.List) > 0
}

// prune marks the dead children of n.
func (f *facts) prune(p *load.Package, n ast.Node, pruned map[ast.Node]bool) {
	if n, ok := n.(*ast.IfStmt); ok {
		switch f.truth(p, n.Cond) {
		case yes:
			if n.Else != nil {
				pruned[n.Else] = true
			}
		case no:
			pruned[n.Body] = true
		}
	}
	over := false
	for _, s := range listOf(n) {
		if over {
			pruned[s] = true
		}
		if i, ok := s.(*ast.IfStmt); ok && f.truth(p, i.Cond) == yes && leaves(i.Body) {
			over = true
		}
	}
}

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

// facts are what holds in every program: which conditions never change, and which code
// does not run or does nothing, since it belongs to deliberate bugs, to fault points, or to
// those who watch.
type facts struct {
	packages []*load.Package
	values   map[types.Object]truth // variables and unexported fields that never change
	funcs    map[string]truth       // functions that always return the same
	dead     map[string]bool        // functions that nothing calls but dead code
	read     map[types.Object]bool  // variables and unexported fields that live code reads; nil: not known yet
}

// learn finds out what holds of packages, in which some functions are dead. What is known
// makes more code dead, and dead code makes more known, so it goes on until nothing is new.
func learn(packages []*load.Package, dead map[string]bool) *facts {
	f := &facts{
		packages: packages, values: make(map[types.Object]truth), funcs: make(map[string]truth), dead: dead,
	}
	f.round()
	for before := f.size() - 1; before != f.size(); {
		before = f.size()
		f.round()
	}
	return f
}

// size grows with what is known, from the first round on.
func (f *facts) size() int { return len(f.values) + len(f.funcs) + len(f.dead) - len(f.read) }

// round learns from what the last one has learnt, and forgets nothing: a condition that is
// known is not looked at any more, and so nobody would ask for what it hangs on.
func (f *facts) round() {
	r := round{
		facts: f, assigned: make(map[types.Object][]truth), declared: make(map[types.Object]bool),
		calls: make(map[string]bool), writes: make(map[*ast.Ident]bool), read: make(map[types.Object]bool),
	}
	called := make(map[string]bool)
	for _, p := range f.packages {
		for _, file := range p.Files {
			for _, d := range file.Decls {
				if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.VAR {
					ast.Inspect(d, func(n ast.Node) bool { // what a table names is called by whoever has the table
						r.look(p, "", n)
						return true
					})
				}
			}
		}
		for _, fn := range functions(p) {
			own := nameOf(p, fn)
			ast.Inspect(fn, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if o, ok := p.Info.Uses[id].(*types.Func); ok && fullName(o) != own {
						called[fullName(o)] = true
					}
				}
				return true
			})
			if v := f.result(p, fn); v != unknown {
				f.funcs[own] = v
			}
			if !f.dead[own] && f.funcs[own] == unknown {
				f.walk(p, fn, func(n ast.Node, _ []ast.Node) { r.look(p, own, n) })
			}
		}
		for _, o := range p.Info.Defs {
			if v, ok := o.(*types.Var); ok && v.IsField() && !v.Exported() && isBool(v.Type()) {
				r.declared[v] = true
				r.assigned[v] = append(r.assigned[v], no)
			}
		}
	}
	if f.read != nil {
		maps.DeleteFunc(r.read, func(o types.Object, _ bool) bool { return !f.read[o] })
	}
	f.read = r.read
	for o, all := range r.assigned {
		v := all[0]
		for _, w := range all {
			if w != v {
				v = unknown
			}
		}
		if v != unknown && r.declared[o] {
			f.values[o] = v
		}
	}
	for name := range called {
		if !r.calls[name] {
			f.dead[name] = true
		}
	}
}

// round is what one look at all live code found.
type round struct {
	*facts
	assigned map[types.Object][]truth
	declared map[types.Object]bool // by a statement or as a field: parameters and results are not
	calls    map[string]bool
	writes   map[*ast.Ident]bool
	read     map[types.Object]bool
}

// look takes in one live node of the function own.
func (r *round) look(p *load.Package, own string, n ast.Node) {
	spoil := func(o types.Object) {
		if o != nil && isBool(o.Type()) {
			r.assigned[o] = append(r.assigned[o], unknown)
		}
	}
	switch n := n.(type) {
	case *ast.Ident:
		switch o := used(p, n).(type) {
		case *types.Func:
			if fullName(o) != own {
				r.calls[fullName(o)] = true
			}
		case *types.Var:
			if !r.writes[n] {
				r.read[o] = true
			}
		}
	case *ast.AssignStmt:
		for i, lhs := range n.Lhs {
			id, o := assigned(p, lhs)
			if id == nil {
				continue
			}
			r.writes[id] = true
			if n.Tok == token.DEFINE && p.Info.Defs[id] != nil {
				r.declared[o] = true
			}
			switch {
			case o == nil || !isBool(o.Type()):
			case len(n.Lhs) == len(n.Rhs):
				r.assigned[o] = append(r.assigned[o], r.truth(p, n.Rhs[i]))
			case i == 1 && watches(p, n.Rhs[0]):
				r.assigned[o] = append(r.assigned[o], no)
			default:
				spoil(o)
			}
		}
	case *ast.IncDecStmt:
		if id, _ := assigned(p, n.X); id != nil {
			r.writes[id] = true
		}
	case *ast.RangeStmt:
		for _, e := range []ast.Expr{n.Key, n.Value} {
			if _, o := assigned(p, e); o != nil {
				spoil(o)
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			if _, o := assigned(p, n.X); o != nil {
				spoil(o)
				r.read[o] = true
			}
		}
	case *ast.ValueSpec:
		for i, id := range n.Names {
			o := p.Info.Defs[id]
			if o == nil || !isBool(o.Type()) {
				continue
			}
			r.declared[o] = true
			v := no
			if len(n.Values) == len(n.Names) {
				v = r.truth(p, n.Values[i])
			}
			r.assigned[o] = append(r.assigned[o], v)
		}
	case *ast.CompositeLit:
		s := structOf(p.Info.TypeOf(n))
		for i, e := range n.Elts {
			kv, keyed := e.(*ast.KeyValueExpr)
			switch {
			case s == nil:
			case !keyed:
				spoil(s.Field(i).Origin())
			default:
				id := kv.Key.(*ast.Ident)
				r.writes[id] = true
				if o := used(p, id); o != nil && isBool(o.Type()) {
					r.assigned[o] = append(r.assigned[o], r.truth(p, kv.Value))
				}
			}
		}
	}
}

// watches reports whether e asks whether somebody who watches is there: x.(env.Instrumented).
func watches(p *load.Package, e ast.Expr) bool {
	a, ok := ast.Unparen(e).(*ast.TypeAssertExpr)
	return ok && a.Type != nil && watchers[typeName(p.Info.TypeOf(a.Type))]
}

// truth tells what is known of a condition.
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
			if id, ok := e.Y.(*ast.Ident); ok && id.Name == "nil" && f.nobody(p, e.X) {
				if e.Op == token.EQL {
					return yes
				}
				return no
			}
		}
	}
	return unknown
}

// nobody reports whether e is somebody who watches, or the function of one.
func (f *facts) nobody(p *load.Package, e ast.Expr) bool {
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

// result returns what a function always returns, if that is known.
func (f *facts) result(p *load.Package, fn *ast.FuncDecl) truth {
	if r := fn.Type.Results; fn.Body == nil || r.NumFields() != 1 || !isBool(p.Info.TypeOf(r.List[0].Type)) {
		return unknown
	}
	v, _ := f.returned(p, fn.Body.List, 0)
	return v
}

// returned follows statements to the first return. A function that only returns a
// constant is no news: asked counts the known conditions on the way.
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

// walk visits the live nodes of a function, each before what is in it, with those that
// it is in. Types, and what is given to mute functions, count as dead.
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

// mute reports whether nothing in n can matter.
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
		return f.never(p, n) // else it keeps others from being looked at, even if it does nothing
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

// quiet reports whether a call goes to a mute function, or to one that is left out.
func (f *facts) quiet(p *load.Package, call *ast.CallExpr) bool {
	name := callee(p, call)
	return mute.MatchString(name) || f.dead[name] || f.nobody(p, call.Fun)
}

// unread reports whether o is a variable or an unexported field that no live code reads.
func (f *facts) unread(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && f.read != nil && !f.read[v] && (v.IsField() && !v.Exported() || !v.IsField() && v.Parent() != v.Pkg().Scope())
}

// inert reports whether a statement does nothing in a program, but to log, to mark, or to
// panic; conditions are taken for questions.
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

// lost reports whether what is assigned to e is never read.
func (f *facts) lost(p *load.Package, e ast.Expr) bool {
	id, o := assigned(p, e)
	return id != nil && (f.unread(o) || id.Name == "_")
}

// never reports whether the conditions of a clause are never met.
func (f *facts) never(p *load.Package, c *ast.CaseClause) bool {
	for _, e := range c.List {
		if !isBool(p.Info.TypeOf(e)) || literal(e) || f.truth(p, e) != no {
			return false
		}
	}
	return len(c.List) > 0
}

// prune marks what is dead right below n.
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

package main

import (
	"go/ast"
	"go/types"

	"github.com/lockmesh/mesh/internal/tools/load"
)

// functions returns the functions and methods that a package declares, except those named
// _, with which generated code asserts something at compile time.
func functions(p *load.Package) (all []*ast.FuncDecl) {
	for _, file := range p.Files {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name != "_" {
				all = append(all, fn)
			}
		}
	}
	return all
}

// nameOf returns the full name of a declared function.
func nameOf(p *load.Package, fn *ast.FuncDecl) string {
	o, ok := p.Info.Defs[fn.Name].(*types.Func)
	if !ok {
		return ""
	}
	return fullName(o)
}

func fullName(f *types.Func) string { return f.Origin().FullName() }

// callee returns the full name of the function that a call names, or "".
func callee(p *load.Package, call *ast.CallExpr) string {
	fun := ast.Unparen(call.Fun)
	if i, ok := fun.(*ast.IndexExpr); ok {
		fun = i.X
	}
	var id *ast.Ident
	switch e := fun.(type) {
	case *ast.Ident:
		id = e
	case *ast.SelectorExpr:
		id = e.Sel
	default:
		return ""
	}
	if o, ok := p.Info.Uses[id].(*types.Func); ok {
		return fullName(o)
	}
	return ""
}

// builtin returns the name of the builtin function that a call names, or "".
func builtin(p *load.Package, call *ast.CallExpr) string {
	if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok {
		if b, ok := p.Info.Uses[id].(*types.Builtin); ok {
			return b.Name()
		}
	}
	return ""
}

// typeName returns the full name of a named type or of a pointer to one, or "".
func typeName(t types.Type) string {
	if t == nil {
		return ""
	}
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil {
		return named.Obj().Pkg().Path() + "." + named.Obj().Name()
	}
	return ""
}

func isBool(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// structOf returns the struct type that t is or points to, or nil.
func structOf(t types.Type) *types.Struct {
	if t == nil {
		return nil
	}
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	s, _ := t.Underlying().(*types.Struct)
	return s
}

// assigned returns the variable or field that e names, and its identifier.
func assigned(p *load.Package, e ast.Expr) (*ast.Ident, types.Object) {
	if e == nil {
		return nil, nil
	}
	var id *ast.Ident
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		id = e
	case *ast.SelectorExpr:
		id = e.Sel
	default:
		return nil, nil
	}
	if o := p.Info.Defs[id]; o != nil {
		return id, o
	}
	return id, used(p, id)
}

// used returns the object that id refers to. For a field of an instantiated generic type
// it is the field of the generic type.
func used(p *load.Package, id *ast.Ident) types.Object {
	if v, ok := p.Info.Uses[id].(*types.Var); ok {
		return v.Origin()
	}
	return p.Info.Uses[id]
}

// literal reports whether e is true or false.
func literal(e ast.Expr) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && (id.Name == "true" || id.Name == "false")
}

// calls reports whether the expressions contain a call, builtins and conversions aside.
func calls(p *load.Package, list []ast.Expr) (found bool) {
	for _, e := range list {
		ast.Inspect(e, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && builtin(p, call) == "" && !p.Info.Types[call.Fun].IsType() {
				found = true
			}
			return !found
		})
	}
	return found
}

// leaves reports whether a block ends with a return, break, continue or goto.
func leaves(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

// listOf returns the statements of a block or clause.
func listOf(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}

func isNumber(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0
}

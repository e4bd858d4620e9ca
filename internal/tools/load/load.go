// Package load reads packages of this module from source, with their types, for tools
// that look at code.
package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Package is one package, without its tests, and the types of all that it names.
type Package struct {
	Path  string
	Dir   string
	Fset  *token.FileSet
	Files []*ast.File
	Types *types.Package
	Info  *types.Info

	imports types.Importer
}

// Packages parses and type-checks the packages with these import paths, in the order of
// the go command. Their imports are read in compiled form, as the go command provides them.
func Packages(dir string, paths []string) ([]*Package, error) {
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export,DepOnly"}, paths...)...)
	list.Dir = dir
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}

	type entry struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		DepOnly                 bool
	}
	var wanted []entry
	exports := make(map[string]string)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var e entry
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[e.ImportPath] = e.Export
		if !e.DepOnly {
			wanted = append(wanted, e)
		}
	}

	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var all []*Package
	for _, e := range wanted {
		p := &Package{Path: e.ImportPath, Dir: e.Dir, Fset: fset, imports: compiled}
		for _, name := range e.GoFiles {
			file, err := p.Parse(filepath.Join(e.Dir, name), nil)
			if err != nil {
				return nil, err
			}
			p.Files = append(p.Files, file)
		}
		if p.Types, p.Info, err = p.Check(p.Files); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Parse reads a file of the package: src, or what is on the disk if that is nil.
func (p *Package) Parse(name string, src []byte) (*ast.File, error) {
	var text any // a nil slice would be an empty file
	if src != nil {
		text = src
	}
	return parser.ParseFile(p.Fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
}

// Check type-checks files in place of the package's own. One goroutine at a time may
// check packages that were loaded together.
func (p *Package) Check(files []*ast.File) (*types.Package, *types.Info, error) {
	info := &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object),
		Uses: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection),
	}
	config := types.Config{Importer: p.imports}
	checked, err := config.Check(p.Path, p.Fset, files, info)
	return checked, info, err
}

// FuncName returns the name of a function within its package: name, or Receiver.name.
func FuncName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	for {
		switch e := t.(type) {
		case *ast.ParenExpr:
			t = e.X
		case *ast.StarExpr:
			t = e.X
		case *ast.IndexExpr:
			t = e.X
		case *ast.IndexListExpr:
			t = e.X
		case *ast.Ident:
			return e.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

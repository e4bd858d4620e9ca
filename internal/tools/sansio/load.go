package main

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

// loaded is one package with the types of all that it names.
type loaded struct {
	path  string
	fset  *token.FileSet
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// load parses and type-checks the packages with these import paths, without their
// tests. What they import is read in compiled form, as the go command gives it.
func load(dir string, paths []string) ([]*loaded, error) {
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
	var all []*loaded
	for _, e := range wanted {
		p := &loaded{
			path: e.ImportPath,
			fset: fset,
			info: &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)},
		}
		for _, name := range e.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(e.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			p.files = append(p.files, file)
		}
		config := types.Config{Importer: compiled}
		if p.types, err = config.Check(e.ImportPath, fset, p.files, p.info); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

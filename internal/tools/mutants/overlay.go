package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/tools/proc"
)

// tree is the source tree of the module whose code the mutants change.
type tree struct {
	dir, module string
	temp        string // a directory for all that is written
	count       int    // directories in it
}

// openTree finds the module that dir is in. Close it after use.
func openTree(dir string) (*tree, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Path}}\n{{.Dir}}")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w\n%s", err, stderr.String())
	}
	t := &tree{}
	t.module, t.dir, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	if t.dir == "" || t.module == "" {
		return nil, fmt.Errorf("%s is not in a module", dir)
	}
	if t.temp, err = os.MkdirTemp("", "mutants"); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *tree) close() { _ = os.RemoveAll(t.temp) }

// aside makes a new directory outside of the tree.
func (t *tree) aside() (string, error) {
	t.count++
	dir := filepath.Join(t.temp, fmt.Sprint(t.count))
	return dir, os.Mkdir(dir, 0o777)
}

// git runs git apply in dir, so that it does not take dir for a part of any repository.
func (t *tree) git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"apply", "--recount"}, args...)...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_CEILING_DIRECTORIES="+t.temp+string(filepath.ListSeparator)+filepath.Dir(t.temp), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git apply: %w\n%s", err, strings.TrimSpace(stderr.String()))
	}
	return string(out), err
}

// load applies a patch to a copy of its files, and finds what it changes.
func (t *tree) load(p *patch) (*mutant, error) {
	file, err := filepath.Abs(p.file)
	if err != nil {
		return nil, err
	}
	stat, err := t.git(t.temp, "--numstat", "--summary", file)
	if err != nil {
		return nil, err
	}
	dir, err := t.aside()
	if err != nil {
		return nil, err
	}
	names, err := touched(stat)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := t.copyFile(dir, name); err != nil {
			return nil, err
		}
	}
	if _, err := t.git(dir, file); err != nil {
		return nil, err
	}
	m := &mutant{patch: p}
	for _, name := range names {
		was, err := parseSource(name, filepath.Join(t.dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		is, err := parseSource(name, filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		c, err := compare(p.name, was, is)
		if err != nil {
			return nil, err
		}
		m.changes = append(m.changes, c)
	}
	if len(m.functions()) == 0 {
		return nil, errors.New("it changes no function")
	}
	return m, nil
}

// copyFile copies a file of the tree to the same place below dir, if it is one that a patch
// may change.
func (t *tree) copyFile(dir, name string) error {
	switch {
	case !strings.HasSuffix(name, ".go"):
		return fmt.Errorf("%s is not a Go file", name)
	case strings.HasSuffix(name, "_test.go"):
		return fmt.Errorf("%s is a test file: a mutant changes the code under test", name)
	case !filepath.IsLocal(name) || path.Clean(name) != name:
		return fmt.Errorf("%q is not the path of a file in the module", name)
	}
	text, err := os.ReadFile(filepath.Join(t.dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, filepath.FromSlash(name)), text)
}

// writeFile writes a file, and makes its directory if necessary.
func writeFile(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o666)
}

// touched returns the files that a patch changes, from the output of
// git apply --numstat --summary.
func touched(stat string) (names []string, err error) {
	for line := range strings.Lines(stat) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, " ") {
			return nil, fmt.Errorf("it adds, removes or renames a file, or changes its mode:%s", line)
		}
		columns := strings.SplitN(line, "\t", 3)
		names = append(names, columns[len(columns)-1])
	}
	return names, nil
}

// overlay writes an overlay with the mutants compiled in, and returns its file.
func (t *tree) overlay(all []*mutant) (string, error) {
	files, err := weave(t.dir, t.module, all)
	if err != nil {
		return "", err
	}
	dir, err := t.aside()
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for rel, text := range files {
		to := filepath.Join(dir, filepath.FromSlash(rel))
		if err := writeFile(to, text); err != nil {
			return "", err
		}
		replace[filepath.Join(t.dir, filepath.FromSlash(rel))] = to
	}
	file := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, text, 0o666)
}

const buildLimit = 10 * time.Minute

// errUnbuilt is the error of code that does not compile.
var errUnbuilt = errors.New("it does not compile")

// build runs the go command with an overlay.
func (t *tree) build(ctx context.Context, overlay, verb string, args ...string) error {
	r, err := proc.Run(ctx, proc.Command{
		Dir: t.dir, Env: os.Environ(), Wall: buildLimit,
		Args: append([]string{"go", verb, "-overlay", overlay}, args...),
	})
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", errUnbuilt, strings.TrimSpace(r.Output))
	}
	return err
}

// testBinary builds a package's tests with an overlay.
func (t *tree) testBinary(ctx context.Context, overlay, pkg string) (string, error) {
	file := filepath.Join(filepath.Dir(overlay), fmt.Sprintf("test-%x", pkg))
	return file, t.build(ctx, overlay, "test", "-c", "-vet=off", "-ldflags=-w", "-o", file, "./"+pkg)
}

// culprits returns the mutants that do not compile, each with the reason.
func (t *tree) culprits(ctx context.Context, some []*mutant) ([]problem, error) {
	err := t.builds(ctx, some)
	switch {
	case len(some) == 0 || err == nil:
		return nil, nil
	case !errors.Is(err, errUnbuilt):
		return nil, err
	case len(some) == 1:
		return []problem{{some[0].name, err}}, nil
	}
	half := len(some) / 2
	first, err := t.culprits(ctx, some[:half])
	if err != nil {
		return nil, err
	}
	second, err := t.culprits(ctx, some[half:])
	return append(first, second...), err
}

// builds compiles the packages that mutants change, and returns an error if that fails.
func (t *tree) builds(ctx context.Context, some []*mutant) error {
	overlay, err := t.overlay(some)
	if err != nil {
		return err
	}
	var pkgs []string
	for _, m := range some {
		for _, dir := range m.dirs() {
			pkgs = append(pkgs, "./"+dir)
		}
	}
	slices.Sort(pkgs)
	return t.build(ctx, overlay, "build", append([]string{"-o", os.DevNull}, slices.Compact(pkgs)...)...)
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/lockmesh/mesh/internal/mutant"
	"github.com/lockmesh/mesh/internal/tools/proc"
)

var moduleLine = regexp.MustCompile(`(?m)^module github\.com/lockmesh/mesh$`)

// sourceTree returns the directory of this module's source, if the command runs in it.
func sourceTree() (dir string, ok bool) {
	dir, err := os.Getwd()
	for err == nil {
		text, missing := os.ReadFile(filepath.Join(dir, "go.mod"))
		if missing == nil {
			return dir, moduleLine.Match(bytes.ReplaceAll(text, []byte("\r"), nil))
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return "", false
}

// mutantNames returns the names of the mutants that this program has, and of those that
// the source tree has.
func mutantNames() []string {
	names := mutant.Active()
	if root, ok := sourceTree(); ok {
		patches, _ := filepath.Glob(filepath.Join(root, "simulate/mutants/*.patch"))
		for _, file := range patches {
			names = append(names, strings.TrimSuffix(filepath.Base(file), ".patch"))
		}
	}
	return names
}

// ownMutant reports whether this program itself has a mutant of that name.
func ownMutant(name string) bool { return slices.Contains(mutant.Active(), name) }

// mutantsOf returns the names in a list that are mutants of the source tree and not the
// program's own. It returns none if a name is neither.
func mutantsOf(list string, own func(name string) bool) (missing []string) {
	root, ok := sourceTree()
	if !ok {
		return nil
	}
	for _, name := range strings.Split(list, ",") {
		if own(name) {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "simulate/mutants", name+".patch")); err != nil || filepath.Base(name) != name {
			return nil
		}
		missing = append(missing, name)
	}
	return missing
}

// runMutants builds this command once more, with mutants in it and switched on, and has it
// run simulate with args.
func runMutants(ctx context.Context, names, args []string, c console) int {
	fail := func(err error) int {
		if ctx.Err() != nil {
			return exitInterrupted
		}
		fmt.Fprintf(c.err, "lockmesh simulate: building with the mutants %s: %v\n", strings.Join(names, ", "), err)
		return exitUsage
	}
	root, ok := sourceTree()
	if !ok {
		return fail(errors.New("it needs the module's source tree"))
	}
	dir, err := os.MkdirTemp("", "lockmesh")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "lockmesh")
	on := strings.Join(append(mutant.Active(), names...), "+")
	build := exec.CommandContext(ctx, "go", "run", "./internal/tools/mutants", "-with", on, "go", "build", "-o", file, "./cmd/lockmesh")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out)))
	}
	cmd := exec.Command(file, append([]string{"simulate"}, args...)...)
	cmd.Env = append(os.Environ(), "LOCKMESH_MUTANTS="+on)
	cmd.Stdout, cmd.Stderr = c.out, c.err
	proc.Lead(cmd) // it hears of signals from here, once
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	over := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer over()
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode()
	} else if err != nil {
		return fail(err)
	}
	return exitOK
}

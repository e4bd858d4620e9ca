package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
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
	build := exec.Command("go", "run", "./internal/tools/mutants", "-with", on, "go", "build", "-o", file, "./cmd/lockmesh")
	build.Dir = root
	var out bytes.Buffer
	build.Stdout, build.Stderr = &out, &out
	if err := runAndSignal(ctx, build); err != nil {
		return fail(fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out.Bytes())))
	}
	cmd := exec.Command(file, append([]string{"simulate"}, args...)...)
	cmd.Env = append(os.Environ(), "LOCKMESH_MUTANTS="+on)
	return runBuilt(ctx, cmd, names, c)
}

// runBuilt runs a command that was built with mutants in it, and returns its exit code.
func runBuilt(ctx context.Context, cmd *exec.Cmd, names []string, c console) int {
	cmd.Stdout, cmd.Stderr = c.out, c.err
	err := runAndSignal(ctx, cmd)
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return exitOK
	case ok && exit.ExitCode() > 0:
		return exit.ExitCode()
	case ctx.Err() != nil:
		return exitInterrupted
	}
	fmt.Fprintf(c.err, "lockmesh simulate: running with the mutants %s: %v\n", strings.Join(names, ", "), err)
	return exitFailed
}

// runAndSignal runs a command in a process group of its own, and passes signals on to the group: the
// first, which ends ctx, as SIGTERM, and the second as SIGKILL.
func runAndSignal(ctx context.Context, cmd *exec.Cmd) error {
	proc.Lead(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	over := make(chan struct{})
	defer close(over)
	stop := context.AfterFunc(ctx, func() {
		second := make(chan os.Signal, 1)
		signal.Notify(second, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(second)
		_ = proc.Signal(cmd, syscall.SIGTERM)
		select {
		case <-second:
			_ = proc.Signal(cmd, syscall.SIGKILL)
		case <-over:
		}
	})
	defer stop()
	return cmd.Wait()
}

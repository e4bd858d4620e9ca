package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lockmesh/mesh/internal/tools/proc"
)

// tracesOf returns what this command prints at another commit. It builds and plays that in a
// work tree of its own, or takes what the cache has of it.
func tracesOf(ctx context.Context, revision string, seeds int) (lines []string, err error) {
	commit, err := output(ctx, "", "git", "rev-parse", "--verify", "--end-of-options", revision+"^{commit}")
	if err != nil {
		return nil, err
	}
	commit = strings.TrimSpace(commit)
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cached := filepath.Join(cache, "lockmesh-traces", commit+"-"+strconv.Itoa(seeds))
	if text, err := os.ReadFile(cached); err == nil {
		return split(string(text)), nil
	}
	dir, err := os.MkdirTemp("", "traces")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tree := filepath.Join(dir, "tree")
	if _, err := output(ctx, "", "git", "worktree", "add", "--detach", tree, commit); err != nil {
		return nil, err
	}
	defer func() {
		_, remove := output(context.WithoutCancel(ctx), "", "git", "worktree", "remove", "--force", tree)
		err = errors.Join(err, remove)
	}()
	built := filepath.Join(dir, "traces")
	if _, err := output(ctx, tree, "go", "build", "-o", built, "./internal/tools/traces"); err != nil {
		return nil, err
	}
	text, err := output(ctx, tree, built, "-seeds", strconv.Itoa(seeds))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(cached), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(cached, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return split(text), nil
}

// output runs a command in dir, or here, and returns what it prints. The end of ctx kills the
// command, and all that it has started.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	proc.Group(cmd)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

func split(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// compare returns one text for each world whose trace differs, or that only one side has.
func compare(was, is []string) (different []string) {
	before := make(map[string]string)
	for _, line := range was {
		world, trace, _ := strings.Cut(line, ": ")
		before[world] = trace
	}
	for _, line := range is {
		world, trace, _ := strings.Cut(line, ": ")
		switch old, known := before[world]; {
		case !known:
			different = append(different, fmt.Sprintf("%s: new", world))
		case old != trace:
			different = append(different, fmt.Sprintf("%s: was %s, is %s", world, old, trace))
		}
		delete(before, world)
	}
	for _, line := range was {
		world, _, _ := strings.Cut(line, ": ")
		if _, left := before[world]; left {
			different = append(different, fmt.Sprintf("%s: gone", world))
		}
	}
	return different
}

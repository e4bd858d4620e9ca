//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The first signal ends a program with mutants as it ends this one, and the second one kills it.
func TestSignalsReachMutants(t *testing.T) {
	own := make(chan os.Signal, 1) // the test lives on, whatever comes of a signal
	signal.Notify(own, syscall.SIGTERM)
	defer signal.Stop(own)
	for script, again := range map[string]bool{
		"trap 'kill $! 2>/dev/null; exit 7' TERM; sleep 60 >/dev/null 2>&1 & echo begun >&2; wait": false,
		"trap '' TERM; echo begun >&2; sleep 60; sleep 60":                                         true,
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		over := make(chan struct{})
		told := heard{text: "begun", then: func() {
			interrupt()
			go func() {
				for again {
					select {
					case <-over:
						return
					case <-time.After(10 * time.Millisecond):
						_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
					}
				}
			}()
		}}
		begun := time.Now()
		code := runBuilt(ctx, exec.Command("sh", "-c", script), []string{"X"}, console{out: &told, err: &told})
		close(over)
		want := 7
		if again {
			want = exitInterrupted
		}
		if took := time.Since(begun); code != want || took > 30*time.Second || told.all.String() != "begun\n" {
			t.Errorf("%s: code %d after %v, want %d\n%s", script, code, took, want, told.all.String())
		}
	}
}

// A program that cannot be started, or is killed, was built, and may have run for hours.
func TestMutantsThatEndBadly(t *testing.T) {
	for script, want := range map[string]string{"kill -9 $$": "signal: killed", "": "no such file"} {
		cmd := exec.Command("sh", "-c", script)
		if script == "" {
			cmd = exec.Command("./nothing")
		}
		var errs strings.Builder
		code := runBuilt(t.Context(), cmd, []string{"X", "Y"}, console{out: &errs, err: &errs})
		if text := errs.String(); code != exitFailed || !strings.HasPrefix(text, "lockmesh simulate: running with the mutants X, Y: ") || !strings.Contains(text, want) {
			t.Errorf("%q: code %d\n%s", script, code, text)
		}
	}
}

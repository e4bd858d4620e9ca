package main

import (
	"bytes"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// TestMain lets the garbage grow as the command does: worlds make much of it and are small.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}

func TestTheSameSeedPrintsTheSameTimeline(t *testing.T) {
	last := ""
	for seed := uint64(1); seed <= 6; seed++ {
		var first, again bytes.Buffer
		if err := run(&first, seed, false); err != nil {
			t.Fatalf("%v\n%v", err, first.String())
		}
		if err := run(&again, seed, false); err != nil {
			t.Fatal(err)
		}
		if first.String() != again.String() {
			t.Fatalf("seed %d has two timelines:\n%v\n%v", seed, first.String(), again.String())
		}
		_, story, _ := strings.Cut(first.String(), "\n")
		if story == last {
			t.Errorf("seeds %d and %d have one timeline", seed-1, seed)
		}
		last = story
	}
}

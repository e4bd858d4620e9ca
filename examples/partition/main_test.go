package main

import (
	"bytes"
	"strings"
	"testing"
)

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

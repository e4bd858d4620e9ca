package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lockmesh/mesh/internal/tools/proc"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
	"github.com/lockmesh/mesh/simulate/story"
)

// storySeeds is how many times each story is played.
const storySeeds = 2

// play returns the lines of all worlds of this build: drills by seed, then stories by name. A
// world that fails is an error.
func play(ctx context.Context, seeds int) ([]string, error) {
	var worlds []func() (string, error)
	for seed := range uint64(seeds) {
		worlds = append(worlds, func() (string, error) { return playDrill(seed + 1) })
	}
	files, err := filepath.Glob("simulate/story/testdata/*/*.txt")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no stories below simulate/story/testdata: run this in the module's root")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for seed := range uint64(storySeeds) {
			worlds = append(worlds, func() (string, error) { return playStory(filepath.Base(file), text, seed+1) })
		}
	}
	return all(ctx, worlds)
}

// all plays the worlds, as many at a time as there are processors, and returns their lines in
// the order of worlds, or the first error.
func all(ctx context.Context, worlds []func() (string, error)) ([]string, error) {
	lines := make([]string, len(worlds))
	err := proc.Each(ctx, len(worlds), runtime.GOMAXPROCS(0), func(_ context.Context, i int) (err error) {
		lines[i], err = worlds[i]()
		return err
	})
	return lines, err
}

// playDrill plays a drill that is small, so that two thousand take a minute or two.
func playDrill(seed uint64) (string, error) {
	profiles := simulate.Profiles()
	opts := simulate.Options{
		Seed:    seed,
		Profile: profiles[seed%uint64(len(profiles))],
		Set: map[string]int64{
			"hosts": 3 + int64(seed%5), "storm-s": 8, "faults": 0, "calls": 0, "thousands": 0,
		},
	}
	o := simulate.Play(opts, drill.Play)
	if o.Err != nil {
		return "", fmt.Errorf("drill %d: %w", seed, o.Err)
	}
	return fmt.Sprintf("drill %s %d: %016x after %d events", opts.Profile, seed, o.Hash, o.Events), nil
}

func playStory(name string, text []byte, seed uint64) (string, error) {
	s, err := story.Parse(name, text)
	if err != nil {
		return "", err
	}
	run := s.Play(simulate.Options{Seed: seed})
	if run.Err != nil {
		return "", fmt.Errorf("story %s: %w", name, run.Err)
	}
	return fmt.Sprintf("story %s %d: %016x after %v", strings.TrimSuffix(name, ".txt"), seed, run.Hash, run.Duration), nil
}

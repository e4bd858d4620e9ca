package drill_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
)

// The sizes of a drill are known before it begins, so that a command that sets them can be told
// what there is.
func TestNewDrawsEverything(t *testing.T) {
	for _, p := range simulate.Profiles() {
		var before []simulate.Parameter
		o := simulate.Play(simulate.Options{Seed: 1, Profile: p, Set: map[string]int64{"storm-s": 5}}, func(w *simulate.World) error {
			d := drill.New(w)
			before = slices.Clone(w.Parameters())
			return d.Run()
		})
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if !slices.Equal(o.Parameters, before) {
			t.Errorf("%s: a drill of %v ends with %v", p, before, o.Parameters)
		}
		if len(o.Faults) == 0 && p != simulate.Calm {
			t.Errorf("%s: no faults", p)
		}
		if o.Grants == 0 {
			t.Errorf("%s: nobody got anything", p)
		}
	}
}

// Each kind of thousands comes about when it is drawn, and a drill with it ends well. Their node
// may end before they come: of a few worlds they come to one at least.
func TestThousandsCome(t *testing.T) {
	for of := range int64(4) {
		calls := 0
		for seed := uint64(1); seed <= 8 && calls < 1800; seed++ {
			set := map[string]int64{"thousands": 995, "thousands-of": of, "storm-s": 10}
			o := simulate.Play(simulate.Options{Seed: seed, Profile: simulate.Flaky, Set: set}, drill.Play)
			if o.Err != nil {
				t.Errorf("%d: %v", of, o.Err)
			}
			calls = max(calls, o.Calls)
		}
		if calls < 1800 {
			t.Errorf("%d: %d calls", of, calls)
		}
	}
}

// Keepers' uses outlive their sessions, in a few worlds in which guests do nothing else; with -short, as in TestVisitors, in one.
func TestKeepers(t *testing.T) {
	last := uint64(6)
	if testing.Short() {
		last = 1
	}
	set := only(map[string]int64{"guests": 2, "guest-keys": 2, "guest-patience-ms": 2500, "storm-s": 20, "founders": 4}, "guest-keep")
	for seed := uint64(1); seed <= last; seed++ {
		if o := simulate.Play(simulate.Options{Seed: seed, Profile: simulate.LAN, Set: set}, drill.Play); o.Err != nil {
			t.Errorf("%v", o.Err)
		}
	}
}

// only adds to parameters that guests do one thing, and nothing else.
func only(set map[string]int64, deed string) map[string]int64 {
	w := simulate.Play(simulate.Options{Seed: 1}, func(w *simulate.World) error { drill.New(w); return nil })
	for _, p := range w.Parameters {
		if strings.HasPrefix(p.Name, "guest-") && set[p.Name] == 0 {
			set[p.Name] = p.Least
		}
	}
	set[deed] = 9
	return set
}

// Visitors come to most nodes, and are told what holds. (Each drill has few of them, or none.) -short plays two of the worlds:
// it is for the race detector, under which each takes many seconds, and a world is one goroutine.
func TestVisitors(t *testing.T) {
	set := only(map[string]int64{"guests": 2, "guest-keys": 2, "guest-patience-ms": 2500, "storm-s": 20}, "guest-visit")
	last := uint64(20)
	if testing.Short() {
		last = 14
	}
	for seed := uint64(13); seed <= last; seed++ { // in three of the eight somebody comes back to an earlier node at a bad moment
		o := simulate.Play(simulate.Options{Seed: seed, Profile: simulate.Profiles()[seed%4], Set: set}, drill.Play)
		if o.Err != nil {
			t.Errorf("%v", o.Err)
		}
	}
}

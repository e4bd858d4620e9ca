package concurrency

import (
	"slices"
	"testing"

	"github.com/lockmesh/mesh"
)

// An observer hears of each leader and each value once, and of nobody and of what is not known not at all.
func TestLeaders(t *testing.T) {
	state := func(token, sequence uint64, unknown bool) mesh.LeaderState {
		return mesh.LeaderState{Token: token, Sequence: sequence, Unknown: unknown}
	}
	all := []mesh.LeaderState{
		state(0, 0, false), state(7, 0, false), state(7, 0, true), state(7, 0, false), state(7, 1, false), state(0, 0, false), state(9, 0, false), state(9, 0, true),
	}
	var got [][2]uint64
	for l := range leaders(slices.Values(all)) {
		if l.Unknown {
			t.Errorf("it hears of what is not known: %+v", l)
		}
		got = append(got, [2]uint64{l.Token, l.Sequence})
	}
	if want := [][2]uint64{{7, 0}, {7, 1}, {9, 0}}; !slices.Equal(got, want) {
		t.Errorf("it hears of %v, want %v", got, want)
	}
}

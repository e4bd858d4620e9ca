package simulate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
)

// playSettle plays a fleet of three with one shard, and a load that outlives what is done to a
// follower.
func playSettle(seed uint64, b bug.Bug, harm func(w *simulate.World, follower string)) error {
	o := simulate.Play(simulate.Options{
		Seed: seed, Bugs: bug.Of(b).Names(), Link: simulate.Link{Latency: time.Millisecond, Jitter: time.Millisecond},
		Set: map[string]int64{"hosts": 3, "shards": 1, "lockers": 3, "core": 0},
	}, func(w *simulate.World) error {
		l := drill.New(w).Lockers
		l.Start(w)
		begun := 0
		if err := w.RunUntil(func() bool { begun, _ = w.History().Calls(); return begun >= 50 }, time.Minute); err != nil {
			return err
		}
		leads := w.Serving(0)
		i := slices.IndexFunc(w.Hosts(), func(h *simulate.Host) bool { return !slices.Contains(leads, h.Name()) })
		harm(w, w.Hosts()[i].Name())
		if err := w.Err(); err != nil {
			return err
		}
		w.HealAll()
		return l.Settle()
	})
	return o.Err
}

// Promise: G6, after all faults every voter is in step with its leader, and not some majority.
// Method: a follower misses more than the log keeps, and the snapshot that is sent for it does
// not arrive; or its replica stops. The other two go on all the while.
func TestEveryVoterComesIntoStep(t *testing.T) {
	for _, tt := range []struct {
		name string
		bug  bug.Bug // which this must show, or none
		harm func(w *simulate.World, follower string)
	}{
		{"a snapshot is lost", bug.FailureUnreported, func(w *simulate.World, follower string) {
			w.Net.Isolate(follower)
			_ = w.Run(20 * time.Second)
			dropped := 0
			stop := w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
				if f.To == follower && f.Says("snapshot chunk") {
					dropped++
					return simulate.Drop
				}
				return simulate.Pass
			})
			w.Net.Heal()
			_ = w.Run(6 * time.Second)
			stop()
			w.Always("a snapshot is lost", dropped > 0, "the follower needed none")
		}},
		{"a replica stops", 0, func(w *simulate.World, follower string) { w.Host(follower).BreakReplica(0) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 5; seed++ {
				if err := playSettle(seed, 0, tt.harm); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if tt.bug == 0 {
					continue
				}
				err := playSettle(seed, tt.bug, tt.harm)
				if err == nil || !strings.HasPrefix(err.Error(), "G6 step") {
					t.Errorf("seed %d: %v, want a complaint of who is not in step", seed, err)
				} else if seed == 1 {
					t.Log(strings.SplitN(err.Error(), "\n", 2)[0])
				}
			}
		})
	}
}

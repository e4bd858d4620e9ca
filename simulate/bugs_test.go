package simulate

import (
	"strings"
	"testing"
	"time"
)

// A checker that never fails proves nothing: each bug of the fake service must be
// noticed, by the checker that is there for it.
func TestFakeBugsAreCaught(t *testing.T) {
	tests := []struct {
		name string
		bugs fakeBugs
		want []string // any of these
	}{
		{"the queue is a stack", fakeBugs{jumpers: true}, []string{"G3"}},
		{"a retry queues twice", fakeBugs{noDedup: true}, []string{"G4", "G6", "disagree"}},
		{"the holder believes until its release is answered", fakeBugs{lateBelief: true}, []string{"G1"}},
		{"sessions expire too soon", fakeBugs{shortLease: true}, []string{"G1", "G2", "G5"}},
		{"the client never learns of its loss", fakeBugs{neverLost: true}, []string{"G1", "G5", "P8"}},
		{"tokens do not grow", fakeBugs{sameToken: true}, []string{"G2"}},
		{"cancelled waiters stay", fakeBugs{keepCancels: true}, []string{"G4", "G6"}},
		{"an expiry wakes nobody", fakeBugs{stuck: true}, []string{"G4", "G6"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			seed := uint64(0)
			for err == nil && seed < 80 {
				seed++
				w, l := fakeWorld(Options{Seed: seed, Profile: Flaky}, tt.bugs)
				err = l.Run(w, ChaosOptions{For: 40 * time.Second, MayCrash: mayCrashClients})
				w.Close()
			}
			if err == nil {
				t.Fatalf("not noticed in %d worlds", seed)
			}
			for _, want := range tt.want {
				if strings.Contains(err.Error(), want) {
					t.Logf("seed %d: %s", seed, strings.SplitN(err.Error(), "\n", 2)[0])
					return
				}
			}
			t.Errorf("noticed, but not by %v: %v", tt.want, err)
		})
	}
}

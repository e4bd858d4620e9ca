package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// A leaver waits until the last of its replicas knows that it is removed. Nobody tells it
// for some seconds, or whoever removed it leaves as well. A replica that hears nothing of
// its shard any more asks.
func TestALeaverAsksWhetherItIsRemoved(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newTrial(t, simulate.Options{Seed: seed}, trialTTL, 2+int(seed%3))
			var first time.Duration
			lost := w.Rule(func(f simulate.Frame) simulate.Verdict {
				if f.To != "b" || !f.Says("you are removed") {
					return simulate.Pass
				}
				if first == 0 {
					first = w.Now()
				}
				if w.Now()-first > 5500*time.Millisecond {
					return simulate.Pass
				}
				return simulate.Drop
			})
			defer lost()
			w.check(w.leave("b", 10*time.Second))
			if first == 0 {
				t.Error("nothing was lost")
			}
		})
	}
}

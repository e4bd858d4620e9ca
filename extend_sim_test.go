package mesh_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// A lock of fixed length is extended at the moment at which the leader of its shard leaves.
// Nobody else gets its key before the holder has stopped to believe in the new length.
func TestExtendWhileTheLeaderLeaves(t *testing.T) {
	for delay := 60 * time.Millisecond; delay <= 180*time.Millisecond; delay += 20 * time.Millisecond {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			w := newTrial(t, simulate.Options{Seed: 8}, trialTTL, 5)
			key := w.ledBy("a")
			l := w.lock("c", key, mesh.MaxHold(trialTTL))
			granted := time.Duration(0)
			w.begin("b", func(ctx context.Context, n *mesh.Node) {
				_, err := n.Lock(ctx, key)
				w.check(err)
				granted = w.Now()
			})
			w.SetLinks(simulate.Link{Latency: 40 * time.Millisecond})
			w.pass(trialTTL * 7 / 10)
			extended := time.Duration(0)
			w.begin("c", func(ctx context.Context, n *mesh.Node) {
				_ = simulate.Sleep(ctx, delay) // until the handover begins, or somewhat longer
				extended = w.Now()
				w.check(l.Extend(ctx, trialTTL))
			})
			w.begin("a", func(ctx context.Context, n *mesh.Node) { w.check(n.Leave(ctx)) })
			w.pass(2 * trialTTL)
			w.between("the extended lock, to the next grant,", granted-extended, trialTTL, trialTTL+time.Second)
		})
	}
}

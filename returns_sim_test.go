package mesh_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Nodes are killed and come back, at once or after gossip has declared them dead. Meanwhile
// Members on the other nodes lists each name once, and the node itself.
func TestAReturningNodeIsListedOnce(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newTrial(t, simulate.Options{Seed: seed, Profile: simulate.Flaky, Set: truthful()}, trialTTL, 3)
			watch := func(host string) {
				n := w.nodes[host]
				w.Host(host).Go("watch", func(ctx context.Context) {
					for n.Err() == nil && simulate.Sleep(ctx, time.Millisecond) == nil {
						members := n.Members()
						if len(slices.CompactFunc(slices.Clone(members), func(a, b mesh.Member) bool { return a.Name == b.Name })) != len(members) {
							t.Errorf("%s lists a name twice: %+v", host, members)
							return
						}
						if !slices.ContainsFunc(members, func(m mesh.Member) bool { return m.Name == host && m.State == mesh.MemberAlive }) {
							t.Errorf("%s does not list itself: %+v", host, members)
							return
						}
					}
				})
			}
			watch("a")
			watch("b")
			for i, victim := range []string{"c", "b", "c", "b"} {
				w.Host(victim).Crash()
				w.pass(time.Duration(i) * time.Second)
				w.Host(victim).Restart()
				w.Host(victim).Go("join", func(ctx context.Context) { w.join(ctx, victim) })
				gone := w.nodes[victim]
				w.until(victim+" is back", time.Minute, func() bool { return w.nodes[victim] != gone })
				watch(victim)
			}
			w.pass(5 * time.Second)
		})
	}
}

package mesh_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Near the leader records of sessions come and go, each of them faster than a request
// travels from far away. The far node's first lock takes a round trip nevertheless.
func TestAFarNodeIsServedToo(t *testing.T) {
	w := newTrialOf(t, simulate.Options{Seed: 1}, trialTTL, 4, 1)
	near, far := w.replicas("k")[0], ""
	for _, h := range w.Hosts() {
		if h.Name() != w.replicas("k")[1] && h.Name() != w.replicas("k")[2] && h.Name() != near {
			far = h.Name()
		}
	}
	w.SetLinks(simulate.Link{Latency: time.Millisecond})
	for _, h := range w.Hosts() {
		if h.Name() != far {
			w.SetLink(far, h.Name(), simulate.Link{Latency: 40 * time.Millisecond})
		}
	}
	done := false
	for i := range 4 {
		w.begin(near, func(ctx context.Context, n *mesh.Node) {
			for !done {
				l, err := n.Lock(ctx, fmt.Sprint("near", i), mesh.MaxHold(time.Second))
				if w.check(err); err != nil {
					return
				}
				w.check(l.Unlock(ctx))
			}
		})
	}
	w.pass(500 * time.Millisecond)
	w.at(far, func(ctx context.Context, n *mesh.Node) {
		ctx, cancel := simulate.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		start := w.Now()
		l, err := n.Lock(ctx, "k")
		if w.check(err); err == nil {
			w.between("a lock from far away", w.Now()-start, 80*time.Millisecond, 160*time.Millisecond)
			w.check(l.Unlock(ctx))
		}
	})
	done = true
	w.pass(time.Second)
}

package mesh_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/simulate"
)

const trialShards = 8

// trial is a simulated world with a mesh in it, one node per host.
type trial struct {
	t *testing.T
	*simulate.World
	ttl    time.Duration
	shards int
	seeds  []string
	nodes  map[string]*mesh.Node
}

// newTrial returns a mesh that serves and is fully replicated. All its nodes are at entries of the list,
// so that its shards are on the nodes that the ring of entries names.
func newTrial(t *testing.T, opts simulate.Options, ttl time.Duration, size int) *trial {
	t.Helper()
	return newTrialOf(t, opts, ttl, size, trialShards)
}

func newTrialOf(t *testing.T, opts simulate.Options, ttl time.Duration, size, shards int) *trial {
	t.Helper()
	w := &trial{t: t, World: simulate.New(opts), ttl: ttl, shards: shards, nodes: make(map[string]*mesh.Node)}
	t.Cleanup(w.Close)
	var names []string
	for i := range size {
		names = append(names, string(rune('a'+i)))
		w.Host(names[i])
	}
	for _, name := range names {
		w.seeds = append(w.seeds, name+":7400")
	}
	for _, name := range names {
		w.Host(name).Go("join", func(ctx context.Context) { w.join(ctx, name) })
	}
	w.until("all have joined", time.Minute, func() bool { return len(w.nodes) == size })
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		w.check(n.WaitHealthy(ctx))
	})
	w.until("a new mesh grants", 2*ttl, func() bool {
		for _, n := range w.nodes {
			if !n.Health().QuietUntil.IsZero() {
				return false
			}
		}
		return true
	})
	return w
}

// join joins the node of a host.
func (w *trial) join(ctx context.Context, host string, more ...mesh.Option) *mesh.Node {
	opts := append([]mesh.Option{
		mesh.WithName(host), mesh.WithBind(":7400"), mesh.WithShards(w.shards),
		mesh.WithLeaseTTL(w.ttl), mesh.WithMaxTTL(w.ttl), mesh.WithLogger(simulate.Logger(ctx)),
	}, more...)
	n, err := mesh.JoinContext(ctx, w.seeds, opts...)
	if err != nil {
		w.t.Errorf("%s joins: %v", host, err)
		return nil
	}
	w.nodes[host] = n
	return n
}

func (w *trial) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

// until lets time pass until cond holds.
func (w *trial) until(what string, within time.Duration, cond func() bool) {
	w.t.Helper()
	if err := w.RunUntil(cond, within); err != nil {
		w.t.Fatalf("%s: %v\n%v", what, err, w.Timeline())
	}
}

// pass lets time pass.
func (w *trial) pass(d time.Duration) {
	w.t.Helper()
	if err := w.Run(d); err != nil {
		w.t.Fatalf("%v\n%v", err, w.Timeline())
	}
}

// begin runs f on a host, and returns a function that waits for its end.
func (w *trial) begin(host string, f func(ctx context.Context, n *mesh.Node)) (wait func()) {
	over := false
	w.Host(host).Go("caller", func(ctx context.Context) {
		f(ctx, w.nodes[host])
		over = true
	})
	return func() {
		w.t.Helper()
		w.until("a call on "+host, 2*time.Minute, func() bool { return over })
	}
}

// at runs f on a host, to its end.
func (w *trial) at(host string, f func(ctx context.Context, n *mesh.Node)) {
	w.t.Helper()
	w.begin(host, f)()
}

// lock locks key on a host.
func (w *trial) lock(host, key string, opts ...mesh.LockOption) (l *mesh.Lock) {
	w.t.Helper()
	var err error
	w.at(host, func(ctx context.Context, n *mesh.Node) { l, err = n.Lock(ctx, key, opts...) })
	if err != nil {
		w.t.Fatalf("%s locks %q: %v", host, key, err)
	}
	return l
}

// unlock unlocks l on its host, with some patience.
func (w *trial) unlock(host string, l *mesh.Lock, patience time.Duration) (err error) {
	w.t.Helper()
	w.at(host, func(ctx context.Context, _ *mesh.Node) {
		ctx, cancel := simulate.WithTimeout(ctx, patience)
		defer cancel()
		err = l.Unlock(ctx)
	})
	return err
}

// free reports whether a host can lock key at once: no caller holds it or waits for it.
func (w *trial) free(host, key string) (free bool) {
	w.t.Helper()
	w.at(host, func(ctx context.Context, n *mesh.Node) {
		l, err := n.TryLock(ctx, key)
		if err == nil {
			free = true
			w.check(l.Unlock(ctx))
		}
	})
	return free
}

// replicas returns where the shard of a key lives, its owner first.
func (w *trial) replicas(key string) []string {
	var members []ring.Member
	for _, h := range w.Hosts() {
		members = append(members, ring.Member{Name: h.Name() + ":7400"}) // its entry
	}
	at := ring.New(members, w.shards, 3).Replicas(ring.Shard(key, w.shards))
	for i := range at {
		at[i] = strings.TrimSuffix(at[i], ":7400")
	}
	return at
}

// keyWhere returns a key whose replicas satisfy fit.
func (w *trial) keyWhere(fit func(replicas []string) bool) string {
	w.t.Helper()
	for i := range 1000 {
		if key := fmt.Sprint("key", i); fit(w.replicas(key)) {
			return key
		}
	}
	w.t.Fatal("no key fits")
	return ""
}

// ledBy returns a key whose shard a host owns.
func (w *trial) ledBy(host string) string {
	w.t.Helper()
	return w.keyWhere(func(r []string) bool { return r[0] == host })
}

// between fails unless d is in a range.
func (w *trial) between(what string, d, from, to time.Duration) {
	w.t.Helper()
	if d < from || d > to {
		w.t.Errorf("%s: %v, want %v to %v", what, d, from, to)
	}
}

package mesh_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// traffic counts the frames of a world.
type traffic struct {
	frames, bytes int // to or from one host of the core
	between       int // two clients
	gossip        int // to or from a client
}

// watch counts, from now on, the frames of a host, in a world in which clients have names of more than one letter.
func (w *trial) watch(host string) *traffic {
	t := &traffic{}
	client := func(host string) bool { return len(host) > 1 }
	w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		if f.From == host || f.To == host {
			t.frames, t.bytes = t.frames+1, t.bytes+len(f.Body)
		}
		if client(f.From) && client(f.To) {
			t.between++
		}
		if f.Kind == transport.KindGossip && (client(f.From) || client(f.To)) {
			t.gossip++
		}
		return simulate.Pass
	})
	return t
}

// clients lets so many clients join.
func (w *trial) clients(n int, opts ...mesh.Option) {
	w.t.Helper()
	for i := range n {
		name := fmt.Sprint("client", i)
		w.Host(name).Go("join", func(ctx context.Context) { w.joinAs(ctx, name, opts...) })
	}
	w.until("all clients have joined", time.Minute, func() bool { return len(w.nodes) == len(w.seeds)+n })
}

// joinAs joins the node of a host with these options alone.
func (w *trial) joinAs(ctx context.Context, host string, opts ...mesh.Option) {
	n, err := mesh.JoinContext(ctx, w.seeds, append(opts, mesh.WithName(host), mesh.WithLeaseTTL(w.ttl), mesh.WithLogger(simulate.Logger(ctx)))...)
	if w.check(err); err == nil {
		w.nodes[host] = n
	}
}

// Promise: C1: what a client costs a node of the core does not depend on how many there are: a few frames in five
// seconds, and one of each kind a second while something changes. Clients do not speak with each other.
func TestWhatClientsCost(t *testing.T) {
	const clients = 200
	w := newTrial(t, simulate.Options{Seed: 1}, 10*time.Second, 3)
	busy := w.watch("a")
	measure := func(d time.Duration) (frames, bytes float64) {
		before := *busy
		w.pass(d)
		return float64(busy.frames-before.frames) / d.Seconds(), float64(busy.bytes-before.bytes) / d.Seconds()
	}
	alone, _ := measure(20 * time.Second)
	w.clients(clients, mesh.WithClientOnly())
	w.pass(10 * time.Second)
	frames, bytes := measure(20 * time.Second)
	t.Logf("a node of the core, in a second: %.0f frames without clients, %.0f frames and %.0f bytes with %d", alone, frames, bytes, clients)
	if each := (frames - alone) / clients; each > 1 {
		t.Errorf("each client costs it %.2f frames in a second", each)
	}
	if m := w.nodes["a"].Members(); len(m) != 3+clients {
		t.Errorf("a node of the core knows %d members", len(m))
	}
	if m := w.nodes["client7"].Members(); len(m) != 4 {
		t.Errorf("a client knows %d members", len(m))
	}
	w.Host("c").Crash()
	w.pass(time.Second)
	w.Host("c").Go("join", func(ctx context.Context) { w.join(ctx, "c") })
	restart, _ := measure(10 * time.Second)
	t.Logf("while another one restarts: %.0f frames in a second", restart)
	if each := (restart - alone) / clients; each > 8 {
		t.Errorf("while something changes, each client costs it %.2f frames in a second", each)
	}
	if busy.between > 0 || busy.gossip > 0 {
		t.Errorf("%d frames between clients, %d of gossip with them", busy.between, busy.gossip)
	}
}

// Promise: C1, P15: a client that opens no port, and after it has joined reaches one node of the core only, locks
// through that one, and keeps its lock while leaders change.
func TestAClientThatReachesOneNode(t *testing.T) {
	for _, reached := range []string{"a", "b", "c"} {
		w := newTrial(t, simulate.Options{Seed: 2}, 10*time.Second, 3)
		w.clients(1, mesh.WithClientOnly())
		for _, host := range []string{"a", "b", "c"} {
			if host != reached {
				w.Net.PartitionOneWay([]string{host}, []string{"client0"})
				w.Net.PartitionOneWay([]string{"client0"}, []string{host})
			}
		}
		w.pass(10 * time.Second)
		w.lock("client0", "k")
		for _, host := range []string{"a", "b", "c"} {
			if host != reached {
				w.Host(host).Crash()
				w.pass(30 * time.Second)
				w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
				w.pass(30 * time.Second)
				if w.free(reached, "k") {
					t.Errorf("it reaches %s, %s was away: its lock is free", reached, host)
				}
			}
		}
	}
}

package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// watched is what an observer of an election has seen.
type watched struct {
	states []mesh.LeaderState
	over   bool
}

func (o *watched) last() mesh.LeaderState {
	if len(o.states) == 0 {
		return mesh.LeaderState{Unknown: true}
	}
	return o.states[len(o.states)-1]
}

// shows reports whether the last state is a leader with this value.
func (o *watched) shows(value string) bool {
	return o.last().Token != 0 && string(o.last().Value) == value
}

// observes lets an observer on a host watch an election until its host ends, and judges what it sees: tokens never go back, nor
// sequences of one token; and no state comes twice.
func (w *trial) observes(host, name string) *watched {
	o := &watched{}
	n := w.nodes[host]
	w.Host(host).Go("observer", func(ctx context.Context) {
		token, sequence := uint64(0), uint64(0)
		for s := range n.Election(name).Observe(ctx) {
			if s.Token != 0 {
				if s.Token < token || s.Token == token && s.Sequence < sequence {
					w.t.Errorf("%s saw token %d sequence %d after token %d sequence %d", host, s.Token, s.Sequence, token, sequence)
				}
				token, sequence = s.Token, s.Sequence
			}
			if l := o.last(); len(o.states) > 0 && l.Token == s.Token && l.Sequence == s.Sequence && l.Unknown == s.Unknown {
				w.t.Errorf("%s saw %+v twice", host, s)
			}
			o.states = append(o.states, s)
		}
		o.over = true
	})
	return o
}

// campaigns returns a leadership on a host.
func (w *trial) campaigns(host, name, value string) (l *mesh.Leadership) {
	w.t.Helper()
	w.at(host, func(ctx context.Context, n *mesh.Node) {
		var err error
		l, err = n.Election(name).Campaign(ctx, []byte(value))
		w.check(err)
	})
	return l
}

// Promise: P46: one leads; candidates follow in their order, with a larger token; everybody sees the leader, and what it proclaims.
func TestAnElection(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		d, e := w.observes("d", "boss"), w.observes("e", "boss")
		w.until("they see nobody", time.Second, func() bool { return len(d.states) == 1 && d.last().Token == 0 && !d.last().Unknown })
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			if _, err := n.Election("boss").Leader(ctx); !errors.Is(err, mesh.ErrNoLeader) {
				t.Errorf("a leader before the first: %v", err)
			}
		})
		first := w.campaigns("a", "boss", "a1")
		w.until("they see a", time.Second, func() bool { return d.shows("a1") && e.shows("a1") })
		var second *mesh.Leadership
		waits := w.begin("b", func(ctx context.Context, n *mesh.Node) {
			var err error
			second, err = n.Election("boss").Campaign(ctx, []byte("b1"))
			w.check(err)
		})
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			w.check(first.Proclaim(ctx, []byte("a2")))
			s, err := n.Election("boss").Leader(ctx)
			if err != nil || s.Token != first.Token() || s.Sequence != 1 || string(s.Value) != "a2" || s.Node != "a" || s.Unknown {
				t.Errorf("seed %d: the leader is %+v, %v", seed, s, err)
			}
			if _, err := n.Lock(ctx, "boss"); !errors.Is(err, mesh.ErrCapacityMismatch) {
				t.Errorf("an election is locked: %v", err)
			}
			if _, err := n.Resource("boss").Pull(ctx, doNothing); !errors.Is(err, mesh.ErrCapacityMismatch) {
				t.Errorf("an election is pulled: %v", err)
			}
			if _, err := n.Election("boss").Campaign(first.WithContext(ctx), nil); !errors.Is(err, mesh.ErrSelfDeadlock) {
				t.Errorf("a leader campaigns in its own context: %v", err)
			}
		})
		w.until("they see a2", time.Second, func() bool { return d.shows("a2") && e.shows("a2") })
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			w.check(first.Resign(ctx))
			if err := first.Proclaim(ctx, nil); err != mesh.ErrClosed {
				t.Errorf("proclaimed after it resigned: %v", err)
			}
		})
		waits()
		if second.Token() <= first.Token() || first.Context().Err() == nil || second.Err() != nil {
			t.Errorf("seed %d: token %d after %d", seed, second.Token(), first.Token())
		}
		w.until("they see b", time.Second, func() bool { return d.shows("b1") && e.shows("b1") })
		w.at("b", func(ctx context.Context, n *mesh.Node) { w.check(second.Resign(ctx)) })
		w.until("they see nobody again", time.Second, func() bool { return d.last().Token == 0 && !d.last().Unknown && e.last().Token == 0 })
		w.at("c", func(ctx context.Context, n *mesh.Node) {
			l, err := n.Lock(ctx, "boss")
			w.check(err)
			w.check(l.Unlock(ctx))
		})
	}
}

// Promise: a leader that is killed is followed within its TTL and 0.5 s, and observers see that.
func TestALeaderIsKilled(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		o := w.observes("c", "boss")
		w.campaigns("e", "boss", "e")
		acts := false
		w.begin("d", func(ctx context.Context, n *mesh.Node) {
			_ = n.Election("boss").Lead(ctx, []byte("d"), func(ctx context.Context, l *mesh.Leadership) error {
				acts = true
				return simulate.Wait(ctx, nil)
			})
		})
		w.until("c sees e", time.Second, func() bool { return o.shows("e") })
		w.Host("e").Crash()
		start := w.Now()
		w.until("the next one acts", 10*time.Second, func() bool { return acts })
		w.between("the next one acts after", w.Now()-start, 0, w.ttl+500*time.Millisecond)
		w.until("c sees d", time.Second, func() bool { return o.shows("d") })
	}
}

// Promise: P46: after the shard's leader was killed its successor tells the observers, without a question in between that they would have
// to wait for; also of a leader that was chosen meanwhile.
func TestObserversFollowTheShardsLeader(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 10*time.Second, 5)
		name := w.ledBy("e")
		o := w.observes("c", name)
		l := w.campaigns("a", name, "a")
		w.until("c sees a", time.Second, func() bool { return o.shows("a") })
		w.Host("e").Crash()
		w.at("a", func(ctx context.Context, n *mesh.Node) { w.check(l.Resign(ctx)) })
		w.campaigns("b", name, "b")
		w.until("c sees b", time.Second, func() bool { return o.shows("b") })
	}
}

// Promise: P46: an observer that is cut off says so after a TTL: unknown, neither the leader of before nor none. Once it is
// back it sees the last leader.
func TestAnObserverIsCutOff(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		name := w.keyWhere(func(r []string) bool { return r[0] != "e" && r[1] != "e" && r[2] != "e" })
		o := w.observes("e", name)
		l := w.campaigns("a", name, "a")
		w.until("e sees a", time.Second, func() bool { return o.shows("a") })
		w.Net.Isolate("e")
		w.at("a", func(ctx context.Context, n *mesh.Node) { w.check(l.Proclaim(ctx, []byte("a2"))) })
		start := w.Now()
		w.until("e knows that it does not know", 10*time.Second, func() bool { return o.last().Unknown })
		w.between("e says so after", w.Now()-start, w.ttl/2, w.ttl+time.Second)
		w.at("a", func(ctx context.Context, n *mesh.Node) { w.check(l.Resign(ctx)) })
		w.campaigns("b", name, "b")
		if len(o.states) != 3 && len(o.states) != 2 {
			t.Errorf("seed %d: it saw %+v", seed, o.states)
		}
		w.Net.Heal()
		w.until("e sees b", 10*time.Second, func() bool { return o.shows("b") })
	}
}

// Promise: P46, C8: when a shard has lost its table, its leader is reported with what it has proclaimed; until the new table knows, nobody
// says who leads, and nobody says that nobody does.
func TestALeaderOutlivesItsShard(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 3)
		w.Host("x").Go("join", func(ctx context.Context) { w.nodes["x"] = joinClient(ctx, w) })
		w.until("a client has joined", time.Minute, func() bool { return w.nodes["x"] != nil })
		o := w.observes("x", "boss")
		l := w.campaigns("x", "boss", "x1")
		w.at("x", func(ctx context.Context, n *mesh.Node) { w.check(l.Proclaim(ctx, []byte("x2"))) })
		w.until("x sees x2", time.Second, func() bool { return o.shows("x2") })
		before := len(o.states)
		for _, host := range []string{"a", "b", "c"} {
			w.Host(host).Crash()
			w.Host(host).Restart()
			w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
		}
		w.pass(time.Second)
		w.until("the shard grants", time.Minute, func() bool {
			return w.nodes["a"].Health().QuietUntil.IsZero() && w.nodes["b"].Health().QuietUntil.IsZero() && w.nodes["c"].Health().QuietUntil.IsZero()
		})
		w.until("x sees x2 again", 5*time.Second, func() bool { return o.shows("x2") })
		for _, s := range o.states[before:] {
			if s.Token == 0 && !s.Unknown {
				t.Errorf("seed %d: nobody leads, says the new table: %+v", seed, o.states)
			}
		}
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			s, err := n.Election("boss").Leader(ctx)
			if err != nil || s.Token != l.Token() || string(s.Value) != "x2" || s.Sequence != 1 {
				t.Errorf("seed %d: %+v, %v", seed, s, err)
			}
		})
		w.at("x", func(ctx context.Context, n *mesh.Node) {
			w.check(l.Proclaim(ctx, []byte("x3")))
			w.check(l.Resign(ctx))
		})
		next := w.campaigns("b", "boss", "b")
		if next.Token() <= l.Token() {
			t.Errorf("seed %d: token %d after %d", seed, next.Token(), l.Token())
		}
		w.until("x sees b", time.Second, func() bool { return o.shows("b") })
	}
}

// Promise: P46: of values that a leader proclaims the last one stays, in whatever order they arrive.
func TestProclamationsArriveLate(t *testing.T) {
	for seed := range fewer[uint64](5, 50) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		name := w.ledBy("a")
		o := w.observes("c", name)
		l := w.campaigns("e", name, "0")
		done := 0
		for i := range 20 {
			w.begin("e", func(ctx context.Context, n *mesh.Node) {
				_ = simulate.Sleep(ctx, time.Duration(i)*7*time.Millisecond)
				ctx, cancel := simulate.WithTimeout(ctx, time.Duration(1+i%4)*5*time.Millisecond)
				defer cancel()
				_ = l.Proclaim(ctx, fmt.Append(nil, i))
				done++
			})
		}
		w.until("all have proclaimed", 10*time.Second, func() bool { return done == 20 })
		w.at("e", func(ctx context.Context, n *mesh.Node) { w.check(l.Proclaim(ctx, []byte("last"))) })
		w.until("c sees the last", time.Second, func() bool { return o.shows("last") })
		w.pass(3 * time.Second)
		if !o.shows("last") {
			t.Errorf("seed %d: then it sees %+v", seed, o.last())
		}
	}
}

// Promise: P46: a leader that resigns is followed after three messages that wait for one another: the release, its append, and the
// word to the next. Observers on many nodes are told once per node and change, however many they are on each.
func TestAThousandObservers(t *testing.T) {
	clients := fewer(10, 37)
	each := 1000 / (clients + 3)
	w := newTrial(t, simulate.Options{Seed: 1}, 10*time.Second, 3)
	w.clients(clients)
	var all []*watched
	for _, host := range w.Hosts() {
		for range each {
			all = append(all, w.observes(host.Name(), "boss"))
		}
	}
	see := func(value string) func() bool {
		return func() bool {
			for _, o := range all {
				if !o.shows(value) {
					return false
				}
			}
			return true
		}
	}
	l := w.campaigns("a", "boss", "first")
	w.until("all see the first", time.Second, see("first"))
	questions, words := 0, 0
	w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		for _, m := range f.Messages() {
			switch {
			case strings.HasPrefix(m, "leader of boss"):
				words++
			case strings.HasPrefix(m, "who leads"):
				questions++
			}
		}
		return simulate.Pass
	})
	const changes = 5
	start := w.Now()
	for i := range changes {
		value := fmt.Sprint("value ", i)
		w.at("a", func(ctx context.Context, n *mesh.Node) { w.check(l.Proclaim(ctx, []byte(value))) })
		w.until("all see "+value, time.Second, see(value))
	}
	nodes := len(w.nodes)
	t.Logf("%d observers on %d nodes: %d changes in %v, %d words, %d questions", len(all), nodes, changes, w.Now()-start, words, questions)
	if most := changes*nodes + questions; words > most {
		t.Errorf("%d words of %d changes to %d nodes, and %d answers", words, changes, nodes, questions)
	}
	if questions > nodes {
		t.Errorf("%d nodes have asked %d times: they poll", nodes, questions)
	}
}

// Promise: P46: Leave ends the contexts of leaders first, and waits until they have resigned: the next one need not wait for a lease.
func TestLeaveResigns(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 1}, 10*time.Second, 5)
	var order []string
	w.begin("d", func(ctx context.Context, n *mesh.Node) {
		err := n.Election("boss").Lead(ctx, nil, func(ctx context.Context, l *mesh.Leadership) error {
			order = append(order, "d leads")
			_ = simulate.Wait(ctx, nil)
			if l.Err() != nil || context.Cause(ctx) != mesh.ErrClosed {
				t.Errorf("fn's context ends after its leadership: %v, %v", l.Err(), context.Cause(ctx))
			}
			_ = simulate.Sleep(context.WithoutCancel(ctx), time.Second)
			order = append(order, "d stops")
			return errors.New("left")
		})
		if err == nil || err.Error() != "left" {
			t.Errorf("Lead: %v", err)
		}
	})
	w.pass(time.Second)
	w.begin("a", func(ctx context.Context, n *mesh.Node) {
		_ = n.Election("boss").Lead(ctx, nil, func(ctx context.Context, l *mesh.Leadership) error {
			order = append(order, "a leads")
			return simulate.Wait(ctx, nil)
		})
	})
	w.pass(time.Second)
	start := w.Now()
	left := w.begin("d", func(ctx context.Context, n *mesh.Node) { w.check(n.Leave(ctx)) })
	w.until("the next one leads", 5*time.Second, func() bool { return len(order) == 3 })
	w.between("it leads after", w.Now()-start, time.Second, 2*time.Second)
	if got := fmt.Sprint(order); got != "[d leads d stops a leads]" {
		t.Error(got)
	}
	left()
}

// Promise: Lead awaits fn after a loss, and then campaigns again; it resigns when fn returns, also if it panics.
func TestLead(t *testing.T) {
	for seed := range fewer[uint64](2, 10) {
		w := newTrial(t, simulate.Options{Seed: seed}, 5*time.Second, 5)
		name := w.keyWhere(func(r []string) bool { return r[0] != "e" && r[1] != "e" && r[2] != "e" })
		runs, running := 0, false
		var tokens []uint64
		over := w.begin("e", func(ctx context.Context, n *mesh.Node) {
			err := n.Election(name).Lead(ctx, []byte("e"), func(ctx context.Context, l *mesh.Leadership) error {
				if running {
					t.Error("fn runs twice at once")
				}
				running = true
				defer func() { running = false }()
				runs++
				tokens = append(tokens, l.Token())
				if runs == 2 {
					return errors.New("enough")
				}
				_ = simulate.Wait(ctx, nil)
				return simulate.Sleep(context.WithoutCancel(ctx), 2*time.Second)
			})
			if err == nil || err.Error() != "enough" {
				t.Errorf("seed %d: Lead: %v", seed, err)
			}
		})
		w.pass(time.Second)
		w.Net.Isolate("e")
		w.pass(10 * time.Second)
		w.Net.Heal()
		over()
		if runs != 2 || tokens[1] <= tokens[0] {
			t.Errorf("seed %d: fn ran %d times, with %v", seed, runs, tokens)
		}
		w.at("a", func(ctx context.Context, n *mesh.Node) {
			defer func() {
				if p := recover(); p != "fn" {
					t.Errorf("recovered %v", p)
				}
			}()
			_ = n.Election(name).Lead(ctx, nil, func(context.Context, *mesh.Leadership) error { panic("fn") })
		})
		w.at("b", func(ctx context.Context, n *mesh.Node) {
			if _, err := n.Election(name).Leader(ctx); !errors.Is(err, mesh.ErrNoLeader) {
				t.Errorf("seed %d: after a panic of fn: %v", seed, err)
			}
		})
	}
}

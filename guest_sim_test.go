package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bridge"
	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/internal/visit"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate"
)

// Promise: P42: the node that a guest has left does not confirm what it remembers of the guest, though its lease lasts.
func TestAnEarlierServerConfirmsNothing(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 23}, 10*time.Second, 5)
	key := w.keyWhere(func(r []string) bool { return r[0] != "a" })
	first := w.carry("a", "gus")
	lock := client.Request{Key: key, Tag: "lock"}
	confirms := func(host string, s *node.Session, want error) {
		t.Helper()
		w.at(host, func(ctx context.Context, _ *mesh.Node) {
			if lease, err := s.Confirm(ctx, key); !errors.Is(err, want) || (lease > 0) != (want == nil) {
				t.Errorf("%s confirms a lease of %v, and %v, want %v", host, lease, err, want)
			}
		})
	}
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		_, _, err := first.Acquire(ctx, lock)
		w.check(err)
	})
	confirms("a", first, nil)
	second := w.carry("d", "gus")
	w.at("d", func(ctx context.Context, _ *mesh.Node) {
		c, err := second.Claim(ctx, lock)
		w.check(err)
		w.check(c.Hold.Release(ctx))
	})
	if first.Err() != nil {
		t.Fatal("a knows already that it was overtaken")
	}
	confirms("d", second, nil)
	confirms("a", first, fault.ErrLost)
}

// carry carries a guest on a host.
func (w *trial) carry(host, guest string) (s *node.Session) {
	w.t.Helper()
	w.at(host, func(ctx context.Context, n *mesh.Node) {
		var err error
		if s, err = bridge.NodeOf(n).Carry(ctx, guest, w.ttl); err != nil {
			w.t.Errorf("%s carries %s: %v", host, guest, err)
		}
	})
	return s
}

// Promise: P42: when the node that carries a guest is killed, another one has what the guest holds, under the same token, as
// long as its lease lasts; and its place in a queue.
func TestAGuestChangesItsServer(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 21}, 10*time.Second, 5)
	held := w.keyWhere(func(r []string) bool { return r[0] != "a" })
	awaited := held + ", awaited"
	other := w.lock("e", awaited)
	s := w.carry("a", "gus")
	lock := client.Request{Key: held, Tag: "lock"}
	wait := client.Request{Key: awaited, Tag: "lock"}
	var token uint64
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		h, _, err := s.Acquire(ctx, lock)
		if err != nil {
			t.Fatal(err)
		}
		token = h.Token()
	})
	w.Host("a").Go("waits", func(ctx context.Context) { _, _, _ = s.Acquire(ctx, wait) })
	w.pass(time.Second)
	first := w.begin("d", func(ctx context.Context, n *mesh.Node) { // comes after the guest
		if l, err := n.Lock(ctx, awaited); err == nil {
			w.check(l.Unlock(ctx))
		}
	})
	w.pass(time.Second)
	w.Host("a").Crash()
	w.pass(2 * time.Second)

	s = w.carry("d", "gus")
	w.at("d", func(ctx context.Context, _ *mesh.Node) {
		lease, err := s.Heard(ctx)
		w.check(err)
		w.between("the lease", lease, 2*w.ttl/3, w.ttl)
		c, err := s.Claim(ctx, lock)
		if err != nil || c.Hold == nil || c.Token != token {
			t.Errorf("claimed %+v, %v, want token %d", c, err, token)
			return
		}
		if _, err := s.Claim(ctx, client.Request{Key: held, Tag: "another"}); !errors.Is(err, fault.ErrNotHeld) {
			t.Errorf("what it did not ask for: %v", err)
		}
		w.check(c.Hold.Release(ctx))
		if c, err = s.Claim(ctx, lock); err != nil || !c.Ended || c.Token != token {
			t.Errorf("after it is unlocked: %+v, %v", c, err)
		}
	})
	if !w.free("e", held) {
		t.Error("the key is not free")
	}
	w.check(w.unlock("e", other, time.Second))
	w.at("d", func(ctx context.Context, _ *mesh.Node) {
		c, err := s.Claim(ctx, wait)
		if err != nil || c.Hold == nil {
			t.Errorf("its place in the queue: %+v, %v", c, err)
			return
		}
		w.check(c.Hold.Release(ctx))
	})
	first()
}

// Promise: P42: the node that carried a guest loses it, and what it holds, to the next one.
func TestAGuestLeavesItsServer(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 22}, 10*time.Second, 3)
	key := w.ledBy("b")
	s := w.carry("a", "gus")
	lock := client.Request{Key: key, Tag: "lock"}
	var before *node.Hold
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		var err error
		before, _, err = s.Acquire(ctx, lock)
		w.check(err)
	})
	if before == nil {
		t.Fatal(w.Timeline())
	}
	next := w.carry("c", "gus")
	w.at("c", func(ctx context.Context, _ *mesh.Node) {
		c, err := next.Claim(ctx, lock)
		if err != nil || c.Token != before.Token() {
			t.Errorf("%+v, %v", c, err)
		}
	})
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		simulate.Sleep(ctx, w.ttl/2)
		if _, err := s.Heard(ctx); !errors.Is(err, mesh.ErrLost) {
			t.Errorf("the earlier carrier is heard: %v", err)
		}
	})
	w.until("the earlier carrier loses it", w.ttl, func() bool { return before.Err() != nil })
	w.pass(w.ttl / 4)
	if w.free("b", key) {
		t.Error("the key is free before the lease of the next carrier is over")
	}
	w.pass(w.ttl)
	if !w.free("b", key) {
		t.Error("the guest is silent for longer than its lease, and the key is not free")
	}
}

// Promise: P42: a node that leaves keeps nothing of its guests, and takes nothing from them.
func TestAServerLeaves(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 23}, 10*time.Second, 5)
	key := w.keyWhere(func(r []string) bool { return r[0] != "a" })
	s := w.carry("a", "gus")
	lock := client.Request{Key: key, Tag: "lock"}
	var token uint64
	w.at("a", func(ctx context.Context, n *mesh.Node) {
		h, _, err := s.Acquire(ctx, lock)
		w.check(err)
		token = h.Token()
		start := simulate.Now(ctx)
		w.check(n.Leave(ctx))
		w.between("Leave", simulate.Now(ctx)-start, 0, 5*time.Second)
		if _, err := s.Heard(ctx); !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("the guest is heard: %v", err)
		}
	})
	s = w.carry("c", "gus")
	w.at("c", func(ctx context.Context, _ *mesh.Node) {
		if c, err := s.Claim(ctx, lock); err != nil || c.Token != token {
			t.Errorf("%+v, %v, want token %d", c, err, token)
		}
	})
}

// visitedClients returns a mesh of three nodes with two clients, x and y. X carries the guest gus, which has asked for a key, and got it
// under a token.
func visitedClients(t *testing.T, seed uint64) (w *trial, lock client.Request, token uint64) {
	w = newTrial(t, simulate.Options{Seed: seed}, 10*time.Second, 3)
	for _, host := range []string{"x", "y"} {
		w.Host(host).Go("join", func(ctx context.Context) { w.joinAs(ctx, host, mesh.WithClientOnly()) })
	}
	w.until("the clients have joined", time.Minute, func() bool { return w.nodes["x"] != nil && w.nodes["y"] != nil })
	x := w.carry("x", "gus")
	lock = client.Request{Key: "k", Tag: "lock"}
	w.at("x", func(ctx context.Context, _ *mesh.Node) {
		h, _, err := x.Acquire(ctx, lock)
		w.check(err)
		token = h.Token()
	})
	return w, lock, token
}

// losesTables starts the nodes that have the shards' replicas again.
func (w *trial) losesTables() {
	for _, host := range []string{"a", "b", "c"} {
		w.Host(host).Crash()
		w.Host(host).Restart()
		w.Host(host).Go("join", func(ctx context.Context) { w.join(ctx, host) })
	}
}

// Promise: P42, C8: when the table is lost, a guest keeps what its server knows of. If it may have more there, its session ends, and it is
// not told that its lease goes on.
func TestAGuestsServerKnowsWhatItHas(t *testing.T) {
	for _, claims := range []bool{true, false} {
		w, lock, token := visitedClients(t, 24)
		y := w.carry("y", "gus")
		w.at("y", func(ctx context.Context, _ *mesh.Node) {
			if claims {
				h, _, err := y.Acquire(ctx, lock)
				w.check(err)
				w.between("the token", time.Duration(h.Token()), time.Duration(token), time.Duration(token))
			}
			_, err := y.Confirm(ctx)
			w.check(err)
		})
		w.losesTables()
		w.pass(5 * time.Second)
		w.at("y", func(ctx context.Context, _ *mesh.Node) {
			lease, err := y.Confirm(ctx, "k")
			if claims && (err != nil || lease == 0) {
				t.Errorf("what is known is lost: %v", err)
			}
			if !claims && !errors.Is(err, fault.ErrLost) {
				t.Errorf("a lease of %v is confirmed, %v, and nobody has reported what the guest has", lease, err)
			}
		})
	}
}

// Promise: P42, C8: what a guest has given back through its present server does not come back by the report of an earlier one, which comes first.
func TestAnEarlierServerReportsFirst(t *testing.T) {
	w, lock, token := visitedClients(t, 25)
	y := w.carry("y", "gus")
	w.at("y", func(ctx context.Context, _ *mesh.Node) {
		h, _, err := y.Acquire(ctx, lock)
		w.check(err)
		w.check(h.Release(ctx))
		_, err = y.Heard(ctx)
		w.check(err)
	})
	w.Net.Partition([]string{"y"})
	w.losesTables()
	w.pass(4 * time.Second)
	w.Net.Heal()
	w.pass(2 * time.Second)
	w.at("y", func(ctx context.Context, _ *mesh.Node) {
		if _, err := y.Confirm(ctx, "k"); err != nil {
			t.Fatalf("the present server is lost: %v", err)
		}
		h, _, err := y.Acquire(ctx, lock)
		w.check(err)
		if h.Token() <= token {
			t.Errorf("a new request gets the token %d, and the guest gave %d back", h.Token(), token)
		}
	})
}

// Promise: P42: a guest gives a lock back through its next server, another guest gets it, and the first one comes back to the earlier
// server, which has not heard that it was overtaken: it is not told that it has the lock. What it asks for there it has at both.
func TestAnEarlierServerDoesNotAnswerFromMemory(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 24}, 10*time.Second, 5)
	key := w.keyWhere(func(r []string) bool { return r[0] != "a" && r[0] != "c" })
	desks := make(map[string]*visit.Desk)
	asks := func(host, guest string, ask func(ctx context.Context, d *visit.Desk, q visit.Request) (visit.Answer, error)) (a visit.Answer) {
		t.Helper()
		w.at(host, func(ctx context.Context, n *mesh.Node) {
			if desks[host] == nil {
				desks[host] = visit.New(bridge.NodeOf(n), visit.Config{
					TTL: func() (time.Duration, error) { return w.ttl, nil }, WithTimeout: simulate.WithTimeout,
				})
			}
			var err error
			a, err = ask(ctx, desks[host], visit.Request{Request: client.Request{Key: key, Tag: "lock"}, Wait: time.Second})
			if err != nil || a.Lease <= 0 || a.Lease > w.ttl {
				t.Errorf("%s asks at %s: %+v, %v", guest, host, a, err)
			}
		})
		return a
	}
	lock := func(host, guest string) visit.Answer {
		t.Helper()
		return asks(host, guest, func(ctx context.Context, d *visit.Desk, q visit.Request) (visit.Answer, error) {
			return d.Ask(ctx, guest, q)
		})
	}
	unlock := func(host, guest string) {
		t.Helper()
		asks(host, guest, func(ctx context.Context, d *visit.Desk, q visit.Request) (visit.Answer, error) {
			return d.End(ctx, guest, q, 0, false)
		})
	}
	if a := lock("a", "ann"); a.State != visit.Running {
		t.Fatalf("ann: %+v", a)
	}
	unlock("c", "ann")
	if a := lock("c", "bob"); a.State != visit.Running {
		t.Fatalf("bob: %+v", a)
	}
	if a := lock("a", "ann"); a.State != visit.Waiting {
		t.Errorf("bob has the lock, and ann is told %+v", a)
	}
	unlock("c", "bob")
	first := lock("a", "ann")
	if again := lock("c", "ann"); first.State != visit.Running || again.State != visit.Running || first.Token != again.Token {
		t.Errorf("ann is told %+v, and then %+v", first, again)
	}
}

// Promise: P42, C8: a guest's server ends together with the table. The next one tells it no lease until it has named what it holds.
func TestAGuestNamesWhatItHolds(t *testing.T) {
	w, lock, token := visitedClients(t, 27)
	w.Host("x").Crash()
	w.losesTables()
	w.at("y", func(ctx context.Context, n *mesh.Node) {
		d := visit.New(bridge.NodeOf(n), visit.Config{TTL: func() (time.Duration, error) { return w.ttl, nil }, WithTimeout: simulate.WithTimeout})
		looks := func() visit.Answer {
			t.Helper()
			a, err := d.Look(ctx, "gus", visit.Request{Request: lock})
			w.check(err)
			return a
		}
		if a := looks(); a.State != visit.None || a.Lease != 0 {
			t.Errorf("it is told %+v", a)
		}
		if _, lease, _, err := d.Renew(ctx, "gus", nil); err != nil || lease != 0 {
			t.Errorf("it does not say what it holds, and is told a lease of %v, %v", lease, err)
		}
		held := lock
		held.Held = token
		if all, lease, _, err := d.Renew(ctx, "gus", []client.Request{held}); err != nil || lease == 0 || all[0].State != visit.Running || all[0].Token != token {
			t.Errorf("it says what it holds, and is told %+v, %v, %v", all, lease, err)
		}
		if a := looks(); a.State != visit.Running || a.Lease == 0 {
			t.Errorf("afterwards it is told %+v", a)
		}
	})
}

// Promise: P42, G1: a guest gives a lock back through its next server, and another guest gets it. Then the tables are lost, and the earlier
// server, which has not heard that it was overtaken, reports that lock before anybody else. As long as not all have reported, no server says
// that the guest has it: neither that one, nor a third one, to which the guest comes. (Seed 480000908, flaky.)
func TestNobodyIsSureBeforeAllHaveReported(t *testing.T) {
	for i, comesTo := range []string{"x", "y", "x", "y"} {
		w, lock, token := visitedClients(t, 28)
		desk := func(n *mesh.Node) *visit.Desk {
			return visit.New(bridge.NodeOf(n), visit.Config{TTL: func() (time.Duration, error) { return w.ttl, nil }, WithTimeout: simulate.WithTimeout})
		}
		desks := make(map[string]*visit.Desk)
		for _, host := range []string{"x", "y", "a"} {
			w.at(host, func(_ context.Context, n *mesh.Node) { desks[host] = desk(n) })
		}
		w.at("x", func(ctx context.Context, _ *mesh.Node) {
			a, err := desks["x"].Look(ctx, "gus", visit.Request{Request: lock})
			if w.check(err); a.State != visit.Running || a.Token != token {
				t.Errorf("it holds the lock, and is told %+v", a)
			}
		})
		w.at("a", func(ctx context.Context, _ *mesh.Node) {
			a, err := desks["a"].End(ctx, "gus", visit.Request{Request: lock}, 0, false)
			if w.check(err); a.State != visit.Done {
				t.Errorf("it gives the lock back, and is told %+v", a)
			}
		})
		later := w.lock("y", lock.Key)
		w.Net.Partition([]string{"y"})
		w.losesTables() // a is among those that start again
		if i < 2 {      // else it asks before its server has heard of the loss
			w.pass(4 * time.Second)
		}
		w.at("x", func(ctx context.Context, _ *mesh.Node) {
			a, err := desks["x"].Ask(ctx, "gus", visit.Request{Request: lock, Wait: time.Second})
			if err == nil && a.State == visit.Running {
				t.Errorf("another one holds the lock with token %d, and the guest is told %+v", later.Token(), a)
			}
		})
		w.Net.Heal()
		w.pass(2 * time.Second)
		w.at(comesTo, func(ctx context.Context, _ *mesh.Node) {
			for range 20 {
				a, err := desks[comesTo].Ask(ctx, "gus", visit.Request{Request: lock, Wait: time.Second})
				if err == nil && a.State == visit.Running && later.Err() == nil {
					t.Errorf("%s: another one holds the lock with token %d, and the guest is told %+v", comesTo, later.Token(), a)
				}
				_ = simulate.Sleep(ctx, time.Second)
			}
		})
		w.check(later.Err())
	}
}

// Promise: P42: a guest that asks for what it has, by another server than before, and does not want to wait for the answer, leaves a queue
// in which it is not. It has what it had. (Seed 520001195, calm.)
func TestLeavingGivesNothingBack(t *testing.T) {
	w, lock, token := visitedClients(t, 30)
	w.at("y", func(ctx context.Context, n *mesh.Node) {
		d := visit.New(bridge.NodeOf(n), visit.Config{TTL: func() (time.Duration, error) { return w.ttl, nil }, WithTimeout: simulate.WithTimeout})
		_, _, _, err := d.Renew(ctx, "gus", nil) // it comes here
		w.check(err)
		asked := simulate.Go(ctx, "asks", func(ctx context.Context) {
			if a, err := d.Ask(ctx, "gus", visit.Request{Request: lock, Wait: time.Second}); err != nil || a.State != visit.Running || a.Token != token {
				t.Errorf("it asks for what it has: %+v, %v", a, err)
			}
		})
		_ = simulate.Sleep(ctx, 100*time.Microsecond) // the question is on its way
		if a, err := d.Leave(ctx, "gus", visit.Request{Request: lock}); !errors.Is(err, visit.ErrRunning) {
			t.Errorf("it leaves the queue: %+v, %v", a, err)
		}
		w.check(simulate.Wait(ctx, asked))
		if a, err := d.Look(ctx, "gus", visit.Request{Request: lock}); err != nil || a.State != visit.Running || a.Token != token {
			t.Errorf("afterwards it is told %+v, %v", a, err)
		}
	})
}

// Promise: P42: a request that a guest takes back is out of the queue once that is confirmed, for each caller that takes it back.
func TestAGuestTakesARequestBack(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 25}, 10*time.Second, 5)
	key := w.keyWhere(func(r []string) bool { return r[0] != "a" })
	held := w.lock("b", key)
	s := w.carry("a", "gus")
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		p, err := s.Request(client.Request{Key: key, Tag: "lock"})
		w.check(err)
		wait, cancel := simulate.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := p.Wait(wait); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it waits: %v", err)
		}
		w.Net.Isolate("a")
		wait, cancel = simulate.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := p.Cancel(wait); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is taken back, and nobody can confirm that: %v", err)
		}
		w.Net.Heal()
		if err := p.Cancel(ctx); err != nil {
			t.Error(err)
		}
		if _, err := p.Outcome(); !errors.Is(err, fault.ErrNotHeld) {
			t.Errorf("its result: %v", err)
		}
		if c, err := s.Claim(ctx, client.Request{Key: key, Tag: "lock"}); !errors.Is(err, fault.ErrNotHeld) {
			t.Errorf("claimed %+v, %v", c, err)
		}
	})
	w.check(w.unlock("b", held, time.Second))
	if !w.free("c", key) {
		t.Error("the key is not free")
	}
}

// Promise: P42: a guest has no handles of its uses. However often it pulls, its session keeps one, and goes on.
func TestAGuestPullsAgain(t *testing.T) {
	w := newTrial(t, simulate.Options{Seed: 26}, 10*time.Second, 5)
	s := w.carry("a", "gus")
	pull := client.Request{Key: "image", Tag: "pull", Mode: client.Operates, Operation: &shard.Operation{Op: shard.Pull, User: "gus", Alone: true, Retention: time.Hour}}
	w.at("a", func(ctx context.Context, _ *mesh.Node) {
		h, _, _, err := s.Operate(ctx, pull)
		w.check(err)
		use, err := h.Finish(ctx, false)
		w.check(err)
		use.Keep()
		for range 3 {
			use, skipped, _, err := s.Operate(ctx, pull)
			if err != nil || !skipped {
				t.Fatalf("%t, %v", skipped, err)
			}
			use.Keep()
		}
		for range 8 {
			_ = simulate.Sleep(ctx, w.ttl/4)
			if _, err := s.Heard(ctx); err != nil {
				t.Fatalf("the guest is heard: %v", err)
			}
		}
		if users, err := s.Refs(ctx, "image"); err != nil || len(users) != 1 {
			t.Errorf("%v, %v", users, err)
		}
	})
}

// Promise: P42, C8: a guest's server ends together with the table. The next one does not know what the guest has, and knows that, until the guest
// cannot believe in it any more.
func TestAGuestsServerEndsWithTheTable(t *testing.T) {
	w, lock, token := visitedClients(t, 26)
	w.Host("x").Crash()
	w.losesTables()
	y := w.carry("y", "gus")
	w.at("y", func(ctx context.Context, _ *mesh.Node) {
		if _, err := y.Claim(ctx, lock); !errors.Is(err, fault.ErrNotHeld) {
			t.Errorf("what it held: %v", err)
		}
		rest, _ := y.Unsure()
		w.between("it may believe", rest, w.ttl/2, 2*w.ttl)
		lock.Held = token
		h, _, err := y.Acquire(ctx, lock)
		if w.check(err); err == nil && h.Token() != token {
			t.Errorf("the guest names it, and has it under token %d, want %d", h.Token(), token)
		}
		_, err = y.Heard(ctx)
		w.check(err)
		rest, _ = y.Unsure()
		_ = simulate.Sleep(ctx, rest)
		if rest, _ := y.Unsure(); rest != 0 {
			t.Errorf("it may believe for another %v", rest)
		}
	})
}

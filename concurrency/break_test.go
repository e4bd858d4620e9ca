package concurrency_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/concurrency"
	"github.com/lockmesh/mesh/simulate"
)

// breaking is a simulated mesh of one, and a session of which an operator breaks what it holds.
type breaking struct {
	t     *testing.T
	world *simulate.World
	node  *mesh.Node
	sess  *concurrency.Session
}

func newBreaking(t *testing.T) *breaking {
	b := &breaking{t: t, world: simulate.New(simulate.Options{Seed: 1})}
	t.Cleanup(b.world.Close)
	b.begin(func(ctx context.Context) (err error) {
		if b.node, err = mesh.JoinContext(ctx, []string{"a:7300"}, mesh.WithName("a"), mesh.WithFound()); err == nil {
			err = b.node.WaitReady(ctx)
		}
		if err == nil {
			b.sess, err = concurrency.NewSession(b.node)
		}
		return err
	})(nil)
	return b
}

// begin begins a call, and returns a function that waits until it has returned, and fails unless it has returned want.
func (b *breaking) begin(call func(ctx context.Context) error) (returns func(want error)) {
	var err error
	over := false
	b.world.Host("a").Go("call", func(ctx context.Context) { err = call(ctx); over = true })
	return func(want error) {
		b.t.Helper()
		b.until("a call returns", func() bool { return over })
		is(b.t, "it", err, want)
	}
}

func (b *breaking) until(what string, cond func() bool) {
	b.t.Helper()
	if err := b.world.RunUntil(cond, time.Minute); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// breaks has an operator break what the session holds under a key, and waits until the session knows. The Break returns once it is given back.
func (b *breaking) breaks(key string, rev int64, known func() bool) (returns func(want error)) {
	b.t.Helper()
	returns = b.begin(func(ctx context.Context) error { return b.node.Break(ctx, key, uint64(rev)) })
	b.until("the session hears that it is broken", known)
	return returns
}

// Once a lock is broken, the mutex that had it has to unlock it. Another one of the session can be locked, and gets it then, as the
// session goes on.
func TestABrokenMutex(t *testing.T) {
	b := newBreaking(t)
	first, second := concurrency.NewMutex(b.sess, "jobs"), concurrency.NewMutex(b.sess, "jobs")
	b.begin(first.Lock)(nil)
	before, owner := first.Header().Revision, first.IsOwner()
	broken := b.breaks("jobs", before, func() bool { return owner.Err() != nil })

	b.begin(first.Lock)(concurrency.ErrSessionExpired)
	b.begin(second.TryLock)(concurrency.ErrLocked)
	locked := b.begin(second.Lock)
	b.begin(first.Unlock)(concurrency.ErrSessionExpired)
	broken(nil)
	locked(nil)
	if second.Header().Revision <= before {
		t.Errorf("revision %d after %d", second.Header().Revision, before)
	}
	b.begin(second.Unlock)(nil)
	b.begin(first.Lock)(nil)
	select {
	case <-b.sess.Done():
		t.Error("the session has ended")
	default:
	}
}

func TestABrokenLeadership(t *testing.T) {
	b := newBreaking(t)
	first, second := concurrency.NewElection(b.sess, "boss"), concurrency.NewElection(b.sess, "boss")
	campaign := func(e *concurrency.Election, val string) func(want error) {
		return b.begin(func(ctx context.Context) error { return e.Campaign(ctx, val) })
	}
	leads := func(want string) {
		t.Helper()
		b.begin(func(ctx context.Context) error {
			l, err := second.Leader(ctx)
			if err == nil && string(l.Kvs[0].Value) != want {
				t.Errorf("%q leads, want %q", l.Kvs[0].Value, want)
			}
			return err
		})(nil)
	}
	campaign(first, "1")(nil)
	broken := b.breaks("boss", first.Rev(), func() bool { return first.Key() == "" })

	campaign(first, "2")(concurrency.ErrSessionExpired)
	led := campaign(second, "3")
	b.begin(first.Resign)(concurrency.ErrElectionNotLeader)
	broken(nil)
	led(nil)
	leads("3")
	campaign(first, "4")(nil)
	leads("4")
}

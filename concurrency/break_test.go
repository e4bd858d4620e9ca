package concurrency_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/concurrency"
)

// broken breaks a lock or a leadership of a session, and waits until its session knows. Break goes on until it is given back.
func broken(t *testing.T, n *mesh.Node, key string, rev int64, isOver func() bool) (result func() error) {
	t.Helper()
	result = begin(t, func() error { return n.Break(t.Context(), key, uint64(rev)) })
	for deadline := time.Now().Add(10 * time.Second); !isOver(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the session does not hear that it is broken")
		}
	}
	return result
}

// Once a lock is broken, the mutex that had it has to unlock it. Another one of the session can be locked, and gets it then, as the
// session goes on.
func TestABrokenMutex(t *testing.T) {
	ctx := patience(t)
	n := solo(t)
	s := session(t, n)
	first, second := concurrency.NewMutex(s, "jobs"), concurrency.NewMutex(s, "jobs")
	is(t, "Lock", first.Lock(ctx), nil)
	before := first.Header().Revision
	owner := first.IsOwner()
	breaks := broken(t, n, "jobs", before, func() bool { return owner.Err() != nil })

	is(t, "Lock of the one that had it", first.Lock(ctx), concurrency.ErrSessionExpired)
	is(t, "TryLock of the other", second.TryLock(ctx), concurrency.ErrLocked)
	waits := begin(t, func() error { return second.Lock(ctx) })
	is(t, "Unlock of the one that had it", first.Unlock(ctx), concurrency.ErrSessionExpired)
	is(t, "Break", breaks(), nil)
	is(t, "Lock of the other", waits(), nil)
	if second.Header().Revision <= before {
		t.Errorf("revision %d after %d", second.Header().Revision, before)
	}
	is(t, "Unlock of the other", second.Unlock(ctx), nil)
	is(t, "Lock again", first.Lock(ctx), nil)
	select {
	case <-s.Done():
		t.Error("the session has ended")
	default:
	}
}

func TestABrokenLeadership(t *testing.T) {
	ctx := patience(t)
	n := solo(t)
	s := session(t, n)
	first, second := concurrency.NewElection(s, "boss"), concurrency.NewElection(s, "boss")
	is(t, "Campaign", first.Campaign(ctx, "1"), nil)
	breaks := broken(t, n, "boss", first.Rev(), func() bool { return first.Proclaim(context.Background(), "1") == concurrency.ErrElectionNotLeader })

	is(t, "Campaign of the one that led", first.Campaign(ctx, "2"), concurrency.ErrSessionExpired)
	waits := begin(t, func() error { return second.Campaign(ctx, "3") })
	is(t, "Resign of the one that led", first.Resign(ctx), concurrency.ErrElectionNotLeader)
	is(t, "Break", breaks(), nil)
	is(t, "Campaign of the other", waits(), nil)
	leader(t, second, "3")
	is(t, "Campaign of the one that led before", first.Campaign(ctx, "4"), nil)
	leader(t, second, "4")
}

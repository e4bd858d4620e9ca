package concurrency_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/concurrency"
	"github.com/lockmesh/mesh/simulate"
)

func TestSessionOptions(t *testing.T) {
	t.Parallel() // it waits for real time
	n := solo(t)
	var none context.Context
	for what, tt := range map[string]struct {
		opts []concurrency.SessionOption
		says string
	}{
		"no seconds":       {[]concurrency.SessionOption{concurrency.WithTTL(0)}, "0 s"},
		"negative seconds": {[]concurrency.SessionOption{concurrency.WithTTL(-1)}, "-1 s"},
		"etcd's default":   {[]concurrency.SessionOption{concurrency.WithTTL(60)}, "mesh.WithMaxTTL"},
		"ages":             {[]concurrency.SessionOption{concurrency.WithTTL(math.MaxInt)}, "mesh.WithMaxTTL"},
		"no option":        {[]concurrency.SessionOption{concurrency.WithTTL(2), nil}, "option 2"},
		"no context":       {[]concurrency.SessionOption{concurrency.WithContext(none)}, "a context"},
	} {
		s, err := concurrency.NewSession(n, tt.opts...)
		if s != nil || !errors.Is(err, mesh.ErrInvalidOption) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want ErrInvalidOption with %q", what, err, tt.says)
		}
	}
	if _, err := concurrency.NewSession(nil); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("no node: %v, want ErrClosed", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := concurrency.NewSession(n, concurrency.WithContext(ended)); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if err := n.SetMaxTTL(t.Context(), 90*time.Second); err != nil {
		t.Fatal(err)
	}
	s, s2 := session(t, n, concurrency.WithTTL(60)), session(t, n)
	if s.Client() != n || s.Lease() < 1 || s.Lease() == s2.Lease() || s.Ctx().Err() != nil {
		t.Errorf("sessions %d and %d, context %v", s.Lease(), s2.Lease(), s.Ctx().Err())
	}
}

func TestClose(t *testing.T) {
	ctx := patience(t)
	n := solo(t)
	s := session(t, n)
	m := concurrency.NewMutex(s, "job")
	is(t, "Lock", m.Lock(ctx), nil)
	owner := m.IsOwner()
	child, cancel := context.WithCancel(s.Ctx())
	defer cancel()
	is(t, "Close", s.Close(), nil)
	soon(t, "Done", s.Done())
	soon(t, "a child of Ctx", child.Done())
	is(t, "Ctx", s.Ctx().Err(), context.Canceled)
	is(t, "Err", owner.Err(), concurrency.ErrSessionExpired)
	is(t, "TryLock of another session", concurrency.NewMutex(session(t, n), "job").TryLock(ctx), nil)
	is(t, "Unlock", m.Unlock(ctx), concurrency.ErrSessionExpired)
	is(t, "a second Unlock", m.Unlock(ctx), concurrency.ErrLockReleased)
	is(t, "Lock", m.Lock(ctx), concurrency.ErrSessionExpired)
	is(t, "a second Close", s.Close(), nil)
	s.Orphan()

	for what, s := range map[string]*concurrency.Session{"nil": nil, "zero": {}} {
		s.Orphan()
		is(t, what, s.Close(), nil)
		is(t, what, s.Ctx().Err(), context.Canceled)
		soon(t, what, s.Done())
		if s.Client() != nil || s.Lease() != 0 {
			t.Errorf("%s: node %v, lease %d", what, s.Client(), s.Lease())
		}
	}
}

// The locks of a session that was orphaned are free when the lease ends, and not before.
func TestOrphan(t *testing.T) {
	t.Parallel() // it waits for real time
	ctx := patience(t)
	n := solo(t)
	s := session(t, n, concurrency.WithTTL(1))
	m, other := concurrency.NewMutex(s, "job"), concurrency.NewMutex(session(t, n), "job")
	is(t, "Lock", m.Lock(ctx), nil)
	s.Orphan()
	soon(t, "Done", s.Done())
	is(t, "Err", m.IsOwner().Err(), concurrency.ErrSessionExpired)
	is(t, "TryLock of another session", other.TryLock(ctx), concurrency.ErrLocked)
	is(t, "Close", s.Close(), nil)
	is(t, "TryLock after Close", other.TryLock(ctx), concurrency.ErrLocked)
	is(t, "Lock of another session", other.Lock(ctx), nil)
}

// The end of its context orphans a session: its locks are free when the lease ends, and not before.
func TestTheContextOfASession(t *testing.T) {
	t.Parallel() // it waits for real time
	type key struct{}
	ctx := patience(t)
	n := solo(t)
	own, cancel := context.WithCancel(context.WithValue(ctx, key{}, "value"))
	defer cancel()
	s := session(t, n, concurrency.WithTTL(1), concurrency.WithContext(own))
	m, other := concurrency.NewMutex(s, "job"), concurrency.NewMutex(session(t, n), "job")
	is(t, "Lock", m.Lock(ctx), nil)
	if s.Ctx().Value(key{}) != "value" {
		t.Error("Ctx does not carry the values of the session's context")
	}
	cancel()
	soon(t, "Done", s.Done())
	is(t, "Err", m.IsOwner().Err(), concurrency.ErrSessionExpired)
	is(t, "TryLock of another session", other.TryLock(ctx), concurrency.ErrLocked)
	is(t, "Close", s.Close(), context.Canceled)
	is(t, "TryLock after Close", other.TryLock(ctx), concurrency.ErrLocked)
	is(t, "Unlock", m.Unlock(ctx), concurrency.ErrSessionExpired)
	is(t, "Lock of another session", other.Lock(ctx), nil)
}

// A session that is cut off ends before another one gets its lock. An Unlock that cannot be confirmed says so, and can be repeated.
func TestASessionThatIsCutOff(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 7})
	t.Cleanup(w.Close)
	hosts := []string{"a", "b", "c"}
	nodes := make(map[string]*mesh.Node)
	for _, h := range hosts {
		w.Host(h)
	}
	for _, h := range hosts {
		w.Host(h).Go("join", func(ctx context.Context) {
			n, err := mesh.JoinContext(ctx, []string{"a:7300", "b:7300", "c:7300"}, mesh.WithName(h), mesh.WithBind(":7300"), mesh.WithShards(1))
			if err != nil {
				t.Error(err)
				return
			}
			nodes[h] = n
		})
	}
	wait := func(what string, cond func() bool) {
		t.Helper()
		if err := w.RunUntil(cond, 2*time.Minute); err != nil {
			t.Fatalf("%s: %v\n%v", what, err, w.Timeline())
		}
	}
	do := func(host string, f func(ctx context.Context, n *mesh.Node)) {
		t.Helper()
		over := false
		w.Host(host).Go("caller", func(ctx context.Context) { f(ctx, nodes[host]); over = true })
		wait(host, func() bool { return over })
	}
	wait("all have joined", func() bool { return len(nodes) == len(hosts) })
	do("a", func(ctx context.Context, n *mesh.Node) { is(t, "WaitHealthy", n.WaitHealthy(ctx), nil) })
	wait("it grants", func() bool { return nodes["a"].Health().QuietUntil.IsZero() && nodes["c"].Health().Ready })

	var sa, sc *concurrency.Session
	var ma, unheard, mc *concurrency.Mutex
	do("a", func(ctx context.Context, n *mesh.Node) {
		var err error
		if sa, err = concurrency.NewSession(n, concurrency.WithTTL(4)); err != nil {
			t.Fatal(err)
		}
		ma, unheard = concurrency.NewMutex(sa, "job"), concurrency.NewMutex(sa, "unheard")
		is(t, "Lock", ma.Lock(ctx), nil)
		is(t, "Lock", unheard.Lock(ctx), nil)
	})
	do("c", func(_ context.Context, n *mesh.Node) {
		var err error
		if sc, err = concurrency.NewSession(n); err != nil {
			t.Fatal(err)
		}
		mc = concurrency.NewMutex(sc, "job")
	})
	w.Net.Isolate("a")
	do("a", func(ctx context.Context, n *mesh.Node) {
		ended, end := simulate.WithCancel(ctx)
		end()
		is(t, "Unlock", unheard.Unlock(ended), mesh.ErrUnconfirmed)
		if unheard.Key() != "" {
			t.Errorf("after Unlock the key is %q", unheard.Key())
		}
		is(t, "Unlock again", unheard.Unlock(ended), mesh.ErrUnconfirmed)
	})
	do("c", func(ctx context.Context, _ *mesh.Node) {
		is(t, "Lock of another session", mc.Lock(ctx), nil)
		select {
		case <-sa.Done():
		default:
			t.Error("another session has the lock before the first has ended")
		}
	})
	do("a", func(ctx context.Context, _ *mesh.Node) {
		is(t, "Err", ma.IsOwner().Err(), concurrency.ErrSessionExpired)
		is(t, "Lock", ma.Lock(ctx), concurrency.ErrSessionExpired)
		is(t, "Unlock", ma.Unlock(ctx), concurrency.ErrSessionExpired)
		is(t, "Unlock again", ma.Unlock(ctx), concurrency.ErrLockReleased)
		is(t, "Close", sa.Close(), nil)
	})
	do("c", func(ctx context.Context, _ *mesh.Node) {
		is(t, "the other's Err", mc.IsOwner().Err(), nil)
		is(t, "Unlock", mc.Unlock(ctx), nil)
		if mc.Header().Revision <= ma.Header().Revision {
			t.Errorf("revisions %d and %d", ma.Header().Revision, mc.Header().Revision)
		}
	})
}

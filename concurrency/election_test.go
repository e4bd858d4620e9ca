package concurrency_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/concurrency"
)

// leader fails unless value is that of the leader, whose revision it returns.
func leader(t *testing.T, e *concurrency.Election, value string) *concurrency.KeyValue {
	t.Helper()
	l, err := e.Leader(patience(t))
	if err != nil || len(l.Kvs) != 1 || l.Count != 1 || string(l.Kvs[0].Value) != value {
		t.Fatalf("Leader = %+v, %v, want %q", l, err, value)
	}
	return l.Kvs[0]
}

func TestAnElection(t *testing.T) {
	t.Parallel() // it waits for real time
	ctx := patience(t)
	n := solo(t)
	s1, s2 := session(t, n), session(t, n)
	e1, e2 := concurrency.NewElection(s1, "boss"), concurrency.NewElection(s2, "boss")

	_, err := e1.Leader(ctx)
	is(t, "Leader before Campaign", err, concurrency.ErrElectionNoLeader)
	is(t, "Proclaim before Campaign", e1.Proclaim(ctx, "x"), concurrency.ErrElectionNotLeader)
	is(t, "Resign before Campaign", e1.Resign(ctx), nil)
	if e1.Key() != "" || e1.Rev() != 0 || e1.Header() != nil {
		t.Errorf("before Campaign: key %q, rev %d, header %v", e1.Key(), e1.Rev(), e1.Header())
	}

	is(t, "Campaign", e1.Campaign(ctx, "one"), nil)
	kv := leader(t, e2, "one")
	if string(kv.Key) != e1.Key() || kv.CreateRevision != e1.Rev() || e1.Key() != fmt.Sprintf("boss/%x", e1.Rev()) || e1.Header().Revision != e1.Rev() ||
		kv.ModRevision != e1.Rev() || kv.Version != 1 || kv.Lease != 0 {
		t.Errorf("%+v, key %q, rev %d, header %+v", kv, e1.Key(), e1.Rev(), e1.Header())
	}
	if kv := leader(t, e1, "one"); kv.Lease != int64(s1.Lease()) {
		t.Errorf("the leader's lease is %d, want %d", kv.Lease, s1.Lease())
	}
	is(t, "Proclaim", e1.Proclaim(ctx, "uno"), nil)
	if next := leader(t, e2, "uno"); next.CreateRevision != kv.CreateRevision || next.ModRevision <= kv.ModRevision || next.Version <= kv.Version {
		t.Errorf("proclaimed: %+v after %+v", next, kv)
	}

	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	unwraps(t, "Campaign in time", e2.Campaign(short, "two"), context.DeadlineExceeded)
	is(t, "Proclaim of the other", e2.Proclaim(ctx, "x"), concurrency.ErrElectionNotLeader)
	waits := begin(t, func() error { return e2.Campaign(ctx, "two") })
	is(t, "Resign", e1.Resign(ctx), nil)
	is(t, "Campaign of the other", waits(), nil)
	if kv := leader(t, e1, "two"); kv.CreateRevision <= e1.Rev() || e2.Rev() <= e1.Rev() || e1.Key() != "" {
		t.Errorf("%+v, after revision %d with key %q", kv, e1.Rev(), e1.Key())
	}
	is(t, "Proclaim after Resign", e1.Proclaim(ctx, "x"), concurrency.ErrElectionNotLeader)
	is(t, "a second Resign", e1.Resign(ctx), nil)
	leader(t, e1, "two")
	is(t, "Close", s2.Close(), nil)
	_, err = e1.Leader(ctx)
	is(t, "Leader after Close", err, concurrency.ErrElectionNoLeader)
	is(t, "Proclaim after Close", e2.Proclaim(ctx, "x"), concurrency.ErrElectionNotLeader)
	if e2.Key() != "" {
		t.Errorf("after Close the key is %q", e2.Key())
	}
	is(t, "Resign after Close", e2.Resign(ctx), concurrency.ErrElectionNotLeader)
	is(t, "Resign again", e2.Resign(ctx), nil)
	is(t, "Campaign after Close", e2.Campaign(ctx, "two"), concurrency.ErrSessionExpired)
}

// All elections of a name and a session lead when one of them does, until one of them resigns.
func TestElectionsOfOneSession(t *testing.T) {
	ctx := patience(t)
	n := solo(t)
	s := session(t, n)
	first, second := concurrency.NewElection(s, "boss"), concurrency.NewElection(s, "boss")
	other := concurrency.NewElection(session(t, n), "boss")

	is(t, "Campaign", first.Campaign(ctx, "1"), nil)
	is(t, "the same Campaign", first.Campaign(ctx, "2"), nil)
	leader(t, other, "2")
	is(t, "Campaign of the second", second.Campaign(ctx, "3"), nil)
	if kv := leader(t, other, "3"); first.Key() != second.Key() || first.Rev() != second.Rev() || kv.CreateRevision != first.Rev() {
		t.Errorf("%+v, keys %q and %q", kv, first.Key(), second.Key())
	}

	resumed := concurrency.ResumeElection(s, "boss", first.Key(), first.Rev())
	if resumed.Key() != first.Key() || resumed.Rev() != first.Rev() {
		t.Errorf("resumed: key %q, rev %d", resumed.Key(), resumed.Rev())
	}
	is(t, "Proclaim of the resumed", resumed.Proclaim(ctx, "4"), nil)
	leader(t, other, "4")
	for what, e := range map[string]*concurrency.Election{
		"another session":  concurrency.ResumeElection(session(t, n), "boss", first.Key(), first.Rev()),
		"another name":     concurrency.ResumeElection(s, "chief", first.Key(), first.Rev()),
		"another key":      concurrency.ResumeElection(s, "boss", "boss/1", first.Rev()),
		"another revision": concurrency.ResumeElection(s, "boss", first.Key(), first.Rev()-1),
	} {
		is(t, "Proclaim with "+what, e.Proclaim(ctx, "x"), concurrency.ErrElectionNotLeader)
		is(t, "Resign with "+what, e.Resign(ctx), nil)
		if e.Key() != "" {
			t.Errorf("%s: key %q after Resign", what, e.Key())
		}
	}
	leader(t, other, "4")

	waits := begin(t, func() error { return other.Campaign(ctx, "other") })
	is(t, "Resign of the resumed", resumed.Resign(ctx), nil)
	if resumed.Key() != "" {
		t.Errorf("key %q after Resign", resumed.Key())
	}
	is(t, "Campaign of the other", waits(), nil)
	is(t, "Proclaim of the first", first.Proclaim(ctx, "x"), concurrency.ErrElectionNotLeader)

	// A late Resign ends nothing that the session has got since.
	is(t, "Resign of the other", other.Resign(ctx), nil)
	is(t, "Campaign of the second", second.Campaign(ctx, "5"), nil)
	is(t, "a late Resign", first.Resign(ctx), nil)
	leader(t, other, "5")
}

// Of two campaigns of one session that wait, both succeed when the session leads.
func TestCampaignsOfOneSessionWaitTogether(t *testing.T) {
	ctx := patience(t)
	n := solo(t)
	s := session(t, n)
	holder := concurrency.NewElection(session(t, n), "boss")
	is(t, "Campaign", holder.Campaign(ctx, "holder"), nil)
	asked := n.Stats().Acquires
	first := begin(t, func() error { return concurrency.NewElection(s, "boss").Campaign(ctx, "first") })
	moreThan(t, n, asked)
	second := begin(t, func() error { return concurrency.NewElection(s, "boss").Campaign(ctx, "second") })
	is(t, "Resign", holder.Resign(ctx), nil)
	is(t, "the first", first(), nil)
	is(t, "the second", second(), nil)
	leader(t, holder, "second")
}

// An observer gets the last value, no leader that is none, and nothing twice.
func TestObservers(t *testing.T) {
	ctx := patience(t)
	n := solo(t)
	e := concurrency.NewElection(session(t, n), "boss")
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	fast, slow := concurrency.NewElection(session(t, n), "boss").Observe(watching), e.Observe(watching)
	next := func(value string) *concurrency.KeyValue {
		t.Helper()
		for {
			select {
			case got, open := <-fast:
				if !open || len(got.Kvs) != 1 || got.Kvs[0].CreateRevision == 0 {
					t.Fatalf("observed %+v, open %v, want %q", got, open, value)
				}
				if string(got.Kvs[0].Value) == value {
					return got.Kvs[0]
				}
			case <-ctx.Done():
				t.Fatalf("%q was not observed", value)
			}
		}
	}
	is(t, "Campaign", e.Campaign(ctx, "one"), nil)
	one := next("one")
	is(t, "Proclaim", e.Proclaim(ctx, "uno"), nil)
	uno := next("uno")
	is(t, "Resign", e.Resign(ctx), nil)
	for state := range n.Election("boss").Observe(ctx) { // the node's observers are told of the end, and hear nothing of it here
		if state.Token == 0 && !state.Unknown {
			break
		}
	}
	is(t, "Campaign", e.Campaign(ctx, "two"), nil)
	two := next("two")
	if string(one.Key) != string(uno.Key) || uno.ModRevision <= one.ModRevision || two.CreateRevision <= one.CreateRevision || string(two.Key) != e.Key() {
		t.Errorf("observed %+v, %+v, %+v, key %q", one, uno, two, e.Key())
	}
	seen := make(map[string]bool)
	for value := ""; value != "two"; {
		select {
		case got := <-slow:
			value = string(got.Kvs[0].Value)
			if id := fmt.Sprint(got.Kvs[0].CreateRevision, got.Kvs[0].Version); seen[id] {
				t.Errorf("observed twice: %+v", got.Kvs[0])
			} else {
				seen[id] = true
			}
		case <-ctx.Done():
			t.Fatal("a slow observer missed the last value")
		}
	}
	cancel()
	ends := func(what string, states <-chan *concurrency.GetResponse) {
		t.Helper()
		over := make(chan struct{})
		go func() {
			for range states {
			}
			close(over)
		}()
		soon(t, what, over)
	}
	ends("the channel of a context that has ended", fast)
	last := e.Observe(ctx)
	n.Close()
	ends("the channel of a node that has ended", last)
}

func TestWrongInputToAnElection(t *testing.T) {
	ctx := patience(t)
	s := session(t, solo(t))
	long := strings.Repeat("x", 4097)
	for what, name := range map[string]string{"an empty name": "", "a long name": long[:1025]} {
		e := concurrency.NewElection(s, name)
		unwraps(t, what, e.Campaign(ctx, ""), mesh.ErrInvalidKey)
		_, err := e.Leader(ctx)
		unwraps(t, what, err, mesh.ErrInvalidKey)
		if got, open := <-e.Observe(ctx); open {
			t.Errorf("%s: observed %v", what, got)
		}
		is(t, what, e.Proclaim(ctx, ""), concurrency.ErrElectionNotLeader)
		is(t, what, e.Resign(ctx), nil)
	}
	e := concurrency.NewElection(s, "boss")
	var none context.Context
	unwraps(t, "no context", e.Campaign(none, ""), mesh.ErrInvalidOption)
	unwraps(t, "a long value", e.Campaign(ctx, long), mesh.ErrInvalidOption)
	is(t, "Campaign", e.Campaign(ctx, ""), nil)
	unwraps(t, "no context", e.Proclaim(none, ""), mesh.ErrInvalidOption)
	unwraps(t, "a long value", e.Proclaim(ctx, long), mesh.ErrInvalidOption)
	unwraps(t, "a long value, again", e.Campaign(ctx, long), mesh.ErrInvalidOption)
	unwraps(t, "no context", e.Resign(none), mesh.ErrInvalidOption)
	_, err := e.Leader(none)
	unwraps(t, "no context", err, mesh.ErrInvalidOption)
	if got, open := <-e.Observe(none); open {
		t.Errorf("no context: observed %v", got)
	}
	leader(t, e, "")
	unwraps(t, "a mutex of the name", concurrency.NewMutex(s, "boss").TryLock(ctx), mesh.ErrCapacityMismatch)

	for what, e := range map[string]*concurrency.Election{
		"nil": nil, "zero": {}, "no session": concurrency.NewElection(nil, "boss"), "resumed": concurrency.ResumeElection(nil, "boss", "boss/1", 1),
	} {
		is(t, what, e.Campaign(ctx, ""), concurrency.ErrSessionExpired)
		is(t, what, e.Proclaim(ctx, ""), concurrency.ErrElectionNotLeader)
		is(t, what, e.Resign(ctx), nil)
		_, err := e.Leader(ctx)
		is(t, what, err, concurrency.ErrSessionExpired)
		if got, open := <-e.Observe(ctx); open || e.Key() != "" || e.Rev() != 0 || e.Header() != nil {
			t.Errorf("%s: observed %v, key %q, rev %d, header %v", what, got, e.Key(), e.Rev(), e.Header())
		}
	}
}

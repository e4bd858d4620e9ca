package node

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// believed is for how long a TTL is believed in, at a ρ of 1 % (P1).
func believed(ttl time.Duration) time.Duration { return time.Duration(float64(ttl) * 0.99 / 1.01) }

// Promise: G5, P1, P6: a lease counts from the first sending of the request that opened it, and then
// from the sending of each renewal that was confirmed; never from an answer's arrival, nor from a grant.
func TestALeaseCountsFromTheSending(t *testing.T) {
	b := newBench(t, Config{})
	begun := b.now
	c := b.asks(b.node.Session(), Request{Key: "k"})
	p := b.expect("2: lock k")
	b.pass(50 * time.Millisecond)
	b.hears(nodeB, told(p, message.Result{Outcome: message.Queued, Revision: 6}))
	b.pass(3 * time.Second)
	b.hears(nodeB, grant(p, 7))
	h := c.got
	ends := func(want time.Duration, when string) {
		t.Helper()
		if got := h.deadline(); got != want {
			t.Errorf("%s the belief ends at %v, want %v", when, got-begun, want-begun)
		}
		if w := b.Wall().Add(want - b.now); !h.Deadline().Equal(w) {
			t.Errorf("%s it is said to end at %v, want %v", when, h.Deadline(), w)
		}
	}
	ends(begun+believed(benchTTL), "when granted,")
	b.expects()
	b.pass(begun + benchTTL/3 - b.now)
	q := b.expect("2: renewal")
	if want := (message.Renewal{Session: c.seat.id, Ref: 1}); q.class != transport.Urgent || q.renewal().Session != want.Session || q.renewal().Ref != want.Ref || q.renewal().After != 0 || q.renewal().Relay {
		t.Errorf("the renewal is %+v, want %+v", q, want)
	}
	b.pass(300 * time.Millisecond)
	b.hears(nodeB, alive(q, 8))
	ends(begun+benchTTL/3+believed(benchTTL), "once renewed,")
	b.hears(nodeB, alive(q, 8))
	b.expects()

	// No answer: it is asked again every second, and each answer counts from its own question,
	// whatever came before.
	b.pass(begun + 2*benchTTL/3 - 1 - b.now)
	b.expects()
	b.pass(1)
	var asked []parcel
	for i := range 4 {
		if i > 0 {
			b.pass(time.Second - 1)
			b.expects()
			b.pass(1)
		}
		asked = append(asked, b.take()...)
	}
	if len(asked) != 4 || asked[0].to != nodeB || asked[0].renewal().Relay || !asked[2].renewal().Relay {
		t.Fatalf("asked %+v", asked)
	}
	b.hears(nodeB, alive(asked[2], 8))
	ends(begun+2*benchTTL/3+2*time.Second+believed(benchTTL), "after the answer to the last but one,")
	b.hears(nodeB, alive(asked[1], 8))
	ends(begun+2*benchTTL/3+2*time.Second+believed(benchTTL), "after an older answer,")
	b.pass(begun + benchTTL + 2*time.Second - 1 - b.now)
	b.expects()
	b.pass(1)
	q = b.expect("2: renewal") // by the leader's own way again
	b.hears(nodeB, alive(q, 8))
	ends(begun+benchTTL+2*time.Second+believed(benchTTL), "in the end")
	if st := b.node.Stats(); st.Renewals != 6 || st.Losses != 0 || st.Grants != 1 || st.Acquires != 1 {
		t.Errorf("%+v", st)
	}

	// An old answer (P13) says nothing of it; one at its grant's revision does.
	b.pass(benchTTL / 3)
	q = b.expect("2: renewal")
	b.hears(nodeB, unknown(q, 5))
	if h.Err() != nil {
		t.Error("an answer that is older than the record ends the hold")
	}
	b.pass(time.Second)
	b.hears(nodeB, unknown(b.expect("2: renewal"), 6))
	if h.Err() != ErrLost || b.node.Stats().Losses != 1 {
		t.Errorf("the hold: %v, %d losses", h.Err(), b.node.Stats().Losses)
	}
	b.pass(time.Minute)
	b.expects() // nothing hangs on it any more
	if len(b.desk().seats)+len(b.desk().by)+len(b.desk().current) != 0 {
		t.Error("the desk keeps a seat that is over")
	}
}

// Promise: G5, P6: a grant that comes after the client's deadline is no hold until a renewal is
// confirmed: one for all that come at once.
func TestAGrantThatComesTooLate(t *testing.T) {
	for _, late := range []time.Duration{-1, 0, time.Second} {
		b := newBench(t, Config{})
		begun := b.now
		k := b.asks(b.node.Session(), Request{Key: "k"})
		m := b.asks(b.node.Session(), Request{Key: "m"})
		sent := b.expects("2: lock k", "2: lock m")
		b.hears(nodeB, told(sent[0], message.Result{Outcome: message.Queued, Revision: 6}), told(sent[1], message.Result{Outcome: message.Queued, Revision: 6}))
		b.pass(begun + believed(benchTTL) + late - b.now)
		b.take()
		b.hears(nodeB, grant(sent[0], 7), grant(sent[1], 8))
		if late < 0 {
			if !k.over || !m.over || k.got.deadline() != begun+believed(benchTTL) {
				t.Error("a grant that comes just in time is not told")
			}
			continue
		}
		q := b.expect([]string{"2: renewal", "3: renewal"}[b.sent[0].to-nodeB])
		if k.over || m.over {
			t.Fatalf("%v after the deadline a grant is told", late)
		}
		asked := b.now
		b.pass(300 * time.Millisecond)
		b.take()
		b.hears(nodeB, alive(q, 8))
		for _, c := range []*call{k, m} {
			if !c.over || c.err != nil || c.got.deadline() != asked+believed(benchTTL) {
				t.Errorf("a late grant that was confirmed: %v, %v", c.over, c.err)
			}
		}
	}
}

// Promise: G5, P9: what is asked for in an idle session goes into its old seat only while much of the lease is left;
// and a seat in which nothing is held or waited for is not renewed, and gone when its lease is over.
func TestAnIdleSeat(t *testing.T) {
	for _, tt := range []struct {
		left time.Duration // of the belief
		same bool
	}{
		{believed(benchTTL) - time.Second, true},
		{believed(benchTTL) - benchTTL/3 + 1, true},
		{believed(benchTTL) - benchTTL/3, true},
		{benchTTL/2 + 1, true},
		{benchTTL / 2, false},
		{1, false},
		{0, false},
	} {
		b := newBench(t, Config{})
		h := b.holds(b.node.Session(), Request{Key: "k"}, 7)
		id, end := h.seat.id, h.deadline()
		b.meanwhile(func() {
			b.mail(nodeB, told(b.expect("2: unlock k token 7"), message.Result{Outcome: message.Done, Revision: 8}))
		})
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.pass(end - tt.left - b.now)
		b.expects()
		if there := len(b.desk().seats); there != 1 && tt.left > 0 || there != 0 && tt.left == 0 {
			t.Errorf("%v before its end there are %d seats", tt.left, there)
		}
		b.asks(b.node.Session(), Request{Key: "m"})
		want := []string{"2: renewal", "2: lock m"} // it is overdue, and goes first (P16)
		if !tt.same || tt.left > believed(benchTTL)-benchTTL/3 {
			want = want[1:]
		}
		sent := b.expects(want...)
		if got, _ := shard.ClientOf(sent[len(sent)-1].command()); (got == id) != tt.same {
			t.Errorf("%v before the end of %v a call goes into %v", tt.left, id, got)
		}
	}
}

// Promise: G5, P1, P12: a seat whose record nobody has shown yet is not renewed: the answer could only be "unknown".
func TestNoRenewalBeforeTheRecordIsShown(t *testing.T) {
	for _, tt := range []struct {
		name    string
		p       message.Result
		renewed bool
	}{
		{"queued", message.Result{Outcome: message.Queued, Revision: 3}, true},
		{"refused, for the key is taken", message.Result{Outcome: message.Refused, Reason: shard.Locked, Revision: 3}, true},
		{"behind", message.Result{Outcome: message.Refused, Reason: shard.Behind, Revision: 3}, false},
		{"lost", message.Result{Outcome: message.Refused, Reason: shard.Lost, Revision: 3}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			b.asks(b.node.Session(), Request{Key: "k"})
			b.asks(b.node.Session(), Request{Key: "m"})
			sent := b.expects("2: lock k", "2: lock m")
			b.hears(nodeB, told(sent[0], tt.p))
			b.pass(benchTTL / 2)
			if got := slices.ContainsFunc(b.take(), func(p parcel) bool { return is[*message.Renewal](p) }); got != tt.renewed {
				t.Errorf("it is renewed: %t", got)
			}
		})
	}
	// Once it is shown, a renewal that is overdue goes at once.
	b := newBench(t, Config{})
	b.asks(b.node.Session(), Request{Key: "k"})
	p := b.expect("2: lock k")
	b.pass(benchTTL / 2)
	b.take()
	b.hears(nodeB, told(p, message.Result{Outcome: message.Queued, Revision: 3}))
	if q := b.take(); len(q) != 1 || !is[*message.Renewal](q[0]) {
		t.Errorf("sent %+v, want a renewal", q)
	}
}

// Promise: G5, P9: a lease that ends loses what was held. Who waits in the node's own session asks
// anew, in a new seat; a user's session ends as a whole.
func TestALeaseThatEnds(t *testing.T) {
	for _, user := range []bool{false, true} {
		b := newBench(t, Config{Shards: 2})
		s := b.node.Session()
		if user {
			s, _ = b.node.NewSession(benchTTL)
		}
		h := b.holds(s, Request{Key: "k"}, 7)
		old := h.seat.id
		waits := b.asks(s, Request{Key: "w"})
		try := b.asks(s, Request{Key: "t", Try: true})
		sent := b.expects("2: lock w", "2: lock t")
		b.hears(nodeB, told(sent[0], message.Result{Outcome: message.Queued, Revision: 8}))
		b.pass(replica.ElectionTimeout)
		elsewhere := &call{what: acquires, session: s, shard: 1, req: Request{Key: "e"}, parker: b.NewParker()}
		b.do(func(l *lane) { l.desk(1).acquire(elsewhere) })
		b.take()
		m := grant(parcelOf(elsewhere.command), 9)
		m.shard = 1
		b.hears(nodeB, m)
		if elsewhere.err != nil || try.over {
			t.Fatal(elsewhere.err, try.over)
		}
		b.take()
		b.stall(h.deadline() - b.now - 1)
		if h.Over() {
			t.Fatal("the hold ends before its deadline")
		}
		b.take()
		b.pass(1)
		if !h.Over() || h.Err() != ErrLost || s.Err() == nil == user {
			t.Errorf("the hold: %v, the session: %v", h.Err(), s.Err())
		}
		if (elsewhere.got.Err() == nil) == user {
			t.Errorf("of a user: %t; the hold in another shard: %v", user, elsewhere.got.Err())
		}
		if user {
			if s.Err() != ErrLost || waits.err != ErrLost || !waits.over {
				t.Errorf("the session: %v, who waits: %v", s.Err(), waits.err)
			}
			continue
		}
		if !try.over || try.err != ErrNoQuorum {
			t.Errorf("a Try ends with %v", try.err)
		}
		again := slices.DeleteFunc(b.take(), func(p parcel) bool { return p.words() != "lock w" })
		if len(again) == 0 || waits.over {
			t.Fatalf("who waits: %v, %v", waits.over, waits.err)
		}
		if id, _ := shard.ClientOf(again[0].command()); id == old || numberOf(again[0].command()) != 1 {
			t.Errorf("who waits asks anew in %v, which was over", id)
		}
		b.hears(nodeB, grant(again[0], 12))
		if !waits.over || waits.err != nil || waits.got.deadline() != b.now+believed(benchTTL) {
			t.Errorf("who asked anew: %v, until %v", waits.err, waits.got)
		}
	}
}

// Promise: G5, P5: a lease is renewed when a third of it is over, also if nothing hung on it until shortly before.
func TestARenewalIsNotLate(t *testing.T) {
	for _, before := range []time.Duration{0, 1, 20 * time.Millisecond, 90 * time.Millisecond} {
		b := newBench(t, Config{})
		due := b.now + benchTTL/3
		h := b.holds(b.node.Session(), Request{Key: "k"}, 7)
		b.unlocks(h)
		b.hears(nodeB, told(b.expect("2: unlock k token 7"), message.Result{Outcome: message.Done, Revision: 8}))
		b.pass(due - before - b.now)
		b.expects()
		c := b.asks(b.node.Session(), Request{Key: "m"})
		p := b.take()
		b.hears(nodeB, told(parcelOf(c.command), message.Result{Outcome: message.Queued, Revision: 9}))
		b.pass(before)
		if p = append(p, b.take()...); len(p) != 2 || is[*message.Renewal](p[0]) == is[*message.Renewal](p[1]) {
			t.Errorf("asked %v before a renewal is due: sent %+v by then", before, p)
		}
	}
}

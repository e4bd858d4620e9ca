package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// to asks for an operation on the resource r.
func to(op shard.Op) Request {
	o := &shard.Operation{Op: op, Version: "1", Alone: op != shard.Update, Retention: time.Minute}
	if op == shard.Pull {
		o.User = "ann"
	}
	return Request{Key: "r", Mode: Operates, Operation: o}
}

func pull() Request { return to(shard.Pull) }

// pullAs asks for a pull by another user.
func pullAs(user string) Request {
	q := pull()
	q.Operation.User = user
	return q
}

func durably(q Request) Request {
	q.Operation.Durable = true
	return q
}

// skipped is the word that what a request asks for is done, at the revision that is the stamp.
func skipped(request Send, stamp uint64) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Skipped, Token: stamp}, Revision: stamp})
}

// stamped is the word that a command is done, and about a use with this stamp.
func stamped(request Send, stamp uint64) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Done, Token: stamp}, Revision: stamp})
}

// runs returns the hold of an operation.
func (b *bench) runs(s *Session, q Request, token uint64) *Hold {
	b.tb.Helper()
	c := b.asks(s, q)
	b.hears(nodeB, granted(b.expect(fmt.Sprintf("2: %v %s", q.Operation.Op, q.Key)), token))
	if !c.over || c.Err != nil || c.Hold == nil || c.Skipped {
		b.tb.Fatalf("%+v is not granted: %v, %v", q, c.over, c.Err)
	}
	return c.Hold
}

// uses returns a use that a pull in the node's own session has made, as it was skipped.
func (b *bench) uses(q Request, stamp uint64) *Hold {
	b.tb.Helper()
	return b.usesIn(b.own, q, stamp)
}

func (b *bench) usesIn(s *Session, q Request, stamp uint64) *Hold {
	b.tb.Helper()
	c := b.asks(s, q)
	b.hears(nodeB, skipped(b.expect("2: pull "+q.Key), stamp))
	if !c.over || c.Err != nil || c.Hold == nil || !c.Skipped {
		b.tb.Fatalf("%+v is not skipped: %v, %v", q, c.over, c.Err)
	}
	return c.Hold
}

// shortens lets the leases last for 2 s from now on, after 3 s: what was sent before is too old to be believed as it is (C5).
func (b *bench) shortens() {
	b.tb.Helper()
	b.pass(3 * time.Second)
	b.do(Limited{2 * time.Second})
	b.takes()
}

// waitsForUse returns a pull that was skipped too late to be believed: its use waits for a renewal.
func (b *bench) waitsForUse(q Request, stamp uint64) *Call {
	b.tb.Helper()
	c := b.asks(b.own, q)
	b.shortens()
	b.hears(nodeB, skipped(sending(c), stamp))
	if b.takes(); c.over || c.Hold == nil {
		b.tb.Fatalf("a skip that comes late: %t, %v", c.over, c.Err)
	}
	return c
}

// endsLate returns the End of a pull that was answered too late to be believed: its use waits for a renewal.
func (b *bench) endsLate(s *Session, q Request, token, stamp uint64) *Call {
	b.tb.Helper()
	c := b.unlocks(b.runs(s, q, token))
	b.shortens()
	b.hears(nodeB, stamped(sending(c), stamp))
	if b.takes(); c.over || c.Use == nil {
		b.tb.Fatalf("an End that is answered late: %t, %v", c.over, c.Err)
	}
	return c
}

// fails ends an operation that has failed.
func (b *bench) fails(h *Hold) *Call {
	b.tb.Helper()
	h.End(env.Never, fault.ErrClosed)
	c := &Call{Kind: Unlock, Shard: h.Shard, Hold: h, Failed: true}
	b.do(Start{c})
	return c
}

// dropsLone fails the test if no Drop is sent of a use that has outlived its session: up to the stamp lone, which a caller had, or with
// exactly the stamp vain.
func (b *bench) dropsLone(lone, vain uint64) {
	b.tb.Helper()
	for _, p := range b.takes() {
		if d, ok := commandOf(p).(shard.Drop); ok && d.Lone == lone && d.Vain == vain {
			return
		}
	}
	b.tb.Errorf("no Drop of a use that was made at %d, or by %d", vain, lone)
}

// drops drops the use of r by a user's name.
func (b *bench) drops(s *Session, user string) *Call {
	b.tb.Helper()
	c := &Call{Kind: Drop, Session: s, Request: Request{Key: "r", Operation: &shard.Operation{User: user}}}
	b.do(Start{c})
	return c
}

// renews lets the client ask for a renewal, and answers it.
func (b *bench) renews(revision uint64, results ...shard.Event) {
	b.tb.Helper()
	b.takes()
	for n := 0; !slices.ContainsFunc(b.sent, is[*message.Renewal]); n++ {
		if b.pass(100 * time.Millisecond); n > 100 {
			b.tb.Fatal("nothing is renewed")
		}
	}
	sent := b.takes()
	b.hears(nodeB, alive(sent[slices.IndexFunc(sent, is[*message.Renewal])], revision, results...))
}

// has checks that a caller has a use: it was finished without an error, and may be believed in.
func (b *bench) has(c *Call, h *Hold, stamp uint64) {
	b.tb.Helper()
	switch {
	case !c.over || c.Err != nil:
		b.tb.Fatalf("the call: %t, %v", c.over, c.Err)
	case h == nil || h.Token != stamp || h.User() != "ann" || !h.Pulls() || h.Key != "r" || h.Shard != c.Shard:
		b.tb.Fatalf("the use: %+v, want one with stamp %d", h, stamp)
	case h.Err() != nil || b.now >= h.Deadline():
		b.tb.Fatalf("the use: %v, until %v at %v", h.Err(), h.Deadline(), b.now)
	}
}

// dropsWith checks that a release of the last handle drops the use with this stamp.
func (b *bench) dropsWith(h *Hold, stamp uint64) {
	b.tb.Helper()
	c := b.unlocks(h)
	b.hears(nodeB, done(b.expectTo(fmt.Sprintf("drop r stamp %d", stamp)), stamp+100))
	if !c.over || c.Err != nil {
		b.tb.Errorf("the release: %t, %v", c.over, c.Err)
	}
}

// Promise: P39: a pull that ran and did not fail gives the caller of its End a use, which goes on with the lease. The hold of the
// operation is over.
func TestAPullThatRuns(t *testing.T) {
	b := newBench(t)
	begun := b.now
	op := b.runs(b.own, pull(), 7)
	if !op.Pulls() || op.User() != "" || b.client.Held() != 1 {
		t.Errorf("it pulls: %t, for %q; %d are held", op.Pulls(), op.User(), b.client.Held())
	}
	b.happened()
	c := b.unlocks(op)
	b.hears(nodeB, stamped(b.expect("2: end r token 7"), 9))
	b.has(c, c.Use, 9)
	if got := b.happened(); len(got) != 1 || got[0] != Event(Finished{c}) {
		t.Errorf("events: %+v", got)
	}
	if c.Use.Deadline() != begun+believed(benchTTL) || op.Err() != fault.ErrClosed || c.Use == op || len(c.lease.holds) != 1 {
		t.Errorf("the use: until %v; the operation: %v", c.Use.Deadline(), op.Err())
	}
	if n := b.client.Counters(); n.Unlocks.Load() != 1 || n.Grants.Load() != 1 {
		t.Errorf("%d unlocks, %d grants", n.Unlocks.Load(), n.Grants.Load())
	}
	b.asks(b.own, Request{Key: "k"})
	if a := commandOf(b.expect("2: lock k")).(shard.Acquire).Acked; !slices.Equal(a, []uint64{2}) {
		t.Errorf("the next command acknowledges %v, want 2", a)
	}
	b.pass(benchTTL / 3)
	asked := b.now
	b.renews(10)
	if c.Use.Deadline() < asked+believed(benchTTL) || !slices.Contains(b.happened(), Event(Extended{c.Use})) {
		t.Errorf("once renewed, it is believed in until %v", c.Use.Deadline())
	}
	b.dropsWith(c.Use, 9)
}

// Promise: P39: what failed, and what is no pull, makes no use.
func TestAnEndWithoutAUse(t *testing.T) {
	for _, tt := range []struct {
		name   string
		op     shard.Op
		failed bool
		want   string
	}{
		{"a pull that failed", shard.Pull, true, "2: fail r token 7"},
		{"an update", shard.Update, false, "2: end r token 7"},
		{"an update that failed", shard.Update, true, "2: fail r token 7"},
		{"a delete", shard.Delete, false, "2: end r token 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			op := b.runs(b.own, to(tt.op), 7)
			end := b.unlocks
			if tt.failed {
				end = b.fails
			}
			c := end(op)
			b.hears(nodeB, done(b.expect(tt.want), 9))
			if !c.over || c.Err != nil || c.Use != nil || b.client.Held() != 0 || len(c.lease.holds) != 0 || b.client.Counters().Unlocks.Load() != 1 {
				t.Errorf("%t, %v; it makes a use: %t; %d are held", c.over, c.Err, c.Use != nil, b.client.Held())
			}
			b.expects()
		})
	}
}

// Promise: P39: an End that the table refuses makes no use: the operation had ended before.
func TestAnEndIsRefused(t *testing.T) {
	b := newBench(t)
	c := b.unlocks(b.runs(b.own, pull(), 7))
	b.hears(nodeB, refused(b.expect("2: end r token 7"), shard.Lost, 9))
	if b.expects(); !c.over || c.Err != fault.ErrLost || c.Use != nil || len(c.lease.holds) != 0 {
		t.Errorf("%t, %v; it makes a use: %t", c.over, c.Err, c.Use != nil)
	}
}

// Promise: P39: a pull that is skipped gives its caller a use; an update and a delete give nothing to hold. The result is
// acknowledged.
func TestWhatIsSkipped(t *testing.T) {
	for _, op := range []shard.Op{shard.Pull, shard.Update, shard.Delete} {
		for _, queues := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, queued: %t", op, queues), func(t *testing.T) {
				b := newBench(t)
				c := b.asks(b.own, to(op))
				p := b.expect(fmt.Sprintf("2: %v r", op))
				if queues {
					b.hears(nodeB, queued(p, 6))
				}
				b.happened()
				b.hears(nodeB, skipped(p, 7))
				if !c.Skipped || !slices.Equal(b.happened(), []Event{Finished{c}}) {
					t.Errorf("skipped: %t", c.Skipped)
				}
				if op == shard.Pull {
					b.has(c, c.Hold, 7)
				} else if !c.over || c.Err != nil || c.Hold != nil || len(c.lease.holds) != 0 {
					t.Errorf("%t, %v, %+v", c.over, c.Err, c.Hold)
				}
				b.expects()
				b.asks(b.own, Request{Key: "k"})
				if a := commandOf(b.expect("2: lock k")).(shard.Acquire).Acked; !slices.Equal(a, []uint64{1}) {
					t.Errorf("the next command acknowledges %v", a)
				}
			})
		}
	}
}

// Promise: P39, P11: what is told again gives nobody a second handle.
func TestASkipIsToldAgain(t *testing.T) {
	b := newBench(t)
	c := b.waitsForUse(pull(), 7)
	h := c.Hold
	b.hears(nodeB, skipped(sending(c), 7))
	if b.takes(); c.over || c.Hold != h || len(c.lease.holds) != 1 {
		t.Errorf("over: %t; another hold: %t; %d holds", c.over, c.Hold != h, len(c.lease.holds))
	}
	b.renews(8, shard.Event{Session: shard.SessionID{Number: c.lease.id.Number}, Number: c.number, What: shard.Skipped, Token: 7})
	b.has(c, h, 7)
	b.hears(nodeB, skipped(sending(c), 7))
	if b.takes(); len(c.lease.holds) != 1 {
		t.Errorf("%d holds", len(c.lease.holds))
	}
	b.dropsWith(h, 7)
}

// Promise: P39, P11: an End that is answered again gives nobody a second handle.
func TestAnEndIsAnsweredAgain(t *testing.T) {
	b := newBench(t)
	c := b.endsLate(b.own, pull(), 7, 9)
	use := c.Use
	b.hears(nodeB, stamped(sending(c), 9))
	if c.Use != use || len(c.lease.holds) != 1 || b.client.Counters().Unlocks.Load() != 1 {
		t.Errorf("another use: %t; %d holds; %d unlocks", c.Use != use, len(c.lease.holds), b.client.Counters().Unlocks.Load())
	}
	b.renews(10)
	b.has(c, use, 9)
	b.hears(nodeB, stamped(sending(c), 9))
	if c.Use != use || len(c.lease.holds) != 1 {
		t.Errorf("another use: %t; %d holds", c.Use != use, len(c.lease.holds))
	}
	b.dropsWith(use, 9)
}

// Promise: P39, P6: a skip that comes when the belief has ended gives a use once a renewal has confirmed it. An update has nothing to
// believe in, and does not wait.
func TestASkipThatComesTooLate(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, pull())
	b.stall(believed(benchTTL))
	b.hears(nodeB, skipped(sending(c), 7))
	q := b.takes()
	if c.over || !is[*message.Renewal](q[len(q)-1]) {
		t.Fatalf("over: %t; sent %q", c.over, inWords(q))
	}
	asked := b.now
	b.pass(300 * time.Millisecond)
	b.hears(nodeB, alive(q[len(q)-1], 8))
	b.has(c, c.Hold, 7)
	if c.Hold.Deadline() != asked+believed(benchTTL) {
		t.Errorf("it is believed in until %v, want %v", c.Hold.Deadline(), asked+believed(benchTTL))
	}

	b = newBench(t)
	c = b.asks(b.own, to(shard.Update))
	b.stall(believed(benchTTL))
	if b.hears(nodeB, skipped(sending(c), 7)); !c.over || c.Err != nil || !c.Skipped {
		t.Errorf("an update: %t, %v", c.over, c.Err)
	}
}

// Promise: P39, P6: an End that is answered when the belief has ended gives a use once a renewal has confirmed it. Meanwhile it is
// not repeated, nor does a renewal ask for its result.
func TestAnEndThatIsAnsweredTooLate(t *testing.T) {
	b := newBench(t)
	c := b.unlocks(b.runs(b.own, pull(), 7))
	b.now = c.Hold.Deadline()
	b.step(Received{From: nodeB, Message: stamped(sending(c), 9)}) // before it is told the time
	b.settle()
	if c.over || c.Hold.Err() != fault.ErrClosed {
		t.Fatalf("%t, %v", c.over, c.Err)
	}
	b.asks(b.own, Request{Key: "k"})
	b.takes()
	b.pass(time.Second)
	sent := b.takes()
	i := slices.IndexFunc(sent, is[*message.Renewal])
	if i < 0 || slices.ContainsFunc(sent, func(p Send) bool { return words(p) == "end r token 7" }) {
		t.Fatalf("sent %q", inWords(sent))
	}
	if after := renewalOf(sent[i]).After; after != c.number {
		t.Errorf("it asks for what is behind %d, want %d", after, c.number)
	}
	b.hears(nodeC, serves(benchTerm+1))
	if slices.ContainsFunc(b.takes(), func(p Send) bool { return words(p) == "end r token 7" }) {
		t.Error("a new leader is asked")
	}
	b.hears(nodeB, alive(sent[i], 9))
	b.has(c, c.Use, 9)
}

// Promise: P39: a caller that gives up a pull whose use waits for a renewal has none, and the use is dropped: once the Cancel is
// answered, whether or not the answer tells of it.
func TestWhoGivesUpASkipThatCameTooLate(t *testing.T) {
	for _, stamp := range []uint64{0, 7} {
		b := newBench(t)
		c := b.waitsForUse(pull(), 7)
		b.do(Abandon{c, context.Canceled})
		if c.Err != context.Canceled || len(c.lease.holds) != 0 {
			t.Errorf("%v; %d holds", c.Err, len(c.lease.holds))
		}
		cancel := b.expectTo("cancel")
		b.renews(8)
		b.expects()
		b.hears(nodeB, stamped(cancel, stamp))
		if b.expect("2: drop r stamp 7"); b.finished[c] != true || len(c.lease.holds) != 0 {
			t.Errorf("%d holds", len(c.lease.holds))
		}
	}
}

// Promise: P39: the first of two handles ends alone: its release is done at once. The last one drops the use, with the latest
// stamp, whichever of them it is.
func TestTheLastHandleDropsTheUse(t *testing.T) {
	for first := range 2 {
		b := newBench(t)
		c := b.unlocks(b.runs(b.own, pull(), 5))
		b.hears(nodeB, stamped(b.expect("2: end r token 5"), 7))
		handles := []*Hold{c.Use, b.uses(pull(), 9)}
		b.happened()
		u := b.unlocks(handles[first])
		if b.expects(); !u.over || u.Err != nil || !slices.Equal(b.happened(), []Event{Finished{u}}) {
			t.Errorf("the first release: %t, %v", u.over, u.Err)
		}
		last := handles[1-first]
		if last.Err() != nil || len(last.lease.holds) != 1 {
			t.Errorf("the last handle: %v; %d holds", last.Err(), len(last.lease.holds))
		}
		u = b.unlocks(last)
		p := b.expect("2: drop r stamp 9")
		if d := commandOf(p).(shard.Drop); u.over || d.User != "ann" || d.Lone != 9 {
			t.Errorf("sent %+v; the last release: %t", d, u.over)
		}
		if b.hears(nodeB, done(p, 10)); !u.over || u.Err != nil || len(last.lease.holds) != 0 || len(last.lease.uses) != 0 {
			t.Errorf("the last release: %t, %v; %d holds, %d uses", u.over, u.Err, len(last.lease.holds), len(last.lease.uses))
		}
	}
}

// Promise: P39: the uses of another user, and of another resource, are others.
func TestOtherUses(t *testing.T) {
	other := pull()
	other.Key = "s"
	for _, q := range []Request{pullAs("bob"), other} {
		b := newBench(t)
		h, o := b.uses(pull(), 7), b.uses(q, 9)
		b.dropsWith(h, 7)
		if o.Err() != nil || len(o.lease.holds) != 1 {
			t.Errorf("%+v: %v", q, o.Err())
		}
		b.unlocks(o)
		if d := commandOf(b.expect("2: drop " + q.Key + " stamp 9")).(shard.Drop); d.User != q.Operation.User {
			t.Errorf("sent %+v", d)
		}
	}
}

// Promise: P39: a use that is made again while its Drop is under way is another one: the Drop names the stamp that it had, also
// when it is repeated, and its answer ends no later handle.
func TestAUseIsMadeAgainWhileItIsDropped(t *testing.T) {
	b := newBench(t)
	u := b.unlocks(b.uses(pull(), 7))
	b.expect("2: drop r stamp 7")
	h := b.uses(pull(), 9)
	b.pass(firstRetry)
	b.hears(nodeB, done(b.expect("2: drop r stamp 7"), 10))
	if !u.over || u.Err != nil || h.Err() != nil {
		t.Errorf("the release: %t, %v; the later use: %v", u.over, u.Err, h.Err())
	}
	o := b.uses(pull(), 11)
	if u := b.unlocks(h); !u.over {
		t.Error("the first of two handles is the last")
	}
	b.dropsWith(o, 11)
}

// Promise: P39, P8: a Drop by name ends each handle before anything is sent, names the stamp that the client knows, and leaves the
// uses of others alone. What an ended handle's release wants is done.
func TestAUseIsDroppedByName(t *testing.T) {
	b := newBench(t)
	handles := []*Hold{b.uses(pull(), 7), b.uses(pull(), 9)}
	other := b.uses(pullAs("bob"), 11)
	b.happened()
	b.play = func(p Send) {
		if b.sent = append(b.sent, p); handles[0].Err() == nil || handles[1].Err() == nil {
			t.Errorf("%q is sent before the belief has ended", words(p))
		}
	}
	c := b.drops(b.own, "ann")
	b.play = nil
	want := []Event{Unlocking{handles[0]}, End{handles[0], fault.ErrClosed}, Unlocking{handles[1]}, End{handles[1], fault.ErrClosed}}
	if got := b.happened(); !slices.Equal(got, want) {
		t.Errorf("events: %+v", got)
	}
	p := b.expect("2: drop r stamp 9")
	if d := commandOf(p).(shard.Drop); d.User != "ann" || d.Lone != anyStamp || c.over || len(other.lease.holds) != 1 {
		t.Errorf("sent %+v; over: %t; %d holds", d, c.over, len(other.lease.holds))
	}
	for _, h := range handles {
		if u := b.unlocks(h); !u.over || u.Err != nil {
			t.Errorf("the release of an ended handle: %t, %v", u.over, u.Err)
		}
	}
	b.expects()
	if b.hears(nodeB, done(p, 12)); !c.over || c.Err != nil || other.Err() != nil {
		t.Errorf("the Drop: %t, %v; another user's: %v", c.over, c.Err, other.Err())
	}
	h := b.uses(pull(), 13)
	b.dropsWith(h, 13)
}

// Promise: P39: a Drop by name of which the session has no handle is about a use that outlived its session.
func TestADropWithoutAHandle(t *testing.T) {
	b := newBench(t)
	c := b.drops(b.own, "ann")
	p := b.expect("2: drop r stamp 0")
	if d := commandOf(p).(shard.Drop); d.Lone != anyStamp || d.User != "ann" || c.over {
		t.Errorf("sent %+v", d)
	}
	if b.hears(nodeB, done(p, 9)); !c.over || c.Err != nil {
		t.Errorf("%t, %v", c.over, c.Err)
	}
}

// Promise: P39, P9: a Drop by name in a session that has ended is not sent.
func TestADropInASessionThatHasEnded(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	s.End(fault.ErrLost)
	if c := b.drops(s, "ann"); !c.over || c.Err != fault.ErrLost || b.leases() != 0 {
		t.Errorf("%t, %v; %d leases", c.over, c.Err, b.leases())
	}
	b.expects()
}

// Promise: P39: a Drop by name whose lease is lost is asked for anew, as it may be about a use that has no session any more, unless
// its session has ended.
func TestADropWhoseLeaseIsLost(t *testing.T) {
	for _, user := range []bool{false, true} {
		b := newBench(t)
		s := b.own
		if user {
			s = NewSession(false, benchTTL)
		}
		h := b.usesIn(s, pull(), 7)
		b.holds(s, Request{Key: "k"}, 8)
		c := b.drops(s, "ann")
		b.expect("2: drop r stamp 7")
		b.stall(benchTTL)
		sent := b.takes()
		if user {
			if !c.over || c.Err != fault.ErrLost || s.Err() != fault.ErrLost {
				t.Errorf("the Drop: %t, %v", c.over, c.Err)
			}
			continue
		}
		if len(sent) == 0 {
			t.Fatalf("sent nothing; the Drop: %t, %v", c.over, c.Err)
		}
		p := sent[len(sent)-1]
		if d, ok := commandOf(p).(shard.Drop); !ok || sessionOf(p) == h.lease.id || d.Number != 1 || d.Stamp != 0 || d.Lone != anyStamp || !slices.Equal(d.Lost, []uint64{h.lease.id.Number}) || c.over {
			t.Fatalf("sent %q: %+v; over: %t", inWords(sent), commandOf(p), c.over)
		}
		if b.hears(nodeB, done(p, 9)); !c.over || c.Err != nil {
			t.Errorf("the Drop: %t, %v", c.over, c.Err)
		}
	}
}

// Promise: P39: a Drop names the leases of its session that were lost, and had uses: the latest 16, of those whose records the table
// may have, and none of another session.
func TestADropNamesLostLeases(t *testing.T) {
	b := newBench(t)
	drop := func(s *Session) shard.Drop {
		b.takes()
		b.drops(s, "bob")
		sent := b.takes()
		p := sent[len(sent)-1]
		b.hears(nodeB, done(p, 9))
		return commandOf(p).(shard.Drop)
	}
	b.holds(b.own, Request{Key: "k"}, 8)
	b.stall(benchTTL) // it had no uses
	if d := drop(b.own); d.Lost != nil {
		t.Errorf("lost %d", d.Lost)
	}
	var lost []uint64
	for n := range uint64(shard.MaxLost + 2) {
		lost = append(lost, b.uses(pull(), 10+n).lease.id.Number)
		b.stall(benchTTL)
	}
	if d := drop(b.own); !slices.Equal(d.Lost, lost[2:]) {
		t.Errorf("lost %d, want %d", d.Lost, lost[2:])
	}
	if d := drop(NewSession(false, benchTTL)); d.Lost != nil {
		t.Errorf("another session's: %d", d.Lost)
	}
	b.changes(2)
	if d := drop(b.own); d.Lost != nil {
		t.Errorf("in another generation: %d", d.Lost)
	}
}

// Promise: P39: a durable use of which the client has not heard when its lease was lost is dropped all the same: with its user's next Drop
// if a pull was skipped, and at once if it is of a pull's End, whose caller was told that it makes none, or of a Cancel.
func TestADropOfWhatWasUnheard(t *testing.T) {
	names := func(b *bench, old uint64, sent []Send) bool {
		b.tb.Helper()
		if len(sent) == 0 {
			return false
		}
		d, ok := commandOf(sent[len(sent)-1]).(shard.Drop)
		return ok && d.User == "ann" && slices.Equal(d.Lost, []uint64{old})
	}
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 5)
	c := b.asks(b.own, durably(pull()))
	old := c.lease.id.Number
	b.takes()
	b.stall(benchTTL)
	b.takes()
	b.hears(nodeB, skipped(sending(c), 12))
	b.unlocks(c.Hold)
	if sent := b.takes(); !names(b, old, sent) {
		t.Errorf("a skip: sent %q", inWords(sent))
	}

	b = newBench(t)
	h := b.runs(b.own, durably(pull()), 7)
	u := b.unlocks(h)
	b.do(Abandon{u, nil})
	b.takes()
	b.stall(benchTTL)
	if sent := b.takes(); u.Err != fault.ErrUnconfirmed || !names(b, h.lease.id.Number, sent) {
		t.Errorf("an End: %v, sent %q", u.Err, inWords(sent))
	}

	b = newBench(t)
	c = b.asks(b.own, durably(pull()))
	old = c.lease.id.Number
	b.do(Abandon{c, nil})
	b.takes()
	b.stall(benchTTL)
	if sent := b.takes(); !names(b, old, sent) {
		t.Errorf("a Cancel: sent %q", inWords(sent))
	}
}

// Promise: P39: a durable use of which a caller has a handle stays when its lease is lost, though the caller of another pull of the same
// user gives up: then, or in the next lease. The last handle there drops it, as its pull came later.
func TestWhoGivesUpEndsNoUseOfALostLease(t *testing.T) {
	drops := func(b *bench) (all []shard.Drop) {
		for _, p := range b.takes() {
			if d, ok := commandOf(p).(shard.Drop); ok {
				all = append(all, d)
			}
		}
		return all
	}
	for _, tt := range []struct {
		name    string
		durable bool // the use of which a caller has a handle
		lost    bool // it ends with another's
	}{{"a durable use", true, false}, {"a use that ends with its session", false, true}} {
		b := newBench(t)
		q := pull()
		if tt.durable {
			q = durably(q)
		}
		old := b.uses(q, 7).lease.id.Number
		b.stall(benchTTL)
		b.takes()
		c := b.asks(b.own, durably(pull()))
		b.takes()
		b.do(Abandon{c, context.Canceled})
		b.hears(nodeB, stamped(b.expect("2: cancel"), 12))
		if all := drops(b); len(all) != 1 || all[0].Stamp != 12 || all[0].Lone != 0 || slices.Contains(all[0].Lost, old) != tt.lost {
			t.Errorf("%s; given up in the next lease: %+v", tt.name, all)
		}
		b.unlocks(b.uses(pull(), 15))
		if all := drops(b); len(all) != 1 || all[0].Lone != 15 || !slices.Contains(all[0].Lost, old) {
			t.Errorf("%s; the last handle in the next lease: %+v", tt.name, all)
		}

		b = newBench(t)
		b.uses(q, 7)
		c = b.asks(b.own, durably(pull()))
		b.takes()
		b.do(Abandon{c, context.Canceled})
		b.stall(benchTTL)
		if all := drops(b); len(all) > 0 != tt.lost {
			t.Errorf("%s; given up as the lease is lost: %+v", tt.name, all)
		}
	}
}

// Promise: P39, P12: a Drop by name that nobody waits for is repeated until it is answered, and renewals name it.
func TestADropIsAbandoned(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 5)
	c := b.drops(b.own, "ann")
	p := b.expect("2: drop r stamp 0")
	b.do(Abandon{c, nil})
	b.pass(benchTTL / 3)
	sent := b.takes()
	i := slices.IndexFunc(sent, is[*message.Renewal])
	if len(sent) < 3 || i < 0 || len(renewalOf(sent[i]).Abandoned) != 1 || numberOf(renewalOf(sent[i]).Abandoned[0].Command) != c.number {
		t.Errorf("sent %q", inWords(sent))
	}
	if b.hears(nodeB, done(p, 9)); !c.over || c.Err != nil {
		t.Errorf("%t, %v", c.over, c.Err)
	}
}

// Promise: P39: a use whose handle was forsaken lasts as long as its lease: no other handle's release drops it. However many are
// forsaken, one hold stays.
func TestAKeptUse(t *testing.T) {
	b := newBench(t)
	h, o, last := b.uses(pull(), 7), b.uses(pull(), 9), b.uses(pull(), 11)
	b.do(Keep{h})
	b.do(Keep{o})
	if len(h.lease.holds) != 2 {
		t.Errorf("%d holds, want one that is kept, and one handle", len(h.lease.holds))
	}
	if h.Err() != nil || o.Err() != fault.ErrClosed {
		t.Errorf("the one that is kept: %v; the other one, which is not renewed any more: %v", h.Err(), o.Err())
	}
	if u := b.unlocks(last); !u.over || u.Err != nil {
		t.Errorf("the release of the last handle: %t, %v", u.over, u.Err)
	}
	b.expects()
	b.renews(12)
	if b.expects(); len(h.lease.holds) != 1 || h.lease.holds[0].Err() != nil {
		t.Errorf("%d holds", len(h.lease.holds))
	}
	c := b.drops(b.own, "ann")
	b.hears(nodeB, done(b.expect("2: drop r stamp 11"), 13))
	if !c.over || h.Err() != fault.ErrClosed || len(h.lease.holds) != 0 {
		t.Errorf("dropped by name: %t; the kept one: %v", c.over, h.Err())
	}
	b.dropsWith(b.uses(pull(), 15), 15)
}

// Promise: P39: a handle that has ended when it is forsaken keeps nothing.
func TestAHandleThatHasEndedIsForsaken(t *testing.T) {
	b := newBench(t)
	h := b.uses(pull(), 7)
	b.hears(nodeB, done(sending(b.drops(b.own, "ann")), 8))
	b.takes()
	o := b.uses(pull(), 9)
	b.do(Keep{h})
	b.dropsWith(o, 9)
}

// Promise: P39: nobody has the use of a pull whose caller gives up, and it is dropped: as the Cancel's answer tells, or a skip that
// came before that.
func TestWhoGivesUpAPullThatIsSkipped(t *testing.T) {
	cancelled := func(stamp uint64) func(b *bench, pull, cancel Send) {
		return func(b *bench, _, cancel Send) { b.hears(nodeB, stamped(cancel, stamp)) }
	}
	for _, tt := range []struct {
		name string
		op   shard.Op
		when func(b *bench, pull, cancel Send)
		want string
	}{
		{"the Cancel's answer tells of it", shard.Pull, cancelled(9), "2: drop r stamp 9"},
		{"the skip comes first, and the Cancel too late to hear of it", shard.Pull, func(b *bench, p, cancel Send) {
			b.hears(nodeB, skipped(p, 9))
			b.expects()
			b.hears(nodeB, done(cancel, 10))
		}, "2: drop r stamp 9"},
		{"both tell of it", shard.Pull, func(b *bench, p, cancel Send) {
			b.hears(nodeB, skipped(p, 9), stamped(cancel, 9))
		}, "2: drop r stamp 9"},
		{"the skip comes first, and the Cancel is refused", shard.Pull, func(b *bench, p, cancel Send) {
			b.hears(nodeB, skipped(p, 9), refused(cancel, shard.Stale, 10))
		}, "2: drop r stamp 9"},
		{"it was not skipped", shard.Pull, cancelled(0), ""},
		{"it was granted", shard.Pull, func(b *bench, p, cancel Send) { b.hears(nodeB, granted(p, 9), done(cancel, 10)) }, ""},
		{"an update was skipped", shard.Update, cancelled(9), ""},
		{"an update was skipped, and that was told before", shard.Update, func(b *bench, p, cancel Send) {
			b.hears(nodeB, skipped(p, 9), stamped(cancel, 9))
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.holds(b.own, Request{Key: "k"}, 5)
			c := b.asks(b.own, to(tt.op))
			p := b.expect(fmt.Sprintf("2: %v r", tt.op))
			b.do(Abandon{c, context.Canceled})
			cancel := b.expect("2: cancel")
			tt.when(b, p, cancel)
			if c.Err != context.Canceled || len(c.lease.holds) != 1 {
				t.Errorf("%v; %d holds", c.Err, len(c.lease.holds))
			}
			if tt.want == "" {
				b.expects()
				return
			}
			drop := b.expect(tt.want)
			if d := commandOf(drop).(shard.Drop); d.User != "ann" || d.Lone != 0 || d.Vain != 9 {
				t.Errorf("sent %+v", d)
			}
			b.pass(firstRetry)
			b.expect(tt.want)
			b.hears(nodeB, done(drop, 11))
			if b.pass(time.Second); len(b.takes()) > 0 || len(c.lease.uses) > 0 {
				t.Errorf("more is sent, or %d uses are left", len(c.lease.uses))
			}
		})
	}
}

// Promise: P39: two that give up leave nothing each.
func TestTwoGiveUp(t *testing.T) {
	b := newBench(t)
	first, second := b.asks(b.own, pull()), b.asks(b.own, pullAs("bob"))
	sent := b.takes()
	b.do(Abandon{first, context.Canceled})
	b.do(Abandon{second, context.Canceled})
	cancels := b.expects("2: cancel", "2: cancel")
	b.hears(nodeB, skipped(sent[1], 9))
	b.hears(nodeB, done(cancels[0], 10))
	b.expects()
	b.hears(nodeB, done(cancels[1], 11))
	if d := commandOf(b.expect("2: drop r stamp 9")).(shard.Drop); d.User != "bob" {
		t.Errorf("sent %+v", d)
	}
}

// Promise: P39: a caller that gives up takes nothing from the user's other handle. The use is dropped with that, and with the later
// stamp.
func TestWhoGivesUpBesideAHandle(t *testing.T) {
	b := newBench(t)
	h := b.uses(pull(), 7)
	c := b.asks(b.own, pull())
	b.expect("2: pull r")
	b.do(Abandon{c, context.Canceled})
	b.hears(nodeB, stamped(b.expect("2: cancel"), 9))
	if b.expects(); h.Err() != nil {
		t.Error(h.Err())
	}
	b.dropsWith(h, 9)
}

// Promise: P39: an End whose caller has given up makes no use: what the table has made is dropped. One that failed has made none.
func TestWhoGivesUpAnEnd(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	b.holds(s, Request{Key: "k"}, 5)
	c := b.unlocks(b.runs(s, pull(), 7))
	p := b.expect("2: end r token 7")
	b.do(Abandon{c, nil})
	if b.expects(); c.over {
		t.Error("it is not repeated any more")
	}
	b.hears(nodeB, stamped(p, 9))
	if !c.over || c.Err != nil || c.Use != nil || len(c.lease.holds) != 1 {
		t.Errorf("%t, %v; it has a use: %t; %d holds", c.over, c.Err, c.Use != nil, len(c.lease.holds))
	}
	b.hears(nodeB, done(b.expect("2: drop r stamp 9"), 10))
	if n := b.client.Counters().Unlocks.Load(); n != 1 || s.Err() != nil || len(c.lease.uses) != 0 {
		t.Errorf("%d unlocks; the session: %v", n, s.Err())
	}

	c = b.fails(b.runs(b.own, pull(), 12))
	p = b.expect("2: fail r token 12")
	b.do(Abandon{c, nil})
	b.hears(nodeB, done(p, 13))
	if b.expects(); !c.over || c.Use != nil {
		t.Errorf("one that failed: %t; it has a use: %t", c.over, c.Use != nil)
	}
}

// Promise: P39: an End whose caller gives up takes nothing from the user's other handle.
func TestWhoGivesUpAnEndBesideAHandle(t *testing.T) {
	b := newBench(t)
	c := b.unlocks(b.runs(b.own, pull(), 5))
	p := b.expect("2: end r token 5")
	h := b.uses(pull(), 9)
	b.do(Abandon{c, nil})
	b.hears(nodeB, stamped(p, 7))
	if b.expects(); h.Err() != nil || c.Use != nil {
		t.Errorf("%v; the End has a use: %t", h.Err(), c.Use != nil)
	}
	b.dropsWith(h, 9)
}

// Promise: P39, P6: who gives up an End whose use waits for a renewal has no use, and it is dropped.
func TestWhoGivesUpAnEndThatWasAnsweredTooLate(t *testing.T) {
	b := newBench(t)
	c := b.endsLate(b.own, pull(), 7, 9)
	b.do(Abandon{c, nil})
	drop := b.expect("2: drop r stamp 9")
	if !c.over || c.Err != nil || c.Use != nil || len(c.lease.holds) != 0 {
		t.Errorf("%t, %v; it has a use: %t; %d holds", c.over, c.Err, c.Use != nil, len(c.lease.holds))
	}
	if a := commandOf(drop).(shard.Drop).Acked; !slices.Contains(a, c.number) {
		t.Errorf("acknowledged: %v", a)
	}
	b.renews(10)
	if b.hears(nodeB, done(drop, 11)); c.Use != nil {
		t.Error("then it has a use")
	}
}

// Promise: P39, G5: answers come in any order. A pull that was skipped before the stamp with which its use was dropped has none: it is
// asked for anew.
func TestASkipIsToldAfterTheDropOfALaterOne(t *testing.T) {
	for _, tt := range []struct {
		name  string
		drops func(b *bench) // the use that has the stamp 9
	}{
		{"with the last handle", func(b *bench) { b.dropsWith(b.uses(pull(), 9), 9) }},
		{"by name", func(b *bench) {
			b.uses(pull(), 9)
			b.hears(nodeB, done(sending(b.drops(b.own, "ann")), 10))
			b.expect("2: drop r stamp 9")
		}},
		{"for one that gave up", func(b *bench) {
			c := b.asks(b.own, pull())
			b.expect("2: pull r")
			b.do(Abandon{c, context.Canceled})
			b.hears(nodeB, stamped(b.expect("2: cancel"), 9))
			b.hears(nodeB, done(b.expect("2: drop r stamp 9"), 10))
		}},
	} {
		for _, stamp := range []uint64{8, 11} {
			t.Run(fmt.Sprintf("%s, stamp %d", tt.name, stamp), func(t *testing.T) {
				b := newBench(t)
				c := b.asks(b.own, pull())
				p := b.expect("2: pull r")
				tt.drops(b)
				b.hears(nodeB, skipped(p, stamp))
				if stamp > 9 {
					b.has(c, c.Hold, stamp)
					b.expects()
					return
				}
				again := b.expect("2: pull r")
				a := commandOf(again).(shard.Begin)
				if c.over || c.Hold != nil || a.Number == numberOf(commandOf(p)) || !slices.Contains(a.Acked, numberOf(commandOf(p))) {
					t.Fatalf("over: %t, %+v; sent %+v", c.over, c.Hold, a)
				}
				b.hears(nodeB, skipped(p, stamp)) // told again
				b.expects()
				b.hears(nodeC, serves(benchTerm+1))
				b.expects("3: pull r", "3: renewal") // once
				b.hears(nodeB, skipped(again, 12))
				b.has(c, c.Hold, 12)
				b.dropsWith(c.Hold, 12)
			})
		}
	}
}

// Promise: P39, G5: a handle is not the last while an End is under way that makes another one: that may have an earlier stamp. If it
// makes none, the use is dropped then.
func TestAHandleIsReleasedWhileAnEndIsUnderWay(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(end Send) message.Message
		used bool
	}{
		{"it makes a use", func(end Send) message.Message { return stamped(end, 8) }, true},
		{"it is refused", func(end Send) message.Message { return refused(end, shard.Lost, 10) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := b.unlocks(b.runs(b.own, pull(), 5))
			p := b.expect("2: end r token 5")
			u := b.unlocks(b.uses(pull(), 9))
			if b.expects(); !u.over || u.Err != nil {
				t.Errorf("the release: %t, %v", u.over, u.Err)
			}
			b.hears(nodeB, tt.when(p))
			if !tt.used {
				b.expect("2: drop r stamp 9")
				return
			}
			b.expects()
			b.has(c, c.Use, 8)
			b.dropsWith(c.Use, 9)
		})
	}
}

// Promise: P39, G5: an End that failed, or of an update, keeps no use.
func TestAHandleIsReleasedWhileAnotherEndIsUnderWay(t *testing.T) {
	b := newBench(t)
	for i, q := range []Request{pull(), to(shard.Update), pullAs("bob")} {
		h := b.runs(b.own, q, uint64(5+i))
		if i == 0 {
			b.fails(h)
		} else {
			b.unlocks(h)
		}
		b.takes()
	}
	b.dropsWith(b.uses(pull(), 9), 9)
}

// Promise: P39, G5: a Drop by name ends no use that is made while it is under way, nor one whose caller waits for a renewal: the
// pull counts as the later call. What was made before ends.
func TestADropByNameMeetsAPull(t *testing.T) {
	t.Run("a skip that is told later, and was later", func(t *testing.T) {
		b := newBench(t)
		b.uses(pull(), 7)
		c := b.asks(b.own, pull())
		p := b.expect("2: pull r")
		b.drops(b.own, "ann")
		b.expect("2: drop r stamp 7")
		b.hears(nodeB, skipped(p, 9))
		b.has(c, c.Hold, 9)
	})
	t.Run("a use that waits for a renewal", func(t *testing.T) {
		b := newBench(t)
		c := b.waitsForUse(pull(), 7)
		b.drops(b.own, "ann")
		b.expect("2: drop r stamp 0")
		b.renews(8)
		b.has(c, c.Hold, 7)
		b.takes()
		b.dropsWith(c.Hold, 7)
	})
	t.Run("an End that is answered later, and was later", func(t *testing.T) {
		b := newBench(t)
		b.uses(pull(), 7)
		c := b.unlocks(b.runs(b.own, pull(), 8))
		p := b.expect("2: end r token 8")
		b.drops(b.own, "ann")
		b.expect("2: drop r stamp 7")
		b.hears(nodeB, stamped(p, 9))
		b.has(c, c.Use, 9)
		b.expects()
	})
	t.Run("an End that is answered later, and was earlier", func(t *testing.T) {
		b := newBench(t)
		c := b.unlocks(b.runs(b.own, pull(), 5))
		p := b.expect("2: end r token 5")
		b.uses(pull(), 9)
		b.drops(b.own, "ann")
		b.expect("2: drop r stamp 9")
		b.hears(nodeB, stamped(p, 7))
		if !c.over || !errors.Is(c.Err, fault.ErrClosed) || c.Use != nil || len(c.lease.holds) != 0 {
			t.Errorf("%t, %v; it has a use: %t", c.over, c.Err, c.Use != nil)
		}
	})
}

// Promise: P39: a Drop by name beside the Drop with the last handle leaves the next handle whole.
func TestADropByNameMeetsARelease(t *testing.T) {
	b := newBench(t)
	h := b.uses(pull(), 7)
	u := b.unlocks(h)
	release := b.expect("2: drop r stamp 7")
	c := b.drops(b.own, "ann")
	b.hears(nodeB, done(b.expect("2: drop r stamp 0"), 8), done(release, 8))
	if !u.over || u.Err != nil || !c.over || c.Err != nil {
		t.Errorf("the release: %t, %v; the Drop: %t, %v", u.over, u.Err, c.over, c.Err)
	}
	first, last := b.uses(pull(), 9), b.uses(pull(), 11)
	if u := b.unlocks(first); !u.over {
		t.Error("the first of two handles is the last")
	}
	b.expects()
	b.dropsWith(last, 11)
}

// Promise: P39, P9: a session that is closed has no use: an End that is answered then gives none, nor does one whose use waited for a
// renewal.
func TestASessionIsClosedWhileAPullEnds(t *testing.T) {
	for _, late := range []bool{false, true} {
		b := newBench(t)
		s := NewSession(false, benchTTL)
		var c *Call
		if late {
			c = b.endsLate(s, pull(), 7, 9)
		} else {
			c = b.unlocks(b.runs(s, pull(), 7))
		}
		closes := b.closes(s)
		b.takes()
		b.hears(nodeB, stamped(sending(c), 9))
		if !c.over || c.Err != fault.ErrClosed || c.Use != nil {
			t.Errorf("late: %t; the End: %t, %v; it has a use: %t", late, c.over, c.Err, c.Use != nil)
		}
		b.hears(nodeB, done(sending(closes[0]), 12))
		if b.expects(); b.leases() != 0 {
			t.Errorf("%d leases", b.leases())
		}
	}
}

// Promise: P39, P9: what a closed session's Close says of a durable use is not that it has ended: that outlives the session.
func TestASessionIsClosedWhileADurableUseIsDropped(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	first, second := b.usesIn(s, durably(pull()), 7), b.usesIn(s, pullAs("bob"), 8)
	durable, other := b.unlocks(first), b.unlocks(second)
	drop := b.drops(s, "cid")
	b.takes()
	closes := b.closes(s)
	b.hears(nodeB, done(b.expect("2: close"), 9))
	for i, tt := range []struct {
		call *Call
		want error
	}{{durable, fault.ErrUnconfirmed}, {other, nil}, {drop, fault.ErrUnconfirmed}, {closes[0], nil}} {
		if !tt.call.over || tt.call.Err != tt.want {
			t.Errorf("call %d: %t, %v, want %v", i, tt.call.over, tt.call.Err, tt.want)
		}
	}
}

// Promise: P39, P9: a use that waits for a renewal is lost with its lease, or with the node.
func TestALeaseIsLostInWhichAUseWaits(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(b *bench, s *Session)
	}{
		{"its belief has ended", func(b *bench, _ *Session) { b.stall(benchTTL) }},
		{"its session is lost in another shard", func(b *bench, s *Session) {
			s.End(fault.ErrLost)
			b.do(LoseSession{s})
		}},
		{"the node ends", func(b *bench, _ *Session) { b.do(Shut{}) }},
		{"the node leaves", func(b *bench, _ *Session) { b.do(Lapse{}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			s := NewSession(false, benchTTL)
			c := b.endsLate(s, pull(), 7, 9)
			tt.when(b, s)
			if !c.over || c.Err != fault.ErrUnconfirmed || c.Use != nil || b.leases() != 0 {
				t.Errorf("%t, %v; it has a use: %t; %d leases", c.over, c.Err, c.Use != nil, b.leases())
			}
		})
	}
}

// Promise: P39, G5: a use is lost with its lease. A pull that was skipped in it, and whose caller waits, is asked for anew.
func TestALeaseWithUsesIsLost(t *testing.T) {
	b := newBench(t)
	h := b.uses(pull(), 7)
	b.stall(benchTTL)
	if b.expects(); h.Err() != fault.ErrLost || b.leases() != 0 {
		t.Errorf("%v; %d leases", h.Err(), b.leases())
	}
	if c := b.unlocks(h); !c.over || c.Err != fault.ErrUnconfirmed {
		t.Errorf("its release: %t, %v", c.over, c.Err)
	}

	b = newBench(t)
	o := b.uses(pullAs("bob"), 5)
	c := b.waitsForUse(pull(), 7)
	b.hears(nodeB, refused(sending(b.asks(b.own, Request{Key: "k"})), shard.Reopen, 9)) // the record is gone
	sent := b.takes()
	p := sent[1]
	if words(p) != "pull r" || sessionOf(p) == o.lease.id || c.over || c.Hold != nil || c.Skipped || o.Err() != fault.ErrLost {
		t.Fatalf("sent %q; over: %t", inWords(sent), c.over)
	}
	b.hears(nodeB, skipped(p, 11))
	b.has(c, c.Hold, 11)
}

// Promise: P39: what is to run alone on a resource that is used is refused, and its caller hears by whom that is used.
func TestItIsInUse(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, to(shard.Delete))
	b.hears(nodeB, told(b.expect("2: delete r"), message.Reply{
		Event: shard.Event{What: shard.Refused, Reason: shard.InUse, Holder: "bob", Token: 5}, Revision: 9,
	}))
	if b.expects(); !c.over || c.Err != fault.ErrInUse || c.Hold != nil || c.Skipped || c.Info.Holder != "bob" || c.Info.Token != 5 {
		t.Errorf("%t, %v, %+v", c.over, c.Err, c.Info)
	}
}

// Promise: P39, P32: a node that leaves waits for its operations, and for no use. What it uses lapses with the lease.
func TestANodeThatUsesLeaves(t *testing.T) {
	b := newBench(t)
	h := b.uses(pull(), 7)
	op := b.runs(b.own, to(shard.Update), 8)
	b.unlocks(b.uses(pullAs("bob"), 9))
	waits := b.asks(b.own, to(shard.Delete))
	if n := b.client.Held(); n != 1 {
		t.Errorf("%d are waited for, want the operation alone", n)
	}
	b.takes()
	b.do(CancelWaiters{})
	if b.expect("2: cancel"); !waits.over || waits.Err != fault.ErrClosed || h.Err() != nil {
		t.Errorf("the one that waits: %v; the use: %v", waits.Err, h.Err())
	}
	b.hears(nodeB, done(sending(b.unlocks(op)), 10))
	b.takes()
	if n := b.client.Held(); n != 0 {
		t.Errorf("%d are waited for", n)
	}
	b.do(Lapse{})
	if b.expects(); h.Err() != fault.ErrLost || b.leases() != 0 {
		t.Errorf("the use: %v; %d leases", h.Err(), b.leases())
	}
}

// Promise: P39, P9: a session that is closed ends its uses before anything is sent.
func TestASessionWithUsesIsClosed(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	h := b.usesIn(s, pull(), 7)
	b.usesIn(s, pull(), 8)
	b.closes(s)
	if b.expect("2: close"); h.Err() != fault.ErrClosed || !slices.Contains(b.events, Event(Unlocking{h})) {
		t.Errorf("the use: %v; events: %+v", h.Err(), b.events)
	}
}

// Promise: C8, P39: in another generation what runs is reported with its operation, what waits with its place, and a use once for
// all its handles, with the latest stamp.
func TestOperationsAndUsesAreReported(t *testing.T) {
	b := newBench(t)
	b.usesIn(b.own, pull(), 5)
	late := b.uses(pull(), 7)
	runs := b.runs(b.own, to(shard.Update), 8)
	q := pullAs("bob")
	q.Key = "s"
	w := b.asks(b.own, q)
	b.hears(nodeB, enters(b.expect("2: pull s"), 9))
	sent := b.changes(2, "2: report s token 0", "2: report r token 7", "2: report r token 8")
	operation := func(q Request) shard.Operation { return *q.Operation }
	for i, want := range []shard.Report{
		{Key: "s", Earlier: shard.Earlier{Entered: 9}, Operation: operation(q)},
		{Key: "r", Earlier: shard.Earlier{Token: 7, Uses: true}, Operation: operation(pull())},
		{Key: "r", Earlier: shard.Earlier{Token: 8}, Operation: operation(to(shard.Update))},
	} {
		r := reportOf(t, sent[i])
		want.Call, want.TTL, want.Name, want.Kind, want.Weight, want.Capacity = r.Call, benchTTL, "a", shard.Resource, 1, 1
		want.Known, want.Quiet = 9, benchQuiet
		if got := fmt.Sprintf("%+v", r); got != fmt.Sprintf("%+v", want) {
			t.Errorf("sent %s\nwant %+v", got, want)
		}
	}
	b.hears(nodeB, of(2, enters(sent[0], 9)), of(2, granted(sent[1], 7)), of(2, granted(sent[2], 8)))
	b.expects("2: renewal")
	if late.Err() != nil || runs.Err() != nil || w.over {
		t.Errorf("the use: %v, the operation: %v, the one that waits: %t", late.Err(), runs.Err(), w.over)
	}
	b.hears(nodeB, of(2, stamped(sending(b.unlocks(runs)), 0)))
	b.takes()
	b.hears(nodeB, of(2, granted(sent[0], 1001)))
	if !w.over || w.Err != nil {
		t.Errorf("the one that waits: %t, %v", w.over, w.Err)
	}
}

// Promise: C8, P39: the handles of a use that was reported go on as before: the last one drops it.
func TestHandlesInAnotherGeneration(t *testing.T) {
	b := newBench(t)
	h, o := b.uses(pull(), 5), b.uses(pull(), 7)
	p := b.changes(2, "2: report r token 7")[0]
	if u := b.unlocks(h); !u.over || u.Err != nil {
		t.Errorf("the first release: %t, %v", u.over, u.Err)
	}
	u := b.unlocks(o)
	b.expects() // it waits for the Report
	b.hears(nodeB, of(2, granted(p, 7)))
	b.hears(nodeB, of(2, done(b.expects("2: drop r stamp 7", "2: renewal")[0], 1001)))
	if !u.over || u.Err != nil {
		t.Errorf("the last release: %t, %v", u.over, u.Err)
	}
}

// Promise: C8, P39: a use is durable in another generation if one of its pulls was, though the reported handle is of another.
func TestADurableUseIsReported(t *testing.T) {
	for _, durable := range []bool{false, true} {
		b := newBench(t)
		b.uses(pull(), 5)
		q := pull()
		if durable {
			q = durably(q)
		}
		b.unlocks(b.uses(q, 7))
		if r := reportOf(t, b.changes(2, "2: report r token 7")[0]); !r.Uses || r.Durable != durable || r.User != "ann" {
			t.Errorf("durable: %t; sent %+v", durable, r)
		}
	}
}

// Promise: C8, P39: what was under way in the old generation. The End of a pull gives a use, which is reported; all else is over.
func TestWhatWasUnderWayOnAResource(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given func(b *bench) *Call
		says  string
		uses  bool
	}{
		{"the End of a pull", func(b *bench) *Call { return b.unlocks(b.runs(b.own, pull(), 6)) }, "2: report r token 7", true},
		{"the End of a pull, whose use waits for a renewal", func(b *bench) *Call { return b.endsLate(b.own, pull(), 5, 7) }, "2: report r token 7", true},
		{"the End of a pull that failed", func(b *bench) *Call { return b.fails(b.runs(b.own, pull(), 7)) }, "", false},
		{"the End of an update", func(b *bench) *Call { return b.unlocks(b.runs(b.own, to(shard.Update), 7)) }, "", false},
		{"the End of a pull, which nobody waits for", func(b *bench) *Call {
			c := b.unlocks(b.runs(b.own, pull(), 7))
			b.do(Abandon{c, nil})
			return c
		}, "", false},
		{"the Drop with the last handle", func(b *bench) *Call { return b.unlocks(b.uses(pull(), 7)) }, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := tt.given(b)
			if b.takes(); c.over {
				t.Fatal("it has its result before")
			}
			if !tt.uses {
				b.changes(2)
				if !c.over || c.Err != nil || c.Use != nil || len(c.lease.holds) != 0 || b.client.Counters().Unlocks.Load() != 1 {
					t.Errorf("%t, %v; it has a use: %t; %d unlocks", c.over, c.Err, c.Use != nil, b.client.Counters().Unlocks.Load())
				}
				return
			}
			p := b.changes(2, tt.says)[0]
			if r := reportOf(t, p); !r.Uses || r.User != "ann" || r.Op != shard.Pull || r.Known < r.Token || c.over {
				t.Errorf("sent %+v; over: %t", r, c.over)
			}
			b.hears(nodeB, of(2, granted(p, 7)))
			if q := b.expect("2: renewal"); !c.over {
				b.hears(nodeB, of(2, alive(q, 1002))) // it was too late to be believed
			}
			b.has(c, c.Use, 7)
			if n := b.client.Counters().Unlocks.Load(); n != 1 || len(c.lease.holds) != 1 {
				t.Errorf("%d unlocks, %d holds", n, len(c.lease.holds))
			}
			u := b.unlocks(c.Use)
			b.hears(nodeB, of(2, done(b.expect("2: drop r stamp 7"), 1003)))
			if !u.over || u.Err != nil {
				t.Errorf("the release: %t, %v", u.over, u.Err)
			}
		})
	}
}

// Promise: C8, P39: an End that was under way keeps giving a use if the generation changes again, and while it is reported its caller
// may give up, or its Report be refused.
func TestAnEndGoesOverToAUse(t *testing.T) {
	given := func() (*bench, *Call, Send) {
		b := newBench(t)
		c := b.unlocks(b.runs(b.own, pull(), 6))
		b.takes()
		return b, c, b.changes(2, "2: report r token 7")[0] // later than the operation
	}
	t.Run("it changes again", func(t *testing.T) {
		b, c, _ := given()
		b.hears(nodeB, of(3, granted(b.changes(3, "2: report r token 7")[0], 7)))
		b.has(c, c.Use, 7)
	})
	t.Run("its caller gives up", func(t *testing.T) {
		b, c, p := given()
		b.do(Abandon{c, nil})
		if !c.over || c.Use != nil || len(c.lease.holds) != 0 {
			t.Errorf("%t; it has a use: %t", c.over, c.Use != nil)
		}
		b.hears(nodeB, of(2, granted(p, 7)))
		b.hears(nodeB, of(2, done(b.expects("2: drop r stamp 7", "2: renewal")[0], 1001)))
		if c.Use != nil || len(c.lease.uses) != 0 {
			t.Errorf("then it has a use: %t", c.Use != nil)
		}
	})
	t.Run("the Report is refused", func(t *testing.T) {
		b, c, p := given()
		b.hears(nodeB, of(2, refused(p, shard.Late, 1001)))
		if b.expects(); !c.over || c.Err != fault.ErrUnconfirmed || c.Use != nil || b.leases() != 0 {
			t.Errorf("%t, %v; it has a use: %t; %d leases", c.over, c.Err, c.Use != nil, b.leases())
		}
	})
	t.Run("the Report is answered too late to be believed", func(t *testing.T) {
		b, c, p := given()
		b.now = c.Use.Deadline()
		b.step(Received{From: nodeB, Message: of(2, granted(p, 7))})
		b.settle()
		q := b.expect("2: renewal")
		if c.over {
			t.Errorf("%v", c.Err)
		}
		b.hears(nodeB, of(2, alive(q, 1002)))
		b.has(c, c.Use, 7)
	})
}

// Promise: C8, P39: such a use may have the token of another hold. Each ends alone.
func TestTwoHoldsHaveOneToken(t *testing.T) {
	for _, first := range []bool{false, true} {
		b := newBench(t)
		c := b.unlocks(b.runs(b.own, pull(), 6))
		b.takes()
		h := b.holds(b.own, Request{Key: "k"}, 7)
		for _, p := range b.changes(2, "2: report r token 7", "2: report k token 7") {
			b.hears(nodeB, of(2, granted(p, 7)))
		}
		b.expect("2: renewal")
		b.has(c, c.Use, 7)
		all := []*Hold{h, c.Use}
		if first {
			slices.Reverse(all)
		}
		b.hears(nodeB, of(2, done(sending(b.unlocks(all[0])), 1001)))
		if !slices.Equal(h.lease.holds, all[1:]) {
			t.Errorf("the use first: %t; %d holds are left", first, len(h.lease.holds))
		}
		b.hears(nodeB, of(2, done(sending(b.unlocks(all[1])), 1002)))
		if len(h.lease.holds) != 0 {
			t.Errorf("the use first: %t; in the end %d holds", first, len(h.lease.holds))
		}
	}
}

// Promise: C8, P39, P9: the End of a pull, in a session that is being closed when the generation changes, gives no use.
func TestAnEndGoesOverInAClosedSession(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	c := b.unlocks(b.runs(s, pull(), 7))
	closes := b.closes(s)
	b.takes()
	b.changes(2)
	if !c.over || c.Err != nil || c.Use != nil || !closes[0].over || b.leases() != 0 {
		t.Errorf("the End: %t, %v; it has a use: %t; the Close: %t; %d leases", c.over, c.Err, c.Use != nil, closes[0].over, b.leases())
	}
}

// Promise: C8, P39: stamps of the next table need not be later than those of the one before: a pull that was to be told of a later one
// is told of any.
func TestStampsInAnotherGeneration(t *testing.T) {
	b := newBench(t)
	c := b.asks(b.own, pull())
	b.expect("2: pull r")
	b.dropsWith(b.uses(pull(), 900), 900)
	p := b.changes(2, "2: pull r")[0]
	b.hears(nodeB, of(2, skipped(p, 5)))
	b.has(c, c.Hold, 5)
	b.unlocks(c.Hold)
	b.expectTo("drop r stamp 5")
}

// Promise: C8, P39: so it is with the stamp of a skip that its caller did not hear of, if that gives up then.
func TestWhoGivesUpInAnotherGeneration(t *testing.T) {
	b := newBench(t)
	c := b.waitsForUse(pull(), 900)
	p := b.changes(2, "2: pull r")[0]
	b.do(Abandon{c, context.Canceled})
	cancel := b.expect("2: cancel")
	b.hears(nodeB, of(2, skipped(p, 5)), of(2, stamped(cancel, 5)))
	b.expects("2: drop r stamp 5")
	if len(c.lease.uses) != 0 {
		t.Errorf("%d uses", len(c.lease.uses))
	}
}

// Promise: C8, P39: a pull that was skipped, and whose caller did not hear of it yet, is asked for again: nothing is remembered. It has
// no place.
func TestASkipGoesOver(t *testing.T) {
	for _, queues := range []bool{false, true} {
		b := newBench(t)
		c := b.asks(b.own, pull())
		if queues {
			b.hears(nodeB, enters(sending(c), 5))
		}
		b.shortens()
		b.hears(nodeB, skipped(sending(c), 7))
		b.takes()
		p := b.changes(2, "2: pull r")[0]
		if c.Hold != nil || c.Skipped || len(c.lease.holds) != 0 {
			t.Errorf("queued: %t; skipped: %t, %+v", queues, c.Skipped, c.Hold)
		}
		b.hears(nodeB, of(2, skipped(p, 1007)))
		if q := b.expect("2: renewal"); !c.over {
			b.hears(nodeB, of(2, alive(q, 1008)))
		}
		b.has(c, c.Hold, 1007)
	}
}

// Promise: C8, P39: a handle whose holder has ended its belief is not reported, and its release, which comes next, counts: the use is
// dropped with the last of the others.
func TestAHandleThatHasEndedIsNotReported(t *testing.T) {
	for _, others := range []bool{false, true} {
		b := newBench(t)
		h := b.uses(pull(), 7)
		var o *Hold
		var sent []Send
		if h.End(env.Never, fault.ErrClosed); others {
			o = b.uses(pull(), 9)
			sent = b.changes(2, "2: report r token 9")
			b.hears(nodeB, of(2, granted(sent[0], 9)))
			b.expect("2: renewal")
		} else {
			b.changes(2)
		}
		u := b.unlocks(h)
		if others {
			if b.expects(); !u.over || u.Err != nil {
				t.Errorf("its release: %t, %v", u.over, u.Err)
			}
			u = b.unlocks(o)
			b.hears(nodeB, of(2, done(b.expect("2: drop r stamp 9"), 1001)))
		} else {
			b.hears(nodeB, of(2, done(b.expect("2: drop r stamp 0"), 1001)))
		}
		if !u.over || u.Err != nil || len(h.lease.uses) != 0 || len(h.lease.holds) != 0 {
			t.Errorf("the release: %t, %v; %d uses, %d holds", u.over, u.Err, len(h.lease.uses), len(h.lease.holds))
		}
	}
}

// Promise: C8, P39: an operation whose holder has ended its belief just before the change is not reported. A pull has failed then, and
// another one may run; an update is done.
func TestAnEndComesAfterTheChange(t *testing.T) {
	for _, tt := range []struct {
		op     shard.Op
		failed bool
		want   error
	}{{shard.Pull, false, fault.ErrLost}, {shard.Pull, true, nil}, {shard.Update, false, nil}} {
		b := newBench(t)
		h := b.runs(b.own, to(tt.op), 7)
		h.End(env.Never, fault.ErrClosed)
		b.changes(2)
		c := &Call{Kind: Unlock, Hold: h, Failed: tt.failed}
		b.do(Start{c})
		if b.expects(); !c.over || c.Err != tt.want || c.Use != nil {
			t.Errorf("%v, failed: %t: %t, %v, want %v", tt.op, tt.failed, c.over, c.Err, tt.want)
		}
	}
}

// Promise: C8, P39: a durable use may come back in another generation, as replicas tell of it: what is to drop it is sent again. It
// is about no use of this session, which the next table does not have.
func TestADropGoesOver(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given func(b *bench) *Call
		lone  uint64
		vain  uint64
	}{
		{"by name", func(b *bench) *Call {
			b.uses(pull(), 7)
			return b.drops(b.own, "ann")
		}, anyStamp, 0},
		{"with the last handle", func(b *bench) *Call { return b.unlocks(b.uses(durably(pull()), 7)) }, 7, 0},
		{"for one that gave up", func(b *bench) *Call {
			c := b.asks(b.own, pull())
			b.do(Abandon{c, context.Canceled})
			b.hears(nodeB, stamped(b.takes()[1], 7))
			return nil
		}, 0, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := tt.given(b)
			b.takes()
			p := b.changes(2, "2: drop r stamp 0")[0]
			if d := commandOf(p).(shard.Drop); d.User != "ann" || d.Lone != tt.lone || d.Vain != tt.vain || d.Since != 0 || c != nil && c.over {
				t.Errorf("sent %+v", d)
			}
			if b.hears(nodeB, of(2, done(p, 1001))); c != nil && (!c.over || c.Err != nil) {
				t.Errorf("the call: %t, %v", c.over, c.Err)
			}
			b.pass(time.Second)
			for _, p := range b.takes() {
				if commandOf(p) != nil {
					t.Errorf("then %q is sent", words(p))
				}
			}
		})
	}
}

// Promise: C8, P39: a use that was kept is reported, and kept.
func TestAKeptUseIsReported(t *testing.T) {
	b := newBench(t)
	h := b.uses(pull(), 7)
	b.do(Keep{h})
	p := b.changes(2, "2: report r token 7")[0]
	b.hears(nodeB, of(2, granted(p, 7)))
	if b.expect("2: renewal"); h.Err() != nil {
		t.Error(h.Err())
	}
	c := b.asks(b.own, pull())
	b.hears(nodeB, of(2, skipped(b.expect("2: pull r"), 1001)))
	if u := b.unlocks(c.Hold); !u.over || u.Err != nil {
		t.Errorf("the release of another handle: %t, %v", u.over, u.Err)
	}
	b.expects()
}

// remembers tells the client of durable uses of the generation before.
func (b *bench) remembers(s *Session, uses ...shard.Durable) {
	b.tb.Helper()
	b.do(Remembered{Session: s, Uses: uses})
}

// Promise: C8, P39: durable uses of which a replica knows are told to the next table at once, before any Report is answered, and that
// is repeated until it is answered.
func TestRemember(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 7)
	p := b.changes(2, "2: report k token 7")[0]
	b.remembers(b.own, shard.Durable{Key: "r", User: "ann", Stamp: 5}, shard.Durable{Key: "s", User: "bob", Stamp: 6})
	sent := b.expects("2: remember", "2: remember")
	for i, want := range []shard.Remember{{Key: "r", User: "ann", Stamp: 5}, {Key: "s", User: "bob", Stamp: 6}} {
		want.Call, want.TTL, want.Name = shard.Call{Session: sessionOf(p), Number: uint64(3 + i)}, benchTTL, "a"
		if got := commandOf(sent[i]).(shard.Remember); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("sent %+v, want %+v", got, want)
		}
	}
	b.hears(nodeB, of(2, done(sent[0], 1001)))
	b.pass(firstRetry)
	for _, p := range b.takes() {
		if w := words(p); w != "report k token 7" && (w != "remember" || numberOf(commandOf(p)) != 4) {
			t.Errorf("%q is repeated", w)
		}
	}
	b.hears(nodeB, of(2, granted(p, 7)), of(2, refused(sent[1], shard.Late, 1002)))
	b.takes()
	b.pass(time.Second)
	for _, p := range b.takes() {
		if commandOf(p) != nil {
			t.Errorf("then %q is sent", words(p))
		}
	}
}

// Promise: C8, P39, P12: what is remembered is told anew in another lease if the table may have had the record of this one, and in
// another generation. A session that has ended tells nothing.
func TestRememberIsNotLost(t *testing.T) {
	use := shard.Durable{Key: "r", User: "ann", Stamp: 5}
	b := newBench(t)
	b.changes(2)
	b.remembers(b.own, use)
	p := b.expect("2: remember")
	b.hears(nodeB, of(2, refused(p, shard.Reopen, 1001)))
	again := b.expect("2: remember")
	if m := commandOf(again).(shard.Remember); sessionOf(again) == sessionOf(p) || m.Since != 1001 || m.User != "ann" || m.Key != "r" || m.Stamp != 5 {
		t.Errorf("sent %+v", m)
	}
	b.changes(3, "2: remember")

	b = newBench(t)
	b.own.End(fault.ErrClosed)
	b.remembers(b.own, use)
	b.expects()
}

// Promise: G2, C8, P39: a use that no caller has yet, and whose belief has ended, is not reported: in the table before, its record may have
// ended, and a delete have run.
// Method: the End of a pull is answered too late, and its use waits for a renewal, which never comes.
func TestALateUseIsNotReported(t *testing.T) {
	b := newBench(t)
	c := b.unlocks(b.runs(b.own, pull(), 7))
	until := c.Hold.Deadline()
	b.now = until
	b.step(Received{From: nodeB, Message: stamped(sending(c), 9)}) // before it is told the time
	b.settle()
	b.pass(3 * benchTTL) // no renewal is answered
	b.takes()
	b.do(Generation{Name: 2, Quiet: benchQuiet})
	b.takes()
	b.hears(nodeB, of(2, serves(1)))
	b.expects()
	if !c.over || !errors.Is(c.Err, fault.ErrUnconfirmed) || c.Use != nil || len(c.lease.holds) > 0 {
		t.Errorf("%v after its belief has ended: %t, %v; it has a use: %t", b.now-until, c.over, c.Err, c.Use != nil)
	}
}

// Promise: P39: the answer to a Close does not say that an operation is done, whose End may have come after it.
func TestACloseConfirmsNoEnd(t *testing.T) {
	for _, op := range []shard.Op{shard.Update, shard.Pull, shard.Delete} {
		b := newBench(t)
		s := NewSession(false, benchTTL)
		c := b.unlocks(b.runs(s, to(op), 7))
		b.expectTo("end r token 7") // lost
		closes := b.closes(s)
		b.hears(nodeB, done(sending(closes[0]), 9))
		if !c.over || c.Err == nil {
			t.Errorf("%v: over %t, %v: the table has never seen the End", op, c.over, c.Err)
		}
	}
}

// Promise: C8, P39: no Drop names a stamp of another generation's table: it could end a use of this one.
// Method: a handle has ended before the generation, and is released after.
func TestAnOldStampDropsNothing(t *testing.T) {
	b := newBench(t)
	h := b.uses(pull(), 900)
	h.End(env.Never, fault.ErrClosed)
	b.changes(2)
	b.do(Start{&Call{Kind: Unlock, Hold: h}})
	d := commandOf(b.takes()[0]).(shard.Drop) // under way
	c := b.asks(b.own, pull())
	b.hears(nodeB, of(2, skipped(b.expect("2: pull r"), 5)))
	if c.over && c.Err == nil && c.Hold.Token <= d.Stamp {
		t.Errorf("a use with stamp %d is delivered, and a Drop with stamp %d is under way", c.Hold.Token, d.Stamp)
	}
}

// Promise: C8, P39: so too where the last handle has left the Drop to an End, for which nobody waits.
func TestAnEndDropsNothingOfAnotherGeneration(t *testing.T) {
	b := newBench(t)
	w := b.asks(b.own, pull())
	b.takes()
	e := b.unlocks(b.runs(b.own, pull(), 800))
	b.takes()
	b.unlocks(b.uses(pull(), 900))
	b.expects()
	b.do(Abandon{e, nil})
	b.do(Generation{Name: 2, Quiet: benchQuiet})
	b.takes()
	b.hears(nodeB, of(2, serves(1)))
	for _, p := range b.takes() {
		if d, ok := commandOf(p).(shard.Drop); ok && d.Stamp != 0 {
			t.Errorf("a Drop with stamp %d of the old generation", d.Stamp)
		}
	}
	if w.dropped != 0 {
		t.Errorf("a pull that waits is to be told of a later stamp than %d of the old generation", w.dropped)
	}
	b.hears(nodeB, of(2, skipped(sending(w), 5)))
	if !w.over {
		t.Error("and is asked for again and again")
	}
}

// Promise: P39: a durable use that nobody has is dropped, though the lease is lost while its Drop is under way.
func TestADurableUseIsDroppedInTheNextLease(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 5)
	c := b.asks(b.own, durably(pull()))
	b.takes()
	b.do(Abandon{c, context.Canceled})
	b.hears(nodeB, stamped(b.expect("2: cancel"), 9))
	b.expect("2: drop r stamp 9")
	b.stall(benchTTL)
	b.pass(time.Second)
	b.dropsLone(0, 9)
}

// skippedInVain gives a durable pull up, and lets the client hear that it was skipped, with the stamp 9, while its Cancel is under way.
func (b *bench) skippedInVain() {
	b.tb.Helper()
	b.holds(b.own, Request{Key: "k"}, 5)
	c := b.asks(b.own, durably(pull()))
	p := b.takes()[0]
	b.do(Abandon{c, context.Canceled})
	b.expect("2: cancel")
	b.hears(nodeB, skipped(p, 9))
}

// Promise: P39: so too if the lease is lost while the Cancel is under way: the record may end before the Drop comes.
func TestADurableUseIsDroppedWhoseCancelIsUnanswered(t *testing.T) {
	b := newBench(t)
	b.skippedInVain()
	b.stall(benchTTL)
	b.pass(time.Second)
	b.dropsLone(0, 9)
}

// Promise: C8, P39: so too if the generation changes while a Cancel is under way, of a pull that has made it.
func TestADurableUseIsDroppedInAnotherGeneration(t *testing.T) {
	b := newBench(t)
	b.skippedInVain()
	b.do(Generation{Name: 2, Quiet: benchQuiet})
	b.takes()
	b.hears(nodeB, of(2, serves(1)))
	b.hears(nodeB, of(2, granted(b.expect("2: report k token 5"), 5)))
	b.dropsLone(0, 9)
}

// Promise: C8, P39: a use is durable once a durable pull was given up, and its last handle's Drop goes on in another generation.
func TestAPullThatWasGivenUpMakesDurable(t *testing.T) {
	b := newBench(t)
	b.holds(b.own, Request{Key: "k"}, 5)
	h := b.uses(pull(), 7)
	c := b.asks(b.own, durably(pull()))
	b.takes()
	b.do(Abandon{c, context.Canceled})
	b.hears(nodeB, stamped(b.expect("2: cancel"), 9))
	b.expects()
	b.unlocks(h)
	b.expect("2: drop r stamp 9")
	b.do(Generation{Name: 2, Quiet: benchQuiet})
	b.takes()
	b.hears(nodeB, of(2, serves(1)))
	b.hears(nodeB, of(2, granted(b.expect("2: report k token 5"), 5)))
	b.dropsLone(7, 9)
}

// Promise: P39: the last handle of a durable use has left the Drop to an End, and the lease is lost: it is dropped in the next one.
func TestADropLeftToAnEndIsMadeUpFor(t *testing.T) {
	b := newBench(t)
	e := b.unlocks(b.runs(b.own, durably(pull()), 5))
	b.takes()
	u := b.unlocks(b.uses(durably(pull()), 9))
	b.takes()
	b.stall(benchTTL)
	b.pass(time.Second)
	if b.dropsLone(9, 0); !e.over || !u.over || u.Err != nil {
		t.Errorf("the End is over: %t; the release: %t, %v", e.over, u.over, u.Err)
	}
}

package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// What one run of the shard loop has to say to a peer leaves in one frame for each class.
func TestOneFrame(t *testing.T) {
	b := newBench(t, Config{})
	asks := func(calls int, req client.Request) {
		b.do(func(l *shardLoop) {
			for range calls {
				l.admit(&client.Call{Kind: client.Lock, Session: b.node.Session().life, Request: req})
			}
		})
	}
	frames := b.frames
	asks(5, client.Request{Key: "k"})
	if b.expects("2: lock k", "2: lock k", "2: lock k", "2: lock k", "2: lock k"); b.frames != frames+1 {
		t.Errorf("they leave in %d frames", b.frames-frames)
	}
	frames = b.frames
	asks(200, client.Request{Key: "k", Value: make([]byte, shard.MaxValue)})
	if len(b.take()) != 200 || b.frames != frames+2 {
		t.Errorf("much to say leaves in %d frames", b.frames-frames)
	}
}

// Promise: P16: a renewal does not wait behind requests.
func TestTheClassOfWhatAClientSends(t *testing.T) {
	b := newBench(t, Config{})
	h := b.holds(b.node.Session(), client.Request{Key: "h"}, 3)
	b.asks(b.node.Session(), client.Request{Key: "k"})
	if p := b.expect("2: lock k"); p.class != transport.Normal || p.shard != 0 {
		t.Errorf("a request is %+v", p)
	}
	for b.now < time.Minute+benchTTL/3-1 {
		b.pass(min(time.Second, time.Minute+benchTTL/3-1-b.now))
		b.take()
	}
	b.pass(1)
	q := b.expect("2: renewal")
	if q.class != transport.Urgent || q.shard != 0 {
		t.Errorf("a renewal is %+v", q)
	}
	asked := b.now
	b.pass(time.Millisecond)
	b.hears(nodeB, alive(q, 3))
	if want := b.Wall().Add(asked + believed(benchTTL) - b.now); !h.Deadline().Equal(want) || h.Err() != nil {
		t.Errorf("once renewed, the hold is said to end at %v, want %v; %v", h.Deadline(), want, h.Err())
	}
}

// Promise: G9: a node that leaves takes no new calls, not even those that were on their way to the shard loop
// when it began to.
func TestALeavingNodeAsksForNothing(t *testing.T) {
	b := newBench(t, Config{})
	b.node.status = leaving
	c := b.asks(b.node.Session(), client.Request{Key: "k"})
	b.expects()
	if !isOver(c) || c.Err != fault.ErrClosed || b.node.Stats().Acquires != 0 {
		t.Errorf("over: %t, %v; %d are counted", isOver(c), c.Err, b.node.Stats().Acquires)
	}
}

// Promise: G4, P12: a caller whose context ends has the grant that came before the shard loop heard of that, and
// otherwise nothing, which the shard is told. WaitInfo says what was known.
func TestAContextThatEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(b *bench, p parcel)
		want error
		sent string
	}{
		{"without an answer", func(*bench, parcel) {}, context.Canceled, "2: cancel"},
		{"in the queue", func(b *bench, p parcel) {
			b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Queued, Ahead: 2}, Revision: 6}))
		}, context.Canceled, "2: cancel"},
		{"when the grant is in the mailbox", func(b *bench, p parcel) { b.mail(nodeB, grant(p, 7)) }, nil, ""},
		{"when the shard loop has ended", func(b *bench, _ parcel) { b.node.shards.box.close() }, fault.ErrClosed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			ctx, cancel := context.WithCancel(t.Context())
			b.at(b.now+time.Millisecond, func() {
				tt.when(b, b.expect("2: lock k"))
				cancel()
			})
			h, info, err := b.node.Session().Acquire(ctx, client.Request{Key: "k"})
			if err != tt.want || (h == nil) == (err == nil) {
				t.Errorf("%v, %v, want %v", h, err, tt.want)
			}
			if queued := tt.name == "in the queue"; info.Queued != queued || queued && (info.Ahead != 2 || info.Leader != "b" || !info.Quorum) {
				t.Errorf("what is known: %+v", info)
			}
			if b.run(); tt.sent == "" {
				b.expects()
			} else {
				b.expect(tt.sent)
			}
			if h != nil && (h.Err() != nil || h.Token() != 7) {
				t.Errorf("the hold: %v, token %d", h.Err(), h.Token())
			}
			if st := b.node.Stats(); tt.want != fault.ErrClosed && (st.Acquires != 1 || (st.Grants == 1) != (h != nil)) {
				t.Errorf("%+v", st)
			}
		})
	}
	b := newBench(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if h, info, err := b.node.Session().Acquire(ctx, client.Request{Key: "k"}); h != nil || !info.Quorum || err != context.Canceled {
		t.Errorf("a context that has ended: %v, %+v, %v", h, info, err)
	}
	b.expects()
}

// Promise: P9: a hold that is over before its caller runs is asked for anew, unless that is a Try (P16) or its
// time was fixed (P7).
func TestACallerThatStoodStill(t *testing.T) {
	for _, tt := range []struct {
		name  string
		req   client.Request
		want  error
		asked int
	}{
		{"for a Lock", client.Request{Key: "k"}, nil, 2},
		{"for a Try", client.Request{Key: "k", Try: true}, fault.ErrLost, 1},
		{"for a hold of fixed length", client.Request{Key: "k", MaxHold: benchTTL}, fault.ErrLost, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			asked := 0
			b.play = func(p parcel) {
				switch p.command().(type) {
				case shard.Acquire:
					asked++
					b.mail(nodeB, grant(p, uint64(6+asked)))
				case shard.Fix:
					b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 8}))
				}
			}
			b.late = benchTTL
			h, _, err := b.node.Session().Acquire(t.Context(), tt.req)
			if err != tt.want || (h == nil) == (err == nil) || err == nil && (h.Err() != nil || h.Token() != 8) {
				t.Errorf("%v, %v, want %v", h, err, tt.want)
			}
			if asked != tt.asked {
				t.Errorf("it was asked for %d times, want %d", asked, tt.asked)
			}
		})
	}
}

// Promise: G5, P1: an Extend whose caller runs only when the new end is past says that the hold is over.
func TestAnExtendThatStoodStill(t *testing.T) {
	b := newBench(t, Config{})
	h := b.holds(b.node.Session(), client.Request{Key: "k", MaxHold: benchTTL}, 7)
	b.play = func(p parcel) {
		b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 8}))
	}
	b.late = benchTTL
	if err := h.Extend(t.Context(), time.Second); err != fault.ErrLost {
		t.Errorf("Extend: %v", err)
	}
}

// Promise: P7: Extend makes a hold of fixed length end at another time, and says what the shard said; its end is
// no loss. A hold that is renewed cannot be extended.
func TestHoldExtend(t *testing.T) {
	b := newBench(t, Config{})
	renewed := b.holds(b.node.Session(), client.Request{Key: "r"}, 6)
	if err := renewed.Extend(t.Context(), time.Second); err != fault.ErrInvalidOption {
		t.Errorf("a hold that is renewed: %v", err)
	}
	b.expects()
	h := b.holds(b.node.Session(), client.Request{Key: "k", MaxHold: 30 * time.Second}, 7)
	ends := func(d time.Duration, answered bool) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b.play = func(p parcel) {
			if a, ok := p.command().(shard.Fix); !ok || a.Hold != d || a.Token != 7 {
				t.Errorf("%+v is sent", p)
			}
			if answered {
				b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 8}))
			} else {
				cancel()
			}
		}
		want := error(nil)
		if !answered {
			want = context.Canceled
		}
		if err := h.Extend(ctx, d); err != want {
			t.Errorf("Extend by %v: %v, want %v", d, err, want)
		}
		b.play = nil
		if until := b.Wall().Add(believed(d)); !h.Deadline().Equal(until) {
			t.Errorf("then it ends at %v, want %v", h.Deadline(), until)
		}
	}
	ends(time.Minute, true)
	ends(20*time.Second, true)
	ends(2*time.Second, false) // the watch hears of it
	var cause error
	h.OnEnd(func(err error) { cause = err })
	b.node.shards.box.close() // nothing but the watch ends it
	b.pass(believed(2*time.Second) - 1)
	if h.Over() || cause != nil {
		t.Error("it ends too early")
	}
	if b.pass(1); !h.Over() || cause != fault.ErrLost {
		t.Errorf("it has ended: %t, %v", h.Over(), cause)
	}
	if n := b.node.Stats().Losses; n != 0 {
		t.Errorf("%d losses are counted, though it lasted as long as it was to", n)
	}
	if err := h.Extend(t.Context(), time.Second); err != fault.ErrLost {
		t.Errorf("after its end: %v", err)
	}
	b = newBench(t, Config{})
	h = b.holds(b.node.Session(), client.Request{Key: "k", MaxHold: 30 * time.Second}, 7)
	b.node.shards.box.close()
	if err := h.Extend(t.Context(), time.Second); err != fault.ErrClosed {
		t.Errorf("when the shard loop has ended: %v", err)
	}
}

// Promise: G5: a loss is counted, and told, once: to whoever asked to hear of it before, or asks later.
func TestALossIsCounted(t *testing.T) {
	b := newBench(t, Config{})
	h := b.holds(b.node.Session(), client.Request{Key: "k"}, 7)
	var told []string
	h.OnEnd(func(err error) { told = append(told, fmt.Sprint("first ", err == fault.ErrLost)) })
	stop := h.OnEnd(func(error) { told = append(told, "stopped") })
	stop()
	b.pass(h.belief.Deadline() - b.now)
	h.OnEnd(func(err error) { told = append(told, fmt.Sprint("late ", err == fault.ErrLost)) })
	if fmt.Sprint(told) != "[first true late true]" || h.Err() != fault.ErrLost || b.node.Stats().Losses != 1 {
		t.Errorf("told %v; %v; %d losses", told, h.Err(), b.node.Stats().Losses)
	}
}

// Promise: G1, P8: when a session is closed, the belief in all that it holds has ended before the first Close leaves, also
// where a frame leaves in the middle of a run.
func TestABeliefEndsBeforeItsCloseIsSent(t *testing.T) {
	b := newBench(t, Config{Shards: 2})
	b.node.points = func(s point.Site) bool { return s == point.SplitFrame }
	s, err := b.node.NewSession(benchTTL)
	if err != nil {
		t.Fatal(err)
	}
	m := serves(benchTerm)
	m.shard = 1
	b.hears(nodeB, m)
	var holds []*Hold
	for sh := range 2 {
		c := b.asksOf(sh, s, client.Request{Key: "k"})
		g := grant(b.expect("2: lock k"), 7)
		g.shard = sh
		b.hears(nodeB, g)
		holds = append(holds, c.Hold.Owner.(*Hold))
	}
	closes := 0
	b.play = func(p parcel) {
		if closes++; !holds[0].Over() || !holds[1].Over() {
			t.Errorf("%s leaves while the holds are over: %t, %t", p.words(), holds[0].Over(), holds[1].Over())
		}
	}
	b.do(func(l *shardLoop) { l.closeLeases(s.life) })
	if closes != 2 {
		t.Errorf("%d messages leave, want a Close for each lease", closes)
	}
}

// Promise: G5, P1, P7: an Extend to an earlier end is watched from its sending on, also if the shard loop then hangs.
func TestAnEarlierEndIsWatched(t *testing.T) {
	b := newBench(t, Config{})
	c := b.asks(b.node.Session(), client.Request{Key: "k", MaxHold: time.Minute})
	b.hears(nodeB, grant(b.expect("2: lock k"), 7))
	b.hears(nodeB, told(b.expect("2: fix k token 7"), message.Reply{Event: shard.Event{What: shard.Done}, Revision: 8}))
	h := c.Hold.Owner.(*Hold)
	b.node.shards.step(client.Start{Call: &client.Call{Kind: client.Fix, Hold: h.belief, Length: 2 * time.Second}})
	for _, l := range b.loops {
		l.over = l.over || l.name == "shards" // it hangs from now on
	}
	if b.pass(2 * time.Second); !h.Over() {
		t.Errorf("after 2 s the hold, which ends at %v, is not over at %v", h.belief.Deadline(), b.now)
	}
}

// A hold that was given back is watched no more, and the observer of one that is held hears when its end moves.
func TestWhatAHoldLeavesBehind(t *testing.T) {
	b := newBench(t, Config{})
	h := b.holds(b.node.Session(), client.Request{Key: "k"}, 7)
	renewed := 0
	h.holders = holders{holder{renewed: &renewed}}
	b.pass(benchTTL / 3)
	q := b.expect("2: renewal")
	b.hears(nodeB, alive(q, 8))
	if renewed != 1 {
		t.Errorf("of one renewal the observer hears %d times", renewed)
	}
	h.holders = nil
	b.unlocks(h)
	if n := len(b.node.watch.holds); n != 0 {
		t.Errorf("%d holds are watched after the Unlock", n)
	}
}

// holder counts renewals.
type holder struct {
	env.Holder
	renewed *int
}

func (h holder) Renewed() { *h.renewed++ }

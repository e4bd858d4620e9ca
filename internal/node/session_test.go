package node

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// Promise: G5, P8, P9: Close ends what the session holds and waits for before anything is sent, closes its
// record in each shard, and says whether all shards confirmed that.
func TestCloseOfASession(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		answers []int // shards
		want    error
		takes   time.Duration
	}{
		{"both shards answer", context.Background(), []int{0, 1}, nil, 0},
		{"they do although ctx has ended", over, []int{0, 1}, nil, 0},
		{"one of them does, and ctx has ended", over, []int{1}, ErrUnconfirmed, lateRelease},
		{"one of them does", context.Background(), []int{0}, ErrUnconfirmed, believed(benchTTL)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Shards: 2})
			s, err := b.node.NewSession(benchTTL)
			if err != nil {
				t.Fatal(err)
			}
			keep := b.holds(b.node.Session(), Request{Key: "o"}, 6)
			var holds []*Hold
			for sh := range 2 {
				c := &call{what: acquires, session: s, shard: sh, req: Request{Key: "k"}, parker: b.NewParker()}
				b.do(func(l *lane) { l.desk(sh).acquire(c) })
				m := grant(b.expect("2: lock k"), 7)
				m.shard = sh
				b.hears(nodeB, m)
				holds = append(holds, c.got)
			}
			waits := b.asks(s, Request{Key: "w"})
			b.take()
			b.play = func(p parcel) {
				if !is[*message.Request](p) {
					return
				}
				if p.words() != "close" || !holds[0].Over() || !holds[1].Over() {
					t.Errorf("%q is sent, while the holds have ended: %v, %v", p.words(), holds[0].Over(), holds[1].Over())
				}
				if slices.Contains(tt.answers, p.shard) {
					m := told(p, message.Result{Outcome: message.Done, Revision: 8})
					m.shard = p.shard
					b.mail(nodeB, m)
				}
			}
			begun := b.now
			if err := s.Close(tt.ctx); err != tt.want {
				t.Errorf("Close: %v, want %v", err, tt.want)
			}
			if b.now-begun != tt.takes {
				t.Errorf("it takes %v, want %v", b.now-begun, tt.takes)
			}
			if s.Err() != ErrClosed || !waits.over || waits.err != ErrClosed {
				t.Errorf("the session: %v, who waits in it: %v, %v", s.Err(), waits.over, waits.err)
			}
			select {
			case <-s.Done():
			default:
				t.Error("it is not done")
			}
			for _, h := range holds {
				if h.Err() != ErrClosed {
					t.Errorf("a hold of it: %v", h.Err())
				}
			}
			if tt.takes < benchTTL/2 && keep.Err() != nil {
				t.Errorf("a hold of another session: %v", keep.Err())
			}
			if err := s.Close(tt.ctx); err != nil {
				t.Errorf("Close again: %v", err)
			}
			c := b.asks(s, Request{Key: "n"})
			if !c.over || c.err != ErrClosed {
				t.Errorf("a call that was under way: %v, %v", c.over, c.err)
			}
			if _, info, err := s.Acquire(t.Context(), Request{Key: "n"}); err != ErrClosed || !info.Quorum {
				t.Errorf("a new call: %v, %+v", err, info)
			}
			if len(b.node.sessions) > 0 {
				t.Error("the node keeps a session that is closed")
			}
		})
	}
}

// Promise: G5, P9: a session that lost a lease in one shard ends everywhere: its waiters are told, what
// is renewed lapses, and what is fixed is closed.
func TestALostSessionEndsEverywhere(t *testing.T) {
	b := newBench(t, Config{})
	s, err := b.node.NewSession(benchTTL)
	if err != nil {
		t.Fatal(err)
	}
	h := b.holds(s, Request{Key: "k"}, 7)
	fixed := b.holds(s, Request{Key: "f", MaxHold: 40 * time.Second}, 8)
	unlocked := b.holds(s, Request{Key: "u", MaxHold: 40 * time.Second}, 8)
	unlock := b.unlocks(unlocked)
	b.take()
	waits := b.asks(s, Request{Key: "w"})
	single := b.asks(s, Request{Key: "g", MaxHold: 40 * time.Second})
	claims := b.asks(s, Request{Key: "c", MaxHold: 40 * time.Second})
	sent := b.expects("2: lock w", "2: lock g", "2: lock c")
	if unlock.over {
		t.Error("an Unlock is over before its answer")
	}
	b.hears(nodeB, told(sent[0], message.Result{Outcome: message.Queued, Revision: 9}), told(sent[1], message.Result{Outcome: message.Queued, Revision: 9}), grant(sent[2], 10))
	b.expect("2: claim c token 10")
	b.pass(benchTTL / 3)
	for _, p := range b.take() {
		if is[*message.Renewal](p) && p.renewal().Session != h.seat.id {
			b.hears(nodeB, alive(p, 10))
		}
	}
	b.stall(h.deadline() - b.now)
	if s.Err() != ErrLost || h.Err() != ErrLost || fixed.ended != ErrLost {
		t.Errorf("the session: %v, its holds: %v, %v", s.Err(), h.Err(), fixed.ended)
	}
	for i, c := range []*call{waits, single, claims} {
		if !c.over || c.err != ErrLost {
			t.Errorf("call %d: %v, %v", i, c.over, c.err)
		}
	}
	closed := make(map[uint64]bool)
	for _, p := range b.take() { // also what went out before, in the same run
		if id, _ := shard.ClientOf(p.command()); p.words() == "close" {
			closed[id.Number] = true
		}
	}
	b.pass(2 * longestRetry)
	for _, p := range b.take() {
		if p.words() != "close" {
			t.Errorf("%q is sent after the end", p.words())
		}
	}
	if len(closed) != 4 || closed[h.seat.id.Number] {
		t.Errorf("the records %v are closed, want those of one hold each", closed)
	}
	if n := b.lane().heldLocks(); n != 0 {
		t.Errorf("%d holds are waited for", n)
	}
}

// Promise: P12: who gives up leaves no grant behind: a Cancel is repeated until it is answered, and each
// renewal names it; one for a hold of fixed length closes its record.
func TestWhoGivesUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		hold   time.Duration
		hears  []message.Result // before he gives up
		sent   string
		closed bool
	}{
		{name: "it was not answered", sent: "2: cancel"},
		{name: "it was queued", hears: []message.Result{{Outcome: message.Queued, Revision: 6}}, sent: "2: cancel"},
		{name: "it was not answered, and its time would be fixed", hold: time.Minute, sent: "2: close", closed: true},
		{name: "its time would be fixed", hold: time.Minute, hears: []message.Result{{Outcome: message.Queued, Revision: 6}}, sent: "2: close", closed: true},
		{
			name: "its time is being fixed", hold: time.Minute, hears: []message.Result{{Outcome: message.Queued, Revision: 6}, {Outcome: message.Granted, Token: 7, Revision: 7}},
			sent: "2: close", closed: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			h := b.holds(b.node.Session(), Request{Key: "h"}, 3)
			c := b.asks(b.node.Session(), Request{Key: "k", MaxHold: tt.hold})
			p := b.expect("2: lock k")
			for _, r := range tt.hears {
				b.hears(nodeB, told(p, r))
			}
			b.take()
			b.do(func(l *lane) { l.desk(0).abandon(c, context.Canceled) })
			if !c.over || c.err != context.Canceled || !c.info.Quorum || c.info.Queued != (len(tt.hears) > 0) {
				t.Errorf("%v, %v, %+v", c.over, c.err, c.info)
			}
			cancel := b.expect(tt.sent)
			if a, ok := cancel.command().(shard.Cancel); ok && a.Target != numberOf(p.command()) {
				t.Errorf("%+v is sent", a)
			}
			b.do(func(l *lane) { l.desk(0).abandon(c, context.Canceled) })
			b.expects()
			b.pass(benchTTL/3 - 1 + time.Minute - b.now)
			repeated := b.take()
			if len(repeated) < 2 || slices.ContainsFunc(repeated, func(p parcel) bool { return !is[*message.Request](p) || "2: "+p.words() != tt.sent }) {
				t.Errorf("then %d messages are sent, want the command again and again", len(repeated))
			}
			b.pass(1)
			renewed := slices.DeleteFunc(b.take(), func(p parcel) bool { return !is[*message.Renewal](p) || p.renewal().Session != c.seat.id })
			if tt.closed {
				if len(renewed) > 0 {
					t.Error("a record that is to be closed is renewed")
				}
			} else if len(renewed) != 1 || len(renewed[0].renewal().Orphans) != 1 || numberOf(renewed[0].renewal().Orphans[0].Command) != numberOf(cancel.command()) {
				t.Errorf("the renewal %+v does not name it", renewed)
			}
			// A grant that comes all the same is nobody's.
			b.hears(nodeB, grant(p, 9))
			b.take()
			b.hears(nodeB, told(cancel, message.Result{Outcome: message.Done, Revision: 9}))
			b.pass(time.Second)
			for _, p := range b.take() {
				if is[*message.Request](p) || p.renewal().Session == c.seat.id && len(p.renewal().Orphans) > 0 {
					t.Errorf("%q is sent after the answer", p.words())
				}
			}
			if h.Err() != nil || b.node.Stats().Grants != 1 || len(b.desk().seats) != 1 {
				t.Errorf("the other hold: %v; %d grants; %d seats", h.Err(), b.node.Stats().Grants, len(b.desk().seats))
			}
		})
	}
}

package node

import (
	"context"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// Promise: P8, P14: Release ends the belief before anything is sent, names the token, and says
// what the shard said; later calls say the same.
func TestRelease(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	silent := func(*bench, parcel) {}
	confirms := func(b *bench, p parcel) {
		b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 9}))
	}
	refuses := func(b *bench, p parcel) {
		b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Refused, Reason: 2}, Revision: 9}))
	}
	for _, tt := range []struct {
		name    string
		before  func(b *bench, s *Session, h *Hold)
		ctx     context.Context
		shard   func(b *bench, p parcel) // what becomes of the command
		want    error
		again   error         // of another call, a moment later
		takes   time.Duration // at most
		unasked bool          // nothing is sent
		losses  uint64
	}{
		{name: "the shard confirms it", shard: confirms},
		{name: "it does although ctx has ended", ctx: over, shard: confirms},
		{name: "the grant is gone", shard: refuses, want: fault.ErrLost, again: fault.ErrLost},
		{name: "no answer, and ctx has ended", ctx: over, shard: silent, want: fault.ErrUnconfirmed, again: fault.ErrUnconfirmed, takes: LateRelease},
		{name: "no answer", shard: silent, want: fault.ErrUnconfirmed, again: fault.ErrUnconfirmed, takes: benchTTL},
		{
			name: "the lease is over, and no timer has fired", before: func(b *bench, _ *Session, h *Hold) { b.now = h.belief.Deadline() },
			want: fault.ErrLost, again: fault.ErrLost, unasked: true, losses: 1,
		},
		{
			name: "a moment before that", before: func(b *bench, _ *Session, h *Hold) { b.now = h.belief.Deadline() - 1 },
			shard: silent, want: fault.ErrUnconfirmed, again: fault.ErrUnconfirmed, takes: 1,
		},
		{
			name: "the session was closed", before: func(b *bench, s *Session, h *Hold) { b.do(func(l *shardLoop) { l.closeLeases(s.life) }); b.take() },
			want: fault.ErrClosed, again: fault.ErrClosed, unasked: true,
		},
		{
			name: "the node has ended, and its loop does not run any more", before: func(b *bench, _ *Session, h *Hold) { b.node.shards.box.close() },
			want: fault.ErrUnconfirmed, again: fault.ErrUnconfirmed, unasked: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{})
			s, err := b.node.NewSession(benchTTL)
			if err != nil {
				t.Fatal(err)
			}
			h := b.holds(s, client.Request{Key: "k"}, 7)
			if tt.before != nil {
				tt.before(b, s, h)
			}
			asked := 0
			b.play = func(p parcel) {
				if !is[*message.Request](p) {
					return
				}
				if asked++; p.words() != "unlock k token 7" || asked == 1 && p.to != nodeB || !h.Over() {
					t.Errorf("%d is told %q, and the belief has ended: %v", p.to, p.words(), h.Over())
				}
				tt.shard(b, p)
			}
			ctx, begun := tt.ctx, b.now
			if ctx == nil {
				ctx = context.Background()
			}
			if err := h.Release(ctx); err != tt.want {
				t.Errorf("Release: %v, want %v", err, tt.want)
			}
			if d := b.now - begun; d > tt.takes || tt.takes == LateRelease && d < tt.takes {
				t.Errorf("it took %v, want %v", d, tt.takes)
			}
			if err := h.Release(over); err != tt.again {
				t.Errorf("Release again: %v, want %v", err, tt.again)
			}
			if tt.unasked != (asked == 0) {
				t.Errorf("%d commands are sent", asked)
			}
			if st := b.node.Stats(); st.Losses != tt.losses {
				t.Errorf("%d losses are counted, want %d", st.Losses, tt.losses)
			}
		})
	}
}

// Promise: P8: of several callers of Release each waits for what the first one's comes to, or until
// its own ctx ends.
func TestReleaseByTwo(t *testing.T) {
	b := newBench(t, Config{})
	h := b.holds(b.node.Session(), client.Request{Key: "k"}, 7)
	var sent parcel
	b.play = func(p parcel) { sent = p }
	first, cancelFirst := context.WithCancel(context.Background())
	second, cancelSecond := context.WithCancel(context.Background())
	var errs [3]error
	b.at(b.now+time.Millisecond, func() {
		// While the first waits, another one comes, and gives up; then so does the first.
		cancelSecond()
		errs[0] = h.Release(second)
		cancelFirst()
		b.mail(nodeB, told(sent, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 9}))
	})
	errs[1] = h.Release(first)
	errs[2] = h.Release(context.Background())
	if want := [3]error{fault.ErrUnconfirmed, fault.ErrUnconfirmed, nil}; errs != want {
		t.Errorf("%v, want %v", errs, want)
	}
	if st := b.node.Stats(); st.Releases != 1 || st.Losses != 0 {
		t.Errorf("%+v", st)
	}
}

// Promise: P8, G4: a Release that comes when the lease is given up learns that it will not be confirmed. One that
// is under way when its session is closed ends with the record.
func TestReleaseMeetsTheEnd(t *testing.T) {
	for _, length := range []time.Duration{0, time.Minute} {
		b := newBench(t, Config{})
		h := b.holds(b.node.Session(), client.Request{Key: "k", MaxHold: length}, 7)
		b.node.shards.post(func(l *shardLoop) { l.step(client.Shut{}) })
		for range 2 {
			if err := h.Release(t.Context()); err != fault.ErrUnconfirmed {
				t.Errorf("after the end: %v", err)
			}
		}
		b.expects()

		b = newBench(t, Config{})
		s, _ := b.node.NewSession(benchTTL)
		h = b.holds(s, client.Request{Key: "k", MaxHold: length}, 7)
		other := b.holds(s, client.Request{Key: "o", MaxHold: length}, 8)
		c := b.unlocks(h)
		b.take()
		var calls []*client.Call
		b.do(func(l *shardLoop) { calls = l.closeLeases(s.life) })
		for _, p := range b.take() {
			if p.words() != "close" {
				t.Errorf("%q is sent", p.words())
			}
			b.hears(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 9}))
		}
		for _, c := range append(calls, c) {
			if !isOver(c) || c.Err != nil {
				t.Errorf("Release and Close: %v, %v", isOver(c), c.Err)
			}
		}
		if !other.Over() {
			t.Error("another hold goes on")
		}
		b.pass(time.Minute)
		b.expects()
	}
}

// Promise: P50: a grant has a name in the mesh of its node alone: in another one its token is another grant's.
func TestAGrantOfAnotherMesh(t *testing.T) {
	nodeOf := func(id uint64) *Node {
		n := &Node{}
		if id != 0 {
			n.mesh.Store(&mesh{id: id})
		}
		return n
	}
	one := nodeOf(1)
	h := &Hold{belief: &client.Hold{Shard: 3, Token: 7}, node: one}
	for n, want := range map[*Node]bool{one: true, nodeOf(1): true, nodeOf(2): false, nodeOf(0): false} {
		if g, ours := h.Grant(&Session{node: n}); ours != want || g != (shard.Grant{Shard: 3, Token: 7}) {
			t.Errorf("%+v, %t, want %t", g, ours, want)
		}
	}
}

package node

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
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
		{"one of them does, and ctx has ended", over, []int{1}, fault.ErrUnconfirmed, LateRelease},
		{"one of them does", context.Background(), []int{0}, fault.ErrUnconfirmed, believed(benchTTL)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Shards: 2})
			s, err := b.node.NewSession(benchTTL)
			if err != nil {
				t.Fatal(err)
			}
			keep := b.holds(b.node.Session(), client.Request{Key: "o"}, 6)
			var holds []*Hold
			for sh := range 2 {
				c := b.asksOf(sh, s, client.Request{Key: "k"})
				m := grant(b.expect("2: lock k"), 7)
				m.shard = sh
				b.hears(nodeB, m)
				holds = append(holds, c.Hold.Owner.(*Hold))
			}
			waits := b.asks(s, client.Request{Key: "w"})
			b.take()
			b.play = func(p parcel) {
				if !is[*message.Request](p) {
					return
				}
				if p.words() != "close" || !holds[0].Over() || !holds[1].Over() {
					t.Errorf("%q is sent, while the holds have ended: %v, %v", p.words(), holds[0].Over(), holds[1].Over())
				}
				if slices.Contains(tt.answers, p.shard) {
					m := told(p, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 8})
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
			if s.Err() != fault.ErrClosed || !isOver(waits) || waits.Err != fault.ErrClosed {
				t.Errorf("the session: %v, who waits in it: %v, %v", s.Err(), isOver(waits), waits.Err)
			}
			select {
			case <-s.Done():
			default:
				t.Error("it is not done")
			}
			for _, h := range holds {
				if h.Err() != fault.ErrClosed {
					t.Errorf("a hold of it: %v", h.Err())
				}
			}
			if tt.takes < benchTTL/2 && keep.Err() != nil {
				t.Errorf("a hold of another session: %v", keep.Err())
			}
			if err := s.Close(tt.ctx); err != nil {
				t.Errorf("Close again: %v", err)
			}
			c := b.asks(s, client.Request{Key: "n"})
			if !isOver(c) || c.Err != fault.ErrClosed {
				t.Errorf("a call that was under way: %v, %v", isOver(c), c.Err)
			}
			if _, info, err := s.Acquire(t.Context(), client.Request{Key: "n"}); err != fault.ErrClosed || !info.Quorum {
				t.Errorf("a new call: %v, %+v", err, info)
			}
			if len(b.node.sessions) > 0 {
				t.Error("the node keeps a session that is closed")
			}
		})
	}
}

// Promise: P9: Close does not say that the shards confirmed anything if the node ended before they were asked.
func TestCloseOnANodeThatHasEnded(t *testing.T) {
	b := newBench(t, Config{})
	s, err := b.node.NewSession(benchTTL)
	if err != nil {
		t.Fatal(err)
	}
	b.holds(s, client.Request{Key: "k"}, 7)
	b.node.shards.box.close()
	if err := s.Close(t.Context()); err != fault.ErrUnconfirmed {
		t.Errorf("Close: %v, want %v", err, fault.ErrUnconfirmed)
	}
}

// Promise: G5, P9: a user's session that lost its lease in one shard ends in every shard.
func TestALostSessionEndsInEveryShard(t *testing.T) {
	b := newBench(t, Config{Shards: 2})
	s, err := b.node.NewSession(benchTTL)
	if err != nil {
		t.Fatal(err)
	}
	h := b.holds(s, client.Request{Key: "k"}, 7)
	b.pass(time.Second)
	m := serves(benchTerm)
	m.shard = 1
	b.node.shards.post(func(l *shardLoop) { l.take(nodeB, 1, m.Message) })
	c := b.asksOf(1, s, client.Request{Key: "e"})
	waits := b.asksOf(1, s, client.Request{Key: "w"})
	sent := b.expects("2: lock e", "2: lock w")
	b.node.shards.post(func(l *shardLoop) { l.take(nodeB, 1, grant(sent[0], 8).Message) })
	b.run()
	elsewhere := c.Hold.Owner.(*Hold)
	b.pass(h.belief.Deadline() - b.now - 1)
	if h.Over() || elsewhere.Over() {
		t.Fatal("a hold ends before its deadline")
	}
	b.pass(1)
	if h.Err() != fault.ErrLost || elsewhere.Err() != fault.ErrLost || s.Err() != fault.ErrLost || !isOver(waits) || waits.Err != fault.ErrLost {
		t.Errorf("the hold: %v, one in another shard: %v, the session: %v, a call that waits there: %v", h.Err(), elsewhere.Err(), s.Err(), waits.Err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("it is not done")
	}
	if n := b.node.Stats().Losses; n != 2 || len(b.node.sessions) > 0 {
		t.Errorf("%d losses are counted; %d sessions are kept", n, len(b.node.sessions))
	}
}

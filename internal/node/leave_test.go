package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/transport"
)

// Promise: G9, P32: Leave waits until locks are unlocked, for 20 s or until its context ends; then holders are told that
// they have lost what they hold still, and only then others are told, and given another 20 s to take the replicas over.
// A node without fellows hands nothing over.
func TestLeave(t *testing.T) {
	const pause = 300 * time.Millisecond // for polls and last words
	for _, tt := range []struct {
		name    string
		fellow  bool          // b and c have seats, and are connected
		away    time.Duration // for how long they are not connected
		amid    bool          // that begins when they are told
		client  bool          // b is connected, and has none
		unlocks time.Duration // when its caller unlocks; zero: it holds nothing
		ends    time.Duration // when the context ends
		taken   time.Duration // when the replica is handed over
		want    error
		took    time.Duration
		lost    time.Duration // when the holder has lost its lock
	}{
		{name: "it is alone and holds nothing"},
		{name: "it is alone and a lock is unlocked", unlocks: 3 * time.Second, took: 3 * time.Second},
		{name: "it is alone and a lock is not unlocked", unlocks: time.Hour, want: errHeld, took: leaveWait, lost: leaveWait},
		{name: "it is alone and the context ends", unlocks: time.Hour, ends: time.Second, want: errHeld, took: time.Second, lost: time.Second},
		{name: "a client stays", client: true, want: errNeeded},
		{name: "its fellows take over", fellow: true, taken: 2 * time.Second, took: 2 * time.Second},
		{name: "its fellows do not take over", fellow: true, want: errHandover, took: handoverWait},
		{name: "its fellows are not connected", fellow: true, away: time.Hour, want: errNeeded, took: reconnect},
		{name: "its fellows are connected anew, and take over", fellow: true, away: reconnect / 2, taken: 2 * time.Second, took: 2 * time.Second},
		{name: "its fellows are connected anew once they are told", fellow: true, away: reconnect / 2, amid: true, taken: 2 * time.Second, took: 2 * time.Second},
		{name: "its fellows take over, after a lock", fellow: true, unlocks: time.Second, taken: 5 * time.Second, took: 5 * time.Second},
		{
			name: "its fellows do not take over, and a lock is not unlocked", fellow: true, unlocks: time.Hour, ends: time.Second,
			want: errHeld, took: time.Second + handoverWait, lost: time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, Config{})
			b.play = func(p parcel) { b.note("%s to %d", p.words(), p.to) }
			if tt.fellow {
				b.meets(benchB, benchC)
			}
			if tt.client {
				b.news(env.MemberEvent{Member: benchB})
				b.node.Up(b.helloOf(benchB))
				b.pass(time.Second) // for a view with it
			}
			begun, told := b.now, false
			cut := func() {
				for _, o := range []env.Member{benchB, benchC} {
					b.node.Down(o.ID, transport.Lost)
					b.at(b.now+tt.away, func() { b.node.Up(b.helloOf(o)) })
				}
			}
			if tt.amid {
				b.play = func(p parcel) {
					if b.note("%s to %d", p.words(), p.to); !told && strings.HasPrefix(p.words(), "leaving") {
						told = true
						cut()
					}
				}
			} else if tt.away > 0 {
				cut()
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var h *Hold
			lost := time.Duration(0)
			if tt.unlocks > 0 {
				var err error
				if h, _, err = b.node.Session().Acquire(ctx, client.Request{Key: "k"}); err != nil {
					t.Fatal(err)
				}
				begun = b.now
				b.at(begun+tt.unlocks, func() {
					h.end(env.Never, fault.ErrClosed)
					unlock := &client.Call{Kind: client.Unlock, Hold: h.belief, Parker: b.NewParker()}
					b.node.shards.post(func(l *shardLoop) { l.step(client.Start{Call: unlock}) })
				})
				h.OnEnd(func(error) { lost = b.now - begun })
			}
			if tt.ends > 0 {
				b.at(begun+tt.ends, cancel)
			}
			if tt.taken > 0 {
				b.at(begun+tt.taken, func() { b.node.shards.post(func(l *shardLoop) { l.drop(l.replica(0)) }) })
			}
			b.words = nil
			err := b.node.Leave(ctx)
			if took := b.now - begun; err != tt.want || took < tt.took || took > tt.took+pause {
				t.Errorf("it ends after %v with %v, want %v and %v", took, err, tt.took, tt.want)
			}
			if tt.lost > 0 && (lost < tt.lost || lost > tt.lost+pause) {
				t.Errorf("the lock is lost after %v, want %v", lost, tt.lost)
			}
			others := (tt.fellow || tt.client) && tt.away < time.Hour
			if b.node.Err() != fault.ErrLeft || slices.Contains(b.words, "leaving to 2") != others || slices.Contains(b.words, "disconnect 2") != others || !slices.Contains(b.words, "gossip leaves") {
				t.Errorf("the node: %v; it says %v", b.node.Err(), b.words)
			}
		})
	}
}

// A node that leaves, or has ended, is not ready.
func TestHealthOfANodeThatEnds(t *testing.T) {
	b := start(t, Config{})
	b.pass(12 * time.Second) // the quiet time
	b.at(b.now+leavePause/2, func() {
		if b.node.Health().Ready {
			t.Error("it is ready, and leaves")
		}
	})
	if !b.node.Health().Ready || b.node.Leave(t.Context()) != nil || b.node.Health().Ready {
		t.Errorf("it does not leave, or is ready: %+v", b.node.Health())
	}
}

// A node that is closed while it leaves has not left, also if it has said goodbye already.
func TestLeaveMeetsTheEnd(t *testing.T) {
	for _, after := range []time.Duration{0, leavePause / 2, 4 * leavePause} {
		b := start(t, Config{})
		b.at(b.now+after, func() { b.node.Close() })
		if err := b.node.Leave(t.Context()); err != fault.ErrClosed || b.node.Err() != fault.ErrClosed {
			t.Errorf("closed after %v: Leave = %v, and the node: %v", after, err, b.node.Err())
		}
	}
}

// Promise: P21, P32: a node that has said goodbye dials nobody any more. A connection that it made would break without a word, and
// the other end, which was only dialled, would take it for one that is connected, for a second.
func TestLeaveDialsNobodyAfterItsGoodbye(t *testing.T) {
	b := start(t, Config{})
	const every = leavePause / 4
	after := 0
	for d := every; d < time.Second; d += every {
		b.at(b.now+d, func() {
			if slices.Contains(b.words, "gossip leaves") {
				after++
			}
			b.do(func(l *shardLoop) { l.carryOutCore([]seat.Output{seat.Dial{Addr: "b:1"}}) })
		})
	}
	b.pass(10 * every)
	if err := b.node.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := slices.Index(b.words, "gossip leaves")
	if before := slices.Index(b.words, "dial b:1"); before < 0 || said < before || after == 0 {
		t.Fatalf("%d dials were due after the goodbye: %v", after, b.words)
	}
	if slices.Contains(b.words[said:], "dial b:1") {
		t.Errorf("it dials after its goodbye: %v", b.words[said:])
	}
}

package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// shardTold tells what happens to one shard, whose nodes 1, 2 and 3 are on hosts of these
// numbers. Node 9 holds a key of it by a session of 10 s, and has just been heard.
type shardTold struct{ w *World }

func (s *shardTold) pass(d time.Duration) { _ = s.w.Run(d) }

// tells lets the replica on a node tell a fact.
func (s *shardTold) tells(node transport.ID, fact any) {
	s.w.history.checks.Observer().Observe(env.At{Generation: 1, Node: node}, fact)
}

func (s *shardTold) serves(node transport.ID, serving bool) {
	s.tells(node, env.Served{Serving: serving})
}

func (s *shardTold) fenced(node transport.ID, fenced bool) {
	s.w.history.checks.Observer().Fenced(node, fenced)
}

func (s *shardTold) heard(node transport.ID) {
	s.tells(node, env.Heard{Session: shard.SessionID{Node: 9, Number: 1}, TTL: 10 * time.Second})
}

func (s *shardTold) decided(what shard.DecisionKind, revision uint64) {
	s.tells(1, shard.Decision{
		Revision: revision, What: what, Key: "k", Session: shard.SessionID{Node: 9, Number: 1}, Number: 1,
		Token: 7, Weight: 1, Capacity: 1,
	})
}

func (s *shardTold) freed() { s.decided(shard.Finished, 9) }

// leaderships lets the nodes 1 and 2 lead by turns, each for d, until there were n of them.
func (s *shardTold) leaderships(n int, d time.Duration, between func(from, to transport.ID)) {
	for i := range n {
		from, to := transport.ID(1+i%2), transport.ID(1+(i+1)%2)
		s.pass(d)
		if between != nil {
			between(from, to)
		}
		s.serves(from, false)
		s.serves(to, true)
	}
}

// TestLate tells for how long a key is kept whose holder is silent, and whether that is too long.
func TestLate(t *testing.T) {
	const sec = time.Second
	handOver := func(s *shardTold) func(from, to transport.ID) {
		return func(from, to transport.ID) {
			s.tells(from, env.Handover{To: to})
		}
	}
	for _, tt := range []struct {
		name string
		tell func(s *shardTold)
		late bool
	}{
		{"freed in time", func(s *shardTold) { s.pass(15 * sec); s.freed() }, false},
		{"freed too late", func(s *shardTold) { s.pass(17 * sec); s.freed() }, true},
		{"never freed", func(s *shardTold) { s.pass(17 * sec) }, true},
		{"heard once more", func(s *shardTold) { s.pass(8 * sec); s.heard(1); s.pass(15 * sec); s.freed() }, false},
		{"heard by who does not lead", func(s *shardTold) { s.pass(8 * sec); s.heard(2); s.pass(9 * sec); s.freed() }, true},
		{"nobody leads for long", func(s *shardTold) {
			s.pass(8 * sec)
			s.serves(1, false)
			s.pass(60 * sec)
			s.serves(2, true)
			s.pass(11 * sec) // 8 s, the last 2 of which may not be in the log, less a quarter: 3.5 s less 2 %
			s.freed()
		}, false},
		{"and then its successor takes too long", func(s *shardTold) {
			s.pass(8 * sec)
			s.serves(1, false)
			s.pass(60 * sec)
			s.serves(2, true)
			s.pass(13 * sec)
			s.freed()
		}, true},
		{"leaders that are there for half a TTL", func(s *shardTold) { s.leaderships(40, 5*sec, nil); s.pass(15 * sec); s.freed() }, false},
		{"leaders that are there for longer", func(s *shardTold) { s.leaderships(2, 8*sec, nil); s.pass(8 * sec); s.freed() }, false},
		{"leaders that do not remember", func(s *shardTold) { s.leaderships(4, 8*sec, nil) }, true},
		{"leaders that hand over", func(s *shardTold) { s.leaderships(3, 4*sec, handOver(s)); s.pass(3 * sec); s.freed() }, false},
		{"leaders that hand over nothing", func(s *shardTold) { s.leaderships(5, 4*sec, handOver(s)); s.freed() }, true},
		{"leaders that cannot hand over", func(s *shardTold) {
			s.leaderships(10, 2*sec, func(from, to transport.ID) { handOver(s)(from, to); s.pass(2 * sec) })
		}, false},
		{"nobody leads when the faults end", func(s *shardTold) {
			s.w.noisy = true
			s.pass(8 * sec)
			s.serves(1, false)
			s.w.HealAll()
			s.serves(2, true)
			s.pass(15 * sec)
			s.freed()
		}, false},
		{"nobody leads when the faults end, and the next leader takes too long", func(s *shardTold) {
			s.w.noisy = true
			s.pass(8 * sec)
			s.serves(1, false)
			s.w.HealAll()
			s.serves(2, true)
			s.pass(17 * sec)
			s.freed()
		}, true},
		{"a leader that is paused", func(s *shardTold) {
			s.pass(9 * sec)
			s.w.Host("host1").Pause()
			s.pass(60 * sec)
			s.w.Host("host1").Resume()
			s.pass(6 * sec)
			s.freed()
		}, false},
		{"a leader that was paused", func(s *shardTold) {
			s.pass(9 * sec)
			s.w.Host("host1").Pause()
			s.pass(60 * sec)
			s.w.Host("host1").Resume()
			s.pass(8 * sec)
			s.freed()
		}, true},
		{"a leader that is fenced", func(s *shardTold) {
			s.pass(9 * sec)
			s.fenced(1, true)
			s.pass(60 * sec)
			s.fenced(1, false)
			s.pass(6 * sec)
			s.freed()
		}, false},
		{"a leader that was fenced", func(s *shardTold) {
			s.pass(9 * sec)
			s.fenced(1, true)
			s.pass(60 * sec)
			s.fenced(1, false)
			s.pass(8 * sec)
			s.freed()
		}, true},
		{"another node that is fenced", func(s *shardTold) { s.fenced(2, true); s.pass(17 * sec); s.freed() }, true},
		{"a leader who waits for a frame", func(s *shardTold) {
			s.pass(20 * sec)
			s.w.Host("host1").waited(10 * sec) // which was on its way for 10 s
			s.freed()
		}, false},
		{"a leader who waits for a frame, and then does nothing", func(s *shardTold) {
			s.pass(20 * sec)
			s.w.Host("host1").waited(10 * sec)
			s.pass(7 * sec)
			s.freed()
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := New(Options{})
			defer w.Close()
			s := &shardTold{w}
			for i := range 3 {
				p := w.Host(fmt.Sprint("host", i+1)).process
				p.Inspect(transport.ID(i+1), &looked{})
				l := p.NewLoop("shards", func(now time.Duration) time.Duration { return now + tick }).(*loop)
				l.Wake()
			}
			s.pass(sec)
			w.turn = w.nodes[1].loops[0]
			s.serves(1, true)
			w.turn = nil
			s.decided(shard.Entered, 1)
			s.decided(shard.Admitted, 2)
			s.heard(1)
			tt.tell(s)
			if w.Err() == nil {
				_ = w.history.checks.Verdict()
			}
			if err := w.Err(); (err != nil) != tt.late || err != nil && !strings.HasPrefix(err.Error(), `G5 late: shard 0 keeps "k"`) {
				t.Errorf("%v, want it late: %v", err, tt.late)
			}
		})
	}
}

// What several frames had to wait for together counts once.
func TestWaits(t *testing.T) {
	var w waits
	for _, add := range []struct{ from, now, sum time.Duration }{{1, 3, 2}, {2, 4, 3}, {6, 7, 4}, {3, 8, 7}, {9, 9, 7}, {0, 10, 10}} {
		if w.add(add.from, add.now); w.sum != add.sum {
			t.Errorf("from %d until %d: %d in all, want %d", add.from, add.now, w.sum, add.sum)
		}
	}
}

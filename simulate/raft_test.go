package simulate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Leaders and replicas: P19 to P24 of the protocol.

// Promise: G1, a new leader says nothing before it has applied what was committed.
// Method: ann was cut off when the key came to her, and is expired; so it went to eve.
// The leader tells eve and dies; its followers have the Expire and do not know that it
// is committed. Ann, back again, renews at the new leader, whose own first entry is slow.
var ownTermFirst = scenario{clients: 3, story: func(s *stage) {
	s.SetLink(s.heir, s.third, simulate.Link{Latency: 6 * time.Millisecond})
	b := s.lock(s.bob, "k")
	s.ask(s.ann, "k")
	s.sleep(time.Second)
	e := s.ask(s.eve, "k")
	s.sleep(s.draw(100*time.Millisecond, time.Second))
	heard, spoke := s.deafen(s.ann), s.mute(s.ann)
	b.unlock()
	appended := false
	s.rule(func(from, _ string, w word) simulate.Verdict {
		expire := s.expires(w, s.ann)
		if expire {
			appended = true
		}
		if from == s.owner && appended && !expire && w.kind == rafts {
			return simulate.Drop // nobody hears of the commit
		}
		return simulate.Pass
	})
	s.until("eve gets the key of ann, who is expired", e.holds)
	s.Crash(s.owner)
	heard()
	spoke()
	s.sleep(s.ttl)
}}

func TestP19OwnTermFirst(t *testing.T) { prove(t, ownTermFirst) }

// Promise: G6, whoever may become leader tries until somebody is.
// Method: the owner is gone, and the other two hear nothing of each other for so long
// that both have campaigned for nothing.
var campaignAgain = scenario{story: func(s *stage) {
	s.lock(s.bob, "first").unlock()
	s.Isolate(s.owner)
	stop := s.rule(func(from, to string, w word) simulate.Verdict {
		if w.kind == rafts && from != s.owner && to != s.owner {
			return simulate.Drop
		}
		return simulate.Pass
	})
	s.sleep(s.draw(3*time.Second, 4*time.Second))
	stop()
	b := s.ask(s.bob, "k")
	s.within(5*time.Second, "bob gets a free key, as two of three replicas are there", b.holds)
}}

func TestP20CampaignAgain(t *testing.T) { prove(t, campaignAgain) }

// Promise: G6, when a leader's process dies, the next one leads at once.
// Method: the owner crashes; bob asks for a free key.
func TestP21EarlyCampaign(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		s.lock(s.bob, "first").unlock()
		s.sleep(s.draw(0, time.Second))
		s.Crash(s.owner)
		b := s.ask(s.bob, "k")
		s.within(500*time.Millisecond, "bob gets a free key after the crash", b.holds)
	}})
}

// Promise: G6, broken connections depose no leader that lives.
// Method: proxies reset all connections of the owner, over and over.
func TestP21ResetsDeposeNobody(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		a := s.lock(s.ann, "k")
		for range 20 {
			for _, h := range s.others(s.owner) {
				s.Reset(s.owner, h)
			}
			for range 20 {
				s.sleep(s.draw(0, 20*time.Millisecond))
				s.must(s.leads(s.owner), "a reset deposed the leader: %v", s.Serving(0))
			}
		}
		s.must(a.holds(), "G5 lease: a reset cost a lock")
	}})
}

// Promise: G6 and G9, leadership moves back to the ring's owner, and nobody notices.
// Method: the owner is cut off, another one leads, and the owner is back; ann and bob
// lock the same key in turns.
func TestP22Transfer(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		s.depose(s.ctx)
		worst, last := time.Duration(0), s.Now()
		for end := s.Now() + 20*time.Second; s.Now() < end; {
			l := s.lock([]string{s.ann, s.bob}[s.Random()%2], "k")
			l.unlock()
			s.must(l.undone == nil, "unlock: %v", l.undone)
			worst = max(worst, s.Now()-last)
			s.sleep(20 * time.Millisecond)
			last = s.Now()
		}
		s.must(s.leads(s.owner), "P22: the ring's owner does not lead again, %v does", s.Serving(0))
		s.must(worst < time.Second, "P22: moving the leadership took %v", worst)
	}})
}

// Promise: G6, a message for a replica that is gone does not hurt its successor.
// Method: a learner is removed from a node, for the ring names another one, and comes
// back there under a new ID. Heartbeats for the old ID arrive at the new one before its
// snapshot does.
var lateFrames = scenario{clients: 1, story: func(s *stage) {
	learner, other := s.learners()
	old, most := uint64(0), uint64(0)
	s.rule(func(from, to string, w word) simulate.Verdict {
		if w.kind == chunks {
			return late(200 * time.Millisecond)
		}
		if w.kind == rafts && to == learner {
			most = max(most, w.raft.To)
			if old == 0 {
				old = w.raft.To
			}
			if w.raft.To == old && w.is(raftpb.MsgHeartbeat) {
				return late(20 * time.Second)
			}
		}
		return simulate.Pass
	})
	s.boot(learner)
	s.within(40*time.Second, "the learner follows", func() bool { return s.nodes[learner] != nil && old != 0 && s.healthy() })
	for range 20 {
		s.lock(s.ann, "k").unlock()
	}
	s.sleep(25 * time.Second)
	s.boot(other)
	s.within(20*time.Second, "the ring names another one", func() bool { return s.nodes[other] != nil && s.healthy() })
	s.sleep(time.Second) // and the learner is removed
	s.on(other, func(ctx context.Context, n *mesh.Node) { _ = n.Leave(ctx) })
	delete(s.nodes, other)
	s.within(10*time.Second, "the learner is back under a new ID", func() bool { return most > old })
	s.sleep(5 * time.Second) // Health is right a few seconds after a change
	s.within(8*time.Second, "the mesh is whole, as Health tells", s.healthy)
}}

// learners returns the names of two hosts. The first one's node is given a replica when
// it joins; the second one's takes its place on the ring.
func (s *stage) learners() (learner, other string) {
	wishes := func(who ...string) []string {
		return replicasOf(1, 0, append(who, s.owner, s.heir, s.third, s.ann)...)
	}
	for i := 0; ; i++ {
		name := fmt.Sprint("l", i)
		switch {
		case learner == "":
			if w := wishes(name); w[0] != name && slices.Contains(w, name) {
				learner = name
			}
		case !slices.Contains(wishes(learner, name), learner) && slices.Contains(wishes(learner, name), name):
			return learner, name
		}
	}
}

func TestP23LateFrames(t *testing.T) { prove(t, lateFrames) }

// Promise: G1, a replica that forgot what it voted for and stored does not count.
// Method: ann's grant is on the owner and on the heir; the heir dies and comes back
// empty; then the owner is cut off. Bob asks the heir and the third, who never heard of
// the grant.
var neverForget = scenario{ttl: 10 * time.Second, story: func(s *stage) {
	s.rule(func(_, to string, w word) simulate.Verdict {
		if to == s.third && w.is(raftpb.MsgApp) && s.Reaches(s.owner, s.heir) {
			return simulate.Drop
		}
		return simulate.Pass
	})
	s.lock(s.ann, "k")
	s.sleep(s.draw(0, 100*time.Millisecond))
	s.Crash(s.heir)
	delete(s.nodes, s.heir)
	s.rule(func(from, to string, w word) simulate.Verdict {
		if from == s.owner && to == s.heir && w.kind == rafts {
			return simulate.Drop
		}
		return simulate.Pass
	})
	s.sleep(100 * time.Millisecond)
	s.Restart(s.heir)
	s.sleep(3 * time.Second)
	s.Partition([]string{s.owner, s.ann})
	s.ask(s.bob, "k")
	s.sleep(5 * time.Second)
}}

func TestP24NeverForget(t *testing.T) { prove(t, neverForget) }

package gossip

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// TestMain lets the garbage grow as the command does: worlds make much of it and are small.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	goleak.VerifyTestMain(m)
}

// party is a few nodes that gossip over a hub, inside a synctest bubble.
type party struct {
	t     *testing.T
	hub   *hub
	nodes map[transport.ID]*node
}

type node struct {
	*Gossip
	self   env.Member
	berth  *berth
	events chan env.MemberEvent
}

func newParty(t *testing.T, size int) *party {
	p := &party{t: t, hub: newHub(), nodes: make(map[transport.ID]*node)}
	for id := transport.ID(1); id <= transport.ID(size); id++ {
		p.add(id)
	}
	return p
}

// met returns a party in which all nodes know each other.
func met(t *testing.T, size int) *party {
	p := newParty(t, size)
	for _, n := range p.nodes {
		n.Join([]env.Member{member(1)})
	}
	for _, n := range p.nodes {
		for other := range p.nodes {
			if other != n.self.ID {
				n.hears(t, other, env.Alive)
			}
		}
	}
	return p
}

func member(id transport.ID) env.Member {
	return env.Member{ID: id, Name: fmt.Sprintf("app-%d", id), Addr: fmt.Sprintf("host-%d:7411", id), Zone: "east"}
}

func (p *party) add(id transport.ID) *node {
	p.t.Helper()
	n := &node{self: member(id), events: make(chan env.MemberEvent, 1000)}
	n.berth = p.hub.attach(n.self)
	g, err := New(Config{
		Self: n.self, Network: n.berth,
		Events: func(e env.MemberEvent) { n.events <- e },
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	n.Gossip = g
	n.berth.start(g.Receive)
	p.nodes[id] = n
	return n
}

// stop ends a node without a word.
func (p *party) stop(id transport.ID) {
	n := p.nodes[id]
	delete(p.nodes, id)
	n.Close()
	n.berth.Close()
}

func (p *party) close() {
	for id := range p.nodes {
		p.stop(id)
	}
	<-time.After(probeInterval) // for the last answer to a probe
}

// hears waits for the event that id is in a state, and returns how long that took.
// Another event about id before it is a failure; events about other members are put back.
func (n *node) hears(t *testing.T, id transport.ID, state env.MemberState) time.Duration {
	t.Helper()
	start := time.Now()
	limit := time.After(time.Minute)
	var others []env.MemberEvent
	for {
		select {
		case e := <-n.events:
			if e.Member.ID != id {
				others = append(others, e)
				continue
			}
			if e.State != state || e.Member != member(id) {
				t.Fatalf("node %s heard %+v, want %+v in state %d", n.self.ID, e, member(id), state)
			}
			for _, e := range others {
				n.events <- e
			}
			return time.Since(start)
		case <-limit:
			t.Fatalf("node %s did not hear that %s is in state %d", n.self.ID, id, state)
		}
	}
}

// quiet fails if there is any event within d.
func (p *party) quiet(d time.Duration) {
	p.t.Helper()
	<-time.After(d)
	for _, n := range p.nodes {
		select {
		case e := <-n.events:
			p.t.Fatalf("node %s heard %+v, want silence", n.self.ID, e)
		default:
		}
	}
}

func TestThoseWhoJoinMeetAll(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := met(t, size)
				defer p.close()
				p.quiet(90 * time.Second)
			})
		})
	}
}

func TestACrashIsNoticed(t *testing.T) {
	for _, size := range []int{2, 3, 5, 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := met(t, size)
				defer p.close()
				p.quiet(7 * time.Second)
				p.stop(2)
				start := time.Now()
				for _, n := range p.nodes {
					n.hears(t, 2, env.Dead)
				}
				worst := time.Since(start)
				t.Logf("all of %d noticed after %v", size-1, worst)
				if worst < time.Second || worst > 4*time.Second {
					t.Errorf("all of %d noticed after %v, want about 3s", size-1, worst)
				}
				p.quiet(2 * time.Minute)
			})
		})
	}
}

func TestANodeThatCannotHearIsNotTakenForDeadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := met(t, 4)
		defer p.close()
		p.hub.setCut(func(from, to transport.ID) bool { return from == 2 && to == 1 || from == 1 && to == 2 })
		p.quiet(2 * time.Minute) // the others reach both, and relay pings
	})
}

func TestALeaverIsSaidToHaveLeftAndNeverDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := met(t, 4)
		defer p.close()
		n := p.nodes[2]
		n.Leave()
		p.stop(2) // before rumours can spread
		for _, n := range p.nodes {
			if took := n.hears(t, 2, env.Left); took > 0 {
				t.Errorf("node %s heard after %v, want at once", n.self.ID, took)
			}
		}
		p.quiet(2 * time.Minute)
	})
}

func TestALeaveTravelsByRumour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := met(t, 4)
		defer p.close()
		p.hub.setCut(func(from, to transport.ID) bool { return from == 2 && to == 3 || from == 3 && to == 2 })
		p.nodes[2].Leave()
		p.nodes[2].Join([]env.Member{member(1)}) // has no effect: it leaves
		for id, n := range p.nodes {
			if id != 2 {
				n.hears(t, 2, env.Left)
			}
		}
		p.quiet(2 * time.Second) // the rumour is everywhere
		late := p.add(9)
		late.Join([]env.Member{member(1)})
		for id, n := range p.nodes {
			if id != 2 && id != 9 {
				n.hears(t, 9, env.Alive)
				late.hears(t, id, env.Alive)
			}
		}
		p.nodes[2].hears(t, 9, env.Alive) // a leaving node still receives events
		p.quiet(10 * time.Second)         // and the new node receives none about it
		p.stop(2)
		p.quiet(2 * time.Minute)
	})
}

func TestALongPartitionHealsByJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := met(t, 5)
		defer p.close()
		left := func(id transport.ID) bool { return id <= 2 }
		p.hub.setCut(func(from, to transport.ID) bool { return left(from) != left(to) })
		for id, n := range p.nodes {
			for other := range p.nodes {
				if left(id) != left(other) {
					n.hears(t, other, env.Dead)
				}
			}
		}
		p.nodes[1].Join([]env.Member{member(3), member(4)}) // fails, and does no harm
		p.quiet(5 * time.Minute)
		p.hub.setCut(nil)
		p.quiet(time.Minute) // memberlist does not heal a partition by itself
		p.nodes[1].Join([]env.Member{member(2), member(5), member(77)})
		for id, n := range p.nodes {
			for other := range p.nodes {
				if left(id) != left(other) {
					n.hears(t, other, env.Alive)
				}
			}
		}
		p.quiet(2 * time.Minute)
	})
}

// A member that is suspected while it is cut off for less than a suspicion lasts refutes it. All
// other members learn of that by rumours alone, as a full exchange is half a minute away. Whom a
// rumour reaches is memberlist's chance: it misses a member in one of some ten thousand worlds. With half
// as many retransmissions it does so in one of a hundred.
func TestAShortCutLeavesNoMemberDead(t *testing.T) {
	worlds, missed := 300, 0
	if testing.Short() { // CI's race step is -short: a world takes ten times as long there
		worlds = 30
	}
	for range worlds {
		synctest.Test(t, func(t *testing.T) {
			p := met(t, 5)
			defer p.close()
			p.hub.setCut(func(from, to transport.ID) bool { return from == 2 || to == 2 })
			<-time.After(900 * time.Millisecond)
			p.hub.setCut(nil)
			<-time.After(5 * time.Second) // for the refutations
			for _, n := range p.nodes {
				if got := len(n.news.living()); got != 4 {
					t.Logf("node %s believes that %d others live, want 4", n.self.ID, got)
					missed++
					break
				}
			}
		})
	}
	if missed > 1 {
		t.Errorf("in %d of %d worlds a member missed a refutation", missed, worlds)
	}
}

func TestASilentPeerDoesNotHoldUpJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t, 8)
		defer p.close()
		p.hub.setCut(func(_, to transport.ID) bool { return to > 2 })
		n := p.nodes[1]
		n.Join([]env.Member{member(3), member(4), member(5), member(2)})
		if took := n.hears(t, 2, env.Alive); took > time.Second {
			t.Errorf("met the peer that answers after %v", took)
		}
		n.Join([]env.Member{member(3), member(4), member(5), member(6), member(7), member(8)})
		n.Close() // ends contacts under way
		n.Close()
		n.Join([]env.Member{member(2)})
		n.Leave()
		n.Receive(2, wire.Marshal(frame{Kind: frameOpen, Stream: 1}))
		n.Down(2)
	})
}

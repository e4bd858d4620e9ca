package node

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// viewOf is a view of the nodes from 1 to n, without a ring.
func viewOf(n int) *members.View {
	var all []replica.Peer
	for node := range uint64(n) {
		all = append(all, replica.Peer{Node: node + 1})
	}
	return members.NewView(false, all, nil)
}

// Promise: G6, P15: a client that hears its leader only with the help of another node gets
// through on a lossy way too.
// Method: of eight nodes the ring wants the shard on none that helps. The helper is asked
// at every fourth attempt, as long as it knows the way, and all others in between; when
// it says that it does not, it is asked no more often than they are.
func TestTheHelperIsAskedAgain(t *testing.T) {
	const leader, helper = 1, 8
	d := &desk{lane: &lane{node: &Node{id: 2}, view: viewOf(helper)}, leader: leader}
	d.speaks(helper, message.Office{Leader: leader, Term: 1})
	asked := func() (to []uint64) {
		for attempt := range 16 {
			node, _ := d.target(attempt)
			to = append(to, node)
		}
		return to
	}
	if got, want := asked(), []uint64{1, 8, 2, 1, 3, 8, 4, 2, 5, 8, 6, 3, 7, 8, 8, 4}; !slices.Equal(got, want) {
		t.Errorf("with a helper %v are asked, want %v", got, want)
	}
	d.by = map[uint64]*seat{1: {}}
	d.redirected(5, message.Redirect{Session: 1})
	if d.through != helper {
		t.Error("who never helped says that it does not, and the helper is forgotten")
	}
	d.redirected(helper, message.Redirect{Session: 1})
	if got, want := asked(), []uint64{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8}; !slices.Equal(got, want) {
		t.Errorf("without one %v are asked, want %v", got, want)
	}
}

// Promise: G6, P15: whoever helped once keeps nobody else from being asked.
// Method: the helper is silent from now on: of all members each is asked within some attempts.
func TestAHelperThatFellSilentHidesNobody(t *testing.T) {
	for others := range 12 {
		v := viewOf(others + 2)
		d := &desk{lane: &lane{node: &Node{id: 1}, view: v}, leader: 1}
		d.speaks(uint64(others+2), message.Office{Leader: 1, Term: 1})
		asked := make(map[uint64]bool)
		for attempt := range 256 {
			if attempt%2 == 1 { // the even ones go to the ring's, of which there are none here
				node, _ := d.target(attempt)
				asked[node] = true
			}
		}
		for _, m := range v.Members() {
			if !asked[m.Node] {
				t.Errorf("of %d members %d is never asked", len(v.Members()), m.Node)
			}
		}
	}
}

// Promise: G5, P12: a renewal names what was abandoned first, and no more than it has room for.
func TestARenewalNamesTheEarliestOrphans(t *testing.T) {
	for _, tt := range []struct{ orphans, answered, bytes, want int }{
		{0, 0, 100, 0},
		{5, 0, 100, 5},
		{5, 2, 100, 3},
		{1000, 10, 100, message.MaxOrphans},
		{1000, 10, 1000, maxOrphanBytes / 1000},
	} {
		s := &seat{desk: &desk{lane: &lane{node: &Node{}}}, calls: make(map[uint64]*call)}
		for i := range tt.orphans {
			c := &call{what: cancels, number: uint64(i + 1), raw: make([]byte, tt.bytes)}
			c.command = shard.Cancel{Target: c.number}
			if s.orphans = append(s.orphans, c); i >= tt.answered {
				s.calls[c.number] = c
			}
		}
		named := s.named()
		if len(named) != tt.want {
			t.Errorf("of %d orphans of %d bytes, %d of them answered, %d are named, want %d", tt.orphans, tt.bytes, tt.answered, len(named), tt.want)
		}
		for i, o := range named {
			if got, want := o.Command.(shard.Cancel).Target, uint64(tt.answered+i+1); got != want {
				t.Errorf("%d is named in place of %d", got, want)
			}
		}
	}
}

// Promise: G6, P15: whoever answers as leader in a later term is the leader, and nobody of an
// earlier one is it again.
// Method: what a desk believes of leader 5, in term 7, after each word that it may hear; 9 passes
// words on.
func TestWhoLeadsByTheLatestTerm(t *testing.T) {
	const old, other, helper = 5, 6, 9
	speaks := func(from, leader, term uint64) func(*desk) {
		return func(d *desk) { d.speaks(from, message.Office{Leader: leader, Term: term}) }
	}
	redirected := func(from, leader, term uint64) func(*desk) {
		return func(d *desk) {
			d.redirected(from, message.Redirect{Session: 1, Office: message.Office{Leader: leader, Term: term}})
		}
	}
	served := func(leader, term uint64) func(*desk) {
		return func(d *desk) { d.served(message.Office{Leader: leader, Term: term}) }
	}
	for _, tt := range []struct {
		name    string
		through uint64 // before
		hears   func(*desk)
		leader  uint64
		term    uint64
		by      uint64 // through, after it
	}{
		{"the leader itself", 0, speaks(old, old, 7), old, 7, 0},
		{"the leader, by a helper", 0, speaks(helper, old, 7), old, 7, helper},
		{"the leader itself, again", helper, speaks(old, old, 7), old, 7, 0},
		{"a later leader", 0, speaks(other, other, 8), other, 8, 0},
		{"a later leader, by a helper", 0, speaks(helper, other, 8), other, 8, helper},
		{"a later leader, by the one believed in", 0, speaks(old, other, 8), other, 8, old},
		{"another leader of the same term, whom somebody misnamed", 0, speaks(other, other, 7), other, 7, 0},
		{"an earlier leader", helper, speaks(other, other, 6), old, 7, helper},
		{"an earlier leader, by somebody", 0, speaks(helper, other, 6), old, 7, 0},
		{"one that led", helper, speaks(other, 0, 0), old, 7, helper},
		{"who knows a later leader", 0, redirected(helper, other, 8), other, 8, 0},
		{"who knows the same one", 0, redirected(helper, old, 7), old, 7, 0},
		{"who knows an earlier leader alone", 0, redirected(helper, other, 6), old, 7, 0},
		{"who knows nobody", 0, redirected(other, 0, 0), old, 7, 0},
		{"a helper that knows nobody any more", helper, redirected(helper, 0, 0), old, 7, 0},
		{"the leader, which knows the next one", 0, redirected(old, other, 8), other, 8, old},
		{"the leader, which knows an earlier one", helper, redirected(old, other, 6), old, 7, helper},
		{"the leader, which leads no more", 0, redirected(old, 0, 0), 0, 7, 0},
		{"a new leader's announcement", helper, served(other, 8), other, 8, helper},
		{"a late announcement", 0, served(other, 6), old, 7, 0},
		{"the leader's announcement again", 0, served(old, 7), old, 7, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &desk{lane: &lane{node: &Node{id: 2}, view: &members.View{}}, leader: old, term: 7, through: tt.through}
			d.by = map[uint64]*seat{1: {jumps: maxJumps}}
			tt.hears(d)
			if d.leader != tt.leader || d.term != tt.term || d.through != tt.by {
				t.Errorf("%d leads in term %d, by way of %d; want %d in term %d, by way of %d", d.leader, d.term, d.through, tt.leader, tt.term, tt.by)
			}
		})
	}
	d := &desk{lane: &lane{node: &Node{id: 2}, view: &members.View{}}, leader: old, term: 7}
	d.nodeGone(old)
	if d.speaks(other, message.Office{Leader: other, Term: 6}); d.leader != 0 {
		t.Error("an earlier leader is believed in because the latest one is gone")
	}
	for b, want := range map[bug.Bug]uint64{bug.KeepsWrongLeader: old, bug.OldLeaderCounts: other} {
		d := &desk{lane: &lane{node: &Node{id: 2, bugs: bug.Of(b)}, view: &members.View{}}, leader: old, term: 7}
		d.speaks(other, message.Office{Leader: other, Term: 8})
		d.served(message.Office{Leader: old, Term: 7})
		if b == bug.OldLeaderCounts {
			d.served(message.Office{Leader: other, Term: 6})
		}
		if d.leader != want {
			t.Errorf("with %v %d is believed to lead, want %d", b, d.leader, want)
		}
	}
}

// Promise: P11: each result is acknowledged once, however many there are, and by whichever
// commands: also when one that carried some was given up.
func TestAcknowledgements(t *testing.T) {
	const results = 5000
	s := &seat{desk: &desk{lane: &lane{node: &Node{}}}, calls: make(map[uint64]*call), renewAt: env.Never}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(results) {
		s.acknowledge(uint64(i + 1))
		s.acknowledge(uint64(i + 1))
	}
	lost := &call{}
	s.put(lost)
	s.remove(lost)
	told := uint64(0)
	for len(s.acks) > 0 {
		c := &call{}
		s.put(c)
		if len(c.acks) > shard.MaxAcked {
			t.Fatalf("a command carries %d acknowledgements", len(c.acks))
		}
		for _, n := range c.acks {
			if told++; n != told {
				t.Fatalf("%d is acknowledged in place of %d", n, told)
			}
		}
	}
	if told != results {
		t.Errorf("%d of %d results are acknowledged", told, results)
	}
}

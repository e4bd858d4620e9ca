package node

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/transport"
)

// next returns the version after a node's table, changed.
func (b *bench) next(change func(t *core.Table)) *core.Table {
	t := *b.node.shards.core.table
	t.Stamp, t.Shards = t.Stamp.Next(), slices.Clone(t.Shards)
	change(&t)
	return &t
}

// Promise: C5: once MaxTTL was changed, all that a leader says to a client has the limit of leases with it, as its node knows
// it by then.
func TestLeadersTellTheLimit(t *testing.T) {
	b := newLeader(t, Config{})
	said := func(number uint64) (reply, answer time.Duration) {
		b.hears(outsider, requests(number, "k", false))
		b.pass(5 * time.Millisecond)
		r := sentTo[*message.Reply](b, outsider, transport.Normal, false)
		b.hears(outsider, renews(number, false))
		b.pass(5 * time.Millisecond)
		return r.Limit, sentTo[*message.Answer](b, outsider, transport.Urgent, false).Limit
	}
	number := uint64(0)
	for _, tt := range []struct {
		name   string
		params func(p *founding.Params)
		want   time.Duration
	}{
		{"nobody has changed it", func(p *founding.Params) {}, 0},
		{"it is lowered", func(p *founding.Params) { p.MaxTTL, p.Longest, p.Changed = time.Second, time.Minute, true }, time.Second},
		{"a raise is under way", func(p *founding.Params) { p.Raise = time.Hour }, time.Hour},
		{"it is in force", func(p *founding.Params) { p.MaxTTL, p.Raise = time.Hour, 0 }, time.Hour},
	} {
		b.knows(seat.State{Table: b.next(func(t *core.Table) { tt.params(&t.Params) })})
		b.take()
		number++
		if reply, answer := said(number); reply != tt.want || answer != tt.want {
			t.Errorf("%s: a reply says %v, an answer %v, want %v", tt.name, reply, answer, tt.want)
		}
	}
}

// Promise: C5: callers are shown the MaxTTL that is in force; leases of this node are no longer than it allows.
func TestTheNodeKnowsMaxTTL(t *testing.T) {
	b := start(t, Config{})
	if d := b.node.MaxTTL(); d != founding.DefaultMaxTTL {
		t.Errorf("MaxTTL %v", d)
	}
	b.knows(seat.State{Table: b.next(func(t *core.Table) { t.Params.Raise, t.Params.Changed = time.Hour, true })})
	if d := b.node.MaxTTL(); d != founding.DefaultMaxTTL {
		t.Errorf("while a raise is under way: %v", d)
	}
	b.knows(seat.State{Table: b.next(func(t *core.Table) { t.Params.MaxTTL, t.Params.Raise = time.Second, 0 })})
	if d := b.node.MaxTTL(); d != time.Second || b.node.Params().MaxTTL != d {
		t.Errorf("when it is lowered: %v", d)
	}
	if d := new(Node).MaxTTL(); d != 0 {
		t.Errorf("in no mesh: %v", d)
	}
}

// Promise: P29, C5: a node goes over into a mesh with another MaxTTL only if a command has changed it in one of the two, and if
// its options allow it.
func TestMeshesOfOtherMaxTTL(t *testing.T) {
	usual := benchMesh(1, nodeA).Params
	long, changed, other := usual, usual, usual
	long.MaxTTL = time.Hour
	changed.MaxTTL, changed.Changed = time.Hour, true
	other.Shards++
	for _, tt := range []struct {
		name         string
		asks         Config
		before, next founding.Params
		want         bool
	}{
		{"the same", Config{}, usual, usual, true},
		{"another MaxTTL, and this node has not heard of a change", Config{}, usual, long, true},
		{"it was changed before", Config{}, changed, usual, true},
		{"it is changed there", Config{}, usual, changed, true},
		{"it was changed, and this node asks for what the founders had", Config{MaxTTL: usual.MaxTTL}, changed, usual, true},
		{"it was changed, and this node asks for something else", Config{MaxTTL: time.Hour}, changed, usual, true},
		{"founders have what it was changed to, and this node asks for what was before", Config{MaxTTL: usual.MaxTTL}, changed, long, true},
		{"it was changed, and this node needs long leases", Config{LeaseTTL: time.Hour}, changed, usual, false},
		{"leases are shorter, and no command said so", Config{}, long, usual, false},
		{"other shards", Config{}, changed, other, false},
	} {
		n := &Node{cfg: tt.asks}
		if got := n.fits(tt.before, tt.next); got != tt.want {
			t.Errorf("%s: it goes over: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// Promise: C5: an operator's word reaches the replica here of the generation of which it was said.
func TestAnOperatorsWordReachesReplicas(t *testing.T) {
	for _, calm := range []bool{false, true} {
		b := start(t, Config{})
		b.knows(seat.State{Table: b.next(func(t *core.Table) {
			t.Shards[0].Generation.Number++
			t.Shards[0].Quiet = time.Hour
		})})
		b.pass(5 * time.Second)
		if b.node.shards.replica(0).QuietUntil() == 0 {
			t.Fatal("it is not quiet")
		}
		b.knows(seat.State{Table: b.next(func(t *core.Table) { t.Shards[0].Calm = calm })})
		b.pass(2 * time.Second)
		if quiet := b.node.shards.replica(0).QuietUntil() != 0; quiet == calm {
			t.Errorf("the word is said: %t, and it is quiet: %t", calm, quiet)
		}
	}
}

package hosting

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/transport"
)

type list = []transport.ID

// tableOf returns a table of n seats, whose nodes are 1 to n, and of one shard. The ring names 3, 2, 1 for a list
// of three, and 4, 5, 3, 2, 1 for one of five: see TestPlace.
func tableOf(n int, voters ...transport.ID) *core.Table {
	t := &core.Table{
		Stamp: core.Stamp{Roll: core.Ballot{Round: 1}}, Mesh: 7, Params: founding.Params{Replicas: 3, Shards: 1, MaxTTL: time.Second, Rho: 100},
		Shards: []core.Shard{{Generation: core.Generation{Core: core.Ballot{Round: 1}, Number: 1}, Voters: voters, Revision: 5, Quiet: time.Second}},
	}
	for i := range n {
		entry := fmt.Sprintf("h%d-803:1", i+1)
		t.Seats = append(t.Seats, core.Seat{Entry: entry, Node: env.Member{ID: transport.ID(i + 1), Name: entry, Addr: entry}})
	}
	return t
}

// after returns the version after t, changed.
func after(t *core.Table, change func(t *core.Table, s *core.Shard)) *core.Table {
	n := *t
	n.Stamp.Version++
	n.Seats, n.Shards = slices.Clone(t.Seats), slices.Clone(t.Shards)
	change(&n, &n.Shards[0])
	return &n
}

func next(to ...transport.ID) func(*core.Table, *core.Shard) {
	return func(_ *core.Table, s *core.Shard) { s.Next, s.Move = to, s.Move+1 }
}

// ends gives a node's seat to another incarnation, whose ID is ten more.
func ends(id transport.ID) func(*core.Table, *core.Shard) {
	return func(t *core.Table, _ *core.Shard) {
		for i := range t.Seats {
			if t.Seats[i].Node.ID == id {
				t.Seats[i].Node.ID += 10
			}
		}
	}
}

// dies lets the core note that a node has ended, while no other one has its seat.
func dies(id transport.ID) func(*core.Table, *core.Shard) {
	return func(t *core.Table, _ *core.Shard) {
		for i := range t.Seats {
			t.Seats[i].Ended = t.Seats[i].Ended || t.Seats[i].Node.ID == id
		}
	}
}

func begins(voters ...transport.ID) func(*core.Table, *core.Shard) {
	return func(_ *core.Table, s *core.Shard) {
		*s = core.Shard{Generation: core.Generation{Core: s.Generation.Core, Number: s.Generation.Number + 1}, Voters: voters}
	}
}

// text returns outputs in words.
func text(out []Output) string {
	var all []string
	for _, o := range out {
		var said string
		switch o := o.(type) {
		case Make:
			said = fmt.Sprint("makes ", o.ID, " of ", len(o.Founders))
		case Drop:
			said = "drops"
		case Aim:
			said = "aims at"
			for _, p := range o.Target.Nodes {
				said += fmt.Sprint(" ", p.Node)
			}
		case Begun:
			said = "begins"
		case Ask:
			switch c := o.Change.(type) {
			case seat.Move:
				said = fmt.Sprint("moves to ", nodes(c.To))
			case seat.Settle:
				said = fmt.Sprintf("settles %d %v", c.Move, c.Made)
			case seat.Recover:
				said = fmt.Sprint("recovers on ", nodes(c.To))
			}
		}
		all = append(all, said)
	}
	return strings.Join(all, ", ")
}

func wants(t *testing.T, what string, out []Output, want string) {
	t.Helper()
	if got := text(out); got != want {
		t.Errorf("%s: it %q, want %q", what, got, want)
	}
}

func knows(m *Machine, now time.Duration, t *core.Table) []Output {
	return m.Core(now, seat.State{Table: t}, nil)
}

// What the client, and the node, hear of a generation.
func TestBegun(t *testing.T) {
	one := tableOf(5, 1, 2, 3)
	one.Params.MaxTTL, one.Params.Rho = 10*time.Second, 100
	want := Begun{Generation: one.Shards[0].Generation.Name(), Quiet: 10200 * time.Millisecond, Used: 3}
	if got := knows(New(4), 0, one)[0]; got != Output(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Promise: P24, C7: the first replicas of a generation are made by its voters, once, and by none that has been cut.
func TestFirstReplicas(t *testing.T) {
	one := tableOf(5, 1, 2, 3)
	for _, tt := range []struct {
		name string
		self transport.ID
		do   func(m *Machine) []Output
		want string
	}{
		{"a voter", 2, func(m *Machine) []Output { return knows(m, 0, one) }, "begins, makes 2 of 3, aims at 3 2 1"},
		{"another node", 4, func(m *Machine) []Output { return knows(m, 0, one) }, "begins, aims at 3 2 1"},
		{"once", 2, func(m *Machine) []Output {
			knows(m, 0, one)
			return knows(m, 0, after(one, func(*core.Table, *core.Shard) {}))
		}, ""},
		{"of a generation that moves for the first time", 2, func(m *Machine) []Output { return knows(m, 0, after(one, next(1, 2, 4))) }, "begins, makes 2 of 3, aims at 4 2 1"},
		{"for the second time", 2, func(m *Machine) []Output {
			return knows(m, 0, after(after(one, func(_ *core.Table, s *core.Shard) { s.Move = 1 }), next(1, 2, 4)))
		}, "begins, aims at 4 2 1"},
		{"and has settled", 2, func(m *Machine) []Output {
			return knows(m, 0, after(one, func(_ *core.Table, s *core.Shard) { s.Move = 1 }))
		}, "begins, aims at 3 2 1"},
		{"the next generation", 2, func(m *Machine) []Output {
			knows(m, 0, one)
			return knows(m, 0, after(one, begins(2, 3, 4)))
		}, "drops, begins, makes 1 of 3, aims at 4 3 2"},
		{"without a replica", 5, func(m *Machine) []Output {
			knows(m, 0, one)
			return knows(m, 0, after(one, begins(2, 3, 4)))
		}, "drops, begins, aims at 4 3 2"},
		{"a cut", 2, func(m *Machine) []Output {
			knows(m, 0, one)
			return m.Cut(seat.Cut{Generation: one.Shards[0].Generation}, nil)
		}, "drops"},
		{"a cut of the generation before", 2, func(m *Machine) []Output {
			knows(m, 0, after(one, begins(2, 3, 4)))
			return m.Cut(seat.Cut{Generation: one.Shards[0].Generation}, nil)
		}, ""},
		{"a cut that comes before its generation", 2, func(m *Machine) []Output {
			knows(m, 0, one)
			m.Cut(seat.Cut{Generation: core.Generation{Core: one.Stamp.Roll, Number: 2}}, nil)
			return knows(m, 0, after(one, begins(2, 3, 4)))
		}, "drops, begins, aims at 4 3 2"},
		{"an older version", 2, func(m *Machine) []Output {
			knows(m, 0, one)
			knows(m, 0, after(one, begins(3, 4, 5)))
			return knows(m, 0, one)
		}, ""},
	} {
		wants(t, tt.name, tt.do(New(tt.self)), tt.want)
	}
}

// Who is the first to stand for election is another one from shard to shard.
func TestFoundersTakeTurns(t *testing.T) {
	three := tableOf(3, 1, 2, 3)
	three.Shards = slices.Repeat(three.Shards, 3)
	var firsts list
	for _, o := range knows(New(2), 0, three) {
		if m, ok := o.(Make); ok {
			if m.ID != uint64(slices.IndexFunc(m.Founders, func(p replica.Peer) bool { return p.Node == 2 })+1) {
				t.Errorf("shard %d: replica %d of %v", m.Shard, m.ID, m.Founders)
			}
			firsts = append(firsts, transport.ID(m.Founders[0].Node))
		}
	}
	if !slices.Equal(firsts, list{1, 2, 3}) {
		t.Errorf("the first are %v", firsts)
	}
}

// A leader may add a replica on a node that knows the generation, is not fenced, and was not cut.
func TestHosts(t *testing.T) {
	one := tableOf(3, 1, 2, 3)
	g := one.Shards[0].Generation
	m := New(1)
	hosts := func(what string, want bool) {
		t.Helper()
		if m.Hosts(0, g.Name()) != want {
			t.Errorf("%s: it hosts: %v", what, !want)
		}
	}
	hosts("without a table", false)
	knows(m, 0, one)
	hosts("the generation", true)
	if m.Hosts(0, g.Name()+1) || m.Hosts(1, g.Name()) {
		t.Error("it hosts another generation, or shard")
	}
	m.Core(0, seat.State{Table: one, Fenced: true}, nil)
	hosts("fenced", false)
	knows(m, 0, one)
	m.Cut(seat.Cut{Generation: g}, nil)
	hosts("cut", false)
}

// An Aim names the next voters while the shard may change to them, and those of now.
func TestAims(t *testing.T) {
	one := tableOf(5, 1, 2, 3)
	m := New(1)
	knows(m, 0, one)
	out := knows(m, 0, after(one, next(1, 2, 4)))
	wants(t, "a change", out, "aims at 4 2 1")
	a := out[0].(Aim).Target
	if a.Yields || a.Leave != nil || !slices.Equal(a.From, []uint64{1, 2, 3}) {
		t.Errorf("%+v", a)
	}
	if p := a.Nodes[0]; p.Name != "h4-803:1" || p.Addr != "h4-803:1" {
		t.Errorf("it does not know where %+v lives", p)
	}
	again := after(after(one, next(1, 2, 4)), func(_ *core.Table, s *core.Shard) { s.Move += 2 })
	wants(t, "a later change, to the same voters", knows(m, 0, again), "aims at 4 2 1")
	wants(t, "that change again", knows(m, 0, again), "")
}

// Promise: C1: shards are placed by the entries. Names of nodes place nothing: who owns a shard stays the same, whatever the nodes at
// the entries are called.
func TestNamesPlaceNothing(t *testing.T) {
	for i := range 5 {
		one := after(tableOf(5, 1, 2, 3), func(t *core.Table, _ *core.Shard) {
			for j := range t.Seats {
				t.Seats[j].Node.Name = fmt.Sprint("pod-", (i+j)%5)
			}
		})
		m := New(1)
		knows(m, 0, one)
		wants(t, fmt.Sprint("names ", i), knows(m, 0, after(one, next(1, 2, 3, 4, 5))), "aims at 4 5 3 2 1")
	}
}

// Promise: C11, P22: a voter whose entry is dropped from the list owns its shards no more, though the voters stay the same.
// It gets no leadership, and one that leads acts as if it left: it hands over.
func TestAimsOfTheDropped(t *testing.T) {
	one := tableOf(5, 1, 2, 3)
	dropped := after(one, func(t *core.Table, _ *core.Shard) { t.Seats = slices.Delete(t.Seats, 2, 3) })
	for _, self := range []transport.ID{1, 3} {
		m, yields := New(self), self == 3
		knows(m, 0, one)
		out := knows(m, 0, dropped)
		wants(t, "without entry 3", out, "aims at 2 1 3")
		if a := out[0].(Aim).Target; !slices.Equal(a.Leave, []uint64{3}) || !slices.Equal(a.Dropped, a.Leave) || a.Yields != yields {
			t.Errorf("node %d aims at %+v, want that 3 is dropped and leaves, yields %t", self, a, yields)
		}
		wants(t, "the same once more", knows(m, 0, after(dropped, func(*core.Table, *core.Shard) {})), "")
	}
	for _, self := range []transport.ID{1, 3} {
		m := New(self)
		knows(m, 0, one)
		moves := after(one, next(2, 4, 5))
		wants(t, "others are to vote", knows(m, 0, moves), "aims at 4 5 2")
		moves = after(moves, func(t *core.Table, _ *core.Shard) { t.Seats = slices.Delete(t.Seats, 2, 3) })
		out := knows(m, 0, moves)
		wants(t, "without entry 3, which is not to vote on", out, "aims at 4 5 2")
		if a := out[0].(Aim).Target; a.Leave != nil || !slices.Equal(a.Dropped, []uint64{3}) {
			t.Errorf("node %d aims at %+v, want that 3 is dropped", self, a)
		}
		out = knows(m, 0, after(moves, ends(2)))
		wants(t, "the one that was to vote on has ended", out, "aims at 4 5 2")
		if a := out[0].(Aim).Target; !slices.Equal(a.Leave, []uint64{2}) || !slices.Equal(a.Dropped, []uint64{2, 3}) {
			t.Errorf("node %d aims at %+v, want that 2 leaves, and that 2 and 3 are dropped", self, a)
		}
	}
	last := after(one, func(t *core.Table, _ *core.Shard) { t.Seats = slices.Delete(t.Seats, 0, 1) })
	m := New(2)
	knows(m, 0, one)
	if out := knows(m, 0, last); len(out) != 1 || !slices.Equal(out[0].(Aim).Target.Leave, []uint64{1}) {
		t.Errorf("without entry 1, which was the last in the order anyway: %+v", out)
	}
}

// pairs returns a table of shards that are to have two voters.
func pairs(t *core.Table) *core.Table {
	t.Params.Replicas = 2
	return t
}

// What a leader asks for. It is node 1 of five; all that are connected are reached.
func TestLead(t *testing.T) {
	one := tableOf(5, 3, 4, 5)
	none := func(transport.ID) bool { return false }
	all := func(transport.ID) bool { return true }
	three := func(id transport.ID) bool { return id == 3 }
	of := func(changes ...func(*core.Table, *core.Shard)) *core.Table {
		t := one
		for _, c := range changes {
			t = after(t, c)
		}
		return t
	}
	for _, tt := range []struct {
		name  string
		table *core.Table
		self  transport.ID
		seen  Seen
		reach func(transport.ID) bool
		want  string
	}{
		{"all is well", one, 4, Seen{Voters: list{3, 4, 5}}, all, ""},
		{"others are wanted", tableOf(5, 1, 2, 3), 1, Seen{Voters: list{1, 2, 3}}, all, "moves to [3 4 5]"},
		{"but it is changing", tableOf(5, 1, 2, 3), 1, Seen{Voters: list{1, 2, 3}, Changing: true}, all, ""},
		{"spares that are not reached", tableOf(5, 1, 2, 3), 1, Seen{Voters: list{1, 2, 3}}, func(id transport.ID) bool { return id <= 3 }, ""},
		{"a voter is silent", one, 4, Seen{Voters: list{3, 4, 5}, Silent: list{5}}, all, "moves to [2 3 4]"},
		{"without a spare", one, 4, Seen{Voters: list{3, 4, 5}, Silent: list{5}}, three, "moves to [3 4]"},
		{"two are silent: not fewer than two", one, 4, Seen{Voters: list{3, 4, 5}, Silent: list{3, 5}}, three, "moves to [4 5]"},
		{"of two one is silent", tableOf(5, 4, 5), 4, Seen{Voters: list{4, 5}, Silent: list{5}}, none, ""},
		{"it comes back", tableOf(3, 1, 2), 1, Seen{Voters: list{1, 2}}, all, "moves to [1 2 3]"},
		{"one entry", tableOf(1, 1), 1, Seen{Voters: list{1}}, none, ""},
		{"a voter has ended", of(ends(5)), 4, Seen{Voters: list{3, 4, 5}}, three, "moves to [3 4]"},
		{"and another one is not reached", of(ends(5)), 4, Seen{Voters: list{3, 4, 5}}, func(id transport.ID) bool { return id == 15 }, ""},
		{"a voter is known to have ended", of(dies(5)), 4, Seen{Voters: list{3, 4, 5}}, all, "moves to [2 3 4]"},
		{"and its successor is there", of(ends(5)), 4, Seen{Voters: list{3, 4, 5}}, all, "moves to [3 4 15]"},
		{"the change is made", of(next(2, 3, 4)), 4, Seen{Voters: list{2, 3, 4}}, all, "settles 1 true"},
		{"not quite", of(next(2, 3, 4)), 4, Seen{Voters: list{2, 3, 4}, Changing: true}, all, ""},
		{"not yet", of(next(2, 3, 4)), 4, Seen{Voters: list{3, 4, 5}}, all, ""},
		{"who is to come has ended", of(next(2, 3, 4), ends(2)), 4, Seen{Voters: list{3, 4, 5}}, all, "aims at 4 5 3; settles 1 false"},
		{"and the change is in the log", of(next(2, 3, 4), ends(2)), 4, Seen{Voters: list{3, 4, 5}, Changing: true}, all, "aims at 4 5 3"},
		{"and is made", of(next(2, 3, 4), ends(2)), 4, Seen{Voters: list{2, 3, 4}}, all, "settles 1 true"},
		{"and the shard is elsewhere", of(next(2, 3, 4), ends(2)), 4, Seen{Voters: list{1, 3, 4}}, all, "aims at 4 5 3"},
		{"a voter that stays has ended: others may still make it", of(next(2, 3, 4), ends(3)), 4, Seen{Voters: list{3, 4, 5}}, all, ""},
		{"all others are wanted: it leads on until it has handed over", tableOf(6, 1, 2), 1, Seen{Voters: list{1, 2}}, all, "moves to [1 4 6]"},
		{"all others are wanted, of two: the leader stays", pairs(tableOf(5, 1, 2)), 1, Seen{Voters: list{1, 2}}, all, "moves to [1 4]"},
		{"and is named once", pairs(tableOf(5, 2, 1)), 2, Seen{Voters: list{1, 2}}, all, "moves to [2 4]"},
		{"and all that vote now and are to vote on have", of(next(1, 2, 3), ends(3)), 4, Seen{Voters: list{3, 4, 5}}, all, "aims at 4 5 3; settles 1 false"},
		{"and most of the next have", of(next(3, 4), ends(3)), 4, Seen{Voters: list{3, 4, 5}}, all, "aims at 4 5 3; settles 1 false"},
	} {
		first, then, _ := strings.Cut(tt.want, "; ")
		if !strings.HasPrefix(first, "aims") {
			then = first // it asks until the core has decided
		}
		for _, sure := range []bool{false, true} {
			m := New(tt.self)
			knows(m, 0, tt.table)
			tt.seen.Leads, tt.seen.Led, tt.seen.Sure = true, true, sure
			for _, want := range []string{first, then} {
				if !sure && strings.HasPrefix(want, "settles") {
					want = ""
				}
				wants(t, fmt.Sprint(tt.name, ", sure: ", sure), m.Look(0, []Seen{tt.seen}, tt.reach, stays, nil), want)
			}
		}
	}
}

// Promise: C3, P32: who leaves is replaced by one that stays; but not if fewer than two voters would be left.
func TestLeadWhereNodesLeave(t *testing.T) {
	for _, tt := range []struct {
		name   string
		table  *core.Table
		silent list
		reach  list
		leaves list
		want   string
	}{
		{"a voter", tableOf(5, 3, 4, 5), nil, list{1, 2, 3, 5}, list{5}, "moves to [2 3 4]"},
		{"a voter, without a spare", tableOf(5, 3, 4, 5), nil, list{3, 5}, list{5}, "moves to [3 4]"},
		{"two voters, without a spare", tableOf(5, 3, 4, 5), nil, list{3, 5}, list{3, 5}, "moves to [4 5]"},
		{"one of two", tableOf(5, 4, 5), nil, list{5}, list{5}, ""},
		{"a spare", tableOf(5, 3, 4, 5), list{5}, list{1, 2, 3}, list{2}, "moves to [1 3 4]"},
		{"all that vote", tableOf(6, 3, 4, 5), nil, list{1, 2, 3, 5, 6}, list{3, 4, 5}, "moves to [2 4 6]"},
		{"both that vote, of two: the leader stays until it has handed over", pairs(tableOf(6, 4, 5)), nil, list{1, 2, 3, 5, 6}, list{4, 5}, "moves to [4 6]"},
		{"all", tableOf(5, 3, 4, 5), nil, list{1, 2, 3, 5}, list{1, 2, 3, 4, 5}, "moves to [4 5]"},
	} {
		m := New(4)
		knows(m, 0, tt.table)
		in := func(l list) func(transport.ID) bool {
			return func(id transport.ID) bool { return slices.Contains(l, id) }
		}
		seen := Seen{Leads: true, Led: true, Voters: tt.table.Shards[0].Voters, Silent: tt.silent}
		wants(t, tt.name, m.Look(0, []Seen{seen}, in(tt.reach), in(tt.leaves), nil), tt.want)
	}
}

// Promise: P30: a node that is to vote, as its seat is one of the first, lacks the vote until it has it.
func TestLacks(t *testing.T) {
	one := tableOf(5, 1, 3, 4)
	for _, tt := range []struct {
		name  string
		table *core.Table
		self  transport.ID
		want  int
	}{
		{"it votes", one, 4, 0},
		{"it does not", one, 5, 1},
		{"it is a spare", one, 2, 0},
		{"a spare, and one is known to have ended", after(one, dies(5)), 2, 1},
		{"a spare that votes", one, 1, 0},
		{"a spare, and nobody has one of the first seats", after(one, func(t *core.Table, _ *core.Shard) { t.Seats[4].Node = env.Member{} }), 2, 1},
		{"it has no seat", one, 9, 0},
	} {
		m := New(tt.self)
		if n := m.Lacks(); n != 0 {
			t.Errorf("%s: without a table it lacks %d", tt.name, n)
		}
		knows(m, 0, tt.table)
		if n := m.Lacks(); n != tt.want {
			t.Errorf("%s: it lacks %d, want %d", tt.name, n, tt.want)
		}
	}
}

// When another generation is asked for: by proof at once, else after a time, by a node that hosts the shard.
func TestRecover(t *testing.T) {
	one := tableOf(5, 1, 2, 3)
	two := after(after(one, ends(2)), ends(3))
	dead := after(after(one, dies(2)), dies(3))
	moving := after(after(after(one, next(1, 4, 5)), ends(2)), ends(3))
	here := []Seen{{Voters: list{1, 2, 3}}}
	moved := after(after(after(one, next(2, 4, 5)), ends(4)), ends(5))
	kept := after(moved, func(_ *core.Table, s *core.Shard) { s.Next = nil })
	became := []Seen{{Voters: list{2, 4, 5}}}
	led := []Seen{{Voters: list{1, 2, 3}, Led: true}}
	all, spares := list{1, 2, 3, 4, 5, 12, 13}, list{4, 5}
	shrunk := after(tableOf(5, 1, 2), func(t *core.Table, _ *core.Shard) { t.Seats, t.Dropped = slices.Delete(t.Seats, 1, 2), 2 })
	pair := []Seen{{Voters: list{1, 2}}}
	// Two changes of voters were made before these nodes hear of the generation.
	unheard := after(after(one, func(_ *core.Table, s *core.Shard) { s.Move = 2 }), ends(1))
	going := after(unheard, next(2, 3))
	changing := after(after(after(one, func(_ *core.Table, s *core.Shard) { s.Move = 2 }), next(1, 2, 4)), ends(2))
	bare := []Seen{{Voters: list{1, 2, 3}, Vanished: list{2, 3}}}
	less := after(after(tableOf(5, 1, 2, 3, 4), next(1, 3, 4)), ends(3))
	for _, tt := range []struct {
		name  string
		table *core.Table
		self  transport.ID
		after time.Duration
		seen  []Seen
		reach list
		want  string
	}{
		{"most voters have ended", two, 4, 0, nil, all, "recovers on [4 5 13]"},
		{"but most of the core is not reached", two, 4, time.Hour, nil, list{5}, ""},
		{"most voters are known to have", dead, 4, 0, nil, list{1, 5}, "recovers on [1 4 5]"},
		{"but most of the core is not reached: they count in it", dead, 4, time.Hour, nil, list{5}, ""},
		{"it is said to have ended itself", after(dead, dies(4)), 4, time.Hour, nil, list{1, 5}, ""},
		{"one has", after(one, ends(2)), 4, time.Hour, nil, all, ""},
		{"and the others are silent, elsewhere", after(one, ends(2)), 4, time.Hour, nil, list{5, 12}, ""},
		{"most are silent, here", one, 1, Grace, here, spares, "recovers on [1 4 5]"},
		{"for a moment", one, 1, Grace - 1, here, spares, ""},
		{"but it knows a leader", one, 1, time.Hour, led, spares, ""},
		{"there is no leader, but voters", one, 1, lost - 1, here, all, ""},
		{"for long: their replicas are lost", one, 1, lost, here, all, "recovers on [3 4 5]"},
		{"two say that they have no replica", one, 1, Grace, bare, all, "recovers on [3 4 5]"},
		{"a moment ago there was a leader", one, 1, Grace - 1, bare, all, ""},
		{"there is one, to which they have said so", one, 1, time.Hour, []Seen{{Voters: list{1, 2, 3}, Vanished: list{2, 3}, Led: true}}, all, ""},
		{"one says so", one, 1, lost - 1, []Seen{{Voters: list{1, 2, 3}, Vanished: list{2}}}, all, ""},
		{"one says so, and another one has ended", after(one, ends(3)), 1, Grace, []Seen{{Voters: list{1, 2, 3}, Vanished: list{2}}}, all, "recovers on [4 5 13]"},
		{"of four that vote one has ended, and one says so, which is to vote no more", less, 1, Grace, []Seen{{Voters: list{1, 2, 3, 4}, Vanished: list{2}}}, all, "recovers on [4 5 13]"},
		{"it was moved to voters that have ended", moved, 2, Grace, became, all, "recovers on [1 2 3]"},
		{"a moment ago", moved, 2, Grace - 1, became, all, ""},
		{"which a node knows that voted until then", moved, 1, Grace, became, all, "recovers on [1 2 3]"},
		{"by a change that the core takes for given up", kept, 2, Grace, became, all, "recovers on [1 2 3]"},
		{"a moment ago, so", kept, 2, Grace - 1, became, all, ""},
		{"the next voters live", moving, 4, orphaned - 1, nil, all, ""},
		{"for long", moving, 4, orphaned, nil, all, "recovers on [4 5 13]"},
		{"one of two voters has no entry any more, and votes", shrunk, 1, Grace - 1, pair, all, ""},
		{"and is connected: the leader moves its vote", shrunk, 1, lost - 1, pair, all, ""},
		{"it is silent", shrunk, 1, Grace, pair, list{1, 3, 4, 5}, "recovers on [3 4 5]"},
		{"of two that live this one has no replica", unheard, 3, 0, nil, all, "recovers on [3 4 5]"},
		{"it has one", unheard, 3, Grace - 1, here, all, ""},
		{"it has none, and was to be one of two", going, 3, 0, nil, all, "recovers on [3 4 5]"},
		{"it has none, and the next voters may have a leader", changing, 3, orphaned, nil, all, ""},
		{"another one's is not seen from here", unheard, 4, time.Hour, nil, all, ""},
		{"without a seat", two, 9, time.Hour, nil, all, ""},
	} {
		m := New(tt.self)
		knows(m, 0, tt.table)
		wants(t, tt.name, m.Look(tt.after, tt.seen, func(id transport.ID) bool { return slices.Contains(tt.reach, id) }, stays, nil), tt.want)
	}
	m := New(1)
	knows(m, 0, one)
	every := func(transport.ID) bool { return true }
	m.Look(time.Hour, nil, every, stays, nil)
	wants(t, "its replica is new, and knows no leader yet", m.Look(time.Hour+lost-1, here, every, stays, nil), "")
	m = New(1)
	knows(m, 0, one)
	m.Look(time.Hour, here, func(transport.ID) bool { return false }, stays, nil)
	few := func(id transport.ID) bool { return slices.Contains(spares, id) }
	wants(t, "it was cut off, and is connected with spares alone as yet", m.Look(time.Hour+Grace-1, here, few, stays, nil), "")
	wants(t, "for long", m.Look(time.Hour+Grace, here, few, stays, nil), "recovers on [1 4 5]")
	m = New(1)
	knows(m, 0, one)
	m.Look(Grace-1, here, every, stays, nil)
	wants(t, "voters were connected a moment ago", m.Look(Grace, here, few, stays, nil), "")
	m = New(1)
	knows(m, 0, one)
	m.Core(0, seat.State{Table: one, Fenced: true}, nil)
	m.Look(time.Hour, here, every, stays, nil)
	m.Core(time.Hour, seat.State{Table: one}, nil)
	wants(t, "it was fenced until now", m.Look(time.Hour+Grace-1, here, every, stays, nil), "")
	m = New(1)
	knows(m, 0, one)
	m.Cut(seat.Cut{Generation: one.Shards[0].Generation}, nil)
	wants(t, "begun, as its replica was cut", m.Look(0, nil, func(transport.ID) bool { return true }, stays, nil), "recovers on [3 4 5]")
	wants(t, "it reaches others now", m.Look(0, nil, func(id transport.ID) bool { return id != 3 }, stays, nil), "recovers on [2 4 5]")
	leave := func(id transport.ID) bool { return id >= 3 }
	wants(t, "some leave", m.Look(0, nil, every, leave, nil), "recovers on [1 2]")
	leave = func(id transport.ID) bool { return id >= 2 }
	wants(t, "all others leave", m.Look(0, nil, every, leave, nil), "recovers on [1 4]")
	m = New(1)
	knows(m, 0, one)
	m.Look(lost, here, every, stays, nil)
	wants(t, "asked for: there is no way back, though a leader is known", m.Look(lost, led, every, stays, nil), "recovers on [3 4 5]")
	wants(t, "the next generation", knows(m, lost, after(one, begins(1, 4, 5))), "drops, begins, makes 1 of 3, aims at 4 5 1")
	wants(t, "is asked for no more", m.Look(lost, here, every, stays, nil), "")
	m = New(3)
	knows(m, 0, unheard)
	m.Look(0, here, every, stays, nil)
	wants(t, "its replica has stopped itself", m.Look(time.Hour, nil, every, stays, nil), "")
	m = New(3)
	knows(m, 0, one)
	knows(m, 0, after(one, ends(1)))
	wants(t, "its replica is not seen yet", m.Look(0, nil, every, stays, nil), "")
	m = New(4)
	m.Core(0, seat.State{Table: two, Fenced: true}, nil)
	wants(t, "fenced", m.Look(time.Hour, nil, func(transport.ID) bool { return true }, stays, nil), "")
}

// A generation begins with those who have a seat, of the first ones that the ring names.
func TestPlace(t *testing.T) {
	five := tableOf(5).Seats
	if got := ringOrder(ringOver(five, 1), five, 0); !slices.Equal(got, []int{3, 4, 2, 1, 0}) {
		t.Errorf("the ring names %v", got)
	}
	if got := Place(five, founding.Params{Shards: 1, Replicas: 3})(0); !slices.Equal(got, list{3, 4, 5}) {
		t.Errorf("placed at %v", got)
	}
	five[4].Node.ID = 0
	if got := Place(five, founding.Params{Shards: 1, Replicas: 3})(0); !slices.Equal(got, list{2, 3, 4}) {
		t.Errorf("without the node of one entry, placed at %v", got)
	}
	if got := Place(tableOf(5).Seats, founding.Params{Shards: 1, Replicas: 1})(0); !slices.Equal(got, list{4, 5}) {
		t.Errorf("with one replica, placed at %v", got)
	}
	zones := tableOf(5).Seats
	for i, zone := range []string{"z", "y", "x", "x", "x"} {
		zones[i].Node.Zone = zone
	}
	if got := Place(zones, founding.Params{Shards: 1, Replicas: 3})(0); !slices.Equal(got, list{1, 2, 4}) {
		t.Errorf("in three zones, placed at %v", got)
	}
}

// stays: no node leaves.
func stays(transport.ID) bool { return false }

package members

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Promise: G6, P15: Health is what the leaders last said: a shard is led if a leader says so to this node, or to one that
// this node hears; it is whole if its leader says so, and every voter is connected. What was said more than three
// statuses ago, or by a node that is not connected any more, does not count.
func TestHealth(t *testing.T) {
	n, c := node("b", 2), node("c", 3)
	votes := func(nodes ...uint64) (all []Voter) {
		for _, id := range nodes {
			all = append(all, Voter{Node: id, Name: "v"})
		}
		return all
	}
	for _, tt := range []struct {
		name    string
		then    func(b *bench)
		whole   bool
		nobody  []int // shards without a leader
		lacking []int // shards that lack replicas
	}{
		{"nothing is heard", func(b *bench) {}, false, []int{0, 1}, nil},
		{"this node leads all", func(b *bench) { b.reports(led(2)) }, true, nil, nil},
		{"this node leads all, not in step", func(b *bench) { b.reports(Report{Led: []int{0, 1}, Rest: []int{1}}) }, false, nil, []int{0}},
		{"this node leads one", func(b *bench) { b.reports(led(1)) }, false, []int{1}, nil},
		{"this node follows", func(b *bench) { b.reports(Report{Follows: []int{0, 1}}) }, false, []int{0, 1}, nil},
		{"another leads all", func(b *bench) { b.hears(n, led(2)) }, true, nil, nil},
		{"two lead one each", func(b *bench) {
			b.reports(led(1))
			b.hears(n, Report{Led: []int{1}, Rest: []int{1}})
		}, true, nil, nil},
		{"another says that it hears the leaders", func(b *bench) { b.hears(n, Report{Follows: []int{0, 1}}) }, false, nil, []int{0, 1}},
		{"another leads all, and fell silent", func(b *bench) { b.hears(n, led(2)); b.pass(5 * statusEvery) }, false, []int{0, 1}, nil},
		{"another leads all, and was silent for four seconds", func(b *bench) { b.hears(n, led(2)); b.pass(4 * statusEvery) }, true, nil, nil},
		{"another leads all, and its connection was lost", func(b *bench) { b.hears(n, led(2)); b.parts(n, transport.Lost) }, false, []int{0, 1}, nil},
		{"another leads all, and is no member", func(b *bench) { b.hears(node("x", 9), led(2)) }, false, []int{0, 1}, nil},
		{"another leads all, and says later that it does not", func(b *bench) { b.hears(n, led(2)); b.hears(n, led(1)) }, false, []int{1}, nil},
		{"both are voters", func(b *bench) {
			b.reports(Report{Led: []int{0, 1}, Rest: []int{0, 1}, Voters: votes(uint64(self), 2)})
		}, true, nil, nil},
		{"a voter is unknown", func(b *bench) {
			b.reports(Report{Led: []int{0, 1}, Rest: []int{0, 1}, Voters: votes(uint64(self), 9)})
		}, false, nil, nil},
		{"a voter is not connected", func(b *bench) {
			b.comes(c)
			b.parts(c, transport.Lost)
			b.hears(n, Report{Led: []int{0, 1}, Rest: []int{0, 1}, Voters: votes(3)})
		}, false, nil, nil},
		{"a voter's connection is lost later", func(b *bench) {
			b.comes(c)
			b.hears(n, Report{Led: []int{0, 1}, Rest: []int{0, 1}, Voters: votes(3)})
			b.take(b.m.Down(b.now, 3, transport.Lost, nil))
		}, false, nil, nil},
	} {
		b := alone(t)
		b.joins(2)
		b.comes(n)
		b.pass(statusEvery)
		tt.then(b)
		if h := b.m.Health(); h.FullyReplicated != tt.whole || !reflect.DeepEqual(h.NoMajority, tt.nobody) || !reflect.DeepEqual(h.UnderReplicated, tt.lacking) {
			t.Errorf("%s: %+v", tt.name, h)
		}
	}
}

// Promise: P27: what a leader last said of a quiet shard counts until a leader says otherwise, by this node's clock,
// and for the shard whose end is last. Of two that lead in their own eyes, the later end counts.
func TestQuietUntil(t *testing.T) {
	n, c := node("b", 2), node("c", 3)
	at := func(b *bench, d time.Duration) time.Duration { return b.now + d }
	quiet := func(shards int, ends ...time.Duration) Report {
		r := led(shards)
		for sh, d := range ends {
			r.Quiet = append(r.Quiet, Quiet{sh, d})
		}
		return r
	}
	const s = time.Second
	for _, tt := range []struct {
		name string
		then func(b *bench)
		want time.Duration // from the beginning; zero: nothing is quiet
	}{
		{"nothing is heard", func(b *bench) {}, 0},
		{"no shard is quiet", func(b *bench) { b.hears(n, led(2)) }, 0},
		{"another leads a quiet one", func(b *bench) { b.hears(n, quiet(2, 9*s)) }, 9 * s},
		{"another leads two", func(b *bench) { b.hears(n, quiet(2, 9*s, 8*s)) }, 9 * s},
		{"this node leads two", func(b *bench) { b.reports(quiet(2, at(b, 7*s), at(b, 8*s))) }, 8 * s},
		{"two lead one each", func(b *bench) {
			b.reports(quiet(1, at(b, 8*s)))
			b.hears(n, Report{Led: []int{1}, Quiet: []Quiet{{1, 9 * s}}})
		}, 9 * s},
		{"it says so later", func(b *bench) { b.pass(2 * s); b.hears(n, quiet(2, 7*s)) }, 9 * s},
		{"it corrects itself", func(b *bench) { b.hears(n, quiet(2, 7*s)); b.hears(n, quiet(2, 9*s)) }, 9 * s},
		{"it says that it is over", func(b *bench) { b.hears(n, quiet(2, 9*s)); b.hears(n, led(2)) }, 0},
		{"it says that one is over", func(b *bench) {
			b.hears(n, quiet(2, 7*s, 9*s))
			b.hears(n, quiet(2, 7*s))
		}, 7 * s},
		{"the next leader says that it is over", func(b *bench) {
			b.hears(n, quiet(2, 9*s))
			b.hears(n, Report{})
			b.reports(led(2))
		}, 0},
		{"its leader is gone", func(b *bench) { b.hears(n, quiet(2, 9*s)); b.parts(n, transport.Lost) }, 9 * s},
		{"its leader is silent", func(b *bench) { b.hears(n, quiet(2, 9*s)); b.pass(time.Minute) }, 9 * s},
		{"who leads is not agreed on", func(b *bench) {
			b.comes(c)
			b.hears(n, quiet(2, 9*s))
			b.hears(c, quiet(2, 7*s))
		}, 9 * s},
	} {
		b := alone(t)
		b.joins(2)
		b.comes(n)
		b.pass(statusEvery)
		if tt.want != 0 {
			tt.want += b.now
		}
		tt.then(b)
		if got := b.m.Health().QuietUntil; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// P27: what is said of a quiet shard is how long it is so from then on, and a millisecond once that is over.
func TestAStatusSaysForHowLongAShardIsQuiet(t *testing.T) {
	b := newBench(t, 2)
	b.comes(node("b", 2))
	report := led(2)
	report.Quiet = []Quiet{{1, b.now + 1500*time.Millisecond}}
	b.clear()
	b.reports(report)
	b.pass(2 * statusEvery)
	var got []time.Duration
	for _, s := range b.sent {
		r, err := readStatus(s.Body, 2)
		if err != nil || len(r.Quiet) != 1 || r.Quiet[0].Shard != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		got = append(got, r.Quiet[0].Until)
	}
	if want := []time.Duration{1500 * time.Millisecond, 500 * time.Millisecond, time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("it is quiet for %v, want %v", got, want)
	}
}

// In a core of 200 nodes, each of which would report every four seconds, a report counts for more than the three seconds
// for which it counts in a small one. Clients do not count.
func TestHealthOfALargeCore(t *testing.T) {
	b := alone(t)
	b.joins(2)
	n, c := node("b", 2), node("c", 3)
	b.comes(n)
	b.comes(c)
	for i := range transport.ID(198) {
		x := node(fmt.Sprint("x", i), 100+i)
		b.seats = append(b.seats, x)
		b.m.Up(b.now, hello(x), nil)
	}
	b.seat(node("last", 99))
	for _, x := range b.seats[3:201] {
		b.hears(x, Report{})
	}
	b.hears(n, led(1))
	for silent := time.Duration(0); silent < 8*time.Second; silent += 100 * time.Millisecond {
		if b.hears(c, Report{Led: []int{1}, Rest: []int{1}}); !b.m.Health().FullyReplicated {
			t.Fatalf("%v after the report of a leader: %+v", silent, b.m.Health())
		}
		b.pass(100 * time.Millisecond)
	}
}

// Promise: P15, P30: a node is ready once every shard has a leader that it, or a node that it hears, has heard of, and no
// leader counts an earlier incarnation of it as a voter. Of leaders that it hears it asks no other node.
func TestWhenANodeIsReady(t *testing.T) {
	const earlier, waitsForLeader = "an earlier incarnation of this node is still a voter of some shards", "1 of 2 shards have no leader that this node has heard of"
	n, c := node("b", 2), node("c", 3)
	before := []Voter{{Node: 8, Name: "a"}}
	for _, tt := range []struct {
		name  string
		then  func(b *bench)
		waits string
	}{
		{"nothing is heard", func(b *bench) {}, "2 of 2 shards have no leader that this node has heard of"},
		{"one shard is led", func(b *bench) { b.hears(n, led(1)) }, waitsForLeader},
		{"all are led", func(b *bench) { b.hears(n, led(2)) }, ""},
		{"it does not vote where it should", func(b *bench) {
			b.take(b.m.Reported(b.now, Report{}, 3, nil))
			b.hears(n, led(2))
		}, "3 shards do not count this node as a voter yet"},
		{"it did not vote where it should", func(b *bench) {
			b.take(b.m.Reported(b.now, Report{}, 3, nil))
			b.hears(n, led(2))
			b.reports(Report{})
		}, ""},
		{"all are led, for another node", func(b *bench) { b.hears(n, Report{Follows: []int{0, 1}}) }, ""},
		{"this node leads all", func(b *bench) { b.reports(led(2)) }, ""},
		{"this node, which leads, counts its predecessor", func(b *bench) { b.reports(Report{Led: []int{0, 1}, Voters: before}) }, earlier},
		{"this node, which leads, counts itself", func(b *bench) {
			b.reports(Report{Led: []int{0, 1}, Voters: []Voter{{uint64(self), "a"}, {2, "b"}}})
		}, ""},
		{"the leader counts its predecessor", func(b *bench) { b.hears(n, Report{Led: []int{0, 1}, Voters: before}) }, earlier},
		{"the leader counted its predecessor", func(b *bench) {
			b.hears(n, Report{Led: []int{0, 1}, Voters: before})
			b.hears(n, led(2))
		}, ""},
		{"one that is not heard counts its predecessor", func(b *bench) { b.hears(n, Report{Follows: []int{0, 1}, Counted: before}) }, earlier},
		{"one that is heard, too, counted its predecessor", func(b *bench) {
			b.hears(c, led(2))
			b.hears(n, Report{Follows: []int{0, 1}, Counted: before})
		}, ""},
	} {
		b := alone(t)
		b.joins(2, n, c)
		b.m.Up(b.now, hello(n), nil)
		b.m.Up(b.now, hello(c), nil)
		b.m.News(b.now, env.MemberEvent{Member: n}, nil)
		b.m.News(b.now, env.MemberEvent{Member: c}, nil)
		if tt.then(b); b.waits() != tt.waits {
			t.Errorf("%s: it waits for %q, want %q", tt.name, b.waits(), tt.waits)
		}
		if want := tt.waits == ""; b.ready == 1 != want || b.m.Health().Ready != want {
			t.Errorf("%s: it is ready %d times; %+v", tt.name, b.ready, b.m.Health())
		}
		b.pass(time.Second)
		if b.hears(n, led(2)); b.ready > 1 {
			t.Errorf("%s: it tells again that it is ready", tt.name)
		}
	}
}

// Promise: P30: a node is not ready before it has told where it is to vote, whatever others have told. The loops of a
// node run side by side: what it tells comes after the news that it is in a mesh.
func TestReadyOnceReported(t *testing.T) {
	b := alone(t)
	n := node("b", 2)
	b.take(b.m.Joined(b.now, Mesh{ID: testMesh, Shards: 2}, nil, nil))
	b.connects(n)
	b.gossips(n, env.Alive)
	b.hears(n, led(2))
	if b.ready != 0 {
		t.Error("ready, and nothing is known of its own replicas")
	}
	if b.reports(Report{}); b.ready != 1 {
		t.Errorf("not ready: %s", b.m.Waiting())
	}
}

// Promise: P30: before it is ready, a node ends if another living one has its name. Of two that start together the one
// with the lower ID stays, once the other has gone. A predecessor is none: it is dead, or leaves.
func TestTheNameIsTaken(t *testing.T) {
	rival := func(id transport.ID) env.Member { return env.Member{ID: id, Name: "b", Addr: fmt.Sprint("b:", id)} }
	lower, higher := rival(2), rival(9)
	told := func(b *bench, m env.Member) { b.comes(m); b.hears(m, led(1)) }
	for _, tt := range []struct {
		name  string
		then  func(b *bench)
		by    transport.ID // or it stays
		after time.Duration
	}{
		{"nobody has it", func(b *bench) { b.comes(node("c", 3)); b.hears(node("c", 3), led(1)) }, 0, 0},
		{"the other has the lower ID", func(b *bench) { told(b, lower) }, 2, 0},
		{"the other has the higher ID", func(b *bench) { told(b, higher) }, 9, 2 * time.Second},
		{"the other leads nothing", func(b *bench) { b.comes(lower); b.hears(lower, Report{}) }, 2, 0},
		{"the other, with the higher ID, ends", func(b *bench) {
			told(b, higher)
			b.parts(higher, transport.Lost)
			b.reports(led(1))
		}, 0, 0},
		{"the other, with the higher ID, ends at the last moment", func(b *bench) {
			told(b, higher)
			b.reports(led(1))
			b.pass(2*time.Second - 1)
			b.parts(higher, transport.Lost)
		}, 0, 0},
		{"the other has not reported yet", func(b *bench) {
			b.comes(lower)
			b.reports(led(1))
			b.pass(100 * time.Millisecond)
			b.hears(lower, Report{})
		}, 2, 100 * time.Millisecond},
		{"the other is not connected", func(b *bench) { b.gossips(lower, env.Alive); b.reports(led(1)) }, 0, 0},
		{"the other leaves", func(b *bench) { b.comes(lower); b.leaves(lower); b.hears(lower, led(1)) }, 0, 0},
		{"the other was here before, at the same address", func(b *bench) {
			before := rival(2)
			before.Addr = "b:1"
			told(b, before)
		}, 0, 0},
		{"the other was replaced", func(b *bench) {
			b.comes(lower)
			b.parts(lower, transport.Replaced)
			b.reports(led(1))
		}, 0, 0},
	} {
		b := alone(t)
		b.m.cfg.Self = node("b", 5)
		b.joins(1)
		began := b.now
		tt.then(b)
		taken := func() bool { return hasPrefix(b.words, "name taken") }
		for b.now < began+3*time.Second && !taken() && b.ready == 0 {
			b.pass(100 * time.Millisecond)
		}
		if tt.by == 0 && (taken() || b.ready != 1) {
			t.Errorf("%s: it is ready %d times, and asks for %q", tt.name, b.ready, b.words)
		}
		if tt.by != 0 && (!b.asked(fmt.Sprint("name taken by ", uint64(tt.by))) || b.ready > 0 || b.now != began+tt.after) {
			t.Errorf("%s: after %v it is ready %d times, and asks for %q", tt.name, b.now-began, b.ready, b.words)
		}
	}
}

// A node that is not ready asks by its own status for that of others ten times a second.
func TestANodeThatWaitsReportsMoreOften(t *testing.T) {
	b := alone(t)
	b.joins(1)
	b.comes(node("b", 2))
	b.clear()
	b.pass(time.Second)
	if n := len(b.sent); n != 10 {
		t.Errorf("%d statuses in a second", n)
	}
	if b.reports(led(1)); b.m.Waiting() != "ready" {
		t.Errorf("it waits for %q", b.m.Waiting())
	}
	b.pass(time.Second)
	b.clear()
	b.pass(5 * time.Second)
	if n := len(b.sent); n != 5 {
		t.Errorf("%d statuses in five seconds, once it is ready", n)
	}
}

// A node that could serve is settled for good, but ready only while every shard has a leader.
func TestReadyAndSettled(t *testing.T) {
	b := newBench(t, 2)
	for _, leads := range []int{2, 1, 0, 2} {
		b.reports(led(leads))
		b.pass(time.Second)
		if h := b.m.Health(); !h.Settled || h.Ready != (leads == 2) {
			t.Errorf("%d of 2 shards are led: %+v", leads, h)
		}
	}
	if b := alone(t); b.m.Health().Settled || b.m.Health().Ready {
		t.Error("a node without a mesh is ready")
	}
}

// Whether this node may be done without: all shards have leaders, and those here have their voters in step, connected,
// and staying.
func TestSpare(t *testing.T) {
	n, c := node("b", 2), node("c", 3)
	both := []Voter{{Node: 2, Name: "b"}, {Node: 3, Name: "c"}}
	for _, tt := range []struct {
		name string
		then func(b *bench)
		want bool
	}{
		{"nothing is heard", func(b *bench) {}, false},
		{"this node leads all, in step", func(b *bench) { b.reports(led(2)) }, true},
		{"this node leads one that is not in step", func(b *bench) { b.reports(Report{Led: []int{0, 1}, Rest: []int{1}}) }, false},
		{"this node follows, and the leader says that all are in step", func(b *bench) {
			b.reports(Report{Follows: []int{0, 1}})
			b.hears(n, led(2))
		}, true},
		{"it follows one that is not in step", func(b *bench) {
			b.reports(Report{Follows: []int{0}})
			b.hears(n, Report{Led: []int{0, 1}, Rest: []int{1}})
		}, false},
		{"one that is elsewhere is not in step", func(b *bench) {
			b.reports(Report{Follows: []int{1}})
			b.hears(n, Report{Led: []int{0, 1}, Rest: []int{1}})
		}, true},
		{"one that is elsewhere has no leader", func(b *bench) { b.reports(led(1)) }, false},
		{"a voter is not connected", func(b *bench) {
			b.hears(n, Report{Led: []int{0, 1}, Rest: []int{0, 1}, Voters: both})
			b.take(b.m.Down(b.now, 3, transport.Lost, nil))
		}, false},
		{"a voter leaves", func(b *bench) {
			b.hears(n, Report{Led: []int{0, 1}, Rest: []int{0, 1}, Voters: both})
			b.take(b.m.Leaves(b.now, 3, nil))
			b.pass(statusEvery)
		}, false},
		{"a voter leaves of whom this node reports", func(b *bench) {
			b.reports(Report{Led: []int{0, 1}, Rest: []int{0, 1}, Voters: both})
			b.take(b.m.Leaves(b.now, 3, nil))
			b.pass(statusEvery)
		}, false},
		{"this node leaves", func(b *bench) {
			b.reports(led(2))
			b.take(b.m.Leave(b.now, nil))
			b.pass(statusEvery)
		}, false},
	} {
		b := alone(t)
		b.joins(2)
		b.comes(n)
		b.comes(c)
		b.pass(statusEvery)
		tt.then(b)
		if got := b.m.Health().Spare; got != tt.want {
			t.Errorf("%s: %t, %+v", tt.name, got, b.m.Health())
		}
	}
}

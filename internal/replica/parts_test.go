package replica

import (
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/shard"
)

// Each part of a Replica alone: what it is told, and what it says is to be done.

func TestMembersChange(t *testing.T) {
	cfg := Config{ID: 1, Founders: []Peer{{Node: 101}, {Node: 102}, {Node: 103}}}
	m := newMembers(&cfg)
	if m.next() != 4 || len(m.added()) != 0 || m.joint() || !m.votes(3) {
		t.Errorf("founded as %+v", m)
	}
	m.meet(4, 104)
	if p, known := m.address(4); !known || p.Node != 104 || m.removed(4) {
		t.Errorf("a stranger that spoke lives at %+v, %v, and was removed: %v", p, known, m.removed(4))
	}
	gone := m.change(&raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{4}}, map[uint64]Peer{4: {Node: 104}})
	if !slices.Equal(gone, []Hosted{{Peer{Node: 103}, 3}}) || !m.removed(3) || m.removalKnown(3) || m.votes(4) || m.next() != 5 {
		t.Errorf("removed %+v; %+v", gone, m)
	}
	if got := m.added(); !slices.Equal(got, []Hosted{{Peer{Node: 104}, 4}}) {
		t.Errorf("added %+v", got)
	}
	counted := func(former bool) (nodes []uint64) {
		for _, p := range m.counted(former) {
			nodes = append(nodes, p.Node)
		}
		return nodes
	}
	if got := counted(true); !slices.Equal(got, []uint64{103, 101, 102}) || !slices.Equal(counted(false), []uint64{101, 102}) {
		t.Errorf("counted: %v, and %v", got, counted(false))
	}
	m.change(m.conf, nil)
	if !m.removalKnown(3) {
		t.Error("a change that follows does not seal the one before")
	}
	m.change(&raftpb.ConfState{Voters: []uint64{1}, Learners: []uint64{2}}, nil)
	if got := counted(true); !slices.Equal(got, []uint64{103, 102, 101}) {
		t.Errorf("counted when 2 was demoted, and the learner 4 removed: %v", got)
	}
	h := m.history()
	m.restore(m.conf, &h)
	if m.removalKnown(3) {
		t.Error("a snapshot tells whom the last change removed")
	}
}

func TestMembersAgreeInBothHalves(t *testing.T) {
	m := members{conf: &raftpb.ConfState{Voters: []uint64{1, 2, 4}, VotersOutgoing: []uint64{1, 2, 3}}}
	for _, tt := range []struct {
		yes  []uint64
		want bool
	}{{[]uint64{1, 2}, true}, {[]uint64{1, 4}, false}, {[]uint64{1, 3}, false}, {[]uint64{1, 3, 4}, true}, {nil, false}} {
		if got := m.agree(func(id uint64) bool { return slices.Contains(tt.yes, id) }); got != tt.want {
			t.Errorf("%v agree: %v, want %v", tt.yes, got, tt.want)
		}
	}
}

func TestBatchGathersWhileAnEntryFlies(t *testing.T) {
	b := batch{counters: &Counters{}}
	one := []byte("one")
	b.add(one, Dropped{Number: 1})
	if got := b.next(); string(got) != "one" {
		t.Errorf("the first entry has %q", got)
	}
	b.appended()
	b.add([]byte("two"), Dropped{Number: 2})
	if got := b.next(); got != nil || !b.pending() {
		t.Errorf("while an entry flies the next has %q", got)
	}
	b.unblock()
	b.add(make([]byte, maxBatch), Dropped{Number: 3})
	b.add(one, Dropped{Number: 4})
	if got := len(b.next()); got != maxBatch+3 {
		t.Errorf("an entry has %d bytes, want all up to the first command that fills it", got)
	}
	b.appended()
	if b.next() != nil || !slices.Equal(b.reset(), []Dropped{{Number: 4}}) || b.pending() {
		t.Errorf("left of it: %+v", b)
	}
	if entries, commands := b.counters.Entries.Load(), b.counters.Commands.Load(); entries != 2 || commands != 3 {
		t.Errorf("%d entries with %d commands", entries, commands)
	}
}

func TestReadsConfirmWhatCameBefore(t *testing.T) {
	const term = 7
	rs := newReads()
	if _, begun := rs.begin(0, term, 0); begun {
		t.Error("a round begins for nothing")
	}
	rs.renewal(Renewal{Ref: 1})
	first, _ := rs.begin(0, term, 0)
	rs.expiry(shard.SessionID{Node: 9})
	second, _ := rs.begin(time.Millisecond, term, 0)
	if got := rs.end(first, term+1); got.renewals != nil {
		t.Errorf("a round of another term confirms %+v", got)
	}
	if got := rs.end(first, term); len(got.renewals) != 1 || got.expiries != nil {
		t.Errorf("the first round confirms %+v", got)
	}
	if got := rs.end(first, term); got.renewals != nil {
		t.Errorf("and once more %+v", got)
	}
	rs.stalled()
	if got := rs.end(second, term); got.expiries != nil {
		t.Errorf("a round of before a stall ends %v", got.expiries)
	}
	rs.sign = true
	third, begun := rs.begin(0, term, 0)
	rs.renewal(Renewal{Ref: 2})
	rs.giveUp(ElectionTimeout)
	if got := rs.end(third, term); !begun || got.renewals != nil {
		t.Errorf("a round that asks for signs: %v, and it confirms %+v", begun, got)
	}
}

// Promise: P22: a leader is late once no round was confirmed in time for long, and one after the other was begun.
func TestReadsTellWhetherTheLeaderIsLate(t *testing.T) {
	const at, term = time.Hour, 7
	rs := newReads()
	begin := func(now time.Duration) []byte {
		rs.renewal(Renewal{})
		ctx, _ := rs.begin(now, term, 0)
		return ctx
	}
	if rs.late(at) {
		t.Error("it was never asked")
	}
	begin(at)
	second := begin(at + time.Millisecond)
	if rs.late(at+lateAfter-1) || !rs.late(at+lateAfter) {
		t.Errorf("it is late %v after the first round, or not: %+v", lateAfter, rs)
	}
	rs.end(second, term+1)
	rs.end([]byte("another leader's"), term)
	if !rs.late(at + lateAfter) {
		t.Error("another round than its own was confirmed")
	}
	rs.end(second, term)
	if rs.late(at + 2*lateAfter) {
		t.Error("a round was confirmed")
	}
	third := begin(at)
	if rs.giveUp(at + ElectionTimeout); !rs.sign {
		t.Error("it gives a round up, and asks no more")
	}
	if rs.end(third, term); !rs.late(at + lateAfter) {
		t.Error("a round that was given up counts as in time")
	}
	if rs.stalled(); rs.late(at + lateAfter) {
		t.Error("it stood still")
	}
}

// Promise: P22: how late a replica is shows in its first answer to a round; a leader remembers the longest, and
// forgets it slowly.
func TestContactsTellHowLateAReplicaIs(t *testing.T) {
	const at, second = time.Hour, time.Second
	c := newContacts()
	is := func(now, want time.Duration) {
		t.Helper()
		if got := c.lag(2, now); got != want {
			t.Errorf("it is %v late, want %v", got, want)
		}
	}
	is(at, never)
	c.answer(2, 1, at)
	is(at, never) // it was not asked
	c.time(2, 5, at)
	is(at+second, never)
	c.time(2, 6, at+second) // one is timed already
	c.answer(2, 4, at+second)
	is(at+second, never)
	c.answer(2, 5, at+2*second)
	is(at+2*second, 2*second)
	c.time(2, 5, at+2*second) // asked again
	c.answer(2, 5, at+9*second)
	is(at+9*second, 2*second)
	c.time(2, 7, at)
	is(at+second, 2*second)
	is(at+3*second, 3*second) // so late it is at least
	c.answer(2, 9, at)        // a later round's
	is(at, 2*second-2*second/8)
	c.time(2, 10, at)
	c.stalled()
	c.answer(2, 10, at+9*second)
	is(at+9*second, 2*second-2*second/8)
	c.hear(2, at)
	c.time(2, 11, at)
	c.hear(2, at+answerTime)
	is(at+9*second, lateAfter) // it was not silent for long enough to have missed it, and more is not remembered
	c.hear(2, at+2*answerTime+1)
	is(at+9*second, 2*second-2*second/8)
	c.time(2, 12, at)
	c.answer(2, 12, at+time.Hour)
	is(at, lateAfter)
	c.forget(2)
	is(at, never)
}

func TestLeasesAlone(t *testing.T) {
	id := shard.SessionID{Node: 7, Number: 1}
	heard := 0
	ls := newLeases(func(any) { heard++ })
	ls.open(id, ttl, 0)
	if silent, over := ls.review(ttl/2-1, false); silent != nil || over != nil || ls.due(ttl/2-1) || !ls.due(ttl/2) {
		t.Errorf("before half of its time: %v, %v, and then at %v", silent, over, ls.next)
	}
	if silent, _ := ls.review(ttl/2, false); !slices.Equal(silent, []shard.Silent{{Session: id, For: ttl / 2}}) {
		t.Errorf("after half of its time %v is logged", silent)
	}
	if !ls.recall(id) || ls.recall(id) || ls.confirmed(Renewal{Session: id, Ref: 1}) {
		t.Errorf("a silent session is answered, or its silence is not undone once: %+v", ls.byID[id])
	}
	if silent, _ := ls.review(ttl-1, false); silent != nil {
		t.Errorf("while its silence is being undone %v is logged", silent)
	}
	if got := ls.reheard(id); len(got) != 1 || got[0].Ref != 1 {
		t.Errorf("then %+v is answered", got)
	}
	if !ls.hear(id, ttl) || heard != 2 || ls.expire(id, 2*ttl-1) || !ls.expire(id, 2*ttl) || ls.hear(id, 2*ttl) {
		t.Errorf("heard %d times: %+v", heard, ls.byID[id])
	}
	if ls.byID[id].checkpoint = ttl / 2; ls.confirmed(Renewal{Session: id}) || ls.recall(id) {
		t.Error("a session that expires is answered, or its silence undone")
	}
	ls.end(id)
	if !ls.confirmed(Renewal{Session: id}) || ls.recall(id) || !ls.hear(id, 0) {
		t.Error("a session without a record is not answered")
	}
	ls.open(id, ttl, 0)
	if ls.fixing(id, 0, ttl/2, 1); ls.byID[id].ttl != ttl {
		t.Errorf("a shorter Fix on its way makes the lease %v long", ls.byID[id].ttl)
	}
}

// What a leader logs and asks about does not depend on the order of a map.
func TestLeasesAreReviewedInTheOrderOfTheirIDs(t *testing.T) {
	ls := newLeases(nil)
	for n := range uint64(16) {
		ls.open(shard.SessionID{Node: 7, Number: 16 - n}, ttl, 0)
	}
	byID := func(a, b shard.Silent) int { return a.Session.Compare(b.Session) }
	if silent, _ := ls.review(ttl/2, false); len(silent) != 16 || !slices.IsSortedFunc(silent, byID) {
		t.Errorf("silences are logged in this order: %v", silent)
	}
	busy := func(shard.SessionID) bool { return true }
	if silent := ls.handOver(ttl/2+unlogged, busy); len(silent) != 16 || !slices.IsSortedFunc(silent, byID) {
		t.Errorf("at a hand-over they are logged in this order: %v", silent)
	}
	if _, over := ls.review(ttl, false); len(over) != 16 || !slices.IsSortedFunc(over, shard.SessionID.Compare) {
		t.Errorf("a majority is asked in this order: %v", over)
	}
}

func TestAppliedLogKeepsWhatIsRecent(t *testing.T) {
	var a appliedLog
	a.restore(100, 3)
	for i := range uint64(compactEntries) {
		if a.long() {
			t.Fatalf("long after %d entries", i)
		}
		a.apply(101+i, 4, 10)
	}
	if !a.long() || !a.exceeds(compactEntries-1) || a.exceeds(compactEntries) || a.index != 100+compactEntries || a.term != 4 {
		t.Errorf("%+v", a)
	}
	if a.cut(); a.long() || a.excess() != 0 {
		t.Errorf("after a cut: %+v", a)
	}
	at := a.index
	a.apply(at+1, 4, mostKept)
	if got := a.excess(); got != at {
		t.Errorf("the log is too long by all up to %d, want %d", got, at)
	}
}

func TestFarewellsAreRepeated(t *testing.T) {
	var f farewells
	f.add([]Hosted{{Peer{Node: 104}, 4}})
	now := time.Hour
	for n := range farewellTimes {
		if !f.due(now) {
			t.Fatalf("farewell %d is not due", n+1)
		}
		if got := f.tell(now); !slices.Equal(got, []Hosted{{Peer{Node: 104}, 4}}) {
			t.Errorf("farewell %d: %+v", n+1, got)
		}
		if f.due(now + farewellInterval - 1) {
			t.Errorf("another one is due at once after %d", n+1)
		}
		now += farewellInterval
	}
	if f.due(now) {
		t.Errorf("it is repeated more than %d times", farewellTimes)
	}
}

package replica

import (
	"testing"
	"time"

	"github.com/lockmesh/mesh/shard"
)

// newQuiet returns a trio whose tables grant nothing for d.
func newQuiet(d time.Duration) *trio {
	w := newTrio()
	for _, r := range w.replicas {
		r.table = shard.NewTable(shard.Founding{Check: true, Revision: 1 << 20, Settles: d})
	}
	return w
}

// leader lets ticks pass until a replica serves, other than the one with the ID not, and returns it.
func (w *trio) leader(t *testing.T, not uint64) *Replica {
	t.Helper()
	for range 10 * electionTicks {
		for _, r := range w.replicas {
			if r.Serving() && r.ID() != not {
				return r
			}
		}
		w.run(t, 1)
	}
	t.Fatal("nobody serves")
	return nil
}

// Promise: P17, C7: a table whose quiet time ends goes on above the revisions that clients know of.
func TestAQuietTableGoesOnAboveWhatClientsKnow(t *testing.T) {
	w := newQuiet(5 * time.Second)
	leader := w.leader(t, 0)
	leader.Surpass(1 << 40)
	leader.Surpass(7)
	for range 10 * electionTicks {
		if leader.Table().Settles() == 0 {
			break
		}
		w.run(t, 1)
	}
	if leader.Table().Settles() != 0 || leader.Table().Revision() <= 1<<40 {
		t.Errorf("it goes on at %d", leader.Table().Revision())
	}
}

// Promise: C10, G2: a table, quiet or not, is raised above a revision once, by its leader, and is what it was otherwise.
func TestATableIsRaised(t *testing.T) {
	for _, quiet := range []time.Duration{0, time.Hour} {
		w := newQuiet(quiet)
		leader := w.leader(t, 0)
		w.run(t, electionTicks)
		for _, r := range w.replicas {
			r.Raise(1 << 40)
			r.Raise(7)
		}
		before := leader.Applied()
		w.run(t, 3*electionTicks)
		for _, r := range w.replicas {
			if at := r.Table().Revision(); at <= 1<<40 || at > 1<<40+10 || (r.Table().Settles() != 0) != (quiet != 0) {
				t.Errorf("quiet for %v: replica %d is at %d, and settles at %v", quiet, r.ID(), at, r.Table().Settles())
			}
		}
		if entries := leader.Applied() - before; quiet == 0 && entries != 1 {
			t.Errorf("that took %d entries", entries)
		}
	}
}

// Promise: P27, P18: quiet time ends though leaders keep changing and no client asks for anything: what a reign
// lasts counts, but for less than a second.
func TestQuietEndsThoughLeadersChange(t *testing.T) {
	const quiet = 10 * time.Second
	const reign = 1500 * time.Millisecond // of which a second counts, at least
	tests := []struct {
		name   string
		reigns int                            // at most; zero: one, for ever
		depose func(w *trio, leader *Replica) // ends a reign
	}{
		{"one leader", 0, nil},
		{"each hands over to the next", int(quiet/time.Second) + 1, func(w *trio, leader *Replica) {
			next := leader.ID()%3 + 1
			leader.Receive(w.now, 100+next, &Accept{leader.Term()})
		}},
		{"each falls silent", int(quiet/time.Second) + 1, func(w *trio, leader *Replica) {
			clear(w.cut)
			w.cut[leader.ID()] = true
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newQuiet(quiet)
			leader := w.leader(t, 0)
			began := w.now
			over := func() bool { return leader.Serving() && leader.Table().Settles() == 0 }
			if tt.depose == nil {
				w.run(t, int((quiet+ElectionTimeout)/TickInterval))
			}
			reigns := 0
			for ; reigns < tt.reigns && !over(); reigns++ {
				w.run(t, int(reign/TickInterval))
				if was := leader.ID(); !over() {
					tt.depose(w, leader)
					leader = w.leader(t, was)
				}
			}
			if !over() || leader.Table().Now() < quiet || w.now-began < quiet {
				t.Errorf("after %v and %d reigns the table's time is %v, and quiet is over: %v", w.now-began, reigns, leader.Table().Now(), over())
			}
		})
	}
}

// Promise: P27: while the table is quiet, what its replicas know of table time is at most a second old. After that,
// and in a table that never was quiet, time costs no entry.
func TestTableTimeIsLoggedInQuiet(t *testing.T) {
	for _, quiet := range []time.Duration{0, 5 * time.Second} {
		w := newQuiet(quiet)
		leader := w.leader(t, 0)
		oldest, entries := time.Duration(0), leader.Applied()
		for leader.Table().Settles() != 0 {
			w.run(t, 1)
			for _, r := range w.replicas {
				if age := leader.leading.tableTime(w.now) - r.Table().Now(); r.Table().Settles() != 0 {
					oldest = max(oldest, age)
				}
			}
		}
		if entries = leader.Applied() - entries; oldest > time.Second || entries > uint64(quiet/quietTimeEvery)+1 {
			t.Errorf("quiet for %v: table time was %v old, with %d entries", quiet, oldest, entries)
		}
		before := leader.Applied()
		if w.run(t, int(time.Minute/TickInterval)); leader.Applied() != before {
			t.Errorf("quiet for %v: after it, %d entries in a minute", quiet, leader.Applied()-before)
		}
	}
}

// Promise: P27: only a leader says when quiet ends: the same all the time, until it does. The next leader says when
// that is from where the log has brought table time: not earlier.
func TestALeaderKnowsWhenQuietEnds(t *testing.T) {
	w := newQuiet(5 * time.Second)
	leader := w.leader(t, 0)
	end := leader.QuietUntil()
	if left := end - w.now; left > 5*time.Second || left < 5*time.Second-ElectionTimeout {
		t.Errorf("at the beginning it is to end in %v", left)
	}
	for range 40 {
		if w.run(t, 1); leader.QuietUntil() != end {
			t.Fatalf("it is to end %v later", leader.QuietUntil()-end)
		}
		for _, r := range w.replicas[1:] {
			if r.QuietUntil() != 0 {
				t.Fatalf("follower %d says %v", r.ID(), r.QuietUntil())
			}
		}
	}
	w.cut[leader.ID()] = true
	began := w.now
	next := w.leader(t, leader.ID())
	if later := next.QuietUntil() - end; later < w.now-began-TickInterval || later > w.now-began+time.Second {
		t.Errorf("%v without a leader, and it is to end %v later", w.now-began, later)
	}
	end = next.QuietUntil()
	for next.QuietUntil() != 0 && w.now < end+ElectionTimeout {
		w.run(t, 1)
	}
	if late := w.now - end; next.QuietUntil() != 0 || late < 0 || late > 2*TickInterval {
		t.Errorf("it ended %v late: %v", late, next.QuietUntil() == 0)
	}
}

// A leader that is to tell of a quiet that is late says so, whatever its clock shows.
func TestALateEndOfQuiet(t *testing.T) {
	g := leadership{serving: true, began: time.Second, base: time.Hour}
	if got := g.quietUntil(time.Minute); got != 1 {
		t.Errorf("it was to end at %v", got)
	}
}

// Promise: C5: by an operator's word a table grants before its time is over, once: each leader that knows of the word logs
// it, until it is applied.
func TestCalmEndsQuiet(t *testing.T) {
	w := newQuiet(time.Hour)
	first := w.leader(t, 0)
	w.run(t, 2*electionTicks)
	if first.Table().Settles() == 0 {
		t.Fatal("it is not quiet")
	}
	for _, r := range w.replicas {
		r.Surpass(1 << 40)
		r.Calm()
	}
	before := first.Applied()
	w.run(t, 2*electionTicks)
	for _, r := range w.replicas {
		if r.Table().Settles() != 0 || r.Table().Revision() <= 1<<40 {
			t.Errorf("replica %d settles at %v, and is at %d", r.ID(), r.Table().Settles(), r.Table().Revision())
		}
	}
	if entries := first.Applied() - before; entries > 2 { // table time, and the word
		t.Errorf("that took %d entries", entries)
	}
}

package replica

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
)

// handsOver hears to which nodes a replica hands leadership over.
func handsOver(to func(node uint64)) func(fact any) {
	return func(fact any) {
		if h, is := fact.(env.Handover); is {
			to(uint64(h.To))
		}
	}
}

// Promise: G6, P22: nothing waits for a voter that does not answer to take leadership over.
func TestWhoDoesNotAnswerIsHandedNothing(t *testing.T) {
	for silent, want := range map[time.Duration]bool{answerTime: true, answerTime + 1: false} {
		w, leader := led(t)
		w.run(t, 2*HeartbeatTicks)
		handed := false
		leader.cfg.Watch = handsOver(func(node uint64) { handed = node == 102 })
		w.cut[2] = true
		w.run(t, int(silent/TickInterval))
		leader.Receive(w.now+silent%TickInterval, 102, &Accept{leader.Term()})
		a, raw := ask(1, "k")
		if err := leader.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
		granted := slices.ContainsFunc(w.events, func(e shard.Event) bool { return e.What == shard.Granted })
		if handed != want || granted == want {
			t.Errorf("silent for %v, it is handed leadership: %v, and meanwhile a lock is granted: %v", silent, handed, granted)
		}
	}
}

func TestOffersAndHandovers(t *testing.T) {
	const minute = int(time.Minute / TickInterval)
	tests := []struct {
		name   string
		nodes  []Peer
		yields bool
		leave  []uint64
		cut    uint64
		ticks  int
		offers []time.Duration // between them
		to     uint64          // whom
		handed []uint64        // to whom leadership is handed over
	}{
		{"it is the owner", peersOf(1, 2, 3), false, nil, 0, minute, nil, 0, nil},
		{"another one is", peersOf(3, 1, 2), false, nil, 0, 5 * minute, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60}, 103, nil},
		{"the owner is silent", peersOf(3, 1, 2), false, nil, 3, minute, nil, 0, nil},
		{"the owner leaves", peersOf(3, 1, 2), false, []uint64{103}, 0, minute, nil, 0, nil},
		{"the owner has no vote", peersOf(4, 1, 2, 3), false, nil, 0, minute, nil, 0, nil},
		{"it is to go, and another one is the owner", peersOf(3, 2), false, nil, 0, 20, nil, 0, []uint64{103}},
		{"it leaves, and is the owner", peersOf(1, 2, 3), true, []uint64{101}, 0, 20, nil, 0, []uint64{102}},
		{"it is to go, and the owner has no vote", peersOf(4, 2, 3), false, nil, 0, 20, nil, 0, []uint64{102}},
		{"it is to go, and the owner is silent", peersOf(2, 3), false, nil, 2, 40, nil, 0, []uint64{103}},
		{"it is to go, and nobody votes on", peersOf(4, 5), false, nil, 0, 20, nil, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.run(t, 2*HeartbeatTicks)
			w.cut[tt.cut] = true
			w.run(t, 4*HeartbeatTicks)
			var handed []uint64
			for _, r := range w.replicas {
				r.cfg.Watch = handsOver(func(node uint64) {
					if r == leader {
						handed = append(handed, node)
					}
				})
			}
			target := targetOf(leader)
			target.Nodes, target.Yields, target.Leave = tt.nodes, tt.yields, tt.leave
			leader.SetTarget(target)
			var at []time.Duration
			for range tt.ticks {
				n := len(w.offers)
				if w.run(t, 1); len(w.offers) > n {
					at = append(at, w.now)
				}
			}
			if !slices.Equal(handed, tt.handed) || leader.Serving() != (len(tt.handed) == 0) {
				t.Errorf("it hands over to %v, want %v; it serves: %v", handed, tt.handed, leader.Serving())
			}
			if leader.goes() {
				return // its successor may be told as well
			}
			for _, o := range w.offers {
				if o != (offer{tt.to, leader.term}) {
					t.Errorf("it makes the offer %+v in term %d, want one to %d", o, leader.term, tt.to)
				}
			}
			if len(w.offers) != len(at) || len(tt.offers) == 0 && len(at) > 0 || len(tt.offers) > 0 && len(at) != 1+len(tt.offers) {
				t.Fatalf("%d offers, at %v", len(w.offers), at)
			}
			for i, want := range tt.offers {
				if pause := at[i+1] - at[i]; pause < want*time.Second || pause > want*time.Second+placeEvery*TickInterval {
					t.Errorf("pause %d takes %v, want %v", i+1, pause, want*time.Second)
				}
			}
		})
	}
}

// Promise: G6, P22: a leader that a majority hears, and that is always too late to be confirmed, hands over, and does
// not get leadership back while its answers are late, though it is the owner.
func TestALateLeaderHandsOver(t *testing.T) {
	const second = int(time.Second / TickInterval)
	for _, tt := range []struct {
		name  string
		far   time.Duration // what a message to the leader takes, and one from it
		idle  bool          // no client asks for anything
		loses uint64        // the replica that is never told to stand for election
		want  []uint64      // nodes to which it hands over, one after the other
	}{
		{name: "it is late", far: ElectionTimeout * 6 / 10, want: []uint64{102}},
		{name: "and its successor is not reached", far: ElectionTimeout * 6 / 10, loses: 2, want: []uint64{102, 103}},
		{name: "it is hardly late", far: ElectionTimeout * 4 / 10},
		{name: "it is late, and nobody asks", far: ElectionTimeout * 6 / 10, idle: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.run(t, 2*HeartbeatTicks)
			if a, raw := ask(1, "silent"); !tt.idle { // it holds, and says nothing more
				_ = leader.Submit(w.now, a, raw) // it serves
			}
			w.loses = func(f Frame) bool { return f.Message.GetType() == raftpb.MsgTimeoutNow && f.To == tt.loses }
			var handed []time.Duration
			var to []uint64
			leader.cfg.Watch = handsOver(func(node uint64) { handed, to = append(handed, w.now), append(to, node) })
			for _, r := range w.replicas {
				r.SetTarget(targetOf(r, 1, 2, 3))
			}
			w.far = map[uint64]time.Duration{1: tt.far}
			began := w.now
			served := time.Duration(0) // when another one began to
			for tick := range 20 * second {
				for _, r := range w.replicas {
					if r.Serving() && r != leader && served == 0 {
						served = w.now
					}
					if !tt.idle && r.Serving() { // what is sent there is always more than what was confirmed
						a, _ := ask(uint64(tick+1), fmt.Sprint("k", tick))
						a.Session.Number = 2
						_, _ = r.Submit(w.now, a, shard.AppendCommand(nil, a)), r.Renew(w.now, Renewal{Session: a.Session}) // it serves
					}
				}
				w.run(t, 1)
			}
			if tt.want == nil {
				if len(handed) > 0 || !leader.Serving() {
					t.Errorf("it hands over at %v; it serves: %v", handed, leader.Serving())
				}
				return
			}
			if !slices.Equal(to, tt.want) || handed[0]-began < lateAfter || handed[0]-began > lateAfter+ElectionTimeout {
				t.Fatalf("it hands over to %d at %v, and was late from %v on", to, handed, began)
			}
			last := len(handed) - 1
			if served-handed[last] > tt.far+2*TickInterval { // it was told all that the others were
				t.Errorf("it hands over at %v, and another one serves at %v", handed[last], served)
			}
			toOwner := func(o offer) bool { return o.node == 101 }
			if r := w.replicas[tt.want[last]-101]; !r.Serving() || slices.ContainsFunc(w.offers, toOwner) {
				t.Errorf("its successor serves: %v, and the offers %v", r.Serving(), w.offers)
			}
			if !leader.Tired(handed[last]+longestBackoff-1) || leader.Tired(handed[last]+longestBackoff) || w.replicas[1].Tired(w.now) {
				t.Errorf("it handed over at %v, and is not to be offered leadership for %v", handed[last], longestBackoff)
			}
			w.far = nil
			if w.run(t, 10*second); !slices.ContainsFunc(w.offers, toOwner) {
				t.Error("the owner is prompt again, and gets no offer")
			}
		})
	}
}

// Promise: G9, P22 and P32: who leaves does not wait for the end of a pause that its offers earned it. If a voter does
// not become leader, the leaver tries another one a second later, and that voter again after passOver.
func TestALeaverDoesNotWaitForItsPause(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	target := targetOf(leader, 2, 1, 3)
	leader.SetTarget(target)
	for n := 0; len(w.offers) < 6; n++ {
		if w.run(t, 1); n > 1000 {
			t.Fatal("it makes no offers")
		}
	}
	var handed []time.Duration
	var to []uint64
	leader.cfg.Watch = handsOver(func(node uint64) { handed, to = append(handed, w.now), append(to, node) })
	w.loses = func(f Frame) bool { return f.Message.GetType() == raftpb.MsgTimeoutNow }
	target.Yields, target.Leave = true, []uint64{101}
	leader.SetTarget(target)
	start := w.now
	w.run(t, 5*electionTicks)
	if len(handed) < 4 || handed[0]-start > firstBackoff+placeEvery*TickInterval {
		t.Fatalf("after %v it hands over at %v", start, handed)
	}
	if !slices.Equal(to[:4], []uint64{102, 103, 102, 103}) {
		t.Errorf("it hands over to %v, want 102 and 103 in turns", to)
	}
	for i, want := range []time.Duration{firstBackoff, passOver - firstBackoff, firstBackoff} {
		if pause := handed[i+1] - handed[i]; pause < want-placeEvery*TickInterval || pause > want+2*placeEvery*TickInterval {
			t.Errorf("try %d comes %v after the one before, want %v", i+2, pause, want)
		}
	}
}

// Promise: G5 and G9, P5 and P22: a leader that hands over, and says of a session that it was silent, still answers that one,
// and what it is asked for, until its successor has the log as far as that. It waits for nothing else.
// Method: what the leader says takes two ticks, and so does what it hears. A session that holds says nothing for a while; the
// leader hands over; later the session renews, and asks for something.
func TestALeaderServesUntilItsHeirHasTheLog(t *testing.T) {
	const far = 2 // ticks
	tests := []struct {
		name   string
		silent time.Duration
		asks   int    // ticks after the beginning
		deaf   uint64 // the voter that gets no appends from then on
		late   bool
		stops  int  // the tick at which the leader serves no more; zero: it serves on
		here   bool // it answers the renewal
		grants bool // and the request
	}{
		{"nobody was silent", unlogged / 2, 0, 0, false, 2 * far, false, false},
		{"one was, and renews", unlogged, 0, 0, false, 4 * far, true, true},
		{"at the last moment", unlogged, 2*far - 1, 0, false, 6*far - 1, true, true}, // until the heir has that, too
		{"and afterwards", unlogged, 2*far + 1, 0, false, 4 * far, false, false},
		{"the heir gets nothing", unlogged, 0, 2, false, 0, true, true},
		{"the leader is late", unlogged, 0, 0, true, 2 * far, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			a, raw := ask(1, "k")
			if err := leader.Submit(w.now, a, raw); err != nil {
				t.Fatal(err)
			}
			w.run(t, 2*HeartbeatTicks)
			l := leader.leading.leases.byID[a.Session]
			w.far = map[uint64]time.Duration{1: far * TickInterval}
			w.run(t, 2*far)
			for l.heard = w.now; l.silence(w.now) < tt.silent; w.run(t, 1) {
			}
			w.loses = func(f Frame) bool { return f.Message.GetType() == raftpb.MsgApp && f.To == tt.deaf }
			if tt.late {
				leader.leading.reads.vain = w.now - lateAfter
			}
			leader.Receive(w.now, 102, &Accept{leader.Term()})
			w.events, w.answers = nil, nil
			stops, here, grants := 0, false, false
			for tick := range 2 * electionTicks {
				if b, raw := ask(2, "other"); tick == tt.asks {
					_, _ = leader.Submit(w.now, b, raw), leader.Renew(w.now, Renewal{Session: a.Session, Ref: 1}) // whether it serves or not
				}
				if w.run(t, 1); !leader.Serving() && stops == 0 {
					stops = tick + 1
				}
				here = here || len(w.answers) > 0 && leader.Serving()
				grants = grants || leader.Serving() && slices.ContainsFunc(w.events, func(e shard.Event) bool { return e.What == shard.Granted })
			}
			if stops != tt.stops || here != tt.here || grants != tt.grants {
				t.Errorf("it serves no more at tick %d, want %d; it answers: %v, and grants: %v", stops, tt.stops, here, grants)
			}
			if w.replicas[1].Serving() != (tt.stops != 0) || leader.leading.bequest.heir != 0 {
				t.Errorf("its heir serves: %v; what it waits for: %+v", w.replicas[1].Serving(), leader.leading.bequest)
			}
		})
	}
}

func TestWhenLeadershipIsHandedOver(t *testing.T) {
	nothing := func(*trio, *Replica) {}
	tests := []struct {
		name     string
		node     uint64
		term     uint64 // beyond the present one
		from     uint64 // who is told to; the first replica leads
		before   func(w *trio, leader *Replica)
		handsTo  uint64
		stillIts bool // the first replica serves on
	}{
		{"to a voter", 102, 0, 1, nothing, 102, false},
		{"to another one", 103, 0, 1, nothing, 103, false},
		{"to a learner", 104, 0, 1, nothing, 0, true},
		{"to a stranger", 109, 0, 1, nothing, 0, true},
		{"what was said in an earlier term", 102, ^uint64(0), 1, nothing, 0, true},
		{"by a follower", 103, 0, 2, nothing, 0, true},
		{"while the voters change", 102, 0, 1, func(_ *trio, r *Replica) { r.members.conf.VotersOutgoing = []uint64{1, 2, 3} }, 0, true},
		{"by one that has stopped", 102, 0, 1, func(_ *trio, r *Replica) { r.Fail(errors.New("a panic")) }, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.add(1)
			leader.addLearner(w.replicas[3].cfg.Self)
			w.run(t, 2*HeartbeatTicks)
			handsTo := uint64(0)
			for _, r := range w.replicas {
				r.cfg.Watch = handsOver(func(node uint64) { handsTo = node })
			}
			tt.before(w, leader)
			w.replicas[tt.from-1].Receive(w.now, tt.node, &Accept{leader.Term() + tt.term})
			w.settle(t) // without a tick
			if handsTo != tt.handsTo || leader.Serving() != tt.stillIts {
				t.Errorf("it hands over to %d, want %d; the first replica serves: %v", handsTo, tt.handsTo, leader.Serving())
			}
			if tt.handsTo != 0 && !w.replicas[tt.handsTo-101].Serving() {
				t.Error("nobody serves in its place")
			}
		})
	}
}

package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

const ttl = 10 * time.Second

// fixed returns a trio whose first replica serves, a Fix that set a lease of ten seconds
// there, and how to submit another.
func fixed(t *testing.T) (w *trio, leader *Replica, fix func(number uint64, hold time.Duration)) {
	t.Helper()
	w, leader = led(t)
	a, raw := ask(1, "k")
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	var token uint64
	for _, g := range w.events {
		if g.What == shard.Granted {
			token = g.Token
		}
	}
	fix = func(number uint64, hold time.Duration) {
		t.Helper()
		c := shard.Fix{Call: shard.Call{Session: a.Session, Number: number, Since: a.Since}, Key: a.Key, Token: token, Hold: hold}
		if err := leader.Submit(w.now, c, shard.AppendCommand(nil, c)); err != nil {
			t.Fatal(err)
		}
	}
	fix(2, 10*time.Second)
	w.run(t, 1)
	return w, leader, fix
}

// lasts returns for how long the session lives from now on.
func (w *trio) lasts(t *testing.T, id shard.SessionID) time.Duration {
	t.Helper()
	for start := w.now; w.now-start < time.Minute; w.run(t, 1) {
		if !w.replicas[1].Table().Has(id) {
			return w.now - start
		}
	}
	t.Fatal("the lease does not end")
	return 0
}

// Promise: G5, P10: a stall moves no lease beyond its TTL after the last word of its session.
// Method: a renewal waits in the mailbox when the leader wakes up, and the session dies.
func TestWhoIsHeardAfterAStallHasItsTTL(t *testing.T) {
	w, leader := led(t)
	a, raw := ask(1, "k")
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	w.run(t, 2*HeartbeatTicks)
	w.now += 15 * time.Second
	if err := leader.Renew(w.now, Renewal{Session: a.Session, Ref: 1}); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.replicas {
		r.Tick(w.now, true)
	}
	if d := w.lasts(t, a.Session); d < ttl || d > ttl+time.Second {
		t.Errorf("the lease ends %v after its session was heard, want %v", d, ttl)
	}
}

// Promise: G5, P10: a busy host, whose ticks are late again and again, gives the keys of the dead
// to others, and its shard another leader, about as soon as an idle one.
// Method: the only holder dies; then the leader does.
func TestLateTicksAddNothingUp(t *testing.T) {
	for _, late := range []time.Duration{0, 60 * time.Millisecond, 100 * time.Millisecond, 210 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond} {
		w, leader := led(t)
		a, raw := ask(1, "k")
		if err := leader.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		w.run(t, 2*HeartbeatTicks)
		start := w.now - TickInterval*2*HeartbeatTicks
		w.late = late
		for w.replicas[1].Table().Has(a.Session) && w.now-start < time.Minute {
			w.run(t, 1)
		}
		most := ttl + 4*(TickInterval+late) // it is noticed, confirmed, committed, and told
		if late > stalledTick-TickInterval {
			most += ttl / 3
		}
		if d := w.now - start; d < ttl || d > most {
			t.Errorf("ticks that are %v late: a dead holder's record lasts for %v, want %v to %v", late, d, ttl, most)
		}

		w.cut[1] = true
		start = w.now
		for !w.replicas[1].Serving() && !w.replicas[2].Serving() && w.now-start < time.Minute {
			w.run(t, 1)
		}
		most = 2*ElectionTimeout + 4*(TickInterval+late)
		if late > stalledTick-TickInterval {
			most += ElectionTimeout / 3
		}
		// Both may stand at the same tick, and split the votes: then once more.
		if d := w.now - start; d > 2*most {
			t.Errorf("ticks that are %v late: another one leads after %v, want at most twice %v", late, d, most)
		}
	}
}

// Promise: G5, P10: what is left of a timer after a stall.
func TestAStallLeavesATimerAThird(t *testing.T) {
	const second = time.Second
	tests := []struct {
		name                   string
		silence, stall, length time.Duration // silence: with the stall
		want                   time.Duration // what is left then
	}{
		{"a short one moves nothing", 3 * second, second, 9 * second, 6 * second},
		{"none that leaves a third does", 6 * second, 5 * second, 9 * second, 3 * second},
		{"one that leaves less moves it to a third", 6*second + 1, 5 * second, 9 * second, 3 * second},
		{"one over its end, too", 100 * second, 99 * second, 9 * second, 3 * second},
		{"nobody has more than before it", 10 * second, 2 * second, 9 * second, second},
		{"what was over before stays over", 100 * second, 91 * second, 9 * second, 0},
		{"for however long", 100 * second, second, 9 * second, -90 * second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.length - tt.silence + excused(tt.stall, tt.silence, tt.length); got != tt.want {
				t.Errorf("%v are left, want %v", got, tt.want)
			}
			now := time.Hour
			l := lease{ttl: tt.length, heard: now - tt.silence, asked: 1}
			l.stalled(now, tt.stall)
			if got := l.ttl - l.silence(now); got != tt.want {
				t.Errorf("%v are left of a lease, want %v", got, tt.want)
			}
			was, excused := l.heard, l.excused
			if moved := l.heard != now-tt.silence; moved != excused {
				t.Errorf("it was moved: %v, and is excused: %v", moved, excused)
			}
			if l.stalled(now+tt.stall, tt.stall); excused && l.heard != was {
				t.Errorf("a second stall moved it by %v", l.heard-was)
			}
			id := shard.SessionID{Node: 7, Number: 1}
			ls := newLeases(nil)
			ls.byID[id] = &l
			if ls.hear(id, now+1); l.excused || l.heard != now+1 {
				t.Errorf("after a word: %+v", l)
			}
			l = lease{ttl: tt.length, heard: now - tt.silence, fixed: true}
			if l.stalled(now, tt.stall); l.heard != now-tt.silence {
				t.Errorf("one of fixed length was moved: %+v", l)
			}
			l = lease{ttl: tt.length, heard: now - second, before: tt.silence - second}
			if l.stalled(now, tt.stall); l.heard > now {
				t.Errorf("it was heard in the future: %+v", l)
			}
		})
	}
}

// Promise: G5, P10: who lives keeps its place though its leader stood still for longer than its
// TTL, and reads what was said to it a moment after it has looked at the clock.
func TestWhoSpeaksAfterAStallKeepsItsPlace(t *testing.T) {
	for _, after := range []time.Duration{0, TickInterval, ttl/3 - TickInterval} {
		w, leader := led(t)
		a, raw := ask(1, "k")
		if err := leader.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		w.run(t, 2*HeartbeatTicks)
		w.now += 15 * time.Second
		for _, r := range w.replicas {
			r.Tick(w.now, true)
		}
		w.run(t, int(after/TickInterval))
		if err := leader.Renew(w.now, Renewal{Session: a.Session, Ref: 1}); err != nil {
			t.Fatal(err)
		}
		if d := w.lasts(t, a.Session); d < ttl {
			t.Errorf("heard %v after the stall, it lasts for %v more", after, d)
		}
	}
}

// Promise: G5, P7: a lease of fixed length lasts as long as its last Fix says.
// Method: the lease is extended, and before that is committed its leader hands over, and
// logs for how long it did not hear the session.
func TestAnExtensionOutlivesAHandover(t *testing.T) {
	w, leader, fix := fixed(t)
	w.run(t, int(6*time.Second/TickInterval))
	fix(3, 10*time.Second)
	leader.Receive(w.now, 102, &Accept{leader.Term()})
	if d := w.lasts(t, shard.SessionID{Node: 7, Number: 1}); d < 10*time.Second || d > 11*time.Second {
		t.Errorf("the lease ends %v after it was extended by 10s", d)
	}
	if leader.Serving() {
		t.Error("leadership did not move")
	}
}

// Promise: P5: a leader that hands over logs how long those were silent that hold or wait, and
// nothing of the idle: their number has no bound, and nobody waits for their end.
// Method: the leader hands over while an entry is in flight.
func TestAHandoverLogsNothingOfTheIdle(t *testing.T) {
	w, leader := led(t)
	busy, raw := ask(1, "k")
	if err := leader.Submit(w.now, busy, raw); err != nil {
		t.Fatal(err)
	}
	idle, _ := ask(1, "other")
	idle.Session.Node++
	if err := leader.Submit(w.now, idle, shard.AppendCommand(nil, idle)); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	release := shard.Release{Call: idle.Call, Key: idle.Key, Token: tokenOf(t, w)}
	release.Number = 2
	if err := leader.Submit(w.now, release, shard.AppendCommand(nil, release)); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	w.run(t, int(2*unlogged/TickInterval))
	third, _ := ask(1, "third")
	third.Session.Node += 2
	if err := leader.Submit(w.now, third, shard.AppendCommand(nil, third)); err != nil {
		t.Fatal(err)
	}
	var inFlight Output
	leader.Ready(w.now, &inFlight)
	leader.Receive(w.now, 102, &Accept{leader.Term()})
	w.deliver(t, &inFlight)
	w.run(t, HeartbeatTicks)
	if !w.replicas[1].Serving() {
		t.Fatal("leadership did not move")
	}
	for _, tt := range []struct {
		id     shard.SessionID
		logged bool
	}{{busy.Session, true}, {idle.Session, false}} {
		record, ok := w.replicas[1].Table().Lease(tt.id)
		if !ok || record.Busy != tt.logged || record.Silent > 0 != tt.logged {
			t.Errorf("session %v: %+v, %v: want its silence logged: %v", tt.id, record, ok, tt.logged)
		}
	}
}

// Promise: G5, P7: a lease is over when its last Fix says, also one that is much shorter than
// what the leader last planned for.
func TestAShortFixEndsInTime(t *testing.T) {
	w, _, fix := fixed(t)
	w.run(t, int(time.Second/TickInterval))
	fix(3, time.Second)
	if d := w.lasts(t, shard.SessionID{Node: 7, Number: 1}); d < time.Second || d > 2*time.Second {
		t.Errorf("the lease ends %v after its Fix of a second", d)
	}
}

// Promise: P7 and P5: a Fix that takes effect is a word like any other: no silence from before counts,
// nor is on its way into the log.
func TestAFixUndoesTheSilence(t *testing.T) {
	id := shard.SessionID{Node: 7, Number: 1}
	l := lease{ttl: ttl, heard: 1, before: 2, excused: true, recalled: true, checkpoint: 3}
	ls := newLeases(nil)
	ls.byID[id] = &l
	ls.fix(id, time.Hour, time.Minute)
	if l.ttl != time.Minute || !l.fixed || l.heard != time.Hour || l.before != 0 || l.excused || l.recalled || l.checkpoint != 0 {
		t.Errorf("%+v", l)
	}
}

// Promise: G5, P7: as above.
// Method: the lease is extended just before its end, and that is committed only after it.
func TestAnExtensionOutlivesTheEnd(t *testing.T) {
	w, _, fix := fixed(t)
	w.run(t, int(10*time.Second/TickInterval)-3)
	w.loses = func(f Frame) bool { return len(f.Message.Entries) > 0 } // appends are lost, heartbeats are not
	fix(3, 10*time.Second)
	start := w.now
	w.run(t, 8)
	w.loses = nil
	if d := w.lasts(t, shard.SessionID{Node: 7, Number: 1}) + 8*TickInterval; d < 10*time.Second || d > 11*time.Second {
		t.Errorf("the lease ends %v after it was extended by 10s, at %v", d, start)
	}
}

// Promise: G5, P7: as above.
// Method: a Fix of half a minute is on its way for longer than the ten seconds that it
// extends; then those would be over. It reaches who leads by then, or nobody: in both
// cases its holder may believe in it.
func TestALongExtensionOnItsWay(t *testing.T) {
	w, leader, fix := fixed(t)
	w.loses = func(f Frame) bool { return len(f.Message.Entries) > 0 }
	fix(3, 30*time.Second)
	w.run(t, int(12*time.Second/TickInterval))
	w.loses = nil
	if !leader.Serving() {
		t.Fatal("heartbeats do not keep the leader")
	}
	d := w.lasts(t, shard.SessionID{Node: 7, Number: 1})
	if d < 30*time.Second || d > 31*time.Second { // from when it was committed
		t.Errorf("the lease ends %v after it was extended by 30s", d)
	}
}

// Promise: G5: a Fix that is refused changes nothing.
func TestARefusedFixExtendsNothing(t *testing.T) {
	w, leader := led(t)
	a, raw := ask(1, "k")
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	c := shard.Fix{Call: shard.Call{Session: a.Session, Number: 2, Since: a.Since}, Key: a.Key, Token: 1, Hold: time.Hour}
	if err := leader.Submit(w.now, c, shard.AppendCommand(nil, c)); err != nil {
		t.Fatal(err)
	}
	w.run(t, HeartbeatTicks)
	if d := w.lasts(t, a.Session); d < ttl-time.Second || d > ttl+time.Second {
		t.Errorf("the lease ends %v after its session was heard, want nearly %v", d, ttl)
	}
}

// Promise: G5, P7: a lease of fixed length lasts as long as its last Fix says.
// Method: as in TestALongExtensionOnItsWay; but while the long Fix waits for the entry
// before it, that entry repeats an acknowledged command of the session, and is refused as stale.
func TestAStaleCopyDoesNotShortenAnExtension(t *testing.T) {
	w, leader, fix := fixed(t)
	acked := shard.Fix{Call: shard.Call{Session: shard.SessionID{Node: 7, Number: 1}, Number: 3, Since: 1 << 20, Acked: []uint64{1, 2}}, Key: "k", Token: tokenOf(t, w), Hold: 10 * time.Second}
	if err := leader.Submit(w.now, acked, shard.AppendCommand(nil, acked)); err != nil {
		t.Fatal(err)
	}
	w.run(t, 1)
	a, raw := ask(1, "k") // a late copy of the first request
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	appends := 0
	late := false
	w.loses = func(f Frame) bool {
		if len(f.Message.Entries) > 0 {
			appends++
			return late
		}
		return false
	}
	var out Output
	leader.Ready(w.now, &out) // the copy is on its way
	fix(4, 30*time.Second)    // and the Fix gathers
	w.deliver(t, &out)
	late = true
	w.run(t, int(12*time.Second/TickInterval))
	w.loses = nil
	if !leader.Serving() {
		t.Fatal("heartbeats do not keep the leader")
	}
	d := w.lasts(t, shard.SessionID{Node: 7, Number: 1})
	if d < 30*time.Second || d > 31*time.Second {
		t.Errorf("the lease ends %v after it was extended by 30s", d)
	}
}

// Promise: G5 and G6, P7: a Fix extends its lease once, also if its network brings it twice.
// Method: a copy of a Fix of ten seconds comes six seconds after it.
func TestALateCopyOfAFixExtendsNothing(t *testing.T) {
	w, _, fix := fixed(t)
	start := w.now
	fix(3, 10*time.Second)
	w.run(t, int(6*time.Second/TickInterval))
	fix(3, 10*time.Second)
	w.lasts(t, shard.SessionID{Node: 7, Number: 1})
	if d := w.now - start; d < 10*time.Second || d > 11*time.Second {
		t.Errorf("the lease ends %v after its last Fix, want 10s", d)
	}
}

// tokenOf returns the token of the last grant.
func tokenOf(t *testing.T, w *trio) uint64 {
	for _, g := range slices.Backward(w.events) {
		if g.What == shard.Granted {
			return g.Token
		}
	}
	t.Fatal("no grant")
	return 0
}

// deliver brings an output's frames to their replicas.
func (w *trio) deliver(t *testing.T, out *Output) {
	t.Helper()
	w.events = append(w.events, out.Events...)
	for _, f := range sent[*Frame](out) {
		w.replicas[f.To-1].Receive(w.now, 100+f.From, f)
	}
	// only the followers' answers, and the leader's application of them
	for _, i := range []int{1, 2} {
		var o Output
		w.replicas[i].Ready(w.now, &o)
		for _, f := range sent[*Frame](&o) {
			w.replicas[f.To-1].Receive(w.now, 100+f.From, f)
		}
	}
}

// Promise: P7: from a Fix on nothing but another Fix moves the lease's end.
// Method: half of the fixed lease passes, and its silence is logged; leadership moves; a
// renewal that was sent before the Fix arrives late.
func TestALateRenewalDoesNotMoveAFixedEndOfASilentOne(t *testing.T) {
	w, leader, _ := fixed(t)
	start := w.now
	w.run(t, int(8*time.Second/TickInterval))
	leader.Receive(w.now, 102, &Accept{leader.Term()})
	w.run(t, 10)
	next := w.replicas[1]
	if !next.Serving() {
		t.Fatal("leadership did not move")
	}
	if err := next.Renew(w.now, Renewal{Session: shard.SessionID{Node: 7, Number: 1}, Ref: 1}); err != nil {
		t.Fatal(err)
	}
	w.lasts(t, shard.SessionID{Node: 7, Number: 1})
	if d := w.now - start; d > 11*time.Second+500*time.Millisecond {
		t.Errorf("the lease of ten seconds ended after %v", d)
	}
}

// Promise: G4 and G5, P12: a session is renewed if the shard hears of what it has abandoned,
// and what it has abandoned takes effect.
// Method: a session holds one key and waits for two, of which it gives one up. Renewals alone
// tell the leader so, also of the unlock; once while it can append nothing more.
func TestARenewalNamesWhatIsAbandoned(t *testing.T) {
	w, leader := led(t)
	mine, others := shard.SessionID{Node: 7, Number: 1}, shard.SessionID{Node: 8, Number: 1}
	call := func(id shard.SessionID, number uint64) shard.Call {
		return shard.Call{Session: id, Number: number, Since: leader.Revision()}
	}
	acquire := func(id shard.SessionID, number uint64, key string) shard.Command {
		return shard.Acquire{Call: call(id, number), TTL: ttl, Name: "n", Key: key, Weight: shard.Whole, Capacity: shard.Whole}
	}
	for _, cmd := range []shard.Command{acquire(others, 1, "k"), acquire(mine, 1, "own"), acquire(mine, 2, "k"), acquire(mine, 3, "k")} {
		if err := leader.Submit(w.now, cmd, shard.AppendCommand(nil, cmd)); err != nil {
			t.Fatal(err)
		}
	}
	w.settle(t)
	var token uint64
	for _, g := range w.events {
		if g.What == shard.Granted && g.Session == mine {
			token = g.Token
		}
	}
	cancel := shard.Cancel{Call: call(mine, 4), TTL: ttl, Name: "n", Target: 2}
	release := shard.Release{Call: call(mine, 5), Key: "own", Token: token}
	stranger := shard.Close{Session: others, Number: 9}
	ref := uint64(0)
	renew := func(abandoned ...shard.Command) (answered bool) {
		t.Helper()
		q := Renewal{Session: mine, Ref: ref + 1}
		for _, cmd := range abandoned {
			q.Abandoned = append(q.Abandoned, Abandoned{cmd, shard.AppendCommand(nil, cmd)})
		}
		ref, w.answers = q.Ref, nil
		if err := leader.Renew(w.now, q); err != nil {
			t.Fatal(err)
		}
		w.run(t, HeartbeatTicks)
		return len(w.answers) == 1 && w.answers[0].Ref == q.Ref && w.answers[0].Alive
	}
	keys := func() (keys []string) {
		for _, r := range leader.Table().Records() {
			for _, q := range r.Requests {
				if r.Session == mine {
					keys = append(keys, q.Key)
				}
			}
		}
		return keys
	}
	if !renew() || len(keys()) != 3 {
		t.Errorf("a renewal that names nothing: %+v, and the session's requests are %q", w.answers, keys())
	}
	if !renew(cancel, stranger) || !slices.Equal(keys(), []string{"own", "k"}) || !leader.Table().Has(others) {
		t.Errorf("a renewal that names a cancel: %+v, and the session's requests are %q", w.answers, keys())
	}
	before := leader.cfg.Counters.Commands.Load()
	if !renew(cancel) || leader.cfg.Counters.Commands.Load() != before {
		t.Errorf("a renewal that names a cancel again: %+v, and %d commands more in the log", w.answers, leader.cfg.Counters.Commands.Load()-before)
	}

	w.loses = func(f Frame) bool { return len(f.Message.Entries) > 0 } // appends are lost, heartbeats are not
	for i := 0; len(leader.batch.data) < maxHeld; i++ {
		a := acquire(others, uint64(i+10), fmt.Sprint("many/", i)).(shard.Acquire)
		a.Value = make([]byte, shard.MaxValue)
		leader.batch.data = shard.AppendCommand(leader.batch.data, a)
		leader.batch.split()
	}
	leader.dirty = false // nothing is appended: leadership moves, say
	heard := leader.leading.leases.byID[mine].heard
	if err := leader.Renew(w.now+time.Millisecond, Renewal{Session: mine, Ref: 99, Abandoned: []Abandoned{{release, shard.AppendCommand(nil, release)}}}); err != nil {
		t.Fatal(err)
	}
	if n := len(leader.leading.reads.waiting.renewals); n > 0 {
		t.Error("a session is renewed whose leader has no room for what it has abandoned")
	}
	if leader.leading.leases.byID[mine].heard != heard {
		t.Error("and that leader takes the renewal for a sign of life")
	}
	full := leader.batch.data
	leader.batch.data = full[:maxHeld-1] // there is room for some of it
	if err := leader.Renew(w.now+time.Millisecond, Renewal{Session: mine, Ref: 99, Abandoned: []Abandoned{{release, shard.AppendCommand(nil, release)}}}); err != nil {
		t.Fatal(err)
	}
	if n := len(leader.leading.reads.waiting.renewals); n > 0 || len(leader.batch.data) != maxHeld-1 {
		t.Error("a session is renewed whose leader has room for a part of what it has abandoned")
	}
	leader.batch.data = full
	leader.dirty, w.loses = true, nil
	w.run(t, 4*HeartbeatTicks)
	if !renew(release) || !slices.Equal(keys(), []string{"k"}) {
		t.Errorf("a renewal that names a release: %+v, and the session's requests are %q", w.answers, keys())
	}
}

// Promise: G5, P5: a session's silence is logged each time, however often it spoke again in the
// same leadership.
func TestSilenceIsLoggedEachTime(t *testing.T) {
	w, leader := led(t)
	a, raw := ask(1, "k")
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		w.run(t, int(ttl*3/5/TickInterval))
		if silent := leader.Table().Leases()[0].Silent; silent < ttl/2 {
			t.Errorf("%v of silence number %d are logged, after %v", silent, n, ttl*3/5)
		}
		if err := leader.Renew(w.now, Renewal{Session: a.Session, Ref: 1}); err != nil {
			t.Fatal(err)
		}
		w.run(t, HeartbeatTicks)
		if silent := leader.Table().Leases()[0].Silent; silent != 0 {
			t.Errorf("%v of silence number %d are logged still, and the session has spoken", silent, n)
		}
	}
}

// Promise: G5, P5: a new leader starts the sessions whose silence was logged where that says, and all
// others afresh; only the former are acknowledged by a log entry.
func TestANewLeaderKnowsWhoWasSilent(t *testing.T) {
	w, leader := led(t)
	for n := range uint64(2) {
		a, _ := ask(1, fmt.Sprint("k", n))
		a.Session.Number = 1 + n
		if err := leader.Submit(w.now, a, shard.AppendCommand(nil, a)); err != nil {
			t.Fatal(err)
		}
	}
	silent, other := shard.SessionID{Node: 7, Number: 1}, shard.SessionID{Node: 7, Number: 2}
	w.run(t, 1)
	leader.appendOwn(shard.Silent{Session: silent, For: 6 * time.Second, Term: leader.term})
	w.run(t, 2*HeartbeatTicks)
	leader.Receive(w.now, 102, &Accept{leader.term})
	w.settle(t)
	next := w.replicas[1]
	if !next.Serving() {
		t.Fatal("leadership did not move")
	}
	a, b := next.leading.leases.byID[silent], next.leading.leases.byID[other]
	if a.checkpoint != 6*time.Second || a.before != 6*time.Second*98/100 || a.silence(next.leading.began) != a.before {
		t.Errorf("who was silent for 6s: %+v", a)
	}
	if b.checkpoint != 0 || b.silence(next.leading.began) != 0 {
		t.Errorf("who was not: %+v", b)
	}
	before := next.applied.index
	if err := next.Renew(w.now, Renewal{Session: other, Ref: 1}); err != nil {
		t.Fatal(err)
	}
	if w.settle(t); next.applied.index != before {
		t.Error("the renewal of one who was not silent was logged")
	}
	if err := next.Renew(w.now, Renewal{Session: silent, Ref: 1}); err != nil {
		t.Fatal(err)
	}
	if w.settle(t); next.applied.index == before || a.checkpoint != 0 {
		t.Error("the renewal of one who was silent was not logged")
	}
}

// Promise: G5 and G9, P5: a renewal of one who was silent is answered as soon as any other. The log undoes the silence while
// a majority is asked, and not afterwards, nor behind what it takes already.
// Method: what the leader and the others say to each other takes two ticks.
func TestSilenceIsUndoneBesideTheRound(t *testing.T) {
	const far = 2 * TickInterval
	const round, moment = 2 * far, TickInterval
	tests := []struct {
		name   string
		silent time.Duration // for how long when the renewal comes
		busy   bool          // an entry was appended a moment before
		falls  bool          // a moment after, its silence is logged
		fixed  bool          // its lease is of fixed length
		took   time.Duration // the answer
		undone bool          // the log undoes the silence
	}{
		{"nobody was silent", ttl / 4, false, false, false, round, false},
		{"one was", ttl * 3 / 5, false, false, false, round, true},
		{"while an entry is on its way", ttl * 3 / 5, true, false, false, round, true},
		{"one is said to have been when its renewal has come", ttl / 4, false, true, false, 2 * round, true},
		{"one of fixed length was", ttl * 3 / 5, false, false, true, round, false},
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
			l.fixed = tt.fixed
			w.far = map[uint64]time.Duration{1: far}
			for ; l.silence(w.now) < tt.silent-moment; w.run(t, 1) {
			}
			if b, _ := ask(1, "other"); tt.busy {
				b.Session.Number = 2
				_ = leader.Submit(w.now, b, shard.AppendCommand(nil, b)) // it serves
			}
			w.run(t, int(moment/TickInterval))
			undone := 0
			leader.cfg.Watch = func(fact any) {
				if s, is := fact.(env.Stepped); is && s.Command == (shard.Silent{Session: a.Session, Term: leader.term}) {
					undone++
				}
			}
			came := w.now
			if err := leader.Renew(w.now, Renewal{Session: a.Session, Ref: 1}); err != nil {
				t.Fatal(err)
			}
			if w.settle(t); tt.falls {
				w.run(t, int(moment/TickInterval))
				l.checkpoint = moment
				leader.logSilence([]shard.Silent{{Session: a.Session, For: moment}})
			}
			for len(w.answers) == 0 && w.now-came < ttl/2 {
				w.run(t, 1)
			}
			if took := w.now - came; took != tt.took || undone > 0 != tt.undone || undone > 1 {
				t.Errorf("it is answered after %v, want %v; its silence is undone %d times", took, tt.took, undone)
			}
			if record, _ := leader.Table().Lease(a.Session); record.Silent != 0 != tt.fixed {
				t.Errorf("it is answered, and the log says that it was silent for %v", record.Silent)
			}
		})
	}
}

// Promise: G5 and G6, P10: a round that began before a stall ends no lease after it; one that a tick
// came into the middle of does.
func TestRoundsOfBeforeAStall(t *testing.T) {
	for gap, want := range map[time.Duration]bool{TickInterval: true, stalledTick: true, stalledTick + 1: false} {
		w, leader := led(t)
		a, raw := ask(1, "k")
		if err := leader.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		w.run(t, 1)
		l := leader.leading.leases.byID[a.Session]
		r := &round{begun: w.now, expiries: []shard.SessionID{a.Session}}
		leader.leading.reads.rounds[99], l.asked = r, w.now
		leader.Tick(w.now+gap, true)
		if got := len(r.expiries) == 1; got != want || (l.asked != 0) != want {
			t.Errorf("a tick after %v: the round may end the lease: %v, and it was asked for at %v", gap, got, l.asked)
		}
	}
}

// Promise: G5 and G6, P5: whoever leads in turn, a session lives for its TTL after its last word,
// and one that is dead no longer than that, but for the times without a leader, for what each
// leader did not log, and for its margin for clocks.
// Method: a session that holds a key, or waits for one, falls silent. Leadership goes round, the first time and each time later when so
// much has passed: by a handover, or since whoever leads falls silent, too.
func TestSilenceIsCountedThroughAllLeaderships(t *testing.T) {
	tests := []struct {
		first, then int           // hundredths of the TTL
		waits, lost bool          // else it holds the key, and leadership is handed over
		unlogged    time.Duration // of the silence, by all leaders together, at most
	}{
		{30, 30, false, false, unlogged},
		{30, 30, true, false, unlogged},
		{45, 45, false, false, unlogged},
		{51, 10, false, false, unlogged},
		{51, 10, true, false, unlogged},
		{77, 15, false, false, unlogged},
		{98, 98, false, false, unlogged},
		{51, 30, false, true, ttl / 4},
		{51, 30, true, true, ttl / 4},
		{51, 51, false, true, ttl / 4},
		{77, 26, false, true, ttl / 4},
		{98, 98, false, true, ttl / 4},
	}
	for _, tt := range tests {
		w, leader := led(t)
		if tt.waits {
			holder, _ := ask(1, "k")
			holder.Session, holder.TTL = shard.SessionID{Node: 8, Number: 1}, time.Hour
			if err := leader.Submit(w.now, holder, shard.AppendCommand(nil, holder)); err != nil {
				t.Fatal(err)
			}
		}
		a, raw := ask(1, "k")
		if err := leader.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
		heard, began, most := w.now, w.now, ttl+tt.unlogged+4*TickInterval
		lasts := ttl * time.Duration(tt.first) / 100
		for ; leader.Table().Has(a.Session) && w.now-heard < 4*ttl; w.run(t, 1) {
			if w.now-began < lasts {
				continue
			}
			ended := w.now
			lasts = ttl * time.Duration(tt.then) / 100
			if tt.lost {
				clear(w.cut)
				w.cut[leader.ID()] = true
			} else {
				leader.Receive(w.now, w.replicas[leader.ID()%3].cfg.Self.Node, &Accept{leader.Term()})
			}
			for leader = nil; leader == nil; w.run(t, 1) {
				for _, r := range w.replicas {
					if r.Serving() && !w.cut[r.ID()] {
						leader = r
					}
				}
			}
			began = w.now
			most += began - ended + ttl/50 // 2ρ
		}
		if d := w.now - heard; d < ttl || d > most {
			t.Errorf("%+v: a silent session lives for %v, want %v to %v", tt, d, ttl, most)
		}
	}
}

// Promise: G5, P1 and P7: a session that speaks while its leader still asks whether it leads, in order
// to end it, lives on for as long as after any word.
// Method: a session is silent for its TTL. The round that is to confirm its end is held up, and
// meanwhile it says something.
func TestAWordAvertsTheEndUnderWay(t *testing.T) {
	fix := func(hold time.Duration) func(*Replica, shard.Call, uint64) error {
		return func(r *Replica, c shard.Call, token uint64) error {
			cl := shard.Fix{Call: c, Key: "k", Token: token, Hold: hold}
			return r.Submit(r.now, cl, shard.AppendCommand(nil, cl))
		}
	}
	tests := []struct {
		name string
		says func(leader *Replica, call shard.Call, token uint64) error
		want time.Duration
	}{
		{"nothing", func(*Replica, shard.Call, uint64) error { return nil }, 0},
		{"a renewal", func(r *Replica, c shard.Call, _ uint64) error {
			return r.Renew(r.now, Renewal{Session: c.Session, Ref: 1})
		}, ttl},
		{"a command", func(r *Replica, c shard.Call, _ uint64) error {
			a := shard.Acquire{Call: c, TTL: ttl, Name: "n", Key: "another", Weight: shard.Whole, Capacity: shard.Whole}
			return r.Submit(r.now, a, shard.AppendCommand(nil, a))
		}, ttl},
		{"a Fix", fix(30 * time.Second), 30 * time.Second},
		{"a Fix that is over before anybody would be asked again", fix(ElectionTimeout / 4), ElectionTimeout / 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			a, raw := ask(1, "k")
			if err := leader.Submit(w.now, a, raw); err != nil {
				t.Fatal(err)
			}
			w.settle(t)
			l := leader.leading.leases.byID[a.Session]
			for ; l.silence(w.now) < ttl-TickInterval; w.run(t, 1) {
			}
			w.loses = func(f Frame) bool { return f.From != 1 }
			w.run(t, 2)
			if l.asked == 0 || l.expiring {
				t.Fatalf("no round is under way: %+v", l)
			}
			start := w.now
			if err := tt.says(leader, shard.Call{Session: a.Session, Number: 2, Since: a.Since}, tokenOf(t, w)); err != nil {
				t.Fatal(err)
			}
			w.loses = nil
			if w.lasts(t, a.Session); w.now-start < tt.want || w.now-start > tt.want+4*TickInterval {
				t.Errorf("it lives for %v more, want %v", w.now-start, tt.want)
			}
			if !leader.Serving() {
				t.Error("leadership moved")
			}
		})
	}
}

// Promise: P18: the table's time is for how long the shard was led, by whomever.
// Method: leadership goes round three times; each leader has one entry appended at the end of its leadership.
func TestTableTimeGoesOnWithEachLeader(t *testing.T) {
	w, leader := led(t)
	ledFor := time.Duration(0)
	for n := range uint64(4) {
		began := leader.leading.began
		w.run(t, 60)
		a, raw := ask(n+1, fmt.Sprint("k", n))
		if err := leader.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
		ledFor += w.now - began
		if got := leader.Table().Now(); got < ledFor-TickInterval || got > ledFor+TickInterval {
			t.Fatalf("in leadership %d the table's time is %v, and the shard was led for %v", n+1, got, ledFor)
		}
		next := w.replicas[leader.ID()%3]
		leader.Receive(w.now, next.cfg.Self.Node, &Accept{leader.Term()})
		if w.run(t, 1); !next.Serving() {
			t.Fatal("leadership did not move")
		}
		leader = next
	}
}

// Promise: G5, P2 and P4: what the answer to a round confirms, and for how long. A lease ends once, and
// only if its session is silent still; what no round of this leadership asked for is confirmed by nothing.
func TestWhatARoundConfirms(t *testing.T) {
	context := func(term, number uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, term), number)
	}
	tests := []struct {
		name            string
		answers         [][2]uint64 // by the term, beyond this one, and the number of a round
		serves          bool
		renewed, expire int // answers to the renewal, and commands that end the lease
	}{
		{"the round's answer", [][2]uint64{{0, 98}}, true, 1, 1},
		{"the same once more", [][2]uint64{{0, 98}, {0, 98}}, true, 1, 1},
		{"that of a second round", [][2]uint64{{0, 98}, {0, 99}}, true, 2, 1},
		{"that of another term's round", [][2]uint64{{1, 98}}, true, 0, 0},
		{"that of a round that was given up", [][2]uint64{{0, 97}}, true, 0, 0},
		{"an answer after it has stepped down", [][2]uint64{{0, 98}}, false, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			silent, _ := ask(1, "k")
			other := silent
			other.Session.Number, other.Key = 2, "other"
			for _, a := range []shard.Acquire{silent, other} {
				if err := leader.Submit(w.now, a, shard.AppendCommand(nil, a)); err != nil {
					t.Fatal(err)
				}
			}
			w.settle(t)
			g := &leader.leading
			g.leases.byID[silent.Session].heard -= ttl
			for _, number := range []uint64{98, 99} {
				g.reads.rounds[number] = &round{begun: w.now, renewals: []Renewal{{Session: other.Session}}, expiries: []shard.SessionID{silent.Session}}
			}
			var out Output
			if !tt.serves {
				leader.stepDown(&out)
			}
			for _, a := range tt.answers {
				leader.confirmed(context(leader.term+a[0], a[1]), &out)
			}
			expire := 0
			for rd := wire.NewReader(leader.batch.data); rd.Len() > 0; expire++ {
				if c, ok := shard.ReadCommand(rd).(shard.Expire); !ok || c.Session != silent.Session {
					t.Errorf("the leader logs %+v", c)
				}
			}
			if len(out.Answers) != tt.renewed || expire != tt.expire {
				t.Errorf("%d answers to renewals, and %d commands that end the lease; want %d and %d", len(out.Answers), expire, tt.renewed, tt.expire)
			}
			if len(out.Answers) > 0 && (out.Answers[0].Session != other.Session || !out.Answers[0].Alive) {
				t.Errorf("the renewal is answered by %+v", out.Answers[0])
			}
		})
	}
}

// Promise: G1 and G5, P4: from when a leader decides that a session ends it takes nothing of it, and
// answers nothing, though the log has not got so far; and whatever it says is no sign of life.
func TestWhoExpiresIsNotHeard(t *testing.T) {
	w, leader := led(t)
	a, raw := ask(1, "k")
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	l := leader.leading.leases.byID[a.Session]
	for ; l.silence(w.now) < ttl-TickInterval; w.run(t, 1) {
	}
	w.loses = func(f Frame) bool { return len(f.Message.Entries) > 0 }
	w.run(t, 2)
	if !l.expiring || !leader.Table().Has(a.Session) {
		t.Fatalf("its end is not on its way into the log: %+v", l)
	}
	heard := 0
	leader.leading.leases.watch = func(any) { heard++ }
	w.events, w.answers = nil, nil
	commands := leader.cfg.Counters.Commands.Load()
	release := shard.Release{Call: shard.Call{Session: a.Session, Number: 2, Since: a.Since}, Key: "k", Token: 1}
	cl := shard.Fix{Call: shard.Call{Session: a.Session, Number: 3, Since: a.Since}, Key: "k", Token: 1, Hold: time.Hour}
	for _, cmd := range []shard.Command{release, cl} {
		if err := leader.Submit(w.now, cmd, shard.AppendCommand(nil, cmd)); err != nil {
			t.Error(err)
		}
	}
	if err := leader.Renew(w.now, Renewal{Session: a.Session, Ref: 1}); err != nil {
		t.Error(err)
	}
	w.run(t, 2*HeartbeatTicks)
	w.loses = nil
	w.run(t, 2*HeartbeatTicks)
	if leader.Table().Has(a.Session) || leader.cfg.Counters.Commands.Load() != commands || len(w.answers) > 0 || heard > 0 {
		t.Errorf("it lives: %v; the log has %d commands more, and it was told %+v", leader.Table().Has(a.Session), leader.cfg.Counters.Commands.Load()-commands, w.answers)
	}
}

// Promise: G5, P5: who watches a shard hears of each leadership once when it begins, and once when it ends,
// be it by a handover, for want of a majority, or since the leader stops.
func TestLeadershipsAreTold(t *testing.T) {
	w := newTrio()
	told := make(map[uint64][]bool)
	for _, r := range w.replicas {
		r.cfg.Watch = func(fact any) {
			if s, is := fact.(env.Served); is {
				told[r.ID()] = append(told[r.ID()], s.Serving)
			}
		}
	}
	serving := func() *Replica {
		t.Helper()
		i := slices.IndexFunc(w.replicas, (*Replica).Serving)
		if i < 0 {
			t.Fatal("nobody serves")
		}
		return w.replicas[i]
	}
	w.run(t, 3)
	for _, next := range []uint64{2, 3, 1, 2} {
		serving().Receive(w.now, 100+next, &Accept{serving().Term()})
		if w.run(t, HeartbeatTicks); serving().ID() != next {
			t.Fatal("leadership did not move")
		}
	}
	w.cut[2] = true
	w.run(t, 3*electionTicks)
	serving().Fail(errors.New("a panic"))
	w.run(t, 1)
	begun := 0
	for id, words := range told {
		for i, serving := range words {
			if serving != (i%2 == 0) {
				t.Errorf("replica %d says %v", id, words)
			}
			if serving {
				begun++
			}
		}
		if len(words)%2 != 0 {
			t.Errorf("replica %d says %v, and serves no more", id, words)
		}
	}
	if begun != 6 {
		t.Errorf("%d leaderships began, want 6: %v", begun, told)
	}
}

// Promise: G1, P6: a grant is told only when it is committed.
// Method: nobody answers the leader any more when it gets a request.
func TestNothingIsToldBeforeItIsCommitted(t *testing.T) {
	w, leader := led(t)
	for n, key := range []string{"k", "another"} {
		w.cut[2], w.cut[3] = n > 0, n > 0
		a, raw := ask(uint64(n+1), key)
		if err := leader.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
	}
	for _, g := range w.events {
		if g.What == shard.Granted && g.Number != 1 {
			t.Errorf("%+v is told, and nobody else has it", g)
		}
	}
}

// Promise: P6: only the leader that appended an entry tells what comes of it. A client that hears nothing
// asks again, and gets its answer from the next leader.
// Method: a request reaches both followers, its leader is lost, and the next one commits it.
func TestALaterLeaderTellsNothingUnasked(t *testing.T) {
	w, leader := led(t)
	w.run(t, 2*HeartbeatTicks)
	a, raw := ask(1, "k")
	w.loses = func(f Frame) bool { return f.To == 1 }
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	w.cut[1], w.loses = true, nil
	granted := func() bool {
		return slices.ContainsFunc(w.events, func(e shard.Event) bool { return e.What == shard.Granted && e.Number == a.Number })
	}
	for n := 0; !w.replicas[1].Serving() && !w.replicas[2].Serving(); n++ {
		if w.run(t, 1); n > 10*electionTicks {
			t.Fatal("nobody leads")
		}
	}
	next := w.replicas[1]
	if !next.Serving() {
		next = w.replicas[2]
	}
	w.run(t, 2*HeartbeatTicks)
	if leader.Table().Has(a.Session) || !next.Table().Has(a.Session) || granted() {
		t.Errorf("the next leader has applied the request: %v; events %+v", next.Table().Has(a.Session), w.events)
	}
	if err := next.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	if w.run(t, 2*HeartbeatTicks); !granted() {
		t.Error("the client asks again, and is not told of its grant")
	}
}

// Promise: G6, P24: no session lives by what another one of the same name says.
func TestNobodySpeaksForAnother(t *testing.T) {
	w, leader := led(t)
	living, _ := ask(1, "k")
	dead, _ := ask(1, "another")
	dead.Session.Node++
	for _, a := range []shard.Acquire{living, dead} {
		if err := leader.Submit(w.now, a, shard.AppendCommand(nil, a)); err != nil {
			t.Fatal(err)
		}
	}
	w.settle(t)
	start := w.now
	for ; leader.Table().Has(dead.Session) && w.now-start < 3*ttl; w.run(t, electionTicks) {
		if err := leader.Renew(w.now, Renewal{Session: living.Session, Ref: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if d := w.now - start; d < ttl || d > ttl+2*time.Second || !leader.Table().Has(living.Session) {
		t.Errorf("the silent session lives for %v, want %v; the other one lives: %v", d, ttl, leader.Table().Has(living.Session))
	}
}

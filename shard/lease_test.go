package shard

import (
	"testing"
	"time"
)

// fixed returns a trio whose first replica serves, a claim that fixed a lease of ten seconds
// there, and how to claim anew.
func fixed(t *testing.T) (w *trio, leader *Replica, claim func(number uint64, hold time.Duration)) {
	t.Helper()
	w, leader = led(t)
	a, raw := ask(1, "k")
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	var token uint64
	for _, e := range w.events {
		if g, ok := e.(Granted); ok {
			token = g.Token
		}
	}
	claim = func(number uint64, hold time.Duration) {
		t.Helper()
		c := Claim{Call: Call{Session: a.Session, Number: number, Since: a.Since}, Key: a.Key, Token: token, Hold: hold}
		if err := leader.Submit(w.now, c, AppendCommand(nil, c)); err != nil {
			t.Fatal(err)
		}
	}
	claim(2, 10*time.Second)
	w.run(t, 1)
	return w, leader, claim
}

// lasts returns for how long the session lives from now on.
func (w *trio) lasts(t *testing.T, id SessionID) time.Duration {
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

// Promise: G5, P7: a lease of fixed length lasts as long as its last claim says.
// Method: the lease is extended, and before that is committed its leader hands over, and
// logs for how long it did not hear the session.
func TestAnExtensionOutlivesAHandover(t *testing.T) {
	w, leader, claim := fixed(t)
	w.run(t, int(6*time.Second/TickInterval))
	claim(3, 10*time.Second)
	leader.Handover(w.now, 102, leader.Term())
	if d := w.lasts(t, SessionID{7, 1}); d < 10*time.Second || d > 11*time.Second {
		t.Errorf("the lease ends %v after it was extended by 10s", d)
	}
	if leader.Serving() {
		t.Error("leadership did not move")
	}
}

// Promise: G5, P7: as above.
// Method: the lease is extended just before its end, and that is committed only after it.
func TestAnExtensionOutlivesTheEnd(t *testing.T) {
	w, _, claim := fixed(t)
	w.run(t, int(10*time.Second/TickInterval)-3)
	w.loses = func(f Frame) bool { return len(f.Message.Entries) > 0 } // appends are lost, heartbeats are not
	claim(3, 10*time.Second)
	start := w.now
	w.run(t, 8)
	w.loses = nil
	if d := w.lasts(t, SessionID{7, 1}) + 8*TickInterval; d < 10*time.Second || d > 11*time.Second {
		t.Errorf("the lease ends %v after it was extended by 10s, at %v", d, start)
	}
}

// Promise: G5, P7: as above.
// Method: a claim of half a minute is on its way for longer than the ten seconds that it
// extends; then those would be over. It reaches who leads by then, or nobody: in both
// cases its holder may believe in it.
func TestALongExtensionOnItsWay(t *testing.T) {
	w, leader, claim := fixed(t)
	w.loses = func(f Frame) bool { return len(f.Message.Entries) > 0 }
	claim(3, 30*time.Second)
	w.run(t, int(12*time.Second/TickInterval))
	w.loses = nil
	if !leader.Serving() {
		t.Fatal("heartbeats do not keep the leader")
	}
	d := w.lasts(t, SessionID{7, 1})
	if d < 30*time.Second || d > 31*time.Second { // from when it was committed
		t.Errorf("the lease ends %v after it was extended by 30s", d)
	}
}

// Promise: G5: a claim that is refused changes nothing.
func TestARefusedClaimExtendsNothing(t *testing.T) {
	w, leader := led(t)
	a, raw := ask(1, "k")
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	c := Claim{Call: Call{Session: a.Session, Number: 2, Since: a.Since}, Key: a.Key, Token: 1, Hold: time.Hour}
	if err := leader.Submit(w.now, c, AppendCommand(nil, c)); err != nil {
		t.Fatal(err)
	}
	w.run(t, HeartbeatTicks)
	if d := w.lasts(t, a.Session); d < ttl-time.Second || d > ttl+time.Second {
		t.Errorf("the lease ends %v after its session was heard, want nearly %v", d, ttl)
	}
}

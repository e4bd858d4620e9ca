package shard

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const ttl = 10 * time.Second

// id returns the one session of the client with that name.
func id(who string) SessionID { return SessionID{Node: uint64(who[0]), Number: 1} }

// The events, each with the fields that matter to it.
func granted(id SessionID, number, token uint64) Event {
	return Event{What: Granted, Session: id, Number: number, Token: token}
}

func queued(id SessionID, number uint64, ahead int, holder string, token, entered uint64) Event {
	return Event{What: Queued, Session: id, Number: number, Ahead: ahead, Holder: holder, Token: token, Entered: entered}
}

func done(id SessionID, number uint64) Event { return Event{What: Done, Session: id, Number: number} }

func refused(id SessionID, number uint64, why Reason) Event {
	return Event{What: Refused, Session: id, Number: number, Reason: why}
}

func opened(id SessionID, ttl time.Duration) Event {
	return Event{What: Opened, Session: id, TTL: ttl}
}

func fixed(id SessionID, length time.Duration) Event {
	return Event{What: Fixed, Session: id, TTL: length}
}

func ended(id SessionID) Event { return Event{What: Ended, Session: id} }

func reheard(id SessionID) Event { return Event{What: Reheard, Session: id} }

// always is a Since above every deletion.
const always = 1 << 52

func call(who string, n uint64) Call { return Call{Session: id(who), Number: n, Since: always} }

func lock(who string, n uint64, key string) Acquire {
	return Acquire{Call: call(who, n), TTL: ttl, Name: who, Key: key, Weight: Whole, Capacity: Whole}
}

func read(who string, n uint64, key string) Acquire {
	a := lock(who, n, key)
	a.Weight = 1
	return a
}

func permits(who string, n uint64, key string, weight, capacity int64) Acquire {
	a := lock(who, n, key)
	a.Kind, a.Weight, a.Capacity = Semaphore, weight, capacity
	return a
}

func try(a Acquire) Acquire {
	a.Try = true
	return a
}

func since(a Acquire, revision uint64) Acquire {
	a.Since = revision
	return a
}

func acked(a Acquire, numbers ...uint64) Acquire {
	a.Acked = numbers
	return a
}

func release(who string, n uint64, key string, token uint64) Release {
	return Release{Call: call(who, n), Key: key, Token: token}
}

func cancel(who string, n, target uint64) Cancel {
	return Cancel{Call: call(who, n), TTL: ttl, Name: who, Target: target}
}

func fix(who string, n uint64, key string, token uint64, hold time.Duration) Fix {
	return Fix{Call: call(who, n), Key: key, Token: token, Hold: hold}
}

// keysOf returns the holders and the waiters of each key: "a: ann=2 | bob eve; b: eve=9".
func keysOf(t *Table) string {
	var all []string
	for key, e := range t.keys {
		var b strings.Builder
		fmt.Fprintf(&b, "%s:", key)
		for r := e.holders.first(); r != nil; r = r.place.next() {
			fmt.Fprintf(&b, " %s=%d", r.session.name, r.token)
		}
		if e.queue.len > 0 {
			b.WriteString(" |")
		}
		for r := e.queue.first(); r != nil; r = r.place.next() {
			b.WriteString(" " + r.session.name)
		}
		all = append(all, b.String())
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// thisTerm is the term of every entry in these tests.
const thisTerm = 7

func newTable() *Table {
	t := NewTable(Founding{Check: true})
	t.Enter(thisTerm, 0)
	return t
}

func TestTable(t *testing.T) {
	tests := []struct {
		name     string
		unsettle time.Duration
		now      time.Duration // table time of when
		given    []Command
		when     Command
		want     []Event
		keys     string // the holders and the waiters afterwards
	}{
		// First come, first served (G3).
		{
			name: "a free key is granted at once, with a token of its own",
			when: lock("ann", 1, "a"),
			want: []Event{opened(id("ann"), ttl), granted(id("ann"), 1, 2)},
			keys: "a: ann=2",
		},
		{
			name:  "the second request waits, and learns the holder",
			given: []Command{lock("ann", 1, "a")},
			when:  lock("bob", 1, "a"),
			want:  []Event{opened(id("bob"), ttl), queued(id("bob"), 1, 0, "ann", 2, 3)},
			keys:  "a: ann=2 | bob",
		},
		{
			name:  "a release wakes only the longest waiter, with a larger token",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a"), lock("eve", 1, "a")},
			when:  release("ann", 2, "a", 2),
			want:  []Event{done(id("ann"), 2), granted(id("bob"), 1, 6)},
			keys:  "a: bob=6 | eve",
		},
		{
			name:  "keys do not disturb each other",
			given: []Command{lock("ann", 1, "a")},
			when:  lock("bob", 1, "b"),
			want:  []Event{opened(id("bob"), ttl), granted(id("bob"), 1, 4)},
			keys:  "a: ann=2; b: bob=4",
		},
		{
			name:  "one session may wait for what it holds: its handles exclude each other",
			given: []Command{lock("ann", 1, "a")},
			when:  lock("ann", 2, "a"),
			want:  []Event{queued(id("ann"), 2, 0, "ann", 2, 3)},
			keys:  "a: ann=2 | ann",
		},
		{
			name:  "the last release leaves nothing of the key",
			given: []Command{lock("ann", 1, "a")},
			when:  release("ann", 2, "a", 2),
			want:  []Event{done(id("ann"), 2)},
		},

		// Readers and writers.
		{
			name:  "readers share, each with a token of its own",
			given: []Command{read("ann", 1, "a")},
			when:  read("bob", 1, "a"),
			want:  []Event{opened(id("bob"), ttl), granted(id("bob"), 1, 4)},
			keys:  "a: ann=2 bob=4",
		},
		{
			name:  "a writer waits for every reader",
			given: []Command{read("ann", 1, "a"), read("bob", 1, "a"), lock("eve", 1, "a")},
			when:  release("ann", 2, "a", 2),
			want:  []Event{done(id("ann"), 2)},
			keys:  "a: bob=4 | eve",
		},
		{
			name:  "a reader does not pass a writer that waits, so the writer is not starved",
			given: []Command{read("ann", 1, "a"), lock("bob", 1, "a")},
			when:  read("eve", 1, "a"),
			want:  []Event{opened(id("eve"), ttl), queued(id("eve"), 1, 1, "ann", 2, 4)},
			keys:  "a: ann=2 | bob eve",
		},
		{
			name: "a writer's release lets in the readers behind it, in order, up to the next writer",
			given: []Command{
				lock("ann", 1, "a"), read("bob", 1, "a"), read("cid", 1, "a"), read("dan", 1, "a"),
				lock("eve", 1, "a"), read("fay", 1, "a"),
			},
			when: release("ann", 2, "a", 2),
			want: []Event{
				done(id("ann"), 2), granted(id("bob"), 1, 9), granted(id("cid"), 1, 10), granted(id("dan"), 1, 11),
			},
			keys: "a: bob=9 cid=10 dan=11 | eve fay",
		},

		// Semaphores.
		{
			name:  "a semaphore lets in as much as fits",
			given: []Command{permits("ann", 1, "s", 2, 3)},
			when:  permits("bob", 1, "s", 1, 3),
			want:  []Event{opened(id("bob"), ttl), granted(id("bob"), 1, 4)},
			keys:  "s: ann=2 bob=4",
		},
		{
			name:  "a small request does not pass a large one",
			given: []Command{permits("ann", 1, "s", 2, 3), permits("bob", 1, "s", 3, 3)},
			when:  permits("eve", 1, "s", 1, 3),
			want:  []Event{opened(id("eve"), ttl), queued(id("eve"), 1, 1, "ann", 2, 4)},
			keys:  "s: ann=2 | bob eve",
		},
		{
			name: "one release may let in several, and stops at the first that does not fit",
			given: []Command{
				permits("ann", 1, "s", 3, 3), permits("bob", 1, "s", 1, 3), permits("cid", 1, "s", 1, 3),
				permits("dan", 1, "s", 2, 3), permits("eve", 1, "s", 1, 3),
			},
			when: release("ann", 2, "s", 2),
			want: []Event{done(id("ann"), 2), granted(id("bob"), 1, 8), granted(id("cid"), 1, 9)},
			keys: "s: bob=8 cid=9 | dan eve",
		},

		// Try (P16).
		{
			name: "a try takes what is free",
			when: try(lock("ann", 1, "a")),
			want: []Event{opened(id("ann"), ttl), granted(id("ann"), 1, 2)},
			keys: "a: ann=2",
		},
		{
			name:  "a try for what is held is refused, names the holder and leaves no trace",
			given: []Command{lock("ann", 1, "a")},
			when:  try(lock("bob", 1, "a")),
			want: []Event{opened(id("bob"), ttl), {
				What:    Refused,
				Session: id("bob"), Number: 1, Reason: Locked, Holder: "ann", Token: 2,
			}},
			keys: "a: ann=2",
		},
		{
			name:  "a try that would fit is refused if a request waits",
			given: []Command{read("ann", 1, "a"), lock("bob", 1, "a")},
			when:  try(read("eve", 1, "a")),
			want: []Event{opened(id("eve"), ttl), {
				What:    Refused,
				Session: id("eve"), Number: 1, Reason: Locked, Holder: "ann", Token: 2,
			}},
			keys: "a: ann=2 | bob",
		},

		// Kinds and capacities (P38).
		{
			name:  "a key that is held as a lock is not a semaphore",
			given: []Command{lock("ann", 1, "a")},
			when:  permits("bob", 1, "a", 1, 3),
			want: []Event{opened(id("bob"), ttl), {
				What:    Refused,
				Session: id("bob"), Number: 1, Reason: Capacity, Holder: "ann", Token: 2,
			}},
			keys: "a: ann=2",
		},
		{
			name:  "a semaphore of the size of a lock is still no lock",
			given: []Command{permits("ann", 1, "a", 1, Whole)},
			when:  read("bob", 1, "a"),
			want: []Event{opened(id("bob"), ttl), {
				What:    Refused,
				Session: id("bob"), Number: 1, Reason: Capacity, Holder: "ann", Token: 2,
			}},
			keys: "a: ann=2",
		},
		{
			name:  "another capacity is refused, also to a try",
			given: []Command{permits("ann", 1, "s", 1, 3)},
			when:  try(permits("bob", 1, "s", 1, 4)),
			want: []Event{opened(id("bob"), ttl), {
				What:    Refused,
				Session: id("bob"), Number: 1, Reason: Capacity, Holder: "ann", Token: 2,
			}},
			keys: "s: ann=2",
		},
		{
			name:  "a key that was freed may become anything",
			given: []Command{lock("ann", 1, "a"), release("ann", 2, "a", 2)},
			when:  permits("bob", 1, "a", 1, 3),
			want:  []Event{opened(id("bob"), ttl), granted(id("bob"), 1, 5)},
			keys:  "a: bob=5",
		},

		// Once (P11).
		{
			name:  "a repeated request that was granted gets the same grant",
			given: []Command{lock("ann", 1, "a")},
			when:  lock("ann", 1, "a"),
			want:  []Event{granted(id("ann"), 1, 2)},
			keys:  "a: ann=2",
		},
		{
			name:  "a repeated request that waits keeps its place",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a"), lock("eve", 1, "a")},
			when:  lock("bob", 1, "a"),
			want:  []Event{queued(id("bob"), 1, 0, "ann", 2, 3)},
			keys:  "a: ann=2 | bob eve",
		},
		{
			name:  "a repeated release is done, and frees nothing twice",
			given: []Command{lock("ann", 1, "a"), release("ann", 2, "a", 2), lock("bob", 1, "a")},
			when:  release("ann", 2, "a", 2),
			want:  []Event{done(id("ann"), 2)},
			keys:  "a: bob=5",
		},
		{
			name:  "a repeated try is refused again, though the key is free by now",
			given: []Command{lock("ann", 1, "a"), try(lock("bob", 1, "a")), release("ann", 2, "a", 2)},
			when:  try(lock("bob", 1, "a")),
			want:  []Event{refused(id("bob"), 1, Locked)},
		},
		{
			name:  "a repeated request whose result was acknowledged is stale",
			given: []Command{lock("ann", 1, "a"), acked(lock("ann", 2, "b"), 1)},
			when:  lock("ann", 1, "a"),
			want:  []Event{refused(id("ann"), 1, Stale)},
			keys:  "a: ann=2; b: ann=4",
		},
		{
			name:  "an acknowledgement of the command that carries it is ignored",
			given: []Command{acked(lock("ann", 1, "a"), 1)},
			when:  acked(lock("ann", 1, "a"), 1),
			want:  []Event{granted(id("ann"), 1, 2)},
			keys:  "a: ann=2",
		},
		{
			name:  "the same number in another session is another request",
			given: []Command{lock("ann", 1, "a")},
			when:  lock("bob", 1, "b"),
			want:  []Event{opened(id("bob"), ttl), granted(id("bob"), 1, 4)},
			keys:  "a: ann=2; b: bob=4",
		},

		// No ghosts (P12).
		{
			name:  "a request older than the deletion of its record opens none",
			given: []Command{lock("ann", 1, "a"), Expire{id("ann"), thisTerm}},
			when:  since(lock("ann", 2, "a"), 2),
			want:  []Event{refused(id("ann"), 2, Reopen)},
		},
		{
			name:  "the deletion of another session's record has no effect",
			given: []Command{lock("ann", 1, "a"), Expire{id("ann"), thisTerm}},
			when:  since(lock("bob", 1, "a"), 2),
			want:  []Event{opened(id("bob"), ttl), granted(id("bob"), 1, 5)},
			keys:  "a: bob=5",
		},
		{
			name:  "sent again with the revision that was named, it does",
			given: []Command{lock("ann", 1, "a"), Expire{id("ann"), thisTerm}, since(lock("ann", 2, "a"), 2)},
			when:  since(lock("ann", 2, "a"), 4),
			want:  []Event{opened(id("ann"), ttl), granted(id("ann"), 2, 6)},
			keys:  "a: ann=6",
		},
		{
			name: "a late copy from an earlier life of the session does not take effect in the next",
			given: []Command{
				since(lock("ann", 1, "a"), 0), Expire{id("ann"), thisTerm}, since(lock("ann", 5, "b"), 3),
			},
			when: since(lock("ann", 2, "a"), 2),
			want: []Event{refused(id("ann"), 2, Behind)},
			keys: "b: ann=5",
		},
		{
			name: "a deletion elsewhere does not disturb a session that has its record",
			given: []Command{
				since(lock("ann", 1, "a"), 0), lock("bob", 1, "b"), Expire{id("bob"), thisTerm},
			},
			when: since(lock("ann", 2, "b"), 2),
			want: []Event{granted(id("ann"), 2, 7)},
			keys: "a: ann=2; b: ann=7",
		},
		{
			name: "a release opens no record",
			when: release("ann", 1, "a", 2),
			want: []Event{refused(id("ann"), 1, Lost)},
		},
		{
			name: "a Fix opens no record",
			when: fix("ann", 1, "a", 2, time.Minute),
			want: []Event{refused(id("ann"), 1, Lost)},
		},

		// Cancel.
		{
			name:  "a cancelled waiter leaves the queue",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a"), lock("eve", 1, "a")},
			when:  cancel("bob", 2, 1),
			want:  []Event{done(id("bob"), 2)},
			keys:  "a: ann=2 | eve",
		},
		{
			name:  "a cancelled writer lets in the readers behind it",
			given: []Command{read("ann", 1, "a"), lock("bob", 1, "a"), read("eve", 1, "a")},
			when:  cancel("bob", 2, 1),
			want:  []Event{granted(id("eve"), 1, 6), done(id("bob"), 2)},
			keys:  "a: ann=2 eve=6",
		},
		{
			name:  "a cancel that comes after the grant gives it back",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a"), release("ann", 2, "a", 2)},
			when:  cancel("bob", 2, 1),
			want:  []Event{done(id("bob"), 2)},
		},
		{
			name:  "a cancel of a grant hands it on",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a")},
			when:  cancel("ann", 2, 1),
			want:  []Event{granted(id("bob"), 1, 5), done(id("ann"), 2)},
			keys:  "a: bob=5",
		},
		{
			name:  "a request that arrives after its cancel does nothing",
			given: []Command{cancel("ann", 2, 1)},
			when:  lock("ann", 1, "a"),
			want:  []Event{refused(id("ann"), 1, Stale)},
		},
		{
			name: "a cancel opens the record, so that the late request finds its number used",
			when: cancel("ann", 2, 1),
			want: []Event{opened(id("ann"), ttl), done(id("ann"), 2)},
		},
		{
			name:  "a repeated cancel is done",
			given: []Command{lock("ann", 1, "a"), cancel("ann", 2, 1), lock("ann", 3, "a")},
			when:  cancel("ann", 2, 1),
			want:  []Event{done(id("ann"), 2)},
			keys:  "a: ann=5",
		},

		// Release names the token (P14).
		{
			name: "a late release of an older grant changes nothing",
			given: []Command{
				lock("ann", 1, "a"), release("ann", 2, "a", 2), lock("ann", 3, "a"),
			},
			when: release("ann", 4, "a", 2),
			want: []Event{refused(id("ann"), 4, Lost)},
			keys: "a: ann=5",
		},
		{
			name:  "a session cannot release another session's grant",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a")},
			when:  release("bob", 2, "a", 2),
			want:  []Event{refused(id("bob"), 2, Lost)},
			keys:  "a: ann=2 | bob",
		},
		{
			name:  "a release whose key and token do not belong together changes nothing",
			given: []Command{lock("ann", 1, "a"), lock("ann", 2, "b")},
			when:  release("ann", 3, "a", 4),
			want:  []Event{refused(id("ann"), 3, Lost)},
			keys:  "a: ann=2; b: ann=4",
		},
		{
			name:  "a waiter has no token to release, not even zero",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a")},
			when:  release("bob", 2, "a", 0),
			want:  []Event{refused(id("bob"), 2, Lost)},
			keys:  "a: ann=2 | bob",
		},

		// Fixed terms (P7).
		{
			name:  "a Fix sets the end of the lease, from now on",
			given: []Command{lock("ann", 1, "a")},
			when:  fix("ann", 2, "a", 2, time.Minute),
			want:  []Event{fixed(id("ann"), time.Minute), done(id("ann"), 2)},
			keys:  "a: ann=2",
		},
		{
			name:  "a later Fix moves that end",
			given: []Command{lock("ann", 1, "a"), fix("ann", 2, "a", 2, time.Minute)},
			when:  fix("ann", 3, "a", 2, time.Hour),
			want:  []Event{fixed(id("ann"), time.Hour), done(id("ann"), 3)},
			keys:  "a: ann=2",
		},
		{
			name:  "a repeated Fix moves nothing",
			given: []Command{lock("ann", 1, "a"), fix("ann", 2, "a", 2, time.Minute)},
			when:  fix("ann", 2, "a", 2, time.Minute),
			want:  []Event{done(id("ann"), 2)},
			keys:  "a: ann=2",
		},
		{
			name:  "a Fix of what is no longer held is refused",
			given: []Command{lock("ann", 1, "a"), release("ann", 2, "a", 2)},
			when:  fix("ann", 3, "a", 2, time.Minute),
			want:  []Event{refused(id("ann"), 3, Lost)},
		},

		// Expiry, and the other commands of a leader (P3).
		{
			name:  "an expiry hands on what the session held",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a")},
			when:  Expire{id("ann"), thisTerm},
			want:  []Event{ended(id("ann")), granted(id("bob"), 1, 5)},
			keys:  "a: bob=5",
		},
		{
			name:  "an expiry removes the session's own waiters, and grants them nothing",
			given: []Command{lock("ann", 1, "a"), lock("ann", 2, "a"), lock("bob", 1, "a")},
			when:  Expire{id("ann"), thisTerm},
			want:  []Event{ended(id("ann")), granted(id("bob"), 1, 6)},
			keys:  "a: bob=6",
		},
		{
			name:  "an expired writer does not let in a reader of the same session behind it",
			given: []Command{read("ann", 1, "a"), lock("bob", 1, "a"), read("bob", 2, "a"), read("eve", 1, "a")},
			when:  Expire{id("bob"), thisTerm},
			want:  []Event{ended(id("bob")), granted(id("eve"), 1, 7)},
			keys:  "a: ann=2 eve=7",
		},
		{
			name: "an expiry frees its keys in the order in which they were asked for",
			given: []Command{
				lock("ann", 1, "b"), lock("ann", 2, "a"), lock("bob", 1, "a"), lock("eve", 1, "b"),
			},
			when: Expire{id("ann"), thisTerm},
			want: []Event{ended(id("ann")), granted(id("eve"), 1, 8), granted(id("bob"), 1, 9)},
			keys: "a: bob=9; b: eve=8",
		},
		{
			name:  "an expiry that another term decided is void",
			given: []Command{lock("ann", 1, "a")},
			when:  Expire{id("ann"), thisTerm - 1},
			keys:  "a: ann=2",
		},
		{
			name: "an expiry of an unknown session does nothing",
			when: Expire{id("ann"), thisTerm},
		},
		{
			name:  "a session that is heard again gets a Reheard",
			given: []Command{lock("ann", 1, "a"), Silent{id("ann"), 6 * time.Second, thisTerm}},
			when:  Silent{id("ann"), 0, thisTerm},
			want:  []Event{reheard(id("ann"))},
			keys:  "a: ann=2",
		},
		{
			name:  "a heard that another term decided is void",
			given: []Command{lock("ann", 1, "a"), Silent{id("ann"), 6 * time.Second, thisTerm}},
			when:  Silent{id("ann"), 0, thisTerm + 1},
			keys:  "a: ann=2",
		},

		// A young table (P27).
		{
			name:     "a young table lets queues form and grants nothing, and says for how long",
			unsettle: time.Minute,
			now:      20 * time.Second,
			when:     lock("ann", 1, "a"),
			want: []Event{opened(id("ann"), ttl), {
				What: Queued, Session: id("ann"), Number: 1, Entered: 1, Quiet: 40 * time.Second,
			}},
			keys: "a: | ann",
		},
		{
			name:     "a young table refuses a try as quiet, not as locked",
			unsettle: time.Minute,
			now:      20 * time.Second,
			when:     try(lock("ann", 1, "a")),
			want: []Event{opened(id("ann"), ttl), {
				What: Refused, Session: id("ann"), Number: 1, Reason: Quiet, Quiet: 40 * time.Second,
			}},
		},
		{
			name:     "a young table refuses a try as quiet though somebody waits",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "a")},
			when:     try(lock("bob", 1, "a")),
			want: []Event{opened(id("bob"), ttl), {
				What: Refused, Session: id("bob"), Number: 1, Reason: Quiet, Quiet: time.Minute,
			}},
			keys: "a: | ann",
		},
		{
			name:     "a young table refuses another capacity, and says for how long it is quiet",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "a")},
			when:     try(permits("bob", 1, "a", 1, 5)),
			want: []Event{opened(id("bob"), ttl), {
				What: Refused, Session: id("bob"), Number: 1, Reason: Capacity, Quiet: time.Minute,
			}},
			keys: "a: | ann",
		},
		{
			name:     "a try that is repeated in a young table hears of the time that is left",
			unsettle: time.Minute,
			given:    []Command{try(lock("ann", 1, "a"))},
			now:      59 * time.Second,
			when:     try(lock("ann", 1, "a")),
			want:     []Event{{What: Refused, Session: id("ann"), Number: 1, Reason: Quiet, Quiet: time.Second}},
		},
		{
			name:     "a young table is quiet until its settle, though that is late",
			unsettle: time.Minute,
			now:      time.Hour,
			when:     try(lock("ann", 1, "a")),
			want: []Event{opened(id("ann"), ttl), {
				What: Refused, Session: id("ann"), Number: 1, Reason: Quiet, Quiet: time.Millisecond,
			}},
		},
		{
			name:     "a try that a young table refused stays refused when that may grant",
			unsettle: time.Minute,
			given:    []Command{try(lock("ann", 1, "a")), Settle{Term: thisTerm}},
			when:     try(lock("ann", 1, "a")),
			want:     []Event{{What: Refused, Session: id("ann"), Number: 1, Reason: Quiet}},
		},
		{
			name:     "a settled table refuses a try as locked",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "a"), Settle{Term: thisTerm}},
			when:     try(lock("bob", 1, "a")),
			want: []Event{opened(id("bob"), ttl), {
				What: Refused, Session: id("bob"), Number: 1, Reason: Locked, Holder: "ann", Token: 3,
			}},
			keys: "a: ann=3",
		},
		{
			name:     "a waiter that is cancelled does not make a young table grant",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "a"), lock("bob", 1, "a")},
			when:     cancel("ann", 2, 1),
			want:     []Event{done(id("ann"), 2)},
			keys:     "a: | bob",
		},
		{
			name:     "a settled table grants to the heads of all queues, key by key",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "b"), lock("bob", 1, "b"), read("eve", 1, "a"), read("fay", 1, "a")},
			when:     Settle{Term: thisTerm},
			want:     []Event{granted(id("eve"), 1, 6), granted(id("fay"), 1, 7), granted(id("ann"), 1, 8)},
			keys:     "a: eve=6 fay=7; b: ann=8 | bob",
		},
		{
			name:     "a settling that another term decided is void",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "a")},
			when:     Settle{Term: thisTerm + 1},
			keys:     "a: | ann",
		},
		{
			name:     "a second settling does nothing",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "a"), Settle{Term: thisTerm}, lock("bob", 1, "a")},
			when:     Settle{Term: thisTerm},
			keys:     "a: ann=3 | bob",
		},
		{
			name:     "on an operator's word a young table grants before its time",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "a"), held("bob", 1, "b", 1), lock("eve", 1, "b")},
			when:     Calm{Term: thisTerm},
			want:     []Event{granted(id("ann"), 1, 5)},
			keys:     "a: ann=5; b: bob=1 | eve",
		},
		{
			name:     "and goes on above what clients know of",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "a")},
			when:     Calm{Term: thisTerm, Floor: 99},
			want:     []Event{granted(id("ann"), 1, 101)},
			keys:     "a: ann=101",
		},
		{
			name:     "the word that another term took is void",
			unsettle: time.Minute,
			given:    []Command{lock("ann", 1, "a")},
			when:     Calm{Term: thisTerm + 1},
			keys:     "a: | ann",
		},
		{
			name:  "a settled table has no use for it",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a")},
			when:  Calm{Term: thisTerm},
			keys:  "a: ann=2 | bob",
		},

		// Close.
		{
			name:  "a close frees what the session holds and cancels what it waits for",
			given: []Command{lock("ann", 1, "a"), lock("bob", 1, "a"), lock("bob", 2, "b"), lock("ann", 2, "b")},
			when:  Close{id("ann"), 9},
			want:  []Event{ended(id("ann")), granted(id("bob"), 1, 8), done(id("ann"), 9)},
			keys:  "a: bob=8; b: bob=5",
		},
		{
			name: "a close of an unknown session is done",
			when: Close{id("ann"), 9},
			want: []Event{done(id("ann"), 9)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(Founding{Check: true, Settles: tt.unsettle})
			table.Enter(thisTerm, 0)
			for _, cmd := range tt.given {
				stepDue(table, cmd)
			}
			before := table.Revision()
			table.Enter(thisTerm, tt.now)
			if got := stepDue(table, tt.when); !slices.Equal(got, tt.want) {
				t.Errorf("after %+v: Step(%+v) = %+v, want %+v", tt.given, tt.when, got, tt.want)
			}
			if got := keysOf(table); got != tt.keys {
				t.Errorf("after %+v and %+v: keys %q, want %q", tt.given, tt.when, got, tt.keys)
			}
			if table.Revision() <= before {
				t.Errorf("Step(%+v) left the revision at %d", tt.when, before)
			}
			table.checkAll()
		})
	}
}

func TestLeases(t *testing.T) {
	table := newTable()
	table.Step(lock("eve", 1, "a"), nil)
	table.Step(lock("ann", 1, "b"), nil)
	table.Step(lock("bob", 1, "c"), nil)
	table.Step(Silent{id("ann"), 6 * time.Second, thisTerm}, nil)
	table.Step(Silent{id("bob"), 6 * time.Second, thisTerm - 1}, nil) // void
	table.Step(fix("eve", 2, "a", 2, time.Minute), nil)               // fixed
	table.Step(fix("bob", 2, "a", 2, time.Minute), nil)               // another session's
	table.Step(lock("fay", 1, "d"), nil)                              // silent, then heard
	table.Step(Silent{id("fay"), time.Second, thisTerm}, nil)         //
	table.Step(Silent{id("fay"), 0, thisTerm}, nil)                   //
	table.Step(cancel("fay", 2, 1), nil)
	want := []Lease{
		{Session: id("ann"), TTL: ttl, Silent: 6 * time.Second, Busy: true},
		{Session: id("bob"), TTL: ttl, Busy: true},
		{Session: id("eve"), TTL: time.Minute, Fixed: true, Busy: true},
		{Session: id("fay"), TTL: ttl},
	}
	if got := table.Leases(); !slices.Equal(got, want) {
		t.Errorf("Leases() = %+v, want %+v", got, want)
	}
	if !table.Has(id("ann")) || table.Has(id("zoe")) {
		t.Error("Has is wrong about ann or zoe")
	}
	if got, known := table.Lease(id("eve")); got != want[2] || !known {
		t.Errorf("Lease(eve) = %+v, %v", got, known)
	}
	if got, known := table.Lease(id("zoe")); got != (Lease{}) || known {
		t.Errorf("Lease(zoe) = %+v, %v", got, known)
	}
	if table.Expects(id("fay"), 2) || !table.Expects(id("fay"), 3) || table.Expects(id("zoe"), 1) {
		t.Error("Expects is wrong about the numbers that have arrived")
	}
}

func TestResultsAreKeptUntilAcknowledged(t *testing.T) {
	table := newTable()
	table.Step(lock("ann", 1, "a"), nil)
	table.Step(try(lock("ann", 2, "a")), nil)
	table.Step(release("ann", 3, "a", 2), nil)
	want := []Event{
		granted(id("ann"), 1, 2),
		refused(id("ann"), 2, Locked),
		done(id("ann"), 3),
	}
	for _, tt := range []struct {
		limit int
		after uint64
		want  []Event
		more  bool
	}{
		{9, 0, want, false},
		{3, 2, want, false}, // all fit
		{2, 0, want[:2], true},
		{2, 1, want[1:], false},
		{2, 2, want[2:], false},
		{2, 3, want[:2], true}, // none is behind it
		{2, 4, want[:2], true},
		{1, 1, want[1:2], true},
		{1, 2, want[2:], false},
	} {
		if got, more := table.Results(id("ann"), tt.limit, tt.after); !slices.Equal(got, tt.want) || more != tt.more {
			t.Errorf("%d Results after %d = %+v, %v, want %+v, %v", tt.limit, tt.after, got, more, tt.want, tt.more)
		}
	}
	// One long waiter does not hold back what came after it.
	table.Step(acked(lock("ann", 5, "b"), 1, 3), nil)
	want = []Event{
		refused(id("ann"), 2, Locked),
		granted(id("ann"), 5, 6),
	}
	if got, _ := table.Results(id("ann"), 9, 0); !slices.Equal(got, want) {
		t.Errorf("after acknowledging 1 and 3: Results = %+v, want %+v", got, want)
	}
	if got, more := table.Results(id("zoe"), 9, 0); got != nil || more {
		t.Errorf("Results of an unknown session = %+v, %v", got, more)
	}
}

func TestTokensStartAtTheFoundingRevision(t *testing.T) {
	const founded = uint64(1_790_000_000_000) << 10
	table := NewTable(Founding{Revision: founded, Check: true})
	got := table.Step(lock("ann", 1, "a"), nil)
	if want := []Event{opened(id("ann"), ttl), granted(id("ann"), 1, founded+2)}; !slices.Equal(got, want) {
		t.Errorf("Step = %+v, want %+v", got, want)
	}
}

// Promise: P41: the digest of a table tells who was granted what, even if the revisions are equal.
func TestTheDigestTellsGrantsApart(t *testing.T) {
	digest := func(who string) uint64 {
		table := newTable()
		table.Step(lock(who, 1, "a"), nil)
		return table.Digest()
	}
	if ann, again, bob := digest("ann"), digest("ann"), digest("bob"); ann != again || ann == bob {
		t.Errorf("of the tables in which ann, ann and bob hold the key: %x, %x and %x", ann, again, bob)
	}
}

func TestTableTimeOnlyGrows(t *testing.T) {
	table := newTable()
	table.Enter(1, time.Minute)
	table.Enter(2, time.Second)
	if table.Now() != time.Minute {
		t.Errorf("Now() = %v, want 1m", table.Now())
	}
}

// A queue of a young table takes no more of those that report their places, either; but a hold waits for nothing.
func TestAFullQueueTakesNoReportedWaiter(t *testing.T) {
	table := NewTable(Founding{Settles: time.Second})
	var out []Event
	for n := range uint64(MaxWaiters) {
		out = table.Step(waited("bob", n+1, "a", n+1), out[:0])
	}
	if q := out[0]; q.What != Queued || q.Ahead != MaxWaiters-1 {
		t.Fatalf("the last that fits got %+v", out)
	}
	out = table.Step(waited("eve", 1, "a", 1), out[:0])
	if r := out[1]; r.What != Refused || r.Reason != Crowded {
		t.Errorf("one more got %+v", out)
	}
	out = table.Step(held("eve", 2, "a", 7), out[:0])
	if g := out[0]; g.What != Granted || g.Token != 7 {
		t.Errorf("a holder got %+v", out)
	}
}

func TestAFullQueueRefusesOneMoreAndDropsNoWaiter(t *testing.T) {
	table := NewTable(Founding{})
	var out []Event
	table.Step(lock("ann", 1, "a"), nil)
	for n := range uint64(MaxWaiters) {
		out = table.Step(lock("bob", n+1, "a"), out[:0])
	}
	if q := out[0]; q.What != Queued || q.Ahead != MaxWaiters-1 {
		t.Fatalf("the last that fits got %+v", out)
	}
	out = table.Step(lock("eve", 1, "a"), out[:0])
	if r := out[1]; r.What != Refused || r.Reason != Crowded {
		t.Errorf("one more got %+v, want Crowded", out)
	}
	if n := table.keys["a"].queue.len; n != MaxWaiters {
		t.Errorf("%d wait, want %d", n, MaxWaiters)
	}
	// A place deep in a long queue is not counted again.
	out = table.Step(lock("bob", 7, "a"), out[:0])
	if q := out[0]; q.What != Queued || q.Ahead != -1 {
		t.Errorf("repeated in a long queue: %+v, want Ahead -1", out)
	}
}

func TestAValueIsTheTablesOwn(t *testing.T) {
	table := newTable()
	a := lock("ann", 1, "a")
	a.Value = []byte("v")
	table.Step(a, nil)
	a.Value[0] = 'x'
	if got := string(table.keys["a"].holders.first().value); got != "v" {
		t.Errorf("value %q, want v", got)
	}
}

// allocated returns the bytes in use after a collection.
func allocated() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAMillionKeysLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const limit = 5 << 20
	for _, tt := range []struct{ keys, held int }{{1_000_000, 1}, {200_000, 100_000}} {
		keys, held := tt.keys, tt.held
		t.Run(fmt.Sprintf("%d, %d at a time", keys, held), func(t *testing.T) {
			table := NewTable(Founding{})
			var out []Event
			next, ack := uint64(0), make([]uint64, 0, MaxAcked)
			stamp := func() Call {
				next++
				c := call("ann", next)
				c.Acked = ack
				return c
			}
			table.Step(Acquire{Call: stamp(), TTL: ttl, Name: "ann", Key: "first", Weight: 1, Capacity: Whole}, nil)
			start := allocated()
			tokens := make([]uint64, held)
			for at := 0; at < keys; at += held {
				for i := range held {
					out = table.Step(Acquire{
						Call: stamp(), TTL: ttl, Key: fmt.Sprintf("key-%d", at+i), Weight: Whole, Capacity: Whole,
					}, out[:0])
					tokens[i] = out[0].Token
					ack = append(ack[:0], next)
				}
				for i := range held {
					out = table.Step(Release{Call: stamp(), Key: fmt.Sprintf("key-%d", at+i), Token: tokens[i]}, out[:0])
					if out[0].What != Done {
						t.Fatalf("release: %+v", out)
					}
					ack = append(ack[:0], next)
				}
			}
			s := table.sessions[id("ann")]
			if len(table.keys) != 1 || table.entries.len != 1 || len(table.sessions) != 1 {
				t.Errorf("%d keys, %d entries, %d sessions are left", len(table.keys), table.entries.len, len(table.sessions))
			}
			if len(s.requests) != 1 || len(s.holds) != 1 || len(s.results) > 2 || len(s.seen.ranges) != 0 {
				t.Errorf("left in the session: %d requests, %d holds, %d results, %d ranges",
					len(s.requests), len(s.holds), len(s.results), len(s.seen.ranges))
			}
			tokens = nil
			if grown := allocated() - start; grown > limit {
				t.Errorf("the heap grew by %d KiB", grown>>10)
			}
			runtime.KeepAlive(table)
		})
	}
}

func TestNumbers(t *testing.T) {
	var s numbers
	for _, n := range []uint64{3, 1, 7, 5, 5, 6, 2, 1<<64 - 1} {
		s.add(n)
	}
	if s.floor != 3 || !slices.Equal(s.ranges, []span{{5, 7}, {1<<64 - 1, 1<<64 - 1}}) {
		t.Errorf("floor %d, ranges %v", s.floor, s.ranges)
	}
	for _, n := range []uint64{1, 2, 3, 5, 6, 7, 1<<64 - 1} {
		if !s.has(n) {
			t.Errorf("%d is missing", n)
		}
	}
	for _, n := range []uint64{4, 8, 1<<64 - 2} {
		if s.has(n) {
			t.Errorf("%d is there", n)
		}
	}
}

// If there are no more results than one answer repeats, it repeats all of them each time.
func TestResultsThatFitAreAllRepeated(t *testing.T) {
	table := newTable()
	for n := uint64(1); n <= 3; n++ {
		table.Step(lock("ann", n, fmt.Sprint("k", n)), nil)
	}
	numbers := func(limit int, after uint64) (all []uint64) {
		results, _ := table.Results(id("ann"), limit, after)
		for _, e := range results {
			all = append(all, e.Number)
		}
		return all
	}
	for _, tt := range []struct {
		limit int
		after uint64
		want  []uint64
	}{
		{3, 2, []uint64{1, 2, 3}}, {4, 2, []uint64{1, 2, 3}},
		{2, 0, []uint64{1, 2}}, {2, 1, []uint64{2, 3}}, {2, 2, []uint64{3}}, {2, 3, []uint64{1, 2}}, {2, 9, []uint64{1, 2}},
	} {
		if got := numbers(tt.limit, tt.after); !slices.Equal(got, tt.want) {
			t.Errorf("%d results behind %d: %v, want %v", tt.limit, tt.after, got, tt.want)
		}
	}
}

func TestSessionsAreInOrder(t *testing.T) {
	order := []SessionID{{1, 1}, {1, 2}, {2, 1}, {2, 3}}
	for i, a := range order {
		for j, b := range order {
			if got, want := a.Compare(b), cmp.Compare(i, j); got != want {
				t.Errorf("%v.Compare(%v) = %d, want %d", a, b, got, want)
			}
		}
	}
}

// checkAll panics if any rule is broken anywhere.
func (t *Table) checkAll() {
	for e := t.entries.first(); e != nil; e = e.place.next() {
		t.checkEntry(e)
	}
	for s := t.records.first(); s != nil; s = s.place.next() {
		t.checkSession(s)
	}
}

// stepDue steps a command, a Settle when it is due.
func stepDue(table *Table, cmd Command) []Event {
	if _, settles := cmd.(Settle); settles {
		table.Enter(thisTerm, table.Settles())
	}
	return table.Step(cmd, nil)
}

// held and waited report a place in an earlier table.
func held(who string, n uint64, key string, token uint64) Report {
	return Report{
		Call: call(who, n), TTL: ttl, Name: who, Key: key, Weight: Whole, Capacity: Whole,
		Earlier: Earlier{Token: token, Known: token},
	}
}

func waited(who string, n uint64, key string, entered uint64) Report {
	r := held(who, n, key, 0)
	r.Entered, r.Known = entered, entered
	return r
}

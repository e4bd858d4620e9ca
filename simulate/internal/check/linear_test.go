package check

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestLockModel steps the model by hand: what it takes, and what it does not.
func TestLockModel(t *testing.T) {
	take := func(rank int, token uint64, weight int64) lockInput {
		return lockInput{what: takes, rank: rank, token: token, weight: weight, capacity: 3}
	}
	timed := func(until time.Duration) lockInput {
		in := take(0, 5, 3)
		in.until = until
		return in
	}
	end := func(token uint64) lockInput { return lockInput{what: ends, token: token, handles: 1} }
	lost := func(token uint64, at time.Duration) lockInput {
		return lockInput{what: ends, token: token, handles: anyHandles, at: at}
	}
	try := func(weight int64) lockInput { return lockInput{what: refuses, weight: weight, capacity: 3} }
	share := func(handles int) lockInput { return lockInput{what: shares, token: 5, handles: handles} }
	extend := func(until time.Duration) lockInput { return lockInput{what: extends, token: 5, until: until} }
	const sec = time.Second
	for _, tt := range []struct {
		name string
		ops  []lockInput
		ok   bool // else the last one is wrong, and no other
	}{
		{"one after the other", []lockInput{take(0, 5, 3), end(5), take(1, 6, 3), end(6)}, true},
		{"two at once", []lockInput{take(0, 5, 3), take(1, 6, 3)}, false},
		{"permits that fit", []lockInput{take(0, 5, 2), take(1, 6, 1)}, true},
		{"permits that do not", []lockInput{take(0, 5, 2), take(1, 6, 2)}, false},
		{"permits again", []lockInput{take(0, 5, 2), take(1, 6, 1), end(5), take(2, 7, 2)}, true},
		{"a token that does not grow", []lockInput{take(0, 5, 1), take(1, 5, 1)}, false},
		{"out of order", []lockInput{take(0, 5, 1), take(2, 6, 1)}, false},
		{"nobody's end", []lockInput{take(0, 5, 3), end(6)}, false},
		{"ended twice", []lockInput{take(0, 5, 3), end(5), end(5)}, false},
		{"refused while it is held", []lockInput{take(0, 5, 3), try(1)}, true},
		{"refused what is free", []lockInput{take(0, 5, 3), end(5), try(1)}, false},
		{"refused though it fits", []lockInput{take(0, 5, 2), try(1)}, false},
		{"refused more than is left", []lockInput{take(0, 5, 2), try(2)}, true},
		{"over by its fixed end", []lockInput{timed(9 * sec), lost(5, 9*sec)}, true},
		{"believed in beyond it", []lockInput{timed(9 * sec), lost(5, 9*sec+1)}, false},
		{"extended in time", []lockInput{timed(9 * sec), extend(12 * sec), lost(5, 12*sec)}, true},
		{"made shorter", []lockInput{timed(9 * sec), extend(6 * sec), lost(5, 7*sec)}, false},
		{"extended, and over", []lockInput{timed(9 * sec), lost(5, 9*sec), extend(12 * sec)}, false},
		{"fixed later, and over", []lockInput{take(0, 5, 3), extend(12 * sec), lost(5, 12*sec)}, true},
		{"believed in beyond what was fixed later", []lockInput{take(0, 5, 3), extend(12 * sec), lost(5, 12*sec+1)}, false},
		{"entered twice, left twice", []lockInput{take(0, 5, 3), share(2), share(3), share(2), share(1)}, true},
		{"two handles at once", []lockInput{take(0, 5, 3), share(3)}, false},
		{"entered when all had left", []lockInput{take(0, 5, 3), share(0), share(1)}, false},
		{"released while it is shared", []lockInput{take(0, 5, 3), share(2), end(5)}, false},
		{"a reader beside what was a writer", []lockInput{take(0, 5, 3), {what: lessens, token: 5}, take(1, 6, 1), try(2), end(5), end(6)}, true},
		{"a writer beside what was one", []lockInput{take(0, 5, 3), {what: lessens, token: 5}, take(1, 6, 3)}, false},
		{"downgraded after its end", []lockInput{take(0, 5, 3), end(5), {what: lessens, token: 5}}, false},
		{"lost while it is shared", []lockInput{take(0, 5, 3), share(2), lost(5, sec)}, true},
	} {
		var s lockState
		for i, in := range tt.ops {
			next, ok := s.step(in)
			if want := tt.ok || i < len(tt.ops)-1; ok != want {
				t.Errorf("%s: step %d, %v: %v, want %v", tt.name, i, in, ok, want)
			}
			s = next
		}
	}
}

// kinds of keys, as the generator makes histories of them.
type keyKind struct {
	name            string
	capacity        int64
	most            int64 // permits at once; whole: a writer, or a reader of one
	tries           bool
	timed, handles  bool
	clients, failed int // failed: one call in so many is given up; zero: none
}

var keyKindsOf = []keyKind{
	{name: "mutex", capacity: whole, clients: 8},
	{name: "crowded mutex", capacity: whole, clients: 100},
	{name: "read and write", capacity: whole, most: 1, clients: 12},
	{name: "semaphore", capacity: 8, most: 4, clients: 12},
	{name: "wide semaphore", capacity: 200, most: 4, clients: 100},
	{name: "tries", capacity: whole, tries: true, clients: 4},
	{name: "timed", capacity: whole, timed: true, clients: 6},
	{name: "re-entrant", capacity: whole, handles: true, clients: 6},
	{name: "all at once", capacity: 8, most: 8, tries: true, timed: true, handles: true, clients: 10, failed: 20},
}

// tellHistory plays a correct lock with a table of its own, and returns what its clients
// saw: calls take their time to the table and back, one small step after the other.
func tellHistory(kind keyKind, seed uint64, calls int) *keyHistory {
	r := rand.New(rand.NewPCG(seed, 1))
	k := &keyHistory{key: kind.name}
	var now time.Duration
	var token uint64
	var used int64
	type client struct {
		call  *Call
		x     *Hold
		state int
	}
	const idle, sent, waits, granted, holds, releasing, released, doomed = 0, 1, 2, 3, 4, 5, 6, 7
	var queue []*client
	admit := func() {
		for len(queue) > 0 && used+queue[0].call.want.Weight <= kind.capacity {
			c := queue[0]
			queue = queue[1:]
			used += c.call.want.Weight
			token += 1 + r.Uint64N(3)
			c.x, c.state = &Hold{call: c.call, key: k, token: token, unlocking: running, unlocked: running, end: running}, granted
		}
	}
	clients := make([]*client, kind.clients)
	for i := range clients {
		clients[i] = &client{}
	}
	for done := 0; done < len(clients); {
		now += time.Duration(1 + r.Int64N(5))
		c := clients[r.IntN(len(clients))]
		switch c.state {
		case idle:
			if len(k.calls) >= calls {
				c.state, done = -1, done+1
				continue
			}
			want := Want{Key: k.key, Weight: kind.capacity, Capacity: kind.capacity}
			if kind.most > 0 && r.IntN(4) > 0 {
				want.Weight = 1 + r.Int64N(kind.most)
			}
			if kind.timed && r.IntN(2) == 0 {
				want.MaxHold = time.Duration(100 + r.Int64N(400))
			}
			c.call = &Call{want: want, began: now, ended: running}
			k.calls = append(k.calls, c.call)
			c.state = sent
		case sent:
			if kind.tries && r.IntN(3) == 0 && (used+c.call.want.Weight > kind.capacity || len(queue) > 0) {
				c.call.ended, c.call.refused = now+1, true
				c.state = idle
				continue
			}
			queue = append(queue, c)
			c.state = waits
			admit()
		case waits:
			if kind.failed > 0 && r.IntN(kind.failed) == 0 {
				queue = slices.DeleteFunc(queue, func(o *client) bool { return o == c })
				c.call.ended = now
				c.state = idle
				admit()
			}
		case granted:
			c.call.held, c.call.ended, c.x.began = c.x, now, now
			c.state = holds
			if d := c.call.want.MaxHold; d > 0 {
				c.x.latest = now + d
			}
		case holds:
			x := c.x
			handles := 1
			if n := len(x.shares); n > 0 {
				handles = x.shares[n-1].handles
			}
			last := x.latest
			switch {
			case last != 0 && now >= last:
				x.end = last
				c.state = doomed
			case last != 0 && r.IntN(3) == 0:
				length := time.Duration(50 + r.Int64N(400))
				x.extensions = append(x.extensions, extension{now, now + 1, length, true})
				x.latest = now + 1 + length
				now++
			case kind.handles && r.IntN(3) == 0:
				x.shares = append(x.shares, share{now, handles + 1})
			case handles > 1:
				x.shares = append(x.shares, share{now, handles - 1})
			case kind.failed > 0 && r.IntN(kind.failed) == 0: // its host crashes
				x.end = now
				c.state = doomed
			default:
				if len(x.shares) > 0 {
					x.shares = append(x.shares, share{now, 0})
				}
				x.unlocking, x.end = now, now
				c.state = releasing
			}
		case releasing, doomed:
			used -= c.call.want.Weight
			if c.state++; c.state > released {
				c.state = idle
			}
			admit()
		case released:
			c.x.unlocked = now
			c.state = idle
		}
	}
	return k
}

// TestLinearizableHistories: histories of correct locks are found so, however long they
// are, and never without a verdict.
func TestLinearizableHistories(t *testing.T) {
	for _, kind := range keyKindsOf {
		t.Run(kind.name, func(t *testing.T) {
			for seed := range uint64(20) {
				if result := compare(tellHistory(kind, seed, 150).operations()); result != porcupine.Ok {
					t.Fatalf("seed %d: %v", seed, result)
				}
			}
			k := tellHistory(kind, 1, 5000)
			ops := k.operations()
			start := time.Now()
			if result := compare(ops); result != porcupine.Ok {
				t.Fatalf("%d operations: %v", len(ops), result)
			}
			legal := time.Since(start)
			// Somewhere late, so that the search has come far when it fails.
			if !damage[3].do(k, len(k.calls)*3/4) {
				t.Fatal("not damaged")
			}
			start = time.Now()
			if result := compare(k.operations()); result != porcupine.Illegal {
				t.Fatalf("damaged: %v", result)
			}
			t.Logf("%d calls, %d operations: legal after %v, illegal after %v", len(k.calls), len(ops), legal.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
		})
	}
}

// damage is what can be done to a correct history so that it is none. Each looks for a
// place from the call numbered from on, and returns whether there was one.
var damage = []struct {
	name string
	do   func(k *keyHistory, from int) bool
}{
	{"a later call has a smaller token", func(k *keyHistory, from int) bool {
		return k.pair(from, func(x, y *Hold) bool {
			if y.call.began <= x.call.ended || y.token <= x.token {
				return false
			}
			x.token, y.token = y.token, x.token
			return true
		})
	}},
	{"the same token twice", func(k *keyHistory, from int) bool {
		return k.pair(from, func(x, y *Hold) bool { y.token = x.token; return true })
	}},
	{"granted while others leave no room", func(k *keyHistory, from int) bool {
		return k.pair(from, func(x, y *Hold) bool {
			begin, _, over := x.span()
			if !over || begin < x.call.ended+3 || x.call.want.Weight+y.call.want.Weight <= y.call.want.Capacity || y.token < x.token {
				return false
			}
			y.call.began, y.call.ended, y.shares, y.extensions = x.call.ended+1, x.call.ended+2, nil, nil
			return true
		})
	}},
	{"never ended, and granted again", func(k *keyHistory, from int) bool {
		return k.pair(from, func(x, y *Hold) bool {
			if x.call.want.Weight+y.call.want.Weight <= y.call.want.Capacity || y.token < x.token {
				return false
			}
			x.end, x.unlocking, x.unlocked = running, running, running
			return true
		})
	}},
	{"refused what is free", func(k *keyHistory, from int) bool {
		if slices.ContainsFunc(k.calls, func(c *Call) bool {
			if c.held == nil {
				return !c.refused
			}
			_, to, over := c.held.span()
			return !over || to == forever
		}) {
			return false // it may still be held
		}
		last := time.Duration(0)
		for _, c := range k.calls {
			if last = max(last, c.ended); c.held != nil {
				last = max(last, c.held.unlocked)
			}
		}
		want := k.calls[0].want
		want.MaxHold = 0
		k.calls = append(k.calls, &Call{want: want, began: last + 1, ended: last + 2, refused: true})
		return true
	}},
	{"believed in beyond the fixed end", func(k *keyHistory, from int) bool {
		return k.one(from, func(x *Hold) bool {
			if x.latest == 0 || x.unlocking != running {
				return false
			}
			x.end = x.latest + 1
			return true
		})
	}},
	{"extended when it was over", func(k *keyHistory, from int) bool {
		return k.one(from, func(x *Hold) bool {
			if x.latest == 0 || x.unlocked == running {
				return false
			}
			x.extensions = append(x.extensions, extension{x.unlocked + 1, x.unlocked + 2, time.Second, true})
			x.end = running // or it would not be certain
			return true
		})
	}},
	{"a handle entered unseen", func(k *keyHistory, from int) bool {
		return k.one(from, func(x *Hold) bool {
			if len(x.shares) < 2 || x.shares[1].handles != 3 {
				return false
			}
			x.shares = x.shares[1:]
			return true
		})
	}},
	{"released before the last handle left", func(k *keyHistory, from int) bool {
		return k.one(from, func(x *Hold) bool {
			if len(x.shares) < 2 || x.unlocked == running || x.err != nil {
				return false
			}
			x.shares = x.shares[:len(x.shares)-1]
			return true
		})
	}},
}

// one offers the holds one by one.
func (k *keyHistory) one(from int, do func(x *Hold) bool) bool {
	return slices.ContainsFunc(k.calls[max(from, 0):], func(c *Call) bool { return c.held != nil && do(c.held) })
}

// pair offers two holds of which the second was granted next.
func (k *keyHistory) pair(from int, do func(x, y *Hold) bool) bool {
	var holds []*Hold
	k.one(0, func(x *Hold) bool { holds = append(holds, x); return false })
	slices.SortFunc(holds, func(x, y *Hold) int { return int(int64(x.token) - int64(y.token)) })
	for i := range holds[:len(holds)-1] {
		if i*len(k.calls) >= from*len(holds) && do(holds[i], holds[i+1]) {
			return true
		}
	}
	return false
}

// TestDamagedHistoriesAreRejected damages correct histories in every way that their kind
// allows, at a place that the seed names: each must be noticed.
func TestDamagedHistoriesAreRejected(t *testing.T) {
	done := make([]int, len(damage))
	for _, kind := range keyKindsOf {
		if kind.clients > 20 {
			continue
		}
		for i, d := range damage {
			for seed := range uint64(40) {
				k := tellHistory(kind, seed, 60)
				before := fmt.Sprint(k.operations())
				if !d.do(k, int(seed)) {
					continue
				}
				done[i]++
				if result := compare(k.operations()); result != porcupine.Illegal {
					t.Fatalf("%s, seed %d: %s: %v\nbefore %s\nafter %v", kind.name, seed, d.name, result, before, k.operations())
				}
			}
		}
	}
	for i, d := range damage {
		if t.Logf("%-40s %d times", d.name, done[i]); done[i] < 20 {
			t.Errorf("%s: done only %d times", d.name, done[i])
		}
	}
}

// TestTheWitnessSparesTheSearch: what a thousand hold at a time is found legal by one order
// that is tried, and that order explains no history that is damaged.
func TestTheWitnessSparesTheSearch(t *testing.T) {
	for _, kind := range []keyKind{
		{name: "readers and writers", capacity: whole, most: 1, clients: 1000},
		{name: "semaphore", capacity: 1000, most: 4, clients: 1000},
	} {
		k := tellHistory(kind, 1, 4000)
		if !(lockState{}).witness(k.operations()) {
			t.Errorf("%s: %d operations are not explained", kind.name, len(k.operations()))
		}
		for _, d := range damage[:4] {
			k := tellHistory(kind, 1, 4000)
			if d.do(k, len(k.calls)/2) && (lockState{}).witness(k.operations()) {
				t.Errorf("%s: %s, and that is explained", kind.name, d.name)
			}
		}
	}
}

// TestLinearizability compares whole histories with the model, past the other
// checkers.
func TestLinearizability(t *testing.T) {
	const never = running
	type op struct {
		want                       Want
		token                      uint64
		began, ended               time.Duration
		unlocking, unlocked, until time.Duration
		failed                     bool
	}
	x, r := Exclusive("k"), Shared("k")
	tests := []struct {
		name string
		ops  []op
		ok   bool
	}{
		{"in order", []op{{x, 1, 0, 1, 2, 3, 2, false}, {x, 2, 0, 3, 4, 5, 4, false}}, true},
		{"granted before the release began", []op{{x, 1, 0, 1, 5, 6, 5, false}, {x, 2, 0, 3, 4, 5, 4, false}}, false},
		{"granted while the release was under way", []op{{x, 1, 0, 1, 2, 6, 2, false}, {x, 2, 0, 3, 4, 5, 4, false}}, true},
		{"tokens fall", []op{{x, 2, 0, 1, 2, 3, 2, false}, {x, 1, 4, 5, 6, 7, 6, false}}, false},
		{"expired", []op{{x, 1, 0, 1, never, never, 9, false}, {x, 2, 2, 12, 13, 14, 13, false}}, true},
		{"granted before it expired", []op{{x, 1, 0, 1, never, never, 9, false}, {x, 2, 2, 8, 13, 14, 13, false}}, false},
		{"still held", []op{{x, 1, 0, 1, never, never, never, false}, {x, 2, 2, 8, 9, 10, 9, false}}, false},
		{"an unlock that was not confirmed works late", []op{{x, 1, 0, 1, 2, 3, 2, true}, {x, 2, 2, 8, 9, 10, 9, false}}, true},
		{"readers share", []op{{r, 1, 0, 1, 9, 10, 9, false}, {r, 2, 0, 2, 9, 10, 9, false}, {x, 3, 0, 12, 13, 14, 13, false}}, true},
		{"a writer among readers", []op{{r, 1, 0, 1, 9, 10, 9, false}, {x, 2, 0, 2, 3, 4, 3, false}}, false},
		{"permits", []op{{Permits("k", 2, 3), 1, 0, 1, 5, 6, 5, false}, {Permits("k", 1, 3), 2, 0, 2, 5, 6, 5, false}}, true},
		{"too many permits", []op{{Permits("k", 2, 3), 1, 0, 1, 5, 6, 5, false}, {Permits("k", 2, 3), 2, 0, 2, 5, 6, 5, false}}, false},
	}
	for _, tt := range tests {
		k := &keyHistory{key: "k"}
		for _, o := range tt.ops {
			c := &Call{want: o.want, began: o.began, ended: o.ended}
			k.calls = append(k.calls, c)
			c.held = &Hold{call: c, token: o.token, began: o.ended, unlocking: o.unlocking, unlocked: o.unlocked, end: o.until}
			if o.failed {
				c.held.err = errors.New("unconfirmed")
			}
		}
		if err := (&History{order: []*keyHistory{k}}).linearizable(); (err == nil) != tt.ok {
			t.Errorf("%s: linearizable() = %v", tt.name, err)
		}
	}
}

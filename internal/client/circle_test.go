package client

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// waitsFor is a request of a caller that holds some grants and waits for a key that others hold. The tens of a token are its shard, in which its key is.
type waitsFor struct {
	who     string
	holds   []uint64
	holders []uint64

	unaware    bool  // its caller does not want to know of a deadlock
	needs, of  int64 // of a semaphore; zero: of a lock
	number     uint64
	generation uint64
	reads      bool // the holders do
	silent     time.Duration
}

func (w waitsFor) wait() shard.Wait {
	grant := func(token uint64) shard.Grant { return shard.Grant{Shard: int(token / 10), Token: token} }
	r := shard.Wait{
		Session: shard.SessionID{Node: uint64(w.who[0])}, Number: max(w.number, 1), Name: w.who, Key: fmt.Sprint("k", w.holders[0]), Needs: shard.Whole, Capacity: shard.Whole,
		Detects: !w.unaware, Silent: w.silent,
	}
	weight := int64(shard.Whole)
	if w.reads {
		weight = 1
	}
	if w.of != 0 {
		r.Needs, r.Capacity, weight = w.needs, w.of, 1
	}
	for _, token := range w.holds {
		r.Within = append(r.Within, grant(token))
	}
	for _, token := range w.holders {
		r.Holders = append(r.Holders, shard.Holding{Token: token, Weight: weight, Name: "holder"})
	}
	return r
}

// look lets the first of some requests look, which are those of the table at each reading. It returns what comes of it, and how many
// questions it took.
func look(self waitsFor, readings ...[]waitsFor) (*Deadlock, int) {
	const shards = 100
	w := self.wait()
	l := newLookout(int(self.holders[0]/10), w.Session, w.Number, w.Within)
	asked := 0
	for queries := l.begin(); ; {
		asked++
		all := readings[0]
		if l.circle != nil {
			all = readings[len(readings)-1]
		}
		var answers []lookAnswer
		for sh := range shards {
			a := lookAnswer{shard: sh}
			for _, q := range queries {
				for _, w := range all {
					within := func(g shard.Grant) bool { return slices.Contains(q.grants, g) }
					if (q.shard < 0 || q.shard == sh) && int(w.holders[0]/10) == sh && slices.ContainsFunc(w.wait().Within, within) && len(a.waits) < 256 {
						a.waits, a.generation = append(a.waits, w.wait()), w.generation
					}
				}
			}
			answers = append(answers, a)
		}
		now := time.Minute
		if l.circle != nil {
			now += 2 * time.Second
		}
		o := l.told(now, now, answers)
		if queries = o.next; o.later && l.circle != nil && now == time.Minute {
			queries = l.again()
		}
		if len(queries) == 0 {
			return o.deadlock, asked
		}
	}
}

// Promise: P50: a circle is found by each in it, and the youngest that wants to know gives up. What is no circle, or not at both
// readings, is none.
func TestCircles(t *testing.T) {
	row := func(who string, holds, holder uint64) waitsFor {
		return waitsFor{who: who, holds: []uint64{holds}, holders: []uint64{holder}}
	}
	with := func(w waitsFor, change func(*waitsFor)) waitsFor { change(&w); return w }
	unaware := func(w *waitsFor) { w.unaware = true }
	permits := func(needs, of int64, holders ...uint64) func(*waitsFor) {
		return func(w *waitsFor) { w.needs, w.of, w.holders = needs, of, holders }
	}
	readers := func(holders ...uint64) func(*waitsFor) {
		return func(w *waitsFor) { w.reads, w.holders = true, holders }
	}
	ann, bob, cat := row("ann", 11, 22), row("bob", 22, 33), row("cat", 33, 11)
	dan := row("dan", 44, 11) // waits for ann, and nobody for dan
	two := []waitsFor{row("ann", 11, 22), row("bob", 22, 11)}
	three := []waitsFor{ann, bob, cat}
	long := func(n int) (all []waitsFor) {
		for i := range n {
			all = append(all, row(string(rune('a'+i)), uint64(10+10*i), uint64(10+10*((i+1)%n))))
		}
		return all
	}
	for _, tt := range []struct {
		name  string
		first []waitsFor
		then  []waitsFor // at the second reading; nil: the same
		want  string     // who gives up, and the circle as that one sees it
	}{
		{"nobody else waits", []waitsFor{ann}, nil, ""},
		{"a caller that waits for itself", []waitsFor{row("ann", 11, 11)}, nil, "ann: ann k11"},
		{"two that wait for each other", two, nil, "bob: bob k11, ann k22"},
		{"three", three, nil, "cat: cat k11, ann k22, bob k33"},
		{"three in a row", []waitsFor{ann, bob, row("cat", 33, 55)}, nil, ""},
		{"one that waits for a circle", append(slices.Clone(three), dan), nil, "cat: cat k11, ann k22, bob k33"},
		{"the youngest does not want to know", []waitsFor{ann, bob, with(cat, unaware)}, nil, "bob: bob k33, cat k11, ann k22"},
		{"only one wants to know", []waitsFor{ann, with(bob, unaware), with(cat, unaware)}, nil, "ann: ann k22, bob k33, cat k11"},
		{"nobody wants to know", []waitsFor{with(ann, unaware), with(bob, unaware), with(cat, unaware)}, nil, ""},
		{"two circles beside each other", append(slices.Clone(two), row("cat", 33, 44), row("dan", 44, 33)), nil, "bob: bob k11, ann k22; dan: dan k33, cat k44"},
		{"two circles over one", []waitsFor{
			{who: "ann", holds: []uint64{11}, holders: []uint64{22, 23}, reads: true}, row("bob", 22, 11), row("cat", 23, 11),
		}, nil, "cat: cat k11, ann k22"},
		{"two calls of one context", []waitsFor{ann, bob, cat, with(row("cat", 33, 55), func(w *waitsFor) { w.number = 2 })}, nil, "cat: cat k11, ann k22, bob k33"},

		{"one is gone at the second reading", three, []waitsFor{ann, cat}, ""},
		{"one holds a key no longer at the second reading", three, []waitsFor{ann, with(bob, func(w *waitsFor) { w.holders = []uint64{34} }), cat}, ""},
		{"one waits again", three, []waitsFor{ann, with(bob, func(w *waitsFor) { w.number = 7 }), cat}, ""},
		{"one waits in another generation of its shard", three, []waitsFor{ann, with(bob, func(w *waitsFor) { w.generation = 7 }), cat}, ""},
		{"the one that looks is gone", three, []waitsFor{ann, bob}, ""},
		{"one has said nothing since the first reading", three, []waitsFor{ann, with(bob, func(w *waitsFor) { w.silent = 2 * time.Second }), cat}, ""},
		{"all have said something since", three, []waitsFor{ann, with(bob, func(w *waitsFor) { w.silent = 1800 * time.Millisecond }), cat}, "cat: cat k11, ann k22, bob k33"},
		{"another one has come", three, append(slices.Clone(three), dan), "cat: cat k11, ann k22, bob k33"},
		{"a hold is a reader's by now", []waitsFor{with(row("ann", 11, 22), permits(2, 3, 22, 23)), row("bob", 22, 11), row("cat", 23, 11)},
			[]waitsFor{with(row("ann", 11, 22), permits(2, 3, 22)), row("bob", 22, 11), row("cat", 23, 11)}, ""},

		{"a writer that waits for readers, of which one waits for it", []waitsFor{with(row("ann", 11, 22), readers(23, 22, 24)), row("bob", 22, 11)}, nil, "bob: bob k11, ann k23"},
		{"permits, of which others will do", []waitsFor{with(row("ann", 11, 22), permits(1, 2, 22, 23)), row("bob", 22, 11)}, nil, ""},
		{"permits, all of which are stuck", []waitsFor{with(row("ann", 11, 22), permits(1, 2, 22, 23)), row("bob", 22, 11), row("cat", 23, 11)}, nil, "cat: cat k11, ann k22"},
		{"permits that are too many for one", []waitsFor{with(row("ann", 11, 22), permits(2, 2, 22, 23)), row("bob", 22, 11)}, nil, "bob: bob k11, ann k22"},

		{"a circle of seventeen", long(17), nil, "q: q k10, a k20, b k30, c k40, d k50, e k60, f k70, g k80, h k90, i k100, j k110, k k120, l k130, m k140, n k150, o k160, p k170"},
		{"a circle that is too long", long(18), nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			then := tt.then
			if then == nil {
				then = tt.first
			}
			var got []string
			for _, w := range tt.first {
				deadlock, _ := look(w, tt.first, then)
				if deadlock == nil {
					continue
				}
				var circle []string
				for _, w := range deadlock.Circle {
					circle = append(circle, w.Node+" "+w.Key)
				}
				got = append(got, w.who+": "+strings.Join(circle, ", "))
			}
			if got := strings.Join(got, "; "); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// Promise: P50: who waits for one that goes on asks no more than two times, and never for more than so many.
func TestALookIsShort(t *testing.T) {
	ann := waitsFor{who: "ann", holds: []uint64{11}, holders: []uint64{22}}
	if _, asked := look(ann, []waitsFor{ann}); asked != 2 {
		t.Errorf("it asks %d times", asked)
	}
	var crowd []waitsFor
	for i := range 300 {
		crowd = append(crowd, waitsFor{who: "bob", number: uint64(i + 1), holds: []uint64{22}, holders: []uint64{uint64(500 + i)}})
	}
	if d, asked := look(ann, append(crowd, ann)); d != nil || asked != 3 {
		t.Errorf("%v, after %d questions", d, asked)
	}
	l := newLookout(2, ann.wait().Session, 1, ann.wait().Within)
	l.begin()
	for i := range 3 {
		var waits []shard.Wait
		for j := range 200 {
			w := waitsFor{who: "ann", number: uint64(1 + 200*i + j), holds: []uint64{11}, holders: []uint64{uint64(20 + 1000*i + 5*j)}}
			waits = append(waits, w.wait())
			for k := range 64 {
				waits[j].Holders = append(waits[j].Holders, shard.Holding{Token: uint64(1_000_000*i + 1000*j + k + 1), Weight: 1})
			}
		}
		for _, q := range l.told(0, 0, []lookAnswer{{shard: 2, waits: waits}}).next {
			if len(q.grants) > shard.MaxAsked {
				t.Errorf("it asks for %d grants", len(q.grants))
			}
		}
	}
	if len(l.waiters) > maxWaits {
		t.Errorf("it knows %d", len(l.waiters))
	}
}

func TestADeadlockSaysWhy(t *testing.T) {
	d, _ := look(waitsFor{who: "bob", holds: []uint64{22}, holders: []uint64{11}}, []waitsFor{
		{who: "ann", holds: []uint64{11}, holders: []uint64{22}}, {who: "bob", holds: []uint64{22}, holders: []uint64{11}},
	})
	const want = `mesh: deadlock: bob waits for "k11", token 11, ann waits for "k22", token 22`
	if d == nil || !errors.Is(d, fault.ErrDeadlock) || d.Error() != want {
		t.Errorf("%v, want %s", d, want)
	}
}

// crowd returns requests at random, each of which waits for several holders, and within several grants.
func crowd(r *rand.Rand, requests, holders, within, tokens int) (all []*waiter) {
	some := func(n int) (chosen []uint64) {
		for _, token := range r.Perm(tokens)[:n] {
			chosen = append(chosen, 10+uint64(token))
		}
		return chosen
	}
	for i := range requests {
		w := waitsFor{who: "ann", number: uint64(i + 1), holders: some(holders), holds: some(within), reads: true}.wait()
		for j := range w.Within {
			w.Within[j].Shard = 0
		}
		all = append(all, &waiter{waitID{0, 1, w.Session, w.Number}, w})
	}
	return all
}

// Promise: P50: a circle is those for which a request waits, over others or not, and which wait for it.
func TestWhoIsInACircle(t *testing.T) {
	r, sizes := rand.New(rand.NewPCG(1, 2)), make(map[int]bool)
	for range 500 {
		g := newWaits(crowd(r, 2+r.IntN(12), 1+r.IntN(2), 1, 12))
		for _, w := range g.all {
			circle := g.circleOf(w)
			sizes[len(circle)] = true
			for _, o := range g.all {
				want := g.stuck[w] && slices.Contains(reach(w, g.next), o) && slices.Contains(reach(o, g.next), w)
				if got := slices.Contains(circle, o); got != want {
					t.Fatalf("%d is in the circle of %d: %v, want %v", o.Number, w.Number, got, want)
				}
			}
		}
	}
	if !sizes[0] || len(sizes) < 5 {
		t.Errorf("circles of the sizes %v, want none, and of many sizes", slices.Sorted(maps.Keys(sizes)))
	}
}

// The most that one look may ask for, each of them behind 64 holds.
func BenchmarkCircle(b *testing.B) {
	all := crowd(rand.New(rand.NewPCG(1, 2)), maxWaits, 64, 1, 128)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(newWaits(all).circleOf(all[0])); n < maxWaits/2 {
			b.Fatalf("a circle of %d", n)
		}
	}
}

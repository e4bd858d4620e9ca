package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// looks reads all pages about a key, and calls between before each but the first. It returns the names of those that wait, and the pages.
func looks(t *testing.T, table *Table, q Inspection, between func(page int)) (names []string, pages []Page) {
	t.Helper()
	for {
		p := table.Inspect(q, 0)
		if pages = append(pages, p); len(pages) > 1000 {
			t.Fatal("there is no end")
		}
		for _, k := range p.Keys {
			if q.List {
				names = append(names, k.Key)
			}
			for _, w := range k.Waiters {
				names = append(names, w.Name)
			}
		}
		if q.After = p.Next; !p.More {
			return names, pages
		}
		between(len(pages))
	}
}

func numbered(i int) string { return fmt.Sprintf("w%05d", i) }

// comes asks for the key a, as the waiter i, and goes gives that up.
func comes(i int) Command {
	a := lock("ann", 1, "a")
	a.Session, a.Name = SessionID{Node: uint64(1000 + i), Number: 1}, numbered(i)
	return a
}

func goes(i int) Command {
	return Cancel{Call: Call{Session: SessionID{Node: uint64(1000 + i), Number: 1}, Number: 2}, TTL: ttl, Name: numbered(i), Target: 1}
}

// crowd is a table with a holder of a, and n that wait for it.
func crowd(n int) (table *Table, all []string) {
	table = newTable()
	table.Step(lock("ann", 1, "a"), nil)
	for i := range n {
		all = append(all, numbered(i))
		table.Step(comes(i), nil)
	}
	return table, all
}

// Promise: P48: what is told of a key is what the table knows, and telling it changes nothing.
func TestAKeyIsDescribed(t *testing.T) {
	table := newTable()
	table.Step(lock("ann", 1, "a"), nil)
	table.Step(lock("bob", 1, "a"), nil)
	table.Step(campaign("ann", 2, "v"), nil)
	sum, revision := table.Sum(), table.Revision()
	k := table.Inspect(Inspection{Key: "a", Most: 10}, 0).Keys[0]
	if !k.Used || k.Kind != RW || k.Taken != Whole || k.Holding != 1 || k.Waiting != 1 || len(k.Holders) != 1 || k.Holders[0].Name != "ann" ||
		k.Holders[0].Token != 2 || len(k.Waiters) != 1 || k.Waiters[0].Name != "bob" || k.Waiters[0].Token != 0 {
		t.Errorf("a is %+v", k)
	}
	if e := table.Inspect(Inspection{Key: "e", Most: 10}, 0).Keys[0]; e.Kind != Election || string(e.Holders[0].Value) != "v" {
		t.Errorf("e is %+v", e)
	}
	if k := table.Inspect(Inspection{Key: "b", Most: 10}, 0); k.Keys[0].Used || k.More || k.Quiet != 0 {
		t.Errorf("b is %+v", k)
	}
	if k := table.Inspect(Inspection{Key: "a"}, 0); k.More || len(k.Keys[0].Holders)+len(k.Keys[0].Waiters) != 0 || k.Keys[0].Waiting != 1 {
		t.Errorf("none is wanted: %+v", k)
	}
	if table.Sum() != sum || table.Revision() != revision {
		t.Error("the table has changed")
	}
	young := NewTable(Founding{Check: true, Settles: time.Minute})
	young.Step(lock("ann", 1, "a"), nil)
	if p := young.Inspect(Inspection{Key: "a", Most: 1}, time.Second); p.Quiet != 59*time.Second || p.Keys[0].Holding != 0 || len(p.Keys[0].Waiters) != 1 {
		t.Errorf("a quiet table: %+v", p)
	}
}

// Promise: P48: the memory of what was done is over when its time is, by the leader's clock, though no command has come since.
func TestWhatIsRememberedIsTold(t *testing.T) {
	table := newTable()
	table.Enter(thisTerm, time.Second)
	run := Begin{Call: call("ann", 1), TTL: ttl, Name: "ann", Key: "o", Operation: Operation{Op: Run, Retention: 10 * time.Second}}
	table.Step(run, nil)
	if k := table.Inspect(Inspection{Key: "o", Most: 1}, 0).Keys[0]; k.Holders[0].Op != Run || len(k.Done) != 0 {
		t.Errorf("while it runs: %+v", k)
	}
	table.Step(End{Call: call("ann", 2), Key: "o", Token: 2}, nil)
	for at, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 5 * time.Second: 6 * time.Second, 11 * time.Second: 0} {
		k := table.Inspect(Inspection{Key: "o", Most: 1}, at).Keys[0]
		if k.Used != (want > 0) || want > 0 && (len(k.Done) != 1 || k.Done[0].Remains != want) {
			t.Errorf("at %v: %+v, want %v", at, k, want)
		}
		if n := len(table.Inspect(Inspection{List: true}, at).Keys); n != min(1, int(want)) {
			t.Errorf("at %v: %d keys", at, n)
		}
	}
}

// Promise: P48: pages go on where the one before ended, also if that waiter is gone by then. The last page is told, too.
func TestPagesOfWaiters(t *testing.T) {
	for _, n := range []int{0, 1, maxPage - 1, maxPage, maxPage + 1, 3*maxPage + 7} {
		table, all := crowd(n)
		got, pages := looks(t, table, Inspection{Key: "a", Most: MaxWaiters}, func(int) {})
		if !slices.Equal(got, all) {
			t.Errorf("of %d waiters %d are told, in %d pages", n, len(got), len(pages))
		}
		for i, p := range pages {
			if m := len(p.Keys[0].Waiters) + len(p.Keys[0].Holders); m > maxPage || p.Keys[0].Waiting != n {
				t.Errorf("page %d has %d of %d", i, m, p.Keys[0].Waiting)
			}
		}
	}
	table, all := crowd(3 * maxPage)
	got, _ := looks(t, table, Inspection{Key: "a", Most: MaxWaiters}, func(page int) {
		last := page*maxPage - 2 // the holder was told, too
		table.Step(goes(last), nil)
	})
	if !slices.Equal(got, all) {
		t.Errorf("of %d waiters %d are told, though none of them was told after it had gone", len(all), len(got))
	}
	if got, _ := looks(t, table, Inspection{Key: "a", Most: maxPage + 3}, func(int) {}); len(got) != maxPage+3 {
		t.Errorf("%d are told, and so many were not wanted", len(got))
	}
}

// Promise: P48: a page costs no more where the waiter at which the one before ended is gone, and thousands are before it.
func TestAPageLooksAtFew(t *testing.T) {
	table, all := crowd(3 * maxVisits)
	q := Inspection{Key: "a", Most: MaxWaiters}
	var told []string
	for n := 0; ; n++ {
		p := page{t: table}
		p.one(q)
		if p.visits > maxVisits || p.told > maxPage {
			t.Fatalf("page %d looks at %d, and tells %d", n, p.visits, p.told)
		}
		for _, w := range p.Keys[0].Waiters {
			told = append(told, w.Name)
		}
		if q.After = p.Next; !p.More {
			break
		}
		if len(told) > 2*maxVisits && n%5 == 0 {
			table.Step(goes(len(told)-1), nil)
		}
	}
	if !slices.Equal(told, all) {
		t.Errorf("%d of %d are told", len(told), len(all))
	}
}

// Promise: P48: a quiet table has no order in which a waiter's place could be found: if the one is gone at which a page ended, the
// lists are read again.
func TestPagesOfAQuietTable(t *testing.T) {
	table := NewTable(Founding{Check: true, Settles: time.Minute})
	for i := range 2 * maxPage {
		table.Step(comes(i), nil)
	}
	q := Inspection{Key: "a", Most: MaxWaiters}
	q.After = table.Inspect(q, 0).Next
	if p := table.Inspect(q, 0); p.Again || len(p.Keys[0].Waiters) != maxPage {
		t.Errorf("the second page is %+v", p.Keys[0].Waiters)
	}
	table.Step(goes(maxPage-1), nil)
	if p := table.Inspect(q, 0); !p.Again || p.More {
		t.Errorf("without the last one: %t, %t", p.Again, p.More)
	}
}

// Promise: P48: a list has each key that is in use all the time once, also if those at which its pages end are gone by then, and in a
// table that was restored from a snapshot meanwhile. Few matches cost no more than many.
func TestPagesOfKeys(t *testing.T) {
	for _, restores := range []bool{false, true} {
		table := newTable()
		var all []string
		for i := range 2*maxVisits + 100 {
			key := fmt.Sprint("k", i)
			if i%3 == 0 {
				key = fmt.Sprint("other", i)
			} else {
				all = append(all, key)
			}
			table.Step(lock("ann", uint64(i+1), key), nil)
		}
		var last string
		got, pages := looks(t, table, Inspection{Key: "k", List: true}, func(int) {})
		if !slices.Equal(got, all) {
			t.Fatalf("%d of %d keys are told", len(got), len(all))
		}
		for i, p := range pages {
			if len(p.Keys) > maxPage || slices.ContainsFunc(p.Keys, func(k KeyState) bool { return !strings.HasPrefix(k.Key, "k") || len(k.Holders) != 1 }) {
				t.Errorf("page %d has %d keys", i, len(p.Keys))
			}
		}
		if _, pages := looks(t, table, Inspection{Key: "nobody", List: true}, func(int) {}); len(pages) != 3 {
			t.Errorf("a list of nothing has %d pages", len(pages))
		}
		q, number := Inspection{Key: "k", List: true}, uint64(1<<20)
		got = nil
		for {
			p := table.Inspect(q, 0)
			for _, k := range p.Keys {
				got = append(got, k.Key)
				last = k.Key
			}
			if q.After = p.Next; !p.More {
				break
			}
			if number++; number%4 == 0 {
				table.Step(release("ann", number, last, table.keys[last].holders.first().token), nil)
			}
			if restores && number%8 == 0 {
				cut := table.Cut()
				table.Step(lock("bob", number, all[len(all)-1]), nil) // it comes first in the snapshot
				image, _ := cut.Next(1 << 30)
				table = restored(t, image)
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("restores %t: %d of %d keys are told, though each was in use when it was told", restores, len(got), len(all))
		}
	}
}

// Promise: P48: a page is not much longer than its limit, whatever values there are.
func TestPagesAreShort(t *testing.T) {
	table := newTable()
	for i := range 100 {
		a := lock("ann", uint64(i+1), "s")
		a.Kind, a.Weight, a.Capacity, a.Value = Semaphore, 1, 100, make([]byte, MaxValue)
		table.Step(a, nil)
	}
	_, pages := looks(t, table, Inspection{Key: "s", Most: MaxWaiters}, func(int) {})
	n := 0
	for i, p := range pages {
		held, size := p.Keys[0].Holders, 0
		for _, h := range held {
			size += len(h.Value)
		}
		if n += len(held); size > maxPageBytes+MaxValue {
			t.Errorf("page %d has %d bytes", i, size)
		}
	}
	if n != 100 || len(pages) < 6 {
		t.Errorf("%d holders in %d pages", n, len(pages))
	}
}

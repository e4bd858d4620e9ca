package members

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// lister is a bench that plays a client of a core of b, c and d (2, 3 and 4), which are connected.
type lister struct {
	*bench
	queries []SendQuery
	listed  []Listed
	number  uint64
}

func newLister(t *testing.T) *lister {
	l := &lister{bench: alone(t)}
	l.clientOf(1, node("b", 2), node("c", 3), node("d", 4))
	for i, name := range []string{"b", "c", "d"} {
		l.connects(node(name, transport.ID(i+2)))
	}
	l.pass(time.Second)
	return l
}

func (l *lister) heed(out []Output) {
	for _, o := range append(out, l.m.Tick(l.now, nil)...) {
		switch o := o.(type) {
		case SendQuery:
			l.queries = append(l.queries, o)
		case Listed:
			l.listed = append(l.listed, o)
		}
	}
}

// lists begins a listing.
func (l *lister) lists() {
	number, out := l.m.List(l.now, nil)
	l.number = number
	l.heed(out)
}

// wait lets time pass.
func (l *lister) wait(d time.Duration) {
	for end := l.now + d; ; {
		at := l.m.Deadline()
		if at > end {
			l.now = end
			return
		}
		l.now = max(l.now, at)
		l.heed(nil)
		if l.m.Deadline() <= l.now {
			l.t.Fatalf("it has something to do at %v after Tick at %v", l.m.Deadline(), l.now)
		}
	}
}

// asked returns who was asked since the last call, and for the members after which one.
func (l *lister) asked() (all []string) {
	for _, s := range l.queries {
		var q query
		if err := wire.Unmarshal(s.Body, &q, maxPage, 16); err != nil || q.Number != l.number {
			l.t.Fatalf("query %+v, %v", q, err)
		}
		all = append(all, fmt.Sprintf("%d after %d", uint64(s.To), uint64(q.After)))
	}
	l.queries = nil
	return all
}

// answer lets a node of the core answer.
func (l *lister) answer(from, after transport.ID, more bool, all ...listed) {
	out, err := l.m.Page(l.now, from, wire.Marshal(page{l.number, after, all, more}), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	l.heed(out)
}

// result is what the listing says: names, in capitals if alive; "" while it lasts.
func (l *lister) result() (text string) {
	for _, o := range l.listed {
		for _, m := range o.Members {
			text += fmt.Sprintf("%s=%d", m.Name, uint64(m.ID))
			if m.State == env.Dead {
				text += "(dead)"
			}
			text += " "
		}
	}
	return text
}

func alive(name string, id transport.ID) listed { return listed{node(name, id), true} }
func dead(name string, id transport.ID) listed  { return listed{node(name, id), false} }

// Promise: C1: a client learns all members from the core: each node of the core tells those that it is connected with.
func TestListing(t *testing.T) {
	b, c, d := alive("b", 2), alive("c", 3), alive("d", 4)
	for _, tt := range []struct {
		name string
		then func(l *lister)
		want string
	}{
		{"all have answered", func(l *lister) {
			l.answer(2, 0, false, b, c, d, alive("x", 9))
			l.answer(3, 0, false, b, c, d, alive("x", 9))
			l.answer(4, 0, false, b, c, d, alive("y", 8))
		}, "b=2 c=3 d=4 x=9 y=8 "},
		{"one of three has answered", func(l *lister) {
			l.answer(2, 0, false, b, c, d)
			l.wait(time.Minute)
		}, ""},
		{"two of three have, and the third has had time for it", func(l *lister) {
			l.answer(2, 0, false, b, c, dead("d", 4))
			l.answer(3, 0, false, b, c, dead("d", 4))
			l.wait(listPatience)
		}, "b=2 c=3 d=4(dead) "},
		{"the third has a moment left", func(l *lister) {
			l.answer(2, 0, false, b, c)
			l.answer(3, 0, false, b, c)
			l.wait(listPatience - 1)
		}, ""},
		{"the third is not connected", func(l *lister) {
			l.parts(node("d", 4), transport.Lost)
			l.answer(2, 0, false, b, c)
			l.answer(3, 0, false, b, c)
		}, "b=2 c=3 "},
		{"a second copy of an answer counts once", func(l *lister) {
			l.answer(2, 0, false, b)
			l.answer(2, 0, false, alive("z", 7))
			l.answer(3, 0, false, b)
			l.answer(4, 0, false, b)
		}, "b=2 "},
		{"a page that was not asked for", func(l *lister) {
			l.answer(9, 0, false, alive("z", 7))
			l.answer(2, 5, false, alive("z", 7))
			l.answer(2, 0, false, b)
			l.answer(3, 0, false, b)
			l.answer(4, 0, false, b)
		}, "b=2 "},
		{"of two of one name the one counts that most are connected with", func(l *lister) {
			l.answer(2, 0, false, b, alive("x", 8))
			l.answer(3, 0, false, b, alive("x", 9))
			l.answer(4, 0, false, b, alive("x", 9))
		}, "b=2 x=9 "},
		{"its caller has gone", func(l *lister) {
			l.m.Unlist(l.number)
			l.answer(2, 0, false, b)
			l.answer(3, 0, false, b)
			l.answer(4, 0, false, b)
		}, ""},
	} {
		l := newLister(t)
		l.lists()
		if got, want := l.asked(), []string{"2 after 0", "3 after 0", "4 after 0"}; !slices.Equal(got, want) {
			t.Errorf("%s: it asks %q, want %q", tt.name, got, want)
		}
		if tt.then(l); l.result() != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, l.result(), tt.want)
		}
	}
}

// A question without an answer is asked again, where the last answer ended.
func TestListingAsksAgain(t *testing.T) {
	l := newLister(t)
	l.lists()
	l.asked()
	l.answer(2, 0, true, alive("b", 2), alive("c", 3))
	if got, want := l.asked(), []string{"2 after 3"}; !slices.Equal(got, want) {
		t.Errorf("it asks %q, want %q", got, want)
	}
	l.wait(listPause)
	if got, want := l.asked(), []string{"3 after 0", "4 after 0", "2 after 3"}; len(got) != 3 || !slices.Contains(got, want[2]) {
		t.Errorf("later it asks %q, want %q", got, want)
	}
	l.answer(2, 3, false, alive("x", 9))
	l.answer(3, 0, false)
	if l.answer(4, 0, false); l.result() != "b=2 c=3 x=9 " {
		t.Errorf("it lists %q", l.result())
	}
	if l.m.listAt() != env.Never {
		t.Error("it goes on")
	}
}

// Promise: C1: however many members there are, an answer has 200 at most, and all are told, each once. A client answers nobody.
func TestPages(t *testing.T) {
	const clients = 2*pageSize + 7
	b := newBench(t, 1)
	for i := range clients {
		b.connects(node(fmt.Sprint("x", i), transport.ID(100+i)))
	}
	gone := node("gone", 99)
	b.connects(gone)
	b.parts(gone, transport.Lost)
	b.seat(node("far", 50))
	seen, after, pages := make(map[transport.ID]bool), transport.ID(0), 0
	for more := true; more; pages++ {
		out, err := b.m.Query(b.now, 9, wire.Marshal(query{3, after}), nil)
		if err != nil || len(out) != 1 || out[0].(SendPage).To != 9 {
			t.Fatalf("Query = %+v, %v", out, err)
		}
		var p page
		if err := wire.Unmarshal(out[0].(SendPage).Body, &p, maxPage, pageSize); err != nil || p.check() != nil || p.Number != 3 || p.After != after {
			t.Fatalf("page %d: %v, %v", pages, err, p.check())
		}
		for _, o := range p.Members {
			if seen[o.ID] || o.Alive != (o.ID != 50) {
				t.Fatalf("it tells of %+v", o)
			}
			seen[o.ID], after = true, o.ID
		}
		more = p.More
	}
	if len(seen) != clients+2 || pages != 3 || seen[99] || !seen[self] {
		t.Errorf("%d members in %d pages", len(seen), pages)
	}
	l := newLister(t)
	if out, err := l.m.Query(l.now, 2, wire.Marshal(query{3, 0}), nil); err != nil || len(out) != 0 {
		t.Errorf("a client answers %+v, %v", out, err)
	}
	// A node of the core counts itself.
	number, out := b.m.List(b.now, nil)
	if len(out) == 0 {
		out = b.m.Tick(b.now, nil)
	}
	if number == 0 || len(out) != 0 {
		t.Errorf("one of two with a seat lists alone: %+v", out)
	}
}

// A listing has so many members at most.
func TestTheLongestListing(t *testing.T) {
	l := &listing{found: make(map[transport.ID]*found)}
	a := &asking{}
	for id := transport.ID(1); !a.done; id++ {
		l.take(a, page{Members: []listed{alive(fmt.Sprint(id), id)}, More: true})
	}
	if len(l.members()) != maxListed {
		t.Errorf("%d members", len(l.members()))
	}
}

// A malformed query or page is an error, and changes nothing.
func TestMalformedListings(t *testing.T) {
	l := newLister(t)
	l.lists()
	long := make([]byte, 256)
	for name, body := range map[string][]byte{
		"nothing":            nil,
		"no number":          wire.Marshal(page{0, 0, nil, false}),
		"out of order":       wire.Marshal(page{1, 0, []listed{alive("b", 3), alive("c", 2)}, false}),
		"not above the last": wire.Marshal(page{1, 3, []listed{alive("b", 3)}, false}),
		"more than nothing":  wire.Marshal(page{1, 0, nil, true}),
		"a long name":        wire.Marshal(page{1, 0, []listed{alive(string(long), 3)}, false}),
		"something else":     wire.Marshal(query{1, 0}),
	} {
		if out, err := l.m.Page(l.now, 2, body, nil); !errors.Is(err, wire.ErrMalformed) || len(out) > 0 {
			t.Errorf("a page: %s: %v, %+v", name, err, out)
		}
	}
	for name, body := range map[string][]byte{
		"nothing": nil, "no number": wire.Marshal(query{0, 1}), "something else": wire.Marshal(page{1, 0, nil, false}),
	} {
		if out, err := l.m.Query(l.now, 2, body, nil); !errors.Is(err, wire.ErrMalformed) || len(out) > 0 {
			t.Errorf("a query: %s: %v, %+v", name, err, out)
		}
	}
}

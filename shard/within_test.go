package shard

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
)

// inner returns cmd of a caller whose context comes from grants of these tokens, all of shard 3.
func inner(cmd Command, tokens ...uint64) Within {
	w := Within{Command: cmd, Detects: true}
	for _, token := range tokens {
		w.Grants = append(w.Grants, Grant{3, token})
	}
	return w
}

// waiting asks who waits within grants of these tokens, and returns for each "bob b 9 for ann=2": who waits, for what, within what, and who holds that.
func waiting(table *Table, tokens ...uint64) string {
	p := table.Inspect(Inspection{Within: inner(nil, tokens...).Grants}, 0)
	var all []string
	for _, w := range p.Waits {
		text := fmt.Sprintf("%s %s", w.Name, w.Key)
		for _, g := range w.Within {
			text += fmt.Sprintf(" %d", g.Token)
		}
		text += " for"
		for _, h := range w.Holders {
			text += fmt.Sprintf(" %s=%d", h.Name, h.Token)
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// Promise: P50: a table tells who waits within a grant, for as long as it waits, whatever it waits for. So does a table that was restored.
func TestWhoWaitsWithinAGrant(t *testing.T) {
	tests := []struct {
		name  string
		given []Command
		want  string
	}{
		{"a request that waits", []Command{inner(lock("bob", 1, "a"), 90)}, "bob a 90 for ann=2"},
		{"a request that waits within several", []Command{inner(lock("bob", 1, "a"), 90, 91)}, "bob a 90 91 for ann=2"},
		{"two that wait within one, for two keys", []Command{inner(lock("bob", 1, "a"), 90), lock("eve", 1, "b"), inner(lock("bob", 2, "b"), 90)}, "bob a 90 for ann=2; bob b 90 for eve=5"},
		{"one that waits within another grant", []Command{inner(lock("bob", 1, "a"), 92)}, ""},
		{"one of another shard's grant of that token", []Command{Within{lock("bob", 1, "a"), []Grant{{4, 90}}, true}}, ""},
		{"one that waits within none", []Command{lock("bob", 1, "a")}, ""},
		{"one that is granted at once", []Command{inner(lock("bob", 1, "b"), 90)}, ""},
		{"one that is granted later", []Command{inner(lock("bob", 1, "a"), 90), release("ann", 2, "a", 2)}, ""},
		{"one that gives up", []Command{inner(lock("bob", 1, "a"), 90), cancel("bob", 2, 1)}, ""},
		{"one whose session ends", []Command{inner(lock("bob", 1, "a"), 90), Close{id("bob"), 2}}, ""},
		{"one of two that gives up", []Command{inner(lock("bob", 1, "a"), 90), inner(lock("eve", 1, "a"), 90, 91), cancel("bob", 2, 1)}, "eve a 90 91 for ann=2"},
		{"one that was asked for twice", []Command{inner(lock("bob", 1, "a"), 90), inner(lock("bob", 1, "a"), 90)}, "bob a 90 for ann=2"},
		{"one that is refused", []Command{inner(permits("bob", 1, "a", 1, 2), 90)}, ""},
		{"an operation", []Command{update("eve", 1), inner(update("bob", 1), 90)}, "bob r 90 for eve=4"},
		{"a candidate", []Command{campaign("eve", 1, "v"), inner(campaign("bob", 1, "v"), 90)}, "bob e 90 for eve=4"},
		{"one that waits for readers", []Command{read("eve", 1, "b"), read("fay", 1, "b"), inner(lock("bob", 1, "b"), 90)}, "bob b 90 for eve=4 fay=6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			table.Step(lock("ann", 1, "a"), nil)
			for _, cmd := range tt.given {
				table.Step(cmd, nil)
			}
			for i, table := range []*Table{table, restored(t, imageOf(table))} {
				if got := waiting(table, 90, 91); got != tt.want {
					t.Errorf("restored %d times: %q, want %q", i, got, tt.want)
				}
			}
			table.Step(Close{id("bob"), 9}, nil)
			table.Step(Close{id("eve"), 9}, nil)
			if len(table.scopes) != 0 {
				t.Errorf("it remembers %v", table.scopes)
			}
		})
	}
}

// Promise: P50, C8: what a request waits within is reported with it to another table.
func TestWaitsAreReportedWithWhatTheyAreWithin(t *testing.T) {
	table := NewTable(Founding{Check: true, Settles: time.Minute})
	table.Enter(thisTerm, 0)
	table.Step(inner(waited("bob", 1, "a", 1), 90), nil)
	if got := waiting(table, 90); got != "bob a 90 for" {
		t.Errorf("%q", got)
	}
}

// What is told of a key is how much of it must be free: a reader behind a writer waits for all of it.
func TestHowMuchAWaitNeeds(t *testing.T) {
	for _, tt := range []struct {
		name            string
		given           []Command
		needs, capacity int64
	}{
		{"a writer", []Command{read("ann", 1, "k"), inner(lock("bob", 1, "k"), 90)}, Whole, Whole},
		{"a reader", []Command{lock("ann", 1, "k"), inner(read("bob", 1, "k"), 90)}, 1, Whole},
		{"a reader behind a writer", []Command{read("ann", 1, "k"), lock("eve", 1, "k"), inner(read("bob", 1, "k"), 90)}, Whole, Whole},
		{"permits", []Command{permits("ann", 1, "k", 3, 5), inner(permits("bob", 1, "k", 3, 5), 90)}, 3, 5},
		{"permits behind many", []Command{permits("ann", 1, "k", 3, 5), permits("eve", 1, "k", 4, 5), inner(permits("bob", 1, "k", 1, 5), 90)}, 4, 5},
		{"permits after a resize", []Command{
			permits("ann", 1, "k", 3, 5), inner(permits("bob", 1, "k", 3, 5), 90), Resize{Call: call("ann", 2), TTL: ttl, Name: "ann", Key: "k", From: 5, To: 4},
		}, 3, 4},
		{"a barrier", []Command{inner(waitsAt("bob", 1, "k", Barrier, 3), 90)}, 3, 3},
	} {
		table := newTable()
		for _, cmd := range tt.given {
			table.Step(cmd, nil)
		}
		p := table.Inspect(Inspection{Within: []Grant{{3, 90}}}, 0)
		if len(p.Waits) != 1 || p.Waits[0].Needs != tt.needs || p.Waits[0].Capacity != tt.capacity || !p.Waits[0].Detects || p.Waits[0].Session != id("bob") {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
}

// Promise: P50: an answer is one page, however many wait and hold: the rest is not told.
func TestAnAnswerOfWaitsIsBounded(t *testing.T) {
	table := newTable()
	for i := range 2 * maxHolding {
		table.Step(read("ann", uint64(i+1), "k"), nil)
	}
	for i := range 2 * maxPage {
		w := inner(comes(i), 90)
		a := w.Command.(Acquire)
		a.Key = "k"
		w.Command = a
		table.Step(w, nil)
	}
	p := table.Inspect(Inspection{Within: []Grant{{3, 90}}}, 0)
	told := 0
	for _, w := range p.Waits {
		if told += 1 + len(w.Holders); len(w.Holders) != maxHolding || w.Holders[0].Token != 2 || w.Holders[1].Token != 4 {
			t.Fatalf("%d holders are told, the first of them %+v", len(w.Holders), w.Holders[:2])
		}
	}
	if told > maxPage+maxHolding || !p.More {
		t.Errorf("%d waits of %d elements, more: %v", len(p.Waits), told, p.More)
	}
}

func TestWaitsTravel(t *testing.T) {
	begin := Begin{Call: call("ann", 1), TTL: ttl, Name: "ann", Key: "k", Operation: Operation{Op: Run}}
	most := inner(lock("ann", 1, "k"))
	for i := range MaxWithin {
		most.Grants = append(most.Grants, Grant{maxShards - 1, maxRevision - uint64(i)})
	}
	for _, cmd := range []Within{inner(lock("ann", 1, "k"), 9), {begin, []Grant{{0, 1}, {1, 1}}, false}, inner(waited("ann", 1, "k", 2), 9), most} {
		b := AppendCommand(nil, cmd)
		r := wire.NewReader(b)
		if got := ReadCommand(r); r.End() != nil || !reflect.DeepEqual(got, cmd) {
			t.Errorf("%+v came back as %+v, error %v", cmd, got, r.Err())
		}
		for i := range b {
			r := wire.NewReader(b[:i])
			if ReadCommand(r); !errors.Is(r.Err(), wire.ErrShort) {
				t.Fatalf("%d of %d bytes: %v", i, len(b), r.Err())
			}
		}
	}
	cmd := inner(begin, 9, 10)
	if got, want := AppendCommand(nil, cmd), slices.Concat(wiretest.Encode(t, []any{wireWithin, []any{3, 9, 3, 10}, true, 0})[:8], AppendCommand(nil, begin)); !bytes.Equal(got, want) {
		t.Errorf("written as %x, want %x", got, want)
	}
	for _, tt := range []struct {
		name string
		cmd  Within
		want string
	}{
		{"within nothing", inner(lock("ann", 1, "k")), "within nothing"},
		{"a grant twice", inner(lock("ann", 1, "k"), 9, 9), "a grant twice"},
		{"no token", inner(lock("ann", 1, "k"), 0), "without a token"},
		{"a token of the future", inner(lock("ann", 1, "k"), maxRevision+1), "number too large"},
		{"a shard that there is not", Within{lock("ann", 1, "k"), []Grant{{maxShards, 1}}, false}, "number too large"},
		{"too many", Within{lock("ann", 1, "k"), append(slices.Clone(most.Grants), Grant{1, 1}), false}, "too many elements"},
		{"a try", inner(try(lock("ann", 1, "k")), 9), "a try that waits"},
		{"the report of a hold", inner(Report{Call: call("ann", 1), Key: "k", Weight: 1, Capacity: Whole, Earlier: Earlier{Token: 3, Known: 3}}, 9), "a hold that waits"},
		{"another command", inner(Close{id("ann"), 1}, 9), "another command"},
		{"twice", inner(inner(lock("ann", 1, "k"), 9), 9), "a wait within a wait"},
		{"of a guest", inner(tagged(lock("ann", 1, "k"), "x"), 9), "a tag of a tag"},
	} {
		r := wire.NewReader(AppendCommand(nil, tt.cmd))
		if ReadCommand(r); r.Err() == nil || !strings.Contains(r.Err().Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, r.Err(), tt.want)
		}
	}
}

// sometimesWithin lets every third request wait within some grants.
func sometimesWithin(i int, cmd Command) Command {
	waits := false
	switch c := cmd.(type) {
	case Acquire:
		waits = !c.Try
	case Begin:
		waits = true
	case Report:
		waits = c.Token == 0
	}
	if !waits || i%3 != 0 {
		return cmd
	}
	return Within{cmd, []Grant{{i % 5, uint64(1 + i%7)}, {i % 5, 99}}, i%2 == 0}
}

// checkScopes compares what a table knows of grants with what its requests wait within.
func checkScopes(t *testing.T, table *Table) {
	t.Helper()
	links, want := 0, 0
	for g, l := range table.scopes {
		for r := l.first(); r != nil; r = r.scope.after(g) {
			if links++; r.token != 0 || table.sessions[r.session.id].requests[r.number] != r {
				t.Fatalf("request %d of %v is told to wait within %v", r.number, r.session.id, g)
			}
		}
	}
	for _, s := range table.sessions {
		for _, r := range s.requests {
			if r.scope != nil {
				want += len(r.scope.grants)
			}
		}
	}
	if links != want {
		t.Fatalf("the lists have %d requests, want %d", links, want)
	}
}

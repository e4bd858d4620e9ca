package members

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

const testShards = 4

func TestAStatusTravels(t *testing.T) {
	want := Report{Led: []int{0, 3}, Rest: []int{3}, Follows: []int{1}, Voters: []Voter{{7, "a"}, {99, "b"}}, Counted: []Voter{{8, "c"}}, Quiet: []Quiet{{3, time.Minute}}, Rival: Rival{9, "d:1", true}}
	voters := []any{[]any{7, "a"}, []any{99, "b"}}
	body := wiretest.Encode(t, []any{[]any{0, 3}, []any{3}, []any{1}, voters, []any{[]any{8, "c"}}, []any{[]any{3, uint64(time.Minute)}}, []any{9, "d:1", true}})
	if got, err := readStatus(body, testShards); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got := wire.Marshal(want); !slices.Equal(got, body) {
		t.Errorf("%x, want %x", got, body)
	}
}

// Promise: P23: a status that names a shard that there is not, a vote of no node, or a name that is too long, or that is
// not in its one form, ends the connection and changes nothing.
func TestMalformedStatuses(t *testing.T) {
	none := []any{0, "", false} // no rival
	all := func(fields ...any) []byte { return wiretest.Encode(t, fields) }
	status := func(fields ...any) []byte { return all(append(fields, none)...) }
	name := strings.Repeat("n", shard.MaxName+1)
	many := func(n int, of any) (all []any) { return slices.Repeat([]any{of}, n) }
	for wrong, body := range map[string][]byte{
		"empty":                        nil,
		"nothing":                      {0xc0},
		"no fields":                    {0x90},
		"a field too many":             status(nil, nil, nil, nil, nil, nil, none),
		"a field too few":              status(nil, nil, nil, nil, nil),
		"more behind it":               append(status(nil, nil, nil, nil, nil, nil), 0xc0),
		"a map":                        {0x81, 0xa3, 'L', 'e', 'd', 0xc0},
		"another form of a number":     {0x97, 0x91, 0xcc, 1, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0x93, 0, 0xa0, 0xc2},
		"a list that is not there":     {0x97, 0xc0, 0xc0, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"it leads a shard too high":    status([]any{testShards}, nil, nil, nil, nil, nil),
		"it leads a shard below zero":  {0x97, 0x91, 0xff, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0x93, 0, 0xa0, 0xc2},
		"it leads too many shards":     status(many(testShards+1, 0), nil, nil, nil, nil, nil),
		"one at rest is too high":      status(nil, []any{testShards}, nil, nil, nil, nil),
		"it follows a shard too high":  status(nil, nil, []any{testShards}, nil, nil, nil),
		"a vote of node zero":          status(nil, nil, nil, []any{[]any{0, ""}}, nil, nil),
		"half a vote":                  status(nil, nil, nil, []any{[]any{1}}, nil, nil),
		"a voter with a long name":     status(nil, nil, nil, []any{[]any{1, name}}, nil, nil),
		"one is counted of node zero":  status(nil, nil, nil, nil, []any{[]any{0, "b"}}, nil),
		"one is counted of long name":  status(nil, nil, nil, nil, []any{[]any{1, name}}, nil),
		"too many votes":               status(nil, nil, nil, many(maxVoters+1, []any{1, ""}), nil, nil),
		"a quiet shard too high":       status(nil, nil, nil, nil, nil, []any{[]any{testShards, 1}}),
		"a quiet shard below zero":     {0x97, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0x91, 0x92, 0xff, 1, 0x93, 0, 0xa0, 0xc2},
		"it was quiet":                 status(nil, nil, nil, nil, nil, []any{[]any{1, 0}}),
		"quiet for longer than any":    status(nil, nil, nil, nil, nil, []any{[]any{1, uint64(shard.MaxDuration) + 1}}),
		"too many quiet shards":        status(nil, nil, nil, nil, nil, many(testShards+1, []any{1, 1})),
		"half a rival":                 all(nil, nil, nil, nil, nil, nil, []any{1}),
		"a rival at a long address":    all(nil, nil, nil, nil, nil, nil, []any{1, name, true}),
		"more bytes than there may be": make([]byte, maxStatus+1),
	} {
		b := newBench(t, testShards)
		b.comes(node("b", 2))
		b.clear()
		before := b.m.Health()
		b.status(2, body)
		if len(b.words) != 1 || !strings.HasPrefix(b.words[0], "drop 2: ") || !strings.Contains(b.words[0], wire.ErrMalformed.Error()) {
			t.Errorf("%s: it asks for %q", wrong, b.words)
		}
		if len(b.m.statuses) > 0 || len(b.sent)+len(b.drawn) > 0 || !reflect.DeepEqual(b.m.Health(), before) {
			t.Errorf("%s: it counts", wrong)
		}
	}
	for right, body := range map[string][]byte{
		"of all shards":     status(many(testShards, 0), many(testShards, testShards-1), many(testShards, 0), nil, nil, nil),
		"of a long name":    status(nil, nil, nil, nil, []any{[]any{1, name[1:]}}, nil),
		"of the most quiet": status(nil, nil, nil, nil, nil, many(testShards, []any{testShards - 1, uint64(shard.MaxDuration)})),
		"of the most votes": status(nil, nil, nil, many(maxVoters, []any{1, ""}), many(maxVoters, []any{1, ""}), nil),
	} {
		if _, err := readStatus(body, testShards); err != nil {
			t.Errorf("%s: %v", right, err)
		}
	}
}

// FuzzStatus feeds a machine with whatever a peer may send.
func FuzzStatus(f *testing.F) {
	f.Add(wiretest.Encode(f, []any{[]any{0, 3}, []any{3}, nil, []any{[]any{7, "a"}}, nil, []any{[]any{0, 1}}, []any{0, "", false}}))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newBench(t, testShards)
		b.comes(node("b", 2))
		b.status(2, body)
		b.pass(time.Second)
		if r, err := readStatus(body, testShards); err == nil && !slices.Equal(wire.Marshal(r), body) {
			t.Errorf("%x is read as %+v", body, r)
		}
	})
}

// A status goes to each node of the core that is connected: in every second, or, in a large core, in 20 ms for each of
// them; at once when this node has something new, and to one that reports for the first time.
func TestWhenAStatusIsSent(t *testing.T) {
	to := func(b *bench) (all []transport.ID) {
		for _, s := range b.sent {
			all = append(all, s.To)
		}
		b.sent = nil
		return all
	}
	b := newBench(t, testShards)
	b.comes(node("b", 2))
	b.comes(node("c", 3))
	b.gossips(node("d", 4), env.Alive) // who is not connected
	b.pass(statusEvery)
	to(b)
	for range 3 {
		b.pass(statusEvery - 1)
		if got := to(b); len(got) > 0 {
			t.Errorf("in less than a second it is sent to %v", got)
		}
		b.pass(1)
		if got := to(b); !slices.Equal(got, []transport.ID{2, 3}) {
			t.Errorf("in a second it is sent to %v", got)
		}
	}
	b.pass(statusEvery / 2)
	b.reports(led(1))
	if got := to(b); !slices.Equal(got, []transport.ID{2, 3}) {
		t.Errorf("what is new is sent to %v", got)
	}
	b.hears(node("c", 3), Report{})
	if got := to(b); !slices.Equal(got, []transport.ID{3}) {
		t.Errorf("to the new member it is sent: %v", got)
	}
	b.hears(node("c", 3), Report{})
	b.hears(node("d", 4), Report{})
	if got := to(b); len(got) > 0 {
		t.Errorf("to members that have it, or are not connected, it is sent: %v", got)
	}
	for i := range transport.ID(98) {
		x := node(fmt.Sprint("x", i), 100+i)
		b.comes(x)
		b.hears(x, Report{})
	}
	for _, x := range b.seats[1:] {
		b.hears(x, Report{})
	}
	b.pass(2 * statusEvery)
	to(b)
	b.pass(2*statusEvery - 1)
	one := to(b)
	b.pass(1)
	if two := to(b); len(one)+len(two) != 100 {
		t.Errorf("in a core of 101 it is sent in two seconds to %d and %d", len(one), len(two))
	}
}

// Promise: P15, P30: a status says what the node's replicas are; of the shards that the node follows those whose
// leaders have reported to it, and the voters that these leaders count.
func TestWhatAStatusSays(t *testing.T) {
	b := newBench(t, testShards)
	leader, another, follower := node("b", 2), node("c", 3), node("d", 4)
	b.comes(follower)
	b.reports(Report{Led: []int{2, 0}, Rest: []int{0}, Voters: []Voter{{1, "a"}, {4, "d"}}, Follows: []int{3}})
	said := func() Report {
		t.Helper()
		r, err := readStatus(b.sent[len(b.sent)-1].Body, testShards)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := Report{Led: []int{2, 0}, Rest: []int{0}, Voters: []Voter{{1, "a"}, {4, "d"}}}
	if got := said(); !reflect.DeepEqual(got, want) {
		t.Errorf("it says %+v, want %+v", got, want)
	}
	b.comes(leader)
	b.comes(another)
	b.hears(leader, Report{Led: []int{3}, Voters: []Voter{{8, "x"}, {2, "b"}}})
	b.hears(another, Report{Led: []int{3, 0}, Voters: []Voter{{9, "y"}}}) // it has not heard of its end yet
	b.hears(follower, Report{Follows: []int{3}, Voters: []Voter{{7, "z"}}, Counted: []Voter{{6, "z"}}})
	b.pass(statusEvery)
	want.Follows, want.Counted = []int{3}, []Voter{{2, "b"}, {8, "x"}}
	if got := said(); !reflect.DeepEqual(got, want) {
		t.Errorf("with the leader's word it says %+v, want %+v", got, want)
	}
}

// What a node reports is compared but for what it never says.
func TestReportsAreCompared(t *testing.T) {
	r := Report{Led: []int{1}, Rest: []int{1}, Follows: []int{2}, Voters: []Voter{{1, "a"}}}
	if !r.Equal(r) || !(Report{}).Equal(Report{Led: []int{}}) {
		t.Error("a report is not equal to itself")
	}
	for _, other := range []Report{
		{Rest: r.Rest, Follows: r.Follows, Voters: r.Voters},
		{Led: r.Led, Follows: r.Follows, Voters: r.Voters},
		{Led: r.Led, Rest: r.Rest, Voters: r.Voters},
		{Led: r.Led, Rest: r.Rest, Follows: r.Follows},
		{Led: r.Led, Rest: r.Rest, Follows: r.Follows, Voters: []Voter{{1, "b"}}},
	} {
		if r.Equal(other) || other.Equal(r) {
			t.Errorf("%+v is equal to %+v", other, r)
		}
	}
}

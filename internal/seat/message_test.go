package seat

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

var (
	someCard = card{
		Member: env.Member{ID: 1, Name: "ann", Addr: "a:1", Zone: "z"}, List: []string{"a:1", "b:1"},
		Wants: founding.Options{MeshName: "blue", Shards: 2, Replicas: 2, MaxTTL: time.Minute, LeaseTTL: time.Second},
	}
	someBallot = core.Ballot{Round: 7, By: 1}
	someTable  = &core.Table{
		Stamp: core.Stamp{Roll: core.Ballot{Round: 6, By: 2}}, Mesh: 1 << 63,
		Params: founding.Params{MeshName: "blue", Shards: 2, Replicas: 2, MaxTTL: time.Minute, Rho: 100, Raise: time.Hour, Longest: time.Second, Changed: true},
		Seats:  []core.Seat{{Entry: "a:1", Node: env.Member{ID: 1, Name: "ann", Addr: "a:1"}, List: "a:1 b:1"}, {Entry: "b:1", Node: env.Member{ID: 8}, Ended: true}}, Was: "a:1",
		Shards: []core.Shard{
			{Generation: core.Generation{Core: core.Ballot{Round: 6, By: 2}, Number: 4}, Voters: []transport.ID{1, 9}, Next: []transport.ID{1, 1 << 63}, Move: 3},
			{Generation: core.Generation{Core: core.Ballot{Round: 5, By: 9}, Number: 1}, Voters: []transport.ID{9, 1}, Revision: 1 << 50, Quiet: time.Minute, Calm: true},
		},
		Ordered: "a:1 b:1 c:1", Dropped: 9,
	}
	nextTable    = func() *core.Table { t := *someTable; t.Stamp = t.Stamp.Next(); return &t }()
	someMessages = []message{
		told{card: someCard, Answer: true, Roll: someBallot, Refused: someBallot, Released: someBallot, RollAt: someBallot, Withdrawn: someBallot, Known: someTable.Stamp, Heard: core.Mark{Known: someTable.Stamp, Roll: someBallot}, Replaces: 3, Apart: []transport.ID{8, 9}, Unsaved: true, Earlier: time.Hour, Keeps: true, Withdrew: rounds{1, 2}},
		told{card: someCard},
		show{someTable.Stamp},
		shown{pack(someTable)},
		call{core.Call{Ballot: someBallot, List: []string{"a:1", "b:1"}, Roster: []transport.ID{1, 1 << 63}}},
		answer{Ballot: someBallot, card: someCard},
		answer{
			Ballot: someBallot, card: someCard, Report: report{Roll: someBallot, RollAt: someBallot, At: someBallot},
			Table: packOrNone(someTable), Accepted: packOrNone(nextTable), Proposed: packOrNone(someTable),
		},
		propose{pack(someTable)},
		proposed{someBallot},
		read{core.Read{Ballot: someBallot, Prev: someTable.Stamp}},
		value{Read: core.Read{Ballot: someBallot, Prev: someTable.Stamp}},
		value{Read: core.Read{Ballot: someBallot, Prev: someTable.Stamp}, At: someBallot, Accepted: packOrNone(nextTable)},
		write{someBallot, someTable.Stamp, pack(nextTable)},
		written{someBallot, someTable.Stamp},
		confirm{someBallot, pack(someTable), 1 << 50},
		confirmed{someBallot, core.Ballot{Round: 8, By: 2}, []uint64{0, 7}},
		refused{Ballot: someBallot, Promised: someBallot, Known: someTable.Stamp, Why: "no"},
		fence{3, someTable.Shards[0].Generation},
		fenced{3, someTable.Shards[0].Generation, floors{1 << 50, []uint64{5}, time.Hour}},
		order{Number: 3, Era: 1 << 63},
		order{Number: 3, MaxTTL: time.Second},
		outcome{Number: 3, Fault: 1, Why: "not yet", Known: someTable.Stamp},
	}
)

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, m := range someMessages {
		b := encode(m)
		got, err := decode(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("decode(%#v) = %#v, %v", m, got, err)
		}
		for i := range b {
			if _, err := decode(b[:i]); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%T cut to %d of %d bytes: %v", m, i, len(b), err)
			}
		}
		if _, err := decode(append(b, 0)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%T with one more byte: %v", m, err)
		}
	}
	p := pack(someTable)
	equal(t, someTable, p.unpack())
	for k, m := range kinds[1:] {
		is := func(o message) bool { return reflect.TypeOf(o) == reflect.TypeOf(m) }
		holds(t, slices.ContainsFunc(someMessages, is), "no example of kind", k+1)
	}
}

// The largest answer fits a frame: three tables of as many shards as a mesh may have, all of which change
// their voters.
func TestTheLargestAnswerFits(t *testing.T) {
	big := *someTable
	big.Params.Shards, big.Params.Replicas, big.Seats, big.Shards = maxShards, 5, nil, nil
	var ids []transport.ID
	for i := range maxEntries {
		id := transport.ID(1<<63) + transport.ID(i)
		ids = append(ids, id)
		name := strings.Repeat("n", 100)
		big.Seats = append(big.Seats, core.Seat{Entry: fmt.Sprintf("%s%02d:1", name, i), Node: env.Member{ID: id, Name: name, Addr: name, Zone: name}})
	}
	for i := range maxShards {
		big.Shards = append(big.Shards, core.Shard{
			Generation: core.Generation{Core: big.Stamp.Roll, Number: 1 << 20}, Voters: ids[i%59 : i%59+5], Next: ids[(i+7)%59 : (i+7)%59+5], Move: 1 << 20,
		})
	}
	next := big
	next.Stamp = big.Stamp.Next()
	m := someMessages[6].(answer)
	m.Table, m.Accepted, m.Proposed = packOrNone(&big), packOrNone(&next), packOrNone(&big)
	b := encode(m)
	holds(t, len(b) <= transport.MaxFrame-1, "bytes:", len(b))
	got, err := decode(b)
	holds(t, err == nil && reflect.DeepEqual(got, message(m)), err)
}

// Each limit of a message is checked.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", maxString+1)
	table := func(change func(*core.Table)) packed {
		n := *someTable
		n.Seats = append([]core.Seat(nil), n.Seats...)
		n.Shards = append([]core.Shard(nil), n.Shards...)
		change(&n)
		return pack(&n)
	}
	with := func(change func(*packed)) packed {
		p := pack(someTable)
		p.Shards = append([]packedShard(nil), p.Shards...)
		change(&p)
		return p
	}
	for _, tt := range []struct {
		m    message
		want string
	}{
		{told{card: card{List: someCard.List}}, "a member without an ID"},
		{told{card: card{Member: env.Member{ID: 1}}, Entry: "a"}, "an entry of no list"},
		{answer{Ballot: someBallot, card: card{Member: env.Member{ID: 1}}}, "without entries"},
		{told{card: card{Member: env.Member{ID: 1}, List: []string{"b", "a"}}}, "out of order"},
		{told{card: card{Member: env.Member{ID: 1, Name: long}, List: []string{"a"}}}, "too long"},
		{told{card: card{Member: env.Member{ID: 1}, List: []string{"a"}, Wants: founding.Options{Shards: maxShards + 1}}}, "too many shards"},
		{told{card: someCard, Roll: core.Ballot{Round: 1}}, "incomplete ballot"},
		{told{card: someCard, Known: core.Stamp{Version: 1}}, "no ballot"},
		{told{card: someCard, Apart: make([]transport.ID, maxEntries+1)}, "more seats than entries"},
		{told{card: someCard, Earlier: maxQuiet + 1}, "a quiet time out of range"},
		{told{card: someCard, Withdrew: rounds{3, 2}}, "withdrawn rounds out of range"},
		{told{card: someCard, Withdrew: rounds{3, maxNumber + 1}}, "withdrawn rounds out of range"},
		{shown{with(func(p *packed) { p.Seats[0].Node.ID, p.Seats[0].Ended = 0, true })}, "a seat without a node that has ended"},
		{fenced{0, someTable.Shards[0].Generation, floors{Quiet: maxQuiet + 1}}, "a quiet time out of range"},
		{show{}, "no ballot"},
		{show{core.Stamp{Roll: someBallot, Version: maxNumber + 1}}, "a version out of range"},
		{call{core.Call{Ballot: someBallot, List: []string{"a"}}}, "another length"},
		{call{core.Call{Ballot: someBallot, List: []string{"a"}, Roster: []transport.ID{0}}}, "a roster of nobody"},
		{call{core.Call{Ballot: core.Ballot{Round: maxNumber + 1, By: 1}, List: []string{"a"}, Roster: []transport.ID{1}}}, "a round out of range"},
		{answer{Ballot: someBallot, card: someCard, Proposed: packOrNone(someTable)}, "a value without a ballot"},
		{answer{Ballot: someBallot, card: someCard, Report: report{At: someBallot}, Table: packOrNone(someTable), Accepted: packOrNone(someTable)}, "not the next version"},
		{propose{pack(nextTable)}, "with a version"},
		{value{Read: core.Read{Ballot: someBallot, Prev: someTable.Stamp}, At: someBallot}, "a value without a ballot"},
		{write{someBallot, someTable.Stamp, pack(someTable)}, "not the next version"},
		{refused{Ballot: someBallot, Why: strings.Repeat("x", maxText+1)}, "too long"},
		{fence{maxShards, someTable.Shards[0].Generation}, "a shard out of range"},
		{fenced{3, core.Generation{Core: someBallot, Number: maxNumber + 1}, floors{}}, "a shard out of range"},
		{fenced{3, core.Generation{Core: someBallot, Number: 1}, floors{Clock: maxNumber + 1}}, "a revision out of range"},
		{fenced{3, core.Generation{Core: someBallot, Number: 1}, floors{Known: []uint64{maxNumber + 1}}}, "a revision out of range"},
		{fenced{3, core.Generation{Core: someBallot, Number: 1}, floors{Known: make([]uint64, maxShards+1)}}, "revisions of too many shards"},
		{shown{table(func(t *core.Table) { t.Mesh = 0 })}, "a mesh without an ID"},
		{shown{table(func(t *core.Table) { t.Params.MaxTTL = 0 })}, "lacks a parameter"},
		{shown{table(func(t *core.Table) { t.Shards = t.Shards[:1] })}, "not as many shards"},
		{shown{table(func(t *core.Table) { t.Seats = nil })}, "without seats"},
		{shown{table(func(t *core.Table) { t.Seats[1].Entry = "a:1" })}, "seats out of order"},
		{shown{table(func(t *core.Table) { t.Shards[0].Voters = nil })}, "without voters"},
		{shown{table(func(t *core.Table) { t.Shards[0].Voters = []transport.ID{0} })}, "without an ID"},
		{shown{with(func(p *packed) { p.Shards[0].Voters = []uint64{77} })}, "a voter out of range"},
		{shown{with(func(p *packed) { p.Shards[0].Roll = 77 })}, "a shard out of range"},
		{shown{with(func(p *packed) { p.Seats[0].List = 77 })}, "a list out of range"},
		{shown{table(func(t *core.Table) { t.Ordered = strings.Repeat("x", maxList+1) })}, "too long"},
		{shown{table(func(t *core.Table) { t.Was = strings.Repeat("x", maxList+1) })}, "too long"},
		{told{card: card{Member: env.Member{ID: 1}, List: []string{"a b"}}}, "one with a blank"},
		{shown{with(func(p *packed) { p.IDs = append(p.IDs, p.IDs[0]) })}, "named twice"},
	} {
		_, err := decode(encode(tt.m))
		holds(t, errors.Is(err, wire.ErrMalformed) && strings.Contains(err.Error(), tt.want), fmt.Sprintf("%#v: %v, want %q", tt.m, err, tt.want))
	}
	_, err := decode([]byte{byte(len(kinds)), 0x90})
	holds(t, errors.Is(err, wire.ErrMalformed), err)
}

func FuzzDecode(f *testing.F) {
	for _, m := range someMessages {
		f.Add(encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			holds(t, errors.Is(err, wire.ErrMalformed), err)
			return
		}
		again, err := decode(encode(m))
		holds(t, err == nil && reflect.DeepEqual(again, m), err)
		if s, ok := m.(shown); ok {
			p := pack(s.Table.unpack())
			equal(t, s.Table.unpack(), p.unpack())
		}
	})
}

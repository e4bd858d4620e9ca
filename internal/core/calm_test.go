package core

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// Promise: C5: an operator's word is about the generations of which it was said, and of no later ones; it changes nothing else.
func TestCalm(t *testing.T) {
	quiet := func() *Table {
		t := serving("abc", 1, 2, 3)
		t.Shards[0].Quiet = time.Minute
		t.Shards = append(t.Shards, Shard{Generation: Generation{Ballot{1, 1}, 2}, Voters: ids{1, 2}, Quiet: time.Second})
		return t
	}
	table := quiet()
	calm, err := table.Calm(table.Era())
	if err != nil || !calm.Shards[0].Calm || !calm.Shards[1].Calm || calm.Stamp != table.Stamp.Next() || calm.Shards[0].Quiet != time.Minute {
		t.Fatalf("Calm = %+v, %v", calm, err)
	}
	if !reflect.DeepEqual(table, quiet()) {
		t.Errorf("the table before is %+v now", table)
	}
	if _, err := calm.Calm(calm.Era()); !errors.Is(err, errCalm) {
		t.Errorf("once more: %v", err)
	}
	if _, err := serving("abc", 1, 2, 3).Calm(serving("abc", 1, 2, 3).Era()); !errors.Is(err, errCalm) {
		t.Errorf("no shard was ever quiet: %v", err)
	}
	again, err := table.Recover(1, ids{1, 2, 3}, ids{2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := again.Calm(table.Era()); !errors.Is(err, ErrRevived) || n != nil {
		t.Errorf("a shard has begun again since: %v", err)
	}
	later, err := calm.Recover(1, ids{1, 2, 3}, ids{2, 3})
	if err != nil || later.Shards[1].Calm || !later.Shards[0].Calm {
		t.Errorf("a shard that begins again is quiet again: %+v, %v", later, err)
	}
}

// Promise: C5: by a roll call, shards that begin again are quiet again, and those that go on are not.
func TestCalmAndRollCalls(t *testing.T) {
	table := serving("abcd", 1, 2, 3)
	table.Shards[0].Quiet = time.Minute
	table.Shards = append(table.Shards, Shard{Generation: Generation{Ballot{1, 1}, 1}, Voters: ids{3, 4}, Quiet: time.Minute})
	table, err := table.Calm(table.Era())
	if err != nil {
		t.Fatal(err)
	}
	c := Call{Ballot: Ballot{9, 1}, List: table.List(), Roster: ids{1, 2, 8, 9}} // c and d have forgotten
	answers := make([]Report, 4)
	for i, id := range c.Roster {
		answers[i] = Report{Node: id, List: c.List}
		if i < 2 {
			answers[i].Table = table
		}
	}
	n := c.Value(answers, nil, func(int) []transport.ID { return ids{1, 8} })
	if on, anew := n.Shards[0], n.Shards[1]; !on.Calm || on.Generation != table.Shards[0].Generation || anew.Calm || anew.Generation.Number != 2 {
		t.Errorf("one goes on as %+v, the other begins again as %+v", on, anew)
	}
}

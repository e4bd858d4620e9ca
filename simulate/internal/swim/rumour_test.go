package swim

import (
	"reflect"
	"testing"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
)

func TestPacketsAreReadAsTheyWereWritten(t *testing.T) {
	for _, p := range []packet{
		{kind: ping, number: 1 << 40},
		{kind: ask, number: 3, about: 1 << 63},
		{kind: leave},
		{kind: push, number: 9, rumours: []rumour{
			{belief: alive, id: 7, incarnation: 2, member: env.Member{ID: 7, Name: "app", Addr: "host:1", Zone: "east"}, leaving: true},
			{belief: dead, id: 8, incarnation: 300, by: 7, member: env.Member{ID: 8}},
		}},
	} {
		got, err := readPacket(wire.Append(nil, &p))
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%+v is read as %+v, %v", p, got, err)
		}
	}
	if _, err := readPacket([]byte{1, 2}); err == nil {
		t.Error("a packet without an end was read")
	}
}

func TestRumoursGrowOld(t *testing.T) {
	for members, want := range map[int]int{1: 4, 9: 4, 10: 8, 98: 8, 99: 8, 100: 12} {
		var q rumours
		q.add(rumour{id: 1}, false)
		times := 0
		for ; len(q.take(members)) > 0; times++ {
		}
		if times != want {
			t.Errorf("with %d members a rumour is told %d times, want %d", members, times, want)
		}
	}
}

func TestFreshRumoursGoFirstAndOnlyAsManyAsFit(t *testing.T) {
	var q rumours
	q.add(rumour{belief: suspected, id: 1}, false)
	q.take(5)
	for id := range 30 {
		q.add(rumour{belief: suspected, id: 2}, false) // replaced each time
		q.add(rumour{belief: dead, id: 10 + 1<<id}, false)
	}
	q.add(rumour{belief: alive, id: 3}, true)
	first := q.take(5)
	if len(first) < 15 || len(first) > 21 || first[0].id != 3 || first[len(first)-1].id == 1 {
		t.Errorf("%d rumours were told first: %+v", len(first), first)
	}
	if n := len(q.waiting); n != 33 {
		t.Errorf("%d rumours wait, want 33", n)
	}
}

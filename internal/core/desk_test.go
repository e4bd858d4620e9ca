package core

import (
	"slices"
	"testing"

	"github.com/lockmesh/mesh/shard"
)

// Promise: G6, P15: a client that hears its leader only with the help of another node gets
// through on a lossy way too.
// Method: of eight nodes the ring wants the shard on none that helps. The helper is asked
// at every fourth attempt, as long as it knows the way, and all others in between; when
// it says that it does not, it is asked no more often than they are.
func TestTheHelperIsAskedAgain(t *testing.T) {
	const leader, helper = 1, 8
	v := &view{}
	for node := range uint64(helper) {
		v.members = append(v.members, shard.Peer{Node: node + 1})
	}
	d := &desk{lane: &lane{node: &Node{id: 2}, view: v}, leader: leader}
	d.speaks(helper)
	asked := func() (to []uint64) {
		for attempt := range 16 {
			node, _ := d.target(attempt)
			to = append(to, node)
		}
		return to
	}
	if got, want := asked(), []uint64{1, 8, 2, 2, 3, 8, 4, 4, 5, 8, 6, 6, 7, 8, 8, 8}; !slices.Equal(got, want) {
		t.Errorf("with a helper %v are asked, want %v", got, want)
	}
	d.by = map[uint64]*seat{1: {}}
	d.redirected(5, redirect{session: 1})
	if d.through != helper {
		t.Error("who never helped says that it does not, and the helper is forgotten")
	}
	d.redirected(helper, redirect{session: 1})
	if got, want := asked(), []uint64{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8}; !slices.Equal(got, want) {
		t.Errorf("without one %v are asked, want %v", got, want)
	}
}

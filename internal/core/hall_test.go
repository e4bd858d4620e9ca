package core

import (
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/seam"
)

// Of several incarnations the one that is connected bears the name, then one that gossip
// calls alive, then the one that was heard of last; this node bears its own.
func TestWhoBearsAName(t *testing.T) {
	h := &hall{node: &Node{id: 9}, now: time.Minute}
	late := h.now - time.Millisecond
	self := &person{Member: seam.Member{ID: 9}}
	connected := &person{Member: seam.Member{ID: 1}, up: true}
	alive := &person{Member: seam.Member{ID: 2}}
	leaving := &person{Member: seam.Member{ID: 3}, up: true, leaving: true, since: late}
	silent := &person{Member: seam.Member{ID: 4}, state: seam.Dead, since: late}
	dead := &person{Member: seam.Member{ID: 5}, state: seam.Dead, since: late - grace}
	again := &person{Member: seam.Member{ID: 6}, state: seam.Dead, since: late - 2*grace}
	order := []*person{self, connected, alive, silent, dead, again, leaving}
	for i, p := range order {
		for j, o := range order {
			if got, want := h.prefer(p, o), i < j; got != want {
				t.Errorf("%d is preferred to %d: %t, want %t", p.ID, o.ID, got, want)
			}
		}
	}
	h.leaving = true
	if h.prefer(self, connected) {
		t.Error("a node that leaves bears its name longer than its next incarnation")
	}
}

package members

import (
	"reflect"
	"testing"

	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/ring"
)

func TestAViewAnswers(t *testing.T) {
	peers := []replica.Peer{{Node: 7, Name: "a", Addr: "a:1"}, {Node: 5, Name: "b", Addr: "b:1"}, {Node: 6, Name: "c", Addr: "c:1"}}
	table := ring.New([]ring.Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}, 4, 2)
	v := NewView(true, peers, table)
	if !v.Leaving() || !reflect.DeepEqual(v.Members(), peers) {
		t.Errorf("leaving: %t, members: %+v", v.Leaving(), v.Members())
	}
	for sh := range 4 {
		all := append(v.Target(sh), v.Standby(sh)...)
		names := append(table.Replicas(sh), table.Spares(sh)...)
		if len(v.Target(sh)) != 2 || len(all) != 3 {
			t.Fatalf("shard %d: target %+v, standby %+v", sh, v.Target(sh), v.Standby(sh))
		}
		for i, p := range all {
			if name, has := v.Name(p.Node); name != names[i] || !has || !v.Has(p.Node) || p.Addr != name+":1" {
				t.Errorf("shard %d is wanted on %+v, and the ring says %q", sh, p, names[i])
			}
		}
	}
	if _, has := v.Name(8); has || v.Has(8) {
		t.Error("a node that is not in the mesh has a name")
	}
	known, others := v.Liveness()
	if want := map[uint64]placement.Liveness{5: placement.Present, 6: placement.Present, 7: placement.Present}; !reflect.DeepEqual(known, want) || others != placement.Silent {
		t.Errorf("liveness: %v, and of others %d", known, others)
	}
	for _, v := range []*View{{}, NewView(false, peers, nil)} {
		if v.Target(0) != nil || v.Standby(0) != nil || v.Leaving() {
			t.Errorf("a view without a ring wants %+v and %+v", v.Target(0), v.Standby(0))
		}
	}
}

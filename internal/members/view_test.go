package members

import (
	"reflect"
	"testing"

	"github.com/lockmesh/mesh/internal/replica"
)

func TestAViewAnswers(t *testing.T) {
	peers := []replica.Peer{{Node: 7, Name: "a", Addr: "a:1"}, {Node: 5, Name: "b", Addr: "b:1"}}
	v := NewView(true, peers)
	if !v.Leaving() || !reflect.DeepEqual(v.Members(), peers) || !v.Has(5) || v.Has(8) || v.Leaves(5) {
		t.Errorf("leaving: %t, members: %+v", v.Leaving(), v.Members())
	}
	if v := (&View{}); v.Leaving() || v.Leaves(5) || v.Has(5) || len(v.Members()) > 0 {
		t.Errorf("the zero view: %+v", v)
	}
}

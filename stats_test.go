package mesh

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/node"
)

// What gossip says of a member is read as text, in logs and in JSON.
func TestAMemberStateIsText(t *testing.T) {
	for state, text := range map[env.MemberState]string{env.Alive: "alive", env.Dead: "dead"} {
		m := memberOf(node.Member{Member: env.Member{ID: 10, Name: "ann"}, State: state})
		if fmt.Sprint(m.State) != text {
			t.Errorf("%v is shown as %v, want %s", state, m.State, text)
		}
		b, err := json.Marshal(m)
		if want := `{"ID":"000000000000000a","Name":"ann","Addr":"","Zone":"","State":"` + text + `"}`; err != nil || string(b) != want {
			t.Errorf("a member that is %v: %s, %v, want %s", text, b, err, want)
		}
	}
}

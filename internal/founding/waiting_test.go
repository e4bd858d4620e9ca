package founding

import (
	"errors"
	"testing"

	"github.com/lockmesh/mesh/transport"
)

// Promise: the error of a Join that ends without success names what the node waited for.
func TestWhatIsWaitedFor(t *testing.T) {
	const elsewhere = "10.9.9.9:1"
	b := ballot{1, bob}
	listens := nack{Ballot: b, Why: "listens for a living mesh"}
	founding := func(do func(m *Machine)) func(t *testing.T) *Machine {
		return func(t *testing.T) *Machine {
			m, at := begun(t, Config{})
			if do(m); m.phase == searching {
				m.Tick(at, nil)
			}
			return m
		}
	}
	searching := func(do func(m *Machine)) func(t *testing.T) *Machine {
		return func(t *testing.T) *Machine {
			m := listener(Options{})
			do(m)
			return m
		}
	}
	for _, tt := range []struct {
		name string
		of   func(t *testing.T) *Machine
		want string
	}{
		{"no seed has answered", func(*testing.T) *Machine {
			m := New(Config{Self: Member{ID: bob, Name: "bob", Addr: trio[1]}, Seeds: trio})
			m.Start(0, nil)
			return m
		}, "0 of 3 seeds answered; no answer from 10.0.0.1:1, 10.0.0.2:1, 10.0.0.3:1"},
		{"one seed refuses connections, and one has answered and is gone", searching(func(m *Machine) {
			m.Down(late, ann, nil)
			m.Dialed(late, trio[0], transport.Hello{}, errors.New("connection refused"), nil)
			m.Down(late, eve, nil)
		}), "1 of 3 seeds answered; no answer from 10.0.0.1:1 (connection refused), 10.0.0.3:1"},
		{"one seed has refused a connection, then answered, and is gone", searching(func(m *Machine) {
			m.Tick(late, nil)
			m.Dialed(late, trio[0], transport.Hello{}, errors.New("connection refused"), nil)
			m.Tick(late+dialMax, nil)
			m.Dialed(late+dialMax, trio[0], transport.Hello{ID: ann, Addr: trio[0]}, nil, nil)
			m.Message(late+dialMax, ann, encode(introduction("ann", trio[0])), nil)
			m.Down(late+dialMax, ann, nil)
		}), "2 of 3 seeds answered; no answer from 10.0.0.1:1; 10.0.0.3:1 has not introduced itself"},
		{"a dial fails, and the connection stays", searching(func(m *Machine) {
			m.Message(late, ann, encode(introduction("ann", trio[0])), nil)
			m.Message(late, eve, encode(introduction("eve", trio[2])), nil)
			m.Dialed(late, trio[0], transport.Hello{}, errors.New("i/o timeout"), nil)
		}), "3 of 3 seeds answered; listening for a living mesh before founding one"},
		{"two have not introduced themselves", searching(func(*Machine) {}),
			"3 of 3 seeds answered; 10.0.0.1:1 has not introduced itself; 10.0.0.3:1 has not introduced itself"},
		{"one is silent, one has not introduced itself", searching(func(m *Machine) { m.Down(late, ann, nil) }),
			"2 of 3 seeds answered; no answer from 10.0.0.1:1; 10.0.0.3:1 has not introduced itself"},
		{"two nodes answer at one seed, and one elsewhere", searching(func(m *Machine) {
			replace(m, late, 0, ann2, trio[0])
			m.Down(late, eve, nil)
			replace(m, late+dialMax, 2, eve2, elsewhere)
			m.Message(late+2*dialMax, eve2, encode(introduction("eve", elsewhere)), nil)
		}), `3 of 3 seeds answered; two nodes answer at 10.0.0.1:1; node "eve" of 10.0.0.3:1 does not answer at the address 10.9.9.9:1 that it advertises`},
		{"a mesh was found", searching(func(m *Machine) {
			m.Up(late, transport.Hello{ID: 78, MeshID: 1, MeshName: "red", Addr: "10.0.0.78:1"}, nil)
			m.Up(late, strange(stranger), nil)
			m.Down(late, 78, nil)
			m.Up(late, transport.Hello{ID: 78, MeshID: 1, MeshName: "red", Addr: "10.0.0.78:1"}, nil)
		}), `mesh "blue" was found; waiting to be let in by node 000000000000004d at 10.0.0.77:1`},
		{"a member refuses for now", searching(func(m *Machine) {
			m.Up(late, strange(stranger), nil)
			m.Message(late, stranger, encode(refuse{Text: "too many nodes join at once"}), nil)
		}), `mesh "blue" was found; waiting to be let in by node 000000000000004d at 10.0.0.77:1, which says: too many nodes join at once`},
		{"a mesh was found and lost", searching(func(m *Machine) {
			m.Message(late, ann, encode(introduction("ann", trio[0])), nil)
			m.Message(late, eve, encode(introduction("eve", trio[2])), nil)
			m.Up(late, strange(stranger), nil)
			m.Down(late, stranger, nil)
		}), "3 of 3 seeds answered; a living mesh was found and lost again"},
		{"this node is not among the seeds", func(t *testing.T) *Machine {
			m := New(Config{Self: Member{ID: 9, Name: "joe", Addr: elsewhere}, Seeds: trio[:1]})
			m.Start(0, nil)
			m.Up(0, transport.Hello{ID: ann, Addr: trio[0]}, nil)
			m.Dialed(0, trio[0], transport.Hello{ID: ann, Addr: trio[0]}, nil, nil)
			m.Message(0, ann, encode(introduction("ann", trio[0])), nil)
			return m
		}, "1 of 1 seeds answered; this node is not among the seeds, and waits for them to found a mesh"},
		{"no voter has promised", founding(func(*Machine) {}), `3 of 3 seeds answered; founding, without an answer from "ann", "eve"`},
		{"one voter has promised", founding(func(m *Machine) {
			m.Message(late, eve, encode(promise{Ballot: b, Floor: 5}), nil)
		}), `3 of 3 seeds answered; founding, without an answer from "ann"`},
		{"one voter refuses for now", founding(func(m *Machine) { m.Message(late, ann, encode(listens), nil) }),
			`3 of 3 seeds answered; founding, without an answer from "ann", "eve"; ann listens for a living mesh`},
		{"all voters have promised", founding(func(m *Machine) { promises(t, m, late, b) }),
			`3 of 3 seeds answered; founding, without an answer from "ann", "eve"`},
		{"one voter has accepted", founding(func(m *Machine) {
			promises(t, m, late, b)
			m.Message(late, ann, encode(accepted{b}), nil)
		}), `3 of 3 seeds answered; founding, without an answer from "eve"`},
		{"the mesh is founded", founding(func(m *Machine) {
			promises(t, m, late, b)
			m.Message(late, ann, encode(accepted{b}), nil)
			m.Message(late, eve, encode(accepted{b}), nil)
		}), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.of(t).Waiting(); got != tt.want {
				t.Errorf("Waiting() = %q, want %q", got, tt.want)
			}
		})
	}
}

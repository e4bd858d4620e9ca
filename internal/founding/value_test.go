package founding

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// P29: options that contradict each other, or a mesh, are reported with both values.
func TestContradictions(t *testing.T) {
	mesh := Params{MeshName: "blue", Shards: 16, Replicas: 3, MaxTTL: time.Minute, Rho: 100}
	for _, tt := range []struct {
		name  string
		wants Options
		want  error
		says  string
	}{
		{"nothing is asked for", Options{}, nil, ""},
		{"what the mesh has", Options{"blue", 16, 3, time.Minute, time.Minute}, nil, ""},
		{"the name", Options{MeshName: "red"}, fault.ErrForeignMesh,
			`mesh: foreign mesh: node "ann" asks for the mesh name "red", mesh "blue" has "blue"`},
		{"the shards", Options{Shards: 8}, fault.ErrInvalidOption,
			`mesh: invalid option: node "ann" asks for WithShards 8, mesh "blue" has 16`},
		{"the replicas", Options{Replicas: 5}, fault.ErrInvalidOption,
			`mesh: invalid option: node "ann" asks for WithReplicas 5, mesh "blue" has 3`},
		{"the longest TTL", Options{MaxTTL: time.Hour}, fault.ErrInvalidOption,
			`mesh: invalid option: node "ann" asks for WithMaxTTL 1h0m0s, mesh "blue" has 1m0s`},
		{"a lease that is too long", Options{LeaseTTL: time.Hour}, fault.ErrInvalidOption,
			`mesh: invalid option: node "ann" asks for WithLeaseTTL 1h0m0s, mesh "blue" has WithMaxTTL 1m0s`},
		{"all of it, and the name counts", Options{"red", 8, 5, time.Hour, time.Hour}, fault.ErrForeignMesh,
			`mesh: foreign mesh: node "ann" asks for the mesh name "red", mesh "blue" has "blue"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.wants.Fits("ann", mesh)
			if !errors.Is(err, tt.want) || err != nil && err.Error() != tt.says {
				t.Errorf("fits = %v, want %s", err, tt.says)
			}
		})
	}
	changed := mesh
	changed.Changed = true
	if err := (Options{MaxTTL: time.Hour, LeaseTTL: time.Minute}).Fits("ann", changed); err != nil {
		t.Errorf("an option that a command has overruled: %v", err)
	}
	if err := (Options{LeaseTTL: time.Hour}).Fits("ann", changed); !errors.Is(err, fault.ErrInvalidOption) {
		t.Errorf("a lease that is longer than a command allows: %v", err)
	}
	if err := (Options{MaxTTL: time.Hour, LeaseTTL: time.Hour}).Agrees("ann", Options{}, "node joe"); err != nil {
		t.Errorf("what the other leaves open: %v", err)
	}
}

// Promise: C10: nodes that ask for different mesh names do not talk, and the error names both. A mesh that was
// founded anew has another ID and the same name: its nodes talk.
func TestWhoMayTalk(t *testing.T) {
	ours := transport.Hello{Name: "ann", MeshName: "blue", MeshID: 1}
	for _, tt := range []struct {
		theirs transport.Hello
		want   string
	}{
		{transport.Hello{MeshName: "blue", MeshID: 1}, ""},
		{transport.Hello{MeshName: "blue", MeshID: 2}, ""},
		{transport.Hello{}, ""},
		{transport.Hello{Name: "joe", Addr: "joe:1", MeshName: "red", MeshID: 1},
			`mesh: foreign mesh: node "ann" is for mesh "blue", node "joe" at joe:1 for mesh "red"`},
	} {
		if err := CheckHello(ours, tt.theirs); err == nil != (tt.want == "") || err != nil && err.Error() != tt.want || err != nil && !errors.Is(err, fault.ErrForeignMesh) {
			t.Errorf("CheckHello = %v, want %s", err, tt.want)
		}
		if err := CheckHello(transport.Hello{}, tt.theirs); err != nil {
			t.Errorf("with a node that asks for no name: %v", err)
		}
	}
}

// A list is what is in it, as it is written. The caller's stays as it is.
func TestNormalise(t *testing.T) {
	list := []string{"b:1", "a:1", "b:1", "B:1"}
	if got := Normalise(list); !slices.Equal(got, []string{"B:1", "a:1", "b:1"}) || list[0] != "b:1" {
		t.Errorf("%v of %v", got, list)
	}
}

func TestAllLoopback(t *testing.T) {
	for _, tt := range []struct {
		list []string
		want bool
	}{
		{[]string{"127.0.0.1:1", "[::1]:2", "localhost:3", "127.9.9.9:4"}, true},
		{[]string{"127.0.0.1:1", "10.0.0.1:2"}, false},
		{[]string{"[2001:db8::1]:1"}, false},
		{[]string{"localhost.example:1"}, false},
		{[]string{"127.0.0.1"}, false}, // no port
		{[]string{""}, false},
		{nil, true},
	} {
		if got := AllLoopback(tt.list); got != tt.want {
			t.Errorf("%v: %t", tt.list, got)
		}
	}
}

func TestVoters(t *testing.T) {
	for _, tt := range []struct{ replicas, entries, want int }{{3, 1, 1}, {3, 2, 2}, {3, 3, 3}, {3, 7, 3}, {1, 1, 1}, {1, 2, 2}, {1, 5, 2}, {7, 5, 5}} {
		if got := (Params{Replicas: tt.replicas}).Voters(tt.entries); got != tt.want {
			t.Errorf("%d replicas, %d entries: %d voters, want %d", tt.replicas, tt.entries, got, tt.want)
		}
	}
}

// A lease that any node's clock measured, each at most Rho fast or slow, is over after Quiet.
func TestQuiet(t *testing.T) {
	p := Params{MaxTTL: 10 * time.Second, Rho: 100}
	if p.Drift() != 0.01 || p.Quiet() != 10200*time.Millisecond {
		t.Errorf("drift %v, quiet for %v", p.Drift(), p.Quiet())
	}
}

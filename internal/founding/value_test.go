package founding

import (
	"errors"
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
	if err := (Options{MaxTTL: time.Hour, LeaseTTL: time.Hour}).Agrees("ann", Options{}, "node joe"); err != nil {
		t.Errorf("what the other leaves open: %v", err)
	}
}

// P29: a mesh has what its founders ask for, and the default of what none asks for. The default of
// MaxTTL does not follow from their lease TTLs.
func TestTheParametersOfAMesh(t *testing.T) {
	for _, tt := range []struct {
		name string
		give []Options
		want Params // zero: they contradict each other
		says string
	}{
		{name: "no founder asks for anything", give: []Options{{}, {}},
			want: Params{DefaultMeshName, DefaultShards, DefaultReplicas, DefaultMaxTTL, DefaultRho}},
		{name: "each asks for something", give: []Options{{MeshName: "blue"}, {Shards: 8}, {Replicas: 1}, {MaxTTL: 5 * time.Second, LeaseTTL: time.Second}},
			want: Params{"blue", 8, 1, 5 * time.Second, DefaultRho}},
		{name: "one asks for longer leases, with a bound", give: []Options{{LeaseTTL: time.Second}, {LeaseTTL: time.Minute, MaxTTL: time.Hour}, {}},
			want: Params{DefaultMeshName, DefaultShards, DefaultReplicas, time.Hour, DefaultRho}},
		{name: "all ask for shorter leases", give: []Options{{LeaseTTL: time.Second}, {LeaseTTL: 2 * time.Second}},
			want: Params{DefaultMeshName, DefaultShards, DefaultReplicas, DefaultMaxTTL, DefaultRho}},
		{name: "a later one contradicts an earlier one", give: []Options{{Shards: 8}, {}, {Shards: 16}},
			says: `mesh: invalid option: node "c" asks for WithShards 16, node "a" 8`},
		{name: "a later lease is longer than allowed", give: []Options{{MaxTTL: time.Second}, {LeaseTTL: time.Minute}},
			says: `mesh: invalid option: node "b" asks for WithLeaseTTL 1m0s, node "a" WithMaxTTL 1s`},
		{name: "an earlier lease is longer than allowed", give: []Options{{LeaseTTL: time.Minute}, {MaxTTL: time.Second}},
			says: `mesh: invalid option: node "a" asks for WithLeaseTTL 1m0s, node "b" WithMaxTTL 1s`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var cards []card
			for i, o := range tt.give {
				cards = append(cards, card{Name: string(rune('a' + i)), Wants: o})
			}
			got, err := params(cards)
			if got != tt.want || err == nil != (tt.says == "") || err != nil && err.Error() != tt.says {
				t.Errorf("params = %+v, %v; want %+v, %s", got, err, tt.want, tt.says)
			}
		})
	}
}

// P25: a founder listens for twice as long as the members together need to reach it.
func TestMembersContactASeedWhileItListens(t *testing.T) {
	for _, tt := range []struct {
		seeds           []string
		listen, contact time.Duration
	}{
		{trio, 2 * time.Second, time.Second},
		{[]string{"127.0.0.1:1", "[::1]:2", "localhost:3"}, 300 * time.Millisecond, 100 * time.Millisecond},
		{[]string{"127.0.0.1:1", "10.0.0.1:2"}, 2 * time.Second, time.Second},
	} {
		if got, contact := Listen(tt.seeds), ContactEvery(tt.seeds); got != tt.listen || contact != tt.contact || got < 2*contact {
			t.Errorf("%v: listens for %v, and is contacted every %v; want %v and %v", tt.seeds, got, contact, tt.listen, tt.contact)
		}
	}
}

// The error for two nodes that may not talk names the mesh of each.
func TestWhatCheckHelloSays(t *testing.T) {
	ours := transport.Hello{Name: "ann", MeshName: "blue", MeshID: 1}
	for _, tt := range []struct {
		theirs transport.Hello
		want   string
	}{
		{transport.Hello{Name: "joe", Addr: "joe:1", MeshName: "red", MeshID: 1},
			`mesh: foreign mesh: node "ann" is for mesh "blue", node "joe" at joe:1 for mesh "red"`},
		{transport.Hello{Name: "joe", Addr: "joe:1", MeshName: "blue", MeshID: 2},
			`mesh: foreign mesh: node "ann" is in mesh "blue" (0000000000000001), node "joe" at joe:1 in mesh "blue" (0000000000000002)`},
	} {
		if err := CheckHello(ours, tt.theirs); err == nil || err.Error() != tt.want {
			t.Errorf("CheckHello = %v, want %s", err, tt.want)
		}
	}
}

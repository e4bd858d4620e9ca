package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/transport"
)

// Voters that come to have what their leader had are in step, and no others are.
func TestInStep(t *testing.T) {
	const shard = 3
	type fleet struct {
		*World
		nodes []*looked // of hosts 1, 2, 3; the first one leads
	}
	has := func(n *looked, applied uint64) { n.replicas[0].Applied = applied }
	for _, tt := range []struct {
		name string
		core []string // nil: all are judged
		tell func(f fleet)
		want string
	}{
		{"all have the same", nil, func(fleet) {}, ""},
		{"one catches up late", nil, func(f fleet) {
			has(f.nodes[2], 4)
			f.At(8*time.Second, func() { has(f.nodes[2], 10) })
		}, ""},
		{"the leader goes on", nil, func(f fleet) {
			has(f.nodes[2], 4)
			f.At(5*time.Second, func() { has(f.nodes[0], 20); has(f.nodes[1], 20); has(f.nodes[2], 15) })
		}, ""},
		{"one stays behind", nil, func(f fleet) {
			has(f.nodes[2], 4)
			f.At(5*time.Second, func() { has(f.nodes[2], 9) })
		}, `["the voter of shard 3 on host3 has applied 9 entries of 10"]`},
		{"a voter has no replica", nil, func(f fleet) { f.nodes[1].replicas = nil }, `["the node on host2 has no replica of shard 3, and is a voter"]`},
		{"a voter is gone", nil, func(f fleet) { f.Host("host3").Crash() }, `["the voter of shard 3 on host3 is gone"]`},
		{"nobody leads", nil, func(f fleet) { f.nodes[0].replicas[0].Serving = false }, `["nobody leads shard 3"]`},
		{"voters that go on changing", nil, func(f fleet) { f.nodes[0].replicas[0].Outgoing = []transport.ID{1} }, `["the voters of shard 3 are changing"]`},
		{"one of another generation", nil, func(f fleet) {
			f.nodes[2].replicas[0].Generation = 2
		}, `["the node on host3 has no replica of shard 3, and is a voter" "nobody leads shard 3"]`},
		{"an outsider stays behind", []string{"host1", "host2"}, func(f fleet) { has(f.nodes[2], 4) }, ""},
		{"an outsider is gone", []string{"host1", "host2"}, func(f fleet) { f.Host("host3").Crash() }, ""},
		{"an outsider has not heard of the next generation", []string{"host1", "host2"}, func(f fleet) {
			for i, n := range f.nodes {
				n.replicas[0].Voters = []transport.ID{1, 2}
				if i < 2 {
					n.replicas[0].Generation = 2
				}
			}
		}, ""},
		{"an outsider leads", []string{"host2", "host3"}, func(f fleet) { has(f.nodes[1], 4) }, ""},
		{"one of the core stays behind", []string{"host1", "host2"}, func(f fleet) { has(f.nodes[1], 4) }, `["the voter of shard 3 on host2 has applied 4 entries of 10"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := New(Options{})
			defer w.Close()
			f := fleet{World: w}
			for i := range 3 {
				n := &looked{
					mesh:     7,
					replicas: []env.Replica{{Shard: shard, Generation: 1, Voters: []transport.ID{1, 2, 3}, Serving: i == 0, Applied: 10}},
				}
				w.Host(fmt.Sprint("host", i+1)).process.Inspect(transport.ID(i+1), n)
				f.nodes = append(f.nodes, n)
			}
			tt.tell(f)
			s := &inStep{world: w, hosts: tt.core, upTo: make(map[check.ShardName]uint64)}
			s.within(10 * time.Second)
			err := w.Run(20 * time.Second)
			if want := "G6 step: 10s after all faults ended, not every voter is in step: "; tt.want == "" && err != nil ||
				tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), want+tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if s.over != (tt.want == "") {
				t.Errorf("in step: %v", s.over)
			}
		})
	}
}

// deafTo is a node that one key cannot be locked through.
type deafTo struct {
	Node
	key string
}

func (n deafTo) Lock(ctx context.Context, key string) (Lock, error) {
	if key == n.key {
		return nil, errors.New("deaf")
	}
	return n.Node.Lock(ctx, key)
}

// A key of Lockers.Everywhere must be one that each host can lock, also after a restart.
func TestEverywhere(t *testing.T) {
	for _, tt := range []struct {
		name      string
		deaf      string // the host on which one key is refused
		restarted bool   // only by the node that is there after a restart
		want      string
	}{
		{"all hosts lock all", "", false, ""},
		{"one host cannot lock one key", "c2", false, `G4, G6: after all faults ended, "b" cannot be locked`},
		{"nor can one that was restarted", "c3", true, `G4, G6: after all faults ended, "b" cannot be locked`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, l := fakeWorld(Options{Seed: 1}, fakeBugs{})
			defer w.Close()
			l.Everywhere = []string{"a", "b"}
			join := l.Join
			l.Join = func(ctx context.Context, host string) (Node, error) {
				n, err := join(ctx, host)
				if host == tt.deaf && (!tt.restarted || w.Host(host).Incarnation() > 1) {
					n = deafTo{n, "b"}
				}
				return n, err
			}
			l.Start(w)
			err := w.Run(2 * time.Second)
			if err == nil {
				w.Host("c3").Crash()
				w.Host("c3").Restart()
				err = l.Settle()
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("Settle = %v, want %q", err, tt.want)
			}
		})
	}
}

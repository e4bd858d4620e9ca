package members

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Promise: G6, P25: all members together look about once in a second at each address where a node may be that is
// not in the mesh: seeds, and members that are silent. A seed at which a member is, is not among them.
func TestLostMembersAndSeedsAreDialled(t *testing.T) {
	const long = 100 * time.Second
	for _, tt := range []struct {
		alive, lost int
		seeds       []string
		want        float64 // dials per second, of this node
	}{
		{0, 0, []string{"a:1"}, 0},
		{0, 1, nil, 1},
		{0, 2, nil, 2},
		{0, 9, nil, 4},
		{0, 0, []string{"s:1"}, 1},
		{0, 1, []string{"s:1", "m0:1"}, 2},
		{1, 1, []string{"a:1"}, 1. / 2},
		{3, 1, nil, 1. / 4},
		{3, 2, nil, 2. / 4},
		{1, 0, []string{"a:1", "m0:1"}, 0},
		{1, 0, []string{"a:1", "m0:1", "s:1"}, 1. / 2},
	} {
		t.Run(fmt.Sprintf("%d there, %d lost, seeds %v", tt.alive, tt.lost, tt.seeds), func(t *testing.T) {
			b := newBench(t, 1, func(cfg *Config) { cfg.Seeds = tt.seeds })
			var away []env.Member
			for i := range tt.alive + tt.lost {
				m := node(fmt.Sprint("m", i), transport.ID(i+2))
				if b.gossips(m, env.Alive); i < tt.alive {
					b.connects(m)
				} else {
					away = append(away, m)
					if i%2 == 0 {
						b.gossips(m, env.Dead) // or no node has noticed yet
					}
				}
			}
			b.pass(20 * time.Second)
			b.words = nil
			b.pass(long)
			dials, to := 0, make(map[string]int)
			for _, w := range b.words {
				if addr, dial := strings.CutPrefix(w, "dial "); dial {
					dials++
					to[addr]++
				}
			}
			if got := float64(dials) / long.Seconds(); got < tt.want*0.8 || got > tt.want*1.2 {
				t.Errorf("%.2f dials per second, want %.2f: %v", got, tt.want, to)
			}
			for _, m := range away {
				if float64(to[m.Addr]) < float64(dials)/float64(tt.lost)/3 {
					t.Errorf("%s is dialled %d times of %d", m.Addr, to[m.Addr], dials)
				}
			}
			if to["a:1"] > 0 || tt.alive > 0 && to["m0:1"] > 0 {
				t.Errorf("nodes that are there are dialled: %v", to)
			}
		})
	}
}

// Nodes that are known to be gone are not looked for, nor those without an address.
func TestTheGoneAreNotDialled(t *testing.T) {
	b := newBench(t, 1)
	left, proven := node("l", 2), node("p", 3)
	b.gossips(left, env.Alive)
	b.gossips(left, env.Left)
	b.gossips(proven, env.Alive)
	b.connects(proven)
	b.parts(proven, transport.Replaced)
	b.gossips(env.Member{ID: 4, Name: "client"}, env.Alive)
	b.words = nil
	b.pass(time.Minute)
	b.expect()
}

// The interval follows from Config.ContactEvery: on loopback it is shorter.
func TestHowOftenIsDialled(t *testing.T) {
	b := newBench(t, 1, func(cfg *Config) { cfg.Seeds, cfg.ContactEvery = []string{"s:1"}, 100*time.Millisecond })
	b.pass(10 * time.Second)
	dials := len(slices.DeleteFunc(b.words, func(w string) bool { return w != "dial s:1" }))
	if dials < 80 || dials > 120 {
		t.Errorf("%d dials in 10 s", dials)
	}
}

package gossip_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// lab is one of the two environments in which a script is played.
type lab interface {
	Now() time.Duration
	Partition(groups ...[]string)
	PartitionOneWay(from, to []string)
	Heal()
	Crash(host string)
	Pause(host string)
	Resume(host string)

	wait(d time.Duration)
	// run calls fn as a goroutine or an actor of a host, and calls stop when the host
	// crashes.
	run(host string, fn func(ctx context.Context) (stop func()))
}

// simulated is the simulator, with its model of gossip.
type simulated struct {
	*simulate.World
	t testing.TB
}

func (l simulated) Partition(groups ...[]string)      { l.Net.Partition(groups...) }
func (l simulated) PartitionOneWay(from, to []string) { l.Net.PartitionOneWay(from, to) }
func (l simulated) Heal()                             { l.Net.Heal() }
func (l simulated) Crash(host string)                 { l.Host(host).Crash() }
func (l simulated) Pause(host string)                 { l.Host(host).Pause() }
func (l simulated) Resume(host string)                { l.Host(host).Resume() }

func (l simulated) wait(d time.Duration) {
	if err := l.World.Run(d); err != nil {
		l.t.Fatal(err)
	}
}

func (l simulated) run(host string, fn func(context.Context) func()) {
	l.Host(host).Go("node", func(ctx context.Context) { fn(ctx) })
}

// bubbled is a bubble, with memberlist.
type bubbled struct{ *bubble }

func (bubbled) wait(d time.Duration) { time.Sleep(d) }

func (l bubbled) run(host string, fn func(context.Context) func()) {
	l.host(host).run(func(ctx context.Context) {
		stop := fn(ctx)
		<-ctx.Done()
		stop()
	})
}

// stage is a few nodes that have only connections and gossip.
type stage struct {
	lab
	t testing.TB

	rand  *rand.Rand // for a script's random choices
	tally *tally

	mu    sync.Mutex
	cast  []*player
	heard []heard
}

// heard is an event that the node by received about the node of.
type heard struct {
	by, of string
	state  env.MemberState
	at     time.Duration
}

type player struct {
	env.Member
	net    env.Network
	gossip env.Membership
}

// Handler of connections: only gossip matters.
func (p *player) Dialed(string, transport.Hello, error)        {}
func (p *player) Up(transport.Hello)                           {}
func (p *player) Down(transport.ID, transport.Cause)           {}
func (p *player) Receive(transport.ID, transport.Kind, []byte) {}
func (s *stage) player(name string) *player {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.cast, func(p *player) bool { return p.Name == name })
	return s.cast[i]
}

// start starts nodes at different moments of their rounds, and waits for their
// connections.
func (s *stage) start(names ...string) {
	for _, name := range names {
		s.wait(time.Duration(s.rand.Int64N(int64(400 * time.Millisecond))))
		s.run(name, func(ctx context.Context) func() {
			w := env.FromContext(ctx)
			p := &player{}
			p.ID, p.Name = transport.ID(w.Seed()), name
			var err error
			p.net, err = w.Listen(transport.Config{
				Bind:   ":7400",
				Hello:  transport.Hello{MeshName: "test", Name: name, ID: p.ID, MinVersion: 1, MaxVersion: 1},
				Logger: slog.New(slog.DiscardHandler),
			}, p)
			if err != nil {
				panic(err)
			}
			p.Addr = p.net.Addr()
			p.gossip, err = w.NewMembership(p.Member, p.net, func(e env.MemberEvent) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.heard = append(s.heard, heard{name, e.Member.Name, e.State, s.Now()})
			})
			if err != nil {
				panic(err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, other := range s.cast {
				p.net.Connect(other.ID, other.Addr)
				other.net.Connect(p.ID, p.Addr)
			}
			s.cast = append(s.cast, p)
			return func() {
				p.gossip.Close()
				p.net.Close()
			}
		})
	}
	s.wait(time.Second)
}

// join makes a node join others.
func (s *stage) join(name string, others ...string) {
	var peers []env.Member
	for _, other := range others {
		peers = append(peers, s.player(other).Member)
	}
	s.player(name).gossip.Join(peers)
}

// crash ends a node without an announcement; the stage forgets it.
func (s *stage) crash(name string) {
	s.Crash(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cast = slices.DeleteFunc(s.cast, func(p *player) bool { return p.Name == name })
}

// names returns "a", "b" and so on.
func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = string(rune('a' + i))
	}
	return all
}

// meet starts n nodes, and waits until they know each other and no rumours are left.
func (s *stage) meet(n int) []string {
	all := names(n)
	s.start(all...)
	for _, name := range all[1:] {
		s.join(name, all[0])
	}
	for waited := 0; len(s.since(0)) < n*(n-1); waited++ {
		if waited > 300 {
			s.t.Fatalf("%d nodes do not know each other", n)
		}
		s.wait(time.Second)
	}
	s.wait(8*time.Second + time.Duration(s.rand.Int64N(int64(2*time.Second))))
	return all
}

// since returns the news since a moment.
func (s *stage) since(from time.Duration) []heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.heard, func(h heard) bool { return h.at >= from })
	if i < 0 {
		return nil
	}
	return slices.Clone(s.heard[i:])
}

package seat_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

var simulated = flag.Int("simulated", 4, "how many worlds of each profile to play in the simulator")

// seatNode is a node of which there is only its seat.
type seatNode struct {
	self   env.Member
	net    env.Network
	loop   env.Loop
	seat   *seat.Machine
	inputs []func(now time.Duration, out []seat.Output) []seat.Output
	log    func(text string, attrs ...any)
	state  seat.State
	failed error
}

func (n *seatNode) post(input func(now time.Duration, out []seat.Output) []seat.Output) {
	n.inputs = append(n.inputs, input)
	n.loop.Wake()
}

func (n *seatNode) Dialed(addr string, peer transport.Hello, err error) {
	n.post(func(now time.Duration, out []seat.Output) []seat.Output {
		return n.seat.Dialed(now, addr, peer, err, out)
	})
}

func (n *seatNode) Up(peer transport.Hello) {
	n.post(func(now time.Duration, out []seat.Output) []seat.Output { return n.seat.Up(now, peer.ID, out) })
}

func (n *seatNode) Down(peer transport.ID, cause transport.Cause) {
	n.post(func(now time.Duration, out []seat.Output) []seat.Output {
		if cause == transport.Refused || cause == transport.Replaced {
			n.seat.Gone(peer)
		}
		return n.seat.Down(now, peer, out)
	})
}

func (n *seatNode) Receive(from transport.ID, _ transport.Kind, body []byte) {
	n.post(func(now time.Duration, out []seat.Output) []seat.Output { return n.seat.Message(now, from, body, out) })
}

func (n *seatNode) run(now time.Duration) time.Duration {
	var out []seat.Output
	for _, input := range n.inputs {
		out = input(now, out)
	}
	n.inputs = nil
	if now >= n.seat.Deadline() {
		out = n.seat.Tick(now, out)
	}
	for _, o := range out {
		switch o := o.(type) {
		case seat.Dial:
			n.net.Dial(o.Addr)
		case seat.Send:
			n.net.Send(o.To, transport.KindControl, transport.Normal, o.Body)
		case seat.Drop:
			n.failed = o.Err
		case seat.Log:
			n.log(o.Text, "attrs", fmt.Sprint(o.Attrs))
		case seat.State:
			n.state = o
			n.log("core", "table", o.Table.Stamp, "fenced", o.Fenced)
		case seat.Failed:
			n.failed = o.Err
			n.net.Close()
		}
	}
	return n.seat.Deadline()
}

// seats is a world of hosts with a seat each.
type seats struct {
	*simulate.World
	list  []string
	nodes map[string]*seatNode // the latest of each host
	rolls map[core.Ballot]bool
}

func (s *seats) boot(host string) {
	s.Host(host).Boot("node", func(ctx context.Context) {
		e := env.FromContext(ctx)
		n := &seatNode{self: env.Member{ID: transport.ID(e.Seed()), Name: host}}
		log := simulate.Logger(ctx)
		n.log = log.Info
		var err error
		n.net, err = e.Listen(transport.Config{Bind: ":7400", Hello: transport.Hello{ID: n.self.ID, Name: host}, Logger: log}, n)
		if err != nil {
			s.Fail(err)
			return
		}
		n.self.Addr = n.net.Addr()
		n.seat = seat.New(seat.Config{Self: n.self, List: s.list, Rand: e.Seed(), Found: true, Place: func(seats []core.Seat, p founding.Params) func(int) []transport.ID {
			return func(shard int) []transport.ID { return inOrder(seats, shard, p.Replicas) }
		}})
		n.loop = e.NewLoop("seat", n.run)
		n.post(n.seat.Start)
		s.nodes[host] = n
	})
}

// inOrder gives a shard the seats from its number on.
func inOrder(seats []core.Seat, shard, replicas int) (ids []transport.ID) {
	for i := range seats {
		if id := seats[(shard+i)%len(seats)].Node.ID; id != 0 && len(ids) < replicas {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// judge fails the world if two generations of the core can decide at one time, or a node has failed. A node
// that is paused can decide when it goes on.
func (s *seats) judge() {
	able := make(map[core.Ballot]bool)
	for _, host := range s.Hosts() {
		n := s.nodes[host.Name()]
		if n == nil || !host.Up() {
			continue
		}
		if n.failed != nil {
			s.Fail(fmt.Errorf("%s: %w", host.Name(), n.failed))
		}
		if n.state.Table != nil {
			s.rolls[n.state.Table.Stamp.Roll] = true
		}
		if t := n.state.Table; t != nil && s.deciders(t) >= core.Majority(len(t.Bound())) {
			able[t.Stamp.Roll] = true
		}
	}
	if len(able) > 1 {
		s.Fail(fmt.Errorf("two generations can decide: %v", able))
	}
}

// deciders returns how many of those bound in t can decide the version after it.
func (s *seats) deciders(t *core.Table) (d int) {
	for _, host := range s.Hosts() {
		n := s.nodes[host.Name()]
		if n != nil && host.Up() && n.state.Table != nil && !n.state.Fenced && n.state.Table.Stamp == t.Stamp && slices.Contains(t.Bound(), n.self.ID) {
			d++
		}
	}
	return d
}

// serve reports whether all hosts have a seat in one table, and none is fenced.
func (s *seats) serve() bool {
	var t *core.Table
	for _, host := range s.Hosts() {
		n := s.nodes[host.Name()]
		if n == nil || !host.Up() || n.state.Table == nil || n.state.Fenced || !slices.Contains(n.state.Table.Bound(), n.self.ID) {
			return false
		}
		if t == nil {
			t = n.state.Table
		}
		if t.Stamp != n.state.Table.Stamp {
			return false
		}
	}
	return t != nil
}

// Promise: G1, of two generations of a core, one at most decides anything; and G6, once all entries are there
// and connected, the core serves within 10 s.
// Method: cores of one to seven nodes go through the storms of all profiles, in which any process may end at
// any time. The nodes have seats, and nothing else.
func TestSeatsInStorms(t *testing.T) {
	rolls, crashes := 0, 0
	for _, p := range simulate.Profiles() {
		for seed := uint64(1); seed <= uint64(*simulated) && (seed == 1 || !testing.Short()); seed++ {
			o := simulate.Play(simulate.Options{Seed: seed, Profile: p}, func(w *simulate.World) error {
				s := &seats{World: w, nodes: make(map[string]*seatNode), rolls: make(map[core.Ballot]bool)}
				for i := range 1 + seed%7 {
					s.list = append(s.list, fmt.Sprintf("h%d:7400", i+1))
				}
				for i := range s.list {
					s.boot(fmt.Sprint("h", i+1))
				}
				storm := w.Chaos(simulate.ChaosOptions{For: 40 * time.Second, MayCrash: func(string) bool { return true }, MayCrashAll: func(time.Duration) bool { return true }})
				if err := w.RunUntil(func() bool { s.judge(); return storm.Over() }, 10*time.Minute); err != nil {
					return err
				}
				w.HealAll()
				rolls += len(s.rolls)
				for _, h := range w.Hosts() {
					crashes += h.Incarnation() - 1
				}
				return w.RunUntil(func() bool { s.judge(); return s.serve() }, 10*time.Second)
			})
			if o.Err != nil {
				t.Errorf("%s, seed %d: %v", p, seed, o.Err)
			}
		}
	}
	t.Logf("%d restarts, %d generations", crashes, rolls)
}

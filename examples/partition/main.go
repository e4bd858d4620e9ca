// Partition cuts a simulated network of five nodes in two, shows what each side sees and
// what happens to its locks, and heals the network again.
//
//	go run ./examples/partition
//	go run ./examples/partition -seed 42
//
// The nodes run the production code: they join with mesh.JoinContext, and the code around
// them is ordinary blocking code. But clocks and connections are those of package simulate: a
// minute passes in a moment, and the same seed prints the same timeline, byte for byte. This
// is how you test what your own code does when the network fails.
//
// What to look for in the timeline:
//
//   - The side of two has no majority of any shard. Its calls wait, or return ErrNoQuorum;
//     they never guess. Its lock is lost, and the holder learns this before the key is granted
//     again.
//   - The side of three elects new leaders and goes on. The key that the other side held is
//     granted there when its lease ends, with a larger token.
//   - A holder that ignores its loss and still writes is refused because of its token.
//   - After the heal all five nodes agree again, and a waiter on the side of two is served.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

const (
	shards = 8
	lease  = 3 * time.Second
	cut    = 10 * time.Second // when the network is cut
	heal   = 30 * time.Second // when it is healed
	end    = 45 * time.Second
)

var (
	few  = []string{"ann", "bob"}
	many = []string{"eve", "joe", "kim"}
)

func main() {
	seed := flag.Uint64("seed", 1, "the seed of all random choices")
	verbose := flag.Bool("v", false, "also show every connection and all gossip")
	flag.Parse()
	if err := run(os.Stdout, *seed, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "partition:", err)
		os.Exit(1)
	}
}

// run simulates the story and prints its timeline.
func run(out io.Writer, seed uint64, verbose bool) error {
	w := simulate.New(simulate.Options{
		Seed:      seed,
		Timeline:  true,
		Repeat:    fmt.Sprintf("go run ./examples/partition -seed %d", seed),
		ClockRate: 5000, // the hosts' clocks are off by up to half a percent
		Link:      simulate.Link{Latency: 300 * time.Microsecond, Jitter: 200 * time.Microsecond},
	})
	defer w.Close()

	s := &story{world: w, nodes: make(map[string]*mesh.Node)}
	hosts := append(append([]string{}, few...), many...)
	for _, name := range hosts {
		s.seeds = append(s.seeds, name+":7300")
	}
	for _, name := range hosts {
		w.Host(name).Go("node", func(ctx context.Context) { s.node(ctx, name) })
	}
	if err := w.RunUntil(func() bool { return s.healthy == len(hosts) }, cut); err != nil {
		return err
	}
	w.Host("ann").Go("careless", s.careless)
	w.Host("bob").Go("hasty", s.hasty)
	w.Host("bob").Go("patient", s.patient)
	w.Host("kim").Go("next", s.next)
	w.At(cut, func() { w.Net.Partition(few, many) })
	w.At(heal, w.Net.Heal)
	err := w.Run(end - w.Now())
	if err == nil {
		err = w.History().Finish() // checks exclusion, tokens, and that every call has ended
	}

	fmt.Fprintf(out, "seed %d\n\n", seed)
	for line := range strings.Lines(w.Timeline().String()) {
		if fields := strings.Fields(line); verbose || fields[1] == "-" || strings.Contains(fields[1], "/") {
			io.WriteString(out, line)
		}
	}
	switch {
	case err != nil:
		return err
	case s.ended != 4 || s.guarded().Refused != 1:
		return fmt.Errorf("%d of 4 actors finished and %d writes were refused, want 4 and 1", s.ended, s.guarded().Refused)
	}
	calls, holds := w.History().Calls()
	fmt.Fprintf(out, "\n%d calls, %d holds; no promise was broken\n", calls, holds)
	return nil
}

// story is the state that the actors share. Only one of them runs at a time.
type story struct {
	world   *simulate.World
	seeds   []string
	nodes   map[string]*mesh.Node
	healthy int // nodes that have seen every shard fully replicated
	ended   int // actors that have finished
}

// guarded returns the register that the lock guards. It remembers the largest token that it
// has seen, and refuses smaller ones.
func (s *story) guarded() *simulate.Register { return s.world.Register("orders") }

// node joins a host to the mesh, and logs each change of the mesh that the host sees.
func (s *story) node(ctx context.Context, name string) {
	// With five replicas the side of three has a majority of every shard. With three, the
	// default, each side would have a majority of some shards.
	node, err := mesh.JoinContext(ctx, s.seeds, mesh.WithName(name), mesh.WithBind(":7300"),
		mesh.WithShards(shards), mesh.WithReplicas(5), mesh.WithLeaseTTL(lease), mesh.WithMaxTTL(lease), mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		simulate.Logf(ctx, "cannot join: %v", err)
		return
	}
	s.nodes[name] = node
	simulate.Logf(ctx, "has joined")
	if node.WaitHealthy(ctx) == nil {
		s.healthy++
	}
	for last := ""; ; {
		if now := look(node); now != last {
			simulate.Logf(ctx, "%s", now)
			last = now
		}
		if simulate.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// look describes what a node sees.
func look(node *mesh.Node) string {
	var alive, dead []string
	for _, m := range node.Members() {
		if m.State == mesh.MemberAlive {
			alive = append(alive, m.Name)
		} else {
			dead = append(dead, m.Name)
		}
	}
	text := "sees " + strings.Join(alive, " ")
	if len(dead) > 0 {
		text += ", not " + strings.Join(dead, " ")
	}
	switch h := node.Health(); {
	case h.FullyReplicated:
		return text + "; every shard is fully replicated"
	case len(h.NoMajority) == shards:
		return text + "; no shard answers"
	case len(h.NoMajority) > 0:
		return text + "; some shards do not answer"
	}
	return text + "; some shards lack replicas"
}

// careless takes the lock before the cut, on the side of two. It learns of the loss, but still
// writes.
func (s *story) careless(ctx context.Context) {
	simulate.Logf(ctx, "wants \"orders\"; a new mesh grants nothing until all leases of an earlier mesh must have ended")
	l := s.lock(ctx, "ann", "orders")
	if l == nil {
		return
	}
	s.write(ctx, l)
	if simulate.Wait(ctx, l.Lost()) != nil {
		return
	}
	simulate.Logf(ctx, "is told: %v", l.Err())
	for s.guarded().Highest == l.Token() { // until the next holder has written
		if simulate.Sleep(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
	s.write(ctx, l)
	_ = l.Unlock(ctx) // fails if the lock was lost
	s.ended++
}

// next waits for the same lock on the side of three. It begins before the cut, and gets the
// lock when the lease of careless has ended.
func (s *story) next(ctx context.Context) {
	simulate.Sleep(ctx, time.Second)
	simulate.Logf(ctx, "also waits for \"orders\"")
	l := s.lock(ctx, "kim", "orders")
	if l == nil {
		return
	}
	s.write(ctx, l)
	simulate.Sleep(ctx, 2*time.Second) // the work
	_ = l.Unlock(ctx)                  // fails if the lock was lost
	s.ended++
}

// hasty tries to lock a free key, on the side of two.
func (s *story) hasty(ctx context.Context) {
	simulate.Sleep(ctx, cut+2*time.Second-simulate.Now(ctx))
	_, err := s.nodes["bob"].TryLock(ctx, "customers")
	if !errors.Is(err, mesh.ErrNoQuorum) {
		s.world.Fail(fmt.Errorf("a try on the side of two: %w", err))
		return
	}
	simulate.Logf(ctx, "is told: %v", err)
	s.ended++
}

// patient waits for the same key, on the side of two: first for 5 s, then until it gets it.
func (s *story) patient(ctx context.Context) {
	simulate.Sleep(ctx, cut+3*time.Second-simulate.Now(ctx))
	short, cancel := simulate.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := s.nodes["bob"].Lock(short, "customers")
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mesh.ErrNoQuorum) {
		s.world.Fail(fmt.Errorf("a wait on the side of two: %w", err))
		return
	}
	simulate.Logf(ctx, "is told: %v", err)

	simulate.Logf(ctx, "waits for \"customers\" without a time limit")
	l := s.lock(ctx, "bob", "customers")
	if l == nil {
		return
	}
	_ = l.Unlock(ctx) // fails if the lock was lost
	s.ended++
}

// lock locks a key for an actor. An error ends the simulation.
func (s *story) lock(ctx context.Context, host, key string) *mesh.Lock {
	l, err := s.nodes[host].Lock(ctx, key)
	if err != nil {
		s.world.Fail(fmt.Errorf("%s: Lock: %w", host, err))
		return nil
	}
	return l
}

// write writes to the guarded register.
func (s *story) write(ctx context.Context, l *mesh.Lock) {
	if s.guarded().Write(l.Token()) {
		simulate.Logf(ctx, "writes with token %d", l.Token())
	} else {
		simulate.Logf(ctx, "writes with token %d, and is refused: the register has seen token %d", l.Token(), s.guarded().Highest)
	}
}

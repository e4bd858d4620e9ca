// Partition cuts a simulated network of five nodes in two, shows what each side sees and
// what becomes of its locks, and heals it again.
//
//	go run ./examples/partition
//	go run ./examples/partition -seed 42
//
// The nodes are real ones, joined with mesh.JoinContext, and the code around them is
// ordinary blocking code. But clocks and connections are those of package simulate: a
// minute passes in a moment, and the same seed prints the same timeline, byte for byte.
// This is how you test what your own code does when the network fails.
//
// What to look for in the timeline:
//
//   - The side of two has no majority of any shard. Its calls wait, or say so; they guess
//     nothing. Its lock is lost, and the holder hears of that before anybody else gets it.
//   - The side of three elects new leaders and goes on. The lock that the other side held
//     is granted there when its lease is over, with a larger token.
//   - A holder that ignores its loss, and writes still, is refused by its token.
//   - After the heal all five agree again, and a waiter on the side of two is served.
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
	cut    = 10 * time.Second // when the network is cut,
	heal   = 30 * time.Second // and healed
	end    = 45 * time.Second
)

var (
	few  = []string{"ann", "bob"}
	many = []string{"eve", "joe", "kim"}
)

func main() {
	seed := flag.Uint64("seed", 1, "decides everything that chance decides")
	verbose := flag.Bool("v", false, "show every connection and all gossip, too")
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
		err = w.History().Finish() // exclusion, tokens, and an end to every call
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
		return fmt.Errorf("the story has another end: %d of 4 actors, %d writes refused", s.ended, s.guarded().Refused)
	}
	calls, holds := w.History().Calls()
	fmt.Fprintf(out, "\n%d calls, %d holds; no promise was broken\n", calls, holds)
	return nil
}

// story is what the actors share. Only one of them runs at a time.
type story struct {
	world   *simulate.World
	seeds   []string
	nodes   map[string]*mesh.Node
	healthy int // nodes that have seen every shard fully replicated
	ended   int // actors
}

// guarded is what the lock guards: it remembers the largest token that it was shown, and
// refuses smaller ones.
func (s *story) guarded() *simulate.Register { return s.world.Register("orders") }

// node joins a host to the mesh, and tells whenever the mesh looks different from there.
func (s *story) node(ctx context.Context, name string) {
	// Five replicas, so that the three have the majority of every shard. With three, the
	// default, each side would have that of some of the shards.
	node, err := mesh.JoinContext(ctx, s.seeds, mesh.WithName(name), mesh.WithBind(":7300"),
		mesh.WithShards(shards), mesh.WithReplicas(5), mesh.WithLeaseTTL(lease), mesh.WithLogger(slog.New(slog.DiscardHandler)))
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

// look says what a node sees.
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

// careless takes the lock, on the side of two, before the cut. It hears of its loss, and
// writes all the same.
func (s *story) careless(ctx context.Context) {
	simulate.Logf(ctx, "wants \"orders\"; a new mesh grants nothing until all leases of an older one would be over")
	l := s.lock(ctx, "ann", "orders")
	if l == nil {
		return
	}
	s.write(ctx, l)
	if simulate.Wait(ctx, l.Lost()) != nil {
		return
	}
	simulate.Logf(ctx, "is told: %v", l.Err())
	for s.guarded().Highest == l.Token() { // until somebody else has written
		if simulate.Sleep(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
	s.write(ctx, l)
	_ = l.Unlock(ctx) // which fails if it was lost
	s.ended++
}

// next waits for the same lock on the side of three, from before the cut, and gets it when
// the lease of the side of two is over.
func (s *story) next(ctx context.Context) {
	simulate.Sleep(ctx, time.Second)
	simulate.Logf(ctx, "waits for \"orders\", too")
	l := s.lock(ctx, "kim", "orders")
	if l == nil {
		return
	}
	s.write(ctx, l)
	simulate.Sleep(ctx, 2*time.Second) // the work
	_ = l.Unlock(ctx)                  // which fails if it was lost
	s.ended++
}

// hasty tries, on the side of two, to get a lock that nobody holds.
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

// patient waits, on the side of two, for the same: first for a while, then until it has it.
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

	simulate.Logf(ctx, "waits for \"customers\", however long that takes")
	l := s.lock(ctx, "bob", "customers")
	if l == nil {
		return
	}
	_ = l.Unlock(ctx) // which fails if it was lost
	s.ended++
}

// lock is Lock, which must not fail.
func (s *story) lock(ctx context.Context, host, key string) *mesh.Lock {
	l, err := s.nodes[host].Lock(ctx, key)
	if err != nil {
		s.world.Fail(fmt.Errorf("%s: Lock: %w", host, err))
		return nil
	}
	return l
}

// write does the guarded work.
func (s *story) write(ctx context.Context, l *mesh.Lock) {
	if s.guarded().Write(l.Token()) {
		simulate.Logf(ctx, "writes with token %d", l.Token())
	} else {
		simulate.Logf(ctx, "writes with token %d, and is refused: %d was there", l.Token(), s.guarded().Highest)
	}
}

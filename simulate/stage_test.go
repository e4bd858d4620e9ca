package simulate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/transport"
)

// scenario is a script: a small mesh, and a story of what happens to it. What the
// script leaves open, above all how long each message takes, is drawn from a seed.
type scenario struct {
	clients int           // nodes that ask, beside the servers; default 2
	spares  int           // entries of the list beyond three: more than a shard has replicas
	ttl     time.Duration // of the leases, and the longest; default 3 s
	set     map[string]int64
	story   func(*stage)
}

// stage is where a story happens: three nodes that hold the replicas, spare ones for them, and clients.
// The story is told by an actor that no fault reaches.
type stage struct {
	*simulate.World
	scenario
	ctx   context.Context // the storyteller's
	seeds []string
	nodes map[string]*mesh.Node
	// Owner leads at first, for the ring names it first; heir and third follow.
	owner, heir, third string
	spare              string // takes the place of the first that is gone, if there are spares
	ann, bob, eve      string // clients; eve only if there are three
	lockers            []*locker
	looked             time.Duration // for orphans, next
	over               bool
}

const stagePort = ":7400"

// play runs the scenario and returns what its checkers found.
func (sc scenario) play(seed uint64) error {
	if sc.clients == 0 {
		sc.clients = 2
	}
	if sc.ttl == 0 {
		sc.ttl = 3 * time.Second
	}
	opts := simulate.Options{
		Seed: seed, Timeline: *simulate.SeedFlag != 0, Set: sc.set,
		Link: simulate.Link{Latency: 200 * time.Microsecond, Jitter: 300 * time.Microsecond},
	}
	s := &stage{World: simulate.New(opts), scenario: sc, nodes: make(map[string]*mesh.Node)}
	defer s.Close()
	s.Net.Rule(s.overtakes)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}[:3+sc.spares+sc.clients]
	for _, name := range names[:3+sc.spares] {
		s.seeds = append(s.seeds, name+stagePort)
	}
	first := hostsOf(s.seeds...)
	s.owner, s.heir, s.third = first[0], first[1], first[2]
	if sc.spares > 0 {
		s.spare = first[3]
	}
	roles := []*string{&s.ann, &s.bob, &s.eve}
	for _, name := range names {
		s.Host(name)
		if !slices.Contains(first, name) {
			*roles[0], roles = name, roles[1:]
		}
	}
	for _, name := range names {
		s.boot(name)
	}
	s.Go("story", func(ctx context.Context) {
		s.ctx = ctx
		s.within(time.Minute, "all are there, and the ring's owner leads", func() bool {
			return len(s.nodes) == len(names) && s.healthy() && s.leads(s.owner)
		})
		s.lock(s.owner, "first").unlock() // the young tables have settled (P27)
		s.story(s)
		s.end()
	})
	err := s.RunUntil(func() bool { return s.over }, 10*time.Minute)
	if tl := s.Timeline(); tl != nil {
		fmt.Println(tl)
	}
	return err
}

// overtakes sees to it that renewals and their answers, heartbeats, votes and ReadIndex travel in the queue
// that overtakes, and nothing that may be long, or of which there may be many, does: at each step of
// their way, also where one node passes on what another one says (P16).
func (s *stage) overtakes(f simulate.Frame) simulate.Verdict {
	if f.Kind != transport.KindShard {
		return simulate.Pass
	}
	for _, m := range f.Messages() {
		what := strings.TrimPrefix(m, "pass on: ")
		urgent := slices.ContainsFunc([]string{"renewal", "heartbeat", "vote", "prevote", "readindex", "campaign now"}, func(u string) bool {
			return strings.HasPrefix(what, u)
		})
		if got := f.Class == transport.Urgent; got != urgent {
			s.Fail(fmt.Errorf("P16 priority: %q from %s to %s: urgent is %v", m, f.From, f.To, got))
		}
	}
	return simulate.Pass
}

// hostsOf returns the hosts of the entries in the order in which the ring wants the replicas of a mesh's only shard.
func hostsOf(entries ...string) (hosts []string) {
	var members []ring.Member
	for _, entry := range entries {
		members = append(members, ring.Member{Name: entry})
	}
	for _, entry := range ring.New(members, 1, len(members)).Replicas(0) {
		hosts = append(hosts, strings.TrimSuffix(entry, stagePort))
	}
	return hosts
}

// boot lets a host run a node, also after each restart.
func (s *stage) boot(name string, opts ...mesh.Option) {
	s.Host(name).Boot("node", func(ctx context.Context) {
		delete(s.nodes, name)
		n, err := s.join(ctx, name, opts...)
		if err == nil {
			s.nodes[name] = n
		}
	})
}

func (s *stage) join(ctx context.Context, name string, opts ...mesh.Option) (*mesh.Node, error) {
	ctx, cancel := simulate.WithTimeout(ctx, time.Hour)
	defer cancel()
	return mesh.JoinContext(ctx, s.seeds, append([]mesh.Option{
		mesh.WithName(name), mesh.WithBind(stagePort), mesh.WithShards(1), mesh.WithLeaseTTL(s.ttl),
		mesh.WithMaxTTL(s.ttl), mesh.WithLogger(simulate.Logger(ctx)),
	}, opts...)...)
}

// end heals the world, lets all lockers go, and looks at the whole history.
func (s *stage) end() {
	s.HealAll()
	for _, l := range s.lockers {
		l.leave = true
	}
	s.within(2*s.ttl+15*time.Second, "after all faults ended, every call ends (G4)", func() bool {
		return !slices.ContainsFunc(s.lockers, func(l *locker) bool { return !l.over && !l.crashed() })
	})
	s.within(2*s.ttl+15*time.Second, "G4 orphans: the tables know what the clients do", func() bool {
		if s.Now() < s.looked {
			return false
		}
		s.looked = s.Now() + time.Second
		return len(s.History().Orphans()) == 0
	})
	_ = s.History().Finish()
	s.over = true
}

// sleep lets d pass.
func (s *stage) sleep(d time.Duration) { _ = simulate.Sleep(s.ctx, d) }

// within fails the story if cond does not come to hold in time: the mesh promises to
// go on within bounds (G6).
func (s *stage) within(d time.Duration, what string, cond func() bool) {
	for end := s.Now() + d; !cond(); s.sleep(time.Millisecond) {
		if s.Now() >= end {
			s.failf("G6 bound: not within %v: %s", d, what)
		}
	}
}

// failf ends the story. It does not return.
func (s *stage) failf(format string, args ...any) {
	s.Fail(fmt.Errorf(format, args...))
	for {
		s.sleep(time.Hour)
	}
}

// must ends the story unless ok.
func (s *stage) must(ok bool, format string, args ...any) {
	if !ok {
		s.failf(format, args...)
	}
}

// draw returns a duration in [lo, hi), by the seed.
func (s *stage) draw(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(s.Rand().Uint64()%uint64(hi-lo))
}

// leads reports whether the replica of shard 0 on a host, and no other, serves.
func (s *stage) leads(host string) bool { return slices.Equal(s.Serving(0), []string{host}) }

func (s *stage) healthy() bool {
	for name, n := range s.nodes { // order-free: all must agree
		if s.Host(name).Up() && !n.Health().FullyReplicated {
			return false
		}
	}
	return true
}

// rule lets the same befall every frame that fits, from now on.
func (s *stage) rule(v simulate.Verdict, fits func(f simulate.Frame) bool) (stop func()) {
	return s.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		if fits(f) {
			return v
		}
		return simulate.Pass
	})
}

// on runs fn on a host, with its node, and waits for it.
func (s *stage) on(host string, fn func(ctx context.Context, n *mesh.Node)) {
	n := s.nodes[host]
	s.Host(host).Do(s.ctx, "story", func(ctx context.Context) { fn(ctx, n) })
}

// locker is one caller that wants a key, and keeps it until the story lets it go.
type locker struct {
	stage *stage
	host  string
	born  int
	want  check.Want
	take  func(context.Context) (*mesh.Lock, error)

	lock    *mesh.Lock
	err     error
	held    *check.Hold
	granted time.Duration // when Lock returned
	told    time.Duration // when the hold ended
	leave   bool          // give up waiting, or unlock
	over    bool
	undone  error // what Unlock returned
}

// ask lets a caller on host lock a key, in the node's own session.
func (s *stage) ask(host, key string, opts ...mesh.LockOption) *locker {
	n := s.nodes[host]
	return s.locker(host, check.Exclusive(key), func(ctx context.Context) (*mesh.Lock, error) {
		return n.Lock(ctx, key, opts...)
	})
}

// lock is ask, and waits for the lock, which must come soon.
func (s *stage) lock(host, key string, opts ...mesh.LockOption) *locker {
	l := s.ask(host, key, opts...)
	s.within(s.ttl+10*time.Second, fmt.Sprintf("%s locks %q", host, key), func() bool { return l.answered() })
	return l
}

func (s *stage) locker(host string, want check.Want, take func(context.Context) (*mesh.Lock, error)) *locker {
	l := &locker{stage: s, host: host, want: want, take: take, born: s.Host(host).Incarnation()}
	s.lockers = append(s.lockers, l)
	s.Host(host).Go("locker", l.run)
	return l
}

func (l *locker) run(ctx context.Context) {
	s := l.stage
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	simulate.Go(ctx, "patience", func(ctx context.Context) {
		for !l.leave && !l.answered() {
			if simulate.Sleep(ctx, time.Millisecond) != nil {
				return
			}
		}
		cancel()
	})
	call := s.Report(ctx, l.want)
	l.lock, l.err = l.take(wait)
	l.held = call.Returned(l.lock, l.err)
	l.granted = s.Now()
	if l.err != nil {
		l.over = true
		return
	}
	for !l.leave && l.lock.Context().Err() == nil {
		l.held.Use()
		_ = simulate.Sleep(l.lock.WithContext(ctx), 2*time.Millisecond)
	}
	if l.lock.Context().Err() != nil {
		l.told = s.Now()
	}
	l.held.Use()
	l.held.Unlocking()
	l.undone = l.lock.Unlock(ctx)
	l.held.Unlocked(l.undone)
	l.over = true
}

// answered reports whether the call has ended, in a hold or not.
func (l *locker) answered() bool { return l.granted != 0 }

// holds reports whether the caller believes that it holds the key.
func (l *locker) holds() bool {
	return l.answered() && l.err == nil && !l.over && !l.crashed() && l.lock.Context().Err() == nil
}

func (l *locker) crashed() bool {
	h := l.stage.Host(l.host)
	return !h.Up() || h.Incarnation() != l.born
}

// unlock lets the caller go, and waits until it has gone.
func (l *locker) unlock() {
	l.leave = true
	l.stage.within(l.stage.ttl+10*time.Second, fmt.Sprintf("%s unlocks %q", l.host, l.want.Key), func() bool { return l.over })
}

// prove plays a scenario with the correct protocol, for some seeds: the checkers must
// be content.
func prove(t *testing.T, sc scenario) {
	t.Helper()
	first, n := uint64(1), uint64(4)
	switch {
	case *simulate.LongFlag:
		n = 12
	case testing.Short():
		n = 3
	}
	if *simulate.SeedFlag != 0 {
		first, n = *simulate.SeedFlag, 1
	}
	for seed := first; seed < first+n; seed++ {
		if err := sc.play(seed); err != nil {
			t.Fatalf("seed %d: %v\nrepeat: go test ./simulate -run '^%s$' -seed %d", seed, err, t.Name(), seed)
		}
	}
}

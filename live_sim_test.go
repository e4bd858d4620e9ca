package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// fleet is a core in a simulated world. Its processes keep their state directories, and their seeds never change.
type liveFleet struct {
	t     *testing.T
	w     *simulate.World
	seeds map[string][]string
	nodes map[string]*mesh.Node
	opts  []mesh.Option
}

func newLiveFleet(t *testing.T, w *simulate.World, hosts ...string) *liveFleet {
	t.Helper()
	return newLiveFleetOf(t, w, nil, hosts...)
}

// newLiveFleetOf is a fleet whose nodes have options.
func newLiveFleetOf(t *testing.T, w *simulate.World, opts []mesh.Option, hosts ...string) *liveFleet {
	t.Helper()
	f := &liveFleet{t: t, w: w, seeds: make(map[string][]string), nodes: make(map[string]*mesh.Node), opts: opts}
	for _, h := range hosts {
		f.start(h, hosts)
	}
	f.must(time.Minute, "founded", func() bool { return f.healthy(hosts...) && f.ready(hosts...) })
	return f
}

// start starts the process of a host with these seeds.
func (f *liveFleet) start(host string, seeds []string, opts ...mesh.Option) {
	f.seeds[host] = seeds
	f.w.Host(host).Go("start", func(ctx context.Context) {
		opts := append([]mesh.Option{mesh.WithName(host), mesh.WithShards(4), mesh.WithStateDir("/var/lib/" + host)}, append(f.opts, opts...)...)
		n, err := mesh.StartContext(ctx, seeds, opts...)
		if err != nil {
			f.w.Fail(fmt.Errorf("%s does not start: %w", host, err))
			return
		}
		f.nodes[host] = n
	})
}

// restart ends the process of a host, and starts it again, with its seeds, after a while.
func (f *liveFleet) restart(host string, after time.Duration, opts ...mesh.Option) {
	delete(f.nodes, host)
	f.w.Host(host).Crash()
	f.w.At(f.w.Now()+after, func() {
		f.w.Host(host).Restart()
		f.start(host, f.seeds[host], opts...)
	})
}

// gone ends the machine of a host for good.
func (f *liveFleet) gone(host string) {
	delete(f.nodes, host)
	f.w.Host(host).PowerOff()
}

func (f *liveFleet) must(within time.Duration, what string, so func() bool) {
	f.t.Helper()
	if err := f.w.RunUntil(so, within); err != nil {
		for _, host := range []string{"a", "b", "c", "d", "e"} {
			if n := f.nodes[host]; n != nil {
				f.t.Logf("%s: %+v, %v", host, n.Health(), n.Err())
			}
		}
		f.t.Fatalf("not %s: %v", what, err)
	}
}

// healthy reports whether the nodes of these hosts have caught up, and all shards are fully replicated.
func (f *liveFleet) healthy(hosts ...string) bool {
	return !slices.ContainsFunc(hosts, func(h string) bool { return f.nodes[h] == nil || !f.nodes[h].Health().FullyReplicated })
}

func (f *liveFleet) ready(hosts ...string) bool {
	return !slices.ContainsFunc(hosts, func(h string) bool { return f.nodes[h] == nil || !f.nodes[h].Health().Ready })
}

// change lets an operator change the core by the node of a host. It returns what came of it.
func (f *liveFleet) change(host, add, remove string) error {
	f.t.Helper()
	over, result := false, errCrashed
	n := f.nodes[host]
	f.w.Host(host).Go(fmt.Sprint("change ", f.w.Now()), func(ctx context.Context) {
		within, cancel := simulate.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		result, over = n.ChangeCore(within, add, remove), true
	})
	f.must(time.Minute, "answered", func() bool { return over || f.nodes[host] != n })
	return result
}

var errCrashed = errors.New("the host has crashed")

// insist lets an operator change the core by any node of these hosts, again and again until one says that it is done.
func (f *liveFleet) insist(add, remove string, hosts ...string) {
	f.t.Helper()
	var err error
	for i := range 20 {
		host := hosts[i%len(hosts)]
		if f.nodes[host] == nil {
			f.must(10*time.Second, "up again", func() bool { return f.nodes[host] != nil })
		}
		if err = f.change(host, add, remove); err == nil {
			return
		}
		if err := f.w.Run(time.Second); err != nil {
			f.t.Fatal(err)
		}
	}
	f.t.Fatalf("the core does not change: %v", err)
}

// pauses locks and unlocks keys of all shards on a host until the world ends, and returns the longest time between two grants.
func (f *liveFleet) pauses(host string) *time.Duration {
	longest := new(time.Duration)
	f.w.Host(host).Go("load", func(ctx context.Context) {
		last := simulate.Now(ctx)
		for i := 0; simulate.Sleep(ctx, 5*time.Millisecond) == nil; i++ {
			if err := f.nodes[host].Do(ctx, fmt.Sprint("key", i%16), func(context.Context, *mesh.Lock) error { return nil }); err != nil {
				if ctx.Err() == nil {
					f.w.Fail(err)
				}
				return
			}
			now := simulate.Now(ctx)
			*longest, last = max(*longest, now-last), now
		}
	})
	return longest
}

// Promise: C11: one of three is gone for good, and is replaced while the mesh runs; then a fourth is added, and removed. No
// node restarts, and no grant takes longer than it did for the crash.
func TestReplacedLive(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 3})
	defer w.Close()
	f := newLiveFleet(t, w, "a", "b", "c")
	before := map[string]*mesh.Node{"a": f.nodes["a"], "b": f.nodes["b"]}
	longest := f.pauses("b")
	f.gone("c")
	f.must(time.Minute, "without c", func() bool { return *longest > 0 && len(f.nodes["a"].Health().NoMajority) == 0 })
	if err := w.Run(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	*longest = 0
	f.start("d", []string{"a", "b", "d"})
	if err := f.change("a", "d", "c"); err != nil {
		t.Fatal(err)
	}
	f.must(20*time.Second, "fully replicated", func() bool { return f.healthy("a", "b", "d") })
	if *longest > time.Second {
		t.Errorf("a pause of %v while c was replaced", *longest)
	}
	*longest = 0
	f.start("e", []string{"a", "b", "d", "e"})
	if err := f.change("b", "e", ""); err != nil {
		t.Fatal(err)
	}
	f.must(20*time.Second, "four", func() bool { return f.healthy("a", "b", "d", "e") })
	if err := f.change("d", "", "e"); err != nil {
		t.Fatal(err)
	}
	f.must(20*time.Second, "three again", func() bool { return f.healthy("a", "b", "d") })
	if *longest > time.Second {
		t.Errorf("a pause of %v while a fourth came and went", *longest)
	}
	for host, n := range before {
		if f.nodes[host] != n || n.Err() != nil {
			t.Errorf("%s was restarted, or ended: %v", host, n.Err())
		}
	}
	// Whoever ends now comes back by the list that it has kept. Its seeds still have c.
	for _, host := range []string{"a", "b"} {
		f.restart(host, time.Second)
		if err := w.Run(2 * time.Second); err != nil {
			t.Fatal(err)
		}
		f.must(40*time.Second, "restarted", func() bool { return f.healthy("a", "b", "d") })
	}
}

// Promise: C11, G1: the list changes twice while the mesh runs, and then those nodes forget whose seeds are still the first
// list. By what they keep they wait for the others, which have a majority of some shards, instead of founding a second mesh.
func TestTheKeptListCounts(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 5})
	defer w.Close()
	f := newLiveFleet(t, w, "a", "b", "c")
	f.start("d", []string{"a", "b", "c", "d"})
	f.insist("d", "", "a")
	f.must(time.Minute, "four", func() bool { return f.healthy("a", "b", "c", "d") })
	f.start("e", []string{"a", "b", "d", "e"})
	f.insist("e", "c", "a")
	f.must(time.Minute, "four again", func() bool { return f.healthy("a", "b", "d", "e") })
	f.restart("c", 0)
	w.Net.Partition([]string{"d", "e"}, []string{"a", "b", "c"})
	f.restart("a", time.Second)
	f.restart("b", time.Second)
	if err := w.Run(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		if err := w.Run(time.Second); err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"a", "b", "c"} {
			if h := f.nodes[host].Health(); h.Settled || h.Phase != mesh.PhaseWaiting {
				t.Fatalf("%s founds another mesh: %+v", host, h)
			}
		}
	}
	w.Net.Heal()
	f.gone("c")
	f.must(time.Minute, "healed", func() bool { return f.healthy("a", "b", "d", "e") })
}

// Promise: C11: all processes are configured with the list of now, and the list changes once more. One that ends then comes back
// with that configuration, which lags behind. Its state directory keeps the list of now, and the list can change again. One whose directory is
// empty has the list of its configuration: the operator adds an entry that is there, and that gives it the list of now.
func TestSeedsLagBehind(t *testing.T) {
	for _, kept := range []bool{true, false} {
		seedsLagBehind(t, kept)
	}
}

func seedsLagBehind(t *testing.T, kept bool) {
	w := simulate.New(simulate.Options{Seed: 6})
	defer w.Close()
	f := newLiveFleet(t, w, "a", "b", "c")
	f.start("d", []string{"a", "b", "c", "d"})
	f.insist("d", "", "a")
	f.must(time.Minute, "four", func() bool { return f.healthy("a", "b", "c", "d") })
	for _, host := range []string{"a", "b", "c"} {
		f.seeds[host] = []string{"a", "b", "c", "d"}
	}
	f.insist("", "d", "a")
	f.must(time.Minute, "three", func() bool { return f.healthy("a", "b", "c") })
	f.gone("d")
	if kept {
		f.restart("c", time.Second)
	} else {
		f.restart("c", time.Second, mesh.WithStateDir("/var/lib/another"))
	}
	f.must(time.Minute, "back", func() bool { return f.healthy("a", "b", "c") })
	f.start("e", []string{"a", "b", "c", "e"})
	if kept {
		f.insist("e", "", "a")
		f.must(time.Minute, "four again, at once", func() bool { return f.healthy("a", "b", "c", "e") })
		return
	}
	if err := f.change("a", "e", ""); !errors.Is(err, mesh.ErrUnfinished) || !strings.Contains(err.Error(), `node "c" of c:7300 has the list`) {
		t.Errorf("the list changes, though c lacks the one of now: %v", err)
	}
	f.insist("a", "", "a")
	f.insist("e", "", "a")
	f.must(time.Minute, "four again", func() bool { return f.healthy("a", "b", "c", "e") })
}

// Promise: C11, C7: where shards have two voters, one of three is removed, and later one of two: no shard begins again, which would
// cost a quiet time, and no grant waits for long.
func TestRemovedWhereTwoVote(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 10})
	defer w.Close()
	f := newLiveFleetOf(t, w, []mesh.Option{mesh.WithReplicas(1), mesh.WithFound()}, "a", "b", "c")
	longest := f.pauses("a")
	f.must(time.Minute, "out of its quiet time", func() bool { return *longest > 0 })
	if err := w.Run(3 * time.Second); err != nil {
		t.Fatal(err)
	}
	*longest = 0
	for _, goes := range []string{"c", "b"} {
		if err := f.change("a", "", goes); err != nil {
			t.Fatal(err)
		}
		f.must(20*time.Second, "fewer", func() bool { return f.healthy("a") })
	}
	if err := w.Run(11 * time.Second); err != nil {
		t.Fatal(err)
	}
	if *longest > 2*time.Second {
		t.Errorf("a pause of %v", *longest)
	}
}

// Promise: C11: an entry is added to a list of one, and no node ever comes to it. It is removed again.
func TestNobodyComesToTheSecond(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 11})
	defer w.Close()
	f := newLiveFleetOf(t, w, []mesh.Option{mesh.WithFound()}, "a")
	f.insist("x", "", "a")
	f.insist("", "x", "a")
	f.must(time.Minute, "one again", func() bool { return f.healthy("a") && len(f.nodes["a"].Health().UnderReplicated) == 0 })
}

// Promise: G9, C11: a node is stopped in an orderly way as soon as its entry is removed, while its connections are made anew: it
// leaves no vote behind.
func TestLeavesOnceItIsRemoved(t *testing.T) {
	for ms := range time.Duration(10) {
		w := simulate.New(simulate.Options{Seed: 8, Link: simulate.Link{Latency: (1 + 3*ms) * time.Millisecond}})
		f := newLiveFleet(t, w, "a", "b", "c")
		if err := f.change("a", "", "b"); err != nil {
			t.Fatal(err)
		}
		over, result := false, error(nil)
		w.Host("b").Go("leave", func(ctx context.Context) { result, over = f.nodes["b"].Leave(ctx), true })
		f.must(time.Minute, "left", func() bool { return over })
		if result != nil {
			t.Errorf("on links of %v: %v", (1+3*ms)*time.Millisecond, result)
		}
		delete(f.nodes, "b")
		f.must(time.Minute, "two", func() bool { return f.healthy("a", "c") })
		w.Close()
	}
}

// Promise: C11: while the list changes, a process ends at any moment, and starts again with the seeds that it had. The operator
// repeats the command at another node. Each time the change is carried out, on all nodes, or taken back.
func TestCrashesWhileTheListChanges(t *testing.T) {
	for seed := range fewer[uint64](5, 24) {
		w := simulate.New(simulate.Options{Seed: 100 + seed})
		f := newLiveFleet(t, w, "a", "b", "c")
		pick := rand.New(rand.NewPCG(seed, 1)).IntN
		crash := func(hosts ...string) {
			host := hosts[pick(len(hosts))]
			w.At(w.Now()+time.Duration(pick(1200))*time.Millisecond, func() {
				if f.nodes[host] != nil {
					f.restart(host, 500*time.Millisecond)
				}
			})
		}
		f.start("d", []string{"a", "b", "c", "d"})
		crash("a", "b", "c", "d")
		f.insist("d", "", "a", "b", "c")
		f.must(time.Minute, "four", func() bool { return f.healthy("a", "b", "c", "d") })
		crash("a", "b", "d")
		f.insist("", "c", "d", "a", "b")
		f.must(time.Minute, "three", func() bool { return f.healthy("a", "b", "d") })
		f.gone("c")
		crash("a", "b", "d") // nobody ever comes to x
		f.insist("x", "", "a", "b", "d")
		f.insist("", "x", "b", "a", "d")
		f.must(time.Minute, "without x", func() bool { return f.healthy("a", "b", "d") })
		if err := w.Run(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
}

// Promise: C11: what cannot be is refused at once, and changes nothing: the error names the lists, and what to do.
func TestRefusedChanges(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 7})
	defer w.Close()
	f := newLiveFleet(t, w, "a", "b", "c")
	refused := func(host, add, remove string, want error, says ...string) {
		t.Helper()
		err := f.change(host, add, remove)
		if !errors.Is(err, want) {
			t.Fatalf("add %q, remove %q: %v, want %v", add, remove, err, want)
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("add %q, remove %q: %v, want %q", add, remove, err, s)
			}
		}
	}
	refused("a", "", "x", mesh.ErrInvalidOption, `"x:7300" is no entry`)
	refused("a", "", "", mesh.ErrInvalidOption)
	refused("a", "d", "d", mesh.ErrInvalidOption)
	refused("a", "b", "b:7300", mesh.ErrInvalidOption, `"b:7300" and "b:7300"`)
	refused("a", "127.0.0.1", "", mesh.ErrInvalidOption, "leads each node to itself")
	refused("a", "127.0.0.1", "c", mesh.ErrInvalidOption, "leads each node to itself")
	refused("a", "d:x", "", mesh.ErrInvalidOption)
	if err := f.change("a", "c", ""); err != nil {
		t.Errorf("to add what is there: %v", err)
	}
	f.start("z", []string{"a", "b", "c"}) // a client
	f.must(time.Minute, "a client", func() bool { return f.healthy("z") })
	refused("z", "d", "", mesh.ErrNoSeat)
	f.gone("c")
	if err := w.Run(8 * time.Second); err != nil {
		t.Fatal(err)
	}
	refused("a", "d", "", mesh.ErrUnfinished, "the node of c:7300 is silent", "replace or remove c:7300 first")

	one := simulate.New(simulate.Options{Seed: 8})
	defer one.Close()
	f = &liveFleet{t: t, w: one, seeds: make(map[string][]string), nodes: make(map[string]*mesh.Node)}
	f.start("a", []string{"a"}, mesh.WithFound())
	f.must(time.Minute, "founded", func() bool { return f.healthy("a") })
	refused("a", "b", "a", mesh.ErrUnchanged, "from [a:7300] to [b:7300]", "only entry")
	f.start("b", []string{"a", "b"})
	if err := f.change("a", "b", ""); err != nil {
		t.Fatal(err)
	}
	f.must(time.Minute, "two", func() bool { return f.healthy("a", "b") })
	refused("b", "", "a", mesh.ErrUnchanged, "WithFound")
}

// Promise: C11: a node that founded its mesh without seeds, and whose core has grown since, does not found another one alone.
func TestTheKeptListOfNoSeeds(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 10})
	defer w.Close()
	f := &liveFleet{t: t, w: w, seeds: make(map[string][]string), nodes: make(map[string]*mesh.Node)}
	f.start("a", nil, mesh.WithFound(), mesh.WithBind("a:7300"))
	f.must(time.Minute, "founded", func() bool { return f.healthy("a") })
	f.start("b", []string{"a", "b"})
	if err := f.change("a", "b", ""); err != nil {
		t.Fatal(err)
	}
	f.must(time.Minute, "two", func() bool { return f.healthy("a", "b") })
	f.gone("b")
	delete(f.nodes, "a")
	w.Host("a").Crash()
	w.Host("a").Restart()
	f.start("a", nil, mesh.WithFound(), mesh.WithBind("a:7300"))
	if err := w.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	if h := f.nodes["a"].Health(); h.Phase != mesh.PhaseWaiting || len(h.Waiting) != 1 || h.Waiting[0].Entry != "b:7300" {
		t.Errorf("it does not wait for b: %+v", h)
	}
}

// Promise: C11: a node without a state directory could not tell its successor of the list, so nothing changes.
func TestNoListWithoutAStateDir(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 9})
	defer w.Close()
	f := &liveFleet{t: t, w: w, seeds: make(map[string][]string), nodes: make(map[string]*mesh.Node)}
	list := []string{"a", "b", "c"}
	f.start("a", list)
	f.start("b", list)
	w.Host("c").Go("start", func(ctx context.Context) {
		n, err := mesh.StartContext(ctx, list, mesh.WithName("c"), mesh.WithShards(4))
		if err != nil {
			w.Fail(err)
		}
		f.nodes["c"] = n
	})
	f.must(time.Minute, "founded", func() bool { return f.healthy(list...) })
	for _, host := range list {
		err := f.change(host, "d", "")
		if !errors.Is(err, mesh.ErrUnchanged) || !strings.Contains(err.Error(), `node "c" of c:7300 has no state directory`) || !strings.Contains(err.Error(), "from [a:7300 b:7300 c:7300] to [a:7300 b:7300 c:7300 d:7300]") {
			t.Errorf("asked at %s: %v", host, err)
		}
	}
	if err := f.change("a", "", "c"); err != nil { // which need not agree
		t.Error(err)
	}
}

package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// five is coreOf five.
func five(t *testing.T, w *simulate.World, opts ...mesh.Option) map[string]*mesh.Node {
	t.Helper()
	return coreOf(t, w, 5, opts...)
}

// coreOf starts a core of so many hosts, h1 and so on, in a world, and returns its nodes by host when all serve.
func coreOf(t *testing.T, w *simulate.World, n int, opts ...mesh.Option) map[string]*mesh.Node {
	t.Helper()
	nodes := make(map[string]*mesh.Node)
	var hosts []string
	for i := range n {
		hosts = append(hosts, fmt.Sprint("h", i+1))
	}
	for _, host := range hosts {
		w.Host(host).Go("start", func(ctx context.Context) {
			n, err := mesh.StartContext(ctx, hosts, append(opts, mesh.WithName(host))...)
			if err != nil {
				w.Fail(err)
				return
			}
			nodes[host] = n
		})
	}
	ready := func() bool {
		for _, n := range nodes {
			if h := n.Health(); !h.FullyReplicated || !h.QuietUntil.IsZero() {
				return false
			}
		}
		return len(nodes) == len(hosts)
	}
	if err := w.RunUntil(ready, time.Minute); err != nil {
		t.Fatal(err)
	}
	return nodes
}

// lockAll locks a key of each of many shards, or nearly, and returns what came of it; nil while it lasts.
func lockAll(w *simulate.World, host string, n *mesh.Node) (done *bool, err *error) {
	done, err = new(bool), new(error)
	w.Host(host).Go("lock", func(ctx context.Context) {
		for i := range 40 {
			if *err = n.Do(ctx, fmt.Sprint("key", i), nothing); *err != nil {
				break
			}
		}
		*done = true
	})
	return done, err
}

// Promise: C6: the machines of two of five are gone for good. Shards in which both voted wait for them, until an oracle
// says that they will not come back; then all keys can be locked after the quiet time.
func TestDeathOracle(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 7})
	defer w.Close()
	knows, asked := false, 0
	nodes := five(t, w, mesh.WithDeathOracle(func(ctx context.Context, m mesh.Member) (bool, error) {
		asked++
		if !strings.HasPrefix(m.Addr, m.Name+":") || m.State != mesh.MemberDead || len(m.ID) != 16 {
			t.Errorf("asked about %+v", m)
		}
		if err := simulate.Sleep(ctx, time.Duration(asked)*200*time.Millisecond); err != nil {
			return true, err // it takes too long
		}
		return knows && (m.Name == "h1" || m.Name == "h2"), nil
	}))
	for _, host := range []string{"h1", "h2"} {
		w.Host(host).PowerOff()
	}
	done, failed := lockAll(w, "h5", nodes["h5"])
	if err := w.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	if *done || asked == 0 {
		t.Fatalf("all keys are locked, %v, though most voters of a shard may live; the oracle was asked %d times", *failed, asked)
	}
	knows, asked = true, 0
	if err := w.RunUntil(func() bool { return *done }, 30*time.Second); err != nil || *failed != nil {
		t.Fatalf("Do = %v: %v", *failed, err)
	}
}

// Promise: C6, G6: three of five are gone for good, and an oracle says so. No majority is left that could decide it: the nodes wait, and their loops
// rest: a loop that runs without a pause fails the world.
func TestTheOraclesWordWaits(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 7})
	defer w.Close()
	nodes := five(t, w, mesh.WithDeathOracle(func(_ context.Context, m mesh.Member) (bool, error) { return m.Name <= "h3", nil }))
	for _, host := range []string{"h1", "h2", "h3"} {
		w.Host(host).PowerOff()
	}
	if err := w.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	if h := nodes["h5"].Health(); h.Ready {
		t.Errorf("two of five are ready: %+v", h)
	}
}

// Promise: C6: a declaration is dropped once its node connects with the one that was told of it, and the operator hears that at once.
func TestADeclarationIsDropped(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 8})
	defer w.Close()
	nodes := five(t, w)
	w.Net.PartitionOneWay([]string{"h1"}, []string{"h3"})
	w.Net.PartitionOneWay([]string{"h3"}, []string{"h1"})
	if err := w.Run(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	var failed error
	over := false
	w.Host("h3").Go("declare", func(ctx context.Context) {
		failed = nodes["h3"].DeclareDead(ctx, "h1")
		over = true
	})
	if err := w.Run(4 * time.Second); err != nil || over {
		t.Fatalf("it is connected with others, and DeclareDead = %v: %v", failed, err)
	}
	w.Net.Heal()
	if err := w.RunUntil(func() bool { return over }, 4*time.Second); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(failed, mesh.ErrAlive) || errors.Is(failed, context.DeadlineExceeded) {
		t.Errorf("DeclareDead = %v, want ErrAlive alone", failed)
	}
}

// Promise: C6: an operator says it by any node of the core, and hears why it cannot be said.
func TestDeclareDead(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 8})
	defer w.Close()
	nodes := five(t, w)
	declare := func(host, entry string, limit time.Duration) (err error) {
		t.Helper()
		over := false
		w.Host(host).Go("declare", func(ctx context.Context) {
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = simulate.WithTimeout(ctx, limit)
				defer cancel()
			}
			err = nodes[host].DeclareDead(ctx, entry)
			over = true
		})
		if err := w.RunUntil(func() bool { return over }, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		return err
	}
	if err := declare("h3", "nowhere", 0); !errors.Is(err, mesh.ErrInvalidOption) || !strings.Contains(err.Error(), "h1:7300") {
		t.Errorf("an unknown entry: %v", err)
	}
	if err := declare("h3", "a:b:c", 0); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("no entry: %v", err)
	}
	if err := declare("h3", "h1", 3*time.Second); !errors.Is(err, mesh.ErrAlive) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that lives: %v", err)
	}
	for _, host := range []string{"h1", "h2"} {
		w.Host(host).PowerOff()
		if err := declare("h5", host+":7300", 0); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	done, failed := lockAll(w, "h5", nodes["h5"])
	if err := w.RunUntil(func() bool { return *done }, 30*time.Second); err != nil || *failed != nil {
		t.Fatalf("Do = %v: %v", *failed, err)
	}
	w.Host("h3").PowerOff()
	if err := declare("h5", "h3", 0); !errors.Is(err, mesh.ErrNoQuorum) {
		t.Errorf("the third of five: %v", err)
	}
	if err := declare("h5", "h1", 0); err != nil {
		t.Errorf("again: %v", err)
	}
	w.Host("h4").Go("close", func(context.Context) { _ = nodes["h4"].Close() })
	if err := w.Run(time.Second); err != nil {
		t.Fatal(err)
	}
	if err := declare("h4", "h1", 0); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("by a node that has ended: %v", err)
	}
	var none context.Context
	if err := nodes["h5"].DeclareDead(none, "h1"); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("without a context: %v", err)
	}
	if err := new(mesh.Node).DeclareDead(context.Background(), "h1"); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("of a zero node: %v", err)
	}
}

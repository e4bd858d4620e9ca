package mesh_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Promise: P27: a new mesh off loopback grants nothing at first, and every caller that is refused or gives up
// hears of that, and for how much longer; nobody is told that another one holds the key or waits.
func TestQuietTime(t *testing.T) {
	s := newStarts(t)
	for _, host := range []string{"a", "b", "c"} {
		s.start(host)
	}
	try := func(ctx context.Context, n *mesh.Node) error { _, err := n.TryLock(ctx, "k"); return err }
	// tells checks what a call met, and returns for how much longer its shard is quiet.
	tells := func(what string, r *result, want error) time.Duration {
		t.Helper()
		var wait *mesh.WaitError
		if r.at < 0 || !errors.As(r.err, &wait) || !errors.Is(r.err, want) || errors.Is(r.err, mesh.ErrLocked) != (want == mesh.ErrLocked) {
			t.Fatalf("%s: at %v: %v, want %v", what, r.at, r.err, want)
		}
		return wait.Quiet
	}

	ready := s.call("a", time.Minute, func(ctx context.Context, n *mesh.Node) error { return n.WaitReady(ctx) })
	s.run(5 * time.Second)
	if ready.err != nil || ready.at < 0 {
		t.Fatalf("at %v: not ready: %v", ready.at, ready.err)
	}
	waits := s.call("b", time.Minute, lockK)
	tried := s.call("a", time.Minute, try)
	gaveUp := s.call("c", time.Second, lockK)
	s.run(2 * time.Second)
	first := tells("a try, and another caller waits", tried, mesh.ErrQuiet)
	second := tells("a Lock that gives up", gaveUp, context.DeadlineExceeded)
	if most := 10*time.Second + 200*time.Millisecond; first < 3*time.Second || first > most {
		t.Errorf("quiet for another %v, want at most %v", first, most)
	}
	if waited := gaveUp.at - tried.at; second < first-waited-100*time.Millisecond || second > first-waited+100*time.Millisecond {
		t.Errorf("quiet for another %v, and %v later for another %v", first, waited, second)
	}
	s.run(first)
	if waits.err != nil || waits.at < 0 {
		t.Fatalf("the waiter: %v", waits.err)
	}
	if end := tried.at + first; waits.at < end-200*time.Millisecond || waits.at > end+200*time.Millisecond {
		t.Errorf("the waiter had its lock after %v, and quiet was to end after %v", waits.at, end)
	}

	s.call("b", time.Minute, func(ctx context.Context, n *mesh.Node) error { _, err := n.Lock(ctx, "k"); return err })
	s.run(time.Second)
	later := s.call("a", time.Minute, try)
	s.run(time.Second)
	if left := tells("a try of what is held", later, mesh.ErrLocked); left != 0 {
		t.Errorf("quiet is over, and told for another %v", left)
	}
}

// P27: every node says when quiet time is expected to end, also one without replicas, and one that comes in the
// middle; and logs its beginning and its end once.
func TestHealthInQuietTime(t *testing.T) {
	s := newStarts(t)
	logs := make(map[string]*strings.Builder)
	start := func(host string) {
		logs[host] = new(strings.Builder)
		s.start(host, mesh.WithShards(1), mesh.WithReplicas(1), mesh.WithLogger(slog.New(slog.NewTextHandler(logs[host], nil))))
	}
	// ends returns in how long quiet is to end, as a node's Health says; zero: nothing is quiet.
	ends := func(host string) (left time.Duration) {
		s.Host(host).Go("health", func(ctx context.Context) {
			if until := s.nodes[host].Health().QuietUntil; !until.IsZero() {
				left = until.Sub(simulate.Wall(ctx))
			}
		})
		s.run(time.Millisecond)
		return left
	}
	for _, host := range []string{"a", "b", "c"} {
		start(host)
		if left := ends(host); left != 0 {
			t.Errorf("%s, which is in no mesh, says that quiet ends in %v", host, left)
		}
	}
	s.run(7 * time.Second)
	start("d")
	s.run(2 * time.Second)
	first := ends("a")
	for host := range logs {
		if left := ends(host); left < time.Second || left > 9*time.Second || left < first-100*time.Millisecond || left > first+100*time.Millisecond {
			t.Errorf("%s says that quiet ends in %v, and a says %v", host, left, first)
		}
	}
	s.run(first + 2*time.Second)
	for host, log := range logs {
		if left := ends(host); left != 0 {
			t.Errorf("%s says afterwards that quiet ends in %v", host, left)
		}
		begins, over := strings.Count(log.String(), "quiet time begins"), strings.Count(log.String(), "quiet time is over")
		if begins != 1 || over != 1 {
			t.Errorf("%s logs %d times that quiet begins, and %d times that it is over", host, begins, over)
		}
	}
}

// Quickstart runs three nodes of a mesh in one process, with a worker on each. The workers
// take turns at locking one key. Then the node that leads the key's shard is killed. The
// other two go on: there is no server to restart, and tokens keep growing.
//
//	go run ./examples/quickstart
//
// It prints every grant with its token and ends after some seconds. It fails if two workers
// ever hold the key together, or if a token is not larger than the one before.
//
// In production each node lives in a process of its own, on a machine of its own, and all have the same
// list. Any number of other processes, at no entry of the list, may use its locks as clients: see examples/fleet.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
)

const (
	key    = "orders/42"
	lease  = 2 * time.Second // how long a lock outlives the process that holds it
	before = 8               // grants before the kill
	after  = 12              // grants after the kill
	work   = 200 * time.Millisecond
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 14*time.Second)
	defer cancel()
	story := &story{start: time.Now()}

	// All nodes have one list, with an entry for each of these three. They found the mesh together, so each
	// is started before the first one is waited for.
	names := []string{"ann", "bob", "eve"}
	list, err := freeAddrs(len(names))
	if err != nil {
		return err
	}
	nodes := make(map[string]*mesh.Node)
	for i, name := range names {
		node, err := mesh.Start(list,
			mesh.WithName(name),
			mesh.WithBind(list[i]),
			mesh.WithLeaseTTL(lease),
			mesh.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return err
		}
		defer node.Close()
		nodes[name] = node
		story.tell("%s starts at %s", name, node.Addr())
	}
	for _, node := range nodes {
		if err := node.WaitReady(ctx); err != nil {
			return err
		}
	}
	// Before every shard has three replicas, a kill could take the majority of one.
	if err := nodes["ann"].WaitHealthy(ctx); err != nil {
		return err
	}
	owner, err := ownerOf(ctx, nodes)
	if err != nil {
		return err
	}
	story.tell("every shard has its replicas; %s leads the shard of %q", owner, key)

	// The owner is killed while another node's worker holds the key.
	ledger := &ledger{story: story}
	killed := false
	ledger.granted = func(count int, holder string) {
		switch {
		case !killed && count > before && holder != owner:
			killed = true
			ledger.end = count + after
			story.tell("%s is killed, while %s holds the key and keeps it", owner, holder)
			story.tell("(the mesh cannot know that %s's worker stopped: its place in the queue ends with its lease of %v)", owner, lease)
			go nodes[owner].Close() // tells no other node, like a crash
		case killed && count == ledger.end:
			cancel()
		}
	}
	if err := runWorkers(ctx, nodes, ledger); err != nil {
		return err
	}
	if count := ledger.count; !killed || count < ledger.end {
		return fmt.Errorf("only %d grants before the timeout", count)
	}
	story.tell("done: %d grants, one at a time, each with a larger token", ledger.count)
	return nil
}

// freeAddrs returns n addresses of this machine with free ports.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// runWorkers runs a worker on each node, until ctx ends or a worker fails.
func runWorkers(ctx context.Context, nodes map[string]*mesh.Node, ledger *ledger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	failures := make(chan error, len(nodes))
	for name, node := range nodes {
		workers.Go(func() {
			if err := worker(ctx, name, node, ledger); err != nil {
				failures <- err
				cancel()
			}
		})
	}
	workers.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// worker locks the key over and over, and works while it holds it.
func worker(ctx context.Context, name string, node *mesh.Node, ledger *ledger) error {
	for {
		err := node.Do(ctx, key, func(held context.Context, l *mesh.Lock) error {
			if err := ledger.enter(name, l.Token()); err != nil {
				return err
			}
			defer ledger.leave()
			select {
			case <-time.After(work):
			case <-held.Done(): // the lock is lost: stop working
			}
			return nil
		})
		switch {
		case errors.Is(err, errBroken):
			return err
		case node.Err() != nil:
			ledger.story.tell("%s's worker ends with its node", name)
			return nil
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// ownerOf returns the name of the node that leads the key's shard. The error of a refused
// TryLock names it.
func ownerOf(ctx context.Context, nodes map[string]*mesh.Node) (string, error) {
	held, err := nodes["ann"].Lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer held.Unlock(ctx)
	_, err = nodes["bob"].TryLock(ctx, key)
	var wait *mesh.WaitError
	if !errors.As(err, &wait) || nodes[wait.Leader] == nil {
		return "", fmt.Errorf("TryLock of a held key: the error does not name the leader: %v", err)
	}
	return wait.Leader, nil
}

// ledger is what the lock guards. It checks the promises of the mesh.
type ledger struct {
	story   *story
	granted func(count int, holder string) // called with each grant

	mu     sync.Mutex
	holder string // the worker that holds the key, or ""
	last   uint64 // the largest token so far
	count  int    // grants so far
	end    int    // grants at which to stop; set by the kill
}

var errBroken = errors.New("a promise is broken")

func (l *ledger) enter(name string, token uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.holder != "":
		return fmt.Errorf("%w: %s is granted the key while %s holds it", errBroken, name, l.holder)
	case token <= l.last:
		return fmt.Errorf("%w: token %d after token %d", errBroken, token, l.last)
	}
	l.holder, l.last = name, token
	l.count++
	l.story.tell("%s holds the key, token %d", name, token)
	l.granted(l.count, name)
	return nil
}

func (l *ledger) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = ""
}

// story prints what happens, with the time since the start.
type story struct{ start time.Time }

func (s *story) tell(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

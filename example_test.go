package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/lockmesh/mesh"
)

// A single process founds a mesh of one, which is enough to try everything. In a fleet all
// processes pass the same list of seeds.
func Example() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	lock, err := node.Lock(ctx, "orders/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", lock.Err() == nil)
	fmt.Println("unlocked:", lock.Unlock(ctx))
	fmt.Println("held:", lock.Err() == nil)
	// Output:
	// held: true
	// unlocked: <nil>
	// held: false
}

// A lock with MaxHold ends by itself. Extend moves the end, as often as there is progress.
func ExampleMaxHold() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	l, err := node.Lock(ctx, "import", mesh.MaxHold(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	first := l.Deadline()
	if err := l.Extend(ctx, 5*time.Second); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("later:", l.Deadline().After(first))
	fmt.Println(l.Extend(ctx, 100*time.Millisecond)) // no progress any more
	<-l.Lost()
	fmt.Println("lost:", errors.Is(l.Err(), mesh.ErrLost))
	// Output:
	// later: true
	// <nil>
	// lost: true
}

// Readers share a key, and keep writers out.
func ExampleNode_RLock() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	one, err := node.RLock(ctx, "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer one.Unlock(ctx)
	other, err := node.RLock(ctx, "config") // does not wait for the first one
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Unlock(ctx)
	_, err = node.TryLock(ctx, "config")
	fmt.Println(errors.Is(err, mesh.ErrLocked))
	// Output: true
}

// Do always unlocks, even after a panic. The context that it passes to the function ends if
// the lock is lost.
func ExampleNode_Do() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	last := uint64(0) // the largest token that a guarded resource has seen
	for range 3 {
		err := node.Do(context.Background(), "orders/42", func(ctx context.Context, l *mesh.Lock) error {
			if l.Token() <= last {
				return errors.New("an old token")
			}
			last = l.Token()
			return ctx.Err()
		})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// <nil>
}

// A function whose lock is lost learns that from the cause of its context; the context's Err says Canceled, whatever the reason
// is. Here the lock ends by MaxHold; one that is lost because the node was cut off looks the same.
func ExampleNode_Do_lost() {
	node, err := mesh.Solo(mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	err = node.Do(context.Background(), "orders/42", func(ctx context.Context, _ *mesh.Lock) error {
		select {
		case <-time.After(time.Minute): // the work
			return nil
		case <-ctx.Done():
			fmt.Println("Err:  ", ctx.Err())
			fmt.Println("Cause:", context.Cause(ctx))
			return fmt.Errorf("stopped: %w", context.Cause(ctx))
		}
	}, mesh.MaxHold(100*time.Millisecond))
	fmt.Println(errors.Is(err, mesh.ErrLost))
	// Output:
	// Err:   context canceled
	// Cause: mesh: lock lost
	// true
}

// The contexts of a lock end with the cause ErrLost if it is lost, and with Canceled if it is unlocked.
func ExampleLock_Context() {
	node, err := mesh.Solo(mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	unlocked, err := node.Lock(ctx, "orders/1")
	if err != nil {
		fmt.Println(err)
		return
	}
	held, err := node.Lock(ctx, "orders/2")
	if err != nil {
		fmt.Println(err)
		return
	}
	first, second := unlocked.Context(), held.Context()
	if err := unlocked.Unlock(ctx); err != nil {
		fmt.Println(err)
	}
	node.Close() // as a crash would: the node can renew no lease any more
	fmt.Println(first.Err(), "because of", context.Cause(first))
	fmt.Println(second.Err(), "because of", context.Cause(second))
	// Output:
	// context canceled because of context canceled
	// context canceled because of mesh: lock lost
}

// The error of a refused TryLock names the holder.
func ExampleNode_TryLock() {
	node, err := mesh.Solo(mesh.WithName("ann"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	lock, err := node.Lock(ctx, "orders/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock(ctx)

	_, err = node.TryLock(ctx, "orders/42")
	var wait *mesh.WaitError
	if errors.As(err, &wait) {
		fmt.Println(errors.Is(err, mesh.ErrLocked), wait.Holder, wait.Token == lock.Token())
	}
	// Output: true ann true
}

// A semaphore lets at most three processes import at a time.
func ExampleNode_Acquire() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	for range 3 {
		if _, err := node.Acquire(ctx, "imports", 1, 3); err != nil {
			fmt.Println(err)
		}
	}
	_, err = node.TryAcquire(ctx, "imports", 1, 3)
	fmt.Println("a fourth:", errors.Is(err, mesh.ErrLocked))
	// Output: a fourth: true
}

// Two calls that lock one key exclude each other, unless the second is Reentrant and its context
// comes from the first lock.
func ExampleReentrant() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	outer, err := node.Lock(ctx, "orders/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = node.Lock(outer.Context(), "orders/42")
	fmt.Println(errors.Is(err, mesh.ErrSelfDeadlock))

	inner, err := node.Lock(outer.Context(), "orders/42", mesh.Reentrant())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(inner.Token() == outer.Token())
	fmt.Println(inner.Unlock(ctx), outer.Err())
	fmt.Println(outer.Unlock(ctx))
	// Output:
	// true
	// true
	// <nil> <nil>
	// <nil>
}

// A process that has to answer probes before its mesh is founded starts its node, and goes on. Calls wait for
// the mesh.
func ExampleStart() {
	node, err := mesh.Start(nil, mesh.WithFound(), mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	fmt.Println("ready:", node.WaitReady(ctx))
	fmt.Println("settled:", node.Health().Settled)
	// Output:
	// ready: <nil>
	// settled: true
}

// Before its mesh is founded a node says which entries it waits for. It lives, so its process must not be restarted.
func ExampleNode_Health() {
	node, err := mesh.Start([]string{"127.0.0.1:1", "127.0.0.1:2"}, // nobody is there
		mesh.WithBind("127.0.0.1:0"), mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	for node.Health().Role == mesh.RoleUndecided { // until the dials of all entries have ended
		time.Sleep(10 * time.Millisecond)
	}

	h := node.Health()
	fmt.Println(h.Role, h.Phase, "settled:", h.Settled)
	for _, w := range h.Waiting {
		fmt.Println("waits for", w.Entry)
	}
	fmt.Println("lives:", node.Live() == nil)
	// Output:
	// client waiting settled: false
	// waits for 127.0.0.1:1
	// waits for 127.0.0.1:2
	// lives: true
}

// A client of a core whose addresses change: it asks a directory for contact points.
func ExampleWithDiscovery() {
	directory := func(context.Context) ([]string, error) { return nil, errors.New("the directory is empty") }
	node, err := mesh.Start(nil, mesh.WithDiscovery(directory), mesh.WithBind("127.0.0.1:0"), mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err = node.WaitReady(ctx)
	fmt.Println(errors.Is(err, mesh.ErrNotFounded), strings.Contains(err.Error(), "the directory is empty"))
	// Output: true true
}

// The core of a mesh that runs grows by an entry. Its nodes keep the next list in their state directories.
func ExampleNode_ChangeCore() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var list []string
	for range 2 { // two ports that are free
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Println(err)
			return
		}
		list = append(list, l.Addr().String())
		l.Close()
	}
	start := func(addr string, seeds []string) *mesh.Node {
		dir, err := os.MkdirTemp("", "lockmesh")
		if err != nil {
			fmt.Println(err)
			return nil
		}
		n, err := mesh.Start(seeds, mesh.WithBind(addr), mesh.WithStateDir(dir), mesh.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			fmt.Println(err)
		}
		return n
	}
	first := start(list[0], list[:1])
	defer first.Close()
	fmt.Println("first:", first.WaitReady(ctx))

	second := start(list[1], list) // with the list that the core is to have
	defer second.Close()
	fmt.Println("changed:", first.ChangeCore(ctx, list[1], ""))
	fmt.Println("ready:", second.WaitReady(ctx)) // a node of the core is ready when it votes wherever it is to
	fmt.Println("the second is of the", second.Health().Role)
	// Output:
	// first: <nil>
	// changed: <nil>
	// ready: <nil>
	// the second is of the core
}

// An operator who has stopped all processes of a fleet need not wait for leases that nobody believes in any more.
// A new mesh on loopback without clients or a state directory of an earlier one is not quiet, so there is nothing to end.
func ExampleNode_EndQuiet() {
	node, err := mesh.Solo(mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	if err := node.EndQuiet(ctx); errors.Is(err, mesh.ErrNotQuiet) {
		fmt.Println("all shards grant")
	}
	// Output: all shards grant
}

// Any node may ask the core which nodes there are.
func ExampleNode_ListMembers() {
	node, err := mesh.Solo(mesh.WithName("ann"), mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	members, err := node.ListMembers(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range members {
		fmt.Println(m.Name, m.State)
	}
	// Output: ann alive
}

// A fleet that needs longer leases raises their bound while it lives.
func ExampleNode_SetMaxTTL() {
	node, err := mesh.Solo(mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	_, err = node.NewSession(ctx, mesh.WithTTL(time.Minute))
	fmt.Println("too long:", errors.Is(err, mesh.ErrInvalidOption))
	if err := node.SetMaxTTL(ctx, time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	session, err := node.NewSession(ctx, mesh.WithTTL(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close(ctx)
	fmt.Println(node.MaxTTL(), session.TTL())
	// Output:
	// too long: true
	// 1m0s 1m0s
}

// A program that cannot say whether its work has stopped does not release: the key stays locked until the lease ends.
func ExampleSession_Abandon() {
	node, err := mesh.Solo(mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	session, err := node.NewSession(ctx, mesh.WithTTL(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	lock, err := session.Lock(ctx, "orders/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	session.Abandon()
	fmt.Println("lost:", errors.Is(lock.Err(), mesh.ErrLost))
	_, err = node.TryLock(ctx, "orders/42")
	fmt.Println("still locked:", errors.Is(err, mesh.ErrLocked))
	next, err := node.Lock(ctx, "orders/42") // waits for up to a second
	fmt.Println("free later:", err == nil && next.Token() > lock.Token())
	// Output:
	// lost: true
	// still locked: true
	// free later: true
}

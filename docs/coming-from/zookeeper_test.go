package comingfrom_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
)

func Example_zookeeperCalls() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	key := "orders/42"

	lock, err := node.Lock(ctx, key)
	check(err)
	inner, err := node.Lock(lock.Context(), key, mesh.Reentrant())
	check(err)
	reader, err := node.RLock(lock.Context(), key, mesh.Reentrant())
	check(err)
	check(reader.Unlock(ctx))
	check(inner.Unlock(ctx))
	fmt.Println("held:", lock.Err() == nil, lock.Token() > 0)
	check(lock.Unlock(ctx))

	reader, err = node.RLock(ctx, key)
	check(err)
	k, err := node.Inspect(ctx, key)
	check(err)
	fmt.Println("seen:", k.Holding, k.Waiting)
	_, err = node.Lock(reader.Context(), key)
	fmt.Println("upgrade:", errors.Is(err, mesh.ErrUpgrade))
	check(reader.Unlock(ctx))

	keys := []string{"orders/43", "orders/44"}
	set, err := node.LockAll(ctx, keys)
	check(err)
	check(set.Unlock(ctx))

	lease, err := node.Acquire(ctx, "imports", 1, 3)
	check(err)
	_, err = node.Acquire(ctx, "imports", 1, 4)
	fmt.Println("another limit:", errors.Is(err, mesh.ErrCapacityMismatch))
	check(lease.Unlock(ctx))

	barrier := node.Barrier("step", 3)
	var members sync.WaitGroup
	for range 3 {
		members.Go(func() {
			passage, err := barrier.Enter(ctx)
			check(err)
			check(passage.Leave(ctx))
		})
	}
	members.Wait()
	latch := node.Latch("go", 1)
	check(latch.Arrive(ctx, "operator"))
	fmt.Println("open:", latch.Wait(ctx) == nil)
	// Output:
	// held: true true
	// seen: 1 0
	// upgrade: true
	// another limit: true
	// open: true
}

func zookeeperWait(ctx context.Context, node *mesh.Node) error {
	wait, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	lock, err := node.Lock(wait, "orders/42")
	if err != nil {
		return err // after 5 s one that is context.DeadlineExceeded
	}
	defer lock.Unlock(ctx)
	return charge(lock.WithContext(ctx), 42, lock.Token())
}

func Example_zookeeperWait() {
	node := solo()
	defer node.Close()
	fmt.Println(zookeeperWait(context.Background(), node))
	// Output:
	// charged order 42
	// <nil>
}

func zookeeperLead(ctx context.Context, node *mesh.Node) error {
	return node.Election("leader/importer").Lead(ctx, []byte("me"), func(ctx context.Context, l *mesh.Leadership) error {
		return importAll(ctx, l.Token()) // ctx ends when leadership is lost
	})
}

func Example_zookeeperLead() {
	node := solo()
	defer node.Close()
	fmt.Println(zookeeperLead(context.Background(), node))
	// Output:
	// imported
	// <nil>
}

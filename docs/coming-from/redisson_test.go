package comingfrom_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
)

func Example_redissonCalls() {
	node := solo(mesh.WithLeaseTTL(10 * time.Second))
	defer node.Close()
	ctx := context.Background()
	key := "orders/42"

	lock, err := node.Lock(ctx, key)
	check(err)
	inner, err := node.Lock(lock.Context(), key, mesh.Reentrant())
	check(err)
	check(inner.Unlock(ctx))
	left := time.Until(lock.Deadline())
	fmt.Println("held:", lock.Err() == nil, left > 0, lock.Token() == inner.Token())
	_, err = node.TryLock(ctx, key)
	fmt.Println("tried:", errors.Is(err, mesh.ErrLocked))
	check(lock.Unlock(ctx))

	lock, err = node.Lock(ctx, key, mesh.MaxHold(10*time.Second))
	check(err)
	check(lock.Unlock(ctx))

	reader, err := node.RLock(ctx, key)
	check(err)
	_, err = node.Lock(reader.Context(), key)
	fmt.Println("upgrade:", errors.Is(err, mesh.ErrUpgrade))
	check(reader.Unlock(ctx))

	k, err := node.Inspect(ctx, key)
	check(err)
	fmt.Println("locked:", k.Holding > 0)

	hangs, err := node.Lock(ctx, key)
	check(err)
	free := make(chan error, 1)
	go func(token uint64) { free <- node.Break(ctx, key, token) }(hangs.Token())
	<-hangs.Lost()
	fmt.Println("broken:", errors.Is(hangs.Unlock(ctx), mesh.ErrBroken))
	check(<-free)

	keys := []string{"orders/43", "orders/44"}
	set, err := node.LockAll(ctx, keys)
	check(err)
	check(set.Unlock(ctx))

	permits, err := node.Acquire(ctx, "imports", 10, 23)
	check(err)
	permit, err := node.Acquire(ctx, "imports", 1, 23, mesh.MaxHold(10*time.Second))
	check(err)
	check(permit.Unlock(ctx))
	check(permits.Unlock(ctx))

	latch := node.Latch("migrations", 3)
	for _, shard := range []string{"a", "b", "b", "c"} {
		check(latch.Arrive(ctx, shard))
	}
	fmt.Println("open:", latch.Wait(ctx) == nil)
	// Output:
	// held: true true true
	// tried: true
	// upgrade: true
	// locked: false
	// broken: true
	// open: true
}

func redissonTry(ctx context.Context, node *mesh.Node) error {
	wait, cancel := context.WithTimeout(ctx, 100*time.Second)
	defer cancel()
	lock, err := node.Lock(wait, "orders/42", mesh.MaxHold(10*time.Second))
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return charge(lock.WithContext(ctx), 42, lock.Token())
}

func Example_redissonTry() {
	node := solo()
	defer node.Close()
	fmt.Println(redissonTry(context.Background(), node))
	// Output:
	// charged order 42
	// <nil>
}

func redissonLock(ctx context.Context, node *mesh.Node) error {
	return node.Do(ctx, "orders/42", func(ctx context.Context, l *mesh.Lock) error {
		return charge(ctx, 42, l.Token()) // ctx ends if the lease is lost
	})
}

func Example_redissonLock() {
	node := solo()
	defer node.Close()
	fmt.Println(redissonLock(context.Background(), node))
	// Output:
	// charged order 42
	// <nil>
}

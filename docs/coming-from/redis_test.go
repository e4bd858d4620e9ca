package comingfrom_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
)

func Example_redisCalls() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	key := "orders/42"

	lock, err := node.TryLock(ctx, key, mesh.MaxHold(5*time.Second))
	check(err)
	left := time.Until(lock.Deadline())
	fmt.Println("held:", lock.Err() == nil, left > 0, lock.Token() > 0)
	fmt.Println("extended:", lock.Extend(ctx, 5*time.Second))
	k, err := node.Inspect(ctx, key)
	check(err)
	fmt.Println("seen:", k.Holding, k.Holders[0].Token == lock.Token())
	_, err = node.TryLock(ctx, key)
	fmt.Println("tried:", errors.Is(err, mesh.ErrLocked))
	fmt.Println("unlocked:", lock.Unlock(ctx))

	lock, err = node.Lock(ctx, key)
	check(err)
	fmt.Println("unlocked:", lock.Unlock(ctx))

	token := lock.Token()
	fmt.Println("nothing to break:", errors.Is(node.Break(ctx, key, token), mesh.ErrNotHeld))
	// Output:
	// held: true true true
	// extended: <nil>
	// seen: 1 true
	// tried: true
	// unlocked: <nil>
	// unlocked: <nil>
	// nothing to break: true
}

func redisLock(ctx context.Context, node *mesh.Node) error {
	lock, err := node.Lock(ctx, "orders/42")
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return charge(lock.WithContext(ctx), 42, lock.Token())
}

func Example_redisLock() {
	node := solo()
	defer node.Close()
	fmt.Println(redisLock(context.Background(), node))
	// Output:
	// charged order 42
	// <nil>
}

// send sends a report.
func send(ctx context.Context, day string) error {
	fmt.Println("sent the report of", day)
	return ctx.Err()
}

func redisOnce(ctx context.Context, node *mesh.Node, day string) error {
	_, err := node.Once(ctx, "report/"+day, 24*time.Hour, func(ctx context.Context, op *mesh.Operation) error {
		return send(ctx, day) // of all callers one runs this; if it fails, the next one does
	})
	return err
}

func Example_redisOnce() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	fmt.Println(redisOnce(ctx, node, "2026-11-27"))
	fmt.Println(redisOnce(ctx, node, "2026-11-27"))
	// Output:
	// sent the report of 2026-11-27
	// <nil>
	// <nil>
}

package comingfrom_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
)

func Example_redsyncCalls() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	key := "orders/42"

	lock, err := node.Lock(ctx, key)
	check(err)
	left := time.Until(lock.Deadline())
	fmt.Println("held:", lock.Err() == nil, left > 0, lock.Token() > 0)
	_, err = node.TryLock(ctx, key)
	fmt.Println("tried:", errors.Is(err, mesh.ErrLocked))
	fmt.Println("unlocked:", lock.Unlock(ctx))

	lock, err = node.Lock(ctx, key, mesh.MaxHold(8*time.Second))
	check(err)
	fmt.Println("extended:", lock.Extend(ctx, 8*time.Second))
	fmt.Println("unlocked:", lock.Unlock(ctx))
	// Output:
	// held: true true true
	// tried: true
	// unlocked: <nil>
	// extended: <nil>
	// unlocked: <nil>
}

func redsyncLong(ctx context.Context, node *mesh.Node) error {
	return node.Do(ctx, "orders/42", func(ctx context.Context, l *mesh.Lock) error {
		return charge(ctx, 42, l.Token())
	})
}

func Example_redsyncLong() {
	node := solo()
	defer node.Close()
	fmt.Println(redsyncLong(context.Background(), node))
	// Output:
	// charged order 42
	// <nil>
}

func redsyncWait(ctx context.Context, node *mesh.Node, patience time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lock, err := node.Lock(wait, "orders/42")
	switch {
	case errors.Is(err, mesh.ErrNoQuorum):
		return fmt.Errorf("the core does not answer: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("others were faster: %w", err) // *mesh.WaitError: the holder, and how many are ahead
	case err != nil:
		return err
	}
	defer lock.Unlock(ctx)
	return charge(lock.WithContext(ctx), 42, lock.Token())
}

func Example_redsyncWait() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	fmt.Println(redsyncWait(ctx, node, 5*time.Second))

	lock, err := node.Lock(ctx, "orders/42")
	check(err)
	defer lock.Unlock(ctx)
	err = redsyncWait(ctx, node, 50*time.Millisecond)
	var wait *mesh.WaitError
	fmt.Println(errors.As(err, &wait), errors.Is(err, context.DeadlineExceeded), wait.Holder, wait.Ahead)
	// Output:
	// charged order 42
	// <nil>
	// true true ann 0
}

package comingfrom_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
)

func Example_consulCalls() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	key := "orders/42"

	session, err := node.NewSession(ctx, mesh.WithTTL(8*time.Second))
	check(err)
	lock, err := session.Lock(ctx, key)
	check(err)
	check(session.Close(ctx))
	fmt.Println("session:", lock.Err())

	data := []byte("worker 7")
	_, err = node.Lock(ctx, "orders/43", mesh.Value(data))
	check(err)
	k, err := node.Inspect(ctx, "orders/43")
	check(err)
	fmt.Printf("its value: %s\n", k.Holders[0].Value)

	lock, err = node.Lock(ctx, key)
	check(err)
	select {
	case <-lock.Lost():
		fmt.Println("lost")
	default:
		fmt.Println("held:", lock.Context().Err() == nil, lock.Token() > 0)
	}
	_, err = node.TryLock(ctx, key)
	fmt.Println("tried:", errors.Is(err, mesh.ErrLocked))
	check(lock.Unlock(ctx))

	slot, err := node.Acquire(ctx, "imports", 1, 3)
	check(err)
	_, err = node.Lock(ctx, "imports")
	fmt.Println("as a lock:", errors.Is(err, mesh.ErrCapacityMismatch))
	check(slot.Unlock(ctx))
	// Output:
	// session: mesh: closed
	// its value: worker 7
	// held: true true
	// tried: true
	// as a lock: true
}

func consulLock(ctx context.Context, node *mesh.Node) error {
	lock, err := node.Lock(ctx, "orders/42")
	if err != nil {
		return err // also if ctx has ended
	}
	defer lock.Unlock(ctx)
	return charge(lock.WithContext(ctx), 42, lock.Token())
}

func Example_consulLock() {
	node := solo()
	defer node.Close()
	fmt.Println(consulLock(context.Background(), node))
	// Output:
	// charged order 42
	// <nil>
}

func consulSlot(ctx context.Context, node *mesh.Node) error {
	slot, err := node.Acquire(ctx, "imports", 1, 3) // one of three
	if err != nil {
		return err
	}
	defer slot.Unlock(ctx)
	return importAll(slot.WithContext(ctx), slot.Token())
}

func Example_consulSlot() {
	node := solo()
	defer node.Close()
	fmt.Println(consulSlot(context.Background(), node))
	// Output:
	// imported
	// <nil>
}

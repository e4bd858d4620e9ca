package comingfrom_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
)

func Example_etcdCalls() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	key := "orders/42"

	session, err := node.NewSession(ctx, mesh.WithTTL(5*time.Second))
	check(err)
	lock, err := session.Lock(ctx, key)
	check(err)
	check(session.Close(ctx))
	<-session.Done()
	fmt.Println("session:", lock.Err())

	lock, err = node.Lock(ctx, key)
	check(err)
	_, err = node.TryLock(ctx, key)
	fmt.Println("tried:", errors.Is(err, mesh.ErrLocked))
	_, err = node.Lock(lock.Context(), key)
	fmt.Println("inside:", errors.Is(err, mesh.ErrSelfDeadlock))
	inner, err := node.Lock(lock.Context(), key, mesh.Reentrant())
	check(err)
	fmt.Println("one token:", inner.Token() == lock.Token())
	check(inner.Unlock(ctx))
	fmt.Println("unlocked:", lock.Unlock(ctx))
	// Output:
	// session: mesh: closed
	// tried: true
	// inside: true
	// one token: true
	// unlocked: <nil>
}

func etcdLock(ctx context.Context, node *mesh.Node) error {
	return node.Do(ctx, "orders/42", func(ctx context.Context, l *mesh.Lock) error {
		return charge(ctx, 42, l.Token()) // ctx ends if the lock is lost
	})
}

func Example_etcdLock() {
	node := solo()
	defer node.Close()
	fmt.Println(etcdLock(context.Background(), node))
	// Output:
	// charged order 42
	// <nil>
}

func etcdTry(ctx context.Context, node *mesh.Node) error {
	lock, err := node.TryLock(ctx, "orders/42")
	var wait *mesh.WaitError
	if errors.Is(err, mesh.ErrLocked) && errors.As(err, &wait) {
		return fmt.Errorf("%s is at it: %w", wait.Holder, err)
	}
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return charge(lock.WithContext(ctx), 42, lock.Token())
}

func Example_etcdTry() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	fmt.Println(etcdTry(ctx, node))
	lock, err := node.Lock(ctx, "orders/42")
	check(err)
	defer lock.Unlock(ctx)
	fmt.Println(errors.Is(etcdTry(ctx, node), mesh.ErrLocked))
	// Output:
	// charged order 42
	// <nil>
	// true
}

func etcdLead(ctx context.Context, node *mesh.Node) error {
	for {
		err := node.Do(ctx, "leader/importer", func(ctx context.Context, l *mesh.Lock) error {
			return importAll(ctx, l.Token()) // leads until this returns
		})
		if !errors.Is(err, mesh.ErrLost) {
			return err
		} // the lease was lost: queue again
	}
}

func Example_etcdLead() {
	node := solo()
	defer node.Close()
	fmt.Println(etcdLead(context.Background(), node))
	// Output:
	// imported
	// <nil>
}

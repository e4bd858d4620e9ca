package comingfrom_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/concurrency"
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

	election, value := node.Election("leader/importer"), []byte("10.0.0.7:80")
	leadership, err := election.Campaign(ctx, value)
	check(err)
	value = []byte("10.0.0.7:81")
	check(leadership.Proclaim(ctx, value))
	state, err := election.Leader(ctx)
	check(err)
	fmt.Println("leader:", state.Node, string(state.Value), state.Token == leadership.Token())
	for state := range election.Observe(ctx) {
		fmt.Println("observed:", state.Node, string(state.Value))
		break
	}
	check(leadership.Resign(ctx))
	_, err = election.Leader(ctx)
	fmt.Println("resigned:", errors.Is(err, mesh.ErrNoLeader))

	day := "2026-08-01"
	ran, err := node.Once(ctx, "report/"+day, 24*time.Hour, func(context.Context, *mesh.Operation) error { return nil })
	fmt.Println("ran:", ran, err)
	// Output:
	// session: mesh: closed
	// tried: true
	// inside: true
	// one token: true
	// unlocked: <nil>
	// leader: ann 10.0.0.7:81 true
	// observed: ann 10.0.0.7:81
	// resigned: true
	// ran: true <nil>
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
	return node.Election("leader/importer").Lead(ctx, []byte("me"), func(ctx context.Context, l *mesh.Leadership) error {
		return importAll(ctx, l.Token()) // ctx ends with the leadership
	})
}

func Example_etcdLead() {
	node := solo()
	defer node.Close()
	fmt.Println(etcdLead(context.Background(), node))
	// Output:
	// imported
	// <nil>
}

func etcdSame(ctx context.Context, node *mesh.Node) error {
	session, err := concurrency.NewSession(node, concurrency.WithTTL(10))
	if err != nil {
		return err
	}
	defer session.Close()
	m := concurrency.NewMutex(session, "orders/42")
	if err := m.Lock(ctx); err != nil {
		return err
	}
	defer m.Unlock(context.WithoutCancel(ctx))
	return charge(ctx, 42, uint64(m.Header().Revision)) // and watch session.Done(), as in etcd
}

func Example_etcdSame() {
	node := solo()
	defer node.Close()
	fmt.Println(etcdSame(context.Background(), node))
	// Output:
	// charged order 42
	// <nil>
}

package concurrency_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/concurrency"
)

// Two sessions contend for a lock. The second one gets it when the first unlocks.
func ExampleMutex_Lock() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx := context.Background()

	s1, err := concurrency.NewSession(node)
	if err != nil {
		log.Fatal(err)
	}
	defer s1.Close()
	s2, err := concurrency.NewSession(node)
	if err != nil {
		log.Fatal(err)
	}
	defer s2.Close()
	m1, m2 := concurrency.NewMutex(s1, "/my-lock"), concurrency.NewMutex(s2, "/my-lock")

	fmt.Println("s1 locks:", m1.Lock(ctx))
	second := make(chan error)
	go func() { second <- m2.Lock(ctx) }()
	fmt.Println("s1 unlocks:", m1.Unlock(ctx))
	fmt.Println("s2 locks:", <-second)
	fmt.Println("a later token:", m2.Header().Revision > m1.Header().Revision)
	// Output:
	// s1 locks: <nil>
	// s1 unlocks: <nil>
	// s2 locks: <nil>
	// a later token: true
}

func ExampleMutex_TryLock() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx := context.Background()

	var mutexes []*concurrency.Mutex
	for range 2 {
		s, err := concurrency.NewSession(node)
		if err != nil {
			log.Fatal(err)
		}
		defer s.Close()
		mutexes = append(mutexes, concurrency.NewMutex(s, "/my-lock"))
	}
	fmt.Println("first:", mutexes[0].TryLock(ctx))
	fmt.Println("second is refused:", mutexes[1].TryLock(ctx) == concurrency.ErrLocked)
	fmt.Println("unlock:", mutexes[0].Unlock(ctx))
	fmt.Println("again:", mutexes[0].Unlock(ctx) == concurrency.ErrLockReleased)
	fmt.Println("second:", mutexes[1].TryLock(ctx))
	// Output:
	// first: <nil>
	// second is refused: true
	// unlock: <nil>
	// again: true
	// second: <nil>
}

// A store that refuses old revisions is safe from a holder that does not know yet that it has lost its lock.
func ExampleMutex_IsOwner() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	s, err := concurrency.NewSession(node)
	if err != nil {
		log.Fatal(err)
	}
	m := concurrency.NewMutex(s, "/my-lock")
	if err := m.Lock(context.Background()); err != nil {
		log.Fatal(err)
	}

	highest := int64(0) // that the store has seen
	owner := m.IsOwner()
	write := func() error {
		if err := owner.Err(); err != nil {
			return err
		}
		if owner.CreateRevision < highest {
			return errors.New("an old revision")
		}
		highest = owner.CreateRevision
		return nil
	}
	fmt.Println(write())
	s.Close()
	fmt.Println(write())
	// Output:
	// <nil>
	// concurrency: the session has ended
}

func ExampleNewLocker() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	s, err := concurrency.NewSession(node)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	l := concurrency.NewLocker(s, "/my-lock")
	l.Lock()
	_, err = node.TryLock(context.Background(), "/my-lock")
	fmt.Println("locked:", errors.Is(err, mesh.ErrLocked))
	l.Unlock()
	// Output: locked: true
}

// A session that is orphaned releases nothing: its locks are free when its lease ends.
func ExampleSession_Orphan() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx := context.Background()
	s1, err := concurrency.NewSession(node, concurrency.WithTTL(1))
	if err != nil {
		log.Fatal(err)
	}
	s2, err := concurrency.NewSession(node)
	if err != nil {
		log.Fatal(err)
	}
	defer s2.Close()
	m1, m2 := concurrency.NewMutex(s1, "/my-lock"), concurrency.NewMutex(s2, "/my-lock")
	if err := m1.Lock(ctx); err != nil {
		log.Fatal(err)
	}

	start := time.Now()
	s1.Orphan()
	<-s1.Done()
	fmt.Println(m2.TryLock(ctx))
	fmt.Println(m2.Lock(ctx), time.Since(start) > 500*time.Millisecond)
	// Output:
	// concurrency: the mutex is locked by another session
	// <nil> true
}

// The first session that campaigns leads. When it resigns, the next one does.
func ExampleElection_Campaign() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx := context.Background()
	var elections []*concurrency.Election
	for range 2 {
		s, err := concurrency.NewSession(node)
		if err != nil {
			log.Fatal(err)
		}
		defer s.Close()
		elections = append(elections, concurrency.NewElection(s, "/my-election"))
	}

	fmt.Println("first:", elections[0].Campaign(ctx, "10.0.0.1"))
	second := make(chan error)
	go func() { second <- elections[1].Campaign(ctx, "10.0.0.2") }()
	fmt.Println("first resigns:", elections[0].Resign(ctx))
	fmt.Println("second:", <-second)
	leader, err := elections[0].Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the leader is at %s\n", leader.Kvs[0].Value)
	// Output:
	// first: <nil>
	// first resigns: <nil>
	// second: <nil>
	// the leader is at 10.0.0.2
}

func ExampleElection_Observe() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := concurrency.NewSession(node)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	e := concurrency.NewElection(s, "/my-election")
	leaders := e.Observe(ctx)

	fmt.Println(e.Campaign(ctx, "10.0.0.1"))
	fmt.Printf("%s\n", (<-leaders).Kvs[0].Value)
	fmt.Println(e.Proclaim(ctx, "10.0.0.2"))
	fmt.Printf("%s\n", (<-leaders).Kvs[0].Value)
	// Output:
	// <nil>
	// 10.0.0.1
	// <nil>
	// 10.0.0.2
}

// Another part of the program, which does not have the Election, goes on with the leadership of the same session.
func ExampleResumeElection() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx := context.Background()
	s, err := concurrency.NewSession(node)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := concurrency.NewElection(s, "/my-election").Campaign(ctx, "10.0.0.1"); err != nil {
		log.Fatal(err)
	}

	leader, err := concurrency.NewElection(s, "/my-election").Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	e := concurrency.ResumeElection(s, "/my-election", string(leader.Kvs[0].Key), leader.Kvs[0].CreateRevision)
	fmt.Println(e.Resign(ctx))
	_, err = e.Leader(ctx)
	fmt.Println(err)
	// Output:
	// <nil>
	// concurrency: there is no leader
}

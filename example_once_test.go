package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
)

// A cron job that runs on one node per tick, whichever nodes call.
func ExampleNode_Once() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	report := func(context.Context, *mesh.Operation) error { fmt.Println("reported"); return nil }
	tick := time.Date(2030, 1, 1, 15, 4, 5, 0, time.UTC).Truncate(time.Hour).Format(time.RFC3339)
	for range 2 {
		ran, err := node.Once(ctx, "report/"+tick, 24*time.Hour, report)
		fmt.Println(ran, err)
	}
	// Output:
	// reported
	// true <nil>
	// false <nil>
}

// A job that fails is tried by those that wait for it, but not for ever.
func ExampleAttempts() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	started, fails := make(chan bool), make(chan bool)
	var waits sync.WaitGroup
	waits.Go(func() {
		_, err := node.Once(ctx, "import", time.Hour, func(context.Context, *mesh.Operation) error {
			started <- true
			<-fails
			return errors.New("no input")
		})
		fmt.Println(err)
	})
	<-started
	waits.Go(func() {
		_, err := node.Once(ctx, "import", time.Hour, func(context.Context, *mesh.Operation) error { return nil }, mesh.Attempts(1))
		if !errors.Is(err, mesh.ErrFailed) {
			fmt.Println(err)
		}
	})
	waiting := func() bool { // for this example: the second call is in the queue
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		var wait *mesh.WaitError
		_, err := node.Once(short, "import", time.Hour, func(context.Context, *mesh.Operation) error { return nil })
		return errors.As(err, &wait) && wait.Ahead > 0
	}
	for !waiting() {
	}
	fails <- true
	waits.Wait()
	// Output:
	// no input
}

// Workers start once all databases have been migrated.
func ExampleNode_Latch() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	migrated := node.Latch("migrated/7", 2)
	var worker sync.WaitGroup
	worker.Go(func() {
		if err := migrated.Wait(ctx); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the worker starts")
	})
	for _, database := range []string{"orders", "orders", "users"} { // one is migrated twice, and counts once
		if err := migrated.Arrive(ctx, database); err != nil {
			fmt.Println(err)
		}
	}
	worker.Wait()
	// Output:
	// the worker starts
}

// Two workers do each step of a computation together.
func ExampleNode_Barrier() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	step := node.Barrier("step", 2)
	var sum [2]int
	var workers sync.WaitGroup
	for i := range sum {
		workers.Go(func() {
			for range 3 {
				passage, err := step.Enter(ctx)
				if err != nil {
					fmt.Println(err)
					return
				}
				sum[i]++
				if err := passage.Leave(ctx); err != nil {
					fmt.Println(err)
				}
			}
		})
	}
	workers.Wait()
	fmt.Println(sum)
	// Output:
	// [3 3]
}

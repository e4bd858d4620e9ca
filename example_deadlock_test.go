package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
)

// Two callers take two accounts in different orders, and wait for each other. The call with DetectDeadlock gives up. Once its caller has
// unlocked, the other one goes on.
func ExampleDetectDeadlock() {
	node, err := mesh.Solo(mesh.WithLeaseTTL(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	mine, err := node.Lock(ctx, "account/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	theirs, err := node.Lock(ctx, "account/3")
	if err != nil {
		fmt.Println(err)
		return
	}
	others := make(chan error)
	go func() {
		_, err := node.Lock(theirs.Context(), "account/7")
		others <- err
	}()

	_, err = node.Lock(mine.Context(), "account/3", mesh.DetectDeadlock())
	var deadlock *mesh.DeadlockError
	if errors.As(err, &deadlock) {
		for _, call := range deadlock.Circle {
			fmt.Println("a call waits for", call.Key)
		}
	}
	fmt.Println(mine.Unlock(ctx), <-others)
	// Output:
	// a call waits for account/3
	// a call waits for account/7
	// <nil> <nil>
}

package mesh_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/mesh"
)

// A job hangs, and its node lives: so its lock lasts. An operator looks who holds it, and breaks that.
func ExampleNode_Break() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	stopped := make(chan struct{})
	held := make(chan struct{})
	go func() {
		defer close(stopped)
		err := node.Do(ctx, "nightly", func(ctx context.Context, _ *mesh.Lock) error {
			close(held)
			<-ctx.Done() // whatever the job does, it heeds its context
			return context.Cause(ctx)
		})
		fmt.Println("the job:", errors.Is(err, mesh.ErrBroken))
	}()
	<-held

	k, err := node.Inspect(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(node.Break(ctx, "nightly", k.Holders[0].Token, mesh.Because("it hangs since Monday")))
	<-stopped
	_, err = node.TryLock(ctx, "nightly")
	fmt.Println(err)
	// Unordered output:
	// the job: true
	// <nil>
	// <nil>
}

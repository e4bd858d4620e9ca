package mesh_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/mesh"
)

// A pool gets more connections. Programs that do not know the new number yet still get connections with the former one.
func ExampleNode_Resize() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	three, err := node.Acquire(ctx, "connections", 3, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(node.Resize(ctx, "connections", 3, 5))
	two, err := node.Acquire(ctx, "connections", 2, 3)
	fmt.Println(two.Err(), err)
	fmt.Println(errors.Is(node.Resize(ctx, "connections", 3, 6), mesh.ErrCapacityMismatch))
	fmt.Println(two.Unlock(ctx), three.Unlock(ctx))
	// Output:
	// <nil>
	// <nil> <nil>
	// true
	// <nil> <nil>
}

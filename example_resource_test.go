package mesh_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/mesh"
)

// Several callers want an image to be there: one fetches it. Nobody can remove it while it is used.
func ExampleResource() {
	node, err := mesh.Solo(mesh.WithName("ann"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	image := node.Resource("registry/app:7")
	fetch := func(ctx context.Context, op *mesh.Operation) error { fmt.Println("fetched"); return nil }
	use, err := image.Pull(ctx, fetch)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := image.Pull(ctx, fetch) // it is there
	if err != nil {
		fmt.Println(err)
		return
	}
	remove := func(context.Context, *mesh.Operation) error { fmt.Println("removed"); return nil }
	_, err = image.Delete(ctx, remove)
	var used *mesh.InUseError
	fmt.Println(errors.As(err, &used), err)

	fmt.Println(use.Release(ctx), again.Release(ctx))
	ran, err := image.Delete(ctx, remove)
	fmt.Println(ran, err)
	// Output:
	// fetched
	// true mesh: delete of "registry/app:7": it is used by "ann"
	// <nil> <nil>
	// removed
	// true <nil>
}

// The same in two steps, for work that is not one function.
func ExampleResource_Begin() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	model := node.Resource("model", mesh.Version("3"))
	for range 2 {
		op, err := model.Begin(ctx, mesh.OpUpdate)
		if err != nil {
			fmt.Println(err)
			return
		}
		if op.Skipped() {
			fmt.Println("it has version 3 already")
			continue
		}
		err = op.Err() // right before what must not be done twice
		fmt.Println("updated, and that is remembered:", op.End(ctx, err))
	}
	// Output:
	// updated, and that is remembered: <nil>
	// it has version 3 already
}

// A durable use outlives the process that made it. Refs tells of the use, and a caller that knows that the user is gone ends it.
func ExampleResource_Refs() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	volume := func(user string) *mesh.Resource {
		return node.Resource("volume/7", mesh.User(user), mesh.Durable())
	}
	for _, user := range []string{"pod-1", "pod-2"} {
		if _, err := volume(user).Pull(ctx, func(context.Context, *mesh.Operation) error { return nil }); err != nil {
			fmt.Println(err)
			return
		}
	}
	refs, err := node.Resource("volume/7").Refs(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range refs {
		fmt.Println(r.User, r.Durable)
	}
	fmt.Println(volume("pod-1").Release(ctx)) // it will not come back
	refs, err = node.Resource("volume/7").Refs(ctx)
	fmt.Println(len(refs), err)
	// Output:
	// pod-1 true
	// pod-2 true
	// <nil>
	// 1 <nil>
}

package mesh_test

import (
	"context"
	"fmt"

	"github.com/lockmesh/mesh"
)

// A writer lets readers in, and keeps other writers out until it has read what it wrote.
func ExampleLock_Downgrade() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	writer, err := node.Lock(ctx, "index")
	if err != nil {
		fmt.Println(err)
		return
	}
	reader, err := writer.Downgrade(ctx)
	fmt.Println(writer.Err(), reader.Err(), reader.Token() == writer.Token(), err)

	other, err := node.TryRLock(ctx, "index")
	fmt.Println(other.Err(), err)
	fmt.Println(reader.Unlock(ctx), other.Unlock(ctx))
	// Output:
	// mesh: closed <nil> true <nil>
	// <nil> <nil>
	// <nil> <nil>
}

// A transfer holds both accounts. Another transfer in the opposite direction cannot wait for it in a circle.
func ExampleNode_LockAll() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	set, err := node.LockAll(ctx, []string{"account/7", "account/3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	work := set.WithContext(ctx) // ends as soon as one of the locks is lost
	fmt.Println(work.Err(), set.Lock("account/3").Key(), set.Lock("account/7").Key())

	fmt.Println(set.Unlock(ctx), context.Cause(work))
	// Output:
	// <nil> account/3 account/7
	// <nil> context canceled
}

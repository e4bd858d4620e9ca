package mesh_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lockmesh/mesh"
)

// Who holds a key, and who waits for it?
func ExampleNode_Inspect() {
	ctx := context.Background()
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	lock, err := node.Lock(ctx, "orders/17", mesh.Value([]byte("packing")))
	if err != nil {
		log.Fatal(err)
	}
	k, err := node.Inspect(ctx, "orders/17")
	if err != nil {
		log.Fatal(err)
	}
	h := k.Holders[0]
	fmt.Printf("%s: %s, %q, its token is that of the lock: %t; %d wait\n", k.Key, k.Kind, h.Value, h.Token == lock.Token(), k.Waiting)
	// Output: orders/17: lock, "packing", its token is that of the lock: true; 0 wait
}

// Which keys are in use?
func ExampleNode_List() {
	ctx := context.Background()
	node, err := mesh.Solo(mesh.WithShards(1))
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	for _, key := range []string{"orders/17", "orders/4", "invoices/1"} {
		if _, err := node.Lock(ctx, key); err != nil {
			log.Fatal(err)
		}
	}
	for k, err := range node.List(ctx, "orders/") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(k.Key, k.Kind)
	}
	// Unordered output:
	// orders/17 lock
	// orders/4 lock
}

package lockhttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/lockhttp"
)

// A node serves guests, and one of them pulls an image that it then uses.
func Example() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	server := httptest.NewServer(lockhttp.Handler(node, lockhttp.Options{}))
	defer server.Close()

	ctx := context.Background()
	guest := &lockhttp.Client{Servers: []string{server.URL}, NodeID: "worker-1"}
	pull := lockhttp.Request{Type: "pull", ResourceID: "registry/app:7"}
	for range 2 {
		ran, err := guest.Do(ctx, pull, func(context.Context, lockhttp.State) error {
			fmt.Println("pulling") // a real pull stops when its context ends
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("ran:", ran)
	}
	users, err := guest.Refs(ctx, "registry/app:7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("used by", users[0].User)
	if err := guest.Release(ctx, "registry/app:7", ""); err != nil {
		log.Fatal(err)
	}
	// Output:
	// pulling
	// ran: true
	// ran: false
	// used by worker-1
}

// A guest holds a lock while it works. The token is for what it writes to.
func ExampleClient_Do() {
	node, err := mesh.Solo()
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	server := httptest.NewServer(lockhttp.Handler(node, lockhttp.Options{}))
	defer server.Close()

	guest := &lockhttp.Client{Servers: []string{server.URL}, NodeID: "worker-1"}
	lock := lockhttp.Request{Type: "lock", ResourceID: "orders/42"}
	_, err = guest.Do(context.Background(), lock, func(ctx context.Context, s lockhttp.State) error {
		fmt.Println("held, with a token:", s.Token > 0)
		return ctx.Err() // not nil once the lease has ended
	})
	fmt.Println(err)
	// Output:
	// held, with a token: true
	// <nil>
}

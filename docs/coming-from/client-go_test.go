package comingfrom_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh"
)

func Example_clientGoCalls() {
	node := solo(mesh.WithName("ann"), mesh.WithLeaseTTL(10*time.Second))
	defer node.Close()
	ctx := context.Background()
	key := "leader/importer"

	check(node.Do(ctx, key, func(ctx context.Context, l *mesh.Lock) error {
		fmt.Println("leads:", l.Err() == nil, l.Token() > 0)
		_, err := node.TryLock(context.Background(), key)
		var wait *mesh.WaitError
		fmt.Println("leader:", errors.As(err, &wait), wait.Holder)
		return nil
	}))
	fmt.Println("lives:", node.Live() == nil)
	// Output:
	// leads: true true
	// leader: true ann
	// lives: true
}

func clientGoLead(ctx context.Context, node *mesh.Node) error {
	for {
		err := node.Do(ctx, "leader/importer", func(ctx context.Context, l *mesh.Lock) error {
			return importAll(ctx, l.Token()) // leads until this returns
		})
		if !errors.Is(err, mesh.ErrLost) {
			return err // the work has ended or failed, ctx has ended, or the node has
		}
	}
}

func Example_clientGoLead() {
	node := solo()
	defer node.Close()
	fmt.Println(clientGoLead(context.Background(), node))
	// Output:
	// imported
	// <nil>
}

func clientGoLeader(ctx context.Context, node *mesh.Node) (string, error) {
	lock, err := node.TryLock(ctx, "leader/importer")
	var wait *mesh.WaitError
	switch {
	case err == nil: // there was none: this try has led for a moment
		return "", lock.Unlock(ctx)
	case errors.Is(err, mesh.ErrLocked) && errors.As(err, &wait):
		return wait.Holder, nil // the name of the leader's node
	}
	return "", err
}

func Example_clientGoLeader() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	leader, err := clientGoLeader(ctx, node)
	fmt.Printf("%q %v\n", leader, err)

	lock, err := node.Lock(ctx, "leader/importer")
	check(err)
	defer lock.Unlock(ctx)
	leader, err = clientGoLeader(ctx, node)
	fmt.Printf("%q %v\n", leader, err)
	// Output:
	// "" <nil>
	// "ann" <nil>
}

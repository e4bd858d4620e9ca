package mesh_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/mesh"
)

// A caller campaigns and leads; others see who leads, and what the leader proclaims.
func ExampleNode_Election() {
	node, err := mesh.Solo(mesh.WithName("ann"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	scheduler := node.Election("scheduler")
	leadership, err := scheduler.Campaign(ctx, []byte("ann:8080"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := leadership.Proclaim(ctx, []byte("ann:9090")); err != nil {
		fmt.Println(err)
	}
	leader, err := scheduler.Leader(ctx)
	fmt.Println(leader.Node, string(leader.Value), leader.Token == leadership.Token(), err)

	fmt.Println(leadership.Resign(ctx), leadership.Err())
	// Output:
	// ann ann:9090 true <nil>
	// <nil> mesh: closed
}

// Lead campaigns, runs a function while it leads, and resigns.
func ExampleElection_Lead() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	err = node.Election("scheduler").Lead(context.Background(), nil, func(ctx context.Context, l *mesh.Leadership) error {
		fmt.Println("leads:", ctx.Err() == nil && l.Err() == nil)
		return errors.New("nothing left to do")
	})
	fmt.Println(err)
	// Output:
	// leads: true
	// nothing left to do
}

// Leader tells who leads at the moment. Here, nobody does.
func ExampleElection_Leader() {
	node, err := mesh.Solo()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	_, err = node.Election("scheduler").Leader(context.Background())
	fmt.Println(errors.Is(err, mesh.ErrNoLeader), err)
	// Output: true mesh: no leader
}

// Observe yields each leader, until the loop ends.
func ExampleElection_Observe() {
	node, err := mesh.Solo(mesh.WithName("ann"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ctx := context.Background()

	var leadership *mesh.Leadership
	for s := range node.Election("scheduler").Observe(ctx) {
		switch {
		case s.Unknown:
			fmt.Println("nobody can say who leads")
		case s.Token != 0:
			fmt.Printf("%s leads and says %q\n", s.Node, s.Value)
			if err := leadership.Resign(ctx); err != nil {
				fmt.Println(err)
			}
		case leadership != nil:
			fmt.Println("nobody leads any more")
			return
		default:
			fmt.Println("nobody leads")
			if leadership, err = node.Election("scheduler").Campaign(ctx, []byte("hello")); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	// Output:
	// nobody leads
	// ann leads and says "hello"
	// nobody leads any more
}

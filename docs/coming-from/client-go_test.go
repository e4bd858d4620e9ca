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
	election, value := node.Election("leader/importer"), []byte("10.0.0.7:80")

	check(election.Lead(ctx, value, func(ctx context.Context, l *mesh.Leadership) error {
		fmt.Println("leads:", l.Err() == nil, l.Token() > 0)
		leader, err := election.Leader(ctx)
		fmt.Println("leader:", leader.Node, err)
		return nil
	}))
	leadership, err := election.Campaign(ctx, value)
	check(err)
	value = []byte("10.0.0.7:81")
	check(leadership.Proclaim(ctx, value))
	for leader := range election.Observe(ctx) {
		fmt.Println("observed:", string(leader.Value))
		break
	}
	check(leadership.Resign(ctx))
	fmt.Println("lives:", node.Live() == nil)
	// Output:
	// leads: true true
	// leader: ann <nil>
	// observed: 10.0.0.7:81
	// lives: true
}

func clientGoLead(ctx context.Context, node *mesh.Node, addr string) error {
	return node.Election("leader/importer").Lead(ctx, []byte(addr), func(ctx context.Context, l *mesh.Leadership) error {
		return importAll(ctx, l.Token()) // leads until this returns
	})
}

func Example_clientGoLead() {
	node := solo()
	defer node.Close()
	fmt.Println(clientGoLead(context.Background(), node, "10.0.0.7:80"))
	// Output:
	// imported
	// <nil>
}

func clientGoLeader(ctx context.Context, node *mesh.Node) (string, error) {
	leader, err := node.Election("leader/importer").Leader(ctx)
	if errors.Is(err, mesh.ErrNoLeader) {
		return "", nil
	}
	return leader.Node, err // the name of the leader's node; leader.Value is its address
}

func Example_clientGoLeader() {
	node := solo()
	defer node.Close()
	ctx := context.Background()
	leader, err := clientGoLeader(ctx, node)
	fmt.Printf("%q %v\n", leader, err)

	leadership, err := node.Election("leader/importer").Campaign(ctx, nil)
	check(err)
	defer leadership.Resign(ctx)
	leader, err = clientGoLeader(ctx, node)
	fmt.Printf("%q %v\n", leader, err)
	// Output:
	// "" <nil>
	// "ann" <nil>
}

func clientGoFollow(ctx context.Context, node *mesh.Node, connect func(node, addr string)) {
	for leader := range node.Election("leader/importer").Observe(ctx) {
		if leader.Token != 0 { // else nobody leads or, if leader.Unknown, nobody can say
			connect(leader.Node, string(leader.Value))
		}
	}
}

func Example_clientGoFollow() {
	node := solo()
	defer node.Close()
	ctx, cancel := context.WithCancel(context.Background())
	leadership, err := node.Election("leader/importer").Campaign(ctx, []byte("10.0.0.7:80"))
	check(err)
	defer leadership.Resign(context.Background())
	clientGoFollow(ctx, node, func(node, addr string) {
		fmt.Println(node, addr)
		cancel()
	})
	// Output:
	// ann 10.0.0.7:80
}

func clientGoOnce(ctx context.Context, node *mesh.Node, now time.Time, report mesh.OpFunc) error {
	tick := now.Truncate(time.Hour).Format(time.RFC3339)
	_, err := node.Once(ctx, "report/"+tick, 24*time.Hour, report)
	return err
}

func Example_clientGoOnce() {
	node := solo()
	defer node.Close()
	now := time.Date(2026, 8, 1, 12, 0, 1, 0, time.UTC)
	for range 2 {
		fmt.Println(clientGoOnce(context.Background(), node, now, func(ctx context.Context, op *mesh.Operation) error {
			fmt.Println("reported")
			return nil
		}))
	}
	// Output:
	// reported
	// <nil>
	// <nil>
}

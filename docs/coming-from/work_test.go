package comingfrom_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lockmesh/mesh"
)

// solo founds a mesh of one, in which an example runs.
func solo(opts ...mesh.Option) *mesh.Node {
	node, err := mesh.Solo(append(opts, mesh.WithName("ann"), mesh.WithLogger(slog.New(slog.DiscardHandler)))...)
	check(err)
	return node
}

// check stops an example that fails where it should not.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// charge is the work that the examples do under a lock: a payment system that refuses old tokens would do it.
func charge(ctx context.Context, order int, token uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if token == 0 {
		return fmt.Errorf("order %d: no token", order)
	}
	fmt.Println("charged order", order)
	return nil
}

// importAll is work that goes on for as long as its context.
func importAll(ctx context.Context, token uint64) error {
	if token == 0 {
		return fmt.Errorf("no token")
	}
	fmt.Println("imported")
	return ctx.Err()
}

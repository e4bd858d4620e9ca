package meshtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/meshtest"
)

// Locker is what the service needs of a mesh. It is declared in the service's package.
type Locker interface {
	Do(ctx context.Context, key string, fn func(ctx context.Context) error) error
}

// NodeLocker is the service's Locker in production.
type NodeLocker struct{ Node *mesh.Node }

func (l NodeLocker) Do(ctx context.Context, key string, fn func(ctx context.Context) error) error {
	return l.Node.Do(ctx, key, func(ctx context.Context, _ *mesh.Lock) error { return fn(ctx) })
}

// Reports is the service: it writes a report, page by page, while it holds the report's lock.
type Reports struct {
	Locks Locker
	Page  func(n int) // writes one page
}

func (r *Reports) Write(ctx context.Context, name string) error {
	return r.Locks.Do(ctx, "report/"+name, func(ctx context.Context) error {
		for page := range 3 {
			if ctx.Err() != nil {
				return fmt.Errorf("stopped before page %d: %w", page, context.Cause(ctx))
			}
			r.Page(page)
		}
		return nil
	})
}

// A unit test with a Fake shows that a service stops when it loses its lock.
func ExampleFake() {
	var locks meshtest.Fake
	service := &Reports{Locks: &locks}

	service.Page = func(n int) { fmt.Println("page", n) }
	fmt.Println(service.Write(context.Background(), "daily"))

	service.Page = func(n int) {
		fmt.Println("page", n)
		locks.Lose("report/daily")
	}
	err := service.Write(context.Background(), "daily")
	fmt.Println("lost:", errors.Is(err, mesh.ErrLost))
	fmt.Println(err)
	// Output:
	// page 0
	// page 1
	// page 2
	// <nil>
	// page 0
	// lost: true
	// stopped before page 1: mesh: lock lost
}

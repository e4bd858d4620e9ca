package meshtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/meshtest"
)

// A function like this one is a test of a service. The service holds a lock, is cut off, and must stop before another one
// gets it.
func testTheServiceStops(t *testing.T) {
	fleet := meshtest.Fleet(t, 3, mesh.WithMaxTTL(time.Second)) // so that the lease TTL is a second, too
	service := fleet.Client(mesh.WithName("service"))

	stopped := make(chan error)
	started := make(chan struct{})
	go func() {
		stopped <- fleet.Node(service).Do(t.Context(), "orders", func(ctx context.Context, _ *mesh.Lock) error {
			close(started)
			<-ctx.Done() // the service works until its context ends
			return context.Cause(ctx)
		})
	}()
	select {
	case <-started:
	case err := <-stopped:
		t.Fatal(err)
	}
	fleet.Isolate(service)
	if err := <-stopped; !errors.Is(err, mesh.ErrLost) {
		t.Errorf("the service stopped with %v, want ErrLost", err)
	}

	next, err := fleet.Node(0).Lock(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	fleet.Heal()
	if err := next.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// The test of a service that is cut off while it works.
func ExampleFleet() {
	_ = testTheServiceStops // TestTheExampleOfFleet runs it
}

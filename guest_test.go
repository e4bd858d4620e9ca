package mesh_test

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bridge"
)

// A node leaves while it begins to carry guests: no Carry waits for ever, and no session is there that nobody ends. With -race: the two share
// nothing without a lock.
func TestANodeLeavesAsGuestsCome(t *testing.T) {
	for range fewer(2, 10) {
		n, err := mesh.Solo(mesh.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		var coming sync.WaitGroup
		come := make(chan struct{})
		for w := range 32 {
			coming.Go(func() {
				for i := 0; ; i++ {
					s, err := bridge.NodeOf(n).Carry(t.Context(), fmt.Sprint("guest", w, "-", i), 3*time.Second)
					if err != nil {
						return
					}
					if i == 3 && w == 0 {
						close(come)
					}
					defer func() { <-s.Done() }()
				}
			})
		}
		<-come
		if err := n.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		coming.Wait()
	}
}

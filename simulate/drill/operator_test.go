package drill

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// A host that was paused while the operator gave its question up is not asked that any more: nobody would wait for the answer,
// and the world might end meanwhile. Seed 290018129, hostile.
func TestWhoIsGivenUpIsNotAsked(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 1})
	defer w.Close()
	h := w.Host("a")
	h.Boot("process", func(ctx context.Context) { _ = simulate.Sleep(ctx, time.Hour) })
	if err := w.Run(time.Second); err != nil {
		t.Fatal(err)
	}
	h.Pause()
	o := &operator{posts: map[string]post{"a": {new(mesh.Node), h.Incarnation()}}}
	asks, over := 0, false
	w.Go("operator", func(ctx context.Context) {
		o.insist(ctx, []string{"a"}, rand.New(rand.NewPCG(1, 1)), func(context.Context, *mesh.Node) error { asks++; return nil })
		over = true
	})
	if err := w.Run(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	h.Resume()
	if err := w.Run(time.Second); err != nil {
		t.Fatal(err)
	}
	if asks != 1 || !over || o.asks != 0 {
		t.Errorf("asked %d times, over %v, %d questions are open", asks, over, o.asks)
	}
}

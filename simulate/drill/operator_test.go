package drill

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/timeline"
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

// What the operator says of the dead, and of the quiet time, the mesh decides, where nothing stands against it.
func TestTheOperatorIsHeard(t *testing.T) {
	for name, want := range map[string]int{"declarations": 2, "cold-starts": 1} {
		set := map[string]int64{"hosts": 4, "founders": 4, "list-changes": 0, "ttl-changes": 0, "operator-pause-ms": 5000, "storm-s": 20, "declarations": 0, "cold-starts": 0}
		set[name] = 17
		w := simulate.New(simulate.Options{Seed: 1, Set: set, Timeline: true})
		defer w.Close()
		if err := Play(w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		heard := 0
		for _, m := range w.Timeline().Moments {
			if m.Kind == timeline.Note && m.Text == "operator: <nil>" {
				heard++
			}
		}
		if heard != want {
			t.Errorf("%s: the mesh did %d times what the operator said, want %d", name, heard, want)
		}
	}
}

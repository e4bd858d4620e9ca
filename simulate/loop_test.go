package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// Of several wakes the latest known reason counts, until the loop has run.
func TestWhatWokeALoop(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	h := w.Host("a")
	h.Go("idle", func(context.Context) {})
	l := h.process.NewLoop("loop", func(time.Duration) time.Duration { return env.Never }).(*loop)
	for _, wake := range []struct{ reason, due int }{{0, 0}, {5, 5}, {0, 5}, {7, 7}} {
		w.why.begin(wake.reason)
		l.Wake()
		if l.ev.due != wake.due {
			t.Errorf("after a wake with reason %d, the run is due to %d, want %d", wake.reason, l.ev.due, wake.due)
		}
	}
	w.why.begin(0)
	run(t, w, time.Second)
	if l.Wake(); l.ev.due != 0 {
		t.Errorf("a run that nobody is known to have caused is due to %d", l.ev.due)
	}
}

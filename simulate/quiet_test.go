package simulate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// A caller that its node has forgotten is an orphan. A server that waits for mail is none.
func TestQuiet(t *testing.T) {
	tests := []struct {
		name string
		body func(p *process) func(context.Context)
		want string
	}{
		{"a call that nobody answers", func(p *process) func(context.Context) {
			return func(ctx context.Context) { p.NewParker().Park(ctx, env.Never) }
		}, `G4 orphans: no call is under way, and these wait for an answer: ["a/actor"]`},
		{"a server without mail", func(*process) func(context.Context) {
			return func(ctx context.Context) { _, _ = Receive(ctx, "port") }
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := New(Options{Seed: 1})
			defer w.Close()
			h := w.Host("a")
			h.Go("actor", func(ctx context.Context) { tt.body(h.process)(ctx) })
			if err := w.Run(time.Second); err != nil {
				t.Fatal(err)
			}
			err := w.History().Quiet(time.Second)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("Quiet = %v, want %q", err, tt.want)
			}
		})
	}
}

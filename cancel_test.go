package mesh

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// on is a log handler that calls do when a text is logged.
type on struct {
	slog.Handler
	text string
	do   func()
}

func (o on) Handle(_ context.Context, r slog.Record) error {
	if r.Message == o.text {
		o.do()
	}
	return nil
}

func (o on) Enabled(context.Context, slog.Level) bool { return true }
func (o on) WithAttrs([]slog.Attr) slog.Handler       { return o }
func (o on) WithGroup(string) slog.Handler            { return o }

// A Join that is cancelled at the very moment when its mesh is found stops everything that was
// started, without a data race: this test is for the race detector.
//
// The node logs its warning of a short TTL when it has found its mesh, before it creates its
// shard loops.
func TestAJoinThatIsCancelledAsItsMeshIsFound(t *testing.T) {
	cancelled := 0
	for i := range 60 {
		ctx, cancel := context.WithCancel(context.Background())
		found := on{Handler: slog.DiscardHandler, text: "the lease TTL is short: a leader that falls silent may cost locks before another one is elected"}
		found.do = func() { time.AfterFunc(time.Duration(i%6)*50*time.Microsecond, cancel) }
		n, err := JoinContext(ctx, nil, quiet(WithLeaseTTL(time.Second), WithLogger(slog.New(found)))...)
		switch {
		case err == nil:
			n.Close()
		case errors.Is(err, context.Canceled):
			cancelled++
		default:
			t.Fatalf("Join %d = %v", i, err)
		}
		cancel()
	}
	if cancelled < 10 {
		t.Errorf("%d of 60 Joins were cancelled: the test proves little", cancelled)
	}
}

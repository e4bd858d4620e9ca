package realenv

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/mesh/internal/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// virtual returns a clock for a synctest bubble. It starts at an hour.
func virtual() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Hour + time.Since(start) }
}

func TestParkReturns(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	tests := []struct {
		name  string
		until time.Duration // from now, or Never
		ctx   context.Context
		do    func(p env.Parker, end context.CancelFunc) // while it waits
		first bool                                       // do before it waits
		want  env.Wake
		took  time.Duration
	}{
		{name: "when it is unparked", until: env.Never, do: unpark, want: env.Unparked},
		{name: "when it is unparked before the time", until: time.Second, do: unpark, want: env.Unparked},
		{name: "at once, when it was unparked before", until: env.Never, do: unpark, first: true, want: env.Unparked},
		{name: "unparked, though the time is over", until: -time.Second, do: unpark, first: true, want: env.Unparked},
		{name: "unparked, though the context has ended", until: env.Never, ctx: ended, do: unpark, first: true, want: env.Unparked},
		{name: "unparked, though both", until: -1, ctx: ended, do: unpark, first: true, want: env.Unparked},
		{name: "when the context ends", until: env.Never, do: cancel, want: env.ContextEnded},
		{name: "when the context ends before the time", until: time.Second, do: cancel, want: env.ContextEnded},
		{name: "at once, when the context has ended", until: env.Never, ctx: ended, want: env.ContextEnded},
		{name: "when it is time", until: time.Second, want: env.TimedOut, took: time.Second},
		{name: "at once, when the time is over", until: -time.Second, want: env.TimedOut},
		{name: "at once, when it is time now", until: 0, want: env.TimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := virtual()
				p := newParker(now)
				ctx, end := context.WithCancel(context.Background())
				defer end()
				if tt.ctx != nil {
					ctx = tt.ctx
				}
				until := tt.until
				if until != env.Never {
					until += now()
				}
				if tt.first {
					tt.do(p, end)
				}
				start := time.Now()
				got := make(chan env.Wake)
				go func() { got <- p.Park(ctx, until) }()
				if tt.do != nil && !tt.first {
					synctest.Wait()
					tt.do(p, end)
				}
				if wake := <-got; wake != tt.want || time.Since(start) != tt.took {
					t.Errorf("Park = %v after %v, want %v after %v", wake, time.Since(start), tt.want, tt.took)
				}
			})
		})
	}
}

func unpark(p env.Parker, _ context.CancelFunc)   { p.Unpark() }
func cancel(_ env.Parker, end context.CancelFunc) { end() }

func TestUnparksAreOneUntilParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := virtual()
		p := newParker(now)
		p.Unpark()
		p.Unpark()
		for _, want := range []env.Wake{env.Unparked, env.TimedOut, env.TimedOut} {
			if got := p.Park(t.Context(), now()+time.Second); got != want {
				t.Errorf("Park = %v, want %v", got, want)
			}
		}
		p.Unpark()
		if got := p.Park(t.Context(), env.Never); got != env.Unparked {
			t.Errorf("Park = %v, want Unparked", got)
		}
	})
}

// A clock that jumps ahead while the machine sleeps, and timers that do not.
func TestParkTrustsTheClockNotTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := virtual()
		now := func() time.Duration { return slow() / 2 } // timers come early
		p := newParker(now)
		until := now() + time.Second
		if got := p.Park(t.Context(), until); got != env.TimedOut || now() < until {
			t.Errorf("Park = %v at %v, want TimedOut at %v", got, now(), until)
		}
	})
}

func TestParkDoesNotAllocate(t *testing.T) {
	w := New(nil)
	p := w.NewParker()
	ctx, end := context.WithCancel(context.Background())
	defer end()
	allocs := testing.AllocsPerRun(100, func() {
		p.Unpark()
		p.Park(ctx, env.Never)
		p.Unpark()
		p.Park(ctx, w.Now()+time.Hour)
	})
	if allocs != 0 {
		t.Errorf("two calls of Park allocate %v times", allocs)
	}
}

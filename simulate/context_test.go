package simulate

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestSleepAndContexts(t *testing.T) {
	w := New(Options{Seed: 1})
	defer w.Close()
	ended := false
	w.Host("a").Go("main", func(ctx context.Context) {
		ctx1, cancel := WithTimeout(ctx, time.Second)
		defer cancel()
		ctx2, cancel2 := context.WithCancelCause(context.WithValue(ctx1, keyOne{}, "v"))
		defer cancel2(nil)
		if err := Sleep(ctx2, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep = %v", err)
		}
		if now := Now(ctx); now < time.Second || now > time.Second+time.Millisecond {
			t.Errorf("woke at %v", now)
		}
		ctx3, cancel3 := context.WithCancelCause(context.WithoutCancel(ctx))
		ctx4, cancel4 := WithTimeout(ctx3, time.Minute)
		defer cancel4()
		cause := errors.New("cause")
		Go(ctx, "canceller", func(ctx context.Context) {
			_ = Sleep(ctx, time.Second)
			cancel3(cause)
		})
		if err := Sleep(ctx4, time.Hour); !errors.Is(err, context.Canceled) || context.Cause(ctx4) != cause {
			t.Errorf("Sleep = %v, cause %v", err, context.Cause(ctx4))
		}
		ended = true
	})
	if err := w.Run(time.Hour); err != nil {
		t.Fatal(err)
	}
	if !ended {
		t.Error("the actor did not end")
	}
	if w.Now() != time.Hour {
		t.Errorf("now %v", w.Now())
	}
}

type keyOne struct{}

// act runs fn as an actor of an otherwise empty world, to its end.
func act(t *testing.T, fn func(w *World, ctx context.Context)) {
	t.Helper()
	w := New(Options{Seed: 1})
	defer w.Close()
	ended := false
	w.Host("a").Go("main", func(ctx context.Context) { fn(w, ctx); ended = true })
	if err := w.Run(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if !ended {
		t.Error("the actor did not end")
	}
}

func TestDeadlines(t *testing.T) {
	act(t, func(w *World, ctx context.Context) {
		outer, cancel := WithTimeout(ctx, time.Second)
		defer cancel()
		inner, cancel := WithTimeout(outer, time.Hour)
		defer cancel()
		want, _ := outer.Deadline()
		if got, ok := inner.Deadline(); !ok || !got.Equal(want) {
			t.Errorf("inner's deadline is %v, want its parent's, %v", got, want)
		}
		sooner, cancel := WithTimeout(outer, time.Millisecond)
		defer cancel()
		std, cancel := context.WithCancel(context.WithValue(inner, keyOne{}, 1))
		defer cancel()
		if err := Sleep(sooner, time.Minute); err != context.DeadlineExceeded {
			t.Errorf("sooner: %v", err)
		}
		if outer.Err() != nil || std.Err() != nil {
			t.Error("a child's end reached its parent")
		}
		if err := Sleep(std, time.Minute); err != context.DeadlineExceeded || Now(ctx) < time.Second {
			t.Errorf("std: %v at %v", err, Now(ctx))
		}
		if inner.Err() != context.DeadlineExceeded || context.Cause(inner) != context.DeadlineExceeded {
			t.Errorf("inner: %v", inner.Err())
		}
		late, cancel := WithTimeout(inner, time.Hour)
		defer cancel()
		if late.Err() != context.DeadlineExceeded {
			t.Errorf("a child of an ended context: %v", late.Err())
		}
		past, cancel := WithTimeout(ctx, -time.Second)
		defer cancel()
		if Sleep(past, time.Hour); Now(ctx) > time.Second+time.Minute {
			t.Error("a deadline in the past is no deadline")
		}
	})
}

// A step of the time of day moves no deadline: of two, that which comes first stays first.
func TestDeadlinesOverASteppedClock(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		act(t, func(w *World, ctx context.Context) {
			outer, cancel := WithTimeout(ctx, 10*time.Second)
			defer cancel()
			w.Host("a").Clock.Step(step)
			sooner, cancel := WithTimeout(outer, time.Second)
			defer cancel()
			later, cancel := WithTimeout(outer, time.Minute)
			defer cancel()
			want, _ := outer.Deadline()
			if got, _ := later.Deadline(); !got.Equal(want) {
				t.Errorf("after a step of %v, the later deadline is %v, want its parent's, %v", step, got, want)
			}
			if err := Sleep(sooner, time.Hour); err != context.DeadlineExceeded || Now(ctx) > 2*time.Second {
				t.Errorf("after a step of %v, the sooner deadline: %v at %v", step, err, Now(ctx))
			}
		})
	}
}

func TestCancelReachesEverywhere(t *testing.T) {
	act(t, func(w *World, ctx context.Context) {
		goroutines := runtime.NumGoroutine()
		a, cancel := WithCancel(ctx)
		var all []context.Context
		for range 100 {
			b, cancelB := context.WithCancel(context.WithValue(a, keyOne{}, "v"))
			c, cancelC := WithTimeout(b, time.Hour)
			d, cancelD := context.WithCancel(context.WithValue(c, keyOne{}, "v"))
			defer cancelB()
			defer cancelC()
			defer cancelD()
			all = append(all, b, c, d)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("%d goroutines were started", n-goroutines)
		}
		woke := 0
		for _, c := range all {
			Go(c, "sleeper", func(ctx context.Context) {
				if Sleep(ctx, time.Hour) == context.Canceled {
					woke++
				}
			})
		}
		_ = Sleep(ctx, time.Second)
		cancel()
		_ = Sleep(ctx, time.Second)
		if woke != len(all) {
			t.Errorf("%d of %d woke", woke, len(all))
		}
		if len(w.watches) != 0 {
			t.Errorf("%d watches are left", len(w.watches))
		}
	})
}

func TestWithoutCancelOutlives(t *testing.T) {
	act(t, func(w *World, ctx context.Context) {
		a, cancel := WithTimeout(ctx, time.Second)
		defer cancel()
		b := context.WithoutCancel(a)
		if err := Sleep(b, time.Minute); err != nil {
			t.Error(err)
		}
		c, cancelC := WithTimeout(b, time.Second)
		defer cancelC()
		if err := Sleep(c, time.Minute); err != context.DeadlineExceeded {
			t.Error(err)
		}
	})
}

func TestRealDeadlinesAreRefused(t *testing.T) {
	for name, with := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		},
		"timeout within a simulated one": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, _ = WithTimeout(ctx, time.Second)
			return context.WithTimeout(ctx, time.Minute)
		},
		"a simulated one within a timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			inner, end := WithTimeout(ctx, time.Second)
			return inner, func() { end(); cancel() }
		},
		"a simulated time of day": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithDeadline(ctx, Wall(ctx).Add(time.Second))
		},
	} {
		o := func() Outcome {
			return Play(Options{}, func(w *World) error {
				w.Host("a").Go("main", func(ctx context.Context) {
					ctx, cancel := with(ctx)
					defer cancel()
					_ = Sleep(ctx, time.Hour)
				})
				return w.Run(time.Minute)
			})
		}
		first, _ := splitStack(o().Err)
		if !strings.Contains(first, "a/main waits with a deadline of the real clock: use simulate.WithTimeout ") {
			t.Errorf("%s: %v", name, first)
		}
		if again, _ := splitStack(o().Err); again != first {
			t.Errorf("%s: the next time, it says %s", name, again)
		}
	}
}

func TestWait(t *testing.T) {
	act(t, func(w *World, ctx context.Context) {
		ch := make(chan struct{})
		done := Go(ctx, "other", func(ctx context.Context) {
			_ = Sleep(ctx, time.Second)
			close(ch)
			_ = Sleep(ctx, time.Second)
		})
		if err := Wait(ctx, ch); err != nil || Now(ctx) > 1100*time.Millisecond {
			t.Errorf("Wait = %v at %v", err, Now(ctx))
		}
		if err := Wait(ctx, done); err != nil || Now(ctx) < 2*time.Second {
			t.Errorf("Wait = %v at %v", err, Now(ctx))
		}
		short, cancel := WithTimeout(ctx, time.Second)
		defer cancel()
		if err := Wait(short, make(chan struct{})); err != context.DeadlineExceeded {
			t.Errorf("Wait = %v", err)
		}
		if err := Wait(short, done); err != nil {
			t.Errorf("Wait for what is done = %v", err)
		}
	})
}

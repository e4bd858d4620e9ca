package simulate

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

// An actor that waits for ever, as with the longest time.Duration, is not woken at once.
func TestTheLongestTime(t *testing.T) {
	for _, rate := range []int64{0, slowestClock, fastestClock} {
		w := New(Options{})
		slept := time.Duration(-1)
		w.Host("a").Go("sleeper", func(ctx context.Context) {
			ctx, cancel := WithTimeout(ctx, math.MaxInt64)
			defer cancel()
			_ = Sleep(ctx, math.MaxInt64)
			slept = Now(ctx)
		})
		rung := false
		w.Host("a").Go("clock", func(context.Context) {
			w.Host("a").Clock.SetRate(rate)
			w.At(math.MaxInt64, func() { rung = true })
		})
		if err := w.Run(24 * time.Hour); err != nil || slept >= 0 || rung {
			t.Errorf("at %d ppm, after a day: %v, slept until %v, rung: %v", rate, err, slept, rung)
		}
		for range 2 {
			if err := w.Run(math.MaxInt64); err != nil || w.Now() != endOfTime {
				t.Errorf("at %d ppm, for ever: %v, at %v", rate, err, w.Now())
			}
		}
		w.Close()
	}
}

// A timeout that is over when it begins has ended, as one of package context has.
func TestNoTimeout(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	w.Host("a").Go("main", func(ctx context.Context) {
		for _, d := range []time.Duration{0, -time.Second, math.MinInt64} {
			ended, cancel := WithTimeout(ctx, d)
			if err := ended.Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("WithTimeout(%v).Err() = %v", d, err)
			}
			cancel()
		}
	})
	if err := w.Run(time.Second); err != nil {
		t.Fatal(err)
	}
}

package simulate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

func TestClocksOfHosts(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	for name, ppm := range map[string]int64{"fast": 10_000, "slow": -10_000, "true": 0} {
		w.Host(name)
		w.Host(name).Clock.SetRate(ppm)
	}
	for name, want := range map[string]time.Duration{"fast": 99_0099 * time.Millisecond / 10, "slow": 101_0101 * time.Millisecond / 10, "true": 100 * time.Second} {
		w.Host(name).Go("sleeper", func(ctx context.Context) {
			start, wall := Now(ctx), Wall(ctx)
			_ = Sleep(ctx, 100*time.Second)
			if d := Now(ctx) - start; d < want || d > want+2*time.Millisecond {
				t.Errorf("on %s 100 s took %v, want %v", name, d, want)
			}
			if d := Wall(ctx).Sub(wall); d < 100*time.Second || d > 100*time.Second+2*time.Millisecond {
				t.Errorf("on %s the time of day went on by %v", name, d)
			}
		})
	}
	run(t, w, time.Hour)
}

func TestClockRateMovesTimers(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	h := w.Host("a")
	var woke, ended, ran time.Duration
	h.Go("sleeper", func(ctx context.Context) {
		_ = Sleep(ctx, 10*time.Second)
		woke = w.Now()
	})
	h.Go("waiter", func(ctx context.Context) {
		ctx, cancel := WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_ = Wait(ctx, make(chan struct{}))
		ended = w.Now()
	})
	p := h.process
	start := p.Now()
	l := p.NewLoop("l", func(now time.Duration) time.Duration {
		if now >= start+10*time.Second {
			ran = w.Now()
			return env.Never
		}
		return start + 10*time.Second
	})
	l.Wake()
	w.At(5*time.Second, func() { w.Host("a").Clock.SetRate(million) }) // twice as fast
	run(t, w, time.Minute)
	for what, at := range map[string]time.Duration{"actor": woke, "context": ended, "loop": ran} {
		if at < 7500*time.Millisecond || at > 7501*time.Millisecond {
			t.Errorf("the %s's timer went off at %v, want 7.5s", what, at)
		}
	}
}

func TestClockArithmetic(t *testing.T) {
	var draws uint64
	s := newStream(1, 1, &draws)
	for range 10000 {
		c := clock{since: time.Duration(s.below(1e12)), base: time.Duration(s.below(1e13)), rate: s.below(40000) - 20000}
		local := c.base + time.Duration(s.below(1e14))
		at := c.when(local)
		if c.at(at) < local || c.at(at-1) >= local {
			t.Fatalf("%+v: when(%v) = %v, when the clock shows %v", c, local, at, c.at(at))
		}
		now := at + time.Duration(s.below(1e12))
		c.setRate(now, s.below(40000)-20000)
		if got := c.truth(local); got != at {
			t.Fatalf("truth(%v) = %v, want %v", local, got, at)
		}
	}
}

func TestCrashUnwindsActors(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	h := w.Host("a")
	done := h.Go("main", func(ctx context.Context) {
		world := env.FromContext(ctx)
		net, _ := world.Listen(transport.Config{Bind: ":1"}, &probe{})
		loop := world.NewLoop("loop", func(time.Duration) time.Duration { say("loop"); return env.Never })
		defer say("deferred, ctx: %v, %v", ctx.Err(), context.Cause(ctx))
		defer func() {
			loop.Wake()
			loop.Stop()
			net.Dial("a:1")
			net.Close()
			world.NewLoop("late", func(time.Duration) time.Duration { say("late"); return env.Never }).Wake()
			if _, err := world.Listen(transport.Config{Bind: ":2"}, &probe{}); err == nil {
				say("listened")
			}
			_ = world.Now() + time.Duration(world.Seed()&1)
			Go(ctx, "late", func(context.Context) { say("spawned") })
			defer say("after the park")
			world.NewParker().Park(context.Background(), env.Never)
			say("parked")
		}()
		_ = Sleep(ctx, time.Hour)
		say("slept")
	})
	h.Go("stubborn", func(ctx context.Context) {
		for {
			func() {
				defer func() { _ = recover() }()
				_ = Sleep(ctx, time.Hour)
			}()
		}
	})
	h.Go("second", func(ctx context.Context) { _ = Sleep(ctx, time.Hour); say("second") })
	w.At(time.Minute, func() {
		h.Go("never", func(context.Context) { say("never") })
		w.Host("a").Crash()
	})
	watched := false
	w.Go("lab", func(ctx context.Context) { watched = Wait(ctx, done) == nil })
	run(t, w, 2*time.Hour)
	if want := []string{"after the park", "deferred, ctx: <nil>, <nil>"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if !watched {
		t.Error("the end of an unwound actor was not seen")
	}
	if h.Up() {
		t.Error("the host is up")
	}
}

func TestBootAndDo(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	h := w.Host("a")
	var boots []int
	h.Boot("init", func(ctx context.Context) { boots = append(boots, h.Incarnation()) })
	var results []bool
	w.Go("lab", func(ctx context.Context) {
		results = append(results, h.Do(ctx, "one", func(ctx context.Context) { _ = Sleep(ctx, time.Second) }))
		Go(ctx, "crasher", func(ctx context.Context) {
			_ = Sleep(ctx, time.Second)
			w.Host("a").Crash()
		})
		results = append(results, h.Do(ctx, "two", func(ctx context.Context) { _ = Sleep(ctx, time.Minute) }))
		results = append(results, h.Do(ctx, "three", func(context.Context) {}))
		w.Host("a").Restart()
		results = append(results, h.Do(ctx, "four", func(ctx context.Context) {
			w.Host("a").Crash() // its own host
			_ = Sleep(ctx, 0)
		}))
	})
	run(t, w, time.Hour)
	if want := []bool{true, false, false, false}; !slices.Equal(results, want) {
		t.Errorf("results %v, want %v", results, want)
	}
	if want := []int{1, 2}; !slices.Equal(boots, want) {
		t.Errorf("boots %v, want %v", boots, want)
	}
}

func TestPauseStopsEverything(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	h := w.Host("a")
	var slept, looped time.Duration
	h.Go("sleeper", func(ctx context.Context) {
		ctx, cancel := WithTimeout(ctx, 3*time.Second)
		defer cancel()
		_ = Sleep(ctx, 2*time.Second)
		slept = w.Now()
		if ctx.Err() == nil { // its timer went off, too
			_ = Sleep(ctx, time.Hour)
		}
	})
	l := h.process.NewLoop("l", func(now time.Duration) time.Duration { looped = w.Now(); return now + 10*time.Millisecond })
	l.Wake()
	w.At(time.Second, func() { w.Host("a").Pause() })
	w.At(5*time.Second, func() {
		if looped > time.Second {
			t.Errorf("the loop ran at %v", looped)
		}
		w.Host("a").Resume()
	})
	run(t, w, time.Minute)
	if slept < 5*time.Second || slept > 5100*time.Millisecond {
		t.Errorf("slept until %v", slept)
	}
	if looped < 59*time.Second {
		t.Errorf("the loop ran last at %v", looped)
	}
}

func TestLoopsCoalesceWakes(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	runs := 0
	l := w.Host("a").process.NewLoop("l", func(time.Duration) time.Duration { runs++; return env.Never })
	for range 10 {
		l.Wake()
	}
	run(t, w, time.Second)
	if runs != 1 {
		t.Errorf("%d runs for ten wakes at once", runs)
	}
	w.Host("a").Slow(1000)
	start := w.Now()
	for range 100 {
		l.Wake()
		run(t, w, time.Millisecond)
	}
	if d := w.Now() - start; runs < 2 || runs > 50 {
		t.Errorf("%d runs in %v on a slow host", runs, d)
	}
	l.Stop()
	l.Wake()
	before := runs
	run(t, w, time.Minute)
	if runs != before {
		t.Error("it ran after Stop")
	}
}

func TestFailuresOfActors(t *testing.T) {
	w := New(Options{Seed: 77})
	defer w.Close()
	w.Host("a").Go("clumsy", func(context.Context) { panic("oops") })
	err := w.Run(time.Second)
	for _, want := range []string{"a/clumsy", "oops", "host_test.go", "seed 77", "repeat: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run = %v, which does not tell %q", err, want)
		}
	}
	var f *Failure
	if !errors.As(err, &f) || f.Seed != 77 || w.Run(time.Second) != err {
		t.Error("the failure does not stay")
	}
}

func TestParkersKnowTheirHost(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	p := w.Host("b").process.NewParker()
	w.Host("a").Go("thief", func(ctx context.Context) { p.Park(ctx, env.Never) })
	if err := w.Run(time.Second); err == nil || !strings.Contains(err.Error(), "a/thief uses a node of host b") {
		t.Errorf("Run = %v", err)
	}
}

func TestStandstillIsNoticed(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	var again func()
	again = func() { w.At(w.Now(), again) }
	again()
	if err := w.Run(time.Second); err == nil || !strings.Contains(err.Error(), "time stands still") {
		t.Errorf("Run = %v", err)
	}
}

func TestNothingIsLeftRunning(t *testing.T) {
	others := goleak.IgnoreCurrent()
	w, l := fakeWorld(Options{Seed: 1, Profile: Flaky}, fakeBugs{})
	l.Start(w)
	w.Chaos(ChaosOptions{For: time.Hour, MayCrash: mayCrashClients})
	run(t, w, 20*time.Second)
	w.Close()
	w.Close()
	goleak.VerifyNone(t, others)
}

// t.Fatal in an actor ends the test that called Run.
func TestGoexitOfAnActorEndsRun(t *testing.T) {
	w := New(Options{})
	ended := make(chan bool)
	go func() {
		returned := false
		defer func() { ended <- !returned }()
		w.Host("a").Go("fatal", func(context.Context) { runtime.Goexit() })
		_ = w.Run(time.Second)
		returned = true
	}()
	if !<-ended {
		t.Error("Run returned")
	}
}

func TestTimeline(t *testing.T) {
	w := New(Options{Timeline: true})
	defer w.Close()
	w.Host("a").Go("main", func(ctx context.Context) {
		_ = Sleep(ctx, 12*time.Second)
		Logf(ctx, "hello %d", 42)
	})
	w.At(13*time.Second, func() { w.Net.Isolate("a") })
	run(t, w, time.Minute)
	got := w.Timeline().String()
	if !strings.HasPrefix(got, "   0.000000s  a              up\n  12.0000") || !strings.Contains(got, "s  a/main         hello 42\n") || !strings.HasSuffix(got, "  13.000000s  -              partition a\n") {
		t.Errorf("timeline:\n%s", got)
	}
}

package simulate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// sleepers is a world whose actors do nothing but sleep for a second at a time.
func sleepers(w *World) error {
	for i := range 2 {
		w.Host(fmt.Sprint("h", i)).Boot("sleeper", func(ctx context.Context) {
			for Sleep(ctx, time.Second) == nil {
			}
		})
	}
	w.At(3*time.Second, func() { w.Net.Partition([]string{"h0"}, []string{"h1"}) })
	w.At(4*time.Second, func() { w.Host("h1").Pause() })
	if err := w.Run(10 * time.Second); err != nil {
		return fmt.Errorf("what the scenario says of it: %w", err)
	}
	return nil
}

func TestUntil(t *testing.T) {
	whole := Play(Options{Seed: 1}, sleepers)
	for _, tt := range []struct {
		until  Until
		events uint64 // zero: whatever
		time   time.Duration
	}{
		{Until{Events: 1}, 1, 0},
		{Until{Events: 7}, 7, 0},
		{Until{Time: 5 * time.Second}, 0, 5 * time.Second},
		{Until{Events: 3, Time: 5 * time.Second}, 3, 0},
		{Until{Events: 1 << 40, Time: time.Nanosecond}, 0, time.Nanosecond},
		{Until{Time: 10 * time.Second}, whole.Events, 10 * time.Second},
	} {
		o := Play(Options{Seed: 1, Until: tt.until}, sleepers)
		s, ok := o.Err.(*Stopped)
		if !ok {
			t.Errorf("%+v: %v", tt.until, o.Err)
			continue
		}
		if tt.events > 0 && s.Events != tt.events || tt.time > 0 && s.Time != tt.time || s.Events != o.Events || s.Time != o.Time {
			t.Errorf("%+v: stopped at %v, after %d events: %v, %d", tt.until, s.Time, s.Events, o.Time, o.Events)
		}
	}
	for _, late := range []Until{{Events: whole.Events + 1}, {Time: 11 * time.Second}} {
		if o := Play(Options{Seed: 1, Until: late}, sleepers); o.Err != nil || o.Hash != whole.Hash {
			t.Errorf("%+v, after the end: %v", late, o.Err)
		}
	}
}

// What comes before the stop is the same as without it.
func TestUntilChangesNothing(t *testing.T) {
	w, l := fakeWorld(Options{Seed: 3, Profile: Flaky}, fakeBugs{})
	defer w.Close()
	l.Start(w)
	for events := uint64(1); events < 5000; events += 499 {
		if err := w.RunUntil(func() bool { return w.trace.events >= events }, time.Hour); err != nil {
			t.Fatal(err)
		}
		o := Play(Options{Seed: 3, Profile: Flaky, Until: Until{Events: events}}, func(w *World) error {
			fakeServe(w, fakeBugs{})
			l := &Lockers{Hosts: l.Hosts, Join: fakeJoin(fakeBugs{}), TTL: fakeTTL}
			for _, host := range l.Hosts {
				w.Host(host)
			}
			l.Start(w)
			return w.Run(time.Hour)
		})
		if s, ok := o.Err.(*Stopped); !ok || o.Hash != w.Hash() || s.Time != w.Now() || s.State != w.State() {
			t.Errorf("after %d events: hash %x at %v, and without a stop %x at %v: %v", events, o.Hash, o.Time, w.Hash(), w.Now(), o.Err)
		}
	}
}

func TestState(t *testing.T) {
	w, l := fakeWorld(Options{Seed: 3}, fakeBugs{})
	defer w.Close()
	l.Start(w)
	w.At(2*time.Second, func() { w.Net.Isolate("c1"); w.Host("c2").Pause(); w.Host("c3").Slow(8) })
	if err := w.Run(3 * time.Second); err != nil {
		t.Fatal(err)
	}
	state := w.State()
	for _, want := range []string{
		"at 3s, after ", "hosts: 4\n", "c1 -> server c2 c3", "c2: incarnation 1, paused, with ", "c3: incarnation 1, up since 0s, 8 times as slow",
		"holds: ", "leased until", "calls: ", " wants ", "frames on their way: ", "c2/locker1",
	} {
		if !strings.Contains(state, want) {
			t.Errorf("no %q in\n%s", want, state)
		}
	}
	w.Host("c1").Crash()
	w.Host("c2").PowerOff()
	state = w.State()
	for _, want := range []string{"c1: incarnation 1, down", "c2: incarnation 1, without power"} {
		if !strings.Contains(state, want) {
			t.Errorf("no %q in\n%s", want, state)
		}
	}
}

func TestInterruptEndsAWorld(t *testing.T) {
	stop := make(chan struct{})
	long := func(begun func()) func(w *World) error {
		return func(w *World) error {
			w.Host("a").Boot("sleeper", func(ctx context.Context) {
				for Sleep(ctx, time.Millisecond) == nil {
				}
			})
			w.At(time.Second, begun)
			return w.Run(1e9 * time.Second)
		}
	}
	o := Play(Options{Seed: 4, Interrupt: stop}, long(func() { close(stop) }))
	s, ok := o.Err.(*Stopped)
	if !ok || !s.Interrupted || s.Time != time.Second || s.Time != o.Time || s.Events != o.Events || !strings.Contains(s.State, "hosts: 1") || s.Error() != fmt.Sprintf("simulate: interrupted at 1s, after %d events", o.Events) {
		t.Errorf("Play returns %v, %+v", o.Err, s)
	}
	// As far as it went, it is the same run.
	if u := Play(Options{Seed: 4, Until: Until{Events: o.Events}}, long(func() {})); u.Hash != o.Hash {
		t.Errorf("interrupted, it has hash %x, and stopped there %x", o.Hash, u.Hash)
	}
}

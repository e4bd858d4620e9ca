package realenv

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// diary is a loop that writes down when it ran, in seconds since its start.
type diary struct {
	*loop
	seconds []int
}

func newDiary(next func(run int, now time.Duration) time.Duration) *diary {
	now := virtual()
	start := now()
	d := &diary{}
	d.loop = startLoop(now, func(now time.Duration) time.Duration {
		d.seconds = append(d.seconds, int((now-start)/time.Second))
		return next(len(d.seconds), now)
	})
	return d
}

func (d *diary) check(t *testing.T, want ...int) {
	t.Helper()
	d.Stop()
	if !slices.Equal(d.seconds, want) {
		t.Errorf("ran at %v, want %v", d.seconds, want)
	}
}

func after(d time.Duration) { <-time.After(d) }

func TestALoopRunsOnlyWhenWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary(func(int, time.Duration) time.Duration { return env.Never })
		after(time.Second)
		d.Wake()
		after(time.Hour)
		d.check(t, 1)
	})
}

func TestALoopRunsWhenItIsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary(func(run int, now time.Duration) time.Duration {
			if run == 4 {
				return env.Never
			}
			return now + time.Duration(run)*time.Second
		})
		d.Wake()
		after(time.Minute)
		d.check(t, 0, 1, 3, 6)
	})
}

func TestATimeThatIsOverMeansAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary(func(run int, now time.Duration) time.Duration {
			if run < 3 {
				return now - time.Second
			}
			return env.Never
		})
		d.Wake()
		after(time.Minute)
		d.check(t, 0, 0, 0)
	})
}

func TestAWakeComesBeforeTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary(func(run int, now time.Duration) time.Duration {
			return []time.Duration{0, now + 10*time.Second, now + 20*time.Second, env.Never}[run]
		})
		d.Wake()
		after(5 * time.Second)
		d.Wake() // and the time that was set is forgotten
		after(time.Minute)
		d.check(t, 0, 5, 25)
	})
}

func TestWakesAreOneUntilTheRunStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := newDiary(func(int, time.Duration) time.Duration {
			<-release
			return env.Never
		})
		d.Wake()
		synctest.Wait() // it runs
		for range 5 {
			d.Wake()
		}
		close(release)
		after(time.Second)
		d.check(t, 0, 0)
	})
}

func TestStopWaitsForTheRunUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		over := false
		l := startLoop(virtual(), func(now time.Duration) time.Duration {
			<-release
			over = true
			return now
		})
		l.Wake()
		synctest.Wait()
		stopped := make(chan struct{})
		for range 2 {
			go func() {
				l.Stop()
				if !over {
					t.Error("Stop returned while run was under way")
				}
				stopped <- struct{}{}
			}()
		}
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("Stop returned while run was under way")
		default:
		}
		close(release)
		<-stopped
		<-stopped
		l.Wake() // does nothing
		l.Stop()
	})
}

func TestALoopWaitsForTheClockNotTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast := virtual()
		now := func() time.Duration { return fast() / 2 } // timers come early
		var ran []time.Duration
		l := startLoop(now, func(now time.Duration) time.Duration {
			ran = append(ran, now)
			if len(ran) == 1 {
				return now + time.Second
			}
			return env.Never
		})
		l.Wake()
		after(time.Minute)
		l.Stop()
		if len(ran) != 2 || ran[1] < ran[0]+time.Second {
			t.Errorf("ran at %v, want twice, a second apart", ran)
		}
	})
}

// Promise: P1: while a machine sleeps its timers stand still, and the clock does not.
func TestALoopRunsSoonAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		awake, ran := virtual(), 0
		var asleep atomic.Int64
		l := startLoop(func() time.Duration { return awake() + time.Duration(asleep.Load()) }, func(now time.Duration) time.Duration {
			if ran++; ran == 2 {
				return env.Never
			}
			return now + time.Minute
		})
		l.Wake()
		after(time.Second)
		asleep.Store(int64(time.Hour))
		after(time.Second)
		l.Stop()
		if ran != 2 {
			t.Errorf("it ran %d times, want 2", ran)
		}
	})
}

package realenv

import (
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// loop is one goroutine that runs when it is woken and when it is time.
type loop struct {
	now  func() time.Duration
	run  func(now time.Duration) (next time.Duration)
	wake chan struct{} // holds one wake that no run has taken yet
	stop chan struct{} // closed by Stop
	done chan struct{} // closed when the goroutine ends
	once sync.Once     // of closing stop
}

func startLoop(now func() time.Duration, run func(now time.Duration) (next time.Duration)) *loop {
	l := &loop{
		now:  now,
		run:  run,
		wake: make(chan struct{}, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	go l.work()
	return l
}

// Wake implements env.Loop.
func (l *loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Stop implements env.Loop. It may be called more than once.
func (l *loop) Stop() {
	l.once.Do(func() { close(l.stop) })
	<-l.done
}

// longestSleep is after how long a loop that waits for a time looks at the clock: timers stand still while
// the machine sleeps, and the clock does not (P1).
const longestSleep = 100 * time.Millisecond

func (l *loop) work() {
	defer close(l.done)
	timer := time.NewTimer(env.Never)
	timer.Stop()
	defer timer.Stop()
	next := env.Never
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		now := l.now()
		if now < next {
			if next != env.Never {
				timer.Reset(min(next-now, longestSleep))
			}
			select {
			case <-l.stop:
				return
			case <-timer.C:
				continue // unless it is early, the next round runs
			case <-l.wake:
				timer.Stop()
			}
			now = l.now()
		} else {
			select {
			case <-l.wake: // the run that comes serves it, too
			default:
			}
		}
		next = l.run(now)
	}
}

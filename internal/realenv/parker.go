package realenv

import (
	"context"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// parker is a place for one token: Unpark puts it there, Park takes it.
type parker struct {
	now   func() time.Duration
	token chan struct{}
	timer *time.Timer // made by the first Park with a limit
}

func newParker(now func() time.Duration) *parker {
	return &parker{now: now, token: make(chan struct{}, 1)}
}

// Unpark implements env.Parker.
func (p *parker) Unpark() {
	select {
	case p.token <- struct{}{}:
	default:
	}
}

// Park implements env.Parker.
func (p *parker) Park(ctx context.Context, until time.Duration) (wake env.Wake) {
	for {
		var timeout <-chan time.Time
		if until != env.Never {
			timeout = p.after(until - p.now())
		}
		select {
		case <-p.token:
			return env.Unparked
		case <-ctx.Done():
			wake = env.ContextEnded
		case <-timeout:
			if p.now() < until {
				continue // timers run on another clock than ours and may be early by a little
			}
			wake = env.TimedOut
		}
		select {
		case <-p.token: // came at the same time, and is told first
			return env.Unparked
		default:
			return wake
		}
	}
}

func (p *parker) after(d time.Duration) <-chan time.Time {
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	return p.timer.C
}

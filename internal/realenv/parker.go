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
	timer *time.Timer // made by the first Park with a limit; stopped between calls
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
func (p *parker) Park(ctx context.Context, until time.Duration) env.Wake {
	var wake env.Wake
	if until == env.Never {
		select {
		case <-p.token:
			return env.Unparked
		case <-ctx.Done():
			wake = env.ContextEnded
		}
	} else {
		wake = p.parkUntil(ctx, until)
	}
	select {
	case <-p.token: // came at the same time, and is told first
		return env.Unparked
	default:
		return wake
	}
}

func (p *parker) parkUntil(ctx context.Context, until time.Duration) env.Wake {
	left := until - p.now()
	if left <= 0 {
		return env.TimedOut
	}
	if p.timer == nil {
		p.timer = time.NewTimer(left)
	} else {
		p.timer.Reset(left)
	}
	defer p.timer.Stop()
	for {
		select {
		case <-p.token:
			return env.Unparked
		case <-ctx.Done():
			return env.ContextEnded
		case <-p.timer.C:
		}
		// Timers run on another clock than ours and may be early by a little.
		if left = until - p.now(); left <= 0 {
			return env.TimedOut
		}
		p.timer.Reset(left)
	}
}

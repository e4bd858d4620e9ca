package world

import (
	"context"
	"time"

	"github.com/lockmesh/mesh/internal/seam"
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

// Unpark implements seam.Parker.
func (p *parker) Unpark() {
	select {
	case p.token <- struct{}{}:
	default:
	}
}

// Park implements seam.Parker.
func (p *parker) Park(ctx context.Context, until time.Duration) seam.Wake {
	var wake seam.Wake
	if until == seam.Never {
		select {
		case <-p.token:
			return seam.Unparked
		case <-ctx.Done():
			wake = seam.ContextEnded
		}
	} else {
		wake = p.parkUntil(ctx, until)
	}
	select {
	case <-p.token: // came at the same time, and is told first
		return seam.Unparked
	default:
		return wake
	}
}

func (p *parker) parkUntil(ctx context.Context, until time.Duration) seam.Wake {
	left := until - p.now()
	if left <= 0 {
		return seam.TimedOut
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
			return seam.Unparked
		case <-ctx.Done():
			return seam.ContextEnded
		case <-p.timer.C:
		}
		// Timers run on another clock than ours and may be early by a little.
		if left = until - p.now(); left <= 0 {
			return seam.TimedOut
		}
		p.timer.Reset(left)
	}
}

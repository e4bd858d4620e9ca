package transport

import (
	"sync"
	"time"
)

// Any program that can dial this node can cause warnings. So that it cannot fill the
// log, there are at most warnBurst of them at once, and then one every warnEvery.
const (
	warnBurst = 10
	warnEvery = 5 * time.Second
)

// limiter bounds the warnings of one Transport.
type limiter struct {
	mu         sync.Mutex
	spent      int
	last       time.Time // when spent was last reduced
	suppressed int
}

// allow decides whether a warning may be logged now, and counts it. If it may,
// suppressed is the number of warnings that were not logged since the last one.
func (l *limiter) allow(now time.Time) (ok bool, suppressed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := int(now.Sub(l.last) / warnEvery); n > 0 {
		l.spent = max(0, l.spent-n)
		l.last = now
	}
	if l.spent == warnBurst {
		l.suppressed++
		return false, 0
	}
	l.spent++
	suppressed, l.suppressed = l.suppressed, 0
	return true, suppressed
}

// warn logs a warning, at a limited rate.
func (t *Transport) warn(text string, args ...any) {
	ok, suppressed := t.limiter.allow(time.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		args = append(args, "suppressed", suppressed)
	}
	t.log.Warn(text, args...)
}

package transport

import (
	"sync"
	"time"
)

// What strangers can cause is logged, but they cannot fill the log: a few lines,
// then one every few seconds.
const (
	warnBurst = 10
	warnEvery = 5 * time.Second
)

// limiter bounds the warnings of one Transport.
type limiter struct {
	mu     sync.Mutex
	spent  int
	last   time.Time // when spent was last reduced
	unsaid int
}

// allow tells whether to log, and how many were not logged since the last time.
func (l *limiter) allow(now time.Time) (ok bool, unsaid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := int(now.Sub(l.last) / warnEvery); n > 0 {
		l.spent = max(0, l.spent-n)
		l.last = now
	}
	if l.spent == warnBurst {
		l.unsaid++
		return false, 0
	}
	l.spent++
	unsaid, l.unsaid = l.unsaid, 0
	return true, unsaid
}

// warn logs what a user should look at, at a limited rate.
func (t *Transport) warn(text string, args ...any) {
	ok, unsaid := t.limiter.allow(time.Now())
	if !ok {
		return
	}
	if unsaid > 0 {
		args = append(args, "unsaid", unsaid)
	}
	t.log.Warn(text, args...)
}

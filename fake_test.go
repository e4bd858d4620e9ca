package mesh

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
)

const fakeMaxTTL = time.Minute

// fakeBackend grants every request at once, or refuses it with fail.
type fakeBackend struct {
	mu       sync.Mutex
	requests []client.Request
	holds    []*fakeHold
	fail     error
	info     client.WaitInfo
}

func newFakeSession(t *testing.T) (*Session, *fakeBackend) {
	t.Helper()
	f := &fakeBackend{}
	return &Session{backend: f, config: &sessionConfig{
		log: slog.New(slog.DiscardHandler), maxTTL: fakeMaxTTL, shardOf: func(string) int { return 5 },
	}}, f
}

func (f *fakeBackend) Acquire(_ context.Context, req client.Request) (hold, *client.WaitInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, req)
	if f.fail != nil {
		return nil, &f.info, f.fail
	}
	h := &fakeHold{token: uint64(10 * len(f.requests)), watchers: make(map[int]func(error))}
	f.holds = append(f.holds, h)
	return h, &f.info, nil
}

func (f *fakeBackend) Done() <-chan struct{}       { return nil }
func (f *fakeBackend) Err() error                  { return nil }
func (f *fakeBackend) Close(context.Context) error { return nil }

// fakeHold behaves like node.Hold.
type fakeHold struct {
	token uint64

	mu       sync.Mutex
	over     error
	releases int
	extended []time.Duration
	result   error // what Release returns
	watchers map[int]func(error)
	next     int
	during   func() // called by Release after the hold has ended
	late     bool   // the lease has ended, and no timer has fired yet
	forsaken atomic.Bool
}

func (h *fakeHold) Token() uint64       { return h.token }
func (h *fakeHold) Deadline() time.Time { return time.Unix(100, 0) }

func (h *fakeHold) Err() error {
	h.mu.Lock()
	late := h.late
	h.mu.Unlock()
	if late {
		h.lose()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

func (h *fakeHold) Release(context.Context) error {
	if h.Err() == fault.ErrLost {
		return fault.ErrLost
	}
	h.end(fault.ErrClosed)
	if h.during != nil {
		h.during()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releases++
	return h.result
}

func (h *fakeHold) Extend(_ context.Context, d time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.extended = append(h.extended, d)
	return nil
}

func (h *fakeHold) OnEnd(f func(error)) func() {
	h.mu.Lock()
	if over := h.over; over != nil {
		h.mu.Unlock()
		f(over)
		return func() {}
	}
	defer h.mu.Unlock()
	h.next++
	n := h.next
	h.watchers[n] = f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, n)
	}
}

// end ends the hold, as a lost lease or a release does.
func (h *fakeHold) end(cause error) {
	h.mu.Lock()
	if h.over != nil {
		h.mu.Unlock()
		return
	}
	h.over = cause
	all := h.watchers
	h.watchers = nil
	h.mu.Unlock()
	for n := 1; n <= h.next; n++ {
		if f := all[n]; f != nil {
			f(cause)
		}
	}
}

func (h *fakeHold) lose() { h.end(fault.ErrLost) }

func (h *fakeHold) Shared(int) {}

func (h *fakeHold) Forsake() { h.forsaken.Store(true) }

// page collects log lines from any goroutine.
type page struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.String()
}

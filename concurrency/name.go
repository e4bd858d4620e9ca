package concurrency

import (
	"context"
	"errors"

	"github.com/lockmesh/mesh"
)

// name is what a session knows of one name. The session's mutex guards it.
type name struct {
	hold *hold // nil: the session does not hold the name
	call *call // nil: the session does not ask for it
}

// hold is a name's lock, which all mutexes of the session share that have locked the name since it was granted.
type hold struct {
	lock    *mesh.Lock
	mutexes map[*Mutex]bool // those that are not unlocked
}

// call is a request for a name's lock that is under way. A session has at most one for each name: a second one would wait for the
// lock that the first one gets.
type call struct {
	try  bool
	over chan struct{} // closed at the end
}

// take locks a name for m: it joins the hold of the session if there is one, else acquires it.
func (s *Session) take(ctx context.Context, m *Mutex, try bool) error {
	for {
		if s.inner.Err() != nil {
			return ErrSessionExpired
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		s.mu.Lock()
		n := s.names[m.name]
		switch {
		case n == nil:
			c := &call{try, make(chan struct{})}
			s.names[m.name] = &name{call: c}
			s.mu.Unlock()
			return s.acquire(ctx, m, c)
		case n.hold != nil:
			h := n.hold
			s.mu.Unlock()
			joined, err := s.join(h, m)
			if joined || err != nil {
				return err
			}
		case try && !n.call.try:
			s.mu.Unlock()
			return ErrLocked // it may wait for long
		default:
			over := n.call.over
			s.mu.Unlock()
			select {
			case <-over:
			case <-ctx.Done():
			case <-s.inner.Done():
			}
		}
	}
}

// acquire asks the mesh for the lock, as the call c of the session.
func (s *Session) acquire(ctx context.Context, m *Mutex, c *call) error {
	take := s.inner.Lock
	if c.try {
		take = s.inner.TryLock
	}
	l, err := take(ctx, m.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(c.over)
	if err != nil {
		delete(s.names, m.name)
		return s.failed(err)
	}
	h := &hold{lock: l, mutexes: make(map[*Mutex]bool)}
	s.names[m.name] = &name{hold: h}
	m.enter(h)
	return nil
}

// failed returns what a call returns when the mesh has returned err.
func (s *Session) failed(err error) error {
	switch {
	case errors.Is(err, mesh.ErrLocked):
		return ErrLocked
	case (errors.Is(err, mesh.ErrLost) || errors.Is(err, mesh.ErrClosed)) && s.inner.Err() != nil:
		return ErrSessionExpired
	}
	return err
}

// join makes m one of the mutexes that share h. It reports false without an error if h has been released.
func (s *Session) join(h *hold, m *Mutex) (bool, error) {
	held := h.lock.Err() // not under the mutex: it may end contexts
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := s.names[m.name]; {
	case n == nil || n.hold != h:
		return false, nil
	case held != nil:
		return false, ErrSessionExpired
	}
	m.enter(h)
	return true, nil
}

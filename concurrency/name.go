package concurrency

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/mesh"
)

// id names what a session can hold.
type id struct {
	kind kind
	name string
}

type kind uint8

const (
	locks kind = iota
	elections
)

// name is what a session knows of one id. The session's mutex guards it.
type name struct {
	hold *hold // nil: the session does not hold it
	call *call // nil: the session does not ask for it
}

// hold is a lock or a leadership of a session.
type hold struct {
	grant
	release func(context.Context) error // Unlock or Resign
	leader  *mesh.Leadership            // nil: a lock
	mutexes map[*Mutex]bool             // those of the session that have locked the lock and are not unlocked
}

// revision returns the fencing token.
func (h *hold) revision() int64 { return int64(h.Token()) }

// keyOf returns the key of a lock, or of a leader, in the form of etcd's.
func keyOf(name string, revision int64) string { return fmt.Sprintf("%s/%x", name, revision) }

// grant is a mesh.Lock or a mesh.Leadership.
type grant interface {
	Err() error
	Token() uint64
}

// call is a request that is under way. A session has at most one for each id: a second one would wait for what the first one gets.
type call struct {
	try  bool
	over chan struct{} // closed at the end
}

// request is what a mutex or an election asks of its session.
type request struct {
	id    id
	try   bool
	ask   func(context.Context) (*hold, error) // asks the mesh
	enter func(*hold)                          // notes what the session holds; with the session's mutex held
	in    func(*hold) bool                     // reports whether that has been noted, and not left; with the session's mutex held
}

// take joins the hold of the session if there is one, else acquires one.
func (s *Session) take(ctx context.Context, r request) (joined bool, err error) {
	for {
		if s.inner.Err() != nil {
			return false, ErrSessionExpired
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		s.mu.Lock()
		n := s.names[r.id]
		switch {
		case n == nil:
			c := &call{r.try, make(chan struct{})}
			s.names[r.id] = &name{call: c}
			s.mu.Unlock()
			return false, s.acquire(ctx, r, c)
		case n.hold != nil:
			h := n.hold
			s.mu.Unlock()
			joined, err := s.join(h, r)
			if joined || err != nil {
				return joined, err
			}
		case r.try && !n.call.try:
			s.mu.Unlock()
			return false, ErrLocked // it may wait for long
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

// acquire asks the mesh, as the call c of the session.
func (s *Session) acquire(ctx context.Context, r request, c *call) error {
	h, err := r.ask(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(c.over)
	if err != nil {
		delete(s.names, r.id)
		return s.failed(err)
	}
	s.names[r.id] = &name{hold: h}
	r.enter(h)
	return nil
}

// failed returns what a call returns when the mesh has returned err.
func (s *Session) failed(err error) error {
	switch {
	case errors.Is(err, mesh.ErrLocked):
		return ErrLocked
	case errors.Is(err, mesh.ErrNoLeader):
		return ErrElectionNoLeader
	case isOver(err) && s.inner.Err() != nil:
		return ErrSessionExpired
	}
	return err
}

// isOver reports whether err says that a lock, a leadership or a session has ended.
func isOver(err error) bool { return errors.Is(err, mesh.ErrLost) || errors.Is(err, mesh.ErrClosed) }

// join enters h. It reports false without an error if h has been released, or if an operator has broken it and the request's mutex or election
// is not in it: then another one may be acquired, which waits until those that are in it have left it, or until a TTL is over.
func (s *Session) join(h *hold, r request) (bool, error) {
	held := h.Err() // not under the mutex: it may end contexts
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := s.names[r.id]; {
	case n == nil || n.hold != h:
		return false, nil
	case errors.Is(held, mesh.ErrBroken) && !r.in(h):
		delete(s.names, r.id)
		return false, nil
	case held != nil:
		return false, ErrSessionExpired
	}
	r.enter(h)
	return true, nil
}

// drop forgets h, which is about to be released. The session's mutex is held.
func (s *Session) drop(i id, h *hold) {
	if n := s.names[i]; n != nil && n.hold == h {
		delete(s.names, i)
	}
}

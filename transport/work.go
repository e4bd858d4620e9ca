package transport

import "sync"

// maxFree is how many goroutines wait for work.
const maxFree = 2

// work runs f on a goroutine: on one that has run something before, if one is free. The stack of a goroutine that dials
// or answers grows several times, which costs as much as the rest of a dial that nobody waits for.
func (t *Transport) work(f func()) {
	select {
	case t.next <- f:
		return
	default:
	}
	t.wg.Go(func() {
		for {
			f()
			f = nil
			if t.free.Add(1) > maxFree {
				t.free.Add(-1)
				return
			}
			select {
			case f = <-t.next:
				t.free.Add(-1)
			case <-t.ctx.Done():
				return
			}
		}
	})
}

// sockets holds the connections that Close closes.
type sockets struct {
	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

// enter adds c. It returns false if Close was called.
func (s *sockets) enter(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.conns == nil {
		s.conns = make(map[*conn]struct{})
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *sockets) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *sockets) close() {
	s.mu.Lock()
	conns := s.conns
	s.conns, s.closed = nil, true
	s.mu.Unlock()
	for c := range conns {
		c.close(errClosed)
	}
}

package transport

import "sync"

// conns holds the connections that Close closes, those in a handshake among them.
type conns struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// enter adds c. It returns false if Close was called.
func (s *conns) enter(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = make(map[*conn]struct{})
	}
	s.open[c] = struct{}{}
	return true
}

func (s *conns) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

func (s *conns) close() {
	s.mu.Lock()
	open := s.open
	s.open, s.closed = nil, true
	s.mu.Unlock()
	for c := range open {
		c.close(errClosed)
	}
}

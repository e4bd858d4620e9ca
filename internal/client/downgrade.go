package client

import "github.com/lockmesh/mesh/internal/fault"

// downgrade makes a writer's hold a reader's (P47). Its holder has ended the belief in the rest already. So from now on a reader's is what is
// reported to another generation, whether the table has heard of it or not: it may have, and have let other readers in.
func (s *shardClient) downgrade(c *Call) {
	h := c.Hold
	l := h.lease
	h.request.Mode = Shared
	switch {
	case h.unreported || !l.kept() || h.lost():
		s.client.finish(c, fault.ErrLost)
	case h.Err() != nil:
		s.client.finish(c, fault.ErrClosed) // its Unlock is on its way
	default:
		l.put(c)
		s.send(c)
	}
}

// dropDowngrades fails the Downgrades without an answer: the lease is to be closed.
func (l *lease) dropDowngrades(why error) {
	for _, c := range l.inOrder() {
		if c.Kind == Downgrade {
			l.remove(c)
			l.client.finish(c, why)
		}
	}
}

package client

import (
	"slices"

	"github.com/lockmesh/mesh/shard"
)

// A leadership (P46) is to the client a hold, and a campaign a Lock. Its value is that of the Lock, and then what its leader has
// proclaimed last: also what was not answered yet, as others may have been told of it. That is what is reported when
// the shard's table is lost (C8).

// proclaim gives a leadership another value.
func (l *lease) proclaim(c *Call) {
	h := c.Hold
	h.sequence++
	c.sequence, h.request.Value = h.sequence, slices.Clone(c.Request.Value)
	l.issue(c)
}

// Sequence is that of a Proclaim which was sent.
func (c *Call) Sequence() uint64 { return c.sequence }

// proclamation returns the command of a Proclaim.
func (c *Call) proclamation(base shard.Call) shard.Proclaim {
	return shard.Proclaim{Call: base, Key: c.Hold.Key, Token: c.Hold.Token, Sequence: c.sequence, Value: c.Request.Value}
}

package client

import "github.com/lockmesh/mesh/shard"

// resizing returns the command of a Resize. It is repeated until it is answered, also in another generation of the shard.
func (l *lease) resizing(c *Call, base shard.Call) shard.Resize {
	return shard.Resize{Call: base, TTL: l.ttl, Name: l.client.cfg.Name, Key: c.Request.Key, From: c.From, To: c.Request.Capacity}
}

// neverOpened reports whether a record that the table does not have was never there: nobody has closed it, and if a command had opened it, it
// would last still. So what was asked for under it has not happened.
func (l *lease) neverOpened() bool {
	return l.opened == neverShown && l.begun && l.client.now < l.from+l.believable(l.ttl)
}

package mesh

import (
	"context"
)

// EndQuiet ends the quiet time of the mesh, on the word of an operator: nobody believes any more that it holds a lock of an
// earlier mesh, or of a shard before it lost its majority, except those that have reported it. He knows it, for example,
// because all processes of the fleet were stopped. Then shards that are quiet (see [WithMaxTTL]) grant at once. What
// holders have reported stays: their locks, and the places of those that wait. One that reports only now loses its lock.
//
// The caller answers for it: if a process that was cut off holds a lock still, two callers hold the key at once,
// until that process believes in it no longer.
//
// EndQuiet returns nil when the core has decided it; shards grant as soon as their leaders have heard, within a second as
// a rule, or have been elected. The word is about the shards as they are when it is said: one that loses its majority
// later has a quiet time of its own. Call it on any node. Errors:
//
//   - [ErrNotQuiet]: no shard is quiet, as far as this node has heard; [ErrNotFounded]: it is in no mesh
//   - [ErrChanged]: a shard has lost its majority since, and begun again. Nothing was ended; if the word is true of
//     that shard as well, call EndQuiet again
//   - [ErrNoQuorum]: no majority of the core has decided it when ctx ends, or no node of the core answers this client.
//     The core may still decide it
//   - [Node.Err], if this node ends
//
// If ctx has no deadline, it waits 15 s.
func (n *Node) EndQuiet(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case n.isZero():
		return ErrClosed
	}
	return n.node.EndQuiet(ctx)
}

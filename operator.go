package mesh

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/node"
)

// EndQuiet ends the quiet time ([WithMaxTTL]) on the word of an operator, who knows, for example, that all processes of the fleet
// were stopped. The operator says: of the locks that an earlier mesh granted, or a shard before it lost its majority, nobody believes
// in any but those that were reported to this mesh. Quiet shards then grant at once. What was reported stays: locks, and
// places in queues. A holder that reports only later loses its lock.
//
// The caller answers for it: if a process that was cut off holds a lock still, two callers hold the key at once,
// until that process believes in it no longer.
//
// EndQuiet returns nil when the core has decided it; shards grant as soon as their leaders have heard of it, within a second as
// a rule, or have been elected. It is about the shards as they are when it is called: one that loses its majority
// later has a quiet time of its own. Call it on any node. Errors:
//
//   - [ErrNotQuiet]: no shard is quiet, as far as this node has heard; [ErrNotFounded]: this node is in no mesh
//   - [ErrChanged]: a shard has lost its majority since the call, and begun again. Nothing was ended; if what the operator says is true of
//     that shard as well, call EndQuiet again
//   - [ErrNoQuorum]: no majority of the core has decided it when ctx ends, or no node of the core answers this client.
//     The core may still decide it
//   - [Node.Err], if this node ends
//
// If ctx has no deadline, it waits 15 s.
func (n *Node) EndQuiet(ctx context.Context) error {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return err
	}
	return n.node.EndQuiet(ctx)
}

// SetMaxTTL changes the bound of all leases in the living mesh ([WithMaxTTL]), from 1s to 24h: of WithTTL, MaxHold and
// Extend, and for how long the mesh is quiet when its core, or a shard, has lost its majority.
//
// A raise is in force when every node that has a seat in the core has said that it knows of the new bound, has saved it in its
// state directory, if it has one, and has the core's present list. So SetMaxTTL waits for a node that is silent. Once the raise is in force,
// longer leases may be asked for; those of sessions that exist stay as they are.
//
// A lowering is in force at once. Sessions with a longer TTL go on, and their leases are renewed for the new time: their
// locks are lost sooner when their node is cut off. A lock with MaxHold keeps its end; but if the end was set while the lowering was
// on its way, the lock may end earlier. Quiet times stay long until every longer lease is over.
//
// The change lasts as long as the mesh. WithMaxTTL of a node that joins or restarts says nothing of the mesh after that
// (a warning is logged, if it differs); it counts again when all of the core has ended, and its nodes found a mesh anew. So
// give them the new value as well, when SetMaxTTL has returned: a mesh that is founded with a shorter one is quiet for the
// longer time only if clients of this mesh report to it, or state directories ([WithStateDir]) remember it.
//
// Call it on any node. SetMaxTTL returns nil when the change is in force and, unless ctx ended first, this node knows of it; others
// hear of it within a second, as a rule. Errors:
//
//   - [ErrInvalidOption]: d is out of range, or a node that is connected with the core asks for longer leases by
//     WithLeaseTTL, and would be refused when it starts again
//   - [ErrNoQuorum]: no majority of the core has decided it when ctx ends, or no node of the core answers this client: the core may still
//     decide it. Or a raise is decided, and waits for nodes that have a seat: it comes into force when they have answered, or others
//     have their seats, and all have the core's list. The text says which. Set the old value to take the raise back
//   - [ErrChanged]: another call of SetMaxTTL came after this one
//   - [ErrNotFounded]: this node is in no mesh; [Node.Err], if it ends
//
// If ctx has no deadline, it waits 15 s.
func (n *Node) SetMaxTTL(ctx context.Context, d time.Duration) error {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return err
	}
	if d < minTTL || d > maxMaxTTL {
		return invalid("MaxTTL", d, fmt.Sprintf("%v to %v", minTTL, maxMaxTTL))
	}
	return n.node.SetMaxTTL(ctx, d)
}

// MaxTTL returns the bound of all leases that is in force in the mesh, as far as this node has heard; zero before this node is in a
// mesh. See [WithMaxTTL] and [Node.SetMaxTTL].
func (n *Node) MaxTTL() time.Duration {
	if n.isZero() {
		return 0
	}
	return n.node.MaxTTL()
}

// ListMembers returns the nodes of the mesh, this one included, sorted by name: those that have a seat in the core, and the
// clients that are connected with it. Each name is listed once, with its present node. Unlike [Node.Members], which
// tells what this node knows, ListMembers asks all nodes of the core, also when a client calls it. It takes one round trip for
// each 200 nodes, or part of that. A node is MemberAlive if it is of the core and answers, or if a node of the core is connected with it. A
// client that joins or ends meanwhile may be listed or not. At most 65,536 nodes are listed. Errors:
//
//   - [ErrNoQuorum]: fewer than a majority of the core have answered when ctx ends, or after 15 s if it has no deadline
//   - [ErrNotFounded]: this node is in no mesh yet
//   - [Node.Err], if this node ends
func (n *Node) ListMembers(ctx context.Context) ([]Member, error) {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return nil, err
	}
	known, err := n.node.ListMembers(ctx)
	if err != nil {
		return nil, err
	}
	return membersOf(known), nil
}

func membersOf(known []node.Member) []Member {
	all := make([]Member, len(known))
	for i, m := range known {
		all[i] = memberOf(m)
	}
	return all
}

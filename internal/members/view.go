package members

import (
	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/ring"
)

// View is what a node believes of its mesh at one moment. A view never changes: a new one
// replaces it. Any goroutine may read it. The zero view is that of a node which knows of no
// node and no ring.
type View struct {
	leaving  bool
	members  []replica.Peer
	byName   map[string]replica.Peer // of members
	table    *ring.Table             // over members, or nil
	liveness map[uint64]placement.Liveness
	unknown  placement.Liveness // of nodes that are not in liveness
}

// NewView returns a view in which all members are present, and all other nodes silent. The
// members are sorted by name, and the table is over their names. Without a table no shard has
// a target.
func NewView(leaving bool, members []replica.Peer, table *ring.Table) *View {
	v := &View{
		leaving: leaving, members: members, byName: make(map[string]replica.Peer, len(members)), table: table,
		liveness: make(map[uint64]placement.Liveness, len(members)), unknown: placement.Silent,
	}
	for _, m := range members {
		v.byName[m.Name], v.liveness[m.Node] = m, placement.Present
	}
	return v
}

// Leaving reports whether this node leaves the mesh. Then it is not among the members.
func (v *View) Leaving() bool { return v.leaving }

// Members returns the nodes that have a place on the ring, sorted by name: fewer than the Machine
// knows, and this node among them unless it leaves. The caller must not change them.
func (v *View) Members() []replica.Peer { return v.members }

// Target returns the nodes on which the ring wants the shard's replicas, its owner first.
func (v *View) Target(shard int) []replica.Peer {
	if v.table == nil {
		return nil
	}
	return v.peers(v.table.Replicas(shard))
}

// Standby returns the other members, in the order in which they step in where a node of the
// target does not answer.
func (v *View) Standby(shard int) []replica.Peer {
	if v.table == nil {
		return nil
	}
	return v.peers(v.table.Spares(shard))
}

func (v *View) peers(names []string) []replica.Peer {
	peers := make([]replica.Peer, len(names))
	for i, name := range names {
		peers[i] = v.byName[name]
	}
	return peers
}

// Name returns the name of a member.
func (v *View) Name(node uint64) (string, bool) {
	for _, m := range v.members {
		if m.Node == node {
			return m.Name, true
		}
	}
	return "", false
}

// Has reports whether a node is a member.
func (v *View) Has(node uint64) bool {
	_, has := v.Name(node)
	return has
}

// Liveness returns the liveness of each known node, and that of all others. The caller must
// not change it.
func (v *View) Liveness() (known map[uint64]placement.Liveness, others placement.Liveness) {
	return v.liveness, v.unknown
}

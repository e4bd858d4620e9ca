package members

import (
	"slices"

	"github.com/lockmesh/mesh/internal/replica"
)

// View is what a node believes of the others at one moment. A view never changes: a new one replaces it. Any
// goroutine may read it. The zero view is that of a node which knows of no node.
type View struct {
	leaving bool
	members []replica.Peer
	leaves  map[uint64]bool
}

// NewView returns a view of these members, sorted by name, of which none leaves.
func NewView(leaving bool, members []replica.Peer) *View {
	return &View{leaving: leaving, members: members}
}

// Leaving reports whether this node leaves the mesh. Then it is not among the members.
func (v *View) Leaving() bool { return v.leaving }

// Leaves reports whether another node leaves the mesh.
func (v *View) Leaves(node uint64) bool { return v.leaves[node] }

// Members returns the nodes that are there, sorted by name, this one among them unless it leaves. The caller must
// not change them.
func (v *View) Members() []replica.Peer { return v.members }

// Has reports whether a node is a member.
func (v *View) Has(node uint64) bool {
	return slices.ContainsFunc(v.members, func(m replica.Peer) bool { return m.Node == node })
}

// Package bridge gives the other packages of this module what is inside a node of package mesh, and not exported.
package bridge

import (
	"time"

	"github.com/lockmesh/mesh/internal/node"
)

// Package mesh sets these.
var (
	// NodeOf returns what is inside of a *mesh.Node: nil if that is nil or zero.
	NodeOf func(meshNode any) *node.Node
	// TTLs returns how long a lease of a *mesh.Node that is ready lasts, and how long one may.
	TTLs func(meshNode any) (usual, most time.Duration)
	// KeyStateOf returns what was seen of a key as a mesh.KeyState.
	KeyStateOf func(node.Sight) any
)

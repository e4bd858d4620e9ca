// Package bridge leads from a node of package mesh to what is inside of it, for the other packages of this module.
package bridge

import "github.com/lockmesh/mesh/internal/node"

// NodeOf returns what is inside of a *mesh.Node: nil if that is nil or zero. Package mesh sets it.
var NodeOf func(meshNode any) *node.Node

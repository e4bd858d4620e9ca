package node

import "errors"

// What a node can end with, beside fault.ErrClosed. Package mesh exports these; the texts carry its
// prefix.
var (
	ErrLeft    = errors.New("mesh: node left the mesh")
	ErrEjected = errors.New("mesh: node was ejected from the mesh")
)

package node

import (
	"errors"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
)

// What a call, or a node, can end with. Package mesh exports these; the
// texts carry its prefix.
var (
	ErrLocked         = client.ErrLocked
	ErrLost           = client.ErrLost
	ErrNoQuorum       = client.ErrNoQuorum
	ErrClosed         = client.ErrClosed
	ErrInvalidOption  = fault.ErrInvalidOption
	ErrCapacity       = client.ErrCapacity
	ErrTooManyWaiters = client.ErrTooManyWaiters
	ErrUnconfirmed    = client.ErrUnconfirmed
	ErrLeft           = errors.New("mesh: node left the mesh")
	ErrEjected        = errors.New("mesh: node was ejected from the mesh")
)

package node

import (
	"errors"

	"github.com/lockmesh/mesh/internal/fault"
)

// What a call, or a node, can end with. Package mesh exports these under the same names; the
// texts carry its prefix.
var (
	ErrLocked         = fault.ErrLocked
	ErrLost           = fault.ErrLost
	ErrNoQuorum       = fault.ErrNoQuorum
	ErrClosed         = errors.New("mesh: closed")
	ErrInvalidOption  = fault.ErrInvalidOption
	ErrCapacity       = errors.New("mesh: the key is in use with another kind or capacity")
	ErrTooManyWaiters = errors.New("mesh: too many waiters for the key")
	ErrUnconfirmed    = errors.New("mesh: release sent, not confirmed")
	ErrLeft           = errors.New("mesh: node left the mesh")
	ErrEjected        = errors.New("mesh: node was ejected from the mesh")
)

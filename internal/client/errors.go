package client

import (
	"errors"

	"github.com/lockmesh/mesh/internal/fault"
)

// The errors with which a call, a hold or a session ends. Package mesh exports them.
var (
	ErrLocked         = fault.ErrLocked
	ErrLost           = fault.ErrLost
	ErrNoQuorum       = fault.ErrNoQuorum
	ErrClosed         = errors.New("mesh: closed")
	ErrCapacity       = errors.New("mesh: the key is in use with another kind or capacity")
	ErrTooManyWaiters = errors.New("mesh: too many waiters for the key")
	ErrUnconfirmed    = errors.New("mesh: release sent, not confirmed")
)

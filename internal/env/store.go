package env

import "errors"

// Store is a directory in which a node keeps a few bytes beyond its own life. As long as it is open, no other process
// opens it.
type Store interface {
	// Load returns what Save wrote last; nil if nothing was.
	Load() ([]byte, error)
	// Save replaces it. If the process or the machine ends meanwhile, Load returns the old or the new
	// bytes. Save may block, and so must not be called from a loop. After Close it has no effect.
	Save(b []byte) error
	// Close lets others open the directory, once a Save that is under way is over.
	Close() error
}

// ErrStoreTaken: another process has the directory open.
var ErrStoreTaken = errors.New("in use by another process")

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package realenv

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/lockmesh/mesh/internal/env"
)

// lockWhole locks a file until it is closed, or the process ends.
func lockWhole(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return env.ErrStoreTaken
	}
	return err
}

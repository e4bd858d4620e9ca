//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package realenv

import (
	"errors"
	"os"
)

func lockWhole(*os.File) error {
	return errors.New("state directories need flock, which this system does not have")
}

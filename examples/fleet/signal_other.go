//go:build !unix

package main

import (
	"errors"
	"os"
)

// pauseProcess and resumeProcess need signals that only Unix has.
func pauseProcess(*os.Process) error { return errors.ErrUnsupported }

func resumeProcess(*os.Process) error { return errors.ErrUnsupported }

package mesh_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

var long = flag.Bool("long", false, "play all worlds, also of tests that take many seconds: CI does")

// fewer returns the second value with -long, and else the first, for fewer worlds.
func fewer[V any](some, all V) V {
	if *long {
		return all
	}
	return some
}

// TestMain lets the garbage grow as the command does: worlds make much of it and are small.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}

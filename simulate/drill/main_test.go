package drill

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the garbage grow as the command does: worlds make much of it and are small.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}

package client

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the garbage grow: the tables and messages of these tests make much of it and are small.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}

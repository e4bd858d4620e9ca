//go:build unix

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What ends the tool ends all that it has started.
func TestNothingIsLeftRunning(t *testing.T) {
	const patience = 30 * time.Second
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened in this way and order, neither end waits for the other. While w is open, reads wait for
	// the child to write, and do not end because it has not opened the FIFO yet.
	r, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan error, 1)
	go func() {
		defer cancel()
		_ = r.SetReadDeadline(time.Now().Add(patience))
		_, err := r.Read(make([]byte, 1))
		begun <- err
	}()
	// The child holds the FIFO open for as long as it lives, and nothing else that output would wait for.
	_, err = output(ctx, "", "sh", "-c", `(echo; exec sleep 60) >"$0" 2>&1 & wait`, fifo)
	if err == nil {
		t.Error("it was not interrupted")
	}
	if err := <-begun; err != nil {
		t.Fatalf("the child did not begin: %v", err)
	}
	w.Close()
	_ = r.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Errorf("a child lives on: %v", err)
	}
}

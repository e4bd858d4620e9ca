package realenv

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/env"
)

func TestStore(t *testing.T) {
	w, dir := New(nil), filepath.Join(t.TempDir(), "a", "b")
	s, err := w.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Load(); b != nil || err != nil {
		t.Errorf("Load of nothing = %q, %v", b, err)
	}
	for _, text := range []string{strings.Repeat("long", 1000), "short", ""} {
		if err := s.Save([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := s.Load(); !bytes.Equal(b, []byte(text)) || err != nil {
			t.Errorf("Load = %q, %v, want %q", b, err, text)
		}
	}
	if _, err := w.OpenStore(dir); !errors.Is(err, env.ErrStoreTaken) {
		t.Errorf("a second one opens it: %v", err)
	}
	// What a machine left that stopped in the middle of a Save means nothing.
	if err := os.WriteFile(filepath.Join(dir, stateFile+".new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Save([]byte("last")), s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	next, err := w.OpenStore(dir)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	defer next.Close()
	if err := s.Save([]byte("too late")); err != nil {
		t.Error(err)
	}
	if b, err := next.Load(); string(b) != "last" || err != nil {
		t.Errorf("Load = %q, %v", b, err)
	}
}

// What cannot be a state directory is an error at once.
func TestStoreNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), ""} {
		if s, err := New(nil).OpenStore(dir); err == nil {
			s.Close()
			t.Errorf("OpenStore(%q) has no error", dir)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, stateFile), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := New(nil).OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Load(); err == nil {
		t.Error("Load of a directory has no error")
	}
	if err := s.Save([]byte("x")); err == nil {
		t.Error("Save to a directory has no error")
	}
}

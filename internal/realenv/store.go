package realenv

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/lockmesh/mesh/internal/env"
)

// The files in a state directory. The lock is another file than the state, which is replaced as a whole.
const (
	stateFile = "state"
	lockFile  = "lock"
	maxState  = 1 << 16 // bytes that are read
)

// store implements env.Store.
type store struct {
	dir  string
	lock *os.File // nil: closed

	mu sync.Mutex
}

// OpenStore implements env.Env. The directory is made if there is none.
func (w *Env) OpenStore(dir string) (env.Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockWhole(f); err != nil {
		f.Close()
		return nil, err
	}
	return &store{dir: dir, lock: f}, nil
}

func (s *store) Load() ([]byte, error) {
	f, err := os.Open(filepath.Join(s.dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxState))
}

// Save writes another file, and gives it the name of the state once it is on the disk.
func (s *store) Save(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	path := filepath.Join(s.dir, stateFile)
	if err := writeSynced(path+".new", b); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	f := s.lock
	s.lock = nil
	return f.Close() // which unlocks it
}

package simulate

import (
	"slices"

	"github.com/lockmesh/mesh/internal/env"
)

// disk is one directory of a host, which outlives its processes.
type disk struct {
	data   []byte
	opened *store // by a process that may have ended
}

// store implements env.Store for a process.
type store struct {
	process *process
	disk    *disk
}

// OpenStore implements env.Env.
func (p *process) OpenStore(dir string) (env.Store, error) {
	if p.dead {
		return nil, errCrashed
	}
	d := p.host.disks[dir]
	if d == nil {
		d = &disk{}
		if p.host.disks == nil {
			p.host.disks = make(map[string]*disk) // looked up, never ranged over
		}
		p.host.disks[dir] = d
	}
	if o := d.opened; o != nil && !o.process.dead {
		return nil, env.ErrStoreTaken
	}
	d.opened = &store{p, d}
	return d.opened, nil
}

func (s *store) open() bool { return s.disk.opened == s && !s.process.dead }

func (s *store) Load() ([]byte, error) { return slices.Clone(s.disk.data), nil }

func (s *store) Save(b []byte) error {
	if s.open() {
		s.disk.data = slices.Clone(b)
	}
	return nil
}

func (s *store) Close() error {
	if s.open() {
		s.disk.opened = nil
	}
	return nil
}

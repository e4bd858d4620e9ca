package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/state"
)

// benchStore is a state directory, which fails as long as err is set.
type benchStore struct {
	saved []state.State
	err   error
	tried int
}

func (s *benchStore) Load() ([]byte, error) { return nil, nil }

func (s *benchStore) Save(b []byte) error {
	s.tried++
	if s.err != nil {
		return s.err
	}
	k, err := state.Decode(b)
	s.saved = append(s.saved, k)
	return err
}

func (s *benchStore) Close() error { return nil }

// Promise: P35: what a node of the core must not forget is saved at once, and once; if that fails, it is said, and tried
// again after 10 s.
func TestKeeps(t *testing.T) {
	b := newBench(t, Config{}, nodeA, nodeB, nodeC)
	s := &benchStore{err: errors.New("the disk is full")}
	b.do(func(l *shardLoop) { l.keeper.store = s })
	b.pass(9 * time.Second)
	if s.tried != 1 || strings.Count(b.log.String(), "the disk is full") != 1 {
		t.Fatalf("tried %d times, logged %s", s.tried, b.log.String())
	}
	s.err = nil
	b.pass(3 * time.Second)
	b.pass(time.Minute)
	if len(s.saved) != 1 || s.saved[0] != (state.State{MeshName: "m", Mesh: 77, Node: nodeA}) {
		t.Errorf("saved %+v", s.saved)
	}
}

// A client has nothing to keep.
func TestClientsKeepNothing(t *testing.T) {
	b := newBench(t, Config{})
	s := &benchStore{}
	b.do(func(l *shardLoop) { l.keeper.store = s })
	b.pass(10 * time.Second)
	if s.tried != 0 {
		t.Errorf("saved %+v", s.saved)
	}
}

package node

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/state"
)

// benchStore is a state directory, which fails as long as err is set.
type benchStore struct {
	found []byte
	saved []state.State
	err   error
	tried int
}

func (s *benchStore) Load() ([]byte, error) { return s.found, nil }

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

// A node that cannot listen leaves in its state directory what it has found: the node that the next one replaces, and the list that it
// keeps, also if the seeds of this start were others.
func TestAStartThatFailsLeavesTheState(t *testing.T) {
	before := state.State{MeshName: "m", Mesh: 77, Node: 42, Seeds: "a:1 b:1", List: "a:1 b:1 c:1"}
	for _, tt := range []struct {
		name  string
		found []byte
		want  state.State
	}{
		{"the node before", before.Encode(), before},
		{"nothing", nil, state.State{}},
	} {
		s := &benchStore{found: tt.found}
		b := &bench{tb: t, store: s, taken: errors.New("the port is taken")}
		_, err := Start(Config{Env: b, StateDir: "here", Seeds: []string{"x:1"}, Logger: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, b.taken) || len(s.saved) == 0 || s.saved[len(s.saved)-1] != tt.want {
			t.Errorf("%s: Start = %v, saved %+v", tt.name, err, s.saved)
		}
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

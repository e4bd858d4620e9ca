// Package state has the form of what a node keeps in its state directory: what the mesh must not forget when all of its
// processes end at once. Locks are not in it.
package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// State is what a node keeps.
type State struct {
	MeshName string
	Mesh     uint64        // the mesh's ID; zero: none yet
	Node     transport.ID  // the incarnation that wrote this
	Floor    uint64        // the highest revision of any shard that it knew of
	Quiet    time.Duration // for how long a mesh that is founded anew must grant nothing, for the sake of earlier leases
	Seeds    string        // with which Node was started: entries, sorted, with blanks between them
	List     string        // the core's list in their place, to which an operator has changed it since; "": none
	Before   string        // what List was before that
}

// Start returns the list with which a node starts whose seeds are these, sorted: the one that it keeps; but the seeds, if they are
// other ones than before, and not the list that the kept one has replaced: a configuration may follow late. So whatever the operator
// changed last counts. The state keeps which that is.
func (s *State) Start(seeds []string) (list []string, kept bool) {
	now := strings.Join(seeds, " ")
	if late := s.Before != "" && now == s.Before; now != s.Seeds && !late {
		s.Seeds, s.List, s.Before = now, "", ""
	}
	if s.List == "" {
		return seeds, false
	}
	return strings.Fields(s.List), true
}

// Keep notes that an operator has changed the core's list.
func (s *State) Keep(list string) {
	if list != s.List {
		s.List, s.Before = list, s.List
	}
}

// MaxSize bounds the encoded form, in bytes.
const MaxSize = 1 << 16

// Limits of a State's fields.
const (
	maxName  = 255
	maxFloor = 1 << 53
	maxQuiet = 1000 * time.Hour // more than 24h·(1+2ρ)
	maxList  = 64 * 256         // of entries in one string
)

// magic begins the file, and says in which version it is.
const magic = "lockmesh state 1\n"

// ErrDamaged: the bytes are not what Encode returns.
var ErrDamaged = errors.New("damaged, or of another version")

// Encode returns s in bytes, with a checksum at the end.
func (s State) Encode() []byte {
	b := append([]byte(magic), wire.Marshal(s)...)
	return binary.BigEndian.AppendUint64(b, xxhash.Sum64(b))
}

// Decode returns the State that was encoded to b. Its error wraps ErrDamaged.
func Decode(b []byte) (s State, err error) {
	const sum = 8
	if len(b) < len(magic)+sum || len(b) > MaxSize || string(b[:len(magic)]) != magic {
		return s, fmt.Errorf("%w: it does not begin with %q, or has a wrong length", ErrDamaged, magic)
	}
	body := b[:len(b)-sum]
	if binary.BigEndian.Uint64(b[len(body):]) != xxhash.Sum64(body) {
		return s, fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	}
	if err := wire.Unmarshal(body[len(magic):], &s, MaxSize, 16); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if len(s.MeshName) > maxName || s.Floor > maxFloor || s.Quiet < 0 || s.Quiet > maxQuiet || len(s.Seeds) > maxList || len(s.List) > maxList || len(s.Before) > maxList {
		return State{}, fmt.Errorf("%w: a field is out of range", ErrDamaged)
	}
	return s, nil
}

package operator

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// Status is what a node knows of itself, and of its core. Roles and phases have the names of package mesh.
type Status struct {
	ID    string `json:"id"` // 16 hexadecimal digits
	Name  string `json:"name"`
	Addr  string `json:"addr,omitempty"`
	Zone  string `json:"zone,omitempty"`
	Entry string `json:"entry,omitempty"` // at which it answers; empty: at none, or it does not know yet

	List     []string `json:"list"`     // with which it was started, or that it keeps in its state directory
	StateDir bool     `json:"stateDir"` // it has one

	Role            string        `json:"role"`
	Phase           string        `json:"phase"`
	Settled         bool          `json:"settled"`
	Ready           bool          `json:"ready"`
	SafeToStop      bool          `json:"safeToStop"`
	FullyReplicated bool          `json:"fullyReplicated"`
	NoMajority      []int         `json:"noMajority"`
	UnderReplicated []int         `json:"underReplicated"`
	Quiet           time.Duration `json:"quietNs"` // for how much longer some shards grant nothing
	Why             string        `json:"why,omitempty"`
	Waiting         []Away        `json:"waiting"`

	Core *Core `json:"core,omitempty"` // nil: the node is in no mesh yet
}

// Away is an entry that a node waits for.
type Away struct {
	Entry string        `json:"entry"`
	For   time.Duration `json:"forNs"`
	Why   string        `json:"why"`
}

// Core is the core's table, as a node knows it.
type Core struct {
	Mesh       string   `json:"mesh"` // its ID: 16 hexadecimal digits
	Name       string   `json:"name"`
	Version    string   `json:"version"` // of the table
	Shards     int      `json:"shards"`
	Voters     int      `json:"voters"` // that each shard is to have
	Seats      []Seat   `json:"seats"`
	Ordered    []string `json:"ordered,omitempty"`    // the list that an operator wants, until all have it
	Unfinished string   `json:"unfinished,omitempty"` // why the last change of the list is not complete
	Dropped    string   `json:"dropped,omitempty"`    // the node whose entry was dropped last, while it has a vote
}

// Seat is the place of an entry in the core.
type Seat struct {
	Entry     string   `json:"entry"`
	ID        string   `json:"id,omitempty"` // of the node that has it; empty: none had it yet, or it is vacant
	Name      string   `json:"name,omitempty"`
	Addr      string   `json:"addr,omitempty"`
	List      []string `json:"list,omitempty"` // with which that node was started, or that it keeps; of a vacant seat, the one that had it
	Ended     bool     `json:"ended"`          // the node is known to have ended, and no other one has the seat yet
	Connected bool     `json:"connected"`      // the node is connected with the one that tells this, or is that one
}

// Vacant reports whether the node that had the seat is silent, and the others decide without it. It may come back.
func (s *Seat) Vacant() bool { return s.ID == "" && len(s.List) > 0 }

// Entries returns the core's list.
func (c *Core) Entries() (list []string) {
	for _, s := range c.Seats {
		list = append(list, s.Entry)
	}
	return list
}

// check returns why a Status is malformed, or nil.
func (s *Status) check() error {
	texts := append([]string{s.ID, s.Name, s.Addr, s.Zone, s.Entry, s.Role, s.Phase}, s.List...)
	long := []string{s.Why}
	few := len(s.List) <= maxEntries && len(s.Waiting) <= 4*maxEntries
	for _, a := range s.Waiting {
		texts, long = append(texts, a.Entry), append(long, a.Why)
	}
	if c := s.Core; c != nil {
		few = few && len(c.Seats) <= maxEntries && len(c.Ordered) <= maxEntries
		long, texts = append(long, c.Unfinished), append(texts, c.Ordered...)
		texts = append(texts, c.Mesh, c.Name, c.Version, c.Dropped)
		for _, seat := range c.Seats {
			few = few && len(seat.List) <= maxEntries
			texts = append(append(texts, seat.Entry, seat.ID, seat.Name, seat.Addr), seat.List...)
		}
	}
	if !few {
		return fmt.Errorf("%w: a list is too long", wire.ErrMalformed)
	}
	over := func(most int) func(string) bool { return func(text string) bool { return len(text) > most } }
	if slices.ContainsFunc(texts, over(maxString)) || slices.ContainsFunc(long, over(maxText)) {
		return fmt.Errorf("%w: a text is too long", wire.ErrMalformed)
	}
	return nil
}

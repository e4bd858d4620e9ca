package core

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// Ballot orders attempts to decide. The zero Ballot is below all others.
type Ballot struct {
	Round uint64
	By    transport.ID // the proposer
}

// Compare orders ballots by round, then by proposer.
func (b Ballot) Compare(o Ballot) int {
	return cmp.Or(cmp.Compare(b.Round, o.Round), cmp.Compare(b.By, o.By))
}

// Stamp names a decision: Roll is the ballot of the roll call that began the core's
// generation, and Version counts the decisions since, from 0, which is the roll call's own.
type Stamp struct {
	Roll    Ballot
	Version uint64
}

// Compare orders stamps by generation, then by version.
func (s Stamp) Compare(o Stamp) int {
	return cmp.Or(s.Roll.Compare(o.Roll), cmp.Compare(s.Version, o.Version))
}

// Next returns the stamp of the decision after s.
func (s Stamp) Next() Stamp { return Stamp{s.Roll, s.Version + 1} }

// Seat is the place of one entry in the core.
type Seat struct {
	Entry string
	Node  env.Member // the incarnation bound to it; ID zero: none yet, or it is vacant: see Vacate
	List  string     // that it was started with, or keeps where its next incarnation finds it: see named
	Ended bool       // by proof: Node has ended, and its seat waits for another incarnation. See End

	Unasked bool // the roll call that began this generation was short, and did not ask the incarnation that had the seat
}

// Vacant reports whether the incarnation that had the seat was silent: see [Table.Vacate]. It may live, and remember.
func (s *Seat) Vacant() bool { return s.Node.ID == 0 && s.List != "" }

// Generation names one life of a shard. Two of these have nothing in common but that the revisions of the later one
// are above those that are known of the earlier one. Two roll calls may count from the same number.
type Generation struct {
	Core   Ballot
	Number uint64
}

// Name returns a number that stands for the generation in messages. It is a hash: two generations of one shard
// have the same number with a probability of 2^-64.
func (g Generation) Name() uint64 {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 24), g.Core.Round)
	b = binary.BigEndian.AppendUint64(b, uint64(g.Core.By))
	return xxhash.Sum64(binary.BigEndian.AppendUint64(b, g.Number))
}

// Shard is what the core knows of one shard.
type Shard struct {
	Generation Generation
	Voters     []transport.ID // the configuration that counts now, sorted
	Next       []transport.ID // the one that the shard may change to; nil: none
	Move       uint64         // the number of the latest change of voters in this generation, from 1

	// What the generation's tables begin with, besides what holders report (C5, C8).
	Revision uint64        // the first
	Quiet    time.Duration // for how long they grant nothing, in table time
	Calm     bool          // by an operator's word they may grant before: see Table.Calm
}

// Table is what the core decides on, as a whole: each decision is a new Table. A Table is never
// changed once others may see it.
type Table struct {
	Stamp   Stamp
	Mesh    uint64 // the mesh's ID: random, never zero
	Founded uint64 // when the mesh was founded, as a revision: its founders' latest time of day, above all that they knew of
	Params  founding.Params
	Seats   []Seat // of the entries of the list, in its order
	Was     string // the list before the last change, see named
	Ordered string // the list that an operator wants, until all have it; "": none. See Order
	Shards  []Shard
	Dropped transport.ID // the last change of the list dropped its entry, and it is a voter still; zero: none
}

// named returns a list in one string.
func named(list []string) string { return strings.Join(list, " ") }

// Before reports whether t's mesh was founded before o's. Of two that live, the later one gives way (C10).
func (t *Table) Before(o *Table) bool {
	return cmp.Or(cmp.Compare(t.Founded, o.Founded), cmp.Compare(t.Mesh, o.Mesh)) < 0
}

// Meets reports whether two lists have an entry in common. Where they have none, neither mesh ends the other (C10).
func Meets(list, other []string) bool {
	return slices.ContainsFunc(list, func(e string) bool { return slices.Contains(other, e) })
}

// List returns the entries of the core.
func (t *Table) List() []string {
	list := make([]string, len(t.Seats))
	for i, s := range t.Seats {
		list[i] = s.Entry
	}
	return list
}

// Bound returns the incarnations that decide on the next version, sorted.
func (t *Table) Bound() []transport.ID {
	ids := make([]transport.ID, 0, len(t.Seats))
	for _, s := range t.Seats {
		if s.Node.ID != 0 {
			ids = append(ids, s.Node.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Living returns those of the bound that are not known to have ended, sorted: who may vote in a shard.
func (t *Table) Living() []transport.ID {
	ended := func(id transport.ID) bool {
		return slices.ContainsFunc(t.Seats, func(s Seat) bool { return s.Node.ID == id && s.Ended })
	}
	return slices.DeleteFunc(t.Bound(), ended)
}

// Majority returns how many of n are more than half.
func Majority(n int) int { return n/2 + 1 }

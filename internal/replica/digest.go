package replica

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// Replicas that have applied the same entries have equal tables, unless there is a bug or a
// fault of memory. So they compare digests now and then, and what most voters have counts (P41).

// Sum is a voter's message to its leader: its table's digest after the entry at Index.
type Sum struct {
	Generation uint64
	From, To   uint64
	Index      uint64
	Digest     uint64
}

const (
	checkedEntries = 4096 // replicas compare their tables this often (P41)

	// maxSums is how many digests a replica keeps: leader and followers must have one of the same
	// entry, however far they are apart.
	maxSums = 16
)

// errDiverged: this replica's table differs from that of most voters.
var errDiverged = errors.New("replica: the replica's table differs from that of most voters")

// checksum is the table's digest after an entry.
type checksum struct{ index, digest uint64 }

// sums is what a replica knows of its own table.
type sums struct {
	kept    []checksum    // that no Check was applied for, the latest last
	checked uint64        // the entry that the latest applied Check is for
	fresh   bool          // the leader is to hear of the latest
	told    time.Duration // when it last was told of one
}

// add takes the table's digest after an entry that was just applied.
func (s *sums) add(index, digest uint64) {
	s.kept = append(s.kept, checksum{index, digest})
	s.kept = s.kept[max(0, len(s.kept)-maxSums):]
	s.fresh = true
}

// check takes a Check that counts. It reports whether the replica's own table is like that.
func (s *sums) check(c shard.Check) bool {
	if s.contradict(checksum{c.Index, c.Digest}) {
		return false
	}
	s.checked = max(s.checked, c.Index)
	s.kept = slices.DeleteFunc(s.kept, func(own checksum) bool { return own.index <= s.checked })
	return true
}

// contradict reports whether the replica's own table had another digest after that entry.
func (s *sums) contradict(other checksum) bool {
	return slices.ContainsFunc(s.kept, func(own checksum) bool { return own.index == other.index && own.digest != other.digest })
}

// overdue reports whether the leader is to hear again of a digest that no Check was applied for: the first
// Sum may be lost, or was for another leader.
func (s *sums) overdue(now time.Duration) bool {
	return len(s.kept) > 0 && now-s.told >= ElectionTimeout
}

// comparison is what a leader knows of the voters' tables.
type comparison struct {
	words   map[uint64]checksum // replica ID -> what it said last of its table
	checked uint64              // the entry that this leader's last Check is for
	doubted uint64              // the entry after which two tables were last seen to differ
}

// Fields is the digest's wire form, five elements.
func (s *Sum) Fields(c *wire.Codec) {
	c.Uint(&s.Generation, math.MaxUint64)
	ReplicaID(c, &s.From)
	ReplicaID(c, &s.To)
	c.Uint(&s.Index, math.MaxUint64)
	c.Uint(&s.Digest, math.MaxUint64)
}

// addSum takes the table's digest after the entry that was just applied.
func (r *Replica) addSum() {
	r.sums.add(r.applied.index, r.table.Digest())
	r.compare()
}

// hearSum handles what a voter says of its table.
func (r *Replica) hearSum(node uint64, s Sum) {
	p, known := r.Peer(s.From)
	if !r.Serving() || s.Generation != r.cfg.Generation || s.To != r.cfg.ID || !known || p.Node != node {
		return
	}
	r.leading.comparison.words[s.From] = checksum{s.Index, s.Digest}
	r.compare()
}

// compare looks whether most voters have told of a digest like this leader's, or of another one. In the
// first case it logs a Check, by which a replica that differs stops itself; in the second this leader stops.
// While neither is so, no replica stops: nothing tells which of two tables is right, and without
// either voter there may be no majority for anything. What was found once is not found again.
func (r *Replica) compare() {
	if !r.Serving() {
		return
	}
	c := &r.leading.comparison
	for _, sum := range r.sums.kept {
		if sum.index <= max(c.checked, r.sums.checked) {
			continue
		}
		if r.mostHave(sum) {
			c.checked = sum.index
			r.appendOwn(shard.Check{Index: sum.index, Digest: sum.digest, Term: r.term})
			continue
		}
		for _, id := range r.members.voters() {
			switch w := c.words[id]; {
			case w.index != sum.index || w.digest == sum.digest:
			case r.mostHave(w):
				r.Fail(errDiverged)
				return
			case c.doubted < sum.index:
				c.doubted = sum.index
				r.log.Error("two replicas have different tables, and there is no majority for either", "entry", sum.index, "other", id)
			}
		}
	}
}

// mostHave reports whether a majority of the voters, this leader among them, has that digest,
// by the configuration before as well as by the one to come.
func (r *Replica) mostHave(sum checksum) bool {
	return r.members.agree(func(id uint64) bool {
		if id == r.cfg.ID {
			return slices.Contains(r.sums.kept, sum)
		}
		return r.leading.comparison.words[id] == sum
	})
}

// doubted reports whether replica id has told this leader of another table than the leader's.
func (r *Replica) doubted(id uint64) bool { return r.sums.contradict(r.leading.comparison.words[id]) }

// tellSum tells the leader of the latest digest, if that is due.
func (r *Replica) tellSum(out *Output) {
	leader, known := r.Leader()
	if !known || r.lead == r.cfg.ID || !r.members.votes(r.cfg.ID) {
		return
	}
	if !r.sums.fresh || len(r.sums.kept) == 0 {
		return
	}
	r.sums.fresh, r.sums.told = false, r.now
	latest := r.sums.kept[len(r.sums.kept)-1]
	out.send(leader.Node, &Sum{
		Generation: r.cfg.Generation, From: r.cfg.ID, To: r.lead, Index: latest.index, Digest: latest.digest,
	})
}

// Corrupt makes the table differ from those of the other replicas: see Table.Corrupt.
func (r *Replica) Corrupt() { r.table.Corrupt() }

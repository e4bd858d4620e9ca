package replica

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// Replicas that have applied the same entries have equal tables, unless there is a bug or a
// fault of memory. So they compare digests now and then, and what most voters have counts (P41).

// Sum is a voter's word to its leader: its table's digest after the entry at Index.
type Sum struct {
	Node       uint64 // where it goes; not on the wire
	Generation uint64
	From, To   uint64
	Index      uint64
	Digest     uint64
}

// checksum is the table's digest after an entry.
type checksum struct{ index, digest uint64 }

// sums is what a replica knows of its own table.
type sums struct {
	kept    []checksum    // that no Check was applied for, the latest last
	checked uint64        // the entry that the latest applied Check is for
	due     bool          // the leader is to hear of the latest
	told    time.Duration // when it last was told
}

// maxSums is how many digests a replica keeps: leader and followers must have one of the same
// entry, however far they are apart.
const maxSums = 16

// errDiverged: this replica's table differs from that of most voters.
var errDiverged = errors.New("replica: the replica's table differs from that of most voters")

// sum takes the table's digest after the entry that was just applied.
func (r *Replica) sum() {
	s := &r.sums
	s.kept = append(s.kept, checksum{r.applied, r.table.Digest()})
	s.kept = s.kept[max(0, len(s.kept)-maxSums):]
	s.due = true
	if r.cfg.Bugs.Has(bug.LeaderIsRight) && r.reign.serving {
		r.office(shard.Check{Index: r.applied, Digest: r.table.Digest(), Term: r.term})
		return
	}
	r.compare()
}

// StepSum takes a voter's word on its table.
func (r *Replica) StepSum(now time.Duration, node uint64, s Sum) {
	r.now = now
	p, known := r.peers[s.From]
	if !r.reign.serving || s.Generation != r.cfg.Generation || s.To != r.cfg.ID || !known || p.Node != node {
		return
	}
	r.reign.words[s.From] = checksum{s.Index, s.Digest}
	r.compare()
}

// compare looks whether most voters have told of a digest like this leader's, and logs a
// Check then: who differs from it stops itself. If most have another one, this leader does.
// While neither is so, nobody does: of two tables nothing tells which is the right one, and
// without either voter there may be no majority for anything.
func (r *Replica) compare() {
	g := &r.reign
	if !g.serving || r.cfg.Bugs.Has(bug.LeaderIsRight) {
		return
	}
	for _, own := range r.sums.kept {
		if own.index <= max(g.checked, r.sums.checked) {
			continue
		}
		if r.mostHave(own) {
			g.checked = own.index
			r.office(shard.Check{Index: own.index, Digest: own.digest, Term: r.term})
			continue
		}
		for _, id := range r.Voters() {
			w := g.words[id]
			if w.index != own.index || w.digest == own.digest {
				continue
			}
			if r.mostHave(w) {
				r.stop(errDiverged)
				return
			}
			if g.doubted < own.index {
				g.doubted = own.index
				r.log.Error("two replicas have different tables, and there is no majority for either", "entry", own.index, "other", id)
			}
		}
	}
}

// mostHave reports whether a majority of the voters, this leader among them, has that digest,
// by the configuration before as well as by the one to come.
func (r *Replica) mostHave(sum checksum) bool {
	has := func(id uint64) bool {
		if id == r.cfg.ID {
			return slices.Contains(r.sums.kept, sum)
		}
		return r.reign.words[id] == sum
	}
	return majority(r.conf.Voters, has) && majority(r.conf.VotersOutgoing, has)
}

// doubted reports whether replica id has told this leader of another table than the leader's.
func (r *Replica) doubted(id uint64) bool {
	w := r.reign.words[id]
	return slices.ContainsFunc(r.sums.kept, func(s checksum) bool { return s.index == w.index && s.digest != w.digest })
}

// checked takes a Check that counts. It reports whether the replica's own table is like that.
func (r *Replica) checked(c shard.Check) bool {
	s := &r.sums
	if slices.ContainsFunc(s.kept, func(own checksum) bool { return own.index == c.Index && own.digest != c.Digest }) {
		return false
	}
	s.checked = max(s.checked, c.Index)
	s.kept = slices.DeleteFunc(s.kept, func(own checksum) bool { return own.index <= s.checked })
	return true
}

// sumTick sees to it that the leader hears again of a digest that no Check was applied for:
// the first word may be lost, or was for another leader.
func (r *Replica) sumTick() {
	if s := &r.sums; r.lead != 0 && len(s.kept) > 0 && r.now-s.told >= ElectionTimeout {
		s.due, r.dirty = true, true
	}
}

// tellSum tells the leader of the latest digest, if that is due.
func (r *Replica) tellSum(out *Output) {
	leader, known := r.Leader()
	if s := &r.sums; s.due && known && r.lead != r.cfg.ID && len(s.kept) > 0 && r.mayVote(r.cfg.ID) {
		s.due, s.told = false, r.now
		last := s.kept[len(s.kept)-1]
		out.Sums = append(out.Sums, Sum{
			Node: leader.Node, Generation: r.cfg.Generation, From: r.cfg.ID, To: r.lead, Index: last.index, Digest: last.digest,
		})
	}
}

// Corrupt makes the table differ from those of the other replicas: see Table.Corrupt.
func (r *Replica) Corrupt() { r.table.Corrupt() }

// Fields is the digest's wire form, five elements.
func (s *Sum) Fields(c *wire.Codec) {
	c.Uint(&s.Generation, math.MaxUint64)
	ReplicaID(c, &s.From)
	ReplicaID(c, &s.To)
	c.Uint(&s.Index, math.MaxUint64)
	c.Uint(&s.Digest, math.MaxUint64)
}

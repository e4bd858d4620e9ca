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
	due     bool          // the leader is to hear of the latest
	told    time.Duration // when it last was told
}

// add takes the table's digest after an entry that was just applied.
func (s *sums) add(index, digest uint64) {
	s.kept = append(s.kept, checksum{index, digest})
	s.kept = s.kept[max(0, len(s.kept)-maxSums):]
	s.due = true
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

// remind makes the leader hear again of a digest that no Check was applied for, and reports
// whether there is one: the first Sum may be lost, or was for another leader.
func (s *sums) remind(now time.Duration) bool {
	if len(s.kept) == 0 || now-s.told < ElectionTimeout {
		return false
	}
	s.due = true
	return true
}

// tell returns the digest that the leader is to hear of, if one is due.
func (s *sums) tell(now time.Duration) (latest checksum, due bool) {
	if !s.due || len(s.kept) == 0 {
		return checksum{}, false
	}
	s.due, s.told = false, now
	return s.kept[len(s.kept)-1], true
}

// comparison is what a leader knows of the voters' tables.
type comparison struct {
	words   map[uint64]checksum // replica ID -> what it said last of its table
	checked uint64              // the entry that this leader's last Check is for
	doubted uint64              // the entry after which two tables were last seen to differ
}

func newComparison() comparison { return comparison{words: make(map[uint64]checksum)} }

// hear handles what a voter says of its table.
func (c *comparison) hear(id uint64, sum checksum) { c.words[id] = sum }

// contradicts reports whether replica id has told of another table than the leader's.
func (c *comparison) contradicts(id uint64, own *sums) bool { return own.contradict(c.words[id]) }

// findings is what a comparison came to.
type findings struct {
	checks   []checksum // most voters have these: a replica that differs is to stop
	doubts   []doubt    // two tables differ, and there is no majority for either
	diverged bool       // most voters have another table than this leader
}

// doubt is an entry after which replica other had another table than this leader.
type doubt struct{ entry, other uint64 }

// compare looks whether most voters have told of a digest like this leader's, or of another one.
// While neither is so, no replica stops: nothing tells which of two tables is right, and without
// either voter there may be no majority for anything. What was found once is not found again.
func (c *comparison) compare(own *sums, m *members) (f findings) {
	for _, sum := range own.kept {
		if sum.index <= max(c.checked, own.checked) {
			continue
		}
		if c.mostHave(sum, own, m) {
			c.checked = sum.index
			f.checks = append(f.checks, sum)
			continue
		}
		for _, id := range m.voters() {
			w := c.words[id]
			if w.index != sum.index || w.digest == sum.digest {
				continue
			}
			if c.mostHave(w, own, m) {
				f.diverged = true
				return f
			}
			if c.doubted < sum.index {
				c.doubted = sum.index
				f.doubts = append(f.doubts, doubt{sum.index, id})
			}
		}
	}
	return f
}

// mostHave reports whether a majority of the voters, this leader among them, has that digest,
// by the configuration before as well as by the one to come.
func (c *comparison) mostHave(sum checksum, own *sums, m *members) bool {
	return m.agree(func(id uint64) bool {
		if id == m.self {
			return slices.Contains(own.kept, sum)
		}
		return c.words[id] == sum
	})
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
	r.sums.add(r.applied.last(), r.table.Digest())
	r.compare()
}

// hearSum handles what a voter says of its table.
func (r *Replica) hearSum(node uint64, s Sum) {
	p, known := r.Peer(s.From)
	if !r.Serving() || s.Generation != r.cfg.Generation || s.To != r.cfg.ID || !known || p.Node != node {
		return
	}
	r.leading.comparison.hear(s.From, checksum{s.Index, s.Digest})
	r.compare()
}

// compare logs a Check if most voters have this leader's table: a replica that differs stops itself. If
// most have another one, this leader stops.
func (r *Replica) compare() {
	if !r.Serving() {
		return
	}
	found := r.leading.comparison.compare(&r.sums, &r.members)
	for _, c := range found.checks {
		r.appendOwn(shard.Check{Index: c.index, Digest: c.digest, Term: r.term})
	}
	for _, d := range found.doubts {
		r.log.Error("two replicas have different tables, and there is no majority for either", "entry", d.entry, "other", d.other)
	}
	if found.diverged {
		r.stop(errDiverged)
	}
}

// tellSum tells the leader of the latest digest, if that is due.
func (r *Replica) tellSum(out *Output) {
	leader, known := r.Leader()
	if !known || r.lead == r.cfg.ID || !r.members.votes(r.cfg.ID) {
		return
	}
	if sum, due := r.sums.tell(r.now); due {
		out.send(leader.Node, &Sum{
			Generation: r.cfg.Generation, From: r.cfg.ID, To: r.lead, Index: sum.index, Digest: sum.digest,
		})
	}
}

// Corrupt makes the table differ from those of the other replicas: see Table.Corrupt.
func (r *Replica) Corrupt() { r.table.Corrupt() }

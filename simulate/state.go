package simulate

import (
	"fmt"

	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/transport"
)

// state checks that replicas which have applied the same entries have the same tables:
// after each entry by the digest of what happened, and at the end by all that they hold.
type state struct {
	world  *World
	recent map[shardName]*digests // looked up, never ranged over
}

// digests are the latest of one shard, at their index modulo the length.
type digests [1024]struct {
	index, digest uint64
	replica       transport.ID
}

func (s *state) applied(name shardName, a seam.Applied) {
	r := s.recent[name]
	if r == nil {
		r = new(digests)
		s.recent[name] = r
	}
	switch d := &r[a.Index%uint64(len(r))]; {
	case d.index < a.Index:
		d.index, d.digest, d.replica = a.Index, a.Digest, a.Replica
	case d.index == a.Index && d.digest != a.Digest:
		s.world.Fail(fmt.Errorf("G1 replicas: after entry %d of shard %d, the table on %s differs from the one on %s",
			a.Index, a.Shard, s.world.hostOf(a.Replica), s.world.hostOf(d.replica)))
	}
}

// equal compares what the replicas that live have now, as far as they have applied the
// same entries.
func (s *state) equal() error {
	type version struct {
		shardName
		applied uint64
	}
	type copyOf struct {
		sum  uint64
		host string
	}
	first := make(map[version]copyOf)
	for _, h := range s.world.Hosts() {
		if h.process == nil {
			continue
		}
		for _, n := range h.process.nodes {
			for _, t := range n.node.Tables() {
				v := version{shardName{n.node.Mesh(), t.Generation, t.Shard}, t.Applied}
				c, ok := first[v]
				if !ok {
					first[v] = copyOf{t.Sum(), h.name}
				} else if c.sum != t.Sum() {
					return fmt.Errorf("G1 replicas: at entry %d of shard %d, the table on %s is not like the one on %s", t.Applied, t.Shard, h.name, c.host)
				}
			}
		}
	}
	return nil
}

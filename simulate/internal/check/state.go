package check

import (
	"fmt"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// state checks that replicas which have applied the same entries have the same tables:
// after each entry by the digest of what happened, and at the end by all that they hold. And
// that an entry is told only to those that asked, or are granted something by it.
type state struct {
	world  World
	recent map[ShardName]*digests // looked up, never ranged over
	astray map[tableName]bool     // those that a test has corrupted, until they stop: looked up, never ranged over
}

// tableName names the table that a node has of a shard.
type tableName struct {
	node  transport.ID
	shard int
}

// digests are the latest of one shard, at their index modulo the length.
type digests [1024]struct {
	index, digest uint64
	replica       transport.ID
}

// stepped (G3): what comes of a command is told only to the request that it answers, and to those that it lets in;
// and to those whose places in an earlier table do not go together with one that is reported (C8), and to those that can never be let in once a semaphore is smaller.
func (s *state) stepped(name ShardName, node transport.ID, c env.Stepped) {
	reports, resizes := false, false
	switch shard.Bare(c.Command).(type) {
	case shard.Report, shard.Settle, shard.Calm:
		reports = true
	case shard.Resize:
		resizes = true
	}
	client, number := shard.ClientOf(c.Command)
	answered, others := false, 0
	for _, e := range c.Told {
		switch {
		case !e.Answers() || e.What == shard.Granted || reports && e.What == shard.Refused:
		case e.What == shard.Skipped || e.What == shard.Refused && (e.Reason == shard.InUse || e.Reason == shard.Failed): // it waited for an operation, and that is over (P39)
		case resizes && e.What == shard.Refused && e.Reason == shard.Capacity: // it waits for more than there is now (P38)
		case e.Session == client && e.Number == number && !answered:
			answered = true
		default:
			others++
		}
	}
	if others > 0 {
		s.world.Fail(fmt.Errorf("G3 wake: at entry %d of shard %d, %s tells %d who wait for nothing new",
			c.Index, name.Shard, HostOf(s.world, node), others))
	}
}

func (s *state) applied(name ShardName, node transport.ID, a env.Applied) {
	if s.astray[tableName{node, name.Shard}] {
		return
	}
	r := s.recent[name]
	if r == nil {
		r = new(digests)
		s.recent[name] = r
	}
	switch d := &r[a.Index%uint64(len(r))]; {
	case d.index < a.Index:
		d.index, d.digest, d.replica = a.Index, a.Digest, node
	case d.index == a.Index && d.digest != a.Digest:
		s.world.Fail(fmt.Errorf("G1 replicas: after entry %d of shard %d, the table on %s differs from the one on %s",
			a.Index, name.Shard, HostOf(s.world, node), HostOf(s.world, d.replica)))
	}
}

// equal compares what the replicas that live have now, as far as they have applied the
// same entries.
func (s *state) equal() error {
	type version struct {
		ShardName
		applied uint64
	}
	type copyOf struct {
		sum  uint64
		host string
	}
	first := make(map[version]copyOf)
	for n, r := range replicas(s.world) {
		v, host := version{shardOf(n, r), r.Applied}, HostOf(s.world, n.ID)
		c, ok := first[v]
		if !ok {
			first[v] = copyOf{r.Sum(), host}
		} else if c.sum != r.Sum() {
			return fmt.Errorf("G1 replicas: at entry %d of shard %d, the table on %s is not like the one on %s", r.Applied, r.Shard, host, c.host)
		}
	}
	return nil
}

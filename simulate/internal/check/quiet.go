package check

import (
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// appeased (C5): an operator has said that, of the holds that an earlier table granted, nobody believes in any but those that were
// reported to this one. So the leases of beliefs that have ended protect them no longer. What is believed in still counts as before:
// if there is such a hold, the operator's word is false, and [History.checkExclusion] says what it leads to.
func (o *Observer) appeased(name ShardName, node transport.ID, c env.Stepped) {
	if _, ends := shard.Bare(c.Command).(shard.Calm); !ends || o.calm[name] || o.queue.lives[name.Shard] != name {
		return
	}
	n, runs := nodeOf(o.world, node)
	if !runs {
		return // it does not know any more how many shards there are: another replica tells of it as well
	}
	o.calm[name] = true
	shards := len(n.Generations())
	for _, k := range o.h.order {
		if len(k.lapsed) == 0 || ring.Shard(k.key, shards) != name.Shard {
			continue
		}
		k.lapsed = slices.DeleteFunc(k.lapsed, func(x *Hold) bool { return !o.queue.grants(name, k.key, x.token) })
	}
}

// grants reports whether a table has granted a hold of the key with this token, or was told of it, and it has not ended there.
func (f *fifo) grants(name ShardName, key string, token uint64) bool {
	k := f.keys[shardKey{name, key}]
	if k == nil {
		return false
	}
	for _, g := range k.held { // order-free: one is enough
		if g.token == token {
			return true
		}
	}
	return false
}

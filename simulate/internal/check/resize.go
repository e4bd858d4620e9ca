package check

import (
	"fmt"
	"slices"

	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// resizing is one call for another capacity of a semaphore (P38).
type resizing struct{ from, to int64 }

// Resizes implements env.Clients.
func (h clients) Resizes(_ transport.ID, key string, from, to int64) {
	k := h.key(key)
	k.resizes = append(k.resizes, resizing{from, to})
}

// sizeOf returns of which capacity a hold was granted: all that was held then fitted into that. Callers may name another one.
func (k *keyHistory) sizeOf(x *Hold) int64 {
	if size := k.sizes[x.token]; size != 0 {
		return size
	}
	return x.call.want.Capacity
}

// excludes reports whether a hold has all of its key, so that no other one is held beside it. What is all of a semaphore that was resized is not
// known to its holders.
func (x *Hold) excludes() bool {
	return x.weight() == x.call.want.Capacity && len(x.key.resizes) == 0
}

// sized judges the capacity that a table counts by (G1): as long as the key is in use, it is the one that it had, but for a Resize that somebody
// has called for, and that compares; and but for reports to a table that grants nothing yet, which may make it smaller (C8).
func (f *fifo) sized(name ShardName, k *keyQueue, r requestName, d shard.Decision) {
	if d.Kind != shard.Semaphore {
		return
	}
	used := len(k.place)+len(k.held) > 0
	switch d.What {
	case shard.Resized:
		called := f.h.keys[d.Key]
		if d.From != k.capacity || called == nil || !slices.Contains(called.resizes, resizing{d.From, d.Capacity}) {
			f.world.Fail(fmt.Errorf("P38 resize: shard %d changes the capacity of %q from %d to %d for %s, and it was %d, or nobody has called for that",
				name.Shard, d.Key, d.From, d.Capacity, f.named(r), k.capacity))
		}
		k.capacity = d.Capacity
	case shard.Entered, shard.Resumed, shard.Admitted, shard.Declined:
		reported := d.Reported && d.What != shard.Admitted && d.Capacity < k.capacity
		if used && d.Capacity != k.capacity && !reported {
			f.world.Fail(fmt.Errorf("G1 capacity: shard %d counts %d of %q, and it was %d, when %s %s", name.Shard, d.Capacity, d.Key, k.capacity, f.named(r), verbs[d.What]))
		}
		k.capacity = d.Capacity
	}
	if c := f.h.keys[d.Key]; c != nil && d.What == shard.Admitted {
		if c.sizes == nil {
			c.sizes = make(map[uint64]int64)
		}
		c.sizes[d.Token] = d.Capacity
	}
}

// room is into what all that is held must fit: the capacity of which the last of it was granted. A table that resumes a hold may have heard of a smaller one
// since.
func (f *fifo) room(k *keyQueue, d shard.Decision) int64 {
	c := f.h.keys[d.Key]
	if d.What != shard.Resumed || d.Kind != shard.Semaphore || c == nil {
		return d.Capacity
	}
	last := uint64(0)
	for _, g := range k.held { // order-free: the highest is sought
		last = max(last, g.token)
	}
	if size := c.sizes[last]; size != 0 {
		return size
	}
	return d.Capacity
}

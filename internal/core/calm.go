package core

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// ErrRevived: a shard has begun another generation than the one that was spoken of.
var ErrRevived = errors.New("a shard has begun another generation")

// errCalm: no shard need be quiet.
var errCalm = errors.New("no shard need be quiet")

// Era returns a number that stands for the generations of all shards: a hash, as [Generation.Name].
func (t *Table) Era() uint64 {
	b := make([]byte, 0, 8*len(t.Shards))
	for _, s := range t.Shards {
		b = binary.BigEndian.AppendUint64(b, s.Generation.Name())
	}
	return xxhash.Sum64(b)
}

// Calm notes an operator's word: of what an earlier mesh or generation granted, nothing is believed in any more but what
// holders have reported. So the shards need not be quiet any longer. The word was said of the generations that Era
// names, of no later one: one that begins afterwards does so because its shard was lost meanwhile, and its holders live.
func (t *Table) Calm(era uint64) (*Table, error) {
	switch {
	case t.Era() != era:
		return nil, ErrRevived
	case !slices.ContainsFunc(t.Shards, func(s Shard) bool { return s.Quiet > 0 && !s.Calm }):
		return nil, errCalm
	}
	n := t.next()
	for i := range n.Shards {
		n.Shards[i].Calm = true
	}
	return n, nil
}

package story

import (
	"slices"

	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/transport"
)

// ledger is what the shards' tables say of each key: the first replica to apply an
// entry tells.
type ledger struct {
	told map[decided]bool
	keys map[string]*standing // looked up, never ranged over
}

type decided struct {
	shard      int
	generation uint64
	revision   uint64
	what       seam.DecisionKind
	by         place
}

// place is a request's: who asked, and which request of theirs it is.
type place struct {
	owner            transport.ID
	session, request uint64
}

// standing is who holds a key, and who waits, in that order.
type standing struct{ holders, queue []place }

func newLedger() *ledger {
	return &ledger{told: make(map[decided]bool), keys: make(map[string]*standing)}
}

// Decided implements seam.Decider: most decisions are told once by each replica.
func (l *ledger) Decided(d seam.Decision) {
	p := place{d.Owner, d.Session, d.Request}
	name := decided{d.Shard, d.Generation, d.Revision, d.What, p}
	if l.told[name] {
		return
	}
	l.told[name] = true
	k := l.keys[d.Key]
	if k == nil {
		k = &standing{}
		l.keys[d.Key] = k
	}
	drop := func(list []place) []place {
		return slices.DeleteFunc(list, func(q place) bool { return q == p })
	}
	switch d.What {
	case seam.Queued:
		k.queue = append(k.queue, p)
	case seam.Granted:
		k.queue = drop(k.queue)
		k.holders = append(k.holders, p)
	case seam.Released:
		k.holders = drop(k.holders)
	case seam.Dropped:
		k.queue = drop(k.queue)
	}
}

// of returns who holds a key and who waits, by host.
func (t *teller) table(key string) (holders, queue []string) {
	k := t.stage.mesh.keys[t.plan.key(key)]
	if k == nil {
		return nil, nil
	}
	names := func(list []place) (hosts []string) {
		for _, p := range list {
			name := t.ids[uint64(p.owner)]
			if name == "" {
				name = "somebody"
			}
			hosts = append(hosts, name)
		}
		return hosts
	}
	return names(k.holders), names(k.queue)
}

package shard

import (
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/lockmesh/mesh/internal/wire"
)

// Sum is a hash over everything in the table: equal on all replicas that have applied
// the same entries, including replicas that were restored from a snapshot. Unlike
// Digest it visits each key and session, so it is for tests.
func (t *Table) Sum() uint64 {
	b := make([]byte, 0, 4096)
	for _, s := range t.ordered() {
		b = appendRecord(b, s)
	}
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		b = appendImage(b, imageEntry, &entryImage{entry: t.keys[key]})
	}
	return xxhash.Sum64(wire.Append(b, (*header)(t)))
}

// Corrupt changes the table's digest, as a memory fault would. It is for simulations.
func (t *Table) Corrupt() { t.digest = mix(t.digest, 1) }

// Record is the state of one session.
type Record struct {
	Session  SessionID
	Requests []Place
}

// Place is a request that waits for a key or holds it, or a use of a resource.
type Place struct {
	Key   string
	Token uint64 // zero while it waits; of a use, its stamp
	Uses  bool
}

// Records returns all sessions' records in the order of their IDs.
func (t *Table) Records() []Record {
	var all []Record
	for _, s := range t.ordered() {
		rec := Record{Session: s.id}
		for _, r := range s.requestsInOrder() {
			rec.Requests = append(rec.Requests, Place{Key: r.entry.key, Token: r.token})
		}
		for _, u := range s.usesInOrder() {
			rec.Requests = append(rec.Requests, Place{u.entry.key, u.stamp, true})
		}
		all = append(all, rec)
	}
	return all
}

// ordered returns the records in the order of their IDs.
func (t *Table) ordered() []*session {
	all := make([]*session, 0, len(t.sessions))
	for s := t.records.first(); s != nil; s = s.place.next() {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *session) int { return a.id.Compare(b.id) })
	return all
}

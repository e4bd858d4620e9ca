package shard

import "github.com/lockmesh/mesh/internal/wire"

// Downgrade makes the writer's hold that Token names a reader's, under the same token, and lets the readers in that are at the head of
// the queue (P47). It is Done if the session holds the key as a reader afterwards, also if it did before.
type Downgrade struct {
	Call
	Key   string
	Token uint64
}

func (Downgrade) number() uint64 { return wireDowngrade }

// downgrade carries out a Downgrade.
func (t *Table) downgrade(c Downgrade, out []Event) []Event {
	s, out := t.begin(c.Call, nil, out)
	if s == nil {
		return out
	}
	r := s.holds[c.Token]
	if r == nil || r.entry.key != c.Key || r.entry.kind != RW {
		return append(out, t.refused(s, c.Number, Lost, nil))
	}
	if r.broken() {
		return t.isBroken(s, c.Number, r.token, out)
	}
	out = append(out, s.done(c.Number))
	t.lessen(r, 1)
	return t.grant(r.entry, out)
}

// lessen leaves a hold so much of its key. The caller then grants.
func (t *Table) lessen(r *request, weight int64) {
	if weight >= r.weight {
		return
	}
	t.keepEntry(r.entry)
	r.entry.taken -= r.weight - weight
	r.weight = weight
	t.report(Lessened, r)
}

func (a *Downgrade) fields(c *wire.Codec) {
	a.Call.fields(c)
	key(c, &a.Key)
	c.Uint(&a.Token, anyUint)
}

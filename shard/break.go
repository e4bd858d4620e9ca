package shard

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// An operator may break a grant (P49). Its session is told so with each answer to a renewal, and stops. The key is free when the session
// gives the grant back, or when the shard's leader has waited for a whole lease: by then nobody believes in the grant.
//
// A session's record has its breaches until the session gives the grants back, also those that are free by then: an answer that says nothing of one
// would extend the belief in it, however late it comes.

// Limits of a Break.
const (
	MaxWhy    = 255 // bytes of the reason that an operator names
	MaxBroken = 64  // grants of one session that are broken, and that it has not given back
)

// Break breaks the grant of Key that Token names. It is Done also if that is broken already. Refused with Lost: nobody holds the key under
// this token; with Quiet: nobody has reported it so far, and the table grants nothing yet; with Crowded: its session has MaxBroken others. It
// opens the record of the session that sends it.
type Break struct {
	Call
	TTL   time.Duration // of the session
	Name  string        // of the client's node
	Key   string
	Token uint64
	Why   string // for logs
}

// Free frees a broken grant that its session has not given back for a whole lease. It is a leader's.
type Free struct {
	Key   string
	Token uint64
	Term  uint64
}

func (Break) number() uint64 { return wireBreak }
func (Free) number() uint64  { return wireFree }

// Breach is a grant that is broken, and that its session has not given back.
type Breach struct {
	Key   string
	Token uint64
}

// breach is a Breach in a session's record.
type breach struct {
	Breach
	number uint64 // of the request; zero: another session has made it, and it is over
}

// Broken is what a leader must know of a broken grant that is not free.
type Broken struct {
	Breach
	Session SessionID
	TTL     time.Duration // of its session: so long it may be believed in
	Fixed   bool          // it ends with its session's lease, which nothing extends
}

// breach returns the place of a token in the breaches of s, which are in the order of their tokens, and whether it is there.
func (s *session) breach(token uint64) (i int, broken bool) {
	return slices.BinarySearchFunc(s.broken, token, func(b breach, token uint64) int { return cmp.Compare(b.Token, token) })
}

// broken reports whether the grant is broken.
func (r *request) broken() bool {
	if r.token == 0 {
		return false
	}
	_, broken := r.session.breach(r.token)
	return broken
}

// mend forgets the breach of a grant that the session has given back, and reports whether there was one.
func (t *Table) mend(s *session, token uint64) bool {
	i, broken := s.breach(token)
	if broken {
		t.keepSession(s)
		s.broken = slices.Delete(s.broken, i, i+1)
	}
	return broken
}

// holder returns who holds the key under a token, or nil.
func (t *Table) holder(key string, token uint64) *request {
	if e := t.keys[key]; e != nil {
		for r := e.holders.first(); r != nil; r = r.place.next() {
			if r.token == token {
				return r
			}
		}
	}
	return nil
}

// breaks carries out a Break.
func (t *Table) breaks(c Break, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	r := t.holder(c.Key, c.Token)
	switch {
	case r == nil && t.settles != 0:
		return append(out, t.refused(s, c.Number, Quiet, nil))
	case r == nil:
		return append(out, t.refused(s, c.Number, Lost, nil))
	case !r.broken() && len(r.session.broken) >= MaxBroken:
		return append(out, t.refused(s, c.Number, Crowded, nil))
	}
	out = append(out, s.done(c.Number))
	if r.broken() {
		return out
	}
	holder := r.session
	t.keepSession(holder)
	i, _ := holder.breach(r.token)
	holder.broken = slices.Insert(holder.broken, i, breach{Breach{c.Key, r.token}, r.number})
	if _, unknown := holder.results[r.number]; unknown {
		holder.results[r.number] = result{what: Refused, token: r.token, refused: Broke} // that it was granted comes too late
	}
	t.report(BrokenUp, r)
	return append(out, Event{What: Breached, Session: holder.id, Key: c.Key, Token: r.token, Holder: holder.name})
}

// free carries out a Free.
func (t *Table) free(c Free, out []Event) []Event {
	r := t.holder(c.Key, c.Token)
	if r == nil || !r.broken() || !t.isCurrentTerm(c.Term) {
		return out
	}
	r.session.ended(r, result{what: Refused, token: r.token, refused: Broke})
	t.fails(r)
	return t.drop(r, out)
}

// isBroken answers a command about a grant that is broken, and is not to be what it asks for.
func (t *Table) isBroken(s *session, number, token uint64, out []Event) []Event {
	t.keepSession(s)
	s.results[number] = result{what: Refused, token: token, refused: Broke}
	return append(out, t.resultOf(s, number))
}

// Broken returns the grants that are broken and not free, in the order of their sessions and tokens.
func (t *Table) Broken() (all []Broken) {
	for _, s := range t.ordered() {
		for _, b := range s.broken {
			if r := s.holds[b.Token]; r != nil {
				all = append(all, Broken{b.Breach, s.id, s.ttl, s.fixed})
			}
		}
	}
	return all
}

// StillBroken returns what a leader must know of a broken grant, unless it is free.
func (t *Table) StillBroken(b Breach) (now Broken, still bool) {
	r := t.holder(b.Key, b.Token)
	if r == nil || !r.broken() {
		return Broken{}, false
	}
	return Broken{b, r.session.id, r.session.ttl, r.session.fixed}, true
}

// Breaches returns the breaches of a session, in the order of their tokens.
func (t *Table) Breaches(id SessionID) (all []Breach) {
	if s := t.sessions[id]; s != nil {
		for _, b := range s.broken {
			all = append(all, b.Breach)
		}
	}
	return all
}

// takeBreaches gives s the breaches of was, whose requests it has taken over (P42). The guest may believe in them still, also in those that are free.
func (s *session) takeBreaches(was *session) {
	s.broken = was.broken
	was.broken = nil
	for i := range s.broken {
		b := &s.broken[i]
		if b.number = 0; s.holds[b.Token] != nil {
			b.number = s.holds[b.Token].number
		}
	}
}

// Fields is a list of its own.
func (b *Breach) Fields(c *wire.Codec) {
	t := c.Begin()
	key(c, &b.Key)
	c.Uint(&b.Token, maxRevision)
	c.Check(b.Token != 0, "a breach of no grant")
	c.End(t)
}

// misbroken reports whether a breach names another grant than the one that has its token.
func (t *Table) misbroken() bool {
	for s := t.records.first(); s != nil; s = s.place.next() {
		if slices.ContainsFunc(s.broken, s.misplaced) {
			return true
		}
	}
	return false
}

// misplaced reports whether a breach of s names another grant than the one that has its token.
func (s *session) misplaced(b breach) bool {
	r := s.holds[b.Token]
	return r != nil && (r.entry.key != b.Key || r.number != b.number)
}

// breaches is the part of a record's image that has its breaches.
func (s *session) breaches(c *wire.Codec) {
	last := uint64(0)
	for i := range wire.List(c, &s.broken, MaxBroken) {
		b := &s.broken[i]
		t := c.Begin()
		key(c, &b.Key)
		c.Uint(&b.Token, maxRevision)
		c.Uint(&b.number, anyUint)
		c.Check(b.Token > last && (b.number == 0 || s.seen.has(b.number)), "a breach out of place")
		c.End(t)
		last = b.Token
	}
}

func (a *Break) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	key(c, &a.Key)
	c.Uint(&a.Token, anyUint)
	c.String(&a.Why, MaxWhy)
}

func (a *Free) fields(c *wire.Codec) {
	key(c, &a.Key)
	c.Uint(&a.Token, anyUint)
	c.Uint(&a.Term, anyUint)
}

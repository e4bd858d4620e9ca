package shard

import (
	"fmt"
	"slices"
)

// checkCommand panics if the key or the session of cmd breaks one of the table's own rules.
// It runs after every step in tests and in simulations.
func (t *Table) checkCommand(cmd Command) {
	var key string
	switch c := cmd.(type) {
	case Acquire:
		key = c.Key
	case Release:
		key = c.Key
	case Fix:
		key = c.Key
	case Report:
		key = c.Key
	case Begin:
		key = c.Key
	case End:
		key = c.Key
	case Drop:
		key = c.Key
	case Remember:
		key = c.Key
	case Recall:
		key = c.Key
	case Arrive:
		key = c.Key
	case Walk:
		key = c.Key
	case Proclaim:
		key = c.Key
	case Downgrade:
		key = c.Key
	case Tagged:
		t.checkCommand(c.Command)
		return
	case Within:
		t.checkCommand(c.Command)
		return
	case Claim:
		key = c.Key
	case Resize:
		key = c.Key
	case Break:
		key = c.Key
	case Free:
		key = c.Key
	}
	id, _ := ClientOf(cmd)
	if e := t.keys[key]; e != nil {
		size := e.holders.len
		if e.resource != nil {
			size += e.uses.len
		}
		if t.dueForCheck(size) {
			t.checkEntry(e)
		}
	}
	if s := t.sessions[id]; s != nil && t.dueForCheck(len(s.requests)) {
		t.checkSession(s)
	}
	if len(t.keys) != t.entries.len || len(t.sessions) != t.records.len {
		panic("shard: a map and its list differ")
	}
}

// dueForCheck reports whether something of that size is to be checked at this revision. The
// larger it is, the fewer revisions check it, so that the cost per command stays about the same.
func (t *Table) dueForCheck(size int) bool { return t.revision%uint64(1+size/32) == 0 }

func (t *Table) checkEntry(e *entry) {
	var used int64
	last := uint64(0)
	for r := e.holders.first(); r != nil; r = r.place.next() {
		used += r.weight
		if r.token <= last && t.settles == 0 || r.token > t.revision {
			panic(fmt.Sprintf("shard: key %q: token %d after %d at revision %d", e.key, r.token, last, t.revision))
		}
		last = r.token
		if r.session.holds[r.token] != r || t.sessions[r.session.id] != r.session {
			panic(fmt.Sprintf("shard: key %q: the holder of %d has no record", e.key, r.token))
		}
	}
	if used != e.taken || used > e.capacity && len(e.former) == 0 {
		panic(fmt.Sprintf("shard: key %q: %d of %d in use, counted %d", e.key, used, e.capacity, e.taken))
	}
	if head := e.queue.first(); len(e.former) > 0 && head != nil && head.weight > e.capacity {
		panic(fmt.Sprintf("shard: key %q: the head of the queue can never fit", e.key))
	}
	if e.idle() {
		panic(fmt.Sprintf("shard: key %q is kept without holder and waiter", e.key))
	}
	if e.resource != nil {
		t.checkResource(e)
	}
	if head := e.queue.first(); e.kind == Election && head != nil && head.sequence != 0 {
		panic(fmt.Sprintf("shard: election %q: a candidate has proclaimed something", e.key))
	}
	walking := e.resource != nil && e.walking
	if t.settles == 0 && e.due() != walking {
		panic(fmt.Sprintf("shard: key %q: the head of the queue fits and waits", e.key))
	}
}

func (t *Table) checkResource(e *entry) {
	if len(e.by) != e.uses.len || e.forgetAt != 0 && (e.index >= len(t.memories) || t.memories[e.index] != e) || e.walking != slices.Contains(t.walks, e) {
		panic(fmt.Sprintf("shard: resource %q is out of place", e.key))
	}
	for u := e.uses.first(); u != nil; u = u.place.next() {
		if e.by[u.useID] != u || u.entry != e || u.stamp > t.revision ||
			(u.session == nil) != (u.useID.session == SessionID{}) || u.session == nil && !u.durable ||
			u.session != nil && (!u.session.uses[u] || t.sessions[u.session.id] != u.session) {
			panic(fmt.Sprintf("shard: resource %q: the use of %q is out of place", e.key, u.user))
		}
	}
	if e.kind != Resource && e.uses.len > 0 || e.kind != Once && e.failures > 0 || e.kind != Latch && len(e.names) > 0 ||
		e.kind == Latch && (e.holders.len > 0 || int64(len(e.names)) >= e.capacity || len(e.names) > 0 && e.done[Run] != nil) {
		panic(fmt.Sprintf("shard: resource %q has what its kind has not", e.key))
	}
	for o, d := range e.done {
		if d != nil && !e.remembers(Op(o), t.now) && (e.forgetAt == 0 || e.forgetAt > t.now) {
			panic(fmt.Sprintf("shard: resource %q remembers a %v for too long", e.key, Op(o)))
		}
	}
}

func (t *Table) checkSession(s *session) {
	if len(s.holds) > len(s.requests) {
		panic(fmt.Sprintf("shard: session %v holds what it did not ask for", s.id))
	}
	for i, b := range s.broken {
		if len(s.broken) > MaxBroken || i > 0 && b.Token <= s.broken[i-1].Token || s.misplaced(b) {
			panic(fmt.Sprintf("shard: session %v: the breach of token %d is out of place", s.id, b.Token))
		}
	}
	if g := s.guest; g != nil && t.guests[g.name] != s {
		panic(fmt.Sprintf("shard: session %v carries %q, and is not known to", s.id, g.name))
	}
	for n, r := range s.requests { // order-free: each is checked alone
		if r.tag != "" && s.guest.tagged[tagID{r.entry.key, r.tag}] != r {
			panic(fmt.Sprintf("shard: session %v: the tag of request %d is out of place", s.id, n))
		}
		if in := r.scope; in != nil && (r.token != 0 || slices.ContainsFunc(in.grants, func(g Grant) bool { return t.scopes[g] == nil })) {
			panic(fmt.Sprintf("shard: session %v: request %d waits within nothing", s.id, n))
		}
		if r.session != s || r.number != n || !s.seen.has(n) || t.keys[r.entry.key] != r.entry {
			panic(fmt.Sprintf("shard: session %v: request %d is out of place", s.id, n))
		}
	}
}

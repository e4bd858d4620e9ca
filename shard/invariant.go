package shard

import "fmt"

// checkCommand panics if the key or the session of cmd breaks one of the table's own rules.
// It runs after every step in tests and in simulations.
func (t *Table) checkCommand(cmd Command) {
	var key string
	var id SessionID
	switch c := cmd.(type) {
	case Acquire:
		key, id = c.Key, c.Session
	case Release:
		key, id = c.Key, c.Session
	case Fix:
		key, id = c.Key, c.Session
	case Report:
		key, id = c.Key, c.Session
	case Cancel:
		id = c.Session
	default:
		return
	}
	if e := t.keys[key]; e != nil && t.dueForCheck(e.holders.len) {
		t.checkEntry(e)
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
	if used != e.used || used > e.capacity {
		panic(fmt.Sprintf("shard: key %q: %d of %d in use, counted %d", e.key, used, e.capacity, e.used))
	}
	if e.holders.len+e.queue.len == 0 {
		panic(fmt.Sprintf("shard: key %q is kept without holder and waiter", e.key))
	}
	if head := e.queue.first(); head != nil && t.settles == 0 && e.used+head.weight <= e.capacity {
		panic(fmt.Sprintf("shard: key %q: the head of the queue fits and waits", e.key))
	}
}

func (t *Table) checkSession(s *session) {
	if len(s.holds) > len(s.requests) {
		panic(fmt.Sprintf("shard: session %v holds what it did not ask for", s.id))
	}
	for n, r := range s.requests { // order-free: each is checked alone
		if r.session != s || r.number != n || !s.seen.has(n) || t.keys[r.entry.key] != r.entry {
			panic(fmt.Sprintf("shard: session %v: request %d is out of place", s.id, n))
		}
	}
}

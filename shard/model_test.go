package shard

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// model is the table again, slow and plain: a few slices, searched from end to end.
type model struct {
	revision     uint64
	deleted      map[int]uint64 // by part
	term         uint64
	now, settles time.Duration
	records      []record
	wishes       []wish  // all that wait or hold, in the order of their commands
	things       []thing // the resources of which something is known
	sizes        map[string]sizes
}

// sizes are the capacities of a semaphore that had several.
type sizes struct {
	now    int64
	former []int64
}

// thing is what is known of a resource beside its wishes.
type thing struct {
	key  string
	kind Kind
	size int64
	done [lastOp + 1]*completion
	uses []usage

	failures   uint64
	names      []string
	last, keep time.Duration
}

// usage is one user's use through one session; zero: through none any more.
type usage struct {
	user    string
	session SessionID
	durable bool
	several bool // stands for those of several sessions
	stamp   uint64
}

type record struct {
	id       SessionID
	name     string
	ttl      time.Duration
	fixed    bool
	silent   time.Duration
	minSince uint64
	seen     []uint64
	results  []outcome
	broken   []breach // in the order of their tokens
}

type outcome struct {
	number  uint64
	what    EventKind
	token   uint64
	refused Reason
}

type wish struct {
	Acquire
	op       *Operation
	token    uint64 // zero while it waits
	entered  uint64
	reported bool
	size     int64
}

func (m *model) find(id SessionID) *record {
	for i := range m.records {
		if m.records[i].id == id {
			return &m.records[i]
		}
	}
	return nil
}

// holders are the wishes of key that hold it, in the order of their tokens or, in a young table, of
// their commands.
func (m *model) holders(key string) []wish {
	var held []wish
	for _, w := range m.wishes {
		if w.Key == key && w.token != 0 {
			held = append(held, w)
		}
	}
	if m.settles == 0 {
		slices.SortFunc(held, func(a, b wish) int { return cmp.Compare(a.token, b.token) })
	}
	return held
}

func (m *model) waiters(key string) []wish {
	var waiting []wish
	for _, w := range m.wishes {
		if w.Key == key && w.token == 0 {
			waiting = append(waiting, w)
		}
	}
	return waiting
}

func (m *model) room(key string, weight int64) bool {
	for _, w := range m.holders(key) {
		weight += w.Weight
	}
	_, capacity := m.kind(key)
	return capacity == 0 || weight <= capacity
}

// accepts reports whether a caller may name a capacity of a key in use.
func (m *model) accepts(key string, capacity int64) bool {
	_, now := m.kind(key)
	return now == capacity || slices.Contains(m.sizes[key].former, capacity)
}

// keepSizes notes in each hold the capacity of its grant.
func (m *model) keepSizes(key string) {
	_, now := m.kind(key)
	for i := range m.wishes {
		if w := &m.wishes[i]; w.Key == key && w.token != 0 && w.size == 0 {
			w.size = now
		}
	}
}

// become changes the capacity of a semaphore, and refuses those that wait for more. What it was is a former one.
func (m *model) become(key string, capacity int64) (out []Event) {
	m.keepSizes(key)
	_, was := m.kind(key)
	m.former(key, was)
	z := m.sizes[key]
	m.sizes[key] = sizes{capacity, slices.DeleteFunc(z.former, func(f int64) bool { return f == capacity })}
	for _, w := range m.waiters(key) {
		if w.Weight > capacity {
			m.wishes = slices.DeleteFunc(m.wishes, func(o wish) bool { return o.Session == w.Session && o.Number == w.Number })
			out = append(out, m.finish(m.find(w.Session), w.Number, Event{What: Refused, Session: w.Session, Number: w.Number, Reason: Capacity, Capacity: capacity})...)
		}
	}
	return out
}

// former notes a capacity that callers may still name.
func (m *model) former(key string, capacity int64) {
	_, now := m.kind(key)
	former := append(slices.Clone(m.sizes[key].former), capacity)
	if m.sizes == nil {
		m.sizes = make(map[string]sizes)
	}
	m.sizes[key] = sizes{now, former[max(0, len(former)-maxFormer):]}
}

func (m *model) grant(key string) (out []Event) {
	k, capacity := m.kind(key)
	switch {
	case k == Barrier && (len(m.holders(key)) > 0 || int64(len(m.waiters(key))) < capacity):
		return nil
	case k.remembers():
		return m.walk(key)
	}
	for i := range m.wishes {
		w := &m.wishes[i]
		if m.settles != 0 || w.Key != key || w.token != 0 {
			continue
		}
		if !m.room(key, w.Weight) {
			return out
		}
		m.revision++
		w.token = m.revision
		if len(m.sizes[key].former) > 0 {
			w.size = m.sizes[key].now
		}
		s := m.find(w.Session)
		s.results = append(s.results, outcome{w.Number, Granted, w.token, 0})
		e := granted(w.Session, w.Number, w.token)
		e.Capacity = w.size
		out = append(out, e)
	}
	return out
}

// kind returns what a key is, and how much there is of it; zero: it is not in use.
func (m *model) kind(key string) (Kind, int64) {
	for _, w := range m.wishes {
		if z := m.sizes[key]; w.Key == key && z.now != 0 {
			return w.Kind, z.now
		} else if w.Key == key {
			return w.Kind, w.Capacity
		}
	}
	delete(m.sizes, key)
	if r := m.thing(key); r != nil {
		return r.kind, r.size
	}
	return 0, 0
}

func (m *model) thing(key string) *thing {
	for i := range m.things {
		if m.things[i].key == key {
			return &m.things[i]
		}
	}
	return nil
}

// remembered returns what is known of a resource; of a new one, nothing.
func (m *model) remembered(key string, kind Kind, size int64) *thing {
	if m.thing(key) == nil {
		m.things = append(m.things, thing{key: key, kind: kind, size: size})
	}
	return m.thing(key)
}

// tidy forgets what is over.
func (m *model) tidy() {
	for i := range m.things {
		if r := &m.things[i]; m.now >= r.last+r.keep && len(m.waiters(r.key)) == 0 {
			r.names = nil
		}
		for o, d := range m.things[i].done {
			if r := &m.things[i]; d != nil && m.now >= d.until && (Op(o) != Pull || len(r.uses) == 0) && (r.kind != Latch || len(m.waiters(r.key)) == 0) {
				m.things[i].done[o] = nil
			}
		}
	}
	m.things = slices.DeleteFunc(m.things, func(r thing) bool {
		wanted := slices.ContainsFunc(m.wishes, func(w wish) bool { return w.Key == r.key })
		return r.done == [lastOp + 1]*completion{} && len(r.uses) == 0 && len(r.names) == 0 && (r.failures == 0 || !wanted)
	})
}

// walk answers those that wait for a resource on which nothing runs.
func (m *model) walk(key string) (out []Event) {
	for m.settles == 0 && len(m.holders(key)) == 0 && len(m.waiters(key)) > 0 {
		w := m.waiters(key)[0]
		r := m.remembered(key, w.Kind, w.Capacity)
		i := slices.IndexFunc(m.wishes, func(o wish) bool { return o.Session == w.Session && o.Number == w.Number })
		d, s := r.done[w.op.Op], m.find(w.Session)
		if w.Kind == Latch && d == nil {
			return out
		}
		switch {
		case d != nil && d.version == w.op.Version && (m.now < d.until || w.Kind == Latch || w.op.Op == Pull && w.op.Alone && len(r.uses) > 0):
			m.revision++
			d.until = max(d.until, d.at+w.op.Retention)
			if m.wishes = slices.Delete(m.wishes, i, i+1); w.op.Op == Pull {
				m.stamp(r, w.Session, w.op, m.revision)
			}
			s.results = append(s.results, outcome{w.Number, Skipped, m.revision, 0})
			told := Event{What: Skipped, Session: w.Session, Number: w.Number, Token: m.revision}
			if w.Kind != Resource {
				told.Quiet = max(d.until-m.now, time.Millisecond)
			}
			out = append(out, told)
		case w.op.Attempts != 0 && r.failures >= w.op.Attempts:
			m.wishes = slices.Delete(m.wishes, i, i+1)
			out = append(out, m.finish(s, w.Number, Event{What: Refused, Session: w.Session, Number: w.Number, Reason: Failed, Quiet: m.quiet()})...)
		case w.op.Alone && len(r.uses) > 0:
			m.wishes = slices.Delete(m.wishes, i, i+1)
			out = append(out, m.finish(s, w.Number, m.inUse(w.Call, r))...)
		default:
			m.revision++
			m.wishes[i].token = m.revision
			s.results = append(s.results, outcome{w.Number, Granted, m.revision, 0})
			out = append(out, granted(w.Session, w.Number, m.revision))
			kept := r.done[Update]
			if r.done = [lastOp + 1]*completion{}; w.op.Op == Pull {
				r.done[Update] = kept
			}
		}
	}
	return out
}

func (m *model) inUse(c Call, r *thing) Event {
	return Event{What: Refused, Session: c.Session, Number: c.Number, Reason: InUse, Quiet: m.quiet(), Holder: r.uses[0].user, Token: r.uses[0].stamp}
}

// stamp makes a session use a resource, or confirms that it does.
func (m *model) stamp(r *thing, id SessionID, o *Operation, stamp uint64) {
	m.use(r, usage{o.User, id, o.Durable, false, stamp})
}

func (m *model) use(r *thing, u usage) {
	for _, old := range r.uses {
		if old.user == u.user && old.session == u.session {
			u.several = u.several || old.several || u.session == SessionID{} && old.stamp != u.stamp
			u.durable, u.stamp = u.durable || old.durable, max(u.stamp, old.stamp)
		}
	}
	r.uses = slices.DeleteFunc(r.uses, func(o usage) bool { return o.user == u.user && o.session == u.session })
	r.uses = append(r.uses, u)
	slices.SortFunc(r.uses, byStamp)
}

// lapse ends the uses of a session; the durable ones go on without it.
func (m *model) lapse(id SessionID) {
	for i := range m.things {
		r := &m.things[i]
		var own []usage
		for _, u := range r.uses {
			if u.session == id {
				own = append(own, u)
			}
		}
		r.uses = slices.DeleteFunc(r.uses, func(u usage) bool { return u.session == id })
		slices.SortFunc(own, byStamp)
		for _, u := range own {
			if u.durable {
				m.use(r, usage{u.user, SessionID{}, true, false, u.stamp})
			}
		}
	}
	m.tidy()
}

func byStamp(a, b usage) int {
	return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.user, b.user), a.session.Compare(b.session))
}

// remove removes the requests for which is returns true, and grants to those that then fit, in the
// order of their numbers.
func (m *model) remove(is func(wish) bool) (out []Event) {
	return m.removeAll(is, func() {})
}

// removeAll does something between the removal and the grants.
func (m *model) removeAll(is func(wish) bool, do func()) (out []Event) {
	var gone []wish
	for _, w := range m.wishes {
		if is(w) {
			gone = append(gone, w)
		}
	}
	m.wishes = slices.DeleteFunc(m.wishes, is)
	do()
	slices.SortFunc(gone, func(a, b wish) int { return cmp.Compare(a.Number, b.Number) })
	for _, w := range gone {
		out = append(out, m.grant(w.Key)...)
	}
	return out
}

// delete notes that a record is gone.
func (m *model) delete(id SessionID) {
	if m.deleted == nil {
		m.deleted = make(map[int]uint64)
	}
	m.deleted[(*deletions).part(nil, id)] = m.revision
}

// deletion is when a record of this one's part was deleted last.
func (m *model) deletion(id SessionID) uint64 { return m.deleted[(*deletions).part(nil, id)] }

func (m *model) end(id SessionID) []Event {
	if m.find(id) == nil {
		return nil
	}
	m.delete(id)
	m.records = slices.DeleteFunc(m.records, func(s record) bool { return s.id == id })
	for _, w := range m.wishes {
		if w.Session == id {
			m.fails(w)
		}
	}
	return append([]Event{ended(id)}, m.removeAll(func(w wish) bool { return w.Session == id }, func() { m.lapse(id) })...)
}

// fails notes that a wish ends without success.
func (m *model) fails(w wish) {
	if w.Kind == Once && w.token != 0 {
		m.remembered(w.Key, Once, 1).failures++
	}
}

// queued returns the event of a waiting request: how many requests are ahead, and a holder.
func (m *model) queued(c Call, key string) Event {
	q := Event{What: Queued, Session: c.Session, Number: c.Number, Quiet: m.quiet()}
	q.Ahead = slices.IndexFunc(m.waiters(key), func(w wish) bool {
		return w.Session == c.Session && w.Number == c.Number
	})
	if h := m.holders(key); len(h) > 0 {
		q.Holder, q.Token = h[0].Name, h[0].token
	}
	if q.Ahead >= 0 {
		q.Entered = m.waiters(key)[q.Ahead].entered
	}
	return q
}

// quiet is for how much longer nothing is granted.
func (m *model) quiet() time.Duration {
	switch {
	case m.settles == 0:
		return 0
	case m.settles-m.now < time.Millisecond:
		return time.Millisecond
	}
	return m.settles - m.now
}

func (m *model) finish(s *record, number uint64, e Event) []Event {
	token := e.Token
	if e.What == Refused {
		token = 0
	}
	s.results = append(s.results, outcome{number, e.What, token, e.Reason})
	return []Event{e}
}

// arrive does what all commands of clients have in common. If it returns no record, out is the answer.
func (m *model) arrive(c Call, opens bool, ttl time.Duration, name string) (s *record, out []Event) {
	refused := Event{What: Refused, Session: c.Session, Number: c.Number}
	s = m.find(c.Session)
	switch {
	case s == nil && c.Since < m.deletion(c.Session):
		refused.Reason = Reopen
		return nil, []Event{refused}
	case s != nil && c.Since < s.minSince:
		refused.Reason = Behind
		return nil, []Event{refused}
	case s == nil && !opens:
		refused.Reason = Lost
		return nil, []Event{refused}
	case s == nil:
		m.records = append(m.records, record{id: c.Session, name: name, ttl: ttl, minSince: m.deletion(c.Session)})
		s, out = m.find(c.Session), []Event{opened(c.Session, ttl)}
	}
	s.results = slices.DeleteFunc(s.results, func(o outcome) bool {
		return o.number != c.Number && slices.Contains(c.Acked, o.number)
	})
	if !slices.Contains(s.seen, c.Number) {
		s.seen = append(s.seen, c.Number)
		return s, out
	}
	for _, w := range m.wishes {
		if w.Session == c.Session && w.Number == c.Number && w.token == 0 {
			return nil, append(out, m.queued(c, w.Key))
		}
	}
	for _, o := range s.results {
		if o.number != c.Number {
			continue
		}
		e := Event{What: o.what, Session: c.Session, Number: c.Number, Token: o.token, Reason: o.refused}
		for _, w := range m.wishes {
			if w.Session == c.Session && w.Number == c.Number && o.what == Granted {
				e.Capacity = w.size
			}
		}
		if o.refused == Quiet {
			e.Quiet = m.quiet()
		}
		return nil, append(out, e)
	}
	refused.Reason = Stale
	return nil, append(out, refused)
}

func (m *model) step(cmd Command) (out []Event) {
	m.revision++
	m.tidy()
	defer m.tidy()
	switch c := cmd.(type) {
	case Begin:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		if k, capacity := m.kind(c.Key); capacity != 0 && k != c.Op.kind() {
			refused := Event{What: Refused, Session: c.Session, Number: c.Number, Reason: Capacity, Quiet: m.quiet()}
			if h := m.holders(c.Key); len(h) > 0 {
				refused.Holder, refused.Token = h[0].Name, h[0].token
			}
			return append(out, m.finish(s, c.Number, refused)...)
		}
		r := m.remembered(c.Key, c.Op.kind(), 1)
		d := r.done[c.Op]
		if was := d != nil && d.version == c.Version && m.now < d.until; m.settles == 0 && c.Op != Pull && c.Alone && len(r.uses) > 0 && !was {
			return append(out, m.finish(s, c.Number, m.inUse(c.Call, r))...)
		}
		a := Acquire{Call: c.Call, Name: c.Name, Key: c.Key, Kind: c.Op.kind(), Weight: 1, Capacity: 1}
		m.wishes = append(m.wishes, wish{a, &c.Operation, 0, m.revision, false, 0})
		told := m.walk(c.Key)
		if slices.ContainsFunc(m.waiters(c.Key), func(w wish) bool { return w.Session == c.Session && w.Number == c.Number }) {
			told = append(told, m.queued(c.Call, c.Key))
		}
		return append(out, told...)
	case End:
		s, out := m.arrive(c.Call, false, 0, "")
		if s == nil {
			return out
		}
		i := slices.IndexFunc(m.wishes, func(w wish) bool {
			return w.Session == c.Session && w.Key == c.Key && w.token == c.Token && w.token != 0 && w.op != nil
		})
		if i < 0 && !m.holdsAny(c.Session, c.Token) && s.mend(c.Token) {
			return m.isBroken(s, c.Number, c.Token)
		}
		if i < 0 {
			return m.finish(s, c.Number, refused(c.Session, c.Number, Lost))
		}
		s.mend(c.Token)
		w, e := m.wishes[i], done(c.Session, c.Number)
		r := m.remembered(c.Key, w.Kind, 1)
		if c.Failed {
			m.fails(w)
		} else {
			r.failures = 0
			r.done[w.op.Op] = &completion{w.op.Version, m.now, m.now + w.op.Retention}
			if w.op.Op == Pull {
				e.Token = m.revision
				m.stamp(r, c.Session, w.op, e.Token)
			}
		}
		out = m.finish(s, c.Number, e)
		return append(out, m.remove(func(o wish) bool { return o.Session == w.Session && o.Number == w.Number })...)
	case Drop:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		if r := m.thing(c.Key); r != nil {
			r.uses = slices.DeleteFunc(r.uses, func(u usage) bool {
				lost := u.session.Node == c.Session.Node && slices.Contains(c.Lost, u.session.Number)
				return u.user == c.User && (u.session == c.Session && u.stamp <= c.Stamp || u.session == SessionID{} && (u.stamp <= c.Lone || u.stamp == c.Vain && !u.several) || lost)
			})
		}
		return append(out, m.finish(s, c.Number, done(c.Session, c.Number))...)
	case Acquire:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		refused := Event{What: Refused, Session: c.Session, Number: c.Number, Quiet: m.quiet()}
		if h := m.holders(c.Key); len(h) > 0 {
			refused.Holder, refused.Token = h[0].Name, h[0].token
		}
		if k, capacity := m.kind(c.Key); capacity != 0 && (k != c.Kind || !m.accepts(c.Key, c.Capacity) || c.Weight > capacity) {
			refused.Reason = Capacity
			return append(out, m.finish(s, c.Number, refused)...)
		}
		if c.Try && m.settles != 0 {
			refused.Reason = Quiet
			return append(out, m.finish(s, c.Number, refused)...)
		}
		if c.Try && (len(m.waiters(c.Key)) > 0 || !m.room(c.Key, c.Weight)) {
			refused.Reason = Locked
			return append(out, m.finish(s, c.Number, refused)...)
		}
		m.wishes = append(m.wishes, wish{c, waitsFor(c.Kind), 0, m.revision, false, 0})
		granted := m.grant(c.Key)
		if slices.ContainsFunc(m.waiters(c.Key), func(w wish) bool { return w.Session == c.Session && w.Number == c.Number }) {
			granted = append(granted, m.queued(c.Call, c.Key))
		}
		return append(out, granted...)
	case Cancel:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		if c.Target != 0 && !slices.Contains(s.seen, c.Target) {
			s.seen = append(s.seen, c.Target)
		}
		s.broken = slices.DeleteFunc(s.broken, func(b breach) bool { return b.number == c.Target && c.Target != 0 })
		out = append(out, m.remove(func(w wish) bool { return w.Session == c.Session && w.Number == c.Target })...)
		e := done(c.Session, c.Number)
		if i := slices.IndexFunc(s.results, func(o outcome) bool { return o.number == c.Target && o.what == Skipped }); i >= 0 {
			e.Token = s.results[i].token
		}
		s.results = slices.DeleteFunc(s.results, func(o outcome) bool { return o.number == c.Target })
		return append(out, m.finish(s, c.Number, e)...)
	case Release:
		s, out := m.arrive(c.Call, false, 0, "")
		if s == nil {
			return out
		}
		named := func(w wish) bool {
			return w.Session == c.Session && w.Key == c.Key && w.token == c.Token && w.token != 0
		}
		if !m.holdsAny(c.Session, c.Token) && s.mend(c.Token) {
			return m.finish(s, c.Number, done(c.Session, c.Number))
		}
		if !slices.ContainsFunc(m.wishes, named) {
			return m.finish(s, c.Number, refused(c.Session, c.Number, Lost))
		}
		s.mend(c.Token)
		for _, w := range m.wishes {
			if named(w) {
				m.fails(w)
			}
		}
		return append(m.finish(s, c.Number, done(c.Session, c.Number)), m.remove(named)...)
	case Fix:
		s, out := m.arrive(c.Call, false, 0, "")
		if s == nil {
			return out
		}
		named := func(w wish) bool {
			return w.Session == c.Session && w.Key == c.Key && w.token == c.Token && w.token != 0
		}
		if !slices.ContainsFunc(m.wishes, named) {
			return m.finish(s, c.Number, refused(c.Session, c.Number, Lost))
		}
		if s.isBroken(c.Token) {
			return m.isBroken(s, c.Number, c.Token)
		}
		s.ttl, s.fixed, s.silent = c.Hold, true, 0
		return append([]Event{fixed(c.Session, c.Hold)}, m.finish(s, c.Number, done(c.Session, c.Number))...)
	case Downgrade:
		s, out := m.arrive(c.Call, false, 0, "")
		if s == nil {
			return out
		}
		i := slices.IndexFunc(m.wishes, func(w wish) bool {
			return w.Session == c.Session && w.Key == c.Key && w.token == c.Token && w.token != 0 && w.Kind == RW
		})
		if i < 0 {
			return m.finish(s, c.Number, refused(c.Session, c.Number, Lost))
		}
		if s.isBroken(c.Token) {
			return m.isBroken(s, c.Number, c.Token)
		}
		m.wishes[i].Weight = 1
		return append(m.finish(s, c.Number, done(c.Session, c.Number)), m.grant(c.Key)...)
	case Close:
		if m.find(c.Session) == nil {
			m.delete(c.Session)
		}
		return append(m.end(c.Session), done(c.Session, c.Number))
	case Expire:
		if c.Term == m.term {
			return m.end(c.Session)
		}
	case Silent:
		if s := m.find(c.Session); s != nil && c.Term == m.term {
			if s.silent = c.For; c.For == 0 {
				return []Event{reheard(c.Session)}
			}
		}
	case Remember:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		if c.Stamp >= m.revision {
			m.revision = c.Stamp + floorJump
		}
		refused := Event{What: Refused, Session: c.Session, Number: c.Number, Reason: Late}
		k, capacity := m.kind(c.Key)
		switch {
		case m.settles != 0 && (capacity == 0 || k == Resource):
			m.use(m.remembered(c.Key, Resource, 1), usage{c.User, SessionID{}, true, c.Several, c.Stamp})
			return append(out, m.finish(s, c.Number, done(c.Session, c.Number))...)
		case m.settles != 0:
			if refused.Reason, refused.Quiet = Capacity, m.quiet(); len(m.holders(c.Key)) > 0 {
				refused.Holder, refused.Token = m.holders(c.Key)[0].Name, m.holders(c.Key)[0].token
			}
		}
		return append(out, m.finish(s, c.Number, refused)...)
	case Recall:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		if k, capacity := m.kind(c.Key); capacity != 0 && (k != c.Kind || capacity != c.Capacity) {
			refused := Event{What: Refused, Session: c.Session, Number: c.Number, Reason: Capacity, Quiet: m.quiet()}
			if h := m.holders(c.Key); len(h) > 0 {
				refused.Holder, refused.Token = h[0].Name, h[0].token
			}
			return append(out, m.finish(s, c.Number, refused)...)
		}
		r := m.remembered(c.Key, c.Kind, c.Capacity)
		if r.done[Run] == nil {
			r.done[Run] = &completion{at: m.now}
		}
		r.done[Run].until = max(r.done[Run].until, m.now+c.Remains)
		r.names, r.last, r.keep = nil, 0, 0
		out = append(out, m.finish(s, c.Number, done(c.Session, c.Number))...)
		return append(out, m.grant(c.Key)...)
	case Arrive:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		if k, capacity := m.kind(c.Key); capacity != 0 && (k != Latch || capacity != c.Capacity) {
			refused := Event{What: Refused, Session: c.Session, Number: c.Number, Reason: Capacity, Quiet: m.quiet()}
			if h := m.holders(c.Key); len(h) > 0 {
				refused.Holder, refused.Token = h[0].Name, h[0].token
			}
			return append(out, m.finish(s, c.Number, refused)...)
		}
		switch r := m.remembered(c.Key, Latch, c.Capacity); {
		case r.done[Run] != nil:
			r.done[Run].until = max(r.done[Run].until, r.done[Run].at+c.Retention)
		default:
			if !slices.Contains(r.names, c.Who) {
				r.names = append(r.names, c.Who)
			}
			if r.last, r.keep = m.now, max(r.keep, c.Retention); len(r.names) == int(c.Capacity) {
				r.done[Run] = &completion{at: m.now, until: m.now + r.keep}
				r.names, r.last, r.keep = nil, 0, 0
			}
		}
		out = append(out, m.finish(s, c.Number, done(c.Session, c.Number))...)
		return append(out, m.grant(c.Key)...)
	case Break:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		held := m.holders(c.Key)
		i := slices.IndexFunc(held, func(w wish) bool { return w.token == c.Token })
		switch {
		case i < 0 && m.settles != 0:
			return append(out, m.finish(s, c.Number, Event{What: Refused, Session: c.Session, Number: c.Number, Reason: Quiet, Quiet: m.quiet()})...)
		case i < 0:
			return append(out, m.finish(s, c.Number, refused(c.Session, c.Number, Lost))...)
		}
		h := m.find(held[i].Session)
		switch {
		case h.isBroken(c.Token):
			return append(out, m.finish(s, c.Number, done(c.Session, c.Number))...)
		case len(h.broken) >= MaxBroken:
			return append(out, m.finish(s, c.Number, refused(c.Session, c.Number, Crowded))...)
		}
		h.broken = append(h.broken, breach{Breach{c.Key, c.Token}, held[i].Number})
		slices.SortFunc(h.broken, func(a, b breach) int { return cmp.Compare(a.Token, b.Token) })
		for j, o := range h.results {
			if o.number == held[i].Number {
				h.results[j] = outcome{o.number, Refused, c.Token, Broke}
			}
		}
		out = append(out, m.finish(s, c.Number, done(c.Session, c.Number))...)
		return append(out, Event{What: Breached, Session: h.id, Key: c.Key, Token: c.Token, Holder: h.name})
	case Free:
		held := m.holders(c.Key)
		i := slices.IndexFunc(held, func(w wish) bool { return w.token == c.Token })
		if i < 0 || c.Term != m.term || !m.find(held[i].Session).isBroken(c.Token) {
			return nil
		}
		m.fails(held[i])
		return m.remove(func(w wish) bool { return w.Session == held[i].Session && w.Number == held[i].Number })
	case Resize:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		refused := Event{What: Refused, Session: c.Session, Number: c.Number, Reason: Capacity, Quiet: m.quiet()}
		if h := m.holders(c.Key); len(h) > 0 {
			refused.Holder, refused.Token = h[0].Name, h[0].token
		}
		k, capacity := m.kind(c.Key)
		switch {
		case capacity == 0 && m.settles != 0:
			refused.Reason = Quiet
		case capacity == 0 || k == Semaphore && capacity == c.To:
			return append(out, m.finish(s, c.Number, done(c.Session, c.Number))...)
		case k == Semaphore && capacity == c.From:
			out = append(out, m.finish(s, c.Number, done(c.Session, c.Number))...)
			return append(append(out, m.become(c.Key, c.To)...), m.grant(c.Key)...)
		case k == Semaphore:
			refused.Capacity = capacity
		}
		return append(out, m.finish(s, c.Number, refused)...)
	case Report:
		return m.report(c)
	case Settle, Calm:
		settle, calm := Settle{}, false
		switch c := c.(type) {
		case Settle:
			settle = c
		case Calm:
			settle.Term, calm = c.Term, true
		}
		if settle.Term == m.term && m.settles != 0 && (calm || m.now >= m.settles) {
			out = m.order()
			m.settles = 0
			keys := make([]string, 0, len(m.wishes))
			for _, w := range m.wishes {
				keys = append(keys, w.Key)
			}
			slices.Sort(keys)
			keys = slices.Compact(keys)
			for _, key := range keys {
				out = append(out, m.grant(key)...)
			}
		}
	}
	return out
}

// holdsAny reports whether a session holds any key under a token.
func (m *model) holdsAny(id SessionID, token uint64) bool {
	return slices.ContainsFunc(m.wishes, func(w wish) bool { return w.Session == id && w.token == token && token != 0 })
}

func (s *record) isBroken(token uint64) bool {
	return slices.ContainsFunc(s.broken, func(b breach) bool { return b.Token == token })
}

// mend forgets a breach, and reports whether there was one.
func (s *record) mend(token uint64) bool {
	was := len(s.broken)
	s.broken = slices.DeleteFunc(s.broken, func(b breach) bool { return b.Token == token })
	return len(s.broken) < was
}

// isBroken answers that a grant is broken.
func (m *model) isBroken(s *record, number, token uint64) []Event {
	s.results = append(s.results, outcome{number, Refused, token, Broke})
	return []Event{{What: Refused, Session: s.id, Number: number, Token: token, Reason: Broke}}
}

// report gives a session the place that it reports.
func (m *model) report(c Report) []Event {
	s, out := m.arrive(c.Call, true, c.TTL, c.Name)
	if s == nil {
		return out
	}
	refused := Event{What: Refused, Session: c.Session, Number: c.Number}
	refuse := func(why Reason) []Event {
		if refused.Reason = why; why == Late {
			refused.Quiet = m.quiet() // none
		}
		if _, capacity := m.kind(c.Key); capacity != 0 {
			refused.Quiet = m.quiet()
		}
		if h := m.holders(c.Key); len(h) > 0 && why != Late {
			refused.Holder, refused.Token = h[0].Name, h[0].token
		}
		return append(out, m.finish(m.find(c.Session), c.Number, refused)...)
	}
	if c.Known >= m.revision {
		m.revision = c.Known + floorJump
	}
	if m.settles == 0 {
		return refuse(Late)
	}
	m.settles = max(m.settles, c.Quiet)
	differs := func() bool {
		k, capacity := m.kind(c.Key)
		isNew := !slices.ContainsFunc(m.wishes, func(w wish) bool { return w.Key == c.Key && (w.reported || w.token != 0) })
		return capacity != 0 && (k != c.Kind || !m.accepts(c.Key, c.Capacity) && (k != Semaphore || isNew))
	}
	holds := func() bool {
		if c.Kind != Semaphore {
			return m.room(c.Key, c.Weight)
		}
		capacity, last, used := c.Capacity, c.Token, c.Weight
		_, now := m.kind(c.Key)
		for _, w := range m.holders(c.Key) {
			if used += w.Weight; w.token > last {
				if capacity, last = w.size, w.token; capacity == 0 {
					capacity = now
				}
			}
		}
		return used <= capacity
	}
	used := func() []usage {
		if r := m.thing(c.Key); r != nil {
			return r.uses
		}
		return nil
	}
	refuseWaiters := func() {
		if r := m.thing(c.Key); r != nil && (r.kind == Once || r.kind == Latch) {
			r.done[Run], r.names, r.last, r.keep = nil, nil, 0, 0
		}
		defer m.tidy()
		for _, w := range m.waiters(c.Key) {
			e := Event{What: Refused, Session: w.Session, Number: w.Number, Reason: Capacity}
			m.wishes = slices.DeleteFunc(m.wishes, func(o wish) bool { return o.Session == w.Session && o.Number == w.Number })
			out = append(out, m.finish(m.find(w.Session), w.Number, e)...)
		}
	}
	same := func(w wish) bool {
		return !c.Uses && w.Session == c.Session && w.token == c.Token && w.token != 0 && w.Key == c.Key &&
			(w.Weight == c.Weight || w.Weight > c.Weight && w.Kind == RW && c.Kind == RW)
	}
	if !c.Uses && s.isBroken(c.Token) {
		return append(out, m.isBroken(s, c.Number, c.Token)...)
	}
	if i := slices.IndexFunc(m.wishes, same); i >= 0 {
		m.wishes[i].Weight = c.Weight
		s.results = append(s.results, outcome{c.Number, Granted, c.Token, 0})
		return append(out, granted(c.Session, c.Number, c.Token))
	}
	if c.Token == 0 {
		older := len(used()) > 0 || slices.ContainsFunc(m.wishes, func(w wish) bool { return w.Key == c.Key && w.reported })
		if differs() && older {
			return refuse(Capacity)
		} else if differs() {
			refuseWaiters()
		}
		if differs() { // of a resource on which something was done already
			return refuse(Capacity)
		}
		if _, capacity := m.kind(c.Key); capacity != 0 && c.Weight > capacity {
			return refuse(Capacity)
		}
	} else {
		if !c.Uses && slices.ContainsFunc(m.wishes, func(w wish) bool { return w.Session == c.Session && w.token == c.Token }) {
			return refuse(Lost)
		}
		for {
			if !differs() && (c.Uses || holds()) {
				break
			}
			type place struct {
				token   uint64
				session SessionID
			}
			var in []place
			for _, w := range m.holders(c.Key) {
				in = append(in, place{w.token, w.Session})
			}
			if differs() {
				for _, u := range used() {
					in = append(in, place{u.stamp, u.session})
				}
			}
			if len(in) == 0 {
				if refuseWaiters(); differs() {
					return refuse(Capacity)
				}
				break
			}
			low := slices.MinFunc(in, func(a, b place) int {
				return cmp.Or(cmp.Compare(a.token, b.token))
			})
			if low.token >= c.Token || low.session == c.Session {
				return refuse(Lost)
			}
			if low.session == (SessionID{}) {
				r := m.thing(c.Key)
				r.uses = slices.DeleteFunc(r.uses, func(u usage) bool { return u.session == low.session && u.stamp == low.token })
				m.tidy()
				continue
			}
			out = append(out, m.end(low.session)...)
		}
	}
	if k, capacity := m.kind(c.Key); k == Semaphore && capacity != 0 && !m.accepts(c.Key, c.Capacity) {
		if m.keepSizes(c.Key); c.Capacity > capacity {
			m.former(c.Key, c.Capacity)
		} else {
			out = append(out, m.become(c.Key, c.Capacity)...)
		}
	}
	if c.Uses {
		m.stamp(m.remembered(c.Key, Resource, 1), c.Session, &c.Operation, c.Token)
		s = m.find(c.Session)
		s.results = append(s.results, outcome{c.Number, Granted, c.Token, 0})
		return append(out, granted(c.Session, c.Number, c.Token))
	}
	a := Acquire{Call: c.Call, Name: c.Name, Key: c.Key, Kind: c.Kind, Weight: c.Weight, Capacity: c.Capacity, Value: c.Value}
	var op *Operation
	if op = waitsFor(c.Kind); c.Kind.operates() {
		op = &c.Operation
	}
	size := int64(0)
	if len(m.sizes[c.Key].former) > 0 && c.Token != 0 {
		size = c.Capacity
	}
	m.wishes = append(m.wishes, wish{a, op, c.Token, c.Entered, true, size})
	if c.Token == 0 {
		return append(out, m.queued(c.Call, c.Key))
	}
	s = m.find(c.Session)
	s.results = append(s.results, outcome{c.Number, Granted, c.Token, 0})
	if c.Hold != 0 {
		s.ttl, s.fixed = c.Hold, true
		out = append(out, fixed(c.Session, c.Hold))
	}
	return append(out, granted(c.Session, c.Number, c.Token))
}

// order ends the sessions that reported a token that another one had reported, and puts the wishes in
// the order of their turns.
func (m *model) order() (out []Event) {
	var keys []string // in the order in which they came into use
	for _, w := range m.wishes {
		if !slices.Contains(keys, w.Key) {
			keys = append(keys, w.Key)
		}
	}
	var ends []SessionID
	for _, key := range keys {
		held := m.holders(key)
		slices.SortStableFunc(held, func(a, b wish) int { return cmp.Compare(a.token, b.token) })
		for i := 1; i < len(held); i++ {
			if held[i].token == held[i-1].token {
				ends = append(ends, held[i].Session)
			}
		}
	}
	turn := func(w wish) (group int, at uint64) {
		switch {
		case w.reported && w.entered != 0:
			return 1, w.entered
		case w.reported:
			return 2, 0
		}
		return 3, w.entered
	}
	slices.SortStableFunc(m.wishes, func(a, b wish) int {
		ga, at := turn(a)
		gb, bt := turn(b)
		return cmp.Or(cmp.Compare(ga, gb), cmp.Compare(at, bt))
	})
	for _, id := range ends {
		out = append(out, m.end(id)...)
	}
	return out
}

// waitsFor returns what a request for a key of this kind does, if it is not said.
func waitsFor(k Kind) *Operation {
	if k == Latch {
		return &Operation{Op: Run}
	}
	return nil
}

func written(o *Operation) string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("%+v", *o)
}

// write writes down what is known of a resource.
func (r *thing) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %d failures, %q came, the last at %v, for %v\n", r.failures, r.names, r.last, r.keep)
	for o, d := range r.done {
		if d != nil {
			fmt.Fprintf(b, "  %v %q at %v until %v\n", Op(o), d.version, d.at, d.until)
		}
	}
	for _, u := range r.uses {
		fmt.Fprintf(b, "  %+v\n", u)
	}
}

// dump writes down everything that the model holds, in one order.
func (m *model) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d deleted %v now %v settles %v\n", m.revision, m.deleted, m.now, m.settles)
	slices.SortFunc(m.records, func(a, b record) int { return cmp.Compare(a.name, b.name) })
	for _, s := range m.records {
		slices.Sort(s.seen)
		slices.SortFunc(s.results, func(a, b outcome) int { return cmp.Compare(a.number, b.number) })
		fmt.Fprintf(&b, "%v %s ttl %v fixed %v silent %v since %d seen %v results %v broken %v\n",
			s.id, s.name, s.ttl, s.fixed, s.silent, s.minSince, s.seen, s.results, append([]breach{}, s.broken...))
	}
	keys := []string{}
	for _, w := range m.wishes {
		keys = append(keys, w.Key)
	}
	for _, r := range m.things {
		keys = append(keys, r.key)
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		kind, capacity := m.kind(key)
		fmt.Fprintf(&b, "%s kind %d capacity %d, before %v\n", key, kind, capacity, slices.Clip(append([]int64{}, m.sizes[key].former...)))
		for _, w := range append(m.holders(key), m.waiters(key)...) {
			fmt.Fprintf(&b, "  %v %d weight %d token %d value %q entered %d %v %+v of %d\n", w.Session, w.Number, w.Weight, w.token, w.Value, w.entered, w.reported, written(w.op), w.size)
		}
		switch r := m.thing(key); {
		case r != nil:
			r.write(&b)
		case kind.remembers():
			(&thing{}).write(&b)
		}
	}
	return b.String()
}

// parts returns the deletions as the model has them.
func (d *deletions) parts() map[int]uint64 {
	parts := make(map[int]uint64)
	for part, revision := range d {
		if revision != 0 {
			parts[part] = revision
		}
	}
	return parts
}

// dump writes down everything that the table holds, as the model does.
func (t *Table) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d deleted %v now %v settles %v\n", t.revision, t.deleted.parts(), t.now, t.settles)
	var records []*session
	for _, s := range t.sessions {
		records = append(records, s)
	}
	slices.SortFunc(records, func(a, b *session) int { return cmp.Compare(a.name, b.name) })
	for _, s := range records {
		seen := []uint64{}
		for n := uint64(1); n <= s.seen.floor; n++ {
			seen = append(seen, n)
		}
		for _, r := range s.seen.ranges {
			for n := r.first; n <= r.last; n++ {
				seen = append(seen, n)
			}
		}
		results := []outcome{}
		for n, r := range s.results {
			results = append(results, outcome{n, r.what, r.token, r.refused})
		}
		slices.SortFunc(results, func(a, b outcome) int { return cmp.Compare(a.number, b.number) })
		fmt.Fprintf(&b, "%v %s ttl %v fixed %v silent %v since %d seen %v results %v broken %v\n",
			s.id, s.name, s.ttl, s.fixed, s.silent, s.minSince, seen, results, append([]breach{}, s.broken...))
	}
	keys := []string{}
	for key := range t.keys {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		e := t.keys[key]
		fmt.Fprintf(&b, "%s kind %d capacity %d, before %v\n", key, e.kind, e.capacity, append([]int64{}, e.former...))
		for _, l := range []*list[*request]{&e.holders, &e.queue} {
			for r := l.first(); r != nil; r = r.place.next() {
				fmt.Fprintf(&b, "  %v %d weight %d token %d value %q entered %d %v %+v of %d\n",
					r.session.id, r.number, r.weight, r.token, r.value, r.entered, r.reported, written(r.op), r.size)
			}
		}
		if e.resource != nil {
			r := thing{done: e.done, failures: e.failures, names: e.names, last: e.last, keep: e.keep}
			for u := e.uses.first(); u != nil; u = u.place.next() {
				r.uses = append(r.uses, usage{u.user, u.useID.session, u.durable, u.several, u.stamp})
			}
			r.write(&b)
		}
	}
	return b.String()
}

// script draws what clients and leaders might send: mostly sensible, sometimes late,
// twice, out of order, or wrong.
type script struct {
	rand    *rand.Rand
	numbers map[string]uint64 // the last number that each session used
	sent    []Command         // commands that may arrive again
	late    []Command         // commands that are delayed
	term    uint64
	now     time.Duration
}

func newScript(seed uint64) *script {
	return &script{rand: rand.New(rand.NewPCG(seed, 1)), numbers: make(map[string]uint64), term: 1}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// enter advances time, and sometimes the term, and returns both.
func (s *script) enter() (uint64, time.Duration) {
	if s.rand.IntN(50) == 0 {
		s.term++
	}
	s.now += time.Duration(s.rand.IntN(100)) * time.Millisecond
	return s.term, s.now
}

// next makes up the next command for a table that stands like t.
func (s *script) next(t *Table) Command {
	switch k := s.rand.IntN(20); {
	case k == 0 && len(s.sent) > 0:
		return pick(s.rand, s.sent...)
	case k == 1 && len(s.late) > 0:
		cmd := s.late[0]
		s.late = s.late[1:]
		return cmd
	}
	cmd := s.make(t)
	s.sent = append(s.sent, cmd)
	if s.rand.IntN(20) == 0 {
		s.late = append(s.late, cmd)
		cmd = s.make(t)
		s.sent = append(s.sent, cmd)
	}
	return cmd
}

func (s *script) make(t *Table) Command {
	r := s.rand
	who := pick(r, "ann", "bob", "cid", "dan", "eve")
	term := pick(r, s.term, s.term, s.term, s.term-1, s.term+1)
	switch r.IntN(60) {
	case 0:
		return Expire{id(who), term}
	case 1:
		return Silent{id(who), time.Duration(r.IntN(9)) * time.Second, term}
	case 2:
		return Silent{id(who), 0, term}
	case 3:
		if s.numbers[who]%3 == 0 {
			return Calm{Term: term}
		}
		return Settle{Term: term}
	case 4:
		return Check{1, 2, term}
	case 5:
		return Close{id(who), s.numbers[who] + 1}
	}
	c := call(who, s.number(who))
	c.Since = t.Revision() - uint64(r.IntN(20))*uint64(r.IntN(2))
	for range r.IntN(3) {
		c.Acked = append(c.Acked, 1+r.Uint64N(s.numbers[who]))
	}
	if t.settles != 0 && r.IntN(5) == 0 {
		return s.operate(t, c, who)
	}
	if t.settles != 0 && r.IntN(3) > 0 || r.IntN(40) == 0 {
		return s.report(c, who)
	}
	if r.IntN(3) == 0 {
		return s.operate(t, c, who)
	}
	key, token := s.held(t, who)
	if r.IntN(4) == 0 {
		return s.assemble(c, who)
	}
	if r.IntN(12) == 0 {
		return s.breaks(t, c, who)
	}
	if r.IntN(10) == 0 {
		from, to := pick[int64](r, 2, 3, 3, 4), pick[int64](r, 2, 3, 3, 4, 9)
		return Resize{Call: c, TTL: ttl, Name: who, Key: pick(r, "s", "s", "s", "t", "t", "a", "x"), From: from, To: to}
	}
	switch r.IntN(10) {
	case 0:
		return Cancel{Call: c, TTL: ttl, Name: who, Target: 1 + r.Uint64N(s.numbers[who]+1)}
	case 1:
		return Fix{Call: c, Key: key, Token: token, Hold: time.Duration(1+r.IntN(5)) * time.Second}
	case 2, 3, 4:
		if r.IntN(4) == 0 {
			return Downgrade{Call: c, Key: key, Token: token}
		}
		return Release{Call: c, Key: key, Token: token}
	}
	a := Acquire{Call: c, TTL: ttl, Name: who, Key: pick(r, "a", "b", "s", "t"), Try: r.IntN(4) == 0}
	a.Weight, a.Capacity = pick[int64](r, 1, 1, Whole), Whole
	if a.Key >= "s" && r.IntN(20) > 0 || r.IntN(20) == 0 {
		a.Kind, a.Capacity = Semaphore, pick[int64](r, 3, 3, 3, 3, 3, 3, 3, 4)
		a.Weight = 1 + r.Int64N(3)
	}
	if r.IntN(4) == 0 {
		a.Value = []byte(who)
	}
	return a
}

// operate makes up a command about a resource.
// loneStamp returns the stamp of a user's use that has outlived its session; zero: there is none.
func (s *script) loneStamp(t *Table, key, user string) uint64 {
	if e := t.keys[key]; e != nil && e.resource != nil {
		if u := e.by[useID{user: user}]; u != nil {
			return u.stamp
		}
	}
	return 0
}

func (s *script) operate(t *Table, c Call, who string) Command {
	r := s.rand
	key, token := s.held(t, who)
	switch r.IntN(10) {
	case 9:
		m := Recall{Call: c, TTL: ttl, Name: who, Key: pick(r, "o", "o", "o", "x", "a"), Kind: Once, Capacity: 1, Remains: time.Duration(1+r.IntN(1000)) * time.Millisecond}
		if r.IntN(3) == 0 {
			m.Key, m.Kind, m.Capacity = "l", Latch, 3
		}
		return m
	case 8:
		m := Remember{Call: c, TTL: ttl, Name: who, Key: pick(r, "x", "x", "y", "a"), User: pick(r, who, "ann"), Stamp: 1 + r.Uint64N(100)}
		m.Several = m.Stamp%4 == 0
		return m
	case 0:
		d := Drop{Call: c, TTL: ttl, Name: who, Key: pick(r, "x", "y"), User: pick(r, who, who, "ann"), Stamp: pick(r, 0, t.Revision()-r.Uint64N(40)%(t.Revision()+1))}
		d.Lone = []uint64{anyUint, 0, d.Stamp}[d.Stamp%3]
		if d.Stamp%4 == 3 {
			d.Lone, d.Vain = 0, s.loneStamp(t, d.Key, d.User)
		}
		if n := c.Session.Number; d.Stamp%2 == 0 && n > 1 {
			d.Lost = []uint64{n - 1}
		}
		return d
	case 1, 2, 3:
		return End{Call: c, Key: key, Token: token, Failed: r.IntN(3) == 0}
	}
	if r.IntN(2) == 0 {
		return Begin{Call: c, TTL: ttl, Name: who, Key: pick(r, "o", "o", "o", "o", "o", "x", "a"), Operation: s.run()}
	}
	return Begin{Call: c, TTL: ttl, Name: who, Key: pick(r, "x", "x", "x", "x", "y", "y", "y", "a"), Operation: s.operation(who)}
}

func (s *script) operation(who string) Operation {
	r := s.rand
	o := Operation{Op: Op(r.IntN(3)), Version: pick(r, "1", "1", "1", "1", "1", "2"), Alone: r.IntN(2) == 0, Retention: time.Duration(r.IntN(3000)) * time.Millisecond}
	if o.Op == Pull {
		o.User, o.Durable = pick(r, who, who, who, "ann"), r.IntN(4) == 0
	}
	return o
}

// assemble makes up a command about a latch or a barrier.
func (s *script) assemble(c Call, who string) Command {
	r := s.rand
	size := pick[int64](r, 3, 3, 3, 3, 3, 3, 2)
	switch r.IntN(4) {
	case 0:
		return Arrive{Call: c, TTL: ttl, Name: who, Key: pick(r, "l", "l", "l", "l", "l", "b", "o"), Capacity: size, Who: pick(r, who, "ann", "bob"), Retention: time.Duration(1+r.IntN(1000)) * time.Millisecond}
	case 1:
		return Acquire{Call: c, TTL: ttl, Name: who, Key: pick(r, "l", "l", "l", "l", "l", "b", "o"), Kind: Latch, Weight: 1, Capacity: size}
	}
	return Acquire{Call: c, TTL: ttl, Name: who, Key: pick(r, "c", "c", "c", "c", "c", "l", "a"), Kind: Barrier, Weight: 1, Capacity: size}
}

func (s *script) run() Operation {
	return Operation{Op: Run, Retention: time.Duration(s.rand.IntN(2000)) * time.Millisecond, Attempts: pick[uint64](s.rand, 0, 1, 1, 1, 2)}
}

// report reports a place in an earlier table, mostly one that there was.
func (s *script) report(c Call, who string) Report {
	r := s.rand
	p := Report{Call: c, TTL: ttl, Name: who, Key: pick(r, "a", "b", "s", "t"), Weight: pick[int64](r, 1, Whole), Capacity: Whole}
	if p.Key >= "s" && r.IntN(20) > 0 {
		p.Kind, p.Capacity, p.Weight = Semaphore, pick[int64](r, 3, 3, 3, 3, 4, 5), 1+r.Int64N(3)
	}
	if r.IntN(3) == 0 {
		p.Key, p.Kind, p.Weight, p.Capacity = pick(r, "x", "x", "x", "x", "y", "y", "y", "a"), Resource, 1, 1
		p.Operation = s.operation(who)
		if p.Uses = p.Op == Pull && r.IntN(3) > 0; r.IntN(3) == 0 {
			p.Key, p.Kind, p.Uses, p.Operation = "o", Once, false, s.run()
		}
	}
	latch := false
	if r.IntN(6) == 0 {
		p.Key, p.Kind, p.Weight, p.Capacity, p.Uses, p.Operation = "c", Barrier, 1, 3, false, Operation{}
		if latch = r.IntN(2) == 0; latch {
			p.Key, p.Kind = "l", Latch
		}
	}
	switch r.IntN(4) {
	case 0:
		p.Entered, p.Uses = r.Uint64N(50), false
	case 1:
		p.Hold = time.Duration(r.IntN(2)) * time.Second
		fallthrough
	default:
		p.Token = 1 + r.Uint64N(100)
	}
	if latch {
		p.Token, p.Entered, p.Hold = 0, r.Uint64N(50), 0
	}
	p.Known = max(p.Token, p.Entered) + r.Uint64N(20)
	if r.IntN(10) == 0 {
		p.Quiet = time.Duration(r.IntN(3000)) * time.Millisecond
	}
	if r.IntN(3) == 0 {
		p.Value = []byte(who)
	}
	return p
}

// number gives out numbers in order, now and then with a gap.
func (s *script) number(who string) uint64 {
	s.numbers[who]++
	if s.rand.IntN(20) == 0 {
		s.numbers[who]++
	}
	return s.numbers[who]
}

// held returns a key and a token that the session holds, if there is one, and sometimes wrong ones.
func (s *script) held(t *Table, who string) (key string, token uint64) {
	all := t.sessions[id(who)]
	if all == nil || len(all.holds) == 0 || s.rand.IntN(10) == 0 {
		return pick(s.rand, "a", "b", "s", "t"), s.rand.Uint64N(t.Revision() + 1)
	}
	if len(all.broken) > 0 && s.rand.IntN(8) == 0 {
		b := pick(s.rand, all.broken...)
		return b.Key, b.Token
	}
	tokens := make([]uint64, 0, len(all.holds))
	for token := range all.holds {
		tokens = append(tokens, token)
	}
	slices.Sort(tokens)
	token = pick(s.rand, tokens...)
	return all.holds[token].entry.key, token
}

// breaks draws a Break of what somebody holds, or a Free, and now and then of what nobody holds.
func (s *script) breaks(t *Table, c Call, who string) Command {
	holder := pick(s.rand, "ann", "bob", "cid", "dan", "eve")
	key, token := s.held(t, holder)
	if h := t.sessions[id(holder)]; h != nil && len(h.broken) > 0 && s.rand.IntN(2) == 0 {
		b := pick(s.rand, h.broken...)
		key, token = b.Key, b.Token
	}
	if s.rand.IntN(3) == 0 {
		return Free{key, token, pick(s.rand, s.term, s.term, s.term, s.term-1)}
	}
	return Break{Call: c, TTL: ttl, Name: who, Key: key, Token: token}
}

func TestTableBehavesLikeTheModel(t *testing.T) {
	seeds, steps := uint64(100), 400
	if testing.Short() {
		seeds = 20
	}
	told := make(map[string]int)
	for seed := range seeds {
		s := newScript(seed)
		f := Founding{Revision: 100 * seed, Check: true}
		if seed%4 == 0 {
			f.Settles, f.Revision = time.Second, f.Revision/4
		}
		table := NewTable(f)
		m := &model{revision: f.Revision, settles: f.Settles}
		for i := range steps {
			term, now := s.enter()
			cmd := s.next(table)
			table.Enter(term, now)
			m.term, m.now = term, now
			got, want := table.Step(sometimesWithin(i, cmd), nil), m.step(cmd)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: Step(%+v) = %+v, want %+v", seed, i, cmd, got, want)
			}
			table.checkAll()
			if i%10 == 0 {
				checkScopes(t, table)
				if got, want := table.dump(), m.dump(); got != want {
					t.Fatalf("seed %d, step %d: after %+v the table is\n%swant\n%s", seed, i, cmd, got, want)
				}
			}
			for _, e := range got {
				told[kindOf(e)]++
			}
		}
	}
	// A script that never comes to something proves nothing about it.
	for _, kind := range []string{
		"Granted", "Queued", "Done", "Skipped", "Opened", "Ended", "Fixed", "Reheard",
		"Refused 1", "Refused 2", "Refused 3", "Refused 4", "Refused 6", "Refused 7", "Refused 8", "Refused 10", "Refused 11", "Refused 12", "Breached",
	} {
		if told[kind] < int(seeds) {
			t.Errorf("only %d × %s in %d scripts", told[kind], kind, seeds)
		}
	}
}

func kindOf(e Event) string {
	names := []string{"", "Granted", "Queued", "Done", "Refused", "Skipped", "Opened", "Fixed", "Ended", "Reheard", "Led", "Breached"}
	if e.What == Refused {
		return fmt.Sprintf("Refused %d", e.Reason)
	}
	return names[e.What]
}

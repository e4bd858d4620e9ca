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
	wishes       []wish // all that wait or hold, in the order of their commands
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
}

type outcome struct {
	number, token uint64
	refused       Reason
}

type wish struct {
	Acquire
	token    uint64 // zero while it waits
	entered  uint64
	reported bool
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
	for _, w := range m.wishes {
		if w.Key == key {
			return weight <= w.Capacity
		}
	}
	return true
}

func (m *model) grant(key string) (out []Event) {
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
		s := m.find(w.Session)
		s.results = append(s.results, outcome{w.Number, w.token, 0})
		out = append(out, granted(w.Session, w.Number, w.token))
	}
	return out
}

// remove removes the requests for which is returns true, and grants to those that then fit, in the
// order of their numbers.
func (m *model) remove(is func(wish) bool) (out []Event) {
	var gone []wish
	for _, w := range m.wishes {
		if is(w) {
			gone = append(gone, w)
		}
	}
	m.wishes = slices.DeleteFunc(m.wishes, is)
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
	return append([]Event{ended(id)}, m.remove(func(w wish) bool { return w.Session == id })...)
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
	s.results = append(s.results, outcome{number, 0, e.Reason})
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
		switch {
		case o.number != c.Number:
		case o.token != 0:
			return nil, append(out, granted(c.Session, c.Number, o.token))
		case o.refused != 0:
			if refused.Reason = o.refused; o.refused == Quiet {
				refused.Quiet = m.quiet()
			}
			return nil, append(out, refused)
		default:
			return nil, append(out, done(c.Session, c.Number))
		}
	}
	refused.Reason = Stale
	return nil, append(out, refused)
}

func (m *model) step(cmd Command) (out []Event) {
	m.revision++
	switch c := cmd.(type) {
	case Acquire:
		s, out := m.arrive(c.Call, true, c.TTL, c.Name)
		if s == nil {
			return out
		}
		refused := Event{What: Refused, Session: c.Session, Number: c.Number, Quiet: m.quiet()}
		if h := m.holders(c.Key); len(h) > 0 {
			refused.Holder, refused.Token = h[0].Name, h[0].token
		}
		if i := slices.IndexFunc(m.wishes, func(w wish) bool { return w.Key == c.Key }); i >= 0 &&
			(m.wishes[i].Kind != c.Kind || m.wishes[i].Capacity != c.Capacity) {
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
		m.wishes = append(m.wishes, wish{c, 0, m.revision, false})
		granted := m.grant(c.Key)
		if granted == nil {
			granted = []Event{m.queued(c.Call, c.Key)}
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
		out = append(out, m.remove(func(w wish) bool { return w.Session == c.Session && w.Number == c.Target })...)
		s.results = slices.DeleteFunc(s.results, func(o outcome) bool { return o.number == c.Target })
		return append(out, m.finish(s, c.Number, done(c.Session, c.Number))...)
	case Release:
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
		s.ttl, s.fixed, s.silent = c.Hold, true, 0
		return append([]Event{fixed(c.Session, c.Hold)}, m.finish(s, c.Number, done(c.Session, c.Number))...)
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
			for _, key := range keys {
				out = append(out, m.grant(key)...)
			}
		}
	}
	return out
}

// report gives a session the place that it reports.
func (m *model) report(c Report) []Event {
	s, out := m.arrive(c.Call, true, c.TTL, c.Name)
	if s == nil {
		return out
	}
	refused := Event{What: Refused, Session: c.Session, Number: c.Number}
	refuse := func(why Reason) []Event {
		refused.Reason, refused.Quiet = why, m.quiet()
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
		i := slices.IndexFunc(m.wishes, func(w wish) bool { return w.Key == c.Key })
		return i >= 0 && (m.wishes[i].Kind != c.Kind || m.wishes[i].Capacity != c.Capacity)
	}
	refuseWaiters := func() {
		for _, w := range m.waiters(c.Key) {
			e := Event{What: Refused, Session: w.Session, Number: w.Number, Reason: Capacity}
			m.wishes = slices.DeleteFunc(m.wishes, func(o wish) bool { return o.Session == w.Session && o.Number == w.Number })
			out = append(out, m.finish(m.find(w.Session), w.Number, e)...)
		}
	}
	same := func(w wish) bool {
		return w.Session == c.Session && w.token == c.Token && w.token != 0 && w.Key == c.Key && w.Weight == c.Weight
	}
	if slices.ContainsFunc(m.wishes, same) {
		s.results = append(s.results, outcome{c.Number, c.Token, 0})
		return append(out, granted(c.Session, c.Number, c.Token))
	}
	if c.Token == 0 {
		older := slices.ContainsFunc(m.wishes, func(w wish) bool { return w.Key == c.Key && w.reported })
		if differs() && older {
			return refuse(Capacity)
		} else if differs() {
			refuseWaiters()
		}
	} else {
		if slices.ContainsFunc(m.wishes, func(w wish) bool { return w.Session == c.Session && w.token == c.Token }) {
			return refuse(Lost)
		}
		for {
			held := m.holders(c.Key)
			if differs() && len(held) == 0 {
				refuseWaiters()
			}
			if !differs() && m.room(c.Key, c.Weight) {
				break
			}
			low := slices.MinFunc(held, func(a, b wish) int { return cmp.Compare(a.token, b.token) })
			if low.token >= c.Token || low.Session == c.Session {
				return refuse(Lost)
			}
			out = append(out, m.end(low.Session)...)
		}
	}
	a := Acquire{Call: c.Call, Name: c.Name, Key: c.Key, Kind: c.Kind, Weight: c.Weight, Capacity: c.Capacity, Value: c.Value}
	m.wishes = append(m.wishes, wish{a, c.Token, c.Entered, true})
	if c.Token == 0 {
		return append(out, m.queued(c.Call, c.Key))
	}
	s = m.find(c.Session)
	s.results = append(s.results, outcome{c.Number, c.Token, 0})
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

// dump writes down everything that the model holds, in one order.
func (m *model) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d deleted %v now %v settles %v\n", m.revision, m.deleted, m.now, m.settles)
	slices.SortFunc(m.records, func(a, b record) int { return cmp.Compare(a.name, b.name) })
	for _, s := range m.records {
		slices.Sort(s.seen)
		slices.SortFunc(s.results, func(a, b outcome) int { return cmp.Compare(a.number, b.number) })
		fmt.Fprintf(&b, "%v %s ttl %v fixed %v silent %v since %d seen %v results %v\n",
			s.id, s.name, s.ttl, s.fixed, s.silent, s.minSince, s.seen, s.results)
	}
	keys := []string{}
	for _, w := range m.wishes {
		keys = append(keys, w.Key)
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		i := slices.IndexFunc(m.wishes, func(w wish) bool { return w.Key == key })
		fmt.Fprintf(&b, "%s kind %d capacity %d\n", key, m.wishes[i].Kind, m.wishes[i].Capacity)
		for _, w := range append(m.holders(key), m.waiters(key)...) {
			fmt.Fprintf(&b, "  %v %d weight %d token %d value %q entered %d %v\n", w.Session, w.Number, w.Weight, w.token, w.Value, w.entered, w.reported)
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
			results = append(results, outcome{n, r.token, r.refused})
		}
		slices.SortFunc(results, func(a, b outcome) int { return cmp.Compare(a.number, b.number) })
		fmt.Fprintf(&b, "%v %s ttl %v fixed %v silent %v since %d seen %v results %v\n",
			s.id, s.name, s.ttl, s.fixed, s.silent, s.minSince, seen, results)
	}
	keys := []string{}
	for key := range t.keys {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		e := t.keys[key]
		fmt.Fprintf(&b, "%s kind %d capacity %d\n", key, e.kind, e.capacity)
		for _, l := range []*list[*request]{&e.holders, &e.queue} {
			for r := l.first(); r != nil; r = r.place.next() {
				fmt.Fprintf(&b, "  %v %d weight %d token %d value %q entered %d %v\n",
					r.session.id, r.number, r.weight, r.token, r.value, r.entered, r.reported)
			}
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
	if t.settles != 0 && r.IntN(3) > 0 || r.IntN(40) == 0 {
		return s.report(c, who)
	}
	key, token := s.held(t, who)
	switch r.IntN(10) {
	case 0:
		return Cancel{Call: c, TTL: ttl, Name: who, Target: 1 + r.Uint64N(s.numbers[who]+1)}
	case 1:
		return Fix{Call: c, Key: key, Token: token, Hold: time.Duration(1+r.IntN(5)) * time.Second}
	case 2, 3, 4:
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

// report reports a place in an earlier table, mostly one that there was.
func (s *script) report(c Call, who string) Report {
	r := s.rand
	p := Report{Call: c, TTL: ttl, Name: who, Key: pick(r, "a", "b", "s", "t"), Weight: pick[int64](r, 1, Whole), Capacity: Whole}
	if p.Key >= "s" && r.IntN(20) > 0 {
		p.Kind, p.Capacity, p.Weight = Semaphore, 3, 1+r.Int64N(3)
	}
	switch r.IntN(4) {
	case 0:
		p.Entered = r.Uint64N(50)
	case 1:
		p.Hold = time.Duration(r.IntN(2)) * time.Second
		fallthrough
	default:
		p.Token = 1 + r.Uint64N(100)
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
	tokens := make([]uint64, 0, len(all.holds))
	for token := range all.holds {
		tokens = append(tokens, token)
	}
	slices.Sort(tokens)
	token = pick(s.rand, tokens...)
	return all.holds[token].entry.key, token
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
			got, want := table.Step(cmd, nil), m.step(cmd)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: Step(%+v) = %+v, want %+v", seed, i, cmd, got, want)
			}
			table.checkAll()
			if i%10 == 0 {
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
		"Granted", "Queued", "Done", "Opened", "Ended", "Fixed", "Reheard",
		"Refused 1", "Refused 2", "Refused 3", "Refused 4", "Refused 6", "Refused 7", "Refused 8",
	} {
		if told[kind] < int(seeds) {
			t.Errorf("only %d × %s in %d scripts", told[kind], kind, seeds)
		}
	}
}

func kindOf(e Event) string {
	names := []string{"", "Granted", "Queued", "Done", "Refused", "Opened", "Fixed", "Ended", "Reheard"}
	if e.What == Refused {
		return fmt.Sprintf("Refused %d", e.Reason)
	}
	return names[e.What]
}

package shard

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// A guest is a caller that is no node of the mesh, known by its name (P42). One node at a time carries its session, and
// any other one may carry it on: it then has the guest's places in every shard, under the same tokens. What orders the
// carriers is a number that the guest's home shard gives each of them; all other shards refuse an earlier one.
//
// The session of a guest has at most one record in a shard. A request of it has a tag, under which the guest, and a
// later carrier, finds it again.

// Limits of what a guest may do.
const (
	MaxTag      = 128 // bytes of a tag; at least one
	maxFinished = 64  // requests of one guest whose end a shard remembers, the latest
)

// carriedOn is the number of the first request that a session has taken over from an earlier carrier, and not claimed
// yet: above all numbers that a client uses.
const carriedOn = 1 << 62

// Carry makes a session the one that carries a guest, and opens its record: it takes over all that an earlier carrier's
// session had. Done, with the carrier's number, and with how much is unclaimed: how many requests the session took over
// under whose tags it has sent nothing since (those that are broken, which nobody can claim, do not count), and how many uses that end with it. Refused with Lost: a later carrier's session has a
// record; or Only was asked for, and no session of the guest has one. A session of the same node with a later number is the later carrier.
//
// Every other command of a session that carries a guest follows the answer to this one.
type Carry struct {
	Call
	TTL     time.Duration // of the session; a longer one of an earlier carrier stays
	Guest   string
	Carrier uint64 // the number of the carrier; zero: the table is to give it one, above those of all earlier ones
	Only    bool   // only if there is something to take over
	// Complete says that the session carried the guest in an earlier table of the shard, and reports all that it had there: what an earlier
	// carrier has reported is over (C8). It is ended instead of taken over.
	Complete bool
}

// Tagged is an Acquire, a Begin, or a Report, of a guest. If the guest has a request with this tag for the key, the
// command does not ask for another one, but claims that: it is answered as that one would be, and its number is from now
// on the number of that request. Refused with Capacity: that one asks for something else.
type Tagged struct {
	Command
	Tag string
}

// Claim claims a guest's request without asking for one: see Tagged. It is Granted or Queued. If the request has ended, the
// answer says how: Done, with the token that it had, Skipped, or Refused. Refused with Lost: there is none, or that is
// forgotten. Refused with Broke: it is broken, and has the token.
type Claim struct {
	Call
	Key string
	Tag string
}

func (Carry) number() uint64  { return wireCarry }
func (Claim) number() uint64  { return wireClaim }
func (Tagged) number() uint64 { return wireTagged }

func (a Tagged) client() (SessionID, uint64) { return ClientOf(a.Command) }

// guest is the part of a record that only those of guests have.
type guest struct {
	name     string
	carrier  uint64
	tagged   map[tagID]*request
	finished []finished // the latest last
	taken    uint64     // how many requests the session took over
	since    uint64     // the revision at which it did
}

// tagID names a request of a guest.
type tagID struct{ key, tag string }

// finished is a request of a guest that has ended.
type finished struct {
	tagID
	result
}

// carry carries out a Carry.
func (t *Table) carry(c Carry, out []Event) []Event {
	was := t.guests[c.Guest]
	open := &opening{c.TTL, c.Guest}
	if was != nil {
		open.ttl = max(c.TTL, was.ttl) // what was said to the guest of its lease stays true
	}
	if was == nil && c.Only || was != nil && !was.givesWay(c) {
		open = nil
	}
	s, out := t.begin(c.Call, open, out)
	switch {
	case s == nil:
		if e := &out[len(out)-1]; e.Reason == Lost {
			e.Quiet = t.Quiet()
		}
		return out
	case s.guest == nil && (len(s.results) > 0 || len(s.requests) > 0 || len(s.uses) > 0), s.guest != nil && s.guest.name != c.Guest:
		return append(out, t.refused(s, c.Number, Lost, nil)) // it is a record of something else
	case s.guest == nil:
		t.revision = max(t.revision, c.Carrier) // a number of this table is never of the future
		s.guest = &guest{name: c.Guest, carrier: cmp.Or(c.Carrier, t.revision), tagged: make(map[tagID]*request), since: t.revision}
		switch {
		case was != nil && c.Complete:
			out = t.end(was, out)
		case was != nil:
			out = t.takeOver(s, was, out)
		}
		t.guests[c.Guest] = s
	}
	s.results[c.Number] = result{what: Done, token: s.guest.carrier}
	return append(out, t.resultOf(s, c.Number))
}

// givesWay reports whether a Carry takes over the record of s.
func (s *session) givesWay(c Carry) bool {
	switch is := s.guest.carrier; {
	case c.Carrier == 0 || c.Carrier > is:
		return true
	case c.Carrier == is:
		return c.Session.Node == s.id.Node && c.Session.Number > s.id.Number
	}
	return false
}

// unclaimed counts what the session has taken over, and perhaps does not know of.
func (s *session) unclaimed() (n int) {
	for number := range s.requests { // order-free: they are counted
		if r := s.requests[number]; number >= carriedOn && !r.broken() {
			n++
		}
	}
	for u := range s.uses { // order-free: they are counted
		if !u.durable && u.stamp < s.guest.since {
			n++
		}
	}
	return n
}

// Fingerprint is a hash of what a request asks for, but for a semaphore's capacity, which may have been changed since. A Granted to a
// guest has it, so that a client which has claimed the request knows whether that is what it believes; only the first one in answer to a
// Report has none.
func Fingerprint(kind Kind, weight, capacity int64, op *Operation) uint64 {
	if kind == Semaphore {
		capacity = 0
	}
	h := mix(mix(mix(1, uint64(kind)), uint64(weight)), uint64(capacity))
	if op != nil {
		flags := uint64(op.Op) << 2
		if op.Durable {
			flags |= 1
		}
		if op.Alone {
			flags |= 2
		}
		h = mix(mix(h, flags), uint64(op.Retention))
		for _, text := range []string{op.Version, op.User} {
			h = mix(h, uint64(len(text)))
			for _, b := range []byte(text) {
				h = mix(h, uint64(b))
			}
		}
	}
	return max(h, 1)
}

// granted returns the event of a request that holds its key.
func (r *request) granted() Event {
	e := Event{What: Granted, Session: r.session.id, Number: r.number, Token: r.token, Capacity: r.size}
	if r.tag != "" && r.entry.kind == Semaphore {
		e.Capacity = r.grantedOf() // who has claimed it may name another one
	}
	if r.tag != "" {
		e.Entered = Fingerprint(r.entry.kind, r.weight, r.entry.capacity, r.op)
	}
	return e
}

// takeOver moves all that the session was has to s, which carries the same guest from now on, and ends its record.
func (t *Table) takeOver(s, was *session, out []Event) []Event {
	t.keepSession(was)
	s.guest.tagged, s.guest.finished = was.guest.tagged, was.guest.finished
	for _, r := range was.requestsInOrder() {
		t.keepEntry(r.entry)
		t.rename(r, s, carriedOn+s.guest.taken)
		s.guest.taken++
		s.seen.add(r.number)
		if r.token != 0 {
			s.holds[r.token] = r
		}
	}
	for _, u := range was.usesInOrder() {
		e := u.entry
		t.keepEntry(e)
		delete(e.by, u.useID)
		u.useID.session = s.id
		e.by[u.useID] = u
		u.of(s)
	}
	s.takeBreaches(was)
	was.requests, was.holds, was.uses = nil, nil, nil
	return t.erase(was, out)
}

// want is what a command with a tag asks for.
type want struct {
	kind             Kind
	weight, capacity int64
	op               *Operation // on a resource
}

// again answers a command whose tag the guest has used already, for the same key: known. Other sessions have no tags.
func (t *Table) again(s *session, number uint64, id tagID, a want, out []Event) (_ []Event, known bool) {
	if id.tag == "" {
		return out, false
	}
	if s.guest == nil {
		return append(out, t.refused(s, number, Lost, nil)), true
	}
	r := s.guest.tagged[id]
	switch {
	case r == nil:
		return out, false
	case r.entry.kind != a.kind || r.weight != a.weight || !r.entry.accepts(a.capacity) || a.op != nil && *a.op != *r.op:
		return append(out, t.refused(s, number, Capacity, r.entry)), true
	}
	return t.claim(r, number, out), true
}

// reported answers a Report of a guest's place that the table has already: known. It was reported by an earlier carrier. If that had not heard
// of the grant, reported returns the place in the queue, which the hold replaces.
func (t *Table) reported(s *session, c Report, tag string, out []Event) (place *request, _ []Event, known bool) {
	if tag == "" {
		return nil, out, false
	}
	if s.guest == nil {
		return nil, append(out, t.refused(s, c.Number, Lost, nil)), true
	}
	r := s.guest.tagged[tagID{c.Key, tag}]
	if r == nil || c.Token > r.token {
		return r, out, false
	}
	return nil, t.claim(r, c.Number, out), true
}

// claim makes a number that of a guest's request, and appends its answer.
func (t *Table) claim(r *request, number uint64, out []Event) []Event {
	s := r.session
	if r.broken() {
		return t.isBroken(s, number, r.token, out) // and so it is not claimed
	}
	t.keepEntry(r.entry)
	delete(s.requests, r.number)
	delete(s.results, r.number)
	t.rename(r, s, number)
	if r.token == 0 {
		return append(out, t.queued(r))
	}
	s.results[number] = result{what: Granted, token: r.token}
	return append(out, r.granted())
}

// rename makes a request that of a session, under a number.
func (t *Table) rename(r *request, s *session, number uint64) {
	was, wasNumber := r.session.id, r.number
	r.session, r.number = s, number
	s.requests[number] = r
	if t.observe != nil {
		d := t.decision(Renamed, r)
		d.Was, d.WasNumber = was, wasNumber
		t.observe(d)
	}
}

// reclaim carries out a Claim.
func (t *Table) reclaim(c Claim, out []Event) []Event {
	s, out := t.begin(c.Call, nil, out)
	if s == nil {
		return out
	}
	if s.guest == nil {
		return append(out, t.refused(s, c.Number, Lost, nil))
	}
	id := tagID{c.Key, c.Tag}
	if r := s.guest.tagged[id]; r != nil {
		return t.claim(r, c.Number, out)
	}
	for _, f := range slices.Backward(s.guest.finished) {
		if f.tagID == id {
			s.results[c.Number] = f.result
			return append(out, t.resultOf(s, c.Number))
		}
	}
	return append(out, t.refused(s, c.Number, Lost, t.find(c.Key)))
}

// ended notes how a guest's request ended, other than by a Cancel.
func (s *session) ended(r *request, how result) {
	if g := s.guest; r.tag != "" {
		g.finished = append(g.finished[max(0, len(g.finished)+1-maxFinished):], finished{tagID{r.entry.key, r.tag}, how})
	}
}

// name gives a request of a guest its tag, under which the guest has none for that key. How an earlier one ended is forgotten: if this one
// is taken back, the guest has made none.
func (r *request) name(tag string) {
	if r.tag = tag; tag == "" {
		return
	}
	g, id := r.session.guest, tagID{r.entry.key, tag}
	g.tagged[id] = r
	g.finished = slices.DeleteFunc(g.finished, func(f finished) bool { return f.tagID == id })
}

func (a *Carry) fields(c *wire.Codec) {
	a.Call.fields(c)
	duration(c, &a.TTL)
	c.String(&a.Guest, MaxName)
	c.Check(a.Guest != "", "a guest without a name")
	c.Uint(&a.Carrier, maxKnown)
	c.Bool(&a.Only)
	c.Bool(&a.Complete)
}

func (a *Claim) fields(c *wire.Codec) {
	a.Call.fields(c)
	key(c, &a.Key)
	tag(c, &a.Tag)
}

func (a *Tagged) fields(c *wire.Codec) {
	tag(c, &a.Tag)
	contained(c, &a.Command)
	switch cmd := a.Command.(type) {
	case Acquire, Begin:
	case Report:
		c.Check(cmd.Hold == 0 && !cmd.Uses, "a tag of what a guest does not report")
	default:
		c.Fail("a tag of another command")
	}
}

func tag(c *wire.Codec, t *string) {
	c.String(t, MaxTag)
	c.Check(*t != "", "empty tag")
}

// guestImage is the record of a session that carries a guest.
type guestImage struct {
	*session
	tags map[uint64]string // of its requests, by number
}

func guestImageOf(s *session) *guestImage {
	g := &guestImage{s, make(map[uint64]string, len(s.guest.tagged))}
	for id, r := range s.guest.tagged { // order-free: a map again
		g.tags[r.number] = id.tag
	}
	return g
}

// Fields is the record's part of a snapshot.
func (g *guestImage) Fields(c *wire.Codec) {
	t := c.Begin()
	g.session.Fields(c)
	c.End(t)
	if c.Reads() {
		g.guest, g.tags = &guest{tagged: make(map[tagID]*request)}, make(map[uint64]string)
	}
	c.String(&g.guest.name, MaxName)
	c.Uint(&g.guest.carrier, maxRevision)
	c.Uint(&g.guest.taken, anyUint)
	c.Uint(&g.guest.since, maxRevision)
	order := slices.Sorted(maps.Keys(g.tags))
	n := c.Array(2*len(order), 1<<22)
	c.Check(n%2 == 0, "part of a tag")
	if c.Reads() {
		order = make([]uint64, n/2)
	}
	for _, number := range order {
		name := g.tags[number]
		c.Uint(&number, anyUint)
		tag(c, &name)
		c.Check(g.seen.has(number), "a tag of a number that never came")
		g.tags[number] = name
	}
	c.Check(len(g.tags) == len(order), "a tag twice")
	n = c.Array(5*len(g.guest.finished), 5*maxFinished)
	c.Check(n%5 == 0, "part of an ended request")
	if c.Reads() {
		g.guest.finished = make([]finished, n/5)
	}
	for i := range g.guest.finished {
		f := &g.guest.finished[i]
		key(c, &f.key)
		tag(c, &f.tag)
		wire.Number(c, &f.what, uint64(Skipped))
		c.Uint(&f.token, anyUint)
		wire.Number(c, &f.refused, uint64(lastReason))
	}
	c.Check(g.guest.name != "" && g.guest.carrier != 0, "a guest without a name")
}

// guest takes over what a snapshot says of a guest whose session has a record by now.
func (rs *Restore) guest(c *wire.Codec, read *guestImage) {
	s := rs.t.sessions[read.id]
	s.guest = read.guest
	c.Check(rs.t.guests[s.guest.name] == nil, "a guest twice")
	rs.t.guests[s.guest.name] = s
	rs.tags[s] = read.tags
	for n, r := range s.requests { // order-free: each is judged alone
		rs.tag(c, n, r)
	}
}

// tag gives a request the tag that its record, if that has come, says it has.
func (rs *Restore) tag(c *wire.Codec, number uint64, r *request) {
	name, tagged := rs.tags[r.session][number]
	if !tagged {
		return
	}
	delete(rs.tags[r.session], number)
	c.Check(r.session.guest.tagged[tagID{r.entry.key, name}] == nil, "a tag twice")
	r.name(name)
}

// untagged reports whether a record tells of a tag whose request has not come.
func (rs *Restore) untagged() bool {
	for _, rest := range rs.tags { // order-free: whether there is one
		if len(rest) > 0 {
			return true
		}
	}
	return false
}

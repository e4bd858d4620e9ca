package shard

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/lockmesh/mesh/internal/wire"
)

// tableVersion is the version of the table's rules and of its snapshots (P41).
const tableVersion = 1

// image is the part of an entry or a session record that is for snapshots.
type image struct {
	born uint64 // the revision that made it
	kept *Cut   // the cut that already has its image
}

// Cut is a snapshot that is being taken: the table as it was when the cut was made,
// encoded in steps while the table goes on. What a command is about to change is
// encoded first, as it was (copy on write).
type Cut struct {
	t       *Table
	at      uint64 // the revision of the cut
	buf     []byte
	entry   *place[*entry] // the next to visit, skipped if it is younger than the cut
	record  *place[*session]
	written counts
	done    bool
}

// Cut begins a snapshot. A table takes one at a time: an earlier one that is not
// finished is stopped.
func (t *Table) Cut() *Cut {
	c := &Cut{t: t, at: t.revision, entry: t.entries.head, record: t.records.head}
	c.buf = wire.Append(nil, (*header)(t))
	t.cut = c
	return c
}

// Next returns the next bytes of the snapshot, at most limit of them, and whether they
// are the last. It must not be called once the snapshot has been stopped.
func (c *Cut) Next(limit int) (chunk []byte, last bool) {
	if !c.done && c.t.cut != c {
		panic("shard: Next of a snapshot that was stopped")
	}
	for len(c.buf) < limit && c.record != nil {
		c.t.keepSession(c.record.value)
	}
	for len(c.buf) < limit && c.entry != nil && c.record == nil {
		c.t.keepEntry(c.entry.value)
	}
	if c.record == nil && c.entry == nil && !c.done {
		c.done = true
		c.buf = appendImage(c.buf, imageEnd, &c.written)
		if c.t.cut == c {
			c.t.cut = nil
		}
	}
	n := min(limit, len(c.buf))
	chunk = slices.Clone(c.buf[:n])
	c.buf = c.buf[n:]
	return chunk, c.done && len(c.buf) == 0
}

// Stop stops the snapshot.
func (c *Cut) Stop() {
	if c.t.cut == c {
		c.t.cut = nil
	}
}

// keepEntry must be called before e changes or is deleted: it writes e's image into the
// snapshot that is being taken.
func (t *Table) keepEntry(e *entry) {
	if c := t.cut; c != nil && visit(c, &c.entry, &e.place, &e.image) {
		c.written.entries++
		c.buf = appendImage(c.buf, imageEntry, &entryImage{entry: e})
	}
}

// keepSession is keepEntry for a session record.
func (t *Table) keepSession(s *session) {
	if c := t.cut; c != nil && visit(c, &c.record, &s.place, &s.image) {
		c.written.records++
		c.buf = appendRecord(c.buf, s)
	}
}

// visit takes a cut beyond an element of one of its lists, and reports whether the element's image is to be written now.
func visit[T any](c *Cut, next **place[T], p *place[T], i *image) bool {
	if *next == p { // it may be about to leave the list
		*next = p.succ
	}
	written := i.kept == c
	i.kept = c
	return !written && i.born <= c.at
}

// header is the beginning of a snapshot.
type header Table

// Fields is its wire form, an array.
func (h *header) Fields(c *wire.Codec) {
	version := uint64(tableVersion)
	t := c.Begin()
	c.Uint(&version, anyUint)
	c.Check(version == tableVersion, "unknown version of the table")
	c.Uint(&h.revision, maxRevision)
	n := c.Array(len(h.deleted), len(h.deleted))
	c.Check(n == len(h.deleted), "deletions are missing")
	for i := range h.deleted {
		c.Uint(&h.deleted[i], h.revision)
	}
	wire.Number(c, &h.now, math.MaxInt64) // a shard may be led for longer than any lease lasts
	wire.Number(c, &h.settles, math.MaxInt64)
	c.Uint(&h.digest, anyUint)
	c.End(t)
}

// The kinds of images in a snapshot. Each is an array that begins with its kind.
const (
	imageRecord = iota + 1
	imageEntry
	imageEnd
	imageGuest
)

// appendRecord appends the image of a session's record.
func appendRecord(b []byte, s *session) []byte {
	if s.guest != nil {
		return appendImage(b, imageGuest, guestImageOf(s))
	}
	return appendImage(b, imageRecord, s)
}

func appendImage(b []byte, kind uint64, m wire.Message) []byte {
	c := wire.Writing(b)
	t := c.Begin()
	c.Uint(&kind, anyUint)
	m.Fields(&c)
	c.End(t)
	return c.Written()
}

// Fields is the record's part of a snapshot.
func (s *session) Fields(c *wire.Codec) {
	s.id.Fields(c)
	c.String(&s.name, MaxName)
	duration(c, &s.ttl)
	c.Bool(&s.fixed)
	duration(c, &s.silent)
	c.Uint(&s.minSince, anyUint)
	s.seen.fields(c)
	order := slices.Sorted(maps.Keys(s.results))
	n := c.Array(4*len(order), 1<<22)
	c.Check(n%4 == 0, "part of a result")
	if c.Reads() {
		order, s.results = make([]uint64, n/4), make(map[uint64]result, n/4)
	}
	for _, number := range order {
		res := s.results[number]
		c.Uint(&number, anyUint)
		wire.Number(c, &res.what, uint64(Skipped))
		c.Uint(&res.token, anyUint)
		wire.Number(c, &res.refused, uint64(lastReason))
		c.Check(s.seen.has(number), "a result of a number that never came")
		if c.Reads() {
			s.results[number] = res
		}
	}
	c.Check(len(s.results) == len(order), "a result twice")
	s.breaches(c)
}

func (s *numbers) fields(c *wire.Codec) {
	n := c.Array(1+2*len(s.ranges), 1<<20)
	c.Check(n%2 == 1, "part of a range")
	c.Uint(&s.floor, anyUint)
	if c.Reads() {
		s.ranges = make([]span, n/2)
	}
	last := s.floor
	for i := range s.ranges {
		p := &s.ranges[i]
		c.Uint(&p.first, anyUint)
		c.Uint(&p.last, anyUint)
		c.Check(p.first <= p.last && p.first > last && p.first-last >= 2, "ranges out of order")
		last = p.last
	}
}

// entryImage is an entry with its requests: the holders, then the queue.
type entryImage struct {
	*entry
	requests []requestImage
}

// requestImage is a request and, since its session may not be there yet, whose it is.
type requestImage struct {
	*request
	id SessionID
}

// Fields is the entry's part of a snapshot.
func (e *entryImage) Fields(c *wire.Codec) {
	key(c, &e.key)
	wire.Number(c, &e.kind, uint64(lastKind))
	wire.Number(c, &e.capacity, MaxWeight)
	c.Uint(&e.born, maxRevision)
	if e.kind == Semaphore {
		e.sizes(c)
	}
	n := c.Array(e.holders.len+e.queue.len, 1<<22)
	if c.Reads() {
		for range n {
			q := requestImage{request: &request{entry: e.entry}}
			if q.fields(c); c.Err() != nil {
				return
			}
			q.value = slices.Clone(q.value)
			e.requests = append(e.requests, q)
		}
	} else {
		for _, l := range []list[*request]{e.holders, e.queue} {
			for r := l.first(); r != nil; r = r.place.next() {
				q := requestImage{r, r.session.id}
				q.fields(c)
			}
		}
	}
	if e.kind.remembers() {
		if c.Reads() {
			e.resource = &resource{by: make(map[useID]*use)}
		}
		e.resource.fields(c, e.kind)
	}
}

// fields is a resource's part of an entry's image.
func (e *resource) fields(c *wire.Codec, kind Kind) {
	if kind == Once {
		c.Uint(&e.failures, anyUint)
	}
	for i := range e.done {
		if (Op(i) == Run) == (kind == Resource) {
			continue
		}
		n := 0
		if e.done[i] != nil {
			n = 3
		}
		if n = c.Array(n, 3); n == 0 {
			continue
		}
		c.Check(n == 3, "part of a completion")
		if c.Reads() {
			e.done[i] = &completion{}
		}
		d := e.done[i]
		c.String(&d.version, MaxVersion)
		wire.Number(c, &d.at, math.MaxInt64)
		wire.Number(c, &d.until, math.MaxInt64)
	}
	if kind == Latch {
		e.arrivals.fields(c)
	}
	if kind != Resource {
		return
	}
	n := c.Array(e.uses.len, 1<<22)
	for u := e.uses.first(); n > 0; n-- {
		if c.Reads() {
			u = &use{}
			e.uses.push(u, &u.place)
		}
		if u.fields(c); c.Err() != nil {
			return
		}
		u = u.place.next()
	}
}

func (u *use) fields(c *wire.Codec) {
	t := c.Begin()
	c.String(&u.user, MaxName)
	u.useID.session.Fields(c)
	c.Bool(&u.durable)
	c.Bool(&u.several)
	c.Uint(&u.stamp, maxRevision)
	c.Check(u.user != "" && u.stamp != 0 && (u.durable || u.useID.session != SessionID{}), "a use of nobody")
	c.Check(!u.several || u.useID.session == SessionID{}, "a use of several sessions, in one")
	c.End(t)
}

func (q *requestImage) fields(c *wire.Codec) {
	t := c.Begin()
	q.id.Fields(c)
	c.Uint(&q.number, anyUint)
	wire.Number(c, &q.weight, MaxWeight)
	c.Uint(&q.token, anyUint)
	c.Bytes(&q.value, MaxValue)
	c.Uint(&q.entered, maxRevision)
	c.Bool(&q.reported)
	if kind := q.entry.kind; kind.operates() {
		if c.Reads() {
			q.op = &Operation{}
		}
		q.op.fields(c)
		c.Check(q.op.Op.kind() == kind, "an operation of another kind")
	} else if c.Reads() {
		q.op = q.entry.waits()
	}
	if q.entry.kind == Semaphore && q.token != 0 {
		wire.Number(c, &q.size, MaxWeight)
		c.Check(q.size == 0 || q.weight <= q.size && len(q.entry.former) > 0, "a hold of more than there was")
	}
	if q.entry.kind == Election {
		c.Uint(&q.sequence, anyUint)
		c.Check(q.sequence == 0 || q.token != 0, "a candidate that has proclaimed something")
	}
	if q.scope != nil || q.token == 0 && c.Further(t) {
		q.within(c)
	}
	c.End(t)
}

// counts is how many images a snapshot has. They are its end.
type counts struct{ records, entries int }

// Fields is the end of a snapshot.
func (n *counts) Fields(c *wire.Codec) {
	wire.Number(c, &n.records, math.MaxInt64)
	wire.Number(c, &n.entries, math.MaxInt64)
}

// maxRevision is the largest number that JSON and JavaScript keep exactly (P17).
const maxRevision = 1<<53 - 1

// Restore builds a table from a snapshot, in steps.
type Restore struct {
	t            *Table
	rest         []byte // bytes of an image that has not arrived completely
	begun        bool
	ended        bool
	placeholders int                            // sessions that an entry named and whose record has not come yet
	tags         map[*session]map[uint64]string // those of guests' requests that have not come yet, by number
	taken        counts
	retryAt      int // rest is read again once it is this long
	err          error
}

// NewRestore returns a Restore whose table will have f's Check and Observe; all else comes from the snapshot.
func NewRestore(f Founding) *Restore {
	return &Restore{t: NewTable(f), tags: make(map[*session]map[uint64]string)}
}

// Add adds the next bytes of a snapshot. If they are malformed, this call, a later one or Table notices that: it returns an error that
// wraps wire.ErrMalformed, and so does every call after it.
func (rs *Restore) Add(chunk []byte) error {
	rs.rest = append(rs.rest, chunk...)
	if len(rs.rest) >= rs.retryAt {
		rs.read()
	}
	return rs.err
}

// read reads the complete images that have arrived. An incomplete image is read again, from
// its beginning, once twice as many bytes are there: the longest image, a key with its whole
// queue, may take many chunks.
func (rs *Restore) read() {
	for rs.err == nil && len(rs.rest) > 0 && !rs.ended {
		r := wire.NewReader(rs.rest)
		rs.next(r)
		switch err := r.Err(); {
		case err == nil:
			rs.rest, rs.retryAt = r.Rest(), 0
		case errors.Is(err, wire.ErrShort) && len(rs.rest) <= maxImage:
			rs.retryAt = 2 * len(rs.rest)
			return
		default:
			rs.err = err
		}
	}
	if len(rs.rest) > 0 && rs.err == nil { // something behind the end
		rs.err = wire.ErrMalformed
	}
}

// maxImage bounds an image that is not complete yet. A key with MaxWaiters waiters and as many
// holders, all with the largest value, takes half of it.
const maxImage = 1 << 30

// Table returns the restored table, once all chunks have been added. If they are malformed, or some are missing, it returns an error that
// wraps wire.ErrMalformed.
func (rs *Restore) Table() (*Table, error) {
	rs.read()
	if rs.err == nil && (!rs.ended || rs.placeholders != 0 || rs.untagged() || rs.t.misbroken()) {
		rs.err = wire.ErrMalformed
	}
	if rs.err != nil {
		return nil, rs.err
	}
	// Those that changed while the snapshot was taken came first.
	rs.t.entries.sort(func(a, b *entry) int { return inOrderOfBirth(a, b.born, b.key) })
	return rs.t, nil
}

// next reads one image, and takes it over once it is complete.
func (rs *Restore) next(r *wire.Reader) {
	c := wire.Reading(r)
	if !rs.begun {
		(*header)(rs.t).Fields(&c)
		rs.begun = c.Err() == nil
	} else {
		rs.image(&c)
	}
	*r = c.Reader
}

func (rs *Restore) image(c *wire.Codec) {
	t := c.Begin()
	var kind uint64
	c.Uint(&kind, anyUint)
	switch kind {
	case imageRecord:
		s := &session{}
		if s.Fields(c); c.Err() == nil {
			rs.record(c, s)
		}
	case imageGuest:
		g := &guestImage{session: &session{}}
		if g.Fields(c); c.Err() == nil {
			rs.record(c, g.session)
		}
		if c.Err() == nil {
			rs.guest(c, g)
		}
	case imageEntry:
		e := &entryImage{entry: &entry{}}
		if e.Fields(c); c.Err() == nil {
			rs.entry(c, e)
		}
	case imageEnd:
		var all counts
		all.Fields(c)
		c.Check(all == rs.taken, "an image is missing")
		rs.ended = c.Err() == nil
	default:
		c.Fail("unknown image")
	}
	c.End(t)
}

func (rs *Restore) record(c *wire.Codec, read *session) {
	for _, res := range read.results { // order-free: each is judged alone
		c.Check(res.token <= rs.t.revision, "a result of the future")
	}
	for _, b := range read.broken {
		c.Check(b.Token <= rs.t.revision, "a breach of the future")
	}
	s := rs.t.sessions[read.id]
	switch {
	case s == nil:
		s = rs.placeholder(read.id)
	case s.results != nil:
		c.Fail("a session twice")
	default:
		rs.placeholders--
		for n := range s.requests { // order-free: each is judged alone
			c.Check(read.seen.has(n), "a request that never arrived")
		}
	}
	s.name, s.ttl, s.fixed, s.silent, s.minSince = read.name, read.ttl, read.fixed, read.silent, read.minSince
	s.seen, s.results, s.broken = read.seen, read.results, read.broken
	rs.taken.records++
}

// placeholder makes a session that is only named so far; its record follows.
func (rs *Restore) placeholder(id SessionID) *session {
	s := &session{id: id, requests: make(map[uint64]*request), holds: make(map[uint64]*request)}
	rs.t.sessions[id] = s
	rs.t.records.push(s, &s.place)
	return s
}

func (rs *Restore) entry(c *wire.Codec, read *entryImage) {
	e := read.entry
	if rs.t.keys[e.key] != nil {
		c.Fail("a key twice")
		return
	}
	for _, q := range read.requests {
		s := rs.session(q.id)
		if !rs.fits(e, s, q.request) {
			c.Fail("a request out of place")
			return
		}
		q.session = s
		s.requests[q.number] = q.request
		rs.tag(c, q.number, q.request)
		if q.token != 0 {
			s.holds[q.token] = q.request
			e.taken += q.weight
			e.holders.push(q.request, &q.place)
		} else {
			e.queue.push(q.request, &q.place)
			rs.t.link(q.request)
		}
	}
	fits := rs.t.settles == 0 && e.due()
	switch {
	case e.kind.remembers():
		if e.walking = fits; fits {
			rs.t.walks = append(rs.t.walks, e)
		}
		rs.resource(c, e)
	default:
		c.Check(len(read.requests) > 0 && !fits, "a key out of place")
	}
	c.Check(share(e.kind, 1, e.capacity) && e.born > 0 && e.born <= rs.t.revision, "a key out of place")
	if c.Err() != nil {
		return
	}
	rs.t.keys[e.key] = e
	rs.t.entries.push(e, &e.place)
	rs.taken.entries++
}

// session returns a session that an entry names.
func (rs *Restore) session(id SessionID) *session {
	s := rs.t.sessions[id]
	if s == nil {
		s = rs.placeholder(id)
		rs.placeholders++
	}
	return s
}

// resource takes over what an entry remembers, and who uses it.
func (rs *Restore) resource(c *wire.Codec, e *entry) {
	last := uint64(0)
	for u := e.uses.first(); u != nil; u = u.place.next() {
		u.entry = e
		c.Check(e.by[u.useID] == nil && u.stamp <= rs.t.revision && u.stamp >= last, "a use out of place")
		e.by[u.useID], last = u, u.stamp
		if id := u.useID.session; id != (SessionID{}) {
			u.of(rs.session(id))
		}
	}
	for _, d := range e.done {
		c.Check(d == nil || d.at <= d.until, "what was done after it is forgotten")
	}
	c.Check(len(e.names) == 0 || int64(len(e.names)) < e.capacity && e.done[Run] == nil && e.last <= rs.t.now, "arrivals at what is open")
	if rs.t.remind(e); e.idle() {
		c.Fail("a resource out of place")
	}
}

// fits reports whether q may come next in e: the holders in the order of their tokens, once the
// table may grant, with room for each, and then the waiters.
func (rs *Restore) fits(e *entry, s *session, q *request) bool {
	var last uint64
	if e.holders.len > 0 {
		last = e.holders.tail.value.token
	}
	switch {
	case q.number == 0 || s.requests[q.number] != nil || s.results != nil && !s.seen.has(q.number),
		q.weight < 1 || q.weight > e.capacity && (q.token == 0 || len(e.former) == 0), e.kind == Latch && q.token != 0:
		return false
	case q.token == 0:
		return e.queue.len < MaxWaiters
	}
	return e.queue.len == 0 && (q.token > last || rs.t.settles != 0) && q.token <= rs.t.revision && s.holds[q.token] == nil &&
		(e.taken+q.weight <= e.capacity || len(e.former) > 0)
}

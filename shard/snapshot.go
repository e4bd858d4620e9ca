package shard

import (
	"errors"
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
	entries int // images written
	records int
	done    bool
}

// Cut begins a snapshot. A table takes one at a time: an earlier one that is not
// finished is stopped.
func (t *Table) Cut() *Cut {
	c := &Cut{t: t, at: t.revision, entry: t.entries.head, record: t.records.head}
	b := wire.AppendArray(nil, 6)
	b = wire.AppendUint(b, tableVersion)
	b = wire.AppendUint(b, t.revision)
	b = t.deleted.append(b)
	b = appendDuration(b, t.now)
	b = appendDuration(b, t.settles)
	c.buf = wire.AppendUint(b, t.digest)
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
		p := c.record
		c.record = p.succ
		c.t.keepSession(p.value)
	}
	for len(c.buf) < limit && c.entry != nil && c.record == nil {
		p := c.entry
		c.entry = p.succ
		c.t.keepEntry(p.value)
	}
	if c.record == nil && c.entry == nil && !c.done {
		c.done = true
		c.buf = wire.AppendArray(c.buf, 3)
		c.buf = wire.AppendUint(c.buf, imageEnd)
		c.buf = wire.AppendUint(c.buf, uint64(c.records))
		c.buf = wire.AppendUint(c.buf, uint64(c.entries))
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
	c := t.cut
	if c == nil {
		return
	}
	if c.entry == &e.place { // e may be about to leave the list
		c.entry = e.place.succ
	}
	if e.kept == c {
		return
	}
	e.kept = c
	if e.born <= c.at {
		c.entries++
		c.buf = appendEntry(c.buf, e)
	}
}

// keepSession is keepEntry for a session record.
func (t *Table) keepSession(s *session) {
	c := t.cut
	if c == nil {
		return
	}
	if c.record == &s.place {
		c.record = s.place.succ
	}
	if s.kept == c {
		return
	}
	s.kept = c
	if s.born <= c.at {
		c.records++
		c.buf = appendRecord(c.buf, s)
	}
}

// The kinds of images in a snapshot.
const (
	imageRecord = iota + 1
	imageEntry
	imageEnd
)

func appendRecord(b []byte, s *session) []byte {
	b = wire.AppendArray(b, 10)
	b = wire.AppendUint(b, imageRecord)
	b = wire.AppendUint(b, s.id.Node)
	b = wire.AppendUint(b, s.id.Number)
	b = wire.AppendString(b, s.name)
	b = appendDuration(b, s.ttl)
	b = wire.AppendBool(b, s.fixed)
	b = appendDuration(b, s.silent)
	b = wire.AppendUint(b, s.minSince)
	b = wire.AppendArray(b, 1+2*len(s.seen.ranges))
	b = wire.AppendUint(b, s.seen.floor)
	for _, r := range s.seen.ranges {
		b = wire.AppendUint(wire.AppendUint(b, r.first), r.last)
	}
	order := make([]uint64, 0, len(s.results))
	for n := range s.results { // order-free: sorted below
		order = append(order, n)
	}
	slices.Sort(order)
	b = wire.AppendArray(b, 3*len(order))
	for _, n := range order {
		b = wire.AppendUint(b, n)
		b = wire.AppendUint(b, s.results[n].token)
		b = wire.AppendUint(b, uint64(s.results[n].refused))
	}
	return b
}

func appendEntry(b []byte, e *entry) []byte {
	b = wire.AppendArray(b, 5)
	b = wire.AppendUint(b, imageEntry)
	b = wire.AppendString(b, e.key)
	b = wire.AppendUint(b, uint64(e.kind))
	b = wire.AppendUint(b, uint64(e.capacity))
	b = wire.AppendArray(b, e.holders.len+e.queue.len)
	for r := e.holders.first(); r != nil; r = r.place.next() {
		b = appendRequest(b, r)
	}
	for r := e.queue.first(); r != nil; r = r.place.next() {
		b = appendRequest(b, r)
	}
	return b
}

func appendRequest(b []byte, r *request) []byte {
	b = wire.AppendArray(b, 6)
	b = wire.AppendUint(b, r.session.id.Node)
	b = wire.AppendUint(b, r.session.id.Number)
	b = wire.AppendUint(b, r.number)
	b = wire.AppendUint(b, uint64(r.weight))
	b = wire.AppendUint(b, r.token)
	return wire.AppendBytes(b, r.value)
}

// maxRevision is the largest number that JSON and JavaScript keep exactly (P17).
const maxRevision = 1<<53 - 1

// Restore builds a table from a snapshot, in steps.
type Restore struct {
	t            *Table
	rest         []byte // bytes of an image that has not arrived completely
	at           uint64 // the revision of the snapshot
	begun        bool
	ended        bool
	placeholders int // sessions that an entry named and whose record has not come yet
	records      int
	entries      int
	retryAt      int // rest is read again once it is this long
	err          error
}

// NewRestore returns a Restore whose table will have f's switches.
func NewRestore(f Founding) *Restore { return &Restore{t: NewTable(f)} }

// Add adds the next bytes of a snapshot. If they are malformed, this and every later call
// return an error that wraps wire.ErrMalformed.
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

// Table returns the restored table, once all chunks have been added.
func (rs *Restore) Table() (*Table, error) {
	rs.read()
	if rs.err == nil && (!rs.ended || rs.placeholders != 0) {
		rs.err = wire.ErrMalformed
	}
	if rs.err != nil {
		return nil, rs.err
	}
	return rs.t, nil
}

func (rs *Restore) next(r *wire.Reader) {
	t := rs.t
	if !rs.begun {
		r.Tuple(6)
		if v := r.Uint(anyUint); r.Err() == nil && v != tableVersion {
			r.Fail("unknown version of the table")
		}
		revision := r.Uint(maxRevision)
		deleted := readDeletions(r, revision)
		now, settles, digest := readTime(r), readTime(r), r.Uint(anyUint)
		if r.Err() == nil {
			rs.begun, rs.at = true, revision
			t.revision, t.deleted, t.now, t.settles, t.digest = revision, deleted, now, settles, digest
		}
		return
	}
	n := r.Array(10)
	switch kind := r.Uint(anyUint); {
	case r.Err() != nil:
	case kind == imageRecord && n == 10:
		rs.record(r)
	case kind == imageEntry && n == 5:
		rs.entry(r)
	case kind == imageEnd && n == 3:
		if r.Uint(anyUint) != uint64(rs.records) || r.Uint(anyUint) != uint64(rs.entries) {
			r.Fail("an image is missing")
		}
		rs.ended = r.Err() == nil
	default:
		r.Fail("unknown image")
	}
}

func (rs *Restore) record(r *wire.Reader) {
	id := readSession(r)
	name, ttl, fixed := r.String(MaxName), readDuration(r), r.Bool()
	silent, minSince := readDuration(r), r.Uint(anyUint)
	seen := readNumbers(r)
	n := r.Array(1 << 22)
	if n%3 != 0 {
		r.Fail("part of a result")
	}
	results := make(map[uint64]result, n/3)
	for range n / 3 {
		number, res := r.Uint(anyUint), result{r.Uint(anyUint), Reason(r.Uint(uint64(lastReason)))}
		if _, twice := results[number]; twice || !seen.has(number) || res.token > rs.at {
			r.Fail("a result out of place")
		}
		results[number] = res
	}
	if r.Err() != nil {
		return
	}
	s := rs.t.sessions[id]
	switch {
	case s == nil:
		s = rs.placeholder(id)
	case s.results != nil:
		r.Fail("a session twice")
		return
	default:
		rs.placeholders--
		for n := range s.requests { // order-free: each is judged alone
			if !seen.has(n) {
				r.Fail("a request that never arrived")
				return
			}
		}
	}
	s.name, s.ttl, s.fixed, s.silent, s.minSince, s.seen, s.results = name, ttl, fixed, silent, minSince, seen, results
	rs.records++
}

func readNumbers(r *wire.Reader) numbers {
	n := r.Array(1 << 20)
	if n%2 != 1 {
		r.Fail("part of a range")
		return numbers{}
	}
	s := numbers{floor: r.Uint(anyUint), ranges: make([]span, n/2)}
	last := s.floor
	for i := range s.ranges {
		p := span{r.Uint(anyUint), r.Uint(anyUint)}
		if p.last < p.first || p.first <= last || p.first-last < 2 {
			r.Fail("ranges out of order")
		}
		s.ranges[i], last = p, p.last
	}
	return s
}

// placeholder makes a session that is only named so far; its record follows.
func (rs *Restore) placeholder(id SessionID) *session {
	s := &session{id: id, requests: make(map[uint64]*request), holds: make(map[uint64]*request)}
	rs.t.sessions[id] = s
	rs.t.records.push(s, &s.place)
	return s
}

func (rs *Restore) entry(r *wire.Reader) {
	e := &entry{key: readKey(r), kind: Kind(r.Uint(uint64(Semaphore))), capacity: int64(r.Uint(MaxWeight))}
	n := r.Array(1 << 22)
	type line struct {
		id SessionID
		r  *request
	}
	lines := make([]line, 0, min(n, 1024))
	for range n {
		r.Tuple(6)
		lines = append(lines, line{readSession(r), &request{
			entry: e, number: r.Uint(anyUint), weight: int64(r.Uint(MaxWeight)), token: r.Uint(anyUint),
			value: slices.Clone(r.Bytes(MaxValue)),
		}})
		if r.Err() != nil {
			return
		}
	}
	if r.Err() != nil {
		return
	}
	if rs.t.keys[e.key] != nil {
		r.Fail("a key twice")
		return
	}
	for _, l := range lines {
		s := rs.t.sessions[l.id]
		if s == nil {
			s = rs.placeholder(l.id)
			rs.placeholders++
		}
		if !rs.fits(e, s, l.r) {
			r.Fail("a request out of place")
			return
		}
		l.r.session = s
		s.requests[l.r.number] = l.r
		if l.r.token != 0 {
			s.holds[l.r.token] = l.r
			e.used += l.r.weight
			e.holders.push(l.r, &l.r.place)
		} else {
			e.queue.push(l.r, &l.r.place)
		}
	}
	head := e.queue.first()
	if n == 0 || e.kind == RW && e.capacity != Whole ||
		head != nil && rs.t.settles == 0 && e.used+head.weight <= e.capacity {
		r.Fail("a key out of place")
		return
	}
	rs.t.keys[e.key] = e
	rs.t.entries.push(e, &e.place)
	rs.entries++
}

// fits reports whether q may come next in e: the holders in the order of their
// tokens, with room for each, and then the waiters.
func (rs *Restore) fits(e *entry, s *session, q *request) bool {
	var last uint64
	if e.holders.len > 0 {
		last = e.holders.tail.value.token
	}
	switch {
	case q.number == 0 || s.requests[q.number] != nil || s.results != nil && !s.seen.has(q.number),
		q.weight < 1 || q.weight > e.capacity:
		return false
	case q.token == 0:
		return e.queue.len < MaxWaiters
	}
	return e.queue.len == 0 && q.token > last && q.token <= rs.at && s.holds[q.token] == nil &&
		e.used+q.weight <= e.capacity
}

package bubble

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"
)

// window is how many bytes one end may send before the other has read them.
const window = 256 << 10

// conn is a connection. The gate's mutex guards it.
type conn struct {
	bubble *Bubble
	id     uint64
	sides  [2]*side // the dialler's first
}

// side is one end of a connection: a net.Conn.
type side struct {
	conn    *conn
	other   *side
	process *process
	addr    addr

	change  sync.Cond // something below has changed
	in      []byte    // arrived, and not read
	unsaid  int       // bytes read of which the other end does not know
	eof     bool      // the other end sends no more
	unread  int       // bytes sent of which we do not know that they were read
	ended   bool      // this end sends no more
	closed  bool
	gone    bool               // nobody sends again for this end
	err     error              // the connection broke
	last    time.Duration      // when the latest that was sent arrives
	sent    uint64             // how many segments, first times only
	arrived uint64             // how many of them have, each after those before it
	held    []segment          // a cut holds them up
	early   map[uint64]segment // they have come, and one before them has not; looked up, never ranged over
	origins [closes + 1]origin
	readBy  limit
	writeBy limit
}

// limit is a deadline.
type limit struct {
	at   time.Time // zero: none
	wake *event
}

func (l *limit) over() bool { return !l.at.IsZero() && !time.Now().Before(l.at) }

// segment is what travels. It says one thing: data, read, fin or rst.
type segment struct {
	number uint64 // how many the side has sent before; rst has none, and waits for nothing
	data   []byte
	read   int // how many bytes more this end has read
	fin    bool
	rst    bool
}

// addr is "host:port".
type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

func (b *Bubble) newConn(dialler, acceptor *process, from, to addr) *conn {
	c := &conn{bubble: b, id: b.newID()}
	for i, p := range []*process{dialler, acceptor} {
		s := &side{conn: c, process: p, addr: []addr{from, to}[i], early: make(map[uint64]segment)}
		s.change.L = &b.gate.mu
		for l := range s.origins {
			s.origins[l] = origin{id: c.id<<1 | uint64(i) | 1<<63, lane: lane(l)}
		}
		c.sides[i] = s
	}
	c.sides[0].other, c.sides[1].other = c.sides[1], c.sides[0]
	if len(b.conns)%64 == 63 {
		b.refresh() // forgets those that are over
	}
	b.conns = append(b.conns, c)
	return c
}

// refresh forgets connections that are over, and sends on what was held up.
func (b *Bubble) refresh() {
	kept := b.conns[:0]
	for _, c := range b.conns {
		if c.sides[0].closed && c.sides[1].closed {
			continue
		}
		kept = append(kept, c)
		for _, s := range c.sides {
			if len(s.held) > 0 && b.flows(s.host(), s.other.host()) {
				held := s.held
				s.held = nil
				for _, seg := range held {
					s.launch(resend, seg)
				}
			}
		}
	}
	clear(b.conns[len(kept):])
	b.conns = kept
}

func (s *side) host() *Host { return s.process.host }
func (s *side) gate() *gate { return s.conn.bubble.gate }

// send sends a segment for the first time. Like all that follows, up to the methods of
// net.Conn, it happens within an event or before one.
func (s *side) send(seg segment) {
	seg.number = s.sent
	s.sent++
	s.launch(arrival, seg)
}

// launch puts a segment on its way.
func (s *side) launch(k kind, seg segment) {
	b := s.conn.bubble
	at := max(b.gate.now()+b.latency(s.host(), s.other.host()), s.last+1)
	s.last = at
	payload := xxhash.Sum64(seg.data)
	b.gate.at(at, &event{kind: k, who: s.origins[0].id, payload: payload, host: s.other.host(), fn: func() { s.arrive(seg) }})
}

// arrive is the other end of launch.
func (s *side) arrive(seg segment) {
	b, to := s.conn.bubble, s.other
	switch {
	case !b.flows(s.host(), to.host()):
		if !s.gone && !seg.rst {
			s.held = append(s.held, seg)
		}
	case seg.rst:
		to.fail(syscall.ECONNRESET)
	case seg.number != s.arrived: // a cut held up one before it, which comes again
		s.early[seg.number] = seg
	default:
		for ok := true; ok; seg, ok = s.early[s.arrived] {
			delete(s.early, s.arrived)
			s.arrived++
			to.take(seg)
		}
	}
}

// take is given the other end's segments in order.
func (s *side) take(seg segment) {
	switch {
	case seg.read > 0:
		s.unread -= seg.read
	case seg.fin:
		s.eof = true
	case s.closed:
		s.reset()
	default:
		s.in = append(s.in, seg.data...)
	}
	s.change.Broadcast()
}

// reset tells the other end that this one is no more.
func (s *side) reset() { s.launch(arrival, segment{rst: true}) }

func (s *side) fail(err error) {
	if s.err == nil && !s.closed {
		s.err = err
		s.change.Broadcast()
	}
}

// die is the end of its process. What was closed before is still sent, unless the
// machine is lost, too.
func (s *side) die() {
	dark := s.host().dark
	if s.closed && !dark {
		return
	}
	s.closed, s.gone, s.held = true, true, nil
	s.change.Broadcast()
	if !dark {
		s.reset()
	}
}

// Read implements net.Conn.
func (s *side) Read(p []byte) (int, error) {
	g := s.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, s.error("read", net.ErrClosed)
		case s.readBy.over():
			return 0, s.error("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case len(s.in) > 0:
			n := copy(p, s.in)
			s.in = s.in[n:]
			s.grant(n)
			return n, nil
		case s.eof:
			return 0, io.EOF
		case s.err != nil:
			return 0, s.error("read", os.NewSyscallError("read", s.err))
		}
		s.change.Wait()
	}
}

// grant lets the other end go on when half of the window was read.
func (s *side) grant(n int) {
	if s.unsaid += n; s.unsaid < window/2 {
		return
	}
	n, s.unsaid = s.unsaid, 0
	s.gate().putLocked(&s.origins[reads], func() { s.send(segment{read: n}) })
}

// Write implements net.Conn.
func (s *side) Write(p []byte) (n int, err error) {
	g := s.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		switch {
		case s.closed:
			return n, s.error("write", net.ErrClosed)
		case s.err != nil || s.ended:
			return n, s.error("write", os.NewSyscallError("write", syscall.EPIPE))
		case s.writeBy.over():
			return n, s.error("write", os.ErrDeadlineExceeded)
		case n == len(p):
			return n, nil
		case s.unread < window:
			part := p[n:min(len(p), n+window-s.unread)]
			s.unread += len(part)
			n += len(part)
			seg := segment{data: append([]byte(nil), part...)}
			g.putLocked(&s.origins[writes], func() { s.send(seg) })
			continue
		}
		s.change.Wait()
	}
}

// CloseWrite tells the other end that no more comes.
func (s *side) CloseWrite() error {
	g := s.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.closed {
		return s.error("close", net.ErrClosed)
	}
	s.finish()
	return nil
}

// finish tells the other end, once, that no more comes.
func (s *side) finish() {
	if !s.ended {
		s.ended = true
		s.gate().putLocked(&s.origins[closes], func() { s.send(segment{fin: true}) })
	}
}

// Close implements net.Conn. What was written before arrives, but if something is
// unread, it may not.
func (s *side) Close() error {
	g := s.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.closed {
		return s.error("close", net.ErrClosed)
	}
	s.closed = true
	s.change.Broadcast()
	switch {
	case s.err != nil:
	case len(s.in) > 0:
		g.putLocked(&s.origins[closes], s.reset)
	default:
		s.finish()
	}
	s.limitLocked(&s.readBy, time.Time{})
	s.limitLocked(&s.writeBy, time.Time{})
	return nil
}

// LocalAddr implements net.Conn.
func (s *side) LocalAddr() net.Addr { return s.addr }

// RemoteAddr implements net.Conn.
func (s *side) RemoteAddr() net.Addr { return s.other.addr }

// SetDeadline implements net.Conn.
func (s *side) SetDeadline(t time.Time) error { return s.setLimits(t, &s.readBy, &s.writeBy) }

// SetReadDeadline implements net.Conn.
func (s *side) SetReadDeadline(t time.Time) error { return s.setLimits(t, &s.readBy) }

// SetWriteDeadline implements net.Conn.
func (s *side) SetWriteDeadline(t time.Time) error { return s.setLimits(t, &s.writeBy) }

func (s *side) setLimits(t time.Time, which ...*limit) error {
	g := s.gate()
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.closed {
		return s.error("set", net.ErrClosed)
	}
	for _, l := range which {
		s.limitLocked(l, t)
	}
	return nil
}

func (s *side) limitLocked(l *limit, t time.Time) {
	if l.at.IsZero() && t.IsZero() {
		return
	}
	l.at = t
	g := s.gate()
	g.putLocked(&s.origins[deadlines], func() {
		g.cancel(l.wake)
		l.wake = nil
		if !t.IsZero() && l.at.Equal(t) {
			l.wake = g.at(t.Sub(g.start), &event{kind: deadline, who: s.origins[0].id, fn: s.change.Broadcast})
		}
	})
}

func (s *side) error(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: s.addr, Addr: s.other.addr, Err: err}
}

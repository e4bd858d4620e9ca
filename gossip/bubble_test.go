package gossip_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/realenv"
)

// bubble is a network of hosts in a testing/synctest bubble. The nodes on them are real: goroutines,
// transport and memberlist, on the bubble's virtual clock. Connections behave as TCP does: bytes sent into
// a cut arrive after it, in order. Real nodes use random sources that cannot be seeded, so two runs with the
// same seed have the same faults, but are not equal; only simulations are.
type bubble struct {
	start   time.Time
	running sync.WaitGroup // goroutines of hosts

	mu    sync.Mutex // guards all that follows, in hosts and connections too
	rand  *rand.Rand
	hosts map[string]*host
	cut   map[[2]*host]bool // from, to
	sides []*side
}

const (
	toAnother = 200 * time.Microsecond // the latency between two hosts
	toItself  = 20 * time.Microsecond
)

// inBubble calls f in a bubble. Then it ends all processes, and waits for their goroutines.
func inBubble(t *testing.T, seed uint64, f func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		b := &bubble{start: time.Now(), rand: rand.New(rand.NewPCG(seed, 1)), hosts: make(map[string]*host), cut: make(map[[2]*host]bool)}
		defer func() {
			for name := range b.hosts {
				b.Crash(name)
			}
			b.running.Wait()
			time.Sleep(time.Second) // closed nodes may still wait for the last answer to a probe
		}()
		f(b)
	})
}

// Now returns the time since the bubble began.
func (b *bubble) Now() time.Duration { return time.Since(b.start) }

// host is one machine. It runs one process at a time.
type host struct {
	bubble   *bubble
	name     string
	process  *process // nil: down
	boots    []func(ctx context.Context)
	ports    map[string]*listener
	lastPort int
	paused   bool
}

// process is one incarnation of a host.
type process struct {
	host   *host
	ctx    context.Context // carries the host's env.Env; it ends with a crash
	cancel context.CancelFunc
}

// host returns the host of that name; if there is none, it creates and starts it.
func (b *bubble) host(name string) *host {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hosts[name]
	if h == nil {
		h = &host{bubble: b, name: name, lastPort: 40000}
		b.hosts[name] = h
		h.begin()
	}
	return h
}

// begin starts a process.
func (h *host) begin() {
	p := &process{host: h}
	began := time.Now().Add(-time.Duration(h.bubble.rand.Int64N(int64(time.Hour)))) // random: a process's clock means nothing outside it
	environment := &hostEnv{
		Env:   realenv.Over(p, func() time.Duration { return time.Since(began) }, nil),
		seeds: rand.New(rand.NewPCG(h.bubble.rand.Uint64(), 2)),
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.ctx, p.cancel = env.With(ctx, environment), cancel
	h.process, h.ports = p, make(map[string]*listener)
	for _, fn := range h.boots {
		h.bubble.running.Go(func() { fn(p.ctx) })
	}
}

// run starts a goroutine on the host, whose ctx ends when the host crashes.
func (h *host) run(fn func(ctx context.Context)) {
	h.bubble.mu.Lock()
	defer h.bubble.mu.Unlock()
	if p := h.process; p != nil {
		h.bubble.running.Go(func() { fn(p.ctx) })
	}
}

// boot starts a goroutine now and after each restart.
func (h *host) boot(fn func(ctx context.Context)) {
	h.boots = append(h.boots, fn) // by the test's goroutine alone
	h.run(fn)
}

// hostEnv is the real environment of one process.
type hostEnv struct {
	*realenv.Env
	mu    sync.Mutex
	seeds *rand.Rand
}

// Seed implements env.Env.
func (w *hostEnv) Seed() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seeds.Uint64() | 1
}

// Crash ends the process on a host: its connections are reset, and dialling it is refused.
func (b *bubble) Crash(name string) {
	h := b.host(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	p := h.process
	if p == nil {
		return
	}
	h.process, h.paused = nil, false
	p.cancel()
	for _, l := range h.ports {
		l.shut()
	}
	for _, s := range b.sides {
		if s.process == p && !s.closed {
			s.closed = true
			s.change.Broadcast()
			s.send(segment{reset: true})
		}
	}
}

// Restart starts a host that is down.
func (b *bubble) Restart(name string) {
	h := b.host(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	h.begin()
}

// Pause holds up all bytes that arrive at a host or leave it. Its goroutines go on: they cannot be stopped.
func (b *bubble) Pause(name string) { b.pause(b.host(name), true) }

// Resume ends Pause.
func (b *bubble) Resume(name string) { b.pause(b.host(name), false) }

func (b *bubble) pause(h *host, paused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.paused = paused
	b.flow()
}

// Partition cuts the groups off from each other. Hosts in none of them are one more group.
func (b *bubble) Partition(groups ...[]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	group := func(h *host) int {
		return slices.IndexFunc(groups, func(g []string) bool { return slices.Contains(g, h.name) })
	}
	for _, from := range b.hosts {
		for _, to := range b.hosts {
			if group(from) != group(to) {
				b.cut[[2]*host{from, to}] = true
			}
		}
	}
}

// PartitionOneWay cuts the direction from some hosts to others.
func (b *bubble) PartitionOneWay(from, to []string) {
	for _, x := range from {
		for _, y := range to {
			way := [2]*host{b.host(x), b.host(y)}
			b.mu.Lock()
			b.cut[way] = true
			b.mu.Unlock()
		}
	}
}

// Heal ends all cuts.
func (b *bubble) Heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.cut)
	b.flow()
}

// flow schedules all segments on their way again, as those held up may pass now.
func (b *bubble) flow() {
	for _, s := range b.sides {
		for i := range s.way {
			s.launch(&s.way[i])
		}
	}
}

func (b *bubble) open(from, to *host) bool {
	return !b.cut[[2]*host{from, to}] && !from.paused && !to.paused
}

func latency(from, to *host) time.Duration {
	if from == to {
		return toItself
	}
	return toAnother
}

// listener implements net.Listener.
type listener struct {
	process *process
	addr    addr
	change  *sync.Cond
	queue   []*side
	closed  bool
}

// addr is "host:port".
type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

// newAddr returns an address with a port that was never used.
func (h *host) newAddr() addr {
	h.lastPort++
	return addr(net.JoinHostPort(h.name, fmt.Sprint(h.lastPort)))
}

// Listen implements transport.Sockets.
func (p *process) Listen(address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	b := p.host.bubble
	b.mu.Lock()
	defer b.mu.Unlock()
	at := p.host.newAddr()
	if port != "0" {
		at = addr(net.JoinHostPort(p.host.name, port))
	}
	if err == nil && p.host.ports[at.String()] != nil {
		err = os.NewSyscallError("bind", syscall.EADDRINUSE)
	}
	if err = errors.Join(err, p.ctx.Err()); err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: at, Err: err}
	}
	l := &listener{process: p, addr: at, change: sync.NewCond(&b.mu)}
	p.host.ports[at.String()] = l
	return l, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.change.L.Lock()
	defer l.change.L.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.change.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	s := l.queue[0]
	l.queue = l.queue[1:]
	return s, nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

// Close implements net.Listener.
func (l *listener) Close() error {
	l.change.L.Lock()
	defer l.change.L.Unlock()
	l.shut()
	return nil
}

func (l *listener) shut() {
	l.closed = true
	l.change.Broadcast()
	delete(l.process.host.ports, l.addr.String())
	for _, s := range l.queue {
		s.closed = true
		s.send(segment{reset: true})
	}
	l.queue = nil
}

// Dial implements transport.Sockets. As with TCP, a port without a listener refuses, and without an answer
// Dial tries again and again.
func (p *process) Dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	b := p.host.bubble
	name, _, err := net.SplitHostPort(address)
	b.mu.Lock()
	there := b.hosts[name]
	b.mu.Unlock()
	if there == nil {
		err = errors.Join(err, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true})
	}
	for again := time.Second; err == nil; again *= 2 {
		var conn *side
		answered := false
		tried := time.Now()
		if b.crosses(ctx, p.host, there) && b.crosses(ctx, there, p.host) {
			conn, err = p.connect(there.ports, addr(address))
			answered = true
		}
		if answered && err == nil {
			return conn, nil
		}
		if !answered {
			err = sleep(ctx, again-time.Since(tried))
		}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: err}
}

// crosses waits for the latency of a packet, and reports whether the packet arrived.
func (b *bubble) crosses(ctx context.Context, from, to *host) bool {
	open := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.open(from, to)
	}
	return open() && sleep(ctx, latency(from, to)) == nil && open()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// connect makes a connection.
func (p *process) connect(ports map[string]*listener, to addr) (*side, error) {
	b := p.host.bubble
	b.mu.Lock()
	defer b.mu.Unlock()
	l := ports[to.String()]
	if p.ctx.Err() != nil {
		return nil, p.ctx.Err()
	}
	if l == nil {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	here := &side{process: p, addr: p.host.newAddr(), change: sync.NewCond(&b.mu)}
	there := &side{process: l.process, addr: l.addr, change: sync.NewCond(&b.mu), other: here}
	here.other = there
	b.sides = slices.DeleteFunc(b.sides, func(s *side) bool { return s.closed && s.other.closed })
	b.sides = append(b.sides, here, there)
	l.queue = append(l.queue, there)
	l.change.Broadcast()
	return here, nil
}

// side is one end of a connection: a net.Conn.
type side struct {
	process *process
	other   *side
	addr    addr
	change  *sync.Cond // something below has changed

	way    []segment // sent, not arrived yet, in order
	last   time.Time // when the latest of them is due
	in     []byte    // arrived, not read yet
	eof    bool      // the other end sends no more
	ended  bool      // this end sends no more
	closed bool
	broken bool

	readBy, writeBy time.Time // zero: none
}

// segment is a unit that travels: bytes, their end, or a reset.
type segment struct {
	due   time.Time
	data  []byte
	end   bool
	reset bool
}

func (s *side) send(seg segment) {
	s.launch(&seg)
	s.way = append(s.way, seg)
}

// launch schedules a segment to arrive after the latency, and not before earlier segments.
func (s *side) launch(seg *segment) {
	due := time.Now().Add(latency(s.process.host, s.other.process.host))
	if due.Before(s.last) {
		due = s.last
	}
	s.last, seg.due = due, due
	time.AfterFunc(time.Until(due), s.arrive)
}

// arrive delivers the segments that are due. Those that cannot pass wait for bubble.flow; only a reset is
// lost, as TCP sends it once.
func (s *side) arrive() {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	b, to := s.process.host.bubble, s.other
	if !b.open(s.process.host, to.process.host) {
		s.way = slices.DeleteFunc(s.way, func(seg segment) bool { return seg.reset })
		return
	}
	for len(s.way) > 0 && !s.way[0].due.After(time.Now()) {
		seg := s.way[0]
		s.way = s.way[1:]
		switch {
		case seg.reset:
			to.broken = true
		case seg.end:
			to.eof = true
		case to.closed:
			to.send(segment{reset: true})
		default:
			to.in = append(to.in, seg.data...)
		}
	}
	to.change.Broadcast()
}

func (s *side) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: s.addr, Addr: s.other.addr, Err: err}
}

func over(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// Read implements net.Conn.
func (s *side) Read(p []byte) (int, error) {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	for {
		switch {
		case s.closed:
			return 0, s.fail("read", net.ErrClosed)
		case over(s.readBy):
			return 0, s.fail("read", os.ErrDeadlineExceeded)
		case len(s.in) > 0:
			n := copy(p, s.in)
			s.in = s.in[n:]
			return n, nil
		case s.eof:
			return 0, io.EOF
		case s.broken:
			return 0, s.fail("read", syscall.ECONNRESET)
		}
		s.change.Wait()
	}
}

// Write implements net.Conn. The buffer is unbounded.
func (s *side) Write(p []byte) (int, error) {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	switch {
	case s.closed:
		return 0, s.fail("write", net.ErrClosed)
	case s.broken || s.ended:
		return 0, s.fail("write", syscall.EPIPE)
	case over(s.writeBy):
		return 0, s.fail("write", os.ErrDeadlineExceeded)
	}
	s.send(segment{data: slices.Clone(p)})
	return len(p), nil
}

// CloseWrite sends the end of the bytes.
func (s *side) CloseWrite() error {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	s.end()
	return nil
}

func (s *side) end() {
	if !s.ended {
		s.ended = true
		s.send(segment{end: true})
	}
}

// Close implements net.Conn.
func (s *side) Close() error {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	if s.closed {
		return s.fail("close", net.ErrClosed)
	}
	s.closed = true
	s.change.Broadcast()
	if len(s.in) > 0 {
		s.send(segment{reset: true}) // unread bytes are lost
	} else {
		s.end()
	}
	return nil
}

// LocalAddr implements net.Conn.
func (s *side) LocalAddr() net.Addr { return s.addr }

// RemoteAddr implements net.Conn.
func (s *side) RemoteAddr() net.Addr { return s.other.addr }

// SetDeadline implements net.Conn.
func (s *side) SetDeadline(t time.Time) error { return s.limit(t, &s.readBy, &s.writeBy) }

// SetReadDeadline implements net.Conn.
func (s *side) SetReadDeadline(t time.Time) error { return s.limit(t, &s.readBy) }

// SetWriteDeadline implements net.Conn.
func (s *side) SetWriteDeadline(t time.Time) error { return s.limit(t, &s.writeBy) }

func (s *side) limit(t time.Time, which ...*time.Time) error {
	s.change.L.Lock()
	defer s.change.L.Unlock()
	for _, deadline := range which {
		*deadline = t
	}
	s.change.Broadcast() // it may be over
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), s.change.Broadcast)
	}
	return nil
}

package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

var _ env.Network = (*transport.Transport)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an event that must come. It is long since the
// machine may be busy; only a defect makes an event take that long.
const patience = 60 * time.Second

// event is one call of a Handler.
type event struct {
	what  string // dialed, up, down, receive
	peer  transport.ID
	hello transport.Hello
	addr  string
	err   error
	cause transport.Cause
	kind  transport.Kind
	body  string
}

func (e event) String() string {
	switch e.what {
	case "dialed":
		return fmt.Sprintf("dialed %s: %s, %v", e.addr, e.peer, e.err)
	case "down":
		return fmt.Sprintf("down %s: cause %d", e.peer, e.cause)
	case "receive":
		return fmt.Sprintf("receive from %s: kind %d, %d bytes", e.peer, e.kind, len(e.body))
	}
	return e.what + " " + e.peer.String()
}

// node is a Transport whose Handler calls are recorded, and checked for their order.
type node struct {
	*transport.Transport
	t     testing.TB
	id    transport.ID
	bound string // the address at which it listens; it may advertise another
	open  transport.CountedSockets
	hook  func(event) // called within the handler's methods
	quiet bool        // do not record received frames

	mu     sync.Mutex
	events []event
	news   chan struct{}
	up     map[transport.ID]bool
	busy   map[transport.ID]bool
	closed bool
	logs   bytes.Buffer
}

func (n *node) add(e event) {
	n.mu.Lock()
	if n.closed {
		n.t.Errorf("%s after Close", e)
	}
	if e.what != "dialed" {
		if n.busy[e.peer] {
			n.t.Errorf("%s within another call for this peer", e)
		}
		if e.what == "up" == n.up[e.peer] && e.cause != transport.Replaced {
			n.t.Errorf("node %s: %s, but up is %v; events so far: %v", n.id, e, n.up[e.peer], n.events)
		}
		n.busy[e.peer] = true
		n.up[e.peer] = e.what != "down"
	}
	if e.what != "receive" || !n.quiet {
		n.events = append(n.events, e)
		close(n.news)
		n.news = make(chan struct{})
	}
	n.mu.Unlock()
	if n.hook != nil {
		n.hook(e)
	}
	if e.what != "dialed" {
		n.mu.Lock()
		n.busy[e.peer] = false
		n.mu.Unlock()
	}
}

func (n *node) Dialed(addr string, h transport.Hello, err error) {
	n.add(event{what: "dialed", addr: addr, peer: h.ID, hello: h, err: err})
}
func (n *node) Up(h transport.Hello) { n.add(event{what: "up", peer: h.ID, hello: h}) }
func (n *node) Down(id transport.ID, cause transport.Cause) {
	n.add(event{what: "down", peer: id, cause: cause})
}
func (n *node) Receive(id transport.ID, kind transport.Kind, body []byte) {
	e := event{what: "receive", peer: id, kind: kind}
	if !n.quiet {
		e.body = string(body)
	}
	n.add(e)
}

// await returns the first event that matches, past or to come.
func (n *node) await(what string, match func(event) bool) event {
	n.t.Helper()
	limit := time.After(patience)
	for seen := 0; ; {
		n.mu.Lock()
		events, news := n.events, n.news
		n.mu.Unlock()
		for ; seen < len(events); seen++ {
			if match(events[seen]) {
				return events[seen]
			}
		}
		select {
		case <-news:
		case <-limit:
			var notable []event
			for _, e := range events {
				if e.what != "receive" {
					notable = append(notable, e)
				}
			}
			n.t.Fatalf("node %s: no %s; %d events: %v", n.id, what, len(events), notable)
		}
	}
}

func (n *node) awaitUp(peer transport.ID) event {
	n.t.Helper()
	return n.await("up "+peer.String(), func(e event) bool { return e.what == "up" && e.peer == peer })
}

func (n *node) awaitDown(peer transport.ID) transport.Cause {
	n.t.Helper()
	return n.await("down "+peer.String(), func(e event) bool { return e.what == "down" && e.peer == peer }).cause
}

func (n *node) awaitDialed(addr string) event {
	n.t.Helper()
	return n.await("dialed "+addr, func(e event) bool { return e.what == "dialed" && e.addr == addr })
}

func (n *node) awaitFrame(body string) event {
	n.t.Helper()
	return n.await("frame "+body, func(e event) bool { return e.what == "receive" && e.body == body })
}

// count returns how many events match so far.
func (n *node) count(match func(event) bool) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if match(e) {
			count++
		}
	}
	return count
}

func (n *node) snapshot() []event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.events)
}

func downs(e event) bool { return e.what == "down" }
func ups(e event) bool   { return e.what == "up" }

// eventually polls a condition that no event reports.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); !ok(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

// deliver sends until body arrives: frames may be lost while a connection is replaced.
func deliver(from, to *node, body string) {
	from.t.Helper()
	eventually(from.t, "delivery of "+body, func() bool {
		from.Send(to.id, transport.KindShard, transport.Normal, []byte(body))
		return to.count(func(e event) bool { return e.what == "receive" && e.body == body }) > 0
	})
}

func (n *node) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logs.Write(b)
}

func (n *node) logged(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return bytes.Contains(n.logs.Bytes(), []byte(text))
}

func (n *node) logText() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logs.String()
}

func (n *node) Close() {
	n.Transport.Close()
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
}

type setting func(*transport.Config, *node)

func hello(id transport.ID) transport.Hello {
	return transport.Hello{MeshName: "test", Name: fmt.Sprintf("n%d", id), ID: id, MinVersion: 1, MaxVersion: 1}
}

func start(t testing.TB, id transport.ID, settings ...setting) *node {
	t.Helper()
	return startWith(t, transport.ListenPatient, id, settings...)
}

func startWith(t testing.TB, listen func(transport.Config, transport.Handler) (*transport.Transport, error), id transport.ID, settings ...setting) *node {
	t.Helper()
	n := &node{t: t, id: id, news: make(chan struct{}), up: make(map[transport.ID]bool), busy: make(map[transport.ID]bool)}
	cfg := transport.Config{Bind: "127.0.0.1:0", Hello: hello(id), Sockets: &n.open}
	cfg.Logger = slog.New(slog.NewTextHandler(n, nil))
	for _, s := range settings {
		s(&cfg, n)
	}
	var err error
	if n.Transport, err = listen(cfg, n); err != nil {
		t.Fatal(err)
	}
	n.bound = n.Transport.BoundAddr()
	t.Cleanup(n.Close)
	return n
}

func bindTo(addr string) setting  { return func(c *transport.Config, _ *node) { c.Bind = addr } }
func advertise(a string) setting  { return func(c *transport.Config, _ *node) { c.Advertise = a } }
func hook(fn func(event)) setting { return func(_ *transport.Config, n *node) { n.hook = fn } }

func over(s transport.Sockets) setting {
	return func(c *transport.Config, _ *node) { c.Sockets = s }
}

func refuseAll(reason string) setting {
	return func(c *transport.Config, _ *node) {
		c.Accept = func(transport.Hello) error { return errors.New(reason) }
	}
}

// pair starts two connected nodes.
func pair(t testing.TB) (a, b *node) {
	t.Helper()
	a, b = start(t, 1), start(t, 2)
	a.Connect(b.id, b.Addr())
	a.awaitUp(b.id)
	b.awaitUp(a.id)
	// A frame comes only after Up has returned.
	deliver(a, b, "up")
	deliver(b, a, "up")
	return a, b
}

// proxy forwards connections to a node, so that a test can break and freeze them as a
// network does.
type proxy struct {
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	target   string // empty: accept connections, and send nothing
	conns    []net.Conn
	frozen   bool
	closed   bool
}

func startProxy(t testing.TB, bind string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", bind)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l}
	p.wg.Go(p.run)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) run() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		if p.closed {
			in.Close()
		}
		p.conns = append(p.conns, in)
		p.mu.Unlock()
		if target == "" {
			continue
		}
		out, err := net.Dial("tcp", target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		if p.closed {
			out.Close()
		}
		p.conns = append(p.conns, out)
		p.mu.Unlock()
		p.wg.Go(func() { p.pipe(in, out) })
		p.wg.Go(func() { p.pipe(out, in) })
	}
}

func (p *proxy) pipe(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if !frozen {
			if n > 0 {
				if _, werr := to.Write(buf[:n]); werr != nil {
					err = werr
				}
			}
			if err != nil {
				to.Close()
			}
		}
		if err == io.EOF || err != nil {
			return
		}
	}
}

// aim directs new connections to the node at addr; to no node if addr is empty.
func (p *proxy) aim(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// freeze makes the proxy swallow all bytes, and send nothing on new connections.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target, p.frozen = "", true
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	conns := slices.Clone(p.conns)
	p.conns = nil
	p.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

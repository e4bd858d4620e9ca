package simulate

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// Net is the network between the hosts of a world: what its links are like, which are cut, and what is
// on its way.
type Net struct {
	world     *World
	link      *Link // of all paths that have none of their own
	paths     [][]*path
	weathers  []*weather
	cuts      []*cut
	listeners map[string]*endpoint // by "host:port"; looked up, never ranged over
	conns     []*conn              // in the order in which they were made
	rules     []*rule
	aims      []*aim
	sieve     *sieve
	kept      []*frame            // what waits for Release
	balanced  map[string][]string // see Balance; looked up, never ranged over
	sends     uint64

	delays *stream
	losses *stream
	dials  *stream
	spare  []*frame
}

func newNetwork(w *World, l Link) *Net {
	return &Net{
		world: w, link: &l, listeners: make(map[string]*endpoint),
		sieve: w.drawSieve(), delays: w.stream(latencyStream), losses: w.stream(lossStream), dials: w.stream(dialStream),
	}
}

// endpoint is one node's network: it implements env.Network.
type endpoint struct {
	net     *Net
	process *process
	cfg     transport.Config
	handler transport.Handler
	bound   string // where it listens; empty: it cannot be dialled
	local   bool   // and only its own host can
	hello   transport.Hello
	gone    bool
	gossip  *member                // takes the frames of KindGossip; nil: they are lost
	peers   map[transport.ID]*peer // looked up, never ranged over
	order   []*peer
}

// peer is what an endpoint knows of another node.
type peer struct {
	id    transport.ID
	hello transport.Hello
	conn  *conn // nil: none
	side  int   // of conn
	up    bool  // Up was reported, and no Down since
	told  bool  // Down(Replaced) was reported, and no Up since
	kept  bool  // Connect
	addr  string
	busy  bool // a redial is under way
	tries int
	retry *event
}

func (n *Net) listen(p *process, cfg transport.Config, h transport.Handler) (*endpoint, error) {
	e := &endpoint{net: n, process: p, cfg: cfg, handler: h, hello: cfg.Hello, peers: make(map[transport.ID]*peer)}
	if cfg.Bind != "" {
		name, port, err := net.SplitHostPort(cfg.Bind)
		if err != nil {
			return nil, fmt.Errorf("simulate: bind address: %w", err)
		}
		if port == "0" || port == "" {
			p.host.ports++
			port = fmt.Sprint(p.host.ports)
		}
		e.bound = net.JoinHostPort(p.host.name, port)
		if n.listeners[e.bound] != nil {
			return nil, fmt.Errorf("simulate: %s: address already in use", e.bound)
		}
		n.listeners[e.bound] = e
		e.hello.Addr = e.bound
		if e.local = isLoopback(name); e.local {
			e.hello.Addr = net.JoinHostPort(name, port)
		}
		if cfg.Advertise != "" {
			e.hello.Addr = cfg.Advertise
		}
	}
	p.endpoints = append(p.endpoints, e)
	return e, nil
}

// Addr implements env.Network.
func (e *endpoint) Addr() string { return e.hello.Addr }

// Update implements env.Network.
func (e *endpoint) Update(h transport.Hello) {
	h.ID = e.hello.ID
	if h.Addr == "" {
		h.Addr = e.hello.Addr
	}
	e.hello = h
}

// Dial implements env.Network.
func (e *endpoint) Dial(addr string) {
	if e.gone {
		return
	}
	e.dial(addr, 0, func(h transport.Hello, err error) { e.handler.Dialed(addr, h, err) })
}

// Connect implements env.Network.
func (e *endpoint) Connect(id transport.ID, addr string) {
	if e.gone || id == e.hello.ID {
		return
	}
	p := e.peer(id)
	if p.kept && p.addr == addr {
		return
	}
	if p.retry != nil { // the address is news
		e.net.world.cancel(p.retry)
		p.retry = nil
	}
	p.kept, p.addr, p.tries = true, addr, 0
	if p.conn == nil && !p.up {
		e.again(p, 0)
	}
}

// Disconnect implements env.Network.
func (e *endpoint) Disconnect(id transport.ID) {
	p := e.peers[id]
	if p == nil || e.gone {
		return
	}
	p.kept = false
	c, side := p.conn, p.side
	p.conn = nil
	if c != nil {
		c.goodbye(side)
	}
	e.forget(p)
	e.down(p, transport.Disconnected)
}

// Close implements env.Network.
func (e *endpoint) Close() { e.die() }

// die closes everything without a word, as the kernel does for a dead process.
func (e *endpoint) die() {
	if e.gone {
		return
	}
	e.gone = true
	if e.bound != "" {
		delete(e.net.listeners, e.bound)
	}
	for _, p := range e.order {
		if p.retry != nil {
			e.net.world.cancel(p.retry)
		}
		if c := p.conn; c != nil {
			p.conn = nil
			c.close(p.side)
		}
	}
	e.order, e.peers = nil, nil
	e.net.refresh()
}

// peer returns the entry of id, and makes it if there is none.
func (e *endpoint) peer(id transport.ID) *peer {
	p := e.peers[id]
	if p == nil {
		p = &peer{id: id}
		e.peers[id] = p
		e.order = append(e.order, p)
	}
	return p
}

func (e *endpoint) forget(p *peer) {
	if p.retry != nil {
		e.net.world.cancel(p.retry)
		p.retry = nil
	}
	if e.peers[p.id] != p {
		return
	}
	delete(e.peers, p.id)
	e.order = slices.DeleteFunc(e.order, func(q *peer) bool { return q == p })
}

// down reports the end of a connection, and goes on trying if it is to be kept.
func (e *endpoint) down(p *peer, cause transport.Cause) {
	if !p.up {
		return
	}
	p.up, p.told = false, cause == transport.Replaced
	if p.kept {
		e.again(p, e.net.dials.between(20*time.Millisecond, 100*time.Millisecond))
	} else {
		e.forget(p)
	}
	e.net.world.note(timeline.News, e.process.host.name, "connection to %s is down: %s", p.hello.Name, causeNames[cause])
	e.handler.Down(p.id, cause)
}

var causeNames = [...]string{transport.Lost: "lost", transport.Goodbye: "goodbye", transport.Refused: "refused", transport.Replaced: "replaced", transport.Disconnected: "ended here"}

// Queue limits of one direction of a connection.
const (
	maxFrames = 4096
	maxBytes  = 8 << 20
)

// frame is one message on its way. It owns its event, and both are used again.
type frame struct {
	Frame
	ev     event
	hash   uint64
	number uint64        // in the order of sending
	held   bool          // by a cut
	kept   bool          // until Release
	sent   int           // the moment
	began  time.Duration // when it was sent, or the cut ended that held it

	out  time.Duration // then it has got its bandwidth
	rest time.Duration // that it takes from then on
	free bool          // of the order
}

func (n *Net) newFrame() *frame {
	if last := len(n.spare) - 1; last >= 0 {
		f := n.spare[last]
		n.spare = n.spare[:last]
		return f
	}
	f := &frame{}
	f.ev = event{kind: frameEvent, slot: idle, frame: f}
	return f
}

// free takes a frame off its connection's books, for another to use.
func (n *Net) free(f *frame) {
	if n.world.now-f.began > tardy && !f.held {
		f.from().waited(f.began)
		f.to().waited(f.began)
	}
	f.conn.frames[f.side]--
	f.conn.bytes[f.side] -= len(f.Body)
	f.Frame, f.held, f.kept, f.sent, f.ev.owner = Frame{}, false, false, 0, nil
	n.spare = append(n.spare, f)
}

// Send implements env.Network.
func (e *endpoint) Send(id transport.ID, kind transport.Kind, class transport.Class, body []byte) bool {
	if e.gone {
		return false
	}
	p := e.peers[id]
	if p == nil || p.conn == nil {
		return false
	}
	c, side := p.conn, p.side
	if len(body) > transport.MaxFrame || c.frames[side] >= maxFrames || c.bytes[side]+len(body) > maxBytes {
		return false
	}
	return c.send(side, kind, class, body)
}

// send sends a frame off, and reports false if the way is full.
func (c *conn) send(side int, kind transport.Kind, class transport.Class, body []byte) bool {
	n := c.net
	way := n.path(c.host(side), c.host(1-side))
	if way.full(n.world.now) {
		c.host(side).refused()
		c.host(1 - side).refused()
		return false
	}
	f := Frame{From: c.host(side).name, To: c.host(1 - side).name, Kind: kind, Class: class, Body: body, conn: c, side: side}
	sent := 0
	if n.world.timeline != nil {
		sent = n.world.recordFrame(timeline.Sent, f, 0, tally(f.Messages()))
	}
	v := Pass
	if len(n.aims) > 0 {
		v = n.see(f)
	}
	if len(n.rules) > 0 && v == Pass {
		v = n.judge(f)
	}
	link, sifted := way.link, Pass
	if v == Pass {
		sifted = n.sift(f)
	}
	switch {
	case v == Drop:
		n.world.recordFrame(timeline.Lost, f, sent, "rule")
		return true
	case sifted == Drop, v != Keep && link.harsh() && n.losses.chance(link.Loss):
		n.world.recordFrame(timeline.Lost, f, sent, "link")
		return true
	}
	if v == Garble && len(body) > 0 {
		f.Body = body[:len(body)-1]
		n.world.note(timeline.News, f.From, "a frame to %s is garbled", f.To)
	}
	hash := xxhash.Sum64(f.Body)
	first := n.launch(f, hash, sent)
	if v == Keep {
		n.keep(first)
		return true
	}
	n.reorder(first, max(0, time.Duration(v)), link)
	if sifted == Twice {
		n.fly(n.launch(f, hash, sent), 0, false)
	}
	if v == Twice || link.harsh() && n.losses.chance(link.Duplicate) {
		n.reorder(n.launch(f, hash, sent), n.losses.exponential(2*time.Millisecond)+1, link)
	}
	return true
}

// launch makes one frame, which its connection has on its books from now on.
func (n *Net) launch(what Frame, hash uint64, sent int) *frame {
	f, c := n.newFrame(), what.conn
	n.sends++
	f.Frame, f.hash, f.sent, f.number = what, hash, sent, n.sends
	f.began = n.world.now
	c.frames[f.side]++
	c.bytes[f.side] += len(f.Body)
	f.ev.owner = c.ends[1-f.side].process
	return f
}

// reorder sends a frame off, and out of order if it is late or the link has it so.
func (n *Net) reorder(f *frame, extra time.Duration, link *Link) {
	free := extra > 0
	if link.harsh() && n.losses.chance(link.Reorder) {
		free = true
		extra += n.losses.exponential(5 * time.Millisecond)
	}
	n.fly(f, extra, free)
}

// fly draws when a frame arrives: in order, unless it is free.
func (n *Net) fly(f *frame, extra time.Duration, free bool) {
	c := f.conn
	from, to := f.from(), f.to()
	if n.path(from, to).keeps {
		n.keep(f)
		return
	}
	wait, d, late := n.transit(from, to, len(f.Body), f.Class)
	f.out, f.rest, f.free = n.world.now+wait, d+extra, free
	at := f.out + f.rest
	if last := &c.last[f.side][f.Class]; free {
		at = max(at, c.since[1-f.side])
	} else {
		usual := max(at-late, *last) // until then it hears of others
		at = max(at, *last+1)
		*last = at
		if at-usual > minSilence && !c.line {
			c.lull(f, usual, at)
		}
	}
	n.world.schedule(&f.ev, at)
}

// arrive hands a frame to the node that it is for.
func (n *Net) arrive(f *frame) {
	c, to := f.conn, 1-f.side
	switch {
	case !c.open[to]:
		n.world.recordFrame(timeline.Lost, f.Frame, f.sent, "closed")
	case !n.open(c.ends[f.side].process.host, c.ends[to].process.host):
		if !c.forgets {
			c.hold(f)
			return
		}
		n.world.recordFrame(timeline.Lost, f.Frame, f.sent, "cut")
	case xxhash.Sum64(f.Body) != f.hash:
		n.world.Fail(fmt.Errorf("simulate: the body of a frame from %s was changed after Send", c.ends[f.side].hello.Name))
	default:
		e, from, kind := c.ends[to], c.hellos[f.side].ID, f.Kind
		body := append([]byte(nil), f.Body...)
		n.world.recordFrame(timeline.Arrived, f.Frame, f.sent, "")
		n.free(f)
		switch {
		case kind != transport.KindGossip:
			e.handler.Receive(from, kind, body)
		case e.gossip != nil:
			e.gossip.Receive(from, body)
		}
		return
	}
	n.free(f)
}

// resolve finds the host that addr names, as seen from another.
func (n *Net) resolve(from *Host, addr string) (*Host, string, error) {
	if to := n.balanced[addr]; to != nil {
		addr = to[n.dials.below(int64(len(to)))]
	}
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	h := n.world.byName[name]
	if isOwn(name) {
		h = from
	}
	if h == nil {
		return nil, "", &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return h, net.JoinHostPort(h.name, port), nil
}

// isOwn reports whether a name is one by which each host finds itself.
func isOwn(name string) bool {
	return name == "" || name == "0.0.0.0" || name == "::" || isLoopback(name)
}

// isLoopback reports whether a name is one by which only a host itself is found.
func isLoopback(name string) bool {
	return name == "localhost" || name == "::1" || strings.HasPrefix(name, "127.")
}

var (
	errRefused = error(syscall.ECONNREFUSED)
	errTimeout = errors.New("i/o timeout")
)

package bubble

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// listener implements net.Listener. The gate's mutex guards it.
type listener struct {
	process *process
	addr    addr
	queue   []*side
	change  sync.Cond // something here has changed
	closed  bool
	origin  origin
}

// Listen opens a port on the host of ctx, which is one that Go gave: "host:port",
// where the host is that one's name or may be missing, and port 0 picks one.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	a := here(ctx)
	return a.process.listen(a, ctx, address)
}

func (p *process) listen(a *actor, ctx context.Context, address string) (net.Listener, error) {
	fail := func(err error) error {
		return &net.OpError{Op: "listen", Net: "tcp", Addr: addr(address), Err: err}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fail(err)
	}
	if p.host.index == 0 {
		return nil, fail(errNowhere)
	}
	if host != p.host.name && !isHere(host) {
		return nil, fail(os.NewSyscallError("bind", syscall.EADDRNOTAVAIL))
	}
	var l *listener
	err = a.pass(ctx, 0, func() {
		if p.dead {
			return
		}
		if port == "0" || port == "" {
			p.host.ports++
			port = fmt.Sprint(p.host.ports)
		}
		l = &listener{process: p, addr: addr(net.JoinHostPort(p.host.name, port)), origin: origin{id: p.bubble.newID()}}
		l.change.L = &p.bubble.gate.mu
		if p.bubble.ports[l.addr.String()] != nil {
			l.closed = true
			return
		}
		p.bubble.ports[l.addr.String()] = l
		p.listeners = append(p.listeners, l)
	})
	switch {
	case err != nil:
		return nil, fail(err)
	case l == nil:
		return nil, fail(errCrashed)
	case l.closed:
		return nil, fail(os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	return l, nil
}

// isHere tells whether a host stands for the one that says it.
func isHere(host string) bool {
	return host == "" || host == "localhost" || host == "0.0.0.0" || host == "::" || host == "::1" || strings.HasPrefix(host, "127.")
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	g := l.process.bubble.gate
	g.mu.Lock()
	defer g.mu.Unlock()
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

// Addr implements net.Listener. Its host is the name of the listener's host.
func (l *listener) Addr() net.Addr { return l.addr }

// Close implements net.Listener. Connections that nobody has accepted are reset.
func (l *listener) Close() error {
	g := l.process.bubble.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.closed {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.closed = true
	l.change.Broadcast()
	g.putLocked(&l.origin, l.shut)
	return nil
}

// shut happens within an event, or before one.
func (l *listener) shut() {
	l.closed = true
	if ports := l.process.bubble.ports; ports[l.addr.String()] == l {
		delete(ports, l.addr.String())
	}
	for _, s := range l.queue {
		s.die()
	}
	l.queue = nil
	l.change.Broadcast()
}

// dial is an attempt to connect.
type dial struct {
	from   *process
	who    uint64
	addr   addr
	there  *Host
	over   bool
	result chan struct{} // closed when side or err is set
	side   *side
	err    error
}

// Dial connects the host of ctx, which is one that Go gave or made of it, with
// "host:port". As TCP does, it is refused where nobody listens, and tries until
// ctx ends where nobody answers.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	a := here(ctx)
	return a.process.dial(a, ctx, address)
}

func (p *process) dial(a *actor, ctx context.Context, address string) (net.Conn, error) {
	fail := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: err}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fail(err)
	}
	if p.host.index == 0 {
		return nil, fail(errNowhere)
	}
	b := p.bubble
	g := b.gate
	d := &dial{from: p, who: a.id, result: make(chan struct{})}
	g.put(&a.origin, func() {
		there := b.named[host]
		if isHere(host) {
			there = p.host
		}
		if there == nil {
			g.at(g.now()+time.Millisecond, d.event(func() {
				d.end(nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true})
			}))
			return
		}
		d.there, d.addr = there, addr(net.JoinHostPort(there.name, port))
		d.knock(time.Second)
	})
	select {
	case <-d.result:
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		if d.side == nil {
			d.over = true
			return nil, fail(context.Cause(ctx))
		}
	}
	if d.err != nil {
		return nil, fail(d.err)
	}
	return d.side, nil
}

// event makes a step of the dialling, while the dialler lives.
func (d *dial) event(fn func()) *event {
	return &event{kind: opening, who: d.who, owner: d.from, fn: fn}
}

func (d *dial) end(s *side, err error) {
	if !d.over {
		d.over, d.side, d.err = true, s, err
		close(d.result)
	}
}

// knock sends the first packet, and again after ever longer times.
func (d *dial) knock(again time.Duration) {
	if d.over {
		return
	}
	b := d.from.bubble
	g, here, there := b.gate, d.from.host, d.there
	g.at(g.now()+again, d.event(func() { d.knock(2 * again) }))
	if !b.flows(here, there) {
		return
	}
	g.at(g.now()+b.latency(here, there), d.event(func() {
		if !b.open(here, there) || !b.flows(there, here) {
			return
		}
		l := b.ports[d.addr.String()]
		answer := d.event(func() {
			switch {
			case d.over || !b.open(there, here):
			case l == nil || l.closed:
				d.end(nil, os.NewSyscallError("connect", syscall.ECONNREFUSED))
			default:
				d.answered(l)
			}
		})
		answer.host = here
		g.at(g.now()+b.latency(there, here), answer)
	}))
}

// answered makes the connection.
func (d *dial) answered(l *listener) {
	b := d.from.bubble
	d.from.host.ports++
	c := b.newConn(d.from, l.process, addr(net.JoinHostPort(d.from.host.name, fmt.Sprint(d.from.host.ports))), l.addr)
	s := c.sides[0]
	s.last = b.gate.now() + b.latency(d.from.host, d.there)
	b.gate.at(s.last, &event{kind: opening, who: s.origins[0].id, host: d.there, fn: func() {
		if l.closed {
			s.other.die()
			return
		}
		l.queue = append(l.queue, s.other)
		l.change.Broadcast()
	}})
	d.end(s, nil)
}

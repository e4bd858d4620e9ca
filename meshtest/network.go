package meshtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// network is what lies between the nodes of one mesh: TCP over loopback, from which single hosts can be cut off. A host
// that is cut off reaches itself alone. Nothing breaks at once: as with a cable that was pulled, dials get no answer, and
// bytes on open connections wait in a buffer, until the cable is back or one end gives up.
type network struct {
	mu      sync.Mutex
	changed chan struct{}     // closed, and replaced, when something changes that a call may wait for
	hosts   map[string]*host  // by host.addr
	inward  map[string]bool   // local addresses of connections that a host dialled to itself
	held    map[net.Conn]bool // to be closed by release: during a cut their peers must not notice the end
	gates   sync.WaitGroup    // the goroutines of admit
}

func newNetwork() *network {
	return &network{
		changed: make(chan struct{}), hosts: make(map[string]*host),
		inward: make(map[string]bool), held: make(map[net.Conn]bool),
	}
}

// announce wakes the calls that wait for a change. The caller holds the mutex.
func (n *network) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// heal connects all hosts again. The peers now see the end of connections that were closed during the cut.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.hosts {
		h.cut = false
	}
	n.release()
	n.announce()
}

// release closes the sockets of held, so that the peers see the end of these connections. The caller holds the mutex.
func (n *network) release() {
	for c := range n.held {
		_ = c.Close()
	}
	clear(n.held)
}

// close frees all ports. The caller has closed all nodes before.
func (n *network) close() {
	n.mu.Lock()
	n.release()
	for _, h := range n.hosts {
		if h.gate != nil {
			_ = h.gate.Close()
		}
	}
	n.mu.Unlock()
	n.gates.Wait()
}

// host implements transport.Sockets for one place in the mesh, where one node after the other runs. It keeps its port open while
// no node runs: another mesh must not get the port, since the nodes of this one go on dialling it.
type host struct {
	network  *network
	addr     string       // host:port; of a client, its name
	gate     net.Listener // of the port; nil: a client
	listener *listener    // of the node that runs; nil: none does
	cut      bool         // the host is cut off
}

// newHost returns a host: with port, one at a port that the system chooses; else one of a client, with this name and no port.
func (n *network) newHost(name string, port bool) (*host, error) {
	h := &host{network: n, addr: name}
	if port {
		gate, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		h.gate, h.addr = gate, gate.Addr().String()
		n.gates.Go(h.admit)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[h.addr] = h
	return h, nil
}

// admit passes the connections that the gate accepts on to the node that runs. If none runs, it resets them; or holds them, if the host is
// cut off. It ends when the gate is closed.
func (h *host) admit() {
	for {
		raw, err := h.gate.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // too many open files, for example
			continue
		}
		n := h.network
		n.mu.Lock()
		l := h.listener
		if l == nil && h.cut {
			n.held[raw] = true
		}
		cut := h.cut
		n.mu.Unlock()
		switch {
		case l != nil:
			c := &conn{Conn: raw, host: h}
			select {
			case l.conns <- c:
			case <-l.done:
				_ = c.Close()
			}
		case !cut:
			if tcp, is := raw.(*net.TCPConn); is {
				_ = tcp.SetLinger(0) // a reset: no process listens
			}
			_ = raw.Close()
		}
	}
}

// isolate cuts the host off.
func (h *host) isolate() {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	h.cut = true
	h.network.announce()
}

// isolated reports whether the host is cut off.
func (h *host) isolated() bool {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	return h.cut
}

// Listen implements transport.Sockets.
func (h *host) Listen(addr string) (net.Listener, error) {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr != anyPort && addr != h.addr {
		return nil, fmt.Errorf("package meshtest chooses the addresses of its nodes: leave out WithBind")
	}
	if h.listener != nil {
		return nil, fmt.Errorf("a node listens at %s already", h.addr)
	}
	h.listener = &listener{host: h, conns: make(chan net.Conn), done: make(chan struct{})}
	return h.listener, nil
}

// Dial implements transport.Sockets. While a cut is between the two hosts it waits; where no node runs, it is refused.
func (h *host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	n := h.network
	failed := func(err error) (net.Conn, error) { return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for {
		n.mu.Lock()
		to, changed := n.hosts[addr], n.changed
		cut := to != h && (h.cut || to != nil && to.cut)
		down := to != nil && to.listener == nil
		n.mu.Unlock()
		if !cut && down {
			return failed(os.NewSyscallError("connect", syscall.ECONNREFUSED))
		}
		if !cut {
			return h.connect(ctx, to, addr)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return failed(ctx.Err())
		}
	}
}

// connect dials without looking at cuts. To is the dialled host; nil: one outside the mesh.
func (h *host) connect(ctx context.Context, to *host, addr string) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: -1}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, host: h, inward: to == h}
	if c.inward {
		h.network.mu.Lock()
		defer h.network.mu.Unlock()
		h.network.inward[raw.LocalAddr().String()] = true
	}
	return c, nil
}

// listener is the host's port while a node has it open.
type listener struct {
	host  *host
	conns chan net.Conn
	done  chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.host.gate.Addr() }

// Close implements net.Listener.
func (l *listener) Close() error {
	n := l.host.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.host.listener != l {
		return net.ErrClosed
	}
	l.host.listener = nil
	close(l.done)
	return nil
}

// conn is one end of a connection. While its host is cut off it passes nothing on, in either direction, unless both ends are on that host.
type conn struct {
	net.Conn
	host *host

	reading sync.Mutex // one Read at a time
	early   []byte     // bytes that came while the host was cut off; Read returns them after the heal

	// Under the network's mutex:
	inward  bool // both ends are on this host
	closed  bool
	readBy  time.Time
	writeBy time.Time
}

// cut reports whether a cut keeps bytes from passing. The caller holds the network's mutex.
func (c *conn) cut() bool {
	if c.host.cut && !c.inward && c.host.network.inward[c.RemoteAddr().String()] {
		c.inward = true
	}
	return c.host.cut && !c.inward
}

// await waits until bytes can pass, and returns nil; net.ErrClosed if c is closed, os.ErrDeadlineExceeded at the time *by. That may be
// set anew meanwhile; zero: no deadline.
func (c *conn) await(by *time.Time) error {
	n := c.host.network
	for {
		n.mu.Lock()
		cut, closed, until, changed := c.cut(), c.closed, *by, n.changed
		n.mu.Unlock()
		switch {
		case closed:
			return net.ErrClosed
		case !cut:
			return nil
		}
		var late <-chan time.Time
		if !until.IsZero() {
			left := time.Until(until)
			if left <= 0 {
				return os.ErrDeadlineExceeded
			}
			late = time.After(left)
		}
		select {
		case <-changed:
		case <-late:
		}
	}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		if err := c.await(&c.readBy); err != nil {
			return 0, err
		}
		if len(c.early) > 0 {
			got := copy(b, c.early)
			c.early = c.early[got:]
			return got, nil
		}
		got, err := c.Conn.Read(b)
		c.host.network.mu.Lock()
		cut := c.cut()
		c.host.network.mu.Unlock()
		if !cut {
			return got, err
		}
		c.early = append(c.early, b[:got]...) // err is dropped: the next Read of the socket returns it again
	}
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.await(&c.writeBy); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// CloseWrite ends what this end sends, as that of a *net.TCPConn does. During a cut it does nothing.
func (c *conn) CloseWrite() error {
	n := c.host.network
	n.mu.Lock()
	cut := c.cut()
	n.mu.Unlock()
	half, is := c.Conn.(interface{ CloseWrite() error })
	if cut || !is {
		return nil // the peer learns of the end by Close
	}
	return half.CloseWrite()
}

// Close implements net.Conn. If the host is cut off, the peer learns of it after the heal.
func (c *conn) Close() error {
	n := c.host.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	cut := c.cut()
	c.closed = true
	delete(n.inward, c.LocalAddr().String())
	n.announce()
	if cut {
		n.held[c.Conn] = true
		return c.Conn.SetDeadline(time.Now()) // ends reads and writes of this end that are under way
	}
	return c.Conn.Close()
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.set(&c.readBy, t, c.Conn.SetReadDeadline) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.set(&c.writeBy, t, c.Conn.SetWriteDeadline)
}

// set notes a deadline for await, and passes it on to the socket.
func (c *conn) set(by *time.Time, t time.Time, pass func(time.Time) error) error {
	n := c.host.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	*by = t
	n.announce()
	return pass(t)
}

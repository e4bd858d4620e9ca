package transport

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Transport holds one node's connections. Its methods may be called from any
// goroutine, and all but Close also from within the Handler's methods.
//
// Its goroutines: listen accepts connections; pulse looks for silent ones; peer.run,
// one per peer, reads from its connection, redials, and calls Up, Down and Receive;
// conn.write, one per connection, writes. Each handshake, dial (Dial's calls Dialed) and goodbye
// (conn.linger) has a goroutine; those of handshakes and dials may afterwards wait for another task (see work). Close ends them all.
type Transport struct {
	id        ID
	handler   Handler
	accept    func(Hello) error
	log       *slog.Logger
	timing    timing
	serverTLS *tls.Config // nil: no TLS
	clientTLS *tls.Config
	sources   Sockets
	listener  net.Listener // nil: this node cannot be dialled
	addr      string

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup // every goroutine
	next    chan func()    // hands a task to a goroutine that waits for one: see work
	free    atomic.Int32   // how many goroutines wait for a task
	conns   conns
	routes  atomic.Pointer[map[ID]*conn]
	lobby   lobby
	limiter limiter

	// The order of locks is mu, then that of the lobby, then that of conns; or that of a conn's queue.
	// None is held while the Handler or Accept is called.
	mu       sync.Mutex
	closed   bool
	hello    Hello
	peers    map[ID]*peer
	awaited  map[ID][]dial // the handshakes that wait for the peer's decision
	epoch    uint64        // the last one assigned
	attempts uint64        // dials so far
	reports  uint64        // sent so far
}

// Addr is the address at which other nodes reach this one. It is empty if Config.Bind
// was empty.
func (t *Transport) Addr() string { return t.addr }

// Send queues one frame for id and reports whether there was a connection and
// room: at most 4096 frames and 8 MiB wait in each class, and a body has at most
// MaxFrame bytes. It never blocks, keeps body, and promises no delivery.
func (t *Transport) Send(id ID, kind Kind, class Class, body []byte) bool {
	c := (*t.routes.Load())[id]
	if c == nil {
		return false
	}
	if len(body) > MaxFrame || kind >= kindReserved || class > Normal {
		t.warn("a frame cannot be sent", "kind", kind, "class", class, "bytes", len(body))
		return false
	}
	return c.out.push(class, outgoing{kind: kind, body: body})
}

// routeLocked makes Send use the connection c for a peer; nil for none.
func (t *Transport) routeLocked(id ID, c *conn) {
	// The map is copied, so that Send reads it without a lock: connections rarely
	// change, and frames are frequent.
	routes := maps.Clone(*t.routes.Load())
	if c == nil {
		delete(routes, id)
	} else {
		routes[id] = c
	}
	t.routes.Store(&routes)
}

// Update replaces the Hello that later handshakes send. The ID stays as it is, and so
// does the address if h has none. Connected peers are not informed. If Listen would
// refuse h, Update logs that, and changes nothing.
func (t *Transport) Update(h Hello) {
	h.ID = t.id
	if h.Addr == "" {
		h.Addr = t.addr
	}
	if err := checkHello(h); err != nil {
		t.log.Error("Update ignored", "err", err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hello = h
}

// Close drops every connection at once, without a goodbye: to the peers it looks as
// if the process had ended. Goodbyes of an earlier Disconnect have 100 ms to be sent.
// When Close returns, no goroutine is left and no method of the Handler will be
// called; so it must not be called from such a method.
func (t *Transport) Close() {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	t.mu.Unlock()
	if first {
		// The listener first: a peer whose connection breaks redials at once, and must be
		// refused instead of waiting in the backlog.
		if t.listener != nil {
			t.listener.Close()
		}
		for _, c := range *t.routes.Load() {
			c.muted.Store(true)
		}
		t.cancel()
		t.conns.close()
	}
	t.wg.Wait()
}

// pulse checks all connections periodically. It counts pulses instead of reading the
// clock: a pause of this whole process is then one pulse, and no peer counts as lost.
func (t *Transport) pulse() {
	ticker := time.NewTicker(t.timing.pulse)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, c := range *t.routes.Load() {
				c.beat()
			}
		case <-t.ctx.Done():
			return
		}
	}
}

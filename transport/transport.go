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

// Transport is one node's connections. Its methods may be called from any
// goroutine, also from within the Handler's methods, Close excepted.
//
// Its goroutines: listen accepts; pulse looks for silent connections; each peer
// has one that reads its connection, redials, and calls the Handler (peer.run),
// and each connection one that writes (conn.write); handshakes and dials have one
// each, and so have goodbyes (conn.linger). Close ends them all.
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
	routes  atomic.Pointer[map[ID]*conn]
	sockets sockets
	lobby   lobby
	limiter limiter

	// The order of locks is mu, then those of lobby, sockets and a conn's queue.
	// None is held while the Handler or Accept is called.
	mu       sync.Mutex
	closed   bool
	hello    Hello
	peers    map[ID]*peer
	awaited  map[ID][]dial // the handshakes that wait for the peer's decision
	adopted  chan struct{} // closed, and replaced, when a connection is adopted
	epoch    uint64        // the last one given out
	attempts uint64        // dials
	stands   uint64        // verdicts of a following end
}

// Addr is the address that others reach this node at. It is empty if Config.Bind
// was.
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

// routeLocked tells Send of the connection with a peer; nil for none.
func (t *Transport) routeLocked(id ID, c *conn) {
	// Connections come and go rarely, frames all the time: those read without a lock.
	routes := maps.Clone(*t.routes.Load())
	if c == nil {
		delete(routes, id)
	} else {
		routes[id] = c
	}
	t.routes.Store(&routes)
}

// Update replaces what the handshakes from now on say of this node. The ID stays
// as it is, and so does the address if h has none. Peers that are connected do
// not hear of it. An h that Listen would not take changes nothing but the log.
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

// Close drops every connection at once, and tells nobody: the others find out as
// if the process had ended. Goodbyes of an earlier Disconnect get 100 ms to go
// out. When it returns, no goroutine is left and no method of the Handler will be
// called; so it must not be called from one.
func (t *Transport) Close() {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	t.mu.Unlock()
	if first {
		t.cancel()
		// The listener first: who sees its connection break and dials at once must be
		// refused, and not wait in the backlog.
		if t.listener != nil {
			t.listener.Close()
		}
		for _, c := range *t.routes.Load() {
			c.muted.Store(true)
		}
		t.sockets.close()
	}
	t.wg.Wait()
}

// pulse looks after all connections. Counting pulses instead of reading the clock
// makes a pause of this whole process one pulse, and no reason to call peers lost.
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

package gossip

import (
	"sync"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// hub is a network in one process. Each node on it has a goroutine that delivers the
// frames of the others, in order.
type hub struct {
	mu    sync.Mutex
	nodes map[transport.ID]*berth
	cut   func(from, to transport.ID) bool // true: frames are lost silently
}

// berth is one node's place on a hub.
type berth struct {
	hub  *hub
	self env.Member

	arrived sync.Cond
	queue   []letter
	closed  bool
	done    chan struct{}
	receive func(from transport.ID, body []byte)
}

type letter struct {
	from transport.ID
	body []byte
}

func newHub() *hub { return &hub{nodes: make(map[transport.ID]*berth)} }

func (h *hub) setCut(cut func(from, to transport.ID) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = cut
}

// attach adds a node. Frames are delivered to it from start on.
func (h *hub) attach(self env.Member) *berth {
	p := &berth{hub: h, self: self, done: make(chan struct{})}
	p.arrived.L = &h.mu
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes[self.ID] = p
	return p
}

func (p *berth) start(receive func(from transport.ID, body []byte)) {
	p.receive = receive
	go p.deliver()
}

func (p *berth) deliver() {
	defer close(p.done)
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for !p.closed {
		if len(p.queue) == 0 {
			p.arrived.Wait()
			continue
		}
		l := p.queue[0]
		p.queue = p.queue[1:]
		h.mu.Unlock()
		p.receive(l.from, l.body)
		h.mu.Lock()
	}
}

func (p *berth) Send(to transport.ID, kind transport.Kind, _ transport.Class, body []byte) bool {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	other := h.nodes[to]
	if p.closed || other == nil || kind != transport.KindGossip {
		return false
	}
	if h.cut == nil || !h.cut(p.self.ID, to) {
		other.queue = append(other.queue, letter{p.self.ID, body})
		other.arrived.Signal()
	}
	return true
}

func (p *berth) Close() {
	h := p.hub
	h.mu.Lock()
	p.closed = true
	if h.nodes[p.self.ID] == p {
		delete(h.nodes, p.self.ID)
	}
	p.arrived.Signal()
	h.mu.Unlock()
	<-p.done
}

func (p *berth) Addr() string                 { return p.self.Addr }
func (p *berth) Dial(string)                  {}
func (p *berth) Connect(transport.ID, string) {}
func (p *berth) Disconnect(transport.ID)      {}
func (p *berth) Update(transport.Hello)       {}

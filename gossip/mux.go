package gossip

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// Bounds of the memory that peers can make this node use.
const (
	maxPackets     = 256 // packets that memberlist has not received yet; one more is dropped
	maxAccepted    = 128 // streams that memberlist has not accepted yet; one more is closed at once
	maxPeerStreams = 8   // open streams that one peer opened
)

// mux is memberlist's transport: it carries packets and streams in frames.
type mux struct {
	self    transport.ID
	network env.Network
	logger  *slog.Logger

	packets chan *memberlist.Packet
	accepts chan net.Conn

	mu      sync.Mutex
	closed  bool
	number  uint64 // of the last stream that this node opened
	streams map[streamKey]*stream
}

// streamKey identifies a stream.
type streamKey struct {
	peer   transport.ID
	number uint64 // given by the node that opened the stream
	ours   bool   // this node opened it
}

var _ memberlist.NodeAwareTransport = (*mux)(nil)

func newMux(self transport.ID, network env.Network, logger *slog.Logger) *mux {
	return &mux{
		self:    self,
		network: network,
		logger:  logger,
		packets: make(chan *memberlist.Packet, maxPackets),
		accepts: make(chan net.Conn, maxAccepted),
		streams: make(map[streamKey]*stream),
	}
}

// send sends a frame, and reports whether there was a connection and room. Packets
// overtake other traffic, or living nodes would look dead under load; they are few and
// small.
func (m *mux) send(to transport.ID, f frame) bool {
	class := transport.Normal
	if f.Kind == framePacket || f.Kind == frameLeave {
		class = transport.Urgent
	}
	return m.network.Send(to, transport.KindGossip, class, wire.Marshal(f))
}

// receive processes one frame. The result reports that the frame is the sender's
// announcement that it leaves.
func (m *mux) receive(from transport.ID, body []byte) (leaves bool) {
	f, err := readFrame(body)
	if err != nil {
		m.logger.Warn("gossip: dropped a frame", "from", from, "error", err)
		return false
	}
	switch f.Kind {
	case frameLeave:
		return true
	case framePacket:
		m.mu.Lock()
		closed := m.closed
		m.mu.Unlock()
		if closed {
			return false
		}
		select {
		case m.packets <- &memberlist.Packet{Buf: f.Data, From: address(from), Timestamp: time.Now()}:
		default: // packets may be lost
		}
	case frameOpen:
		if !m.accept(from, f.Stream) {
			m.send(from, frame{Kind: frameClose, Stream: f.Stream})
		}
	default:
		m.mu.Lock()
		s := m.streams[streamKey{peer: from, number: f.Stream, ours: !f.Opener}]
		m.mu.Unlock()
		if s != nil { // else the stream is over
			s.receive(f)
		}
	}
	return false
}

// accept adds a stream that peer opens, if there is room, and reports whether it did.
func (m *mux) accept(peer transport.ID, number uint64) bool {
	key := streamKey{peer: peer, number: number}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.streams[key] != nil || m.openedBy(peer) == maxPeerStreams {
		return false
	}
	s := newStream(m, key)
	select {
	case m.accepts <- s:
	default:
		return false
	}
	m.streams[key] = s
	return true
}

// openedBy counts the open streams that a peer opened. It is called with the lock held.
func (m *mux) openedBy(peer transport.ID) (n int) {
	for key := range m.streams {
		if key.peer == peer && !key.ours {
			n++
		}
	}
	return n
}

// forget deletes a stream that is over.
func (m *mux) forget(key streamKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.streams, key)
}

// down breaks the streams with peer.
func (m *mux) down(peer transport.ID) {
	m.breakAll(fmt.Errorf("gossip: the connection with %s is gone", peer), func(k streamKey) bool { return k.peer == peer })
}

func (m *mux) breakAll(err error, which func(streamKey) bool) {
	m.mu.Lock()
	var broken []*stream
	for key, s := range m.streams {
		if which(key) {
			broken = append(broken, s)
		}
	}
	m.mu.Unlock()
	for _, s := range broken {
		s.fail(err)
	}
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (m *mux) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return ip, port, nil
}

// PacketCh implements memberlist.Transport.
func (m *mux) PacketCh() <-chan *memberlist.Packet { return m.packets }

// StreamCh implements memberlist.Transport.
func (m *mux) StreamCh() <-chan net.Conn { return m.accepts }

// WriteTo implements memberlist.Transport. It takes a member's name.
func (m *mux) WriteTo(b []byte, name string) (time.Time, error) {
	return m.WriteToAddress(b, memberlist.Address{Name: name})
}

// WriteToAddress implements memberlist.NodeAwareTransport. Without a connection the
// packet is lost without an error, as with UDP.
func (m *mux) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	id, err := parseID(addr.Name)
	if err != nil {
		return time.Time{}, err
	}
	if len(b) == 0 || len(b) > maxPacket {
		return time.Time{}, fmt.Errorf("gossip: a packet of %d bytes, want 1 to %d", len(b), maxPacket)
	}
	m.send(id, frame{Kind: framePacket, Data: b})
	return time.Now(), nil
}

// DialTimeout implements memberlist.Transport. It takes a member's name.
func (m *mux) DialTimeout(name string, timeout time.Duration) (net.Conn, error) {
	return m.DialAddressTimeout(memberlist.Address{Name: name}, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport. It does not wait for the
// peer: a refusal shows at the first read.
func (m *mux) DialAddressTimeout(addr memberlist.Address, _ time.Duration) (net.Conn, error) {
	id, err := parseID(addr.Name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, net.ErrClosed
	}
	m.number++
	key := streamKey{peer: id, number: m.number, ours: true}
	s := newStream(m, key)
	m.streams[key] = s
	m.mu.Unlock()
	if !m.send(id, frame{Kind: frameOpen, Stream: key.number}) {
		m.forget(key)
		return nil, fmt.Errorf("gossip: no connection with %s", id)
	}
	return s, nil
}

// Shutdown implements memberlist.Transport.
func (m *mux) Shutdown() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.breakAll(net.ErrClosed, func(streamKey) bool { return true })
	return nil
}

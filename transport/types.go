// Package transport carries framed messages between nodes: with one TCP port per node,
// and one connection per pair of nodes for all messages.
//
// It knows nodes and bytes, and nothing of locks. Peers are addressed by [ID]; an
// address is only where to dial.
package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
)

// ID names one incarnation of a node: random and new at every start, never zero.
type ID uint64

// String returns the ID as 16 hexadecimal digits.
func (id ID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// Kind says which part of a node a frame is for.
type Kind uint8

// The kinds of frames that nodes send each other.
const (
	KindControl Kind = iota // for the node as a whole: the core's messages, statuses, operators' questions
	KindShard               // messages about shards
	KindGossip              // gossip packets and streams
)

// Class says which queue a frame waits in.
type Class uint8

// The classes. Urgent frames (renewals, heartbeats, votes) overtake Normal ones;
// frames of one class and pair keep their order while the connection lasts.
const (
	Urgent Class = iota
	Normal
)

// Hello describes a node. The two ends of a new connection exchange it first.
type Hello struct {
	MeshName   string
	MeshID     uint64 // zero: not yet part of a mesh
	Name       string
	ID         ID
	Addr       string // where to dial the sender; empty: it cannot be dialled
	Zone       string
	MinVersion uint32 // the wire versions that the sender speaks
	MaxVersion uint32
	RingHash   uint64 // a hash over a fixed sample of the ring (P29)
}

// Config configures Listen. See the field comments for ranges.
type Config struct {
	Bind      string       // host:port; port 0 picks one
	Advertise string       // host:port that others dial; empty: Bind's, with a routable IP in place of a wildcard
	Hello     Hello        // Addr is filled in by Listen
	TLS       *tls.Config  // nil: no TLS; else as CheckTLS wants it
	Logger    *slog.Logger // never nil
	Sockets   Sockets      // nil: TCP

	// Accept decides on the other end's Hello on every new connection, dialled or
	// accepted. An error closes the connection; its text is sent to the other end,
	// which gets it as a *RefusedError. Nil accepts every node with a common version.
	// Accept may be called by several goroutines at once.
	Accept func(Hello) error
}

// Sockets makes connections; tests implement it with a network of their own. Errors are
// those of package net: a refused dial wraps syscall.ECONNREFUSED.
type Sockets interface {
	// Listen opens a host:port. Other nodes can dial the address of the listener.
	Listen(addr string) (net.Listener, error)
	// Dial connects with a host:port. It fails when ctx ends; the connection does not end with ctx.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// Cause is the reason why a connection is gone.
type Cause uint8

// The causes of Down.
const (
	Lost         Cause = iota // broken, and the redial brought no other news: the peer may live
	Goodbye                   // the peer closed it on purpose
	Refused                   // broken, and an immediate redial was refused: no process listens there
	Replaced                  // broken, and another incarnation answers at its address
	Disconnected              // this end called Disconnect
)

// Handler receives the events of a node's connections. Calls of Up, Down and Receive for
// one peer come in order; Dialed may come at any time, also during such a call. Its
// methods must not block.
type Handler interface {
	// Dialed reports the outcome of Dial(addr): the node that answered, or an error. Both
	// are set if a node answered and the connection did not come about: this node itself
	// answered (ErrSelf), one end refused (*RefusedError), or the handshake broke off.
	Dialed(addr string, peer Hello, err error)
	// Up reports a new connection with peer, whichever end dialled. A connection that
	// replaces another one of the same pair is not reported again. Each Up is followed
	// by one Down, whichever end ends the connection, unless Close comes first.
	Up(peer Hello)
	// Down reports that the connection is gone. Unless the cause is Goodbye or Disconnected,
	// it is what an immediate redial found. An end that did not dial the connection, and does not keep
	// one with the peer (Transport.Connect), does not redial: it reports Lost if the peer has not dialled
	// again within a second. Replaced may also come without an Up before it.
	Down(peer ID, cause Cause)
	// Receive delivers one frame. The handler owns body.
	Receive(from ID, kind Kind, body []byte)
}

// RefusedError: one end refused the connection, by its Accept, because there is no common wire version,
// or because of an invalid Hello.
type RefusedError struct {
	Peer   Hello  // the node that answered
	Reason string // as the refusing end states it
	Remote bool   // the other end refused
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Remote {
		return fmt.Sprintf("transport: %s refused the connection: %s", e.Peer.Addr, e.Reason)
	}
	return fmt.Sprintf("transport: refused %s: %s", e.Peer.Addr, e.Reason)
}

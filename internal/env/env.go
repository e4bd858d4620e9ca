// Package env is the one place where a node touches its environment: time, waiting,
// threads of control, the network, and news of members.
//
// Everything else in a node is a function of what comes in through here. The
// real environment (internal/realenv: goroutines, TCP and memberlist) and the simulator
// (virtual time, one event at a time) each implement it once; the same node and
// the same public API run over both.
package env

import (
	"context"
	"math"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// Env is the environment that one process gives to its nodes. Its methods may be called from any
// goroutine.
type Env interface {
	// Now is the time on the clock by which leases are measured: it only grows,
	// runs while the machine sleeps, and has no meaning outside this process.
	Now() time.Duration

	// Wall is the time of day. Within a mesh nothing that decides who holds a lock reads it. It is
	// read for the first revisions of generations (P17), which also say which of two meshes that
	// meet is the later one (C10), and to show times to users.
	Wall() time.Time

	// Hostname is the host's name, as its system knows it; "" if it has none.
	Hostname() string

	// Seed returns a number that no other call returned: the source of node IDs,
	// and of the seeds of the streams that draw jitter.
	Seed() uint64

	// NewParker returns a place where one caller can wait.
	NewParker() Parker

	// NewLoop returns a loop that calls run soon after each Wake, and when Now
	// reaches the time that run returned last (Never for none). Wakes that come
	// before run starts are one. Calls of run never overlap. The name is for
	// traces.
	NewLoop(name string, run func(now time.Duration) (next time.Duration)) Loop

	// Go runs fn beside the loops, where it may block: on a goroutine or as an actor of its own. Its ctx carries this
	// Env, and ends after limit, or when the function that Go returns is called; that does not wait for fn.
	Go(name string, limit time.Duration, fn func(ctx context.Context)) (cancel func())

	// OpenStore opens a state directory. The error is ErrStoreTaken if another process has it open.
	OpenStore(dir string) (Store, error)

	// Listen opens a node's one port. The handler's methods are called from
	// the network's own goroutines until Close returns, and must not block.
	Listen(cfg transport.Config, h transport.Handler) (Network, error)

	// NewMembership starts gossip for self over net. News goes to events, which
	// must not block.
	NewMembership(self Member, net Network, events func(MemberEvent)) (Membership, error)
}

// Parker lets one goroutine (in the simulator: one actor) wait. One goroutine
// parks at a time; anyone may unpark.
type Parker interface {
	// Park returns when Unpark was called since the last Park returned, when ctx
	// ends, or when Now reaches until (Never for no limit): whatever comes first.
	// If Unpark was called, it says Unparked, whatever else has happened.
	Park(ctx context.Context, until time.Duration) Wake
	Unpark()
}

// Wake is the reason why Park returned.
type Wake uint8

// The reasons for which Park returns.
const (
	Unparked Wake = iota
	ContextEnded
	TimedOut
)

// Loop is a thread of control that only its Env drives.
type Loop interface {
	// Wake asks for one more run, soon.
	Wake()
	// Stop returns when no run is under way and none will come. It must not be
	// called from run.
	Stop()
}

// Network is one node's connections. It is implemented by *transport.Transport
// and by the simulator.
type Network interface {
	// Addr is the address that others reach this node at.
	Addr() string
	// Dial dials addr once to learn which node answers, and reports to Handler.Dialed.
	// A connection that results is kept like any other.
	Dial(addr string)
	// Connect keeps a connection to the node id, last known at addr, redialling
	// with jitter until Disconnect. Later calls change the address.
	Connect(id transport.ID, addr string)
	// Disconnect ends the connection with id with a goodbye. Handler.Down reports it, too.
	Disconnect(id transport.ID)
	// Send queues one frame for id and reports whether there was a connection and room. It never
	// blocks, keeps body, and promises no delivery.
	Send(id transport.ID, kind transport.Kind, class transport.Class, body []byte) bool
	// Update replaces the Hello that later handshakes send.
	Update(h transport.Hello)
	// Close drops every connection at once, without a goodbye.
	Close()
}

// MaxMember bounds a member's name, address and zone, in bytes together: what memberlist's 512 bytes
// of metadata have room for, whichever of them is long.
const MaxMember = 504

// Member is one node as gossip describes it.
type Member struct {
	ID   transport.ID
	Name string
	Addr string
	Zone string
}

// MemberEvent is a hint, and may be false: under load gossip reports living nodes as
// dead, and it detects dead nodes late.
type MemberEvent struct {
	Member Member
	State  MemberState
}

// MemberState is what gossip believes of a member.
type MemberState uint8

// The states of a member.
const (
	Alive MemberState = iota
	Dead              // it does not answer; it may well live
	Left              // it said that it leaves
)

// Membership is a node's gossip.
type Membership interface {
	// Join makes contact with these nodes, to which the network has connections.
	Join(peers []Member)
	// Leave tells the others that this node goes, and returns at once.
	Leave()
	// Close stops gossip without announcing it.
	Close()
}

type envKey struct{}

// With returns a context in which nodes are started in the environment w.
func With(ctx context.Context, w Env) context.Context {
	return context.WithValue(ctx, envKey{}, w)
}

// FromContext returns the environment that ctx carries, or nil for the real one.
func FromContext(ctx context.Context) Env {
	w, _ := ctx.Value(envKey{}).(Env)
	return w
}

package env

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Instrumented is an environment that the project's own tests look into. The real
// environment is not one. A node asks whether its environment is one when it starts.
type Instrumented interface {
	Env
	// Observer hears what the nodes' replicas do, or is nil.
	Observer() Observer
	// Clients hears what the nodes' callers are told, or is nil.
	Clients() Clients
	// Points decides on the nodes' fault points, or is nil.
	Points() point.Points
	// Logger is where nodes log that were not given a logger.
	Logger() *slog.Logger
	// Inspect passes on an access to the state of a node that was started here.
	Inspect(id transport.ID, node Inspected)
}

// Inspected is a node that can be looked into, between two events of a simulation.
type Inspected interface {
	// Replicas returns the node's replicas, by shard. Nothing else of the node may run
	// meanwhile.
	Replicas() []Replica
	// Mesh names the mesh that the node belongs to; zero: none yet, or no more.
	Mesh() uint64
	// Seats returns the node that has the seat of each entry of the mesh's list, as far as this one knows; zero: none
	// yet, or none any more: the one that had it is silent. Nil if it knows of no mesh.
	Seats() []transport.ID
	// Entries returns the entries of the mesh's list, as far as this node knows, in the order of Seats. Nil if it knows of no mesh.
	Entries() []string
	// Generations returns, by shard, in which generation it lives, as far as this node knows. Nil if it knows of no
	// mesh.
	Generations() []Generation
	// Pending reports whether the node calls, or has accepted the value of a roll call, and does not know yet that a roll
	// call was decided.
	Pending() bool
	// Ready reports whether the node has arrived in its mesh, and does not leave it.
	Ready() bool
	// Messages names the messages in a frame that the node sends to another: "lock k",
	// "granted k token 7", "heartbeat". It asks asked for what a reply replies to.
	Messages(kind transport.Kind, body []byte, to transport.ID, asked Asked) []string
	// Asked names the command that the node sent to a shard under this number, if it
	// still waits for the answer: "unlock k token 7".
	Asked(shard int, session, number uint64) string
	// Break makes the node's replica of a shard stop, as a panic in it would.
	Break(shard int)
	// Corrupt makes the table of the node's replica of a shard differ from the others', as a
	// fault of memory would.
	Corrupt(shard int)
	// Leave is the node's own: it hands everything over, and ends the node. An actor
	// calls it.
	Leave(ctx context.Context) error
}

// Asked returns the command that a node sent under a number: see Inspected.
type Asked func(node transport.ID, shard int, session, number uint64) string

// Generation is what the core's table says of a generation of a shard.
type Generation struct {
	Name   uint64
	Voters []transport.ID
	Next   []transport.ID // those to which the shard may change, or has changed; nil: none
}

// Replica is what one replica knows, as far as it has applied its log.
type Replica struct {
	Shard      int
	Generation uint64
	Voters     []transport.ID // the nodes that vote
	Outgoing   []transport.ID // and those that vote beside them while the voters change
	Unsettled  bool           // its log holds a change of voters that it has not applied
	Coming     []transport.ID // and those that vote once its log is applied; none if all of it is
	Serving    bool           // it leads, and takes commands
	Missed     []transport.ID // those of the voters that it does not hear while it serves, or that leave or are not to vote

	Last    uint64                // the index of the last entry of its log
	Applied uint64                // the log's index up to which its table was made
	Sum     func() uint64         // a hash of everything in the table
	Records func() []shard.Record // the sessions in it
}

// Observer hears what nodes and their replicas do. Every replica tells what it does, so most decisions are
// told several times. It is called from a node's shard loop or its membership loop, and by who calls Leave or
// Close; it must not block, and must not call the node.
type Observer interface {
	// Observe hears a fact from a replica: a [shard.Decision] of its table, or one of the types below.
	Observe(at At, fact any)
	// Founded: a node has learned of which mesh it is.
	Founded(node transport.ID, mesh uint64)
	// Fenced: from now on no replica of the node moves, or they move again. Their leaders go on as after a stall (P10).
	Fenced(node transport.ID, fenced bool)
	// Ended: a node that served has ended itself, which nobody had asked it for.
	Ended(node transport.ID, err error)
	// Leaving: Leave was called with ctx, and waits for the locks that are held on the node.
	Leaving(node transport.ID, ctx context.Context)
	// Left: the node is about to end, for Leave is done. Handed: others have all its replicas, and can do without it.
	Left(node transport.ID, handed bool)
	// Closed: a node has ended, or could not join, and did not leave.
	Closed(node transport.ID)
}

// At says which replica tells a fact.
type At struct {
	Shard      int
	Generation uint64
	Node       transport.ID // on which it lives
}

// Stepped: the table has taken in a command of a log entry. Told are the events of that: an observer must read them before it
// returns.
type Stepped struct {
	Index   uint64 // of the entry
	Command shard.Command
	Told    []shard.Event
}

// Applied: the table has taken in the log entry at Index.
type Applied struct {
	Index  uint64
	Digest uint64 // of all that happened to the table
}

// Became: the replica has another role, or its old one in another term.
type Became struct {
	Term uint64
	Role string // "leader", "candidate", "follower", "learner", or "none"
}

// Served: the replica has begun to serve as its shard's leader, or ceased to.
type Served struct{ Serving bool }

// Handover: the leader has begun to hand leadership over to another node.
type Handover struct{ To transport.ID }

// Heard: the leader has received a sign of life, from which a session's lease counts.
type Heard struct {
	Session shard.SessionID
	TTL     time.Duration
}

// Hosted: the replica was made. It knows nothing yet, or what its generation begins with.
type Hosted struct {
	ID uint64 // the replica's own in its shard
}

// Configured: after the entry at Index, these are the shard's replicas, voters or not.
type Configured struct {
	Index    uint64
	Replicas []Placed // by ID
}

// Placed says on which node a replica lives.
type Placed struct {
	ID   uint64
	Node transport.ID
}

// Stopped: the replica has stopped itself, since it panicked or met what it must not go on with. Of a panic,
// Err has the stack, too. It wraps ErrBroken if it was asked for.
type Stopped struct{ Err error }

// ErrBroken is what a replica panics with that Inspected.Break was called for.
var ErrBroken = errors.New("broken by a simulation")

package seam

import (
	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/transport"
)

// Instrumented is a World that the project's own tests look into. The real world
// is none, and a node asks once, when it starts.
type Instrumented interface {
	World
	// Bugs are the deliberate bugs of the nodes that are born here.
	Bugs() bug.Set
	// Observer hears what the nodes' tables decide, or is nil.
	Observer() Observer
	// Points decides on the nodes' fault points, and hears of their marks; or it is nil.
	Points() *point.Points
	// Inspect hands over a way to look into a node that was born here.
	Inspect(id transport.ID, node Inspected)
}

// Inspected is a node that can be looked into, between two events of a simulation.
type Inspected interface {
	// Replicas returns the node's replicas, by shard. Nothing else of the node may run
	// meanwhile.
	Replicas() []Replica
	// Messages names the messages in a frame that the node sends: "lock", "granted",
	// "heartbeat".
	Messages(kind transport.Kind, body []byte) []string
}

// Replica is what one replica's log says of its shard's voters, as far as it has applied it.
type Replica struct {
	Shard      int
	Generation uint64
	Voters     []transport.ID // the nodes that vote
	Outgoing   []transport.ID // and those that vote beside them while the voters change
	Unsettled  bool           // its log holds a change of voters that it has not applied
	Serving    bool           // it leads, and takes commands
}

// Observer hears of each decision that a replica applies to its table: from every
// replica, so most decisions come several times. It is called from the replica's
// lane, must not block, and must not call the node.
type Observer interface {
	Decided(Decision)
}

// Decision is what the table did with one request.
type Decision struct {
	Shard      int
	Generation uint64
	Revision   uint64       // of the table when it decided; with What, Owner, Session and Request, the decision's name
	Replica    transport.ID // who applied it
	What       DecisionKind
	Key        string
	Owner      transport.ID // the session's node
	Session    uint64       // the session's number
	Request    uint64       // the request's number
	Token      uint64       // Granted and Released
}

// DecisionKind says what the table did.
type DecisionKind uint8

// The kinds of decisions.
const (
	Queued   DecisionKind = iota + 1 // the request entered the key's queue, or was granted at once
	Granted                          // it holds the key
	Released                         // it holds it no more: unlocked, expired or forced
	Dropped                          // it left the queue without a grant: cancelled or expired
)

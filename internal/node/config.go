package node

import (
	"log/slog"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Config is everything that Start needs, already checked by package mesh, with
// zero for what the user did not set, and the mesh's own value then rules.
type Config struct {
	Env       env.Env
	Transport transport.Config // Bind, Advertise, TLS, Logger; Start fills in the rest
	Seeds     []string         // blanks dropped
	MeshName  string           // "" means: whatever the mesh that answers is called, or "default"
	Name      string           // "" means the advertised address
	Zone      string
	Found     bool // WithFound
	Shards    int
	Replicas  int
	LeaseTTL  time.Duration
	MaxTTL    time.Duration
	Lanes     int  // zero: as many as pay
	Check     bool // verify the tables' invariants after each step
	Logger    *slog.Logger
	Bugs      bug.Set
}

// Mode says how much of a key a request wants.
type Mode uint8

// The modes.
const (
	Exclusive Mode = iota // a lock, the whole of it
	Shared                // a lock, beside other readers
	Permits               // a semaphore's permits
)

// Request is one wish to hold something. Keys, weights and durations are checked
// by package mesh before they get here.
type Request struct {
	Key      string
	Mode     Mode
	Weight   int64 // Permits only
	Capacity int64 // Permits only
	Try      bool
	Value    []byte
	MaxHold  time.Duration // zero: renewed until released
}

// share is how much of the key the request wants, and how much there is of it.
func (q *Request) share() (weight, capacity int64) {
	switch q.Mode {
	case Shared:
		return 1, shard.Whole
	case Permits:
		return q.Weight, q.Capacity
	}
	return shard.Whole, shard.Whole
}

// WaitInfo is what is known of a request that did not become a hold.
type WaitInfo struct {
	Holder string // the name of the node that holds the key, as far as known
	Token  uint64 // the holder's
	Ahead  int    // requests before this one in the queue
	Queued bool   // the request was in the queue
	Leader string // the shard's leader, as far as known
	Quorum bool   // an answer came from the shard within the last 2·E
}

// Params are the mesh's founding values (P29), the same on every member.
type Params struct {
	Shards   int
	Replicas int
	MaxTTL   time.Duration
	LeaseTTL time.Duration // this node's own default
}

// Member is one node of the mesh.
type Member struct {
	ID    transport.ID
	Name  string
	Addr  string
	Zone  string
	State env.MemberState
}

// Health is how the mesh's shards are, as this node knows.
type Health struct {
	Ready           bool  // this node can serve calls
	FullyReplicated bool  // every shard has the voters that its members allow
	NoMajority      []int // shards that did not answer for 2·E
	UnderReplicated []int // shards that have fewer replicas in step than they should
}

package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/transport"
)

// Config is everything that Start needs, checked by package mesh. Zero means not set: then the
// mesh's value applies, and for LeaseTTL founding.DefaultLeaseTTL, but at most the mesh's MaxTTL.
type Config struct {
	Env       env.Env
	Transport transport.Config // Bind (none: it listens nowhere, and stays a client), Advertise, TLS; Start fills in the rest
	Seeds     []string         // blanks dropped
	MeshName  string           // "" means: whatever the mesh that answers is called, or "default"
	Name      string           // "" means the advertised address, or one made of the ID if there is none
	Zone      string
	StateDir  string // WithStateDir; "" means none
	Client    bool   // WithClientOnly: never of the core, and no port is opened
	Found     bool   // WithFound
	Entry     string // of Seeds; "" means that the host's name says it, or a dial that reaches the node

	// Discover returns contact points, host:port. A node that has it is a client. It is called outside of the node's
	// loops, one call at a time, and is to return soon after its context ends. Nil: there are the Seeds only.
	Discover func(ctx context.Context) ([]string, error)

	// Oracle is WithDeathOracle, or nil. It is called as Discover is.
	Oracle func(ctx context.Context, m env.Member) (dead bool, err error)

	Shards   int
	Replicas int
	LeaseTTL time.Duration
	MaxTTL   time.Duration
	Check    bool // verify the tables' invariants after each step; set by tests alone, and implied by an env.Instrumented
	Logger   *slog.Logger
}

// Member is one node of the mesh.
type Member = members.Member

package node

import (
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
	Found     bool // WithFound
	Shards    int
	Replicas  int
	LeaseTTL  time.Duration
	MaxTTL    time.Duration
	Check     bool // verify the tables' invariants after each step
	Logger    *slog.Logger
}

// Member is one node of the mesh, and Health is how its shards are, as this node knows.
type (
	Member = members.Member
	Health = members.Health
)

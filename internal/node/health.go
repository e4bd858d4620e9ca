package node

import (
	"slices"

	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/seat"
)

// Phase is how far the mesh is in its life, as one of its nodes knows.
type Phase uint8

// The phases. The first that fits counts, but Recovering comes before Quiet and Serving.
const (
	Waiting    Phase = iota // in no mesh yet: the node waits for entries, or for its own
	Founding                // all entries answer, and the mesh is being founded; or the node is in it and has not caught up
	Quiet                   // all shards have leaders, and some grant nothing yet
	Serving                 // all shards have leaders, and grant
	Recovering              // shards have no leader, or this node's replicas are fenced
)

// Health is how the mesh and its shards are, as far as this node knows.
type Health struct {
	members.Health
	Role       seat.Role
	Phase      Phase
	SafeToStop bool        // this node may end now, and no shard loses its majority
	Unfounded  bool        // see seat.Standing
	Waiting    []seat.Away // the entries that are waited for, by this node's clock
}

// Health returns how the mesh's shards are, as far as this node has heard.
func (n *Node) Health() Health {
	s := n.standing.Load()
	n.membership.mu.Lock()
	h := Health{Health: n.membership.health, Role: s.Role, Unfounded: s.Unfounded && n.Err() == nil}
	n.membership.mu.Unlock()
	h.Waiting = slices.Clone(s.Away)
	h.NoMajority, h.UnderReplicated = slices.Clone(h.NoMajority), slices.Clone(h.UnderReplicated)
	h.Phase = h.phase(s)
	// Of two voters both make the majority. Of three or more any one can go, as long as the others are in step.
	h.SafeToStop = s.Role == seat.Client || h.Settled && !s.Fenced && s.Voters >= 3 && h.Spare
	h.Ready = h.Ready && h.Phase == Serving && n.Ready()
	return h
}

func (h *Health) phase(s *seat.Standing) Phase {
	switch {
	case s.Voters == 0 && (len(s.Away) > 0 || s.Role != seat.AtEntry):
		return Waiting
	case !h.Settled:
		return Founding
	case len(h.NoMajority) > 0 || s.Fenced:
		return Recovering
	case h.QuietUntil != 0:
		return Quiet
	}
	return Serving
}

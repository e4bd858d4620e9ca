package replica

import (
	"math"

	"github.com/lockmesh/mesh/internal/wire"
)

// What the nodes of a shard's replicas say to each other of them, beside [Frame], [Chunk], [ChunkAck]
// and [Sum].
type (
	// Host tells a node to create a replica.
	Host struct{ Generation, ID uint64 }

	// Removed tells a node that its replica was removed from the shard. Highest is the largest ID
	// that the sender's table knows.
	Removed struct{ Generation, ID, Highest uint64 }

	// Missing tells a sender that the replica to which it sent was on this node, and no
	// longer exists (P24, P41).
	Missing Host

	// Offer asks the node of a voter whether it would lead (P22). Term is the offering leader's.
	Offer struct{ Term uint64 }

	// Accept says that the sender would lead.
	Accept struct{ Term uint64 }
)

func (m *Host) Fields(c *wire.Codec) {
	c.Uint(&m.Generation, math.MaxUint64)
	ReplicaID(c, &m.ID)
}

func (m *Removed) Fields(c *wire.Codec) {
	c.Uint(&m.Generation, math.MaxUint64)
	c.Uint(&m.ID, math.MaxUint64)
	c.Uint(&m.Highest, math.MaxUint64)
}

func (m *Missing) Fields(c *wire.Codec) { (*Host)(m).Fields(c) }

func (m *Offer) Fields(c *wire.Codec) { c.Uint(&m.Term, math.MaxUint64) }

func (m *Accept) Fields(c *wire.Codec) { c.Uint(&m.Term, math.MaxUint64) }

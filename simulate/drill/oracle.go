package drill

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// oracle knows which processes have ended, as the API of a cloud does (C6). It says so only of nodes that had joined. At times it
// answers late, or not at all.
type oracle struct {
	chance  *rand.Rand
	process map[string]process // by the ID of its node
}

// process is one of those that ran on a host.
type process struct {
	host        *simulate.Host
	incarnation int
}

func newOracle(w *simulate.World) *oracle {
	return &oracle{rand.New(rand.NewPCG(w.Seed(), 6)), make(map[string]process)}
}

// started notes the process that a node runs in. An earlier node of the host that is still listed, and did not join, is taken for the same
// process: of that the oracle learns the end too late, which is no lie.
func (o *oracle) started(n *mesh.Node, h *simulate.Host) {
	for _, m := range n.Members() {
		if _, known := o.process[m.ID]; m.Name == n.Name() && !known {
			o.process[m.ID] = process{h, h.Incarnation()}
		}
	}
}

var errAPI = errors.New("the API of the cloud does not answer")

// ended is the oracle of each node.
func (o *oracle) ended(ctx context.Context, m mesh.Member) (bool, error) {
	if err := simulate.Sleep(ctx, upTo(o.chance, 4*time.Second)); err != nil {
		return false, err
	}
	if o.chance.IntN(4) == 0 {
		return false, errAPI
	}
	p, ok := o.process[m.ID]
	return ok && (!p.host.Up() || p.host.Incarnation() != p.incarnation), nil
}

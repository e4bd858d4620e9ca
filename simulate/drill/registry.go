package drill

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// registry is where clients look for the core ([mesh.WithDiscovery]). In the storm it answers late, leaves entries out, or fails.
type registry struct {
	drill  *Drill
	chance *rand.Rand
}

func newRegistry(w *simulate.World, d *Drill) *registry {
	return &registry{d, rand.New(rand.NewPCG(w.Seed(), 7))}
}

var errRegistry = errors.New("the registry does not answer")

// find returns entries of the core's list, at least one.
func (r *registry) find(ctx context.Context) ([]string, error) {
	list := slices.Clone(r.drill.admin.list)
	if r.drill.Lockers.Quiet() {
		return list, nil
	}
	if err := simulate.Sleep(ctx, upTo(r.chance, 2*time.Second)); err != nil {
		return nil, err
	}
	switch r.chance.IntN(4) {
	case 0:
		return nil, errRegistry
	case 1:
		r.chance.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list[:1+r.chance.IntN(len(list))], nil
	}
	return list, nil
}

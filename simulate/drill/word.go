package drill

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// patience is for how long an operator tries to have its word heard, at most: in a storm the core may not be there to hear it.
const patience = 30 * time.Second

// declareDead ends the process, or the machine, of an entry of the list, and declares its node dead (C6). Until all have given up asking,
// no other process joins there: the word is about an entry, and is to be true of whatever node has that.
func (o *operator) declareDead(ctx context.Context, chance *rand.Rand) {
	i := chance.IntN(len(o.list))
	entry := o.list[i]
	var others []string
	for _, e := range o.list {
		if e != entry {
			others = append(others, e[:len(e)-len(port)])
		}
	}
	if len(others) == 0 {
		return
	}
	o.away = entry[:len(entry)-len(port)]
	host := simulate.WorldOf(ctx).Host(o.away)
	if chance.IntN(2) == 0 {
		host.Crash()
	} else {
		host.PowerOff()
	}
	o.says(ctx, others, chance, func(ctx context.Context, n *mesh.Node) error { return n.DeclareDead(ctx, entry) })
	o.away = ""
	host.Restart()
}

// startAnew ends all processes at once, starts them again, and ends the quiet time when no visitor believes in a lock any more (C5). Nor
// does anybody else, for until all have given up asking, nobody asks for one.
func (o *operator) startAnew(ctx context.Context, chance *rand.Rand) {
	o.cold = true
	w := simulate.WorldOf(ctx)
	hosts := w.Hosts()
	for _, h := range hosts {
		h.Crash()
	}
	for _, h := range hosts {
		_ = simulate.Sleep(ctx, upTo(chance, 300*time.Millisecond))
		h.Restart()
	}
	_ = until(ctx, func() bool { return !o.drill.guests.believe(w.Now()) })
	o.says(ctx, o.drill.Lockers.Hosts, chance, func(ctx context.Context, n *mesh.Node) error {
		err := n.EndQuiet(ctx)
		if errors.Is(err, mesh.ErrNotQuiet) && chance.IntN(2) == 0 { // of a mesh that has grown out of it; or this node has not heard of it
			return nil
		}
		return err
	})
	o.cold = false
}

// says gives the operator's word to nodes of these hosts until one says that it is decided, or the operator loses patience. When it
// returns, no node has the word that has not decided what it is about.
func (o *operator) says(ctx context.Context, hosts []string, chance *rand.Rand, word func(ctx context.Context, n *mesh.Node) error) {
	tries, cancel := simulate.WithTimeout(ctx, patience)
	o.insist(tries, hosts, chance, word)
	cancel()
	for o.asks > 0 && simulate.Sleep(ctx, time.Second) == nil {
	}
}

// lets waits until a process may join on a host.
func (o *operator) lets(ctx context.Context, host string) error {
	return until(ctx, func() bool { return o.away != host })
}

// warms waits until the callers of a node may ask it for something.
func (o *operator) warms(ctx context.Context) error {
	return until(ctx, func() bool { return !o.cold })
}

func until(ctx context.Context, is func() bool) error {
	for !is() {
		if err := simulate.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// What is done once, and a latch, as pure functions, with which Porcupine compares what callers did: for as long as nothing is forgotten.

// onceStep is one thing that befell a key that is done once
type onceStep uint8

const (
	onceStarts   onceStep = iota // a function has begun: nothing has succeeded
	onceSucceeds                 // a caller has said so
	onceSkips                    // a call returned without its function: another one has succeeded
)

// onceModel: its state is whether a function has succeeded.
var onceModel = porcupine.Model{
	Init: func() any { return false },
	Step: func(state, input, _ any) (bool, any) {
		done := state.(bool)
		switch input.(onceStep) {
		case onceStarts:
			return !done, done
		case onceSkips:
			return done, done
		}
		return true, true
	},
}

// latchSize is how many names open the latches of these tests.
const latchSize = 3

// latchModel: its state is the set of names that have arrived; an input of -1 is a wait.
var latchModel = porcupine.Model{
	Init: func() any { return uint(0) },
	Step: func(state, input, _ any) (bool, any) {
		names := state.(uint)
		if i := input.(int); i >= 0 {
			return true, names | 1<<i
		}
		return bits.OnesCount(names) >= latchSize, names
	},
}

// history is what happened to each key.
type history map[string][]porcupine.Operation

func (h history) add(key string, client int, input any, from, to time.Duration) {
	h[key] = append(h[key], porcupine.Operation{ClientId: client, Input: input, Call: int64(from), Return: int64(to)})
}

// ever is when what was not confirmed has happened at the latest.
const ever = time.Duration(math.MaxInt64)

func (h history) check(model porcupine.Model) error {
	for key, ops := range h {
		if res := porcupine.CheckOperationsTimeout(model, ops, 30*time.Second); res != porcupine.Ok {
			return fmt.Errorf("%s: %v: %+v", key, res, ops)
		}
	}
	return nil
}

// callersPerNode is how many callers underCuts has on each node.
const callersPerNode = 3

// underCuts lets callers on all nodes call, again and again, until a time has passed, while one node after the other is cut off. It returns when the
// last call has.
func (w *trial) underCuts(seed uint64, lasts time.Duration, call func(ctx context.Context, n *mesh.Node, caller int, chance *rand.Rand)) {
	start, callers, over := w.Now(), 0, 0
	hosts := slices.Sorted(maps.Keys(w.nodes))
	for i, host := range hosts {
		for j := range callersPerNode {
			caller, chance := callers, rand.New(rand.NewPCG(seed, uint64(callersPerNode*i+j)))
			callers++
			w.begin(host, func(ctx context.Context, n *mesh.Node) {
				for simulate.Now(ctx)-start < lasts {
					_ = simulate.Sleep(ctx, time.Duration(chance.Int64N(int64(500*time.Millisecond))))
					call(ctx, n, caller, chance)
				}
				over++
			})
		}
	}
	for chance := rand.New(rand.NewPCG(seed, 99)); w.Now()-start < lasts; {
		w.Net.Isolate(hosts[chance.IntN(len(hosts))])
		w.pass(time.Duration(chance.Int64N(int64(5 * time.Second))))
		w.Net.Heal()
		w.pass(time.Duration(chance.Int64N(int64(2 * time.Second))))
	}
	w.until("all callers are done", 2*time.Minute, func() bool { return over == callers })
}

// Promise: P43, P44: while nothing is forgotten, each key that is done once, and each latch, behaves like one that has a single place and does one
// thing at a time; whichever nodes are cut off or stand still meanwhile.
func TestOnceAndLatchesAreLinearizable(t *testing.T) {
	for seed := range fewer[uint64](3, 40) {
		w := newTrial(t, simulate.Options{Seed: seed}, 3*time.Second, 5)
		onces, latches := make(history), make(history)
		w.underCuts(seed, 30*time.Second, func(ctx context.Context, n *mesh.Node, client int, chance *rand.Rand) {
			key := fmt.Sprint(int(simulate.Now(ctx) / (3 * time.Second)))
			short, cancel := simulate.WithTimeout(ctx, time.Duration(1+chance.Int64N(int64(6*time.Second))))
			defer cancel()
			from := simulate.Now(ctx)
			switch name := chance.IntN(2 * latchSize); {
			case chance.IntN(3) > 0:
				fails, began, ended := chance.IntN(3) == 0, time.Duration(-1), time.Duration(0)
				ran, err := n.Once(short, "once/"+key, time.Hour, func(ctx context.Context, op *mesh.Operation) error {
					began = simulate.Now(ctx)
					_ = simulate.Sleep(ctx, time.Duration(chance.Int64N(int64(2*time.Second))))
					if ended = simulate.Now(ctx); fails {
						return errors.New("failed")
					}
					return nil
				})
				if began >= 0 {
					onces.add(key, client, onceStarts, from, began)
				}
				switch {
				case ran:
					onces.add(key, client, onceSucceeds, ended, simulate.Now(ctx))
				case began < 0 && err == nil:
					onces.add(key, client, onceSkips, from, simulate.Now(ctx))
				case errors.Is(err, mesh.ErrUnconfirmed) && !fails:
					onces.add(key, client, onceSucceeds, ended, ever)
				}
			case name >= latchSize:
				if err := n.Latch("latch/"+key, latchSize).Wait(short); err == nil {
					latches.add(key, client, -1, from, simulate.Now(ctx))
				}
			default:
				to := ever
				if err := n.Latch("latch/"+key, latchSize).Arrive(short, fmt.Sprint("name", name)); err == nil {
					to = simulate.Now(ctx)
				}
				latches.add(key, client, name, from, to)
			}
		})
		if err := errors.Join(onces.check(onceModel), latches.check(latchModel)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		counts := make(map[any]int)
		for _, all := range []history{onces, latches} {
			for _, ops := range all {
				for _, op := range ops {
					counts[op.Input]++
				}
			}
		}
		for _, what := range []any{onceStarts, onceSucceeds, onceSkips, -1, 0} {
			if counts[what] < 5 {
				t.Errorf("seed %d: too little has happened: %v", seed, counts)
			}
		}
	}
}

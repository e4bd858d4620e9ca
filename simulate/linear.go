package simulate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// A key as a pure function: what Porcupine compares histories with.

// lockState is who holds a key. It is never changed, only replaced.
type lockState struct {
	last    uint64 // the highest token so far
	grants  int
	holders []holder
}

type holder struct {
	token  uint64
	weight int64
}

// lockInput is one operation: an acquisition, or the end of a hold.
type lockInput struct {
	acquire  bool
	rank     int // of an acquisition, by its token
	token    uint64
	weight   int64
	capacity int64
}

// lockModel grants what fits, with tokens that grow, and ends holds by their
// token. Since the tokens of a whole history are known, so is the order of its
// grants: the rank spares Porcupine the search for it. A call that failed or timed out may have been granted for a while and
// undone; since others see nothing of that but a wait, it is no operation at all.
// A hold that ends without a confirmed release may end at any time after its
// belief; so may an unlock that was not confirmed.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(lockInput)
		if !in.acquire {
			i := slices.IndexFunc(s.holders, func(h holder) bool { return h.token == in.token })
			if i < 0 {
				return false, s
			}
			return true, lockState{s.last, s.grants, slices.Concat(s.holders[:i], s.holders[i+1:])}
		}
		var used int64
		for _, h := range s.holders {
			used += h.weight
		}
		if in.rank != s.grants || in.token <= s.last || used+in.weight > in.capacity {
			return false, s
		}
		return true, lockState{in.token, s.grants + 1, append(slices.Clip(s.holders), holder{in.token, in.weight})}
	},
	Equal: func(a, b any) bool {
		x, y := a.(lockState), b.(lockState)
		return x.grants == y.grants && slices.Equal(x.holders, y.holders) // holders are in the order of their tokens
	},
	DescribeOperation: func(input, _ any) string {
		in := input.(lockInput)
		if in.acquire {
			return fmt.Sprintf("acquire %d of %d: token %d", in.weight, in.capacity, in.token)
		}
		return fmt.Sprintf("end token %d", in.token)
	},
}

// operations translates one key's history.
func (k *keyHistory) operations() []porcupine.Operation {
	var ops []porcupine.Operation
	var tokens []uint64
	for _, c := range k.calls {
		if c.held != nil {
			tokens = append(tokens, c.held.token)
		}
	}
	slices.Sort(tokens)
	for i, c := range k.calls {
		x := c.held
		if x == nil {
			continue
		}
		rank, _ := slices.BinarySearch(tokens, x.token)
		ops = append(ops, porcupine.Operation{
			ClientId: i,
			Input:    lockInput{true, rank, x.token, c.want.Weight, c.want.Capacity},
			Call:     int64(c.began), Return: int64(c.ended),
		})
		from, to := x.end, time.Duration(math.MaxInt64)
		switch {
		case x.unlocked != running && x.err == nil:
			from, to = x.unlocking, x.unlocked
		case x.unlocking != running:
			if from == running {
				from = x.unlocking
			}
			from = min(from, x.unlocking)
		case x.end == running:
			continue // still held
		}
		ops = append(ops, porcupine.Operation{
			ClientId: i,
			Input:    lockInput{token: x.token},
			Call:     int64(from), Return: int64(to),
		})
	}
	return ops
}

// linearLimit is how much real time one key may take. The order of tokens leaves
// so few choices that it is never needed; a key that needs it fails.
const linearLimit = 30 * time.Second

// linearizable checks each key's history as a whole.
func (h *History) linearizable() error {
	for _, k := range h.order {
		switch porcupine.CheckOperationsTimeout(lockModel, k.operations(), linearLimit) {
		case porcupine.Illegal:
			return fmt.Errorf("G1, G2: the history of %q is not linearizable", k.key)
		case porcupine.Unknown:
			return fmt.Errorf("simulate: no verdict on the history of %q: %d calls are too many", k.key, len(k.calls))
		}
	}
	return nil
}

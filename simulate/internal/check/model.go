package check

import (
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// A key as a pure function: what Porcupine compares histories with. It covers mutexes,
// read/write locks, semaphores, tries, holds with a fixed end, and re-entrance.

// lockState is the holders of a key. It is never changed, only replaced.
type lockState struct {
	last    uint64 // the highest token so far
	grants  int
	holders []holder // in the order of their tokens
}

type holder struct {
	token   uint64
	weight  int64
	handles int           // that share it
	until   time.Duration // the latest end of a hold with a fixed end; zero: it has none
}

// lockInput is one operation.
type lockInput struct {
	what     operation
	token    uint64 // but for refuses
	weight   int64  // takes, refuses
	capacity int64
	rank     int           // takes: the place of its token among all
	until    time.Duration // takes, extends: the fixed end is not later
	at       time.Duration // ends: when its holder believed for the last time
	handles  int           // shares: so many share it now; ends: so many may be left, or anyHandles
}

// operation is what an operation does.
type operation uint8

const (
	takes   operation = iota // the call returned with a hold
	ends                     // the hold is over
	refuses                  // a try failed, for there was no room
	extends                  // its end is fixed, or moved
	lessens                  // it became a reader's
	shares                   // a handle entered the hold, or left it
)

const anyHandles = -1

// step grants what fits, with tokens that grow; refuses what does not; and ends holds by
// their token. Since the tokens of a whole history are known, so is the order of its
// grants: the rank spares Porcupine the search for it.
func (s lockState) step(in lockInput) (lockState, bool) {
	var used int64
	for _, h := range s.holders {
		used += h.weight
	}
	switch in.what {
	case takes:
		if in.rank != s.grants || in.token <= s.last || used+in.weight > in.capacity {
			return s, false
		}
		return lockState{in.token, s.grants + 1, append(slices.Clip(s.holders), holder{in.token, in.weight, 1, in.until})}, true
	case refuses:
		return s, used+in.weight > in.capacity
	}
	i := slices.IndexFunc(s.holders, func(h holder) bool { return h.token == in.token })
	if i < 0 {
		return s, false
	}
	h := s.holders[i]
	switch in.what {
	case ends:
		if h.until != 0 && in.at > h.until || in.handles != anyHandles && in.handles != h.handles {
			return s, false
		}
		return lockState{s.last, s.grants, slices.Concat(s.holders[:i], s.holders[i+1:])}, true
	case extends:
		h.until = in.until
	case lessens:
		h.weight = 1
	case shares:
		if h.handles == 0 || in.handles != h.handles+1 && in.handles != h.handles-1 {
			return s, false
		}
		h.handles = in.handles
	}
	next := lockState{s.last, s.grants, slices.Clone(s.holders)}
	next.holders[i] = h
	return next, true
}

// lockModel returns the model of a key that begins as s.
func lockModel(s lockState) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return s },
		Step: func(state, input, _ any) (bool, any) {
			next, ok := state.(lockState).step(input.(lockInput))
			if !ok {
				return false, state
			}
			return true, next
		},
		Equal: func(a, b any) bool {
			x, y := a.(lockState), b.(lockState)
			return x.grants == y.grants && slices.Equal(x.holders, y.holders)
		},
	}
}

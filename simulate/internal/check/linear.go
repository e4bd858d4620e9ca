package check

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockmesh/mesh/internal/fault"
)

// linearLimit is how much real time one piece of a key's history may take. What is known
// of the order leaves so few choices that it is never needed; a key that needs it fails.
const linearLimit = 30 * time.Second

// linearizable checks each key's history as a whole.
func (h *History) linearizable() error {
	for _, k := range h.order {
		if k.behind {
			continue // the order is that of the tokens
		}
		ops := k.operations()
		switch compare(ops) {
		case porcupine.Illegal:
			return fmt.Errorf("G1, G2: the history of %q is not linearizable", k.key)
		case porcupine.Unknown:
			return fmt.Errorf("simulate: no verdict on the history of %q: %d operations are too many", k.key, len(ops))
		}
	}
	return nil
}

// compare compares one key's history with the model. It goes piece by piece: where no
// operation is under way, what came before decides which holds there are, and no more.
func compare(ops []porcupine.Operation) porcupine.CheckResult {
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var s lockState
	for len(ops) > 0 {
		n, until := 1, ops[0].Return
		for n < len(ops) && ops[n].Call <= until {
			until = max(until, ops[n].Return)
			n++
		}
		if !s.witness(ops[:n]) {
			if result := porcupine.CheckOperationsTimeout(lockModel(s), ops[:n], linearLimit); result != porcupine.Ok {
				return result
			}
		}
		s = s.after(ops[:n])
		ops = ops[n:]
	}
	return porcupine.Ok
}

// witness tries the one order that explains most: each hold begins as late and ends as early
// as it may. If the model accepts that, no other order need be searched, at the cost of the square
// of the number of holds. It reports false if the model refuses that order,
// and for histories with more than takes and ends.
func (s lockState) witness(ops []porcupine.Operation) bool {
	type moment struct {
		at, order int64 // ends before takes, and a take's own end behind it
		op        int
	}
	takeOf := make(map[uint64]int)
	var grants []int
	var moments []moment
	for i, op := range ops {
		switch in := op.Input.(lockInput); {
		case in.what == takes && in.until == 0:
			takeOf[in.token] = i
			grants = append(grants, i)
		case in.what != ends || in.handles == 0:
			return false
		}
	}
	latest := make([]int64, len(ops))
	for i, op := range ops {
		latest[i] = op.Return
	}
	for _, op := range ops {
		if in := op.Input.(lockInput); in.what == ends {
			if i, ok := takeOf[in.token]; ok {
				latest[i] = min(latest[i], op.Return)
			}
		}
	}
	rank := func(i int) int { return ops[i].Input.(lockInput).rank }
	slices.SortFunc(grants, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	for n, i := range slices.Backward(grants) {
		if n+1 < len(grants) {
			latest[i] = min(latest[i], latest[grants[n+1]])
		}
		if latest[i] < ops[i].Call {
			return false
		}
		moments = append(moments, moment{latest[i], 1 + 2*int64(rank(i)), i})
	}
	for i, op := range ops {
		in := op.Input.(lockInput)
		if in.what != ends {
			continue
		}
		m := moment{op.Call, 0, i}
		if begun, ok := takeOf[in.token]; ok && latest[begun] >= op.Call {
			m.at, m.order = latest[begun], 2+2*int64(rank(begun))
		}
		moments = append(moments, m)
	}
	slices.SortFunc(moments, func(a, b moment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })

	for _, m := range moments {
		next, ok := s.step(ops[m.op].Input.(lockInput))
		if !ok {
			return false
		}
		s = next
	}
	return true
}

// after returns what a piece that was found legal leaves behind.
func (s lockState) after(ops []porcupine.Operation) lockState {
	holders := slices.Clone(s.holders)
	of := func(token uint64) *holder {
		return &holders[slices.IndexFunc(holders, func(h holder) bool { return h.token == token })]
	}
	for _, op := range ops {
		if in := op.Input.(lockInput); in.what == takes {
			holders = append(holders, holder{in.token, in.weight, 1, in.until})
			s.grants++
			s.last = max(s.last, in.token)
		}
	}
	for _, op := range ops {
		switch in := op.Input.(lockInput); in.what {
		case extends:
			of(in.token).until = in.until
		case shares:
			of(in.token).handles = in.handles
		case lessens:
			of(in.token).weight = 1
		}
	}
	over := make(map[uint64]bool)
	for _, op := range ops {
		if in := op.Input.(lockInput); in.what == ends {
			over[in.token] = true
		}
	}
	holders = slices.DeleteFunc(holders, func(h holder) bool { return over[h.token] })
	slices.SortFunc(holders, func(a, b holder) int { return cmp.Compare(a.token, b.token) })
	s.holders = holders
	return s
}

// forever is the end of what may end at any time.
const forever = time.Duration(math.MaxInt64)

// operations translates one key's history.
//
// A call that failed or timed out may have been granted for a while and undone; since
// others see nothing of that but a wait, it is no operation at all. A hold that ends
// without a confirmed release may end at any time after its belief; so may an unlock
// that was not confirmed.
//
// An end helps every grant after it, and hurts none: whatever can be explained with a
// late one can be with the earliest. So it is put there, but for those that must explain
// why a try was refused: that leaves next to nothing to be searched.
func (k *keyHistory) operations() []porcupine.Operation {
	var ops []porcupine.Operation
	add := func(client int, from, to time.Duration, in lockInput) {
		ops = append(ops, porcupine.Operation{ClientId: client, Input: in, Call: int64(from), Return: int64(to)})
	}
	var tokens []uint64
	var refused []*Call
	for i, c := range k.calls {
		switch {
		case c.held != nil:
			tokens = append(tokens, c.held.token)
		case c.refused && !errors.Is(c.err, fault.ErrQuiet) && len(k.resizes) == 0 && !k.excused(c): // of a key that was resized, fifo judges its tries
			refused = append(refused, c)
			add(i, c.began, c.ended, lockInput{what: refuses, weight: c.want.Weight, capacity: c.want.Capacity})
		}
	}
	slices.Sort(tokens)
	for i, c := range k.calls {
		x := c.held
		if x == nil {
			continue
		}
		rank, _ := slices.BinarySearch(tokens, x.token)
		take := lockInput{what: takes, rank: rank, token: x.token, weight: c.want.Weight, capacity: k.sizeOf(x)}
		certain, latest := x.certain(), x.latest
		for _, e := range x.extensions {
			latest = max(latest, e.began+e.length, e.ended+e.length, x.end+e.length)
		}
		if c.want.MaxHold > 0 {
			if take.until = c.ended + c.want.MaxHold; !certain {
				take.until = max(take.until, latest)
			}
		}
		add(i, c.began, c.ended, take)
		for _, e := range x.extensions {
			if e.ok {
				in := lockInput{what: extends, token: x.token, until: e.ended + e.length}
				if !certain {
					in.until = max(in.until, take.until, latest)
				}
				add(i, e.began, e.ended, in)
			}
		}
		for _, s := range x.shares {
			if x.end == running || s.at <= x.end {
				add(i, s.at, s.at, lockInput{what: shares, token: x.token, handles: s.handles})
			}
		}
		if at := x.less.from; x.less.begun {
			until := max(at, x.less.to) // it helps all others, so the earliest will do: see excused
			if x.end != running {
				until = max(at, min(until, x.end))
			}
			add(i, at, until, lockInput{what: lessens, token: x.token})
		}
		from, to, over := x.span()
		if !over {
			continue
		}
		if to == forever || !slices.ContainsFunc(refused, func(o *Call) bool { return o.began <= to && from <= o.ended }) {
			to = max(from, c.ended)
		}
		end := lockInput{what: ends, token: x.token, handles: anyHandles, at: from}
		if x.unlocked != running && x.err == nil {
			if end.handles = 1; len(x.shares) > 0 {
				end.handles = 0
			}
		}
		add(i, from, to, end)
	}
	return ops
}

// span returns when a hold may have ended, and whether it has.
func (x *Hold) span() (from, to time.Duration, over bool) {
	from, to = x.end, forever
	switch {
	case x.unlocked != running && x.err == nil:
		return x.unlocking, x.unlocked, true
	case x.unlocking != running:
		if from == running {
			from = x.unlocking
		}
		return min(from, x.unlocking), forever, true
	}
	return from, to, from != running
}

// certain reports whether each Extend counted, one after the other: then it is known
// which end was the latest at any time.
func (x *Hold) certain() bool {
	for i, e := range x.extensions {
		if !e.ok || x.end != running && x.end < e.ended || i > 0 && e.began < x.extensions[i-1].ended {
			return false
		}
	}
	return true
}

// excused reports whether a refused try may have met something that is no operation:
// a caller that waited; a call that failed; a hold that ended at an unknown time; or a grant
// without a holder. That its shard was quiet is no excuse: then it is told so.
func (k *keyHistory) excused(try *Call) bool {
	for _, g := range k.granted {
		// Its own first request excuses no try (P16).
		if k.tokens[g.token] == nil && (g.owner != try.node || g.queued < try.began) && g.from <= try.ended && (g.to == running || g.to >= try.began) {
			return true
		}
	}
	for _, c := range k.calls {
		if c == try || c.began > try.ended || c.refused && c.ended < try.began {
			continue
		}
		x := c.held
		if c.ended == running || c.ended >= try.began && !c.refused || x == nil && !c.refused {
			return true
		}
		if x != nil {
			if _, to, over := x.span(); over && to == forever {
				return true
			}
			if x.less.begun && !x.less.ended {
				return true
			}
		}
	}
	return false
}

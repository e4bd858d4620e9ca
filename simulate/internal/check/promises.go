package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// checkExclusion (G1): at this moment, the holds that are believed in must fit into the
// key. An overlap of beliefs begins when a hold begins, and is seen
// then; the looks at each Use see a belief that came back.
func (h *History) checkExclusion(k *keyHistory, x *Hold) {
	if k.weight <= min(x.call.want.Capacity, k.sizeOf(x)) {
		return
	}
	var sum int64
	last := x
	for _, y := range slices.Backward(k.live) {
		if y.believed() {
			if sum += y.weight(); y.token > last.token {
				last = y
			}
		}
	}
	if sum <= k.sizeOf(last) {
		return
	}
	msg := fmt.Sprintf("G1 exclusion: at %v, more than %q allows believe that they hold it:", h.world.Now(), k.key)
	for _, y := range slices.Backward(k.live) {
		if y.believed() {
			msg += fmt.Sprintf("\n\t%v", y)
		}
	}
	h.world.Fail(fmt.Errorf("%s", msg))
}

// checkToken (G2): tokens are positive, below 2^53, never used twice, and grow
// with later grants. Of two holds that exclude each other, the one that returned
// later must have been granted later; of two that do not, only if its call began
// after the other's return.
func (h *History) checkToken(k *keyHistory, x *Hold) {
	if x.token == 0 || x.token >= 1<<53 {
		h.world.Fail(fmt.Errorf("G2 tokens: %v: not in [1, 2^53)", x))
	}
	if y := k.tokens[x.token]; y != nil && !k.behind {
		h.world.Fail(fmt.Errorf("G2 tokens: the same one twice: %v, and %v", y, x))
	}
	k.tokens[x.token] = x
	excludes := x.excludes()
	floor := k.exclusive
	if excludes {
		floor = k.highest
	}
	if x.token <= floor {
		h.world.Fail(fmt.Errorf("G2 tokens: %v returned after %v", x, k.tokens[floor]))
	}
	before := sort.Search(len(k.returns), func(i int) bool { return k.returns[i].at >= x.call.began })
	if before > 0 && k.returns[before-1].token > x.token {
		h.world.Fail(fmt.Errorf("G2 tokens: %v was asked for after %v returned", x, k.tokens[k.returns[before-1].token]))
	}
	if x.token > k.highest {
		k.returns = append(k.returns, peak{h.world.Now(), x.token})
	}
	k.highest = max(k.highest, x.token)
	if excludes {
		k.exclusive = max(k.exclusive, x.token)
	}
}

// checkFence (G2): a resource would take x's token. Such a resource refuses a token below the highest of
// the holds that exclude all others; and below the highest of any hold, if x itself excludes all others.
func (h *History) checkFence(x *Hold) {
	k := x.key
	floor := k.exclusive
	if x.excludes() {
		floor = k.highest
	}
	if x.token < floor {
		h.world.Fail(fmt.Errorf("G2 fence: at %v, a resource refuses %v, which is believed in: it has seen %v", h.world.Now(), x, k.tokens[floor]))
	}
}

// lossGrace is how late a timer of a healthy host may be.
const lossGrace = 100 * time.Millisecond

// checkLeases (G5): x's grant must not come while another holder, which has not
// begun to unlock, may still be leased, whether it crashed or only lost its
// belief; and a holder that lives and runs must have been told before.
func (h *History) checkLeases(k *keyHistory, x *Hold) {
	now := h.world.Now()
	k.settle()
	var sum int64
	// What was granted since may be more than there was then.
	before := func(y *Hold) bool { return len(k.resizes) == 0 || y.token <= x.token }
	var first *Hold
	for _, y := range k.lapsed {
		if before(y) {
			sum += y.weight()
			first = cmp.Or(first, y)
		}
	}
	if sum+k.weight <= k.sizeOf(x) {
		return // all fit in together
	}
	for _, y := range slices.Backward(k.live) {
		if y.believed() && before(y) {
			sum += y.weight()
		}
	}
	if first != nil && sum > k.sizeOf(x) {
		h.world.Fail(fmt.Errorf("G5 lease: %v was granted, and %v is leased until %v", x, first, first.leasedUntil()))
		return
	}
	for _, y := range slices.Backward(k.live) {
		p := y.call.process
		if y == x || y.believed() || p.Dead() || p.Paused() || !p.Well(lossGrace) || !before(y) || y.weight()+x.call.want.Weight <= k.sizeOf(x) {
			continue
		}
		if late := now - y.leasedUntil(); late > lossGrace && !y.told() {
			h.world.Fail(fmt.Errorf("G5 lease: %v was granted, and %v has not been told of its loss, though its deadline passed %v ago", x, y, late))
		}
	}
}

// checkFreed (G5): a table frees what a holder has not begun to unlock only when its lease is over,
// whether or not another caller asks for the key: by then no clock that keeps to the bound shows the
// holder a lease. Clients notice a lease that ends too early only if another one waits, hears of its grant
// within the time that is missing, and the clocks are at their worst.
func (h *History) checkFreed(name ShardName, d shard.Decision) {
	k := h.keys[d.Key]
	if k == nil {
		return
	}
	x := k.tokens[d.Token]
	if x == nil || x.unlocking != running || x.call.process != h.world.Process(transport.ID(d.Session.Node)) {
		return
	}
	if until := x.leasedUntil(); until > h.world.Now() {
		h.world.Fail(fmt.Errorf("G5 lease: shard %d frees %q, and %v is leased until %v", name.Shard, d.Key, x, until))
	}
}

// checkLessened (P47): a table lets readers in beside a writer only once that is a reader.
func (h *History) checkLessened(name ShardName, d shard.Decision) {
	k := h.keys[d.Key]
	if k == nil {
		return
	}
	if x := k.tokens[d.Token]; x != nil && x.end == running && x.weight() > d.Weight {
		h.world.Fail(fmt.Errorf("G1 downgrade: shard %d leaves %v no more than a reader's share", name.Shard, x))
	}
}

// checkLate (G6): once all faults are over, an exclusive call that could have been
// granted is, within World.Bound: what crashed or fell silent while it held the key
// does not keep it for longer than that after its lease.
func (h *History) checkLate(k *keyHistory, x *Hold) {
	w := h.world
	if h.world.Bound() == 0 || w.Healed() == 0 || !x.excludes() {
		return
	}
	since := max(x.call.began, k.freed, w.Healed())
	if late := w.Now() - since; late > h.world.Bound() {
		w.Fail(fmt.Errorf("G6 bound: %v was granted %v after nothing stood against it any more", x, late))
	}
}

// kept (G5, G6, G9): where nothing ails the world, a hold lasts until its holder gives it back, or
// until its node leaves and has waited for it; a call does not fail for want of a majority, or of
// a lease; and a waiter keeps its place in the queue until then.
func (h *History) kept() error {
	lease, calls, places := "G5 lease: nothing ailed the world", "G6 calls: nothing ailed the world", "G3 place: nothing ailed the world"
	if len(h.leaves) > 0 {
		lease = "G9 leave: nothing ailed the world, but nodes left"
		calls, places = lease, lease
	}
	failed := make(map[ownerName]int)
	for _, c := range h.calls {
		if c.held == nil && c.ended != running && !c.refused { // a try that is refused was in no queue
			failed[ownerName{c.want.Key, c.node}]++
		}
	}
	for _, c := range h.calls {
		owner := ownerName{c.want.Key, c.node}
		switch x := c.held; {
		case x != nil && !x.fixed() && x.end != running && (x.unlocking == running || x.end < x.unlocking) && !x.left && !x.broken:
			return fmt.Errorf("%s, and %v was lost", lease, x)
		case errors.Is(c.err, fault.ErrNoQuorum), errors.Is(c.err, fault.ErrLost) && !errors.Is(c.err, fault.ErrBroken) && c.want.MaxHold == 0:
			return fmt.Errorf("%s, and %s, who wanted %v since %v, was told: %w", calls, c.who, c.want, c.began, c.err)
		case h.inside.queue.dropped[owner] > failed[owner]:
			return fmt.Errorf("%s, and %d requests of the node on %s left the queue of %q, though only %d of its calls failed",
				places, h.inside.queue.dropped[owner], c.process.Host(), c.want.Key, failed[owner])
		}
	}
	return nil
}

// checkQuiet (P27): a try is told of quiet only if its shard was quiet when it refused it.
func (h *History) checkQuiet(c *Call) {
	during := func(at time.Duration) bool { return c.began <= at && at <= c.ended }
	if !slices.ContainsFunc(h.keys[c.want.Key].settling, during) {
		h.world.Fail(fmt.Errorf("G3 quiet: %s, who tried for %v since %v, was told of quiet, and no quiet shard had refused it", c.who, c.want, c.began))
	}
}

// fixed reports whether the hold has a fixed end, or may have: one that was to be fixed, and was not confirmed.
func (x *Hold) fixed() bool { return x.latest != 0 || len(x.extensions) > 0 }

// checkFixed (P7): a hold with a fixed end is believed in until then at the latest,
// however often its session is renewed.
func (x *Hold) checkFixed() {
	if x.latest == 0 {
		return
	}
	w, latest := x.call.history.world, x.latest
	for _, c := range x.extensions {
		if c.ended == running { // it may have been answered
			latest = max(latest, w.Now()+c.length)
		}
	}
	if until := x.leasedUntil(); until > latest {
		w.Fail(fmt.Errorf("G5 fixed: %v is believed in until %v, and must end by %v", x, until, latest))
	}
}

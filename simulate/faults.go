package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// Crash ends the process on the host at once, as SIGKILL does: its memory is gone,
// its connections are reset, and dialling it is refused until Restart.
//
//	w.Host("a").Crash()
//	w.At(w.Now()+time.Second, func() { w.Host("a").Restart() })
func (h *Host) Crash() {
	h.exists()
	w := h.world
	if h.process == nil {
		return
	}
	w.ended(h.fault, h.name, "") // it was leaving
	h.fault = w.fault(h.name, "crash %s", h.name)
	h.process.kill()
}

// PowerOff ends the process on the host, and the machine with it: nothing tells the
// others, and nothing answers them, until Restart.
//
//	w.Host("a").PowerOff() // found out by silence, where a crash is by refusal
func (h *Host) PowerOff() {
	h.exists()
	w := h.world
	if h.dark {
		return
	}
	w.ended(h.fault, h.name, "") // it was leaving, or had crashed
	h.fault = w.fault(h.name, "power off %s", h.name)
	h.dark = true
	w.Net.refresh()
	if h.process != nil {
		h.process.kill()
	}
}

// Restart starts the next incarnation of a host that is down, and the actors that
// Boot gave it.
//
//	w.Host("a").PowerOff()
//	w.At(w.Now()+time.Minute, func() { w.Host("a").Restart() })
func (h *Host) Restart() {
	h.exists()
	w := h.world
	if h.process != nil {
		return
	}
	w.ended(h.fault, h.name, "restart %s", h.name)
	h.dark, h.fault = false, 0
	h.start()
	w.Net.refresh()
}

// Pause stops the process on the host, as SIGSTOP or a long collection of garbage
// does: no actor and no loop runs, and what arrives piles up until Resume.
//
//	w.Host("a").Pause()
//	w.At(w.Now()+12*time.Second, func() { w.Host("a").Resume() }) // longer than its leases
func (h *Host) Pause() {
	h.exists()
	w := h.world
	if h.process == nil || h.paused {
		return
	}
	h.stall = w.fault(h.name, "pause %s", h.name)
	w.note(timeline.Paused, h.name, "")
	h.paused = true
	w.Net.refresh()
}

// Resume lets a paused process go on. What came due meanwhile happens now, and it
// is up to chance whether messages or timers come first.
//
//	w.Host("a").Pause()
//	w.At(w.Now()+time.Second, func() { w.Host("a").Resume() })
func (h *Host) Resume() {
	h.exists()
	w := h.world
	if !h.paused {
		return
	}
	w.ended(h.stall, h.name, "resume %s", h.name)
	w.note(timeline.Resumed, h.name, "")
	h.paused, h.resumed = false, w.now
	timersLater := h.sched.chance(million / 2)
	for _, ev := range h.deferred {
		if ev.slot != deferred {
			continue // cancelled meanwhile
		}
		ev.slot = idle
		at := w.now
		if timersLater && ev.kind != frameEvent && ev.kind != callEvent {
			at += h.sched.between(0, time.Millisecond)
		}
		w.schedule(ev, at)
	}
	clear(h.deferred)
	h.deferred = h.deferred[:0]
	w.Net.refresh()
}

// Slow makes everything that the host does take factor times as long, as a busy or
// throttled CPU does; 1 ends it. Its clocks are as ever.
//
//	w.Host("a").Slow(100)
func (h *Host) Slow(factor int64) {
	h.exists()
	w := h.world
	if factor < 1 || factor > million {
		panic(fmt.Sprintf("simulate: Slow: factor %d is not in [1, %d]", factor, million))
	}
	if h.slow > 1 {
		w.ended(h.drag, h.name, "%s is as fast as before", h.name)
	}
	if h.slow = factor; h.slow > 1 {
		h.drag = w.fault(h.name, "slow %s: everything takes %d times as long", h.name, factor)
	}
}

// BreakReplica makes the replica of a shard that lives on the host stop itself, as if it
// had panicked. Its node lives, and so do its other replicas. A host without such a
// replica is left alone.
//
//	w.Host("a").BreakReplica(3) // a's node lives, and shard 3 has one replica less
func (h *Host) BreakReplica(shard int) {
	h.exists()
	w := h.world
	if shard < 0 {
		panic(fmt.Sprintf("simulate: BreakReplica: shard %d is negative", shard))
	}
	if h.process == nil {
		return
	}
	w.struck(h.name, "the replica of shard %d on %s stops", shard, h.name)
	for _, n := range h.process.nodes {
		n.node.Break(shard)
	}
}

// loops are those of a node.
var loops = []string{"membership", "shards", "watch"}

// Stall keeps one loop of a host's nodes from running for d: "membership", which deals
// with other nodes as such; "shards", which has the locks; or "watch", which ends what is held on
// time if the shard loop does not. Everything else on the host goes on, as when one thread hangs in
// a page fault. A host on which no node runs is left alone.
//
//	w.Host("a").Stall("shards", 3*time.Second)
func (h *Host) Stall(loop string, d time.Duration) {
	h.exists()
	w := h.world
	switch {
	case !slices.Contains(loops, loop):
		panic(fmt.Sprintf("simulate: Stall: no loop %q: there are %s", loop, strings.Join(loops, ", ")))
	case d < 0:
		panic(fmt.Sprintf("simulate: Stall: %v is negative", d))
	}
	w.stallLoop(h, loop, d)
}

// stallLoop is Stall. It reports whether there was such a loop.
func (w *World) stallLoop(h *Host, loop string, d time.Duration) bool {
	if h.process == nil {
		return false
	}
	found, fault := false, 0
	for _, l := range h.process.loops {
		if l.name != loop || l.stopped {
			continue
		}
		if !found {
			fault = w.fault(h.name, "stall %s on %s", loop, h.name)
		}
		found = true
		l.stall(w.now + d)
	}
	if found {
		w.after(d, h.process, func() { w.ended(fault, h.name, "%s goes on", loop) })
	}
	return found
}

// HealAll ends every fault: cuts, pauses, stalls, slowness and bad links are over, what
// Hold and rules kept is released, news is neither lost nor false, and all hosts run. Clocks
// keep their rates and their time of day, links that SetLink and its like made slow keep their
// latency and jitter, and rules, Balance and Gossip.Lateness stay.
//
//	w.HealAll()
//	err := w.Run(time.Minute) // in which all must come right
func (w *World) HealAll() {
	w.faultless = true
	w.history.checks.Calm()
	w.Net.Heal()
	w.healLinks(nil)
	w.Net.ReleaseAll()
	w.gossip.faults.Lies, w.gossip.faults.Lost = 0, 0
	for _, h := range w.Hosts() {
		w.healHost(h)
	}
	w.healed = w.now
}

// healLinks makes every link that which names lose, double and reorder nothing, and as
// broad as Options has it.
func (w *World) healLinks(which func(from, to *Host) bool) {
	n := w.Net
	if which == nil {
		for len(n.weathers) > 0 {
			n.calm(n.weathers[0])
		}
	}
	for _, p := range n.all() {
		if which == nil || which(p.from, p.to) {
			healed := p.base.healed(w.opts.Link)
			p.base = &healed
		}
	}
	if which == nil { // nor shall those be bad that come with a new host
		healed := n.link.healed(w.opts.Link)
		n.link = &healed
	}
	n.forecast()
}

// healHost ends what ails one host, and starts it if it is down.
func (w *World) healHost(h *Host) {
	h.known = true
	if h.slow != 1 {
		h.Slow(1)
	}
	h.RestoreGossip()
	h.Resume()
	if h.process == nil {
		h.Restart()
		return
	}
	for _, l := range h.process.loops {
		l.stall(w.now)
	}
}

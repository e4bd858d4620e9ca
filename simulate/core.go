package simulate

import (
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// HealCore ends every fault within a group of hosts, and lets all others go on: between
// the hosts named, cuts, bad links and holds are over, they run, at their usual speed, and
// hear the news. What ails the other hosts, and the ways to and from them, stays as it is; but
// fault points, the sieve, and lost and false news (Gossip.Lost, Gossip.Lies) end everywhere.
// A mesh must work in a core in which every shard has a majority of its voters, whatever
// the rest of the world does (TigerBeetle's simulator demands the same of its replicas).
//
//	w.HealCore("a", "b", "c")
func (w *World) HealCore(hosts ...string) {
	core := make([]bool, len(w.hosts))
	for _, name := range hosts {
		core[w.named(name).index] = true
	}
	within := func(from, to *Host) bool { return core[from.index] && core[to.index] }
	n := w.Net
	w.note(timeline.Ended, lab, "the core heals: %s", strings.Join(hosts, " "))
	w.faultless = true
	w.history.checks.Calm()
	for _, c := range slices.Clone(n.cuts) {
		var rest []*path
		for _, p := range c.paths {
			if within(p.from, p.to) {
				p.cuts--
			} else {
				rest = append(rest, p)
			}
		}
		if c.paths = rest; len(rest) == 0 {
			n.mend(c)
		}
	}
	for _, p := range n.all() {
		if within(p.from, p.to) {
			p.sheltered = true
			if p.keeps {
				n.Release(p.from.name, p.to.name)
			}
		}
	}
	w.healLinks(within)
	n.release(func(f *frame) bool { return within(f.from(), f.to()) })
	w.gossip.faults.Lies, w.gossip.faults.Lost = 0, 0
	for _, name := range hosts {
		w.healHost(w.named(name))
	}
	n.refresh()
}

// HealSomeCore draws a core from the seed, heals it as HealCore does, and returns its hosts. The other hosts
// become as bad as they will ever be, for good: they crash, lose power, stop, are cut off from some or all, become slow,
// hear no news of members, get bad links, or stay as they are. A fault of a storm that has made links so narrow that a frame may
// wait in their queues for longer than a second ends everywhere.
//
// Each host of the core has a node that has joined and is not leaving, and together they have a majority of
// each shard's voters, and of the next voters on which the mesh has decided. All hosts without such a node are left out. Then
// hosts named by spare, or any hosts if it is empty, are left out, as long as these conditions hold. The seed draws how many hosts may
// be out at most, those without such a node included: from one to half of those that may be left out.
//
// The core must not need a host out of it. So a host stays in if its node has a replica without a vote,
// which may be about to get one, or leads a shard and does not hear a voter of the core, which it may be
// about to replace. A host out of the core that reaches some of the core, but not all, is cut off from all of
// it, and a node out of the core that was leaving crashes: either could lead a shard, and rightly move it to
// hosts that the core does not reach. For the same reason a host whose ailment leaves it in touch with some of the core, but
// not all, is cut off from all other hosts out of the core.
//
// If there is no such core at the moment, or none without some host, since a change of voters or a roll call is on its way
// for example, nothing happens, and the result is nil. It stays nil for ever where no host can be spared, as where two
// hosts are the whole mesh, and once the run has failed.
//
//	core := w.HealSomeCore()
//	for i := 0; core == nil && i < 20; i++ {
//		if err := w.Run(100 * time.Millisecond); err != nil {
//			return err
//		}
//		core = w.HealSomeCore()
//	}
//	// From now on your service must work on every host of core; if that is nil, call HealAll instead.
func (w *World) HealSomeCore(spare ...string) (core []string) {
	outside := w.Hosts()
	if len(spare) > 0 {
		outside = nil
		for _, name := range spare {
			outside = append(outside, w.named(name))
		}
	}
	if len(outside) == 0 {
		return nil
	}
	// All that is drawn is drawn at once: it must not depend on what happens.
	s := w.stream(profileStream<<8 | 2)
	order := s.shuffle(len(outside))
	most := 1 + int(s.below(int64(max(len(order)/2, 1))))
	ails := make([]int, len(order))
	for i := range ails {
		ails[i] = int(s.below(int64(len(ailments))))
	}
	in := w.chooseCore(outside, order, most)
	for _, h := range w.Hosts() {
		if in[h] {
			core = append(core, h.name)
		}
	}
	if core == nil {
		return nil
	}
	w.HealCore(core...)
	w.Net.drain()
	w.shutOut(in, core)
	for i, h := range outside {
		if !in[h] {
			ailments[ails[i]](w, h, core)
		}
	}
	w.keepApart(in, core)
	for _, h := range w.Hosts() {
		if !in[h] && h.process != nil && h.process.leaving {
			h.Crash()
		}
	}
	return core
}

// drain ends what lets frames wait for longer than a second: a leader behind it hands over (P22), but what it said
// before, and what was said to it, still arrives so late.
func (n *Net) drain() {
	for _, x := range slices.Clone(n.weathers) {
		if x.waits > time.Second {
			n.calm(x)
		}
	}
}

// shutOut cuts those off from the core that only some of it reach.
func (w *World) shutOut(in map[*Host]bool, core []string) {
	for _, h := range w.Hosts() {
		if !in[h] && w.reachesSome(h, core) {
			w.Net.PartitionOneWay([]string{h.name}, core)
			w.Net.PartitionOneWay(core, []string{h.name})
		}
	}
}

// keepApart cuts those that only some of the core reach off from the others out of it: two of them, and a host of the core
// that reaches one, could be the voters of a shard.
func (w *World) keepApart(in map[*Host]bool, core []string) {
	for _, h := range w.Hosts() {
		for _, o := range w.Hosts() {
			if h != o && !in[h] && !in[o] && w.reachesSome(h, core) {
				w.Net.PartitionOneWay([]string{h.name}, []string{o.name})
				w.Net.PartitionOneWay([]string{o.name}, []string{h.name})
			}
		}
	}
}

// reachesSome reports whether a host reaches some of others, and they it, but not all.
func (w *World) reachesSome(h *Host, others []string) bool {
	reached := 0
	for _, name := range others {
		if o := w.named(name); w.Net.open(h, o) && w.Net.open(o, h) {
			reached++
		}
	}
	return 0 < reached && reached < len(others)
}

// retreat heals a core, or everything, if there is none.
func (l *Lockers) retreat() error {
	w := l.world
	var spare []string // the hosts that were there from the beginning
	for _, h := range l.storm.hosts {
		spare = append(spare, h.name)
	}
	var core []string
	for range 20 { // a change of voters may be on its way
		if core = w.HealSomeCore(spare...); core != nil {
			break
		}
		if err := w.Run(100 * time.Millisecond); err != nil {
			return err
		}
	}
	if core == nil {
		l.healAll()
		return nil
	}
	for _, host := range l.Hosts {
		if slices.Contains(core, host) {
			l.core = append(l.core, host)
		}
	}
	return nil
}

// healAll heals everything after a storm that left it as it was, also who is leaving.
func (l *Lockers) healAll() {
	l.world.HealAll()
	for _, h := range l.world.Hosts() {
		if h.process != nil && h.process.leaving {
			l.returns(h)
		}
	}
}

// returns starts a host again as soon as it has left.
func (l *Lockers) returns(h *Host) {
	l.world.after(100*time.Millisecond, nil, func() {
		if h.process == nil {
			h.Restart()
		} else if h.process.leaving {
			l.returns(h)
		}
	})
}

// chooseCore returns hosts whose nodes have joined, and among them a majority of each shard's
// voters: all but at most so many of those outside, in order. It is nil if there are
// none, or if no host is left out.
func (w *World) chooseCore(outside []*Host, order []int, most int) map[*Host]bool {
	in := make(map[*Host]bool)
	out := len(w.Hosts())
	for h, n := range w.living() {
		if n.node.Ready() && !h.process.leaving && !in[h] {
			in[h] = true
			out--
		}
	}
	stays := func(h *Host) bool { return in[h] }
	if len(in) == 0 || !w.suffice(stays, true) {
		return nil
	}
	for h := range w.living() {
		if !in[h] && learns(h) {
			return nil
		}
	}
	for _, i := range order {
		h := outside[i]
		if !in[h] || out >= most {
			continue
		}
		if in[h] = false; w.suffice(stays, true) && !w.misses(h, stays) && !learns(h) {
			out++
		} else {
			in[h] = true
		}
	}
	if out == 0 {
		return nil
	}
	return in
}

// misses reports whether a leader on h does not hear a voter on a host that stays: it is about
// to give that one's vote away, perhaps to a host that does not stay.
func (w *World) misses(h *Host, stays func(*Host) bool) bool {
	there := func(id transport.ID) bool {
		p := w.nodes[id]
		return p != nil && !p.dead && stays(p.host)
	}
	for r := range w.replicas() {
		if r.host == h && slices.ContainsFunc(r.Missed, there) {
			return true
		}
	}
	return false
}

// learns reports whether a node on h has a replica without a vote: its leader may be about to give
// it one, and would then need h, if others that it promotes are gone, too.
func learns(h *Host) bool {
	for r := range h.world.replicas() {
		if r.host == h && !slices.Contains(r.Voters, r.on.id) && !slices.Contains(r.Outgoing, r.on.id) {
			return true
		}
	}
	return false
}

// ailments are what may ail a host for good that is not in the core, beside what did
// before.
var ailments = [...]func(w *World, h *Host, core []string){
	func(*World, *Host, []string) {},
	func(w *World, h *Host, _ []string) { h.Crash() },
	func(w *World, h *Host, _ []string) { h.PowerOff() },
	func(w *World, h *Host, _ []string) { h.Pause() },
	func(w *World, h *Host, _ []string) { w.Net.Isolate(h.name) },
	func(w *World, h *Host, core []string) { w.Net.PartitionOneWay([]string{h.name}, core) },
	func(w *World, h *Host, core []string) { w.Net.PartitionOneWay(core, []string{h.name}) },
	func(w *World, h *Host, core []string) {
		w.Net.PartitionOneWay([]string{h.name}, core[:1+len(core)/2])
		w.Net.PartitionOneWay(core[:1+len(core)/2], []string{h.name})
	},
	func(w *World, h *Host, _ []string) { h.Slow(512) },
	func(w *World, h *Host, _ []string) { h.SilenceGossip() },
	func(w *World, h *Host, core []string) {
		// As bad as a link may be all the time: worse, and a leader behind it is late all the time, or now and then.
		bad := func(l *Link) {
			l.Loss, l.Reorder = 20_000, 50_000
			l.Latency, l.Jitter, l.Shape = l.Latency+20*time.Millisecond, l.Jitter+5*time.Millisecond, HeavyTail
		}
		fault := w.fault(h.name, "bad links to and from %s", h.name)
		w.Net.blow(&weather{from: h, change: bad, fault: fault})
		w.Net.blow(&weather{to: h, change: bad, fault: fault})
	},
}

// dismiss ends the hosts that are not in the core: nothing answers their calls.
func (l *Lockers) dismiss() error {
	if l.core == nil {
		return nil
	}
	for _, host := range l.Hosts {
		if !slices.Contains(l.core, host) {
			l.world.Host(host).Crash()
		}
	}
	return l.world.Run(0)
}

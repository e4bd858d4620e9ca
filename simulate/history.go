package simulate

import (
	"iter"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// History is what the callers of nodes did and believed, in true time. The checkers judge a mesh by its
// promises: by what callers were told, when, and with which tokens, and by what its replicas tell. The
// nodes tell all of it by themselves. The first broken promise ends the run.
type History struct {
	// Bound is how long a call for a free key may wait once the world is healed, in true time. Lockers
	// set it. Zero: for ever.
	Bound time.Duration
	// Meshes is how many meshes may live in the world at a time; zero means one. Where there
	// may be several, a mesh of one may end itself; otherwise no node may, unless Net.Balance leads it to another node at its entry.
	Meshes int
	// Relists says that the core's list changes in this world. Then the checkers allow that a mesh is founded while nodes of
	// an earlier mesh still run, if these can decide nothing any more: they have no majority of its core or of a shard.
	Relists bool

	checks *check.History
}

// History returns the world's history.
func (w *World) History() *History { return &w.history }

// Calls returns how many calls began, and how many ended in a hold.
func (h *History) Calls() (begun, held int) { return h.checks.Calls() }

// Finish checks what only the end can tell. Every call has ended (G6); no hold was lost before its
// time (G5) or, in a world without faults, at all; each key's history is linearizable; and all replicas
// have the same tables. Call it when all actors have ended. [Play] checks all of this by itself,
// except that every call has ended.
func (h *History) Finish() error { return h.checks.Finish() }

// Orphans describes everything in the shards' tables that no living client believes in (holds, waiters
// and records of sessions, above all those of dead clients), and each client that waits or holds without
// a place in a table. While messages are under way and leases run, there may be some.
func (h *History) Orphans() []string { return h.checks.Orphans() }

// Quiet lets time pass until the tables and the clients agree, and fails if they do not
// within d: a lock, or a place in a queue, was forgotten (G4). Clients should do
// nothing new meanwhile.
func (h *History) Quiet(d time.Duration) error { return h.checks.Quiet(d) }

// judged is the world as its checkers see it.
type judged struct{ *World }

var _ check.World = judged{}

func (j judged) Events() uint64               { return j.trace.events }
func (j judged) Record(m timeline.Moment) int { return j.record(m) }
func (j judged) Ailed() bool                  { return j.ailed }
func (j judged) Ail()                         { j.ailed = true }
func (j judged) Healed() time.Duration        { return j.healed }
func (j judged) Noisy() (ever, still bool) {
	return j.noisy, j.noisy && !j.faultless
}
func (j judged) Bound() time.Duration { return j.history.Bound }
func (j judged) Meshes() int          { return j.history.Meshes }
func (j judged) Relists() bool        { return j.history.Relists }
func (j judged) Balanced() bool       { return j.Net.balanced != nil }

func (j judged) CallBegins(node transport.ID, key string) { j.marks.called(node, key) }
func (j judged) CallEnds(node transport.ID, key string)   { j.marks.returned(node, key) }
func (j judged) LostWithSession(p check.Process, node transport.ID) {
	j.marks.lost(p.(*process), node)
}

// Watch implements check.World.
func (j judged) Watch(done <-chan struct{}, fn func()) (stop func()) {
	x := &watch{fn: fn, slot: idle}
	j.watch(x, done)
	return func() { j.unwatch(x) }
}

// Living implements check.World.
func (j judged) Living() iter.Seq2[check.Process, check.Node] {
	return func(yield func(check.Process, check.Node) bool) {
		for h, n := range j.living() {
			if !yield(h.process, check.Node{ID: n.id, Inspected: n.node}) {
				return
			}
		}
	}
}

// Process implements check.World.
func (j judged) Process(node transport.ID) check.Process {
	if p := j.nodes[node]; p != nil {
		return p
	}
	return nil
}

// Actor implements check.World.
func (j judged) Actor() check.Actor {
	if j.current != nil {
		return j.current
	}
	return nil
}

// Loop implements check.World.
func (j judged) Loop() check.Loop {
	if j.turn != nil {
		return j.turn
	}
	return nil
}

// Parked implements check.World. When no call is under way there should be none: nothing would ever wake
// them.
func (j judged) Parked() (names []string) {
	for _, h := range j.hosts {
		if h.process == nil {
			continue
		}
		for _, a := range h.process.actors {
			if a.started && !a.finished && a.parker != nil && !a.parker.mail {
				names = append(names, a.String())
			}
		}
	}
	return names
}

// Name implements check.Actor.
func (a *actor) Name() string { return a.name }

// Works implements check.Loop.
func (l *loop) Works(now time.Duration) time.Duration {
	if now-l.ticked > stalledTick {
		return l.ticked + tick
	}
	return now
}

// Stood implements check.Loop.
func (l *loop) Stood() time.Duration { return l.stood }

var _ check.Process = (*process)(nil)

// Host implements check.Process, like those that follow.
func (p *process) Host() string { return p.host.name }

func (p *process) Truth(local time.Duration) time.Duration { return p.host.clock.truth(local - p.base) }
func (p *process) Dead() bool                              { return p.dead }
func (p *process) Paused() bool                            { return p.host.paused }
func (p *process) Leaving() bool                           { return p.leaving }
func (p *process) Well(d time.Duration) bool {
	return p.host.slow == 1 && p.world.now-p.host.resumed > d
}
func (p *process) Hung() time.Duration       { return p.hung }
func (p *process) Waited() time.Duration     { return p.host.behind.sum }
func (p *process) StillWaits() time.Duration { return p.host.waitsFor() }

// hostOf returns the host that a node lives on, or lived on.
func (w *World) hostOf(node transport.ID) string { return check.HostOf(judged{w}, node) }

// observer is what the nodes of a world tell it: the checkers hear of it, and the marks.
type observer struct {
	*check.Observer
	marks *marks
}

var _ env.Observer = observer{}

func (w *World) observer() observer { return observer{w.history.checks.Observer(), w.marks} }

// Observe implements env.Observer, like those that follow.
func (o observer) Observe(at env.At, fact any) {
	o.marks.before(at, fact)
	o.Observer.Observe(at, fact)
	o.marks.after(at, fact)
	if c, changed := fact.(env.Configured); changed {
		o.marks.looks = append(o.marks.looks, func() { o.Counts(at, c) })
	}
}

func (o observer) Founded(node transport.ID, mesh uint64) {
	o.Observer.Founded(node, mesh)
	o.marks.founded(node)
}

func (o observer) Left(node transport.ID, handed bool) {
	o.marks.left(node, handed)
	o.Observer.Left(node, handed)
}

func (o observer) Closed(node transport.ID) {
	o.Observer.Closed(node)
	o.marks.closed[node] = true
}

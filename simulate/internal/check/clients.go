package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// recorder takes down what the nodes tell of one call. It may be a call that its actor
// reports, too: then it waits for what the actor says, and adds what only the nodes know.
type recorder Call

// clients implements env.Clients for the nodes of a process.
type clients struct {
	*History
	process Process
}

// Clients returns what hears of the callers of a process's nodes.
func (h *History) Clients(p Process) env.Clients { return clients{h, p} }

// Abandons implements env.Clients. What the session loses is lost on purpose, as if the network had failed it.
func (h clients) Abandons(transport.ID) { h.world.Ail() }

// Called implements env.Clients.
func (h clients) Called(node transport.ID, ask env.Ask) env.Caller {
	want := Want(ask)
	h.world.CallBegins(node, ask.Key)
	if a := h.world.Actor(); a != nil {
		for _, c := range h.reports[a] {
			if c.want.Key == ask.Key {
				c.forget()
				if c.want.MaxHold == 0 {
					c.want.MaxHold = ask.MaxHold
				}
				if c.want != want {
					h.world.Fail(fmt.Errorf("simulate: %v reports a call for %v, and calls for %v", a, c.want, want))
				}
				c.node = node
				return (*recorder)(c)
			}
		}
	}
	c := h.call(h.process, want)
	c.node, c.unreported = node, true
	return (*recorder)(c)
}

// Returned implements env.Caller.
func (r *recorder) Returned(l env.Hold, err error) env.Holder {
	c := (*Call)(r)
	w := c.history.world
	a := w.Actor()
	w.CallEnds(c.node, c.want.Key)
	if err == nil && !c.process.Dead() && isOver(l, c.process) {
		w.Fail(fmt.Errorf("G5 lease: %s gets %v with token %d, which is over already", c.who, c.want, l.Token()))
	}
	switch {
	case c.process.Dead(): // its actor is being unwound
	case !c.unreported && err != nil && a != nil:
		c.by = a // it may well try again, before it reports
		c.history.reports[a] = append(c.history.reports[a], c)
	case !c.unreported:
		c.core = l
	default:
		c.end(l, err)
	}
	return r
}

// living returns the hold, or nil if there is none, or its holder is dead.
func (r *recorder) living() *Hold {
	if r.process.Dead() {
		return nil
	}
	return r.held
}

// Renewed implements env.Holder.
func (r *recorder) Renewed() {
	if x := r.living(); x != nil && len(x.key.live) > 1 && x.believed() {
		r.history.checkExclusion(x.key, x) // a belief may have come back
	}
}

// Ended implements env.Holder.
func (r *recorder) Ended(excused bool) {
	l := r.history.leaves[r.node]
	left := l != nil && (!l.waits() || r.want.Use) // Leave waits for no use (P39)
	if x := r.living(); x != nil {
		if excused && l == nil {
			x.goesWithSession(r.node)
		}
		at, void := r.history.inside.voids[r.node]
		excused = excused || void && at == r.history.world.Now()
		x.excused, x.left = x.excused || excused || left, x.left || left
		x.checkLeft(l)
		x.ended()
	} else if r.held == nil {
		r.excused, r.left = excused || left, left // the actor has not come back from its call yet
	}
}

// goesWithSession is called for a hold that may end now, with others of its user's session.
func (x *Hold) goesWithSession(node transport.ID) {
	if x.unlocking == running && x.end == running && !x.call.process.Dead() {
		x.call.history.world.LostWithSession(x.call.process, node)
	}
}

// Unlocking implements env.Holder. Until now the holder was at work, if it believed
// that it may be.
func (r *recorder) Unlocking() {
	x := r.living()
	if x != nil && x.unlocking == running {
		x.Use()
	}
	x.Unlocking()
}

// Unlocked implements env.Holder.
func (r *recorder) Unlocked(err error) {
	x := r.living()
	if x == nil {
		return
	}
	if n := len(x.shares); n > 0 && x.shares[n-1].handles > 0 {
		r.history.world.Fail(fmt.Errorf("G4 re-entrance: %v is released, and %d handles share it", x, x.shares[n-1].handles))
	}
	if r.unreported {
		x.Unlocked(err)
	}
}

// extension is one Extend.
type extension struct {
	began, ended time.Duration // running: not yet
	length       time.Duration
	ok           bool
}

// Succeeding implements env.Holder.
func (r *recorder) Succeeding(retention time.Duration) {
	if x := r.living(); x != nil {
		x.succeeding(retention)
	}
}

// Proclaimed implements env.Holder.
func (r *recorder) Proclaimed(sequence uint64) {
	if x := r.living(); x != nil {
		x.proclaimed = max(x.proclaimed, sequence)
	}
}

// Downgrading implements env.Holder.
func (r *recorder) Downgrading() {
	x := r.living()
	if x == nil || x.less.begun {
		return
	}
	x.Use() // until now it was a writer
	if x.key.live != nil && slices.Contains(x.key.live, x) {
		x.key.weight -= x.weight() - 1
	}
	x.less = downgrade{begun: true, from: r.history.world.Now()}
	(*Call)(r).record(timeline.Note, 0, x.token, "downgrade")
}

// Downgraded implements env.Holder.
func (r *recorder) Downgraded(err error) {
	if x := r.living(); x != nil && err == nil {
		x.less.ended, x.less.to = true, r.history.world.Now()
	}
}

// Extending implements env.Holder.
func (r *recorder) Extending(d time.Duration) {
	if x := r.living(); x != nil {
		x.extensions = append(x.extensions, extension{r.history.world.Now(), running, d, false})
		(*Call)(r).record(timeline.Note, 0, x.token, fmt.Sprintf("extend by %v", d))
	}
}

// Extended implements env.Holder. An Extend that was not confirmed may count, and then
// from its sending on.
func (r *recorder) Extended(d time.Duration, err error) {
	x := r.living()
	if x == nil {
		return
	}
	w := r.history.world
	if err == nil && x.unlocking == running && !x.believed() {
		w.Fail(fmt.Errorf("G5 lease: %v was extended, and is over already", x))
	}
	now, alone := w.Now(), true
	this := slices.IndexFunc(x.extensions, func(c extension) bool { return c.ended == running && c.length == d })
	if this < 0 { // it began before the lock was reported
		this = len(x.extensions)
		x.extensions = append(x.extensions, extension{began: x.began, length: d})
	}
	c := &x.extensions[this]
	c.ended, c.ok = now, err == nil
	for i, o := range x.extensions { // those under way together may return in another order than they counted in
		alone = alone && (i == this || o.ended != running && o.ended <= c.began)
	}
	switch {
	case err != nil && x.latest == 0: // it may be renewed still
	case err != nil || !alone:
		x.latest = max(x.latest, now+d)
	default:
		x.latest = now + d
	}
	x.checkFixed()
}

// share is how many handles share a hold, from some time on.
type share struct {
	at      time.Duration
	handles int
}

// Shared implements env.Holder.
func (r *recorder) Shared(handles int) {
	x := r.living()
	if x == nil || handles == 0 && len(x.shares) == 0 {
		return // a hold as most are
	}
	before := 1
	if n := len(x.shares); n > 0 {
		before = x.shares[n-1].handles
	}
	x.shares = append(x.shares, share{r.history.world.Now(), handles})
	if handles != before+1 && handles != before-1 {
		r.history.world.Fail(fmt.Errorf("G4 re-entrance: %d handles shared %v, and now %d do", before, x, handles))
	}
}

package client

import (
	"cmp"
	"slices"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// A use of a resource (P39) is to the client a hold: it lasts as long as its lease. The table has one use for each
// user and lease; here each handle of it has a hold, and the use is dropped with the last.

// use is one user's use of a resource, through one lease: as long as it has handles, or an End may give it one.
type use struct {
	useID
	stamp   uint64 // the latest that the table has told
	earlier uint64 // the latest of an earlier table
	had     uint64 // the latest with which a caller has had a handle
	handles int    // holds, without those whose Unlock is under way
	durable bool   // one of its pulls was
	kept    bool   // for as long as the lease: a handle was forsaken
}

// anyStamp is above all stamps: a Drop that names it ends a use whatever its stamp is.
const anyStamp = 1<<64 - 1

// useID names a use of a lease.
type useID struct{ key, user string }

// use returns the use that an operation makes, or confirms.
func (q *Request) use() useID { return useID{q.Key, q.Operation.User} }

// makes returns the use that a call may make, or confirm, before it has its result.
func (c *Call) makes() (id useID, ok bool) {
	q, ok := c.unheard()
	if !ok || c.Kind == Cancel {
		return useID{}, false
	}
	return q.use(), true
}

func (l *lease) useOf(id useID) *use {
	u := l.uses[id]
	if u == nil {
		u = &use{useID: id}
		if l.uses == nil {
			l.uses = make(map[useID]*use)
		}
		l.uses[id] = u
	}
	return u
}

// handle returns a handle of the use that the table has stamped.
func (l *lease) handle(q Request, stamp uint64) *Hold {
	u := l.useOf(q.use())
	u.stamp, u.durable = max(u.stamp, stamp), u.durable || q.Operation.Durable
	u.handles++
	return &Hold{Key: q.Key, Token: stamp, use: u, counts: true, request: q}
}

// uncount: h is no handle of its use any more. It reports whether it was one.
func (h *Hold) uncount() (was bool) {
	if was = h.counts; was {
		h.counts = false
		h.use.handles--
	}
	return was
}

// idle reports whether a use has no handle, and no End gives it one.
func (l *lease) idle(u *use) bool {
	return u.handles == 0 && !l.hasCall(func(c *Call) bool {
		id, ok := c.makes()
		return ok && id == u.useID && c.Kind == Unlock
	})
}

// skipped: what a Lock was to do is done.
func (l *lease) skipped(c *Call, e shard.Event) {
	stamp := e.Token
	switch {
	case c.Skipped: // told again
	case c.Request.pulls() && stamp <= c.dropped:
		l.shard.requestAnew(c)
	case c.Request.pulls():
		c.Skipped, c.stamp = true, stamp
		c.Hold = l.handle(c.Request, stamp)
		c.Hold.vague = c.Request.Claim
		l.hold(c.Hold, c)
	default:
		c.Skipped = true
		if m, ok := c.Request.done(); ok {
			m.Remains = cmp.Or(e.Quiet, m.Remains)
			l.shard.learnMemory(m)
		}
		l.acknowledge(c.number)
		l.confirmed(c, nil)
	}
}

// skippedInVain: a Lock was skipped that is not waited for any more. If that has made a use, its Cancel may come too late to hear of it.
func (l *lease) skippedInVain(e shard.Event) {
	if e.What != shard.Skipped {
		return
	}
	for _, c := range l.calls { // order-free: one Cancel at most has this target
		if c.Kind == Cancel && c.target == e.Number && c.Request.pulls() {
			c.stamp = e.Token
		}
	}
}

// cancelled: the table will not grant the Lock that c cancels. If it had skipped it, the use is dropped.
func (l *lease) cancelled(c *Call) {
	if !c.Request.pulls() {
		return
	}
	id := c.Request.use()
	if c.stamp != 0 {
		u := l.useOf(id)
		u.stamp, u.durable = max(u.stamp, c.stamp), u.durable || c.Request.Operation.Durable
	}
	l.dropUnused(id)
}

// pulled: the table has ended a pull that did not fail, and its session uses the resource.
func (l *lease) pulled(c *Call, stamp uint64) {
	if c.Use != nil {
		return // told again
	}
	l.forget(c.Hold)
	l.client.counters.Unlocks.Add(1)
	c.Use = l.handle(c.Hold.request, stamp)
	c.Use.vague = c.Hold.vague
	switch err := l.session.Err(); {
	case err != nil || c.leaves:
		l.giveUp(c, err)
	case stamp <= c.dropped: // it was dropped meanwhile, by its user's name
		l.giveUp(c, fault.ErrClosed)
	default:
		l.hold(c.Use, c)
	}
}

// giveUp gives back the use of a pull that nobody is to have.
func (l *lease) giveUp(c *Call, err error) {
	h := c.Use
	c.Use, h.pending = nil, nil
	l.forget(h)
	l.settle(c)
	l.client.finish(c, err)
	l.dropUnused(h.use.useID)
}

// unuse ends a handle of a use, whose belief has ended. It reports whether c is to drop the use: that was the last one.
func (l *lease) unuse(c *Call) bool {
	u := c.Hold.use
	if !c.Hold.uncount() || !l.idle(u) {
		return false
	}
	c.stamp, c.lone, c.vain = u.stamp, u.had, u.vain()
	l.dropping(u, u.stamp)
	return true
}

// dropUnused drops a use of which no handle is left.
func (l *lease) dropUnused(id useID) {
	u := l.uses[id]
	if u == nil || !l.idle(u) || l.session.Err() != nil {
		return
	}
	l.dropping(u, u.stamp)
	l.sendAbandoned(l.dropOf(u))
}

// vain returns the latest stamp, if nobody has had a handle since; else zero.
func (u *use) vain() uint64 {
	if latest := max(u.stamp, u.earlier); latest > u.had {
		return latest
	}
	return 0
}

// dropOf returns a Drop of a use for which nobody waits. If it is durable, that goes on when the lease is lost.
func (l *lease) dropOf(u *use) *Call {
	c := &Call{Kind: Drop, Request: Request{Key: u.key, Operation: &shard.Operation{User: u.user}}, stamp: u.stamp, lone: u.had, vain: u.vain()}
	if u.durable {
		c.Session = l.session
	}
	return c
}

// dropsLeft returns the Drops of durable uses whose last handle has left that to an End.
func (l *lease) dropsLeft() (drops []*Call) {
	for _, u := range l.uses { // order-free: sorted below
		if u.durable && u.handles == 0 {
			drops = append(drops, l.dropOf(u))
		}
	}
	slices.SortFunc(drops, func(c, d *Call) int {
		return cmp.Or(cmp.Compare(c.Request.Key, d.Request.Key), cmp.Compare(c.Request.Operation.User, d.Request.Operation.User))
	})
	return drops
}

// dropping: a Drop that names this stamp is about to be sent. What makes the use is to be told of a later one: the answers
// may come in another order.
func (l *lease) dropping(u *use, stamp uint64) {
	if l.idle(u) {
		delete(l.uses, u.useID)
	}
	for _, c := range l.calls { // order-free: all are marked
		if id, ok := c.makes(); ok && id == u.useID {
			c.dropped = max(c.dropped, stamp)
		}
	}
}

// keep: no handle of the use is left in the program, which has dropped the last one without a release. One hold stays
// for each such use.
func (l *lease) keep(h *Hold) {
	switch {
	case !h.counts: // it was ended meanwhile
	case h.use.kept:
		l.client.emit(Unlocking{h})
		l.client.emit(End{h, fault.ErrClosed}) // its deadline would move no more
		l.forget(h)
	default:
		h.use.kept = true
	}
}

// unheard returns the use that a call may have made, or confirmed, of which the client has not heard.
func (c *Call) unheard() (q *Request, ok bool) {
	switch {
	case c.Kind == Lock || c.Kind == Cancel:
		q = &c.Request
	case c.Kind == Unlock && c.Hold.use == nil && !c.Failed:
		q = &c.Hold.request
	}
	return q, q != nil && q.pulls()
}

// mayUse reports whether the table may have uses of the lease.
func (l *lease) mayUse() bool {
	return l.uses != nil || l.hasCall(func(c *Call) bool {
		_, ok := c.unheard()
		return ok
	})
}

// dropsUnheard returns the Drops of durable uses that calls may have made which have failed, or were given up: nobody is to
// have them. A Lock is asked for anew.
func (l *lease) dropsUnheard() (drops []*Call) {
	keeps := l.keeps()
	for _, c := range l.inOrder() {
		if q, ok := c.unheard(); ok && c.Kind != Lock && q.Operation.Durable && !slices.Contains(keeps, q.use()) {
			drops = append(drops, &Call{Kind: Drop, Session: l.session, Request: Request{Key: q.Key, Operation: &shard.Operation{User: q.Operation.User}}, vain: c.stamp})
		}
	}
	return drops
}

// drops returns the command of a call that drops a use. It names the leases of the same session that were lost: a user's session has
// none, for it ends with its first. If no caller has had the use, it names none that keeps one of the same user.
func (l *lease) drops(c *Call, base shard.Call, id useID) shard.Drop {
	d := shard.Drop{Call: base, TTL: l.ttl, Name: l.client.cfg.Name, Key: id.key, User: id.user, Stamp: c.stamp, Lone: c.lone, Vain: c.vain}
	if l.session.Own {
		for _, lost := range l.shard.lost {
			if c.lone != 0 || !slices.Contains(lost.keeps, id) {
				d.Lost = append(d.Lost, lost.number)
			}
		}
	}
	return d
}

// lostLease is a lease of the node's own session that was given up.
type lostLease struct {
	number uint64
	keeps  []useID // see keeps
}

// keeps returns the durable uses of which callers have handles that they have not given back: they stay when the lease is lost, whoever
// gives up another pull.
func (l *lease) keeps() (all []useID) {
	for _, h := range l.holds {
		if h.use != nil && h.use.durable && h.counts && h.pending == nil && !slices.Contains(all, h.use.useID) {
			all = append(all, h.use.useID)
		}
	}
	return all
}

// drop ends a user's use, with all its handles. One that the table makes meanwhile stays.
func (s *shardClient) drop(c *Call) {
	c.lone = anyStamp
	l := s.leaseFor(c)
	if u := l.uses[c.Request.use()]; u != nil {
		c.stamp = u.stamp
		for _, h := range slices.Clone(l.holds) {
			switch {
			case h.use != u || !h.counts:
			case h.pending != nil:
				c.stamp = 0 // its caller is to have it
			default:
				s.client.emit(Unlocking{h})
				s.client.emit(End{h, fault.ErrClosed})
				l.forget(h)
			}
		}
		u.kept = false
		l.dropping(u, c.stamp)
	} else {
		c.stamp = l.carriedAt // a guest may have made it through an earlier node
	}
	if l.ofGuest() {
		c.stamp = max(c.stamp, s.revision) // or this node has claimed its pull, and does not know for whom
	}
	s.requestIn(l, c)
}

// goOverUnlock ends an Unlock that was under way when the shard's table was lost: what it gives back is not reported. A pull
// that did not fail makes a use all the same. Of a durable use the next table may be told by others: it is dropped there.
func (l *lease) goOverUnlock(c *Call) {
	m, once := c.Hold.request.done()
	switch h := c.Hold; {
	case once && !c.Failed:
		l.goOverDone(c, m)
	case c.Use != nil && l.client.now >= l.until: // another operation may have run in the table before, once the record had ended
		u := c.Use
		c.Use, u.pending = nil, nil
		l.forget(u)
		l.remove(c)
		l.client.finish(c, fault.ErrUnconfirmed)
		if u.use.durable {
			l.dropUnused(u.use.useID)
		}
	case c.Use != nil: // it is reported, as any use
	case h.use != nil && h.use.durable:
		c.goOverDrop()
	case h.use != nil || !h.request.pulls() || c.Failed || c.leaves || l.session.Err() != nil:
		l.confirmed(c, nil)
	default:
		l.forget(h)
		l.client.counters.Unlocks.Add(1)
		// No other operation has run since, and what this one made cannot have the token that it had.
		c.Use = l.handle(h.request, h.Token+1)
		c.Use.pending = c
		l.insert(c.Use)
	}
}

// goOverDrop sends a Drop in another generation, in which the session has no use that it is about.
func (c *Call) goOverDrop() {
	c.stamp = 0
	c.askAgain()
}

// remember tells the shard's table of uses that the one before had. Nobody waits for the answers.
func (s *shardClient) remember(session *Session, uses []shard.Durable) {
	for _, u := range uses {
		s.request(&Call{Kind: Remember, Session: session, Request: Request{Key: u.Key, Operation: &shard.Operation{User: u.User}}, stamp: u.Stamp, several: u.Several})
	}
}

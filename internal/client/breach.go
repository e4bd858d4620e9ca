package client

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

// An operator may break a grant (P49). The leader then names it in each answer to a renewal of its lease, until it is given back. The first such answer
// ends the belief in the hold; the lease goes on. The key is free when the holder unlocks, as its code has stopped by then; or when the
// leader has waited for a TTL.

// breaking returns the command of a Break. It is repeated until it is answered, also in another lease or generation: who breaks a grant twice has
// broken it once.
func (l *lease) breaking(c *Call, base shard.Call) shard.Break {
	return shard.Break{Call: base, TTL: l.ttl, Name: l.client.cfg.Name, Key: c.Request.Key, Token: c.Grant, Why: c.Why}
}

// errorOfBreak is what the caller of a Break is told.
func errorOfBreak(err error) error {
	switch err {
	case fault.ErrLost:
		return fault.ErrNotHeld
	case fault.ErrTooManyWaiters:
		return fault.ErrTooManyBroken
	}
	return err
}

// hearBreaches takes in which grants of the lease are broken, and not given back yet.
func (l *lease) hearBreaches(a message.Answer) {
	for _, b := range a.Broken {
		l.breach(b)
	}
	if a.Revision < l.breachesAt || !a.Alive {
		return // of an earlier table; what it has named is broken all the same
	}
	l.breachesAt = a.Revision
	if a.Revision >= l.owing {
		l.owing = 0
	}
	unnamed := func(b shard.Breach) bool { return !slices.Contains(a.Broken, b) }
	l.unheard = slices.DeleteFunc(l.unheard, unnamed)
	if l.ofGuest() {
		l.session.mended(l.shard.shard, l.client.now, unnamed)
	}
	stays := func(h *Hold) bool { return h.broken && !l.fixed && l.client.now-h.brokenAt >= 2*l.ttl }
	for i := slices.IndexFunc(l.holds, stays); i >= 0; i = slices.IndexFunc(l.holds, stays) {
		h := l.holds[i]
		l.forget(h) // nobody unlocks it
		l.waive(shard.Breach{Key: h.Key, Token: h.Token})
	}
}

// breach ends the belief in a grant that is broken. If nothing is known of such a grant, its answer is on its way, or it was given back.
func (l *lease) breach(b shard.Breach) {
	now := l.client.now
	if l.ofGuest() {
		l.session.breached(l.shard.shard, b, now+l.ttl)
	}
	i := slices.IndexFunc(l.holds, func(h *Hold) bool { return h.Token == b.Token && h.Key == b.Key && h.use == nil })
	if i < 0 {
		if !slices.Contains(l.unheard, b) {
			l.unheard = append(l.unheard, b)
		}
		return
	}
	switch h := l.holds[i]; {
	case h.broken:
	case h.pending != nil && h.pending.Kind == Lock:
		l.brokenUnheard(h.pending, b.Token)
	default:
		h.broken, h.brokenAt = true, now
		l.client.emit(End{h, fault.ErrBroken})
		l.dropFixes(fault.ErrBroken)
	}
}

// brokenUnheard: a Lock was granted, and that is broken before its caller has heard of it. A guest may have heard of it through another node.
func (l *lease) brokenUnheard(c *Call, token uint64) {
	b := shard.Breach{Key: c.Request.Key, Token: token}
	if l.ofGuest() {
		l.session.breached(l.shard.shard, b, l.client.now+l.ttl)
	}
	l.unheard = slices.DeleteFunc(l.unheard, func(o shard.Breach) bool { return o == b })
	l.settle(c)
	if h := c.Hold; h != nil {
		h.broken, h.pending, c.Hold = true, nil, nil
		l.forget(h)
	}
	l.shard.fill(c)
	c.Info.Token, c.stamp = token, token
	l.client.finish(c, fault.ErrBroken)
	switch {
	case l.fixed:
		l.dropFixes(fault.ErrBroken)
		l.close()
	case !l.ofGuest():
		l.waive(b)
	}
}

// refusedAsBroken: the table has refused a call, since the grant that it is about is broken.
func (l *lease) refusedAsBroken(c *Call, token uint64) {
	switch c.Kind {
	case Lock:
		l.brokenUnheard(c, token)
		return
	case Report:
		l.breach(shard.Breach{Key: c.Hold.Key, Token: token})
		l.resumed(c)
		return
	}
	if c.Kind == Unlock {
		l.acknowledge(c.number)
		l.confirmed(c, fault.ErrBroken) // the end of an operation, which has come too late
		return
	}
	l.forgetFix(c)
	l.settle(c)
	l.client.finish(c, fault.ErrBroken)
	if h := c.Hold; h != nil {
		l.breach(shard.Breach{Key: h.Key, Token: token})
	}
}

// isBroken reports whether a leader has named a grant of which nothing was known.
func (l *lease) isBroken(key string, token uint64) bool {
	return len(l.unheard) > 0 && slices.Contains(l.unheard, shard.Breach{Key: key, Token: token})
}

// waive gives back a broken grant of which there is no hold.
func (l *lease) waive(b shard.Breach) {
	l.sendAbandoned(&Call{Kind: Waive, Shard: l.shard.shard, Request: Request{Key: b.Key}, Grant: b.Token})
}

// waive gives back a broken grant of a guest, which has stopped.
func (s *shardClient) waive(c *Call) {
	b := shard.Breach{Key: c.Request.Key, Token: c.Grant}
	c.Session.waived(s.shard, b)
	if l := s.current[c.Session]; l != nil {
		l.waive(b)
	}
	s.client.finish(c, nil)
}

// A guest believes in all that it has for as long as it was last told, whatever that answer was about. So it is told no lease from when one of its grants is
// broken until it has given that back, or has been told none for a whole lease: then its belief in all of it is over.

// owed is a broken grant of a guest.
type owed struct {
	shard  int
	breach shard.Breach
	until  time.Duration // from then on the guest does not believe in it any more
	waived bool          // the guest has given it back
}

func (s *Session) owed(sh int, b shard.Breach) *owed {
	for i := range s.owes {
		if o := &s.owes[i]; o.shard == sh && o.breach == b {
			return o
		}
	}
	return nil
}

// breached notes that a grant of the guest is broken.
func (s *Session) breached(sh int, b shard.Breach, until time.Duration) {
	if s.owed(sh, b) == nil {
		s.owes = append(s.owes, owed{sh, b, until, false})
	}
}

// waived notes that the guest has given a broken grant back.
func (s *Session) waived(sh int, b shard.Breach) {
	if o := s.owed(sh, b); o != nil {
		o.waived = true
	}
}

// mended forgets the breaches in a shard that its leader does not name any more.
func (s *Session) mended(sh int, now time.Duration, unnamed func(shard.Breach) bool) {
	s.owes = slices.DeleteFunc(s.owes, func(o owed) bool {
		return o.shard == sh && unnamed(o.breach) && (o.waived || now >= o.until)
	})
}

// owes reports whether a guest may believe in a grant that is broken: as far as this node knows, or a leader has said that there are some.
func (c *Client) owes(s *Session, now time.Duration) bool {
	return len(c.Owes(s, now)) > 0 || slices.ContainsFunc(s.leases, func(l *lease) bool { return l.owing != 0 })
}

// Owes returns the broken grants that a guest may believe in, as far as this node knows.
func (c *Client) Owes(s *Session, now time.Duration) (all []shard.Breach) {
	for _, o := range s.owes {
		if !o.waived && now < o.until {
			all = append(all, o.breach)
		}
	}
	return all
}

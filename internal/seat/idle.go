package seat

import (
	"slices"
	"time"
)

// idle is when this node has nothing to find out or to decide: it has its seat, and every entry of its list, and of the
// mesh's, counts and is connected. Then it tells no more often on loopback than elsewhere, about once a second, and dials others
// every other time (C10).
type idle struct {
	is   bool
	last time.Duration // when it was so last
}

// idles notes whether this node is idle. Once it is not, it dials soon.
func (m *Machine) idles(now time.Duration) {
	was := m.idle.is
	amiss := func(e entry) bool {
		return e.back || !e.counted || e.node != m.cfg.Self.ID && !m.up(e.node)
	}
	m.idle.is = m.own != "" && m.sure && m.waiting.why == nil && m.alarm.why == nil && m.attempt == nil && m.wants.action == nil &&
		!m.Unseated() && !slices.ContainsFunc(m.book.entries, amiss)
	if m.idle.is || was {
		m.idle.last = now
	}
	if was && !m.idle.is {
		for i := range m.book.entries {
			e := &m.book.entries[i]
			e.next = min(e.next, now+m.upTo(m.pace.contact))
		}
	}
}

// Idle reports whether this node has nothing to find out or to decide. Then Tick may come up to 100 ms after Deadline.
func (m *Machine) Idle() bool { return m.idle.is }

// every returns how long this node waits at most before it dials an entry again.
func (m *Machine) every() time.Duration {
	if m.idle.is {
		return afar.contact
	}
	return m.pace.contact
}

// again draws how long it waits.
func (m *Machine) again() time.Duration {
	if m.idle.is {
		return afar.contact - time.Duration(m.rng.Int64N(int64(afar.contact/20)))
	}
	return m.upTo(m.pace.contact)
}

// dialsUntil returns a time: what is due by then is dialled now. An idle node dials all entries at once, some of them
// earlier than it must: a machine that has little to do pays for each time it wakes.
func (m *Machine) dialsUntil(now time.Duration) time.Duration {
	if m.idle.is && now >= m.book.deadline() {
		return now + afar.contact/2
	}
	return now
}

// vouched reports whether an idle node tells the node at an entry what it knows, and does not dial it this time: it is
// connected, and dials the entry itself. But the name may lead this node elsewhere, so every other time it is dialled: whoever is
// found only there is found after little more than 2 s, and a new mesh is quiet for longer (C10).
func (m *Machine) vouched(e *entry, now time.Duration) bool {
	return m.idle.is && !e.doubt && e.err == nil && m.up(e.node) && now < e.begun+afar.contact*11/10
}

// heardLately reports whether what a node has told is so new that it counts. A client that is connected is told what is
// new; so is a node that is idle, less often. What an idle node was told counts until it has had time to ask.
func (m *Machine) heardLately(p *peer, now time.Duration) bool {
	fresh := m.pace.fresh
	switch {
	case p.told.Member.ID == 0:
		return false
	case !p.up:
	case m.own == "":
		fresh = 3 * m.pace.ask
	case m.idle.is || now < m.idle.last+m.pace.fresh:
		fresh = afar.fresh
	}
	return now < p.at+fresh
}

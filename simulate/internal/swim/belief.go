package swim

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// acquaintance is what one member believes of another, or of itself.
type acquaintance struct {
	member      env.Member
	leaving     bool
	state       belief
	incarnation uint64
	since       time.Duration // true time of the last change of state
	doubt       suspicion     // while it is suspected

	introduced bool            // the node was told that it lives, and not yet that it is dead
	told       env.MemberState // last
}

// belief is what a rumour says, and what an acquaintance is believed to be.
type belief uint8

const (
	alive belief = iota
	suspected
	dead
)

func (a *acquaintance) rumour(c belief, by transport.ID) rumour {
	r := rumour{belief: c, id: a.member.ID, incarnation: a.incarnation}
	if c == alive {
		r.member, r.leaving = a.member, a.leaving
	} else {
		r.by = by
	}
	return r
}

// suspicion runs out after its longest time, or after its shortest once another one
// shares it: one is all that suspicionMult asks for.
type suspicion struct {
	timer    Timer
	earliest time.Duration // true time
	alone    bool          // nobody shares it yet, and somebody might
	by       transport.ID
}

const (
	suspicionMult = 3
	suspicionMax  = 2
)

// learn takes in one piece of news.
func (m *Member) learn(r rumour) {
	if m.stopped {
		return
	}
	switch r.belief {
	case alive:
		m.lives(r)
	case suspected:
		m.suspect(r)
	case dead:
		m.died(r)
	}
}

// merge takes in all that another member knows. The dead are only suspected: they
// may have come back since.
func (m *Member) merge(all []rumour) {
	for _, r := range all {
		if r.belief != alive {
			r.belief, r.by = suspected, m.self.member.ID
		}
		m.learn(r)
	}
}

// all is what a member knows, for another.
func (m *Member) all() []rumour {
	all := make([]rumour, len(m.list))
	for i, a := range m.list {
		all[i] = a.rumour(alive, 0)
		all[i].belief = a.state
	}
	return all
}

func (m *Member) lives(r rumour) {
	a := m.known[r.id]
	if a == m.self {
		if r.incarnation > a.incarnation || r.incarnation == a.incarnation && r.leaving != a.leaving {
			m.refute(r.incarnation)
		}
		return
	}
	if a == nil {
		a = &acquaintance{member: r.member, state: dead}
		m.known[r.id] = a
		// In a random place, so that not all probe it last.
		n := len(m.list)
		i := m.world.Below(int64(n))
		m.list = append(m.list, a)
		m.list[i], m.list[n] = m.list[n], m.list[i]
	} else if r.incarnation <= a.incarnation {
		return
	}
	m.clear(a)
	m.queue.add(r, false)
	was := a.state
	a.member, a.leaving, a.incarnation = r.member, r.leaving, r.incarnation
	if a.state != alive {
		a.state, a.since = alive, m.now()
	}
	m.here(a, was)
}

// here tells the node of a member that lives, or that leaves.
func (m *Member) here(a *acquaintance, was belief) {
	switch {
	case a.introduced && a.told == env.Left: // a node that leaves does not come back
	case !a.leaving:
		if was == dead || !a.introduced {
			m.tell(a, env.Alive)
		}
	case a.introduced:
		m.tell(a, env.Left)
	default:
		a.introduced, a.told = true, env.Left
	}
}

func (m *Member) suspect(r rumour) {
	a := m.known[r.id]
	switch {
	case a == nil || r.incarnation < a.incarnation:
	case a.doubt.timer != nil:
		if m.share(a, r.by) {
			m.queue.add(r, false)
		}
	case a.state != alive:
	case a == m.self:
		m.refute(r.incarnation)
	default:
		m.queue.add(r, false)
		a.incarnation, a.state, a.since = r.incarnation, suspected, m.now()
		n := len(m.list)
		d := suspicionMult * thousandths(n) * probeInterval / 1000
		a.doubt = suspicion{earliest: m.now() + d, alone: n > 2, by: r.by}
		if a.doubt.alone {
			d *= suspicionMax
		}
		a.doubt.timer = m.after(d, func() {
			a.doubt = suspicion{}
			m.died(a.rumour(dead, m.self.member.ID))
		})
	}
}

// thousandths is the decimal logarithm of n in thousandths, and 1000 at least. What
// is added hides what architectures round differently.
func thousandths(n int) time.Duration {
	return time.Duration(max(1000, math.Log10(float64(n))*1000+1e-6))
}

// share adds the suspicion of another member. It reports whether that counts: then the suspect has
// less time.
func (m *Member) share(a *acquaintance, by transport.ID) bool {
	s := &a.doubt
	if !s.alone || s.by == by {
		return false
	}
	s.alone = false
	s.timer.Move(max(m.now(), s.earliest))
	return true
}

// clear ends a suspicion.
func (m *Member) clear(a *acquaintance) {
	if a.doubt.timer != nil {
		a.doubt.timer.Stop()
		a.doubt = suspicion{}
	}
}

func (m *Member) died(r rumour) {
	a := m.known[r.id]
	if a == nil || r.incarnation < a.incarnation {
		return
	}
	m.clear(a)
	if a.state == dead {
		return
	}
	if a == m.self {
		m.refute(r.incarnation)
		return
	}
	m.queue.add(r, false)
	a.incarnation, a.state, a.since = r.incarnation, dead, m.now()
	lived := a.introduced && a.told == env.Alive
	a.introduced = false
	if lived {
		m.tell(a, env.Dead)
	}
}

// refute tells the others that this member lives.
func (m *Member) refute(accused uint64) {
	m.self.incarnation = max(m.self.incarnation, accused) + 1
	m.queue.add(m.self.rumour(alive, 0), true)
}

// inquiry is a probe under way.
type inquiry struct {
	number uint64 // zero: none
	whom   *acquaintance
}

// probeNext judges the last probe, and begins the next one.
func (m *Member) probeNext() {
	m.probeTick = m.after(probeInterval, m.probeNext)
	if p := m.asked; p.number != 0 {
		m.asked = inquiry{}
		r := p.whom.rumour(suspected, m.self.member.ID)
		m.suspect(r)
	}
	a := m.candidate()
	if a == nil {
		return
	}
	if m.world.Chance(m.world.Faults().Lies) {
		m.died(a.rumour(dead, m.self.member.ID))
		return
	}
	m.number++
	m.asked = inquiry{m.number, a}
	p := packet{kind: ping, number: m.number}
	if a.state == alive {
		m.answer(a.member.ID, p)
	} else {
		p.rumours = []rumour{a.rumour(suspected, m.self.member.ID)}
		m.send(a.member.ID, p)
	}
	m.askTick = m.after(probeTimeout, m.askOthers)
}

// candidate returns the member to be probed next; nil if there is none. The list is gone through in
// order, forgets the dead at its end, and is shuffled then.
func (m *Member) candidate() *acquaintance {
	for checked := 0; checked < len(m.list); {
		if m.next >= len(m.list) {
			m.forget()
			m.next = 0
			checked++
			continue
		}
		a := m.list[m.next]
		m.next++
		if a != m.self && a.state != dead {
			return a
		}
		checked++
	}
	return nil
}

// forget drops the long dead, and shuffles the others.
func (m *Member) forget() {
	m.list = slices.DeleteFunc(m.list, func(a *acquaintance) bool {
		gone := a.state == dead && m.now()-a.since > rememberDead
		if gone {
			delete(m.known, a.member.ID)
		}
		return gone
	})
	for i := len(m.list) - 1; i > 0; i-- {
		j := m.world.Below(int64(i + 1))
		m.list[i], m.list[j] = m.list[j], m.list[i]
	}
}

// askOthers asks some to probe a member that does not answer.
func (m *Member) askOthers() {
	p := m.asked
	for _, other := range m.some(indirectChecks, func(a *acquaintance) bool { return a != p.whom && a.state == alive }) {
		m.answer(other.member.ID, packet{kind: ask, number: p.number, about: p.whom.member.ID})
	}
}

// relay is a probe for another member.
type relay struct {
	number, theirs uint64
	whose          transport.ID
	until          time.Duration
}

func (m *Member) relay(from transport.ID, p packet) {
	m.number++
	m.relays = slices.DeleteFunc(m.relays, func(r relay) bool { return r.until < m.now() })
	m.relays = append(m.relays, relay{m.number, p.number, from, m.now() + probeTimeout})
	m.answer(p.about, packet{kind: ping, number: m.number})
}

// acknowledged is the answer to a probe.
func (m *Member) acknowledged(number uint64) {
	if number == m.asked.number {
		m.asked = inquiry{}
		m.askTick.Stop()
		return
	}
	i := slices.IndexFunc(m.relays, func(r relay) bool { return r.number == number })
	if i < 0 {
		return
	}
	r := m.relays[i]
	m.relays = slices.Delete(m.relays, i, i+1)
	if m.now() <= r.until {
		m.answer(r.whose, packet{kind: ack, number: r.theirs})
	}
}

// some returns up to k members at random of those that fit.
func (m *Member) some(k int, fits func(*acquaintance) bool) []*acquaintance {
	var some []*acquaintance
	for _, a := range m.list {
		if a != m.self && fits(a) {
			some = append(some, a)
		}
	}
	for i := range min(k, len(some)) {
		j := i + int(m.world.Below(int64(len(some)-i)))
		some[i], some[j] = some[j], some[i]
	}
	return some[:min(k, len(some))]
}

// tellSome passes rumours on.
func (m *Member) tellSome() {
	m.newsTick = m.after(gossipInterval, m.tellSome)
	if m.queue.empty() {
		return
	}
	for _, a := range m.some(gossipNodes, func(a *acquaintance) bool {
		return a.state != dead || m.now()-a.since <= rememberDead
	}) {
		if news := m.queue.take(len(m.list)); len(news) > 0 {
			m.send(a.member.ID, packet{kind: hearsay, rumours: news})
		}
	}
}

// syncSome exchanges everything with one member.
func (m *Member) syncSome() {
	m.syncTick = m.after(m.syncEvery(), m.syncSome)
	for _, a := range m.some(1, func(a *acquaintance) bool { return a.state == alive }) {
		m.exchange(a.member.ID, false)
	}
}

// syncEvery grows with the logarithm of a large mesh's size.
func (m *Member) syncEvery() time.Duration {
	n := len(m.list)
	if n <= syncScale {
		return syncInterval
	}
	return syncInterval * time.Duration(bits.Len(uint(n-1))-bits.Len(syncScale-1)+1)
}

package seat

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

// wish is what core.Next says that this node should try next, and when it is its turn: those that are
// told the same take turns, in the order of their seats.
type wish struct {
	action core.Action
	kind   string
	turn   time.Duration
}

// decide does what comes next, and reports whether anything has changed by it.
func (m *Machine) decide(now time.Duration) bool {
	reports := m.reports(now)
	foreign, err := m.leaveOut(now, reports)
	if err = cmp.Or(err, m.fits(reports), m.taken()); err != nil {
		m.fail(err)
		return false
	}
	m.follow(now, reports)
	if m.own == "" {
		if m.Role() == Undecided {
			m.waiting.why = m.undecided()
		}
		return false
	}
	if !m.sure {
		m.wants = wish{}
		m.waiting.why = fmt.Errorf("no dial of %s, the entry of this node, has reached the node since it stalled", m.own)
		return false
	}
	action, err := core.Next(m.cfg.Self.ID, reports)
	m.waiting.why = cmp.Or(foreign, m.contested(now), m.because(err))
	if l, ok := action.(core.Learn); ok {
		return m.learn(now, l.Table)
	}
	if b, is := action.(core.Begin); is && b.Call.Short() {
		if err := m.missed(b.Call, reports); err != nil {
			action, m.waiting.why = nil, cmp.Or(m.waiting.why, err)
		}
	}
	if action == nil {
		action = m.nextChange(now)
	}
	m.wish(now, action, reports)
	if _, calls := action.(core.Begin); calls {
		if _, proposes := m.attempt.(*version); proposes {
			m.abandon() // too few can decide it
			m.rest = 0
		}
	}
	if m.attempt != nil || m.wants.action == nil || now < max(m.rest, m.lull, m.wants.turn) {
		return false
	}
	m.begin(now, action)
	return true
}

// because adds to what the node waits for why the first dial that failed did so.
func (m *Machine) because(why error) error {
	for _, e := range m.book.entries {
		if e.err != nil && why != nil {
			return fmt.Errorf("%w; %s: %w", why, e.addr, e.err)
		}
	}
	return why
}

// fits returns why this node, which has no mesh yet, cannot be in one with those that told, or nil.
func (m *Machine) fits(reports map[string]core.Report) error {
	if m.acceptor.Table() != nil || m.serving != nil {
		return nil
	}
	name, founds := m.cfg.Self.Name, true
	for _, addr := range m.cfg.List {
		if _, told := reports[addr]; !told {
			founds = false // one that has not told may know of a mesh in which MaxTTL was changed
		}
	}
	for _, e := range m.book.entries {
		r, ok := reports[e.addr]
		if ok && r.Table != nil && (slices.Contains(m.cfg.List, e.addr) || m.serves(r.Table, reports)) { // else the mesh may have dropped that node
			if err := m.cfg.Wants.Fits(name, r.Table.Params); err != nil {
				return err
			}
			founds = founds && !r.Table.Params.Changed
		}
	}
	for _, e := range m.book.entries {
		if r, ok := reports[e.addr]; ok && r.Table == nil && r.Node != m.cfg.Self.ID {
			p := m.book.peers[e.node].told
			mine, theirs := m.cfg.Wants, p.Wants
			if !founds {
				mine.MaxTTL, theirs.MaxTTL = 0, 0
			}
			err := cmp.Or(
				mine.Agrees(name, theirs, fmt.Sprintf("node %q", p.Member.Name)),
				theirs.Agrees(p.Member.Name, mine, fmt.Sprintf("node %q", name)),
			)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// follow notes the table of the generation that serves: a majority of those that are bound in it know it, and
// take part in no later roll call.
func (m *Machine) follow(now time.Duration, reports map[string]core.Report) {
	m.waiting.why = m.because(errors.New("this node has heard of no mesh that serves"))
	if err := m.discoveryTrouble(now); err != nil {
		m.waiting.why = fmt.Errorf("%w; %w", m.waiting.why, err)
	}
	var best *core.Table
	for _, e := range m.book.entries {
		t := reports[e.addr].Table
		if t == nil || t == best || !m.serves(t, reports) {
			continue
		}
		best = m.prefer(best, t)
	}
	due := now >= m.among+floorEvery
	if own := m.acceptor.Table(); own != nil && (due || m.couldCall != 0) && m.serves(own, reports) {
		if m.couldCall = 0; due {
			m.hearsMost(now)
		}
	}
	if best == nil {
		return
	}
	m.waiting.why = nil
	o := m.serving
	if o == nil || o.Stamp.Roll != best.Stamp.Roll || o.Stamp.Version < best.Stamp.Version {
		m.serving = best
		if m.own == "" && o != nil && o.Mesh != best.Mesh && best.Before(o) {
			m.givesWay(o, best)
			went := func(r core.Report) bool {
				return r.Table != nil && r.Table.Mesh == best.Mesh && slices.Contains(o.Bound(), r.Node)
			}
			// Else its core forgot it, and founded this one by a clock that is behind: holds are reported.
			if m.serves(o, reports) || slices.ContainsFunc(m.inOrder(reports), went) {
				m.voids = best.Mesh
			}
		}
	}
}

// serves reports whether most of those that are bound in t know its generation, and take part in no later roll call.
func (m *Machine) serves(t *core.Table, reports map[string]core.Report) bool {
	return m.serve(t, reports) >= core.Majority(len(t.Bound()))
}

// serve counts those that are bound in t, know its generation, and take part in no later roll call.
func (m *Machine) serve(t *core.Table, reports map[string]core.Report) (n int) {
	for _, id := range t.Bound() { // it may answer at several entries
		if slices.ContainsFunc(m.book.entries, func(o entry) bool {
			r := reports[o.addr]
			return r.Node == id && r.Table != nil && r.Table.Stamp.Roll == t.Stamp.Roll && r.Roll.Compare(t.Stamp.Roll) <= 0
		}) {
			n++
		}
	}
	return n
}

// wish notes what this node should try, and whose turn it is.
func (m *Machine) wish(now time.Duration, action core.Action, reports map[string]core.Report) {
	var kind string
	var among []transport.ID
	switch a := action.(type) {
	case core.Ask:
		kind = "ask"
	case core.Begin:
		kind, among = "begin", remember(a.Call.Roster, reports)
		if a.Call.Short() {
			kind = fmt.Sprint("begin without ", a.Call.Roster)
		}
	case core.Propose:
		kind, among = fmt.Sprint("propose ", a.Table.Stamp), m.acceptor.Table().Bound()
	}
	if kind != m.wants.kind {
		turn := slices.Index(among, m.cfg.Self.ID)
		m.wants = wish{kind: kind, turn: now + time.Duration(max(0, turn))*m.pace.unit}
		if kind == "begin" && m.pace == loopback && !m.cfg.Anew {
			// Clients of an earlier mesh dial as often: what they hold is to be known, for a mesh on loopback is
			// not quiet if it hears of none.
			m.wants.turn = max(m.wants.turn, m.started+m.pace.contact)
		}
		if b, is := action.(core.Begin); is {
			if m.couldCall == 0 {
				m.couldCall = now
			}
			if turn < 0 { // however often others call meanwhile, and in vain
				m.wants.turn = max(m.wants.turn, m.couldCall+m.pace.fresh)
			}
			if m.leavesOut(b.Call, reports) {
				m.wants.turn = max(m.wants.turn, now+m.pace.fresh)
			}
			if b.Call.Short() {
				m.wants.turn = max(m.wants.turn, m.silentSince(now, b.Call)+m.pace.fresh)
			}
		}
	}
	m.wants.action = action
}

// remember returns those of a roster who know a table and were not dropped from its list since; or else all who know one; or all, if
// none does. They call first: a call is withdrawn by its caller, and where one that remembers is gone, those that are left could seldom
// act without a call. One that was dropped has another list than those that stay, and its call would overtake theirs.
func remember(roster []transport.ID, reports map[string]core.Report) []transport.ID {
	knows := make(map[transport.ID]core.Stamp)
	for _, r := range reports { // order-free: a node tells the same at each entry
		if r.Table != nil {
			knows[r.Node] = r.Table.Stamp
		}
	}
	dropped := func(id transport.ID) bool {
		for _, r := range reports { // order-free: whether there is one
			if t := r.Table; t != nil && t.Stamp.Roll == knows[id].Roll && t.Stamp.Version > knows[id].Version && !slices.Contains(t.Bound(), id) {
				return true
			}
		}
		return false
	}
	ids := slices.DeleteFunc(slices.Clone(roster), func(id transport.ID) bool { return knows[id] == core.Stamp{} })
	if stay := slices.DeleteFunc(slices.Clone(ids), dropped); len(stay) > 0 {
		return stay
	}
	if len(ids) > 0 {
		return ids
	}
	return roster
}

// leavesOut reports whether a mesh that some entry shows has an entry that is not on the list of the call, and whose node has
// not told since this node's last step: that node may remember, and be one of the majority that lives on. This node may have had no
// time yet to dial it, or to hear from it.
func (m *Machine) leavesOut(c core.Call, reports map[string]core.Report) bool {
	own := reports[m.own]
	mark := own.Mark()
	return slices.ContainsFunc(m.book.entries, func(e entry) bool {
		t := reports[e.addr].Table
		return t != nil && slices.ContainsFunc(t.List(), func(entry string) bool {
			r, told := reports[entry]
			return !(told && r.Asked == mark) && !slices.Contains(c.List, entry)
		})
	})
}

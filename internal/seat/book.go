package seat

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// book is what a node has heard of the entries, and of the nodes at them.
type book struct {
	entries []entry // of this node's list, and of the mesh's, sorted
	peers   map[transport.ID]*peer
	shown   *core.Table    // the last one that another node showed
	claims  []transport.ID // the nodes of the core that told of another mesh last
}

// entry is one line of the list, and the node that answers there.
type entry struct {
	addr   string
	back   bool         // in no list, but an address of a node that is bound in another mesh: see claimed
	node   transport.ID // answered last; zero: none yet
	name   string       // of node
	former transport.ID // answered before it, and is connected still
	next   time.Duration
	rests  bool          // next is so late because of what was known then: see Machine.rests
	begun  time.Duration // of the dial under way, or else of the last one
	dials  bool
	doubt  bool  // it is to be dialled, whatever vouches for it
	tried  bool  // a dial has ended
	err    error // why the last dial failed

	earlier []transport.ID // those that answered before node, the latest last: see several
	from    []sighting     // where those that answered lately are, node's the last
	turns   time.Duration  // until then the entry counts as one at which several answer in turn
	held    time.Duration  // since when another node answers than the one that has its seat, which lives: see Machine.held; zero: none does
	accused time.Duration  // accuse logs nothing more of this entry before this time

	counted bool          // what was known of it counted, when stand looked last
	away    time.Duration // since when it does not count
}

// manyEarlier is how many of the nodes that answered at an entry are remembered.
const manyEarlier = 8

// sighting is an address of which a node answered at an entry, and when that was found.
type sighting struct {
	addr string
	at   time.Duration
}

// returns reports whether an entry leads again to an address to which it led lately, before it led to another one. A node is
// restarted where it was. So a name that leads back has several addresses, even if each of their nodes has been restarted meanwhile.
func (e *entry) returns(addr string, since time.Duration) bool {
	last := len(e.from) - 1
	return addr != "" && last > 0 && e.from[last].addr != addr &&
		slices.ContainsFunc(e.from[:last], func(p sighting) bool { return p.addr == addr && p.at >= since })
}

// peer is a node that is connected, or answers at an entry.
type peer struct {
	up     bool
	told   told
	at     time.Duration // of told
	echoed core.Mark     // that this node last told it to have heard
	sent   time.Duration // when this node last told it something
	owed   bool          // it is a client, and is to be told
	parted bool          // this node, a client, has ended the connection
	knows  *core.Table   // that told names, once this node has it
}

// cover makes sure that these entries are in the book.
func (b *book) cover(list []string, now time.Duration) {
	for _, addr := range list {
		if i, ok := slices.BinarySearchFunc(b.entries, addr, entry.compare); !ok {
			b.entries = slices.Insert(b.entries, i, entry{addr: addr, next: now, away: now})
		}
	}
}

// cover makes sure that the book has the entries that this node dials, and no others: those of its own list, and of its mesh. A node at
// no entry, or that knows no mesh yet, also dials the entries of meshes which other nodes show: those that answer at its contact points,
// or at entries of the mesh that served last. All dial the addresses of other meshes that are claimed.
func (m *Machine) cover(now time.Duration) {
	lists := [][]string{m.cfg.List, {m.own}}
	list := func(t *core.Table) {
		if t != nil {
			lists = append(lists, t.List())
		}
	}
	list(m.acceptor.Table())
	if m.own == "" {
		lists = [][]string{m.cfg.List, m.discovery.points}
		list(m.serving)
	}
	if m.own == "" || m.acceptor.Table() == nil {
		for _, e := range m.book.entries {
			contact := slices.Contains(m.cfg.List, e.addr) || slices.Contains(m.discovery.points, e.addr) ||
				m.serving != nil && slices.Contains(m.serving.List(), e.addr)
			if p := m.book.peers[e.node]; p != nil && contact {
				list(p.knows)
			}
		}
	}
	claimed := m.claimed()
	for _, l := range append(lists, claimed) {
		m.book.cover(l, now)
	}
	for i := range m.book.entries {
		e := &m.book.entries[i]
		e.back = !slices.ContainsFunc(lists, func(l []string) bool { return slices.Contains(l, e.addr) })
	}
	var gone []transport.ID
	m.book.entries = slices.DeleteFunc(m.book.entries, func(e entry) bool {
		if e.dials || !e.back || slices.Contains(claimed, e.addr) {
			return false
		}
		gone = append(gone, e.node)
		return true
	})
	for _, id := range gone {
		m.book.forget(id)
	}
}

// answers notes which node answers at an entry.
func (b *book) answers(e *entry, id transport.ID) {
	before := e.node
	e.node = id
	b.forget(before)
}

// forget forgets a node that is neither at an entry nor connected.
func (b *book) forget(id transport.ID) {
	if p := b.peers[id]; p != nil && !p.up && b.entryOf(id) == nil {
		delete(b.peers, id)
	}
}

func (e entry) compare(addr string) int { return cmp.Compare(e.addr, addr) }

func (b *book) entry(addr string) *entry {
	if i, ok := slices.BinarySearchFunc(b.entries, addr, entry.compare); ok {
		return &b.entries[i]
	}
	return nil
}

// entryOf returns the entry at which a node answers, or nil.
func (b *book) entryOf(id transport.ID) *entry {
	if i := slices.IndexFunc(b.entries, func(e entry) bool { return e.node == id }); i >= 0 {
		return &b.entries[i]
	}
	return nil
}

func (b *book) peer(id transport.ID) *peer {
	p := b.peers[id]
	if p == nil {
		p = &peer{}
		b.peers[id] = p
	}
	return p
}

func (b *book) down(now time.Duration, id transport.ID) {
	p, e := b.peers[id], b.entryOf(id)
	if p != nil {
		p.up = false
		b.forget(id)
	}
	if e != nil && (p == nil || !p.parted) {
		e.next = now
	}
}

// hurry dials an entry as soon as possible; if a dial is under way, once more after it: what that one tells may be older than the reason to
// hurry.
func (b *book) hurry(now time.Duration, addr string) {
	if e := b.entry(addr); e != nil {
		e.next, e.doubt = now, true
	}
}

// hurryAll dials all entries as soon as possible.
func (b *book) hurryAll(now time.Duration) {
	for i := range b.entries {
		b.entries[i].next = min(b.entries[i].next, now)
	}
}

func (b *book) deadline() time.Duration {
	next := env.Never
	for _, e := range b.entries {
		if !e.dials {
			next = min(next, e.next)
		}
	}
	return next
}

// table returns the decision of a stamp, if this node has it.
func (m *Machine) table(s core.Stamp) *core.Table {
	for _, t := range [...]*core.Table{m.acceptor.Table(), m.book.shown} {
		if t != nil && t.Stamp == s {
			return t
		}
	}
	for _, e := range m.book.entries {
		if p := m.book.peers[e.node]; p != nil && p.knows != nil && p.knows.Stamp == s {
			return p.knows
		}
	}
	return nil
}

// contact dials the entries that it is time to dial. A client asks the nodes at them, too: it is told unasked what is
// new, but that may be lost.
func (m *Machine) contact(now time.Duration) {
	m.cover(now)
	if now >= m.asksAt() {
		for _, e := range m.book.entries {
			if p := m.book.peers[e.node]; p != nil && p.up && now >= p.sent+m.askEvery(p) {
				m.tellAnd(now, e.node, true)
			}
		}
	}
	due := m.dialsUntil(now)
	for i := range m.book.entries {
		e := &m.book.entries[i]
		if e.rests && !m.up(e.node) && !m.rests(e) {
			e.rests, e.next = false, min(e.next, now+m.upTo(m.pace.contact))
		}
		switch {
		case e.dials || due < e.next:
		case m.vouched(e, now):
			e.next = now + m.again()
			m.tell(now, e.node)
		default:
			e.dials, e.begun, e.doubt = true, now, false
			m.emit(Dial{Addr: e.addr})
		}
	}
}

// asksAt returns when this node, if it is a client, asks another one next.
func (m *Machine) asksAt() time.Duration {
	next := env.Never
	if m.own != "" {
		return next
	}
	for _, e := range m.book.entries {
		if p := m.book.peers[e.node]; p != nil && p.up {
			next = min(next, p.sent+m.askEvery(p))
		}
	}
	return next
}

// askEvery returns how long a client waits before it asks a node again.
func (m *Machine) askEvery(p *peer) time.Duration {
	if !m.settled() || p.told.Member.ID == 0 || p.knows == nil && p.told.Known != (core.Stamp{}) {
		return m.pace.contact
	}
	return m.pace.ask
}

// settled reports whether this node is a client that knows which mesh serves.
func (m *Machine) settled() bool { return m.own == "" && m.serving != nil && m.waiting.why == nil }

// rests reports whether an entry need not be dialled soon, by a client. Who is connected need not be found, and what is
// no entry of the core is not missed. Nobody else is found at an entry while its node is connected.
func (m *Machine) rests(e *entry) bool {
	if !m.settled() {
		return false
	}
	p := m.book.peers[e.node]
	return p != nil && p.up && m.ofCore(e.node, p) || e.err == nil && !slices.Contains(m.serving.List(), e.addr)
}

// ofCore reports whether a node is of the core that a client follows: it has a seat, or had one and votes still, or answers
// at an entry.
func (m *Machine) ofCore(id transport.ID, p *peer) bool {
	return slices.Contains(m.serving.Bound(), id) || id == m.serving.Dropped || slices.Contains(m.serving.List(), p.told.Entry)
}

func (m *Machine) dialed(now time.Duration, addr string, peer transport.Hello, err error) {
	e := m.book.entry(addr)
	if e == nil || !e.dials {
		return
	}
	e.dials, e.tried, e.next, e.err = false, true, now+m.again(), nil
	if e.doubt {
		e.next = now
	}
	switch {
	case peer.ID == m.cfg.Self.ID:
		m.reached(e)
	case err != nil:
		e.err = err
		m.refusedBy(*e, err)
	case addr == m.own:
		m.fail(fmt.Errorf("%w: node %q (%v) answers at %s, the entry of node %q: list each by a name of its own", fault.ErrEntryTaken, peer.Name, peer.ID, addr, m.cfg.Self.Name))
	default:
		m.answered(now, e, peer)
		m.tell(now, peer.ID)
	}
	if e.rests = m.rests(e); e.rests {
		e.next = now + m.upTo(m.pace.rest)
	}
}

// reached: a dial of e has reached this node itself. If the node knows of another entry that it is to be at, e leads
// astray, perhaps for a while only: it does not count.
func (m *Machine) reached(e *entry) {
	expected, _ := m.expected()
	switch {
	case e.back:
	case m.cfg.Client, expected != "" && expected != e.addr:
		m.book.answers(e, m.cfg.Self.ID)
	case m.own != "" && m.own != e.addr:
		m.fail(fmt.Errorf("%w: node %q answers at both %s and %s: list every node once, or tell each its entry by WithEntry", fault.ErrInvalidOption, m.cfg.Self.Name, e.addr, m.own))
	case len(m.cfg.List) == 1 && !m.cfg.Found && !founding.AllLoopback(m.cfg.List):
		m.fail(fmt.Errorf("%w: %s is the only entry: all locks would live on one node, and its restart would forget them; WithFound allows it", fault.ErrInvalidOption, e.addr))
	case e.begun >= m.surely:
		if m.own == "" {
			m.book.hurryAll(e.begun) // it has dialled as a client
		}
		m.own, m.sure = e.addr, true
		m.book.answers(e, m.cfg.Self.ID)
		e.former = 0
		for _, c := range m.changes {
			m.askToFence(c, 0)
		}
	}
}

// refusedBy ends a node that has no mesh yet and was started for another one than the node at an entry.
func (m *Machine) refusedBy(e entry, err error) {
	var r *transport.RefusedError
	if errors.As(err, &r) && m.state.Table == nil && !e.back {
		if foreign := m.cfg.Wants.Fits(m.cfg.Self.Name, founding.Params{MeshName: r.Peer.MeshName}); errors.Is(foreign, fault.ErrForeignMesh) {
			m.fail(foreign)
		}
	}
}

// answered: a node answers at e. If another one answered there last, and this one had answered there before that, the name leads to both.
func (m *Machine) answered(now time.Duration, e *entry, peer transport.Hello) {
	if e.node == peer.ID {
		return
	}
	if slices.Contains(e.earlier, peer.ID) || e.returns(peer.Addr, now-10*m.pace.contact) {
		e.turns = now + 10*m.pace.contact
	}
	e.from = append(e.from, sighting{peer.Addr, now})
	e.from = e.from[max(0, len(e.from)-manyEarlier):]
	if e.node != 0 {
		e.earlier = append(e.earlier, e.node)
		e.earlier = e.earlier[max(0, len(e.earlier)-manyEarlier):]
	}
	if e.former == peer.ID || !m.former(*e) {
		e.former = 0
		if m.up(e.node) {
			e.former = e.node
		}
	}
	if e.node != 0 && !e.back {
		m.log(slog.LevelInfo, "another node answers at an entry",
			slog.String("entry", e.addr), slog.String("peer", peer.Name), slog.String("id", peer.ID.String()))
	}
	m.book.peer(peer.ID)
	m.book.answers(e, peer.ID)
	e.name = peer.Name
}

// tell tells another node what this one knows and promised, and asks it for the same if it does not tell
// anyway, or has not for a while.
func (m *Machine) tell(now time.Duration, id transport.ID) {
	p := m.book.peers[id]
	m.tellAnd(now, id, m.own == "" || p == nil || !slices.Contains(p.told.List, m.own) || now >= p.at+m.every()*3/2)
}

func (m *Machine) tellAnd(now time.Duration, id transport.ID, ask bool) {
	t := m.told()
	t.Answer, t.Floor, t.Earlier, t.Accepts = ask, m.Floor(), m.earlier(), accepts(m.acceptor.Report())
	if p := m.book.peers[id]; p != nil {
		p.echoed, p.sent, p.owed = p.told.mark(), now, false
		t.Heard = p.echoed
	}
	m.send(id, t)
}

func (m *told) mark() core.Mark {
	r := core.Report{Roll: m.Roll, Withdrawn: m.Withdrawn}
	mark := r.Mark()
	mark.Known = m.Known
	return mark
}

func (m *Machine) told() told {
	r := m.acceptor.Report()
	t := told{card: m.card(), Entry: m.own, Roll: r.Roll, Refused: r.Refused, Released: r.Released, RollAt: r.RollAt, Withdrawn: r.Withdrawn, Replaces: m.cfg.Replaces, Apart: m.apart(), Unsaved: m.unsaved(), Keeps: m.cfg.Saved != nil, Withdrew: m.withdrew}
	if !m.sure {
		t.Entry = "" // another one may answer there by now, or have had its seat
	}
	if r.Table != nil {
		t.Known = r.Table.Stamp
	}
	return t
}

// accepts returns who is bound in what a node has accepted, and not in the table that it knows, sorted.
func accepts(r core.Report) (ids []transport.ID) {
	for _, t := range [...]*core.Table{r.Accepted, r.Proposed} {
		if t != nil {
			ids = append(ids, t.Bound()...)
		}
	}
	if r.Table != nil {
		bound := r.Table.Bound()
		ids = slices.DeleteFunc(ids, func(id transport.ID) bool { return slices.Contains(bound, id) })
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// spread tells all entries what this node knows and promised, and who is connected, if that has changed. It tells the
// clients that have told it something what it knows and promised: each of them at most once in the time of a contact.
func (m *Machine) spread(now time.Duration) {
	t, o := m.told(), m.brief
	news := t.Entry != o.Entry || t.Roll != o.Roll || t.Refused != o.Refused || t.Released != o.Released || t.RollAt != o.RollAt || t.Withdrawn != o.Withdrawn || t.Known != o.Known || t.Withdrew != o.Withdrew || !slices.Equal(t.List, o.List)
	if m.brief = t; news || !slices.Equal(t.Apart, o.Apart) || t.Unsaved != o.Unsaved {
		for _, e := range m.book.entries {
			if m.up(e.node) {
				m.tell(now, e.node)
			}
		}
	}
	if news {
		for id, p := range m.book.peers { // order-free: marks are set
			p.owed = m.own != "" && p.up && p.told.Member.ID != 0 && p.told.Entry == "" && m.book.entryOf(id) == nil
		}
		m.passAt = now
	}
	if now >= m.passAt {
		m.pass(now)
	}
}

// pass tells the clients that are owed it, if it is time.
func (m *Machine) pass(now time.Duration) {
	m.passAt = env.Never
	for _, id := range slices.Sorted(maps.Keys(m.book.peers)) {
		switch p := m.book.peers[id]; {
		case !p.owed:
		case now < p.sent+m.pace.contact:
			m.passAt = min(m.passAt, p.sent+m.pace.contact)
		default:
			m.tellAnd(now, id, false)
		}
	}
}

// heard takes in what another node tells.
func (m *Machine) heard(now time.Duration, from transport.ID, t told) {
	if t.Member.ID != from {
		return
	}
	p := m.book.peers[from]
	if p == nil {
		return // its connection has ended
	}
	if e := m.book.entry(t.Entry); e != nil && e.node != from && t.Entry != p.told.Entry && m.own != "" {
		m.book.hurry(now, t.Entry) // it counts once a dial of its entry has reached it
	}
	p.told, p.at = t, now
	m.floor = max(m.floor, t.Floor)
	m.calmed(t)
	m.acceptor.Withdraw(from, t.Withdrew.After, t.Withdrew.UpTo)
	known := m.table(t.Known) // perhaps no one else's
	if known == nil && t.Known != (core.Stamp{}) {
		m.send(from, show{t.Known})
		if m.own == "" && p.knows != nil && p.knows.Stamp.Roll == t.Known.Roll {
			known = p.knows // meanwhile no mesh looks as if nobody stood by it
		}
	}
	p.knows = known
	m.claim(from)
	if t.Answer || t.mark() != p.echoed {
		m.tellAnd(now, from, false) // what it was told before does not count any more: see core.Next
	}
	m.part(from, p)
}

// part ends a client's connection with a node at one of its contact points that is not of its core, once it has heard
// what that node knows: it may be of another mesh of the same name (C10).
func (m *Machine) part(id transport.ID, p *peer) {
	shown := p.knows != nil || p.told.Known == core.Stamp{}
	if m.settled() && shown && m.book.entryOf(id) != nil && !m.ofCore(id, p) && !p.parted {
		p.parted = true
		m.emit(Part{id})
	}
}

// saw takes in a decision that another node knows.
func (m *Machine) saw(from transport.ID, t *core.Table) {
	m.book.shown = t
	know := func(id transport.ID) {
		if p := m.book.peers[id]; p != nil && (p.knows == nil || p.knows.Stamp != t.Stamp) && p.told.Known == t.Stamp {
			p.knows = t
			m.claim(id)
			m.part(id, p)
		}
	}
	know(from)
	for _, e := range m.book.entries {
		know(e.node)
	}
}

// reports returns what the entries have told lately. An entry does not count where two nodes answer, or one
// that has another entry, or none yet: a name may lead astray. To a client all count.
func (m *Machine) reports(now time.Duration) map[string]core.Report {
	all := make(map[string]core.Report)
	for _, e := range m.book.entries {
		p := m.book.peers[e.node]
		switch {
		case e.node == m.cfg.Self.ID && e.addr == m.own:
			all[e.addr] = m.acceptor.Report()
		case p != nil && m.counts(e, p, now):
			t := p.told
			all[e.addr] = core.Report{
				Node: e.node, List: t.List, Table: p.knows, Asked: t.Heard,
				Roll: t.Roll, Refused: t.Refused, Released: t.Released, RollAt: t.RollAt, Withdrawn: t.Withdrawn, Accepts: t.Accepts,
			}
		}
	}
	return all
}

// contested returns that several nodes answer at an entry; or that a node answers at it whose seat belongs to another node, which lives; or nil.
func (m *Machine) contested(now time.Duration) (err error) {
	for _, e := range m.book.entries {
		err = cmp.Or(err, m.several(e, now), m.held(e, now))
	}
	return err
}

// several returns that several nodes answer at e, or nil: one that answered before is connected still, or has answered
// again after another one, also if it was not connected meanwhile.
func (m *Machine) several(e entry, now time.Duration) error {
	other := e.former
	if !m.former(e) {
		if now >= e.turns {
			return nil
		}
		other = e.earlier[len(e.earlier)-1]
	}
	return fmt.Errorf("%w: nodes %v and %v answer at %s: list each by a name of its own", fault.ErrEntryTaken, other, e.node, e.addr)
}

// counts reports whether what the node p at e has told counts.
func (m *Machine) counts(e entry, p *peer, now time.Duration) bool {
	switch {
	case !m.heardLately(p, now):
		return false
	case p.told.Known != core.Stamp{} && p.knows == nil:
		return false // it has been asked to show that
	}
	return m.own == "" || e.back || p.told.Entry == e.addr && m.several(e, now) == nil && m.held(e, now) == nil
}

// former reports whether the node that answered at e before, as at its own entry, is connected still. If the one that
// answers now proves that the other has ended, former reports false: the end of that connection only has not been noticed yet.
func (m *Machine) former(e entry) bool {
	p := m.book.peers[e.former]
	if n := m.book.peers[e.node]; n != nil && n.told.Entry == e.addr && n.told.Replaces == e.former {
		return false
	}
	return e.former != 0 && p != nil && p.up && p.told.Entry == e.addr
}

// dress completes the seats of a table, which was made of reports: they name a node by its ID.
func (m *Machine) dress(t *core.Table) *core.Table {
	for i := range t.Seats {
		s := &t.Seats[i]
		if p := m.book.peers[s.Node.ID]; p != nil && p.told.Member.ID == s.Node.ID {
			s.Node = p.told.Member
		} else if s.Node.ID == m.cfg.Self.ID {
			s.Node = m.cfg.Self
		}
	}
	return t
}

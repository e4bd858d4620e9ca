package members

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// A client knows the core alone, and a node of the core the clients that are connected with it. Who wants to know all asks
// all nodes of the core (C1). A client that has joined reaches most of them; so the answers of a majority name it.

// Limits of a listing.
const (
	pageSize     = 200                    // members in one answer
	maxListed    = 1 << 16                // members of a listing; more are not asked for
	maxPage      = 1 << 18                // bytes of an answer: 200 times three names of 255 bytes, and more
	listPause    = 500 * time.Millisecond // after which a question is asked again
	listPatience = 2 * time.Second        // for how long a listing waits for more than a majority
)

type (
	// query asks a node of the core for the members that it knows whose IDs are above After.
	query struct {
		Number uint64
		After  transport.ID
	}
	// page answers a query: the first of those members, in the order of their IDs. More: there are others above the last.
	page struct {
		Number  uint64
		After   transport.ID
		Members []listed
		More    bool
	}
	// listed is a member. Alive: it is connected with the sender of the page, or is it.
	listed struct {
		env.Member
		Alive bool
	}
)

// SendQuery and SendPage are messages to the Machine of another node, for Query and Page. They may be lost.
type (
	SendQuery struct {
		To   transport.ID
		Body []byte
	}
	SendPage struct {
		To   transport.ID
		Body []byte
	}
	// Listed tells what came of List: each name once, sorted.
	Listed struct {
		Number  uint64
		Members []Member
	}
)

func (SendQuery) isOutput() {}
func (SendPage) isOutput()  {}
func (Listed) isOutput()    {}

// listing is a question of this node to all nodes of the core.
type listing struct {
	number uint64
	begun  time.Duration
	asked  map[transport.ID]*asking
	found  map[transport.ID]*found
}

// asking is how far one node of the core has answered.
type asking struct {
	after transport.ID
	next  time.Duration // when the question is asked again
	done  bool
}

// found is a member that was named, by how many as alive.
type found struct {
	env.Member
	alive int
}

// List asks for all members of the mesh, and returns a number: a Listed follows once a majority of the nodes with a seat
// have answered; and all of them that are connected have answered as well, or have had 2 s for it.
func (m *Machine) List(now time.Duration, out []Output) (uint64, []Output) {
	m.lastListing++
	number := m.lastListing
	return number, m.input(now, out, func() {
		m.listings = append(m.listings, &listing{
			number: number, begun: now, asked: make(map[transport.ID]*asking), found: make(map[transport.ID]*found),
		})
		m.pursueListings()
	})
}

// Unlist forgets a listing whose caller waits no longer.
func (m *Machine) Unlist(number uint64) {
	m.listings = slices.DeleteFunc(m.listings, func(l *listing) bool { return l.number == number })
}

// pursueListings asks what is to be asked, and tells of the listings that are complete.
func (m *Machine) pursueListings() {
	for _, l := range slices.Clone(m.listings) {
		if m.pursueListing(l) {
			m.Unlist(l.number)
			m.emit(Listed{l.number, l.members()})
		}
	}
}

// pursueListing asks the nodes of the core that have not answered, and reports whether l is complete.
func (m *Machine) pursueListing(l *listing) (complete bool) {
	seats, answered, waits := 0, 0, false
	for _, o := range m.sorted() {
		if !o.seated {
			continue
		}
		seats++
		a := l.asked[o.ID]
		if a == nil {
			a = &asking{}
			l.asked[o.ID] = a
		}
		switch {
		case a.done:
		case o.ID == m.cfg.Self.ID:
			for !a.done {
				l.take(a, m.page(query{l.number, a.after}))
			}
		case o.connected:
			if waits = true; m.now >= a.next {
				a.next = m.now + listPause
				m.emit(SendQuery{To: o.ID, Body: wire.Marshal(query{l.number, a.after})})
			}
		}
		if a.done {
			answered++
		}
	}
	return seats > 0 && answered > seats/2 && (!waits || m.now >= l.begun+listPatience)
}

// listAt returns when a listing has something to do next.
func (m *Machine) listAt() time.Duration {
	next := env.Never
	for _, l := range m.listings {
		if end := l.begun + listPatience; m.now < end {
			next = min(next, end)
		}
		for id, a := range l.asked { // order-free: a minimum
			if o := m.members[id]; o != nil && o.seated && o.connected && !a.done && id != m.cfg.Self.ID {
				next = min(next, max(a.next, m.now))
			}
		}
	}
	return next
}

// take takes in one answer. Its sender is asked for more, unless that was all, or is enough.
func (l *listing) take(a *asking, p page) {
	for _, o := range p.Members {
		f := l.found[o.ID]
		if f == nil && len(l.found) >= maxListed {
			a.done = true
			return
		}
		if f == nil {
			f = &found{Member: o.Member}
			l.found[o.ID] = f
		}
		if o.Alive {
			f.alive++
		}
		a.after = o.ID
	}
	a.next, a.done = 0, !p.More
}

// members returns what was found: of those of one name, the one that most have named as alive.
func (l *listing) members() []Member {
	bearers := make(map[string]*found)
	for _, id := range slices.Sorted(maps.Keys(l.found)) {
		o := l.found[id]
		if p := bearers[o.Name]; p == nil || o.alive > p.alive {
			bearers[o.Name] = o
		}
	}
	all := make([]Member, 0, len(bearers))
	for _, name := range slices.Sorted(maps.Keys(bearers)) {
		o := bearers[name]
		state := env.Dead
		if o.alive > 0 {
			state = env.Alive
		}
		all = append(all, Member{Member: o.Member, State: state})
	}
	return all
}

// page returns the members that this node knows: those that have a seat, and its clients.
func (m *Machine) page(q query) page {
	p := page{Number: q.Number, After: q.After}
	for _, o := range m.sorted() {
		here := o.connected || o.ID == m.cfg.Self.ID
		switch {
		case o.ID <= q.After || o.proven || o.state == env.Left || !here && !o.seated:
		case len(p.Members) == pageSize:
			p.More = true
			return p
		default:
			p.Members = append(p.Members, listed{o.Member, here})
		}
	}
	return p
}

// Query takes in the body of another node's SendQuery. It fails if that is malformed.
func (m *Machine) Query(now time.Duration, from transport.ID, body []byte, out []Output) ([]Output, error) {
	var q query
	if err := wire.Unmarshal(body, &q, maxPage, 16); err != nil {
		return out, err
	}
	if q.Number == 0 {
		return out, fmt.Errorf("%w: a query without a number", wire.ErrMalformed)
	}
	return m.input(now, out, func() {
		if m.core { // else it knows no clients: another one answers
			m.emit(SendPage{To: from, Body: wire.Marshal(m.page(q))})
		}
	}), nil
}

// Page takes in the body of another node's SendPage. It fails if that is malformed.
func (m *Machine) Page(now time.Duration, from transport.ID, body []byte, out []Output) ([]Output, error) {
	var p page
	if err := wire.Unmarshal(body, &p, maxPage, pageSize); err != nil {
		return out, err
	}
	if err := p.check(); err != nil {
		return out, err
	}
	return m.input(now, out, func() {
		for _, l := range m.listings {
			if a := l.asked[from]; l.number == p.Number && a != nil && !a.done && a.after == p.After {
				l.take(a, p)
			}
		}
		m.pursueListings()
	}), nil
}

// check returns what of a page is beyond its limits.
func (p *page) check() error {
	after := p.After
	for _, o := range p.Members {
		if o.ID <= after || len(o.Name) > shard.MaxName || len(o.Addr) > shard.MaxName || len(o.Zone) > shard.MaxName {
			return fmt.Errorf("%w: a page with an invalid member", wire.ErrMalformed)
		}
		after = o.ID
	}
	if p.Number == 0 || len(p.Members) > pageSize || p.More && len(p.Members) == 0 {
		return fmt.Errorf("%w: a page that is none", wire.ErrMalformed)
	}
	return nil
}

package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Action is what a node does next for the core: one of [Learn], [Ask], [Begin] and [Propose]; nil if it
// waits.
type Action interface{ isAction() }

// Learn takes over a decision that another node showed.
type Learn struct{ Table *Table }

// Ask asks those that are bound in Table to confirm it, so that this node is released from the roll
// call that it promised last, and goes over to Table's generation.
type Ask struct{ Table *Table }

// Begin begins a roll call. One that is Short is to begin only after those that are left out have been silent for long: a
// call makes older reports void, and nodes that do not wait for new ones would call again and again.
type Begin struct{ Call Call }

// Propose proposes a table as the version after the one that this node knows.
type Propose struct{ Table *Table }

func (Learn) isAction()   {}
func (Ask) isAction()     {}
func (Begin) isAction()   {}
func (Propose) isAction() {}

// Next returns what node self does next, by what entries have told last: those of its own list, and
// those of the mesh's. Its own report must be of this moment. Others that it asked for before it last
// learned or promised something do not count. The error says what it waits for, if it does. Several
// nodes may be told to begin or to propose the same: that is safe, and pauses of different lengths
// between their attempts let one of them finish.
func Next(self transport.ID, told map[string]Report) (Action, error) {
	own, told := recent(self, told)
	var all []Report
	for _, entry := range slices.Sorted(maps.Keys(told)) {
		all = append(all, told[entry])
	}
	latest := newest(all)
	if latest == nil {
		return begin(self, own.List, told)
	}
	if own.mayLearn(latest) {
		return Learn{latest}, nil
	}
	serves := func(id transport.ID) bool { // or will as soon as it has learned latest
		i := slices.IndexFunc(all, func(r Report) bool { return r.Node == id })
		if i < 0 || all[i].Roll.Compare(latest.Stamp.Roll) > 0 {
			return false
		}
		knows := all[i].Table != nil && all[i].Table.Stamp.Roll == latest.Stamp.Roll
		return knows || all[i].mayLearn(latest)
	}
	switch bound := latest.Bound(); {
	case !quorum(bound, serves):
		if a, err := begin(self, own.List, told); err == nil {
			return a, nil
		}
		a, err := begin(self, latest.List(), told)
		if short := beginWithout(self, latest.List(), told); err != nil && short != nil {
			return short, nil
		}
		return a, err
	case own.Table == nil && own.Roll == Ballot{}:
		return nil, errors.New("this node has no seat yet")
	case own.Table == nil || own.Table.Stamp.Roll != latest.Stamp.Roll || !serves(self):
		return Ask{latest}, nil
	case !slices.Contains(bound, self):
		return nil, errors.New("this node has no seat yet")
	case own.Table.Stamp != latest.Stamp:
		return nil, errors.New("this node knows a later version of the core's table than those that answer")
	}
	var foreign error
	for _, entry := range latest.List() {
		if r, ok := told[entry]; ok {
			if r.Table != nil && r.Table.Mesh != latest.Mesh { // it decides elsewhere until it has given way
				foreign = fmt.Errorf("%s %w", entry, errForeign)
				continue
			}
			if t, err := latest.Bind(entry, env.Member{ID: r.Node}, r.List); err == nil {
				return Propose{t}, nil
			}
			if t, err := latest.Start(entry, r.List); err == nil {
				return Propose{t}, nil
			}
		}
	}
	t, err := latest.Relist(own.List)
	switch {
	case err == nil:
		return Propose{t}, nil
	case errors.Is(err, errSameList):
		return nil, foreign
	}
	return nil, fmt.Errorf("to change the list: %w", err)
}

// recent returns the report of node self, and all those that count beside it. An older one may be of an
// incarnation that has ended: then its entry's seat may have a later one by now, which would lose it.
// And by reports from before a roll call nodes would call again, and again.
func recent(self transport.ID, told map[string]Report) (own Report, count map[string]Report) {
	entries := slices.Sorted(maps.Keys(told))
	if i := slices.IndexFunc(entries, func(e string) bool { return told[e].Node == self }); i >= 0 {
		own = told[entries[i]]
	}
	count = make(map[string]Report)
	for _, e := range entries {
		if r := told[e]; r.Node == self || r.Asked == own.Mark() {
			count[e] = r
		}
	}
	return own, count
}

// begin returns the roll call of a list that self may begin, or what it waits for. It needs an answer
// of every entry: one that is silent may know of a mesh that lives on. The first to answer the call is
// self, so that no other has its ballot.
func begin(self transport.ID, list []string, told map[string]Report) (Action, error) {
	for _, entry := range list {
		if _, ok := told[entry]; !ok {
			return nil, fmt.Errorf("no answer at %s", entry)
		}
	}
	c, err := callOf(self, list, told)
	if err != nil {
		return nil, err
	}
	return Begin{c}, nil
}

// beginWithout returns the roll call of a list that self may begin though some of its entries are silent, or nil: those
// that told must show all that can have been decided, so that it does not matter what the others know.
func beginWithout(self transport.ID, list []string, told map[string]Report) Action {
	c, err := callOf(self, list, told)
	if err != nil {
		return nil
	}
	answers := make([]Report, len(list))
	for i, entry := range list {
		answers[i] = told[entry]
	}
	if best, from := c.recovered(answers); best == nil || !c.whole(best, from, answers) {
		return nil
	}
	return Begin{c}
}

// callOf returns a roll call of those that told at the entries of a list.
func callOf(self transport.ID, list []string, told map[string]Report) (Call, error) {
	c := Call{Ballot: Ballot{Round: 1, By: self}, List: list, Roster: make([]transport.ID, len(list))}
	for i, entry := range list {
		r, ok := told[entry]
		switch {
		case !ok:
			continue
		case !near(r.List, list) || r.Table != nil && !near(r.Table.List(), list):
			return Call{}, fmt.Errorf("%s %w", entry, errLists)
		}
		c.Roster[i] = r.Node
		c.Ballot.Round = max(c.Ballot.Round, r.Roll.Round+1, r.Refused.Round+1, r.Withdrawn.Round+1)
		if r.Table != nil {
			c.Ballot.Round = max(c.Ballot.Round, r.Table.Stamp.Roll.Round+1)
		}
	}
	if !slices.Contains(c.Roster, self) {
		return Call{}, errors.New("this node is at none of the list's entries")
	}
	c.Elders = elders(told)
	return c, nil
}

// elders returns the incarnations that are bound in a table of which somebody told, sorted. What was accepted and not decided is
// among these: else an incarnation that has ended would be taken for a later one, in each call.
func elders(told map[string]Report) []transport.ID {
	ids := []transport.ID{}
	for _, r := range told { // order-free: a set
		ids = append(ids, r.Accepts...)
		for _, t := range r.tables() {
			ids = append(ids, t.Bound()...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// newest returns the latest decision that somebody showed, or nil. Within one generation that is the
// one of the highest version. Of two generations, that one counts of which most of the bound still act;
// it may have been founded without an entry that remembers the other, and by a lower ballot. Of two meshes of
// which most do, the earlier one counts (C10). Else the later ballot counts.
func newest(told []Report) *Table {
	var known []*Table
	for _, r := range told {
		if r.Table != nil {
			known = append(known, r.Table)
		}
	}
	lives := func(t *Table) bool { return t.Lives(told) }
	return latestOf(known, lives, func(t, o *Table) bool {
		if t.Mesh != o.Mesh && lives(t) && lives(o) {
			return t.Before(o)
		}
		return higher(t, o)
	})
}

// higher reports whether t's generation began by a higher ballot than o's.
func higher(t, o *Table) bool { return t.Stamp.Roll.Compare(o.Stamp.Roll) > 0 }

// latestOf returns the latest of tables: of the generations that live, or of all if none does, the one that
// goes before the others, and in it the highest version, by which it is judged.
func latestOf(tables []*Table, lives func(*Table) bool, before func(t, o *Table) bool) (latest *Table) {
	heads := make(map[Ballot]*Table)
	var rolls []Ballot
	for _, t := range tables {
		roll := t.Stamp.Roll
		if head := heads[roll]; head == nil {
			rolls = append(rolls, roll)
			heads[roll] = t
		} else if t.Stamp.Version > head.Stamp.Version {
			heads[roll] = t
		}
	}
	alive := false
	for _, roll := range rolls {
		t := heads[roll]
		if l := lives(t); latest == nil || l && !alive || l == alive && before(t, latest) {
			latest, alive = t, l
		}
	}
	return latest
}

// Lives reports whether most of those that are bound in t told, and know t's generation or accepted its
// roll call. That is what a node acts by now. A roll call must look further, at who may live: it is not
// answered by entries outside its list, and what they know must not be lost.
func (t *Table) Lives(told []Report) bool {
	return quorum(t.Bound(), func(id transport.ID) bool {
		i := slices.IndexFunc(told, func(r Report) bool { return r.Node == id })
		return i >= 0 && (told[i].RollAt == t.Stamp.Roll || told[i].Table != nil && told[i].Table.Stamp.Roll == t.Stamp.Roll)
	})
}

// Recovered returns the table from which the mesh goes on, by the answers of a whole roster to a call.
// It is the one, of all that were decided or may have been, whose generation may live on; of several
// that of the highest ballot, and of this generation the latest version, or what was accepted after it.
// Nil: nobody remembers, but nodes that the mesh may have dropped.
//
// Ballots alone do not order two generations of which one was founded without an entry that remembers
// the other. The older of them has lost its majority by then: otherwise somebody in the roster of the
// younger would have remembered it. And a generation is over if a node knew it and then accepted the
// roll call of another.
func (c Call) Recovered(answers []Report) *Table {
	_, value := c.recovered(answers)
	return value
}

// recovered returns what Recovered does, and the decision, or roll call's value, by which that was accepted.
func (c Call) recovered(answers []Report) (best, value *Table) {
	// A ballot is void if one of its roster was released from it. Those that a short call did not ask are not in its roster: they
	// may have been released from a later one before, and never refused this one.
	void := func(t *Table) bool {
		return slices.ContainsFunc(answers, func(r Report) bool { return r.Released.Compare(t.Stamp.Roll) >= 0 && r.wasAsked(t) })
	}
	// A value is decided if its whole roster accepts it. A member that answers this call, and has not, never will. So a mesh that was
	// to be founded, and was not, does not count where a node that answers remembers another one.
	unfounded := func(t *Table) bool {
		another := func(r Report) bool { return r.Table != nil && r.Table.Mesh != t.Mesh }
		lacks := func(r Report) bool {
			knows := r.Table != nil && r.Table.Stamp.Roll == t.Stamp.Roll
			return r.RollAt.Compare(t.Stamp.Roll) < 0 && !knows && r.wasAsked(t)
		}
		return slices.ContainsFunc(answers, another) && slices.ContainsFunc(answers, lacks)
	}
	var shown, values []*Table    // values: of roll calls, if somebody has accepted them
	over := make(map[Ballot]bool) // generations after which a node accepted the roll call of another, or that only the dropped remember
	for _, r := range answers {
		accepted := r.Proposed != nil && !void(r.Proposed)
		if accepted {
			values = append(values, r.Proposed) // also one that will never be decided: those that were asked have promised it
			accepted = !unfounded(r.Proposed)
		}
		switch {
		case accepted && r.Table == nil:
			shown = append(shown, r.Proposed)
		case accepted && r.Table.Stamp.Roll.Compare(r.RollAt) < 0:
			shown = append(shown, r.Proposed) // made out of what this node knew, or of something later
			over[r.Table.Stamp.Roll] = true
		case r.Table != nil:
			shown = append(shown, r.Table)
		}
	}
	for _, t := range shown {
		over[t.Stamp.Roll] = over[t.Stamp.Roll] || c.outlived(shown, values, t.Stamp.Roll, answers)
	}
	shown = slices.DeleteFunc(shown, func(t *Table) bool { return over[t.Stamp.Roll] })
	if best = latestOf(shown, func(t *Table) bool { return c.mayLive(t, answers, values) }, higher); best == nil {
		return nil, nil
	}
	return best, accepted(shown, best.Stamp.Roll, answers)
}

// wasAsked reports whether the roll call that began t's generation asked the node of a report.
func (r *Report) wasAsked(t *Table) bool {
	return r.Node != 0 && slices.ContainsFunc(t.Seats, func(s Seat) bool { return s.Node.ID == r.Node && !s.Unasked })
}

// outlived reports whether the mesh may have gone on without all that remember the generation of some of these tables, and all of it have
// forgotten since. Then those that answer and do not remember it have none of their entries on their lists; or a decision that dropped them
// all may have been made; or too few live of those that are bound, and one of these had a list without those that remember, and may have
// called by that. A raise of MaxTTL that was in force by then is one of which the tables do not know: see Table.Raise. An incarnation that is
// bound, and has not learned of it, counts as one that remembers: no raise comes into force before it has. One that has no seat in what it
// knows counts as one that does not: no raise waits for it.
func (c Call) outlived(tables, values []*Table, roll Ballot, answers []Report) bool {
	last := accepted(tables, roll, answers)
	remembers := func(i int, r Report) bool {
		has := func(s Seat) bool { return s.Node.ID == r.Node || s.Entry == c.List[i] && s.Vacant() }
		binds := func(t *Table) bool { return t.Stamp.Roll == roll && slices.ContainsFunc(t.Seats, has) }
		return r.RollAt == roll || slices.ContainsFunc(tables, binds) || r.Table != nil && binds(r.Table)
	}
	var remember, others []int // which of the answers
	for i, r := range answers {
		switch {
		case r.Node == 0:
		case remembers(i, r):
			remember = append(remember, i)
		default:
			others = append(others, i)
		}
	}
	mayCall := func(s Seat) bool { // by its own list, and so without those that remember
		isOne := func(i int) bool {
			return answers[i].Node == s.Node.ID || slices.Contains(strings.Fields(s.List), c.List[i])
		}
		return s.Node.ID != 0 && s.List != "" && !slices.ContainsFunc(remember, isOne)
	}
	left := !c.mayLive(last, answers, values) && slices.ContainsFunc(last.Seats, mayCall)
	stays := func(i int) bool {
		listed := func(o int) bool { return slices.Contains(answers[o].List, c.List[i]) }
		return slices.ContainsFunc(others, listed) && slices.Contains(last.List(), c.List[i])
	}
	return len(others) > 0 && (left || !slices.ContainsFunc(remember, stays))
}

// accepted returns the last of these tables of a generation, or the version after it that was accepted at the highest ballot.
func accepted(tables []*Table, roll Ballot, answers []Report) (last *Table) {
	for _, t := range tables {
		if t.Stamp.Roll == roll && (last == nil || t.Stamp.Version > last.Stamp.Version) {
			last = t
		}
	}
	known, at := last, Ballot{}
	for _, r := range answers {
		if r.Accepted != nil && r.Table.Stamp == known.Stamp && r.At.Compare(at) > 0 {
			at, last = r.At, r.Accepted
		}
	}
	return last
}

// whole reports whether the answers show all that can have been decided, by what recovered returned of them. Those of a
// short call do only where no list changes, and the generation is known to be decided: a call that one alone has accepted may
// go on from one in which others are bound, and they may call without each other.
func (c Call) whole(best, from *Table, answers []Report) bool {
	if !c.certain(best, answers) || !c.certain(from, answers) {
		return false
	}
	if !c.Short() {
		return true
	}
	decided := func(r Report) bool { return r.Table != nil && r.Table.Stamp.Roll == best.Stamp.Roll }
	elsewhere := func(r Report) bool {
		return r.Node != 0 && (!slices.Equal(r.List, c.List) || r.Table != nil && !slices.Equal(r.Table.List(), c.List))
	}
	return best.settled() && from.settled() && slices.ContainsFunc(answers, decided) && !slices.ContainsFunc(answers, elsewhere)
}

// outdated reports whether some answer shows a table that binds, at an entry that was asked, an incarnation that may be later
// than the one in the roster. It was not asked, and the value could never be decided; whoever accepts it would take what the
// later one knows for over.
func (c Call) outdated(answers []Report) bool {
	later := func(s Seat) bool {
		i := slices.Index(c.List, s.Entry)
		return i >= 0 && c.Roster[i] != 0 && s.Node.ID != 0 && s.Node.ID != c.Roster[i] && !slices.Contains(c.Elders, s.Node.ID)
	}
	return c.Elders != nil && slices.ContainsFunc(answers, func(r Report) bool {
		return slices.ContainsFunc(r.tables(), func(t *Table) bool { return slices.ContainsFunc(t.Seats, later) })
	})
}

// certain reports whether the answers show all that can have been decided in t's generation: those bound in t that
// forgot, have another seat holder by now, or were not asked are too few to have decided the version after it. Of those
// that remember, each one shows what it accepted, and is fenced. And one alone was not asked: of five, two are a majority
// together with an entry that the next list drops, for those who do not know this call.
func (c Call) certain(t *Table, answers []Report) bool {
	bound := t.Bound()
	n := count(bound, func(id transport.ID) bool { return c.remembers(t, id, answers) })
	need := Majority(len(bound))
	return slices.Equal(t.List(), c.List) && len(bound)-n < need && c.unasked(t) <= min(1, len(bound)-need)
}

// unasked counts those bound in t at whose entries nobody answered, and that may live. It is of the call's list.
func (c Call) unasked(t *Table) (n int) {
	for i, s := range t.Seats {
		if s.Node.ID != 0 && c.Roster[i] == 0 {
			n++
		}
	}
	return n
}

// remembers reports whether an incarnation is in the roster, and acts by t's generation, or would.
func (c Call) remembers(t *Table, id transport.ID, answers []Report) bool {
	i := slices.Index(c.Roster, id)
	if i < 0 {
		return false
	}
	r, roll := answers[i], t.Stamp.Roll
	knows := r.Table != nil && r.Table.Stamp.Roll == roll
	return knows || r.RollAt == roll && (r.Table == nil || r.Table.Stamp.Roll.Compare(roll) < 0)
}

// goesOn reports whether a shard of t may go on in its generation: a majority of its voters, and of those that it
// may be changing to, remember.
func (c Call) goesOn(t *Table, s *Shard, answers []Report) bool {
	able := func(id transport.ID) bool { return c.remembers(t, id, answers) }
	return quorum(s.Voters, able) && (s.Next == nil || quorum(s.Next, able))
}

// mayLive reports whether most of those that are bound in t may live, and act by its generation: at their entry nobody
// answered, or none but they, and they did not show another generation. If t has an entry that is not on the call's list, a node
// that promised a later roll call does not count either. All nodes that a call asks have promised it once some node has accepted its
// value; values are those. At an entry where nobody answers now, a later call counts whichever incarnation it asked: if that was the next one,
// the one bound in t had ended.
func (c Call) mayLive(t *Table, answers []Report, values []*Table) bool {
	elsewhere := outside(t.List(), c.List) > 0
	return quorum(t.Bound(), func(id transport.ID) bool {
		entry := t.Seats[slices.IndexFunc(t.Seats, func(s Seat) bool { return s.Node.ID == id })].Entry
		i := slices.Index(c.List, entry)
		silent := i < 0 || c.Roster[i] == 0
		asked := func(s Seat) bool {
			return s.Entry == entry && s.Node.ID != 0 && !s.Unasked && (silent || s.Node.ID == id)
		}
		passed := func(v *Table) bool { return higher(v, t) && slices.ContainsFunc(v.Seats, asked) }
		switch {
		case elsewhere && slices.ContainsFunc(values, passed):
			return false
		case silent:
			return true
		}
		fresh := answers[i].Table == nil && answers[i].RollAt == Ballot{} // it may not have learned yet that it is bound
		return c.Roster[i] == id && (fresh || c.remembers(t, id, answers))
	})
}

// Chosen returns the value that the proposer of a version must propose, by what a majority has answered to Read: what was accepted
// at the highest ballot; nil: it may propose its own.
func Chosen(at []Ballot, accepted []*Table) *Table {
	var highest Ballot
	var value *Table
	for i, b := range at {
		if b.Compare(highest) > 0 {
			highest, value = b, accepted[i]
		}
	}
	return value
}

// seats returns the seats of a roll call's value: of those that answered. Where nobody was asked, the seat stays as it is.
func (c Call) seats(from *Table, answers []Report) []Seat {
	s := make([]Seat, len(c.List))
	for i, e := range c.List {
		if s[i] = (Seat{Entry: e, Node: env.Member{ID: c.Roster[i]}, List: named(answers[i].List)}); c.Roster[i] == 0 {
			s[i] = from.Seats[i]
			s[i].Unasked = true
		}
	}
	return s
}

// Value makes the value of a roll call out of the answers of its whole roster; where nobody was asked, an answer is
// empty. If nobody remembers, it founds the mesh fresh. Each of its shards begins a new generation, whose voters place
// chooses; but those go on whose voters can, if it is certain that no decision is lost: then the call binds those that
// answered, and no more. If it is not certain, and some were not asked, there is no value: nil. So too if a later
// incarnation than one of the roster was bound meanwhile.
func (c Call) Value(answers []Report, fresh *Table, place func(shard int) []transport.ID) *Table {
	best, from := c.recovered(answers)
	whole := from != nil && c.whole(best, from, answers)
	if !whole && c.Short() || c.outdated(answers) {
		return nil
	}
	if from == nil {
		from = fresh
	}
	t := *from
	t.Stamp = Stamp{Roll: c.Ballot}
	t.Seats = c.seats(from, answers)
	if !whole {
		t.Dropped = 0
	}
	if !slices.Equal(from.List(), c.List) {
		t.Was = named(from.List())
	}
	if t.Ordered != named(c.List) && t.step(t.OrderedList()) != nil {
		t.Ordered = "" // it is too far from the list of now
	}
	t.Shards = slices.Clone(t.Shards)
	for i := range t.Shards {
		if s := &t.Shards[i]; !whole || !c.goesOn(from, s, answers) {
			s.Generation = Generation{c.Ballot, s.Generation.Number + 1}
			s.Voters, s.Next, s.Move, s.Calm = place(i), nil, 0, false
		}
	}
	return t.carried().forget()
}

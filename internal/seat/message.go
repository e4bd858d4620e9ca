package seat

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// Limits of what a message may carry.
const (
	maxBytes    = 1 << 20 // of a message: a frame. The largest, an answer with three tables, takes half of it
	maxEntries  = 64
	maxShards   = 4096
	maxReplicas = 64
	maxString   = 255                          // bytes of a name, an address, a zone
	maxList     = maxEntries * (maxString + 1) // of a list in one string
	maxText     = 1 << 10
	maxQuiet    = 1000 * time.Hour
	maxNumber   = 1 << 53
	maxFloor    = maxNumber - 1<<40 // leaves a shard a trillion revisions
	maxElements = max(maxShards, maxIDs)
	maxIDs      = 1 << 14 // distinct incarnations in a table; those that ended count while they are voters
)

// message is one of the types below. A msgpack library writes and reads it: see wire.Marshal.
type message interface {
	// check reports to l which fields exceed their limits.
	check(l *limits)
}

// kinds has a message of each kind. A kind is the first element of a message. Numbers are never reused.
var kinds = [...]message{
	1: told{}, 2: show{}, 3: shown{}, 4: call{}, 5: answer{}, 6: propose{}, 7: proposed{}, 8: read{}, 9: value{}, 10: write{},
	11: written{}, 12: confirm{}, 13: confirmed{}, 14: refused{}, 15: fence{}, 16: fenced{}, 17: order{}, 18: outcome{},
}

// card is how a node introduces itself.
type card struct {
	Member env.Member
	List   []string // with which it was started, or that it keeps
	Wants  founding.Options
}

type (
	// told is a Report in brief, with the stamps of tables instead of the tables: what Next looks at.
	told struct {
		card
		Entry                           string // at which a dial has reached the sender itself since its last stall; "": none yet, or a client
		Answer                          bool   // tell me, too
		Roll, Refused, Released, RollAt core.Ballot
		Withdrawn                       core.Ballot
		Known                           core.Stamp     // of Table; zero: none
		Heard                           core.Mark      // that the receiver told last
		Floor                           uint64         // the highest revision of any shard that the sender knows of
		Replaces                        transport.ID   // the incarnation before the sender, which is known to have ended; zero: none is
		Apart                           []transport.ID // those with a seat in Known that the sender is not connected with
		Unsaved                         bool           // the sender's state directory does not say yet what Known does of quiet times
		Earlier                         time.Duration  // for how long leases of meshes before that of Known may last yet, as floors.Quiet; zero: they are over
		Keeps                           bool           // the sender can keep a list for its next incarnation
		Accepts                         []transport.ID // bound in what it has accepted, and not in Known, sorted
		Withdrew                        rounds         // of the sender's own roll calls
	}
	// rounds are those after one and up to another.
	rounds struct{ After, UpTo uint64 }
	// show asks for the decision of a stamp, and shown is one.
	show  struct{ Known core.Stamp }
	shown struct{ Table packed }

	call struct{ Call core.Call }
	// answer answers a call. Report.Node is its sender.
	answer struct {
		Ballot core.Ballot
		card
		Report                    report
		Table, Accepted, Proposed *packed
		Floors                    floors
	}
	// propose proposes the value of a roll call, and proposed accepts it.
	propose  struct{ Table packed }
	proposed struct{ Ballot core.Ballot }

	read  struct{ Read core.Read }
	value struct {
		Read     core.Read
		At       core.Ballot
		Accepted *packed
	}
	write struct {
		Ballot core.Ballot
		Prev   core.Stamp
		Table  packed
	}
	written struct {
		Ballot core.Ballot
		Prev   core.Stamp
	}

	confirm struct {
		Promised core.Ballot // zero: none, but the sender has a seat in a generation that is over
		Table    packed
		Floor    uint64 // the sender's mesh gives way if all revisions of the other go above this one; zero: the other need not raise any
	}
	confirmed struct {
		Promised  core.Ballot
		Roll      core.Ballot // of the table's generation
		Revisions []uint64    // by shard, that replicas here have applied, if the question had a Floor; zero: none
	}

	// fence asks for a Cut, and fenced says that it was made.
	fence struct {
		Shard      int
		Generation core.Generation
	}
	fenced struct {
		Shard      int
		Generation core.Generation
		Floors     floors // of this shard alone
	}

	// refused says that the sender does not answer a ballot, and what it promised and knows instead.
	refused struct {
		Ballot   core.Ballot
		Promised core.Ballot
		Known    core.Stamp
		Why      string
	}
)

// floors are what a node knows of the revisions that shards have had (P17).
type floors struct {
	Clock uint64        // its time of day, as a revision
	Known []uint64      // the highest revisions that it has heard of, by shard
	Quiet time.Duration // for how long a generation must grant nothing, for the sake of an earlier mesh
}

// report is a Report without its tables.
type report struct{ Roll, Refused, Released, RollAt, At core.Ballot }

// packed is a Table in its wire form: a list, an incarnation, or a generation of the core, is named once,
// and the seats and shards count them.
type packed struct {
	Stamp   core.Stamp
	Mesh    uint64
	Founded uint64
	Params  founding.Params
	Seats   []packedSeat
	Was     string
	Ordered string
	Dropped transport.ID
	Lists   []string
	IDs     []transport.ID
	Rolls   []core.Ballot
	Shards  []packedShard
}

type packedSeat struct {
	Entry string
	Node  env.Member
	List  uint64 // index of Lists
	Ended bool

	Unasked bool
}

type packedShard struct {
	Roll         uint64 // index of Rolls
	Number       uint64
	Voters, Next []uint64 // indexes of IDs
	Move         uint64
	Revision     uint64
	Quiet        time.Duration
	Calm         bool
}

// pack returns t in its wire form.
func pack(t *core.Table) packed {
	p := packed{Stamp: t.Stamp, Mesh: t.Mesh, Founded: t.Founded, Params: t.Params, Was: t.Was, Ordered: t.Ordered, Dropped: t.Dropped}
	for _, s := range t.Seats {
		p.Seats = append(p.Seats, packedSeat{s.Entry, s.Node, indexIn(&p.Lists, s.List), s.Ended, s.Unasked})
	}
	indexes := func(ids []transport.ID) (all []uint64) {
		for _, id := range ids {
			all = append(all, indexIn(&p.IDs, id))
		}
		return all
	}
	for _, s := range t.Shards {
		p.Shards = append(p.Shards, packedShard{
			Roll: indexIn(&p.Rolls, s.Generation.Core), Number: s.Generation.Number, Voters: indexes(s.Voters), Next: indexes(s.Next), Move: s.Move,
			Revision: s.Revision, Quiet: s.Quiet, Calm: s.Calm,
		})
	}
	return p
}

// indexIn returns the index of v in all, to which it is added if it is not there yet.
func indexIn[T comparable](all *[]T, v T) uint64 {
	i := slices.Index(*all, v)
	if i < 0 {
		i, *all = len(*all), append(*all, v)
	}
	return uint64(i)
}

// packOrNone is pack for a table that may be nil.
func packOrNone(t *core.Table) *packed {
	if t == nil {
		return nil
	}
	p := pack(t)
	return &p
}

// unpack returns the table, which is valid if check found nothing.
func (p *packed) unpack() *core.Table {
	if p == nil {
		return nil
	}
	t := &core.Table{Stamp: p.Stamp, Mesh: p.Mesh, Founded: p.Founded, Params: p.Params, Was: p.Was, Ordered: p.Ordered, Dropped: p.Dropped}
	for _, s := range p.Seats {
		t.Seats = append(t.Seats, core.Seat{Entry: s.Entry, Node: s.Node, List: p.Lists[s.List], Ended: s.Ended, Unasked: s.Unasked})
	}
	ids := func(indexes []uint64) (all []transport.ID) {
		for _, i := range indexes {
			all = append(all, p.IDs[i])
		}
		return all
	}
	for _, s := range p.Shards {
		t.Shards = append(t.Shards, core.Shard{
			Generation: core.Generation{Core: p.Rolls[s.Roll], Number: s.Number}, Voters: ids(s.Voters), Next: ids(s.Next), Move: s.Move,
			Revision: s.Revision, Quiet: s.Quiet, Calm: s.Calm,
		})
	}
	return t
}

// encode returns a message's wire form: its kind, and its fields in an array.
func encode(m message) []byte {
	k := slices.IndexFunc(kinds[:], func(o message) bool { return reflect.TypeOf(o) == reflect.TypeOf(m) })
	return append(wire.AppendUint(nil, uint64(k)), wire.Marshal(m)...)
}

// decode reads one message. What it returns shares no memory with body. Errors wrap
// wire.ErrMalformed.
func decode(body []byte) (message, error) {
	r := wire.NewReader(body)
	k := r.Uint(uint64(len(kinds)))
	if r.Err() == nil && (k == 0 || k == uint64(len(kinds))) {
		r.Fail(fmt.Sprintf("unknown message %d", k))
	}
	if r.Err() != nil {
		return nil, fmt.Errorf("seat: %w", r.Err())
	}
	v := reflect.New(reflect.TypeOf(kinds[k]))
	err := wire.Unmarshal(r.Rest(), v.Interface(), maxBytes, maxElements)
	m := v.Elem().Interface().(message)
	if l := (limits{}); err == nil {
		if m.check(&l); l.broken != "" {
			err = fmt.Errorf("%w: %s", wire.ErrMalformed, l.broken)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("seat: %w", err)
	}
	return m, nil
}

// Describe returns the name of the message in a frame, for the simulation's timeline.
func Describe(body []byte) string {
	m, err := decode(body)
	if err != nil {
		return "malformed"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", m), "seat.")
}

// limits records the first limit that a message exceeds.
type limits struct{ broken string }

func (l *limits) require(ok bool, what string) {
	if !ok && l.broken == "" {
		l.broken = what
	}
}

func (l *limits) texts(limit int, all ...string) {
	for _, s := range all {
		l.require(len(s) <= limit, "a text is too long")
	}
}

// list requires that a list of entries is one that a node may be started with.
func (l *limits) list(entries []string) {
	l.texts(maxString, entries...)
	l.require(len(entries) > 0 && len(entries) <= maxEntries, "a list without entries, or with more than 64")
	for i, e := range entries {
		l.require(e != "" && !strings.Contains(e, " "), "a list with an empty entry, or one with a blank")
		l.require(i == 0 || entries[i-1] < e, "a list out of order")
	}
}

func (l *limits) member(m env.Member) {
	l.require(m.ID != 0, "a member without an ID")
	l.texts(maxString, m.Name, m.Addr, m.Zone)
}

func (l *limits) ballot(b core.Ballot) {
	l.require(b.Round != 0, "no ballot")
	l.ballotOrNone(b)
}

func (l *limits) ballotOrNone(b core.Ballot) {
	l.require((b.Round == 0) == (b.By == 0), "an incomplete ballot")
	l.require(b.Round <= maxNumber, "a round out of range")
}

func (l *limits) stamp(s core.Stamp) {
	l.ballot(s.Roll)
	l.require(s.Version <= maxNumber, "a version out of range")
}

func (l *limits) stampOrNone(s core.Stamp) {
	if s != (core.Stamp{}) {
		l.stamp(s)
	}
}

func (c card) check(l *limits) {
	l.member(c.Member)
	if len(c.List) > 0 {
		l.list(c.List)
	}
	w := c.Wants
	l.texts(maxString, w.MeshName)
	l.require(w.Shards >= 0 && w.Shards <= maxShards && w.Replicas >= 0 && w.Replicas <= maxReplicas, "too many shards or replicas")
	l.require(w.MaxTTL >= 0 && w.LeaseTTL >= 0, "a negative time")
}

func (m told) check(l *limits) {
	m.card.check(l)
	l.require(m.Entry == "" || len(m.List) > 0, "an entry of no list")
	l.texts(maxString, m.Entry)
	for _, b := range [...]core.Ballot{m.Roll, m.Refused, m.Released, m.RollAt, m.Withdrawn} {
		l.ballotOrNone(b)
	}
	l.stampOrNone(m.Known)
	l.stampOrNone(m.Heard.Known)
	l.ballotOrNone(m.Heard.Roll)
	l.require(m.Floor <= maxFloor, "a revision out of range")
	l.require(len(m.Apart) <= maxEntries, "more seats than entries")
	l.require(len(m.Accepts) <= 2*maxEntries, "more accepted than there are entries")
	l.require(m.Earlier >= 0 && m.Earlier <= maxQuiet, "a quiet time out of range")
	l.require(m.Withdrew.After <= m.Withdrew.UpTo && m.Withdrew.UpTo <= maxNumber, "withdrawn rounds out of range")
}

func (m show) check(l *limits)  { l.stamp(m.Known) }
func (m shown) check(l *limits) { m.Table.check(l) }

func (m call) check(l *limits) {
	c := m.Call
	l.ballot(c.Ballot)
	l.list(c.List)
	l.require(len(c.Roster) == len(c.List), "a roster of another length than its list")
	l.require(slices.ContainsFunc(c.Roster, func(id transport.ID) bool { return id != 0 }), "a roster of nobody")
}

func (m answer) check(l *limits) {
	l.ballot(m.Ballot)
	m.card.check(l)
	l.require(len(m.List) > 0, "a list without entries")
	for _, b := range [...]core.Ballot{m.Report.Roll, m.Report.Refused, m.Report.Released, m.Report.RollAt, m.Report.At} {
		l.ballotOrNone(b)
	}
	m.Table.checkOrNone(l)
	m.Accepted.checkOrNone(l)
	m.Proposed.checkOrNone(l)
	m.Floors.check(l)
	l.require((m.Accepted != nil) == (m.Report.At != core.Ballot{}) && (m.Proposed != nil) == (m.Report.RollAt != core.Ballot{}), "a value without a ballot, or a ballot without a value")
	l.require(m.Accepted == nil || m.Table != nil && m.Accepted.Stamp == m.Table.Stamp.Next(), "not the next version")
}

func (m propose) check(l *limits) {
	m.Table.check(l)
	l.require(m.Table.Stamp.Version == 0, "a roll call's value with a version")
}

func (m proposed) check(l *limits) { l.ballot(m.Ballot) }

func (m read) check(l *limits) { l.read(m.Read) }

func (l *limits) read(r core.Read) {
	l.ballot(r.Ballot)
	l.stamp(r.Prev)
}

func (m value) check(l *limits) {
	l.read(m.Read)
	l.ballotOrNone(m.At)
	m.Accepted.checkOrNone(l)
	l.require((m.Accepted != nil) == (m.At != core.Ballot{}), "a value without a ballot, or a ballot without a value")
	l.require(m.Accepted == nil || m.Accepted.Stamp == m.Read.Prev.Next(), "not the next version")
}

func (m write) check(l *limits) {
	l.read(core.Read{Ballot: m.Ballot, Prev: m.Prev})
	m.Table.check(l)
	l.require(m.Table.Stamp == m.Prev.Next(), "not the next version")
}

func (m written) check(l *limits) { l.read(core.Read(m)) }

func (m confirm) check(l *limits) {
	l.ballotOrNone(m.Promised)
	m.Table.check(l)
	l.require(m.Floor <= maxFloor, "a revision out of range")
}

func (m confirmed) check(l *limits) {
	l.ballotOrNone(m.Promised)
	l.ballot(m.Roll)
	l.require(len(m.Revisions) <= maxShards, "revisions of too many shards")
}

func (m fence) check(l *limits) {
	l.require(m.Shard < maxShards && m.Generation.Number <= maxNumber, "a shard out of range")
	l.ballot(m.Generation.Core)
}

func (m fenced) check(l *limits) {
	fence{m.Shard, m.Generation}.check(l)
	m.Floors.check(l)
}

func (f floors) check(l *limits) {
	l.require(len(f.Known) <= maxShards, "revisions of too many shards")
	l.require(f.Quiet >= 0 && f.Quiet <= maxQuiet, "a quiet time out of range")
	for _, r := range append([]uint64{f.Clock}, f.Known...) {
		l.require(r <= maxNumber, "a revision out of range")
	}
}

func (m refused) check(l *limits) {
	l.ballot(m.Ballot)
	l.ballotOrNone(m.Promised)
	l.stampOrNone(m.Known)
	l.texts(maxText, m.Why)
}

func (p *packed) checkOrNone(l *limits) {
	if p != nil {
		p.check(l)
	}
}

func (p *packed) check(l *limits) {
	l.stamp(p.Stamp)
	a := p.Params
	l.require(p.Mesh != 0, "a mesh without an ID")
	l.require(p.Founded <= maxNumber, "a revision out of range")
	l.texts(maxString, a.MeshName)
	l.texts(maxList, append(p.Lists, p.Was, p.Ordered)...)
	l.require(a.MeshName != "" && a.Replicas > 0 && a.Replicas <= maxReplicas && a.MaxTTL > 0, "a mesh lacks a parameter")
	l.require(max(a.MaxTTL, a.Raise, a.Longest) <= maxQuiet && min(a.Raise, a.Longest) >= 0, "a time for which leases may last out of range")
	l.require(a.Shards == len(p.Shards) && a.Shards > 0 && a.Shards <= maxShards, "not as many shards as the mesh has")
	l.require(len(p.Seats) > 0 && len(p.Seats) <= maxEntries, "a mesh without seats, or with too many")
	for i, s := range p.Seats {
		l.texts(maxString, s.Entry, s.Node.Name, s.Node.Addr, s.Node.Zone)
		l.require(s.Entry != "" && (i == 0 || p.Seats[i-1].Entry < s.Entry), "seats out of order")
		l.require(s.List < uint64(len(p.Lists)), "a list out of range")
		l.require(!s.Ended || s.Node.ID != 0, "a seat without a node that has ended")
	}
	named := make(map[transport.ID]bool)
	for _, id := range p.IDs {
		l.require(id != 0 && !named[id], "an incarnation without an ID, or named twice")
		named[id] = true
	}
	for _, b := range p.Rolls {
		l.ballot(b)
	}
	for _, s := range p.Shards {
		s.check(l, p)
	}
}

func (s packedShard) check(l *limits, p *packed) {
	l.require(s.Roll < uint64(len(p.Rolls)) && s.Number <= maxNumber && s.Move <= maxNumber, "a shard out of range")
	l.require(s.Revision <= maxNumber && s.Quiet >= 0, "a shard that begins out of range")
	l.require(len(s.Voters) > 0 && len(s.Voters) <= maxReplicas && len(s.Next) <= maxReplicas, "a shard without voters, or with too many")
	for _, at := range slices.Concat(s.Voters, s.Next) {
		l.require(at < uint64(len(p.IDs)), "a voter out of range")
	}
}

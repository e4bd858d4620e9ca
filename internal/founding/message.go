package founding

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// Limits of what a message may carry.
const (
	maxBytes   = 512 << 10 // of a message; the largest welcome is smaller
	maxSeeds   = 64
	maxString  = 255 // bytes of a name, an address, a zone
	maxText    = 1 << 10
	maxMembers = 256           // in a welcome; gossip brings the rest
	maxFounded = 1<<43 - 1<<30 // ms: a shard's revisions start at Founded<<10, with room to 2^53
	maxRound   = 1 << 53
	maxCount   = 1 << 20 // shards, replicas
	maxRho     = 10_000
)

// kind is the first element of a message. Numbers are never reused.
type kind uint64

const (
	kindAsk kind = iota + 1
	kindAnswer
	kindLiving
	kindPrepare
	kindPromise
	kindNack
	kindAccept
	kindAccepted
	kindDecide
	kindKnown
	kindJoin
	kindWelcome
	kindRefuse
)

// message is one of the types below. A msgpack library writes and reads it: see wire.Marshal.
type message interface {
	// check reports to l which fields exceed their limits.
	check(l *limits)
}

// kinds has a message of each kind.
var kinds = [...]message{
	kindAsk: ask{}, kindAnswer: answer{}, kindLiving: living{}, kindPrepare: prepare{}, kindPromise: promise{},
	kindNack: nack{}, kindAccept: accept{}, kindAccepted: accepted{}, kindDecide: decide{}, kindKnown: known{},
	kindJoin: join{}, kindWelcome: welcome{}, kindRefuse: refuse{},
}

// ballot is a Paxos ballot number. One ballot has one proposer, one roster and at most one
// value.
type ballot struct {
	Round uint64
	ID    transport.ID // the proposer; rounds begin with 1, so the zero ballot is the lowest
}

func (b ballot) less(c ballot) bool {
	return b.Round < c.Round || b.Round == c.Round && b.ID < c.ID
}

// card is how a node that looks for a mesh introduces itself.
type card struct {
	Name, Addr, Zone string
	Seeds            []string // normalised
	Wants            Options
}

type (
	// ask: who are you, and do you know of a mesh? Each ask has a new Seq.
	ask struct {
		Seq uint64
		card
	}
	// answer: I look for a mesh too. Hint is the address of a member that I met, or "".
	answer struct {
		Seq  uint64
		Hint string
		card
	}
	// living: I am in a mesh; ask me to let you in.
	living struct {
		Seq  uint64
		ID   uint64
		Name string
	}
	// prepare begins a ballot among the nodes that answer at the seeds, in their order.
	prepare struct {
		Ballot ballot
		Seeds  []string
		Roster []transport.ID
	}
	// promise: I know of no decision, take part in no lower ballot any more, and
	// accepted Value last, at the ballot At (zero: nothing).
	promise struct {
		Ballot ballot
		Floor  uint64 // ms; the mesh must be founded no earlier (P17)
		At     ballot
		Value  Mesh
	}
	// nack: I do not promise or accept, because I promised a higher ballot, or for now, for
	// the reason in Why.
	nack struct {
		Ballot   ballot
		Promised ballot
		Why      string
		Hint     string // as in answer
	}
	accept struct {
		Ballot ballot
		Value  Mesh
	}
	accepted struct{ Ballot ballot }
	// decide: Value was decided at Ballot. Seq is that of the ask that it answers, or zero.
	decide struct {
		Seq    uint64
		Ballot ballot
		Value  Mesh
	}
	// known answers decide: I am in that mesh.
	known struct{ ID, Epoch uint64 }
	// join: let me in.
	join    struct{ card }
	welcome struct {
		Value   Mesh
		Members []Member
	}
	refuse struct {
		Why  refusal
		Text string
	}
)

// refusal is the kind of error that a refused joiner gets. Numbers are never reused.
type refusal uint64

const (
	refusedForNow refusal = iota
	refusedForeign
	refusedOption
	refusedName
	refusedUnreachable
	refusals // their number
)

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
		return nil, fmt.Errorf("founding: %w", r.Err())
	}
	v := reflect.New(reflect.TypeOf(kinds[k]))
	err := wire.Unmarshal(r.Rest(), v.Interface(), maxBytes, maxMembers)
	m := v.Elem().Interface().(message)
	if l := (limits{}); err == nil {
		if m.check(&l); l.broken != "" {
			err = fmt.Errorf("%w: %s", wire.ErrMalformed, l.broken)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("founding: %w", err)
	}
	return m, nil
}

// Describe returns the name of the message in a frame, for the simulation's timeline.
func Describe(body []byte) string {
	m, err := decode(body)
	if err != nil {
		return "malformed"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", m), "founding.")
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

func (m ask) check(l *limits) { m.card.check(l) }

func (m answer) check(l *limits) {
	l.texts(maxString, m.Hint)
	m.card.check(l)
}

func (m living) check(l *limits) {
	l.require(m.ID != 0, "a mesh without an ID")
	l.texts(maxString, m.Name)
}

func (m prepare) check(l *limits) {
	m.Ballot.check(l)
	l.require(len(m.Seeds) <= maxSeeds && len(m.Roster) <= maxSeeds, "too many seeds")
	l.texts(maxString, m.Seeds...)
}

func (m promise) check(l *limits) {
	m.Ballot.check(l)
	l.require(m.Floor <= maxFounded, "a floor in the far future")
	if m.At.checkOrNone(l); m.At != (ballot{}) {
		m.Value.check(l)
	} else {
		l.require(reflect.ValueOf(m.Value).IsZero(), "a value without a ballot")
	}
}

func (m nack) check(l *limits) {
	m.Ballot.check(l)
	m.Promised.checkOrNone(l)
	l.texts(maxText, m.Why)
	l.texts(maxString, m.Hint)
}

func (m accept) check(l *limits) {
	m.Ballot.check(l)
	m.Value.check(l)
}

func (m accepted) check(l *limits) { m.Ballot.check(l) }

func (m decide) check(l *limits) {
	m.Ballot.checkOrNone(l)
	m.Value.check(l)
}

func (m known) check(l *limits) { l.require(m.ID != 0 && m.Epoch != 0, "a mesh without an ID") }

func (m join) check(l *limits) { m.card.check(l) }

func (m welcome) check(l *limits) {
	m.Value.check(l)
	checkMembers(l, m.Members)
}

func (m refuse) check(l *limits) {
	l.require(m.Why < refusals, "an unknown refusal")
	l.texts(maxText, m.Text)
}

func (b ballot) check(l *limits) {
	l.require(b != (ballot{}), "no ballot")
	b.checkOrNone(l)
}

func (b ballot) checkOrNone(l *limits) {
	l.require((b.Round == 0) == (b.ID == 0), "an incomplete ballot")
	l.require(b.Round <= maxRound, "a round out of range")
}

func (c card) check(l *limits) {
	l.texts(maxString, c.Name, c.Addr, c.Zone, c.Wants.MeshName)
	l.require(len(c.Seeds) <= maxSeeds, "too many seeds")
	l.texts(maxString, c.Seeds...)
	w := c.Wants
	l.require(w.Shards <= maxCount && w.Replicas <= maxCount, "too many shards")
	l.require(w.Shards >= 0 && w.Replicas >= 0 && w.MaxTTL >= 0 && w.LeaseTTL >= 0, "a negative number")
}

func (v Mesh) check(l *limits) {
	p := v.Params
	l.require(v.MeshID != 0 && v.Epoch != 0, "a mesh without an ID")
	l.require(p.MeshName != "" && p.Shards > 0 && p.Replicas > 0 && p.MaxTTL > 0 && v.Founded != 0, "a mesh lacks a parameter")
	l.texts(maxString, p.MeshName)
	l.require(p.Shards <= maxCount && p.Replicas <= maxCount, "too many shards")
	l.require(p.Rho <= maxRho, "a bound on clock rates out of range")
	l.require(v.Founded <= maxFounded, "a mesh founded in the far future")
	l.require(len(v.Roster) > 0 && len(v.Roster) <= maxSeeds, "a mesh without founders, or with too many")
	checkMembers(l, v.Roster)
	for i, m := range v.Roster {
		l.require(i == 0 || v.Roster[i-1].Name < m.Name, "founders out of order")
	}
}

func checkMembers(l *limits, members []Member) {
	for _, m := range members {
		l.require(m.ID != 0, "a member without an ID")
		l.texts(maxString, m.Name, m.Addr, m.Zone)
	}
}

package founding

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// Limits of what a message may carry. They are checked before memory is taken.
const (
	maxSeeds   = 64
	maxString  = 255 // bytes of a name, an address, a zone
	maxText    = 1 << 10
	maxMembers = 256           // in a Welcome; gossip tells of the rest
	maxFounded = 1<<43 - 1<<30 // ms: a shard's revisions start at Founded<<10, with room to 2^53
	maxRound   = 1 << 53
	maxCount   = 1 << 20 // shards, replicas
	maxRho     = 10_000
	maxUint    = 1<<64 - 1
	maxTTL     = uint64(1<<63 - 1)
)

// kind is a message's first field. Numbers are never used again.
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

// message is one of the types below.
type message interface {
	append(b []byte) []byte
}

// ballot orders the attempts to found. One ballot belongs to one proposer, one
// roster and at most one value.
type ballot struct {
	Round uint64
	ID    transport.ID // the proposer; rounds start at 1, so the zero ballot is below all
}

func (b ballot) less(c ballot) bool {
	return b.Round < c.Round || b.Round == c.Round && b.ID < c.ID
}

// less reports whether b comes before c.
func (m *Machine) less(b, c ballot) bool {
	if m.cfg.Bugs.Has(bug.RoundsAlone) {
		return b.Round < c.Round
	}
	return b.less(c)
}

// card is what a node that looks for a mesh tells of itself.
type card struct {
	Name, Addr, Zone string
	Seeds            []string // normalised
	Wants            Options
}

type (
	// ask: who are you, and do you know of a mesh? seq is new in every one.
	ask struct {
		Seq uint64
		card
	}
	// answer: I look for a mesh too. hint is the address of a member that I met, or "".
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
	// promise: I know of no decision, take part in no earlier ballot any more, and
	// accepted value last, at the ballot at (zero: nothing).
	promise struct {
		Ballot ballot
		Floor  uint64 // ms; the mesh must be founded no earlier (P17)
		At     ballot
		Value  Mesh
	}
	// nack: I do not promise or accept, because I promised something higher, or for
	// now, in the words of why.
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
	// decide: value was decided at the ballot. seq is that of the ask that it answers,
	// or zero.
	decide struct {
		Seq    uint64
		Ballot ballot
		Value  Mesh
	}
	// known: I am in that mesh. Answers decide.
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

// refusal says what kind of error a refused joiner got. Numbers are never used again.
type refusal uint64

const (
	refusedForNow refusal = iota
	refusedForeign
	refusedOption
	refusedName
	refusedUnreachable
	refusals // their number
)

func begin(b []byte, k kind, fields int) []byte {
	return wire.AppendUint(wire.AppendArray(b, fields+1), uint64(k))
}

func (m ask) append(b []byte) []byte {
	return m.card.append(wire.AppendUint(begin(b, kindAsk, 2), m.Seq))
}

func (m answer) append(b []byte) []byte {
	b = wire.AppendUint(begin(b, kindAnswer, 3), m.Seq)
	return m.card.append(wire.AppendString(b, m.Hint))
}

func (m living) append(b []byte) []byte {
	b = wire.AppendUint(begin(b, kindLiving, 3), m.Seq)
	return wire.AppendString(wire.AppendUint(b, m.ID), m.Name)
}

func (m prepare) append(b []byte) []byte {
	b = appendStrings(m.Ballot.append(begin(b, kindPrepare, 3)), m.Seeds)
	b = wire.AppendArray(b, len(m.Roster))
	for _, id := range m.Roster {
		b = wire.AppendUint(b, uint64(id))
	}
	return b
}

func (m promise) append(b []byte) []byte {
	fields := 3
	if m.At != (ballot{}) {
		fields = 4
	}
	b = wire.AppendUint(m.Ballot.append(begin(b, kindPromise, fields)), m.Floor)
	b = m.At.append(b)
	if m.At != (ballot{}) {
		b = m.Value.append(b)
	}
	return b
}

func (m nack) append(b []byte) []byte {
	b = m.Promised.append(m.Ballot.append(begin(b, kindNack, 4)))
	return wire.AppendString(wire.AppendString(b, m.Why), m.Hint)
}

func (m accept) append(b []byte) []byte {
	return m.Value.append(m.Ballot.append(begin(b, kindAccept, 2)))
}

func (m accepted) append(b []byte) []byte {
	return m.Ballot.append(begin(b, kindAccepted, 1))
}

func (m decide) append(b []byte) []byte {
	b = wire.AppendUint(begin(b, kindDecide, 3), m.Seq)
	return m.Value.append(m.Ballot.append(b))
}

func (m known) append(b []byte) []byte {
	return wire.AppendUint(wire.AppendUint(begin(b, kindKnown, 2), m.ID), m.Epoch)
}

func (m join) append(b []byte) []byte { return m.card.append(begin(b, kindJoin, 1)) }

func (m welcome) append(b []byte) []byte {
	return appendMembers(m.Value.append(begin(b, kindWelcome, 2)), m.Members)
}

func (m refuse) append(b []byte) []byte {
	b = wire.AppendUint(begin(b, kindRefuse, 2), uint64(m.Why))
	return wire.AppendString(b, m.Text)
}

func (b ballot) append(to []byte) []byte {
	return wire.AppendUint(wire.AppendUint(to, b.Round), uint64(b.ID))
}

func (c card) append(b []byte) []byte {
	b = wire.AppendArray(b, 9)
	b = wire.AppendString(b, c.Name)
	b = wire.AppendString(b, c.Addr)
	b = wire.AppendString(b, c.Zone)
	b = appendStrings(b, c.Seeds)
	b = wire.AppendString(b, c.Wants.MeshName)
	b = wire.AppendUint(b, uint64(c.Wants.Shards))
	b = wire.AppendUint(b, uint64(c.Wants.Replicas))
	b = wire.AppendUint(b, uint64(c.Wants.MaxTTL))
	return wire.AppendUint(b, uint64(c.Wants.LeaseTTL))
}

func (v Mesh) append(b []byte) []byte {
	b = wire.AppendArray(b, 10)
	b = wire.AppendUint(b, v.MeshID)
	b = wire.AppendUint(b, v.Epoch)
	b = wire.AppendString(b, v.Params.MeshName)
	b = wire.AppendUint(b, uint64(v.Params.Shards))
	b = wire.AppendUint(b, uint64(v.Params.Replicas))
	b = wire.AppendUint(b, uint64(v.Params.MaxTTL))
	b = wire.AppendUint(b, uint64(v.Params.Rho))
	b = wire.AppendUint(b, v.Founded)
	b = wire.AppendBool(b, v.Grace)
	return appendMembers(b, v.Roster)
}

func appendMembers(b []byte, members []Member) []byte {
	b = wire.AppendArray(b, len(members))
	for _, m := range members {
		b = wire.AppendUint(wire.AppendArray(b, 4), uint64(m.ID))
		b = wire.AppendString(wire.AppendString(wire.AppendString(b, m.Name), m.Addr), m.Zone)
	}
	return b
}

func appendStrings(b []byte, list []string) []byte {
	b = wire.AppendArray(b, len(list))
	for _, s := range list {
		b = wire.AppendString(b, s)
	}
	return b
}

// Describe names the message in a frame, for those who watch.
func Describe(body []byte) string {
	m, err := decode(body)
	if err != nil {
		return "malformed"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", m), "founding.")
}

// decode reads one message. What it returns shares no memory with body. Errors wrap
// wire.ErrMalformed.
func decode(body []byte) (message, error) {
	r := reader{wire.NewReader(body)}
	fields := r.Array(5)
	k := kind(r.Uint(maxUint))
	want := func(n int) {
		if fields != n+1 {
			r.Fail(fmt.Sprintf("%d fields in message %d", fields-1, k))
		}
	}
	var m message
	switch k {
	case kindAsk:
		want(2)
		m = ask{Seq: r.Uint(maxUint), card: r.card()}
	case kindAnswer:
		want(3)
		m = answer{Seq: r.Uint(maxUint), Hint: r.String(maxString), card: r.card()}
	case kindLiving:
		want(3)
		m = living{Seq: r.Uint(maxUint), ID: r.nonzero(), Name: r.String(maxString)}
	case kindPrepare:
		want(3)
		m = prepare{Ballot: r.ballot(), Seeds: r.strings(maxSeeds), Roster: r.ids()}
	case kindPromise:
		p := promise{Ballot: r.ballot(), Floor: r.Uint(maxFounded), At: r.ballotOrNone()}
		if p.At == (ballot{}) {
			want(3)
		} else {
			want(4)
			p.Value = r.mesh()
		}
		m = p
	case kindNack:
		want(4)
		m = nack{Ballot: r.ballot(), Promised: r.ballotOrNone(), Why: r.String(maxText), Hint: r.String(maxString)}
	case kindAccept:
		want(2)
		m = accept{Ballot: r.ballot(), Value: r.mesh()}
	case kindAccepted:
		want(1)
		m = accepted{Ballot: r.ballot()}
	case kindDecide:
		want(3)
		m = decide{Seq: r.Uint(maxUint), Ballot: r.ballotOrNone(), Value: r.mesh()}
	case kindKnown:
		want(2)
		m = known{ID: r.nonzero(), Epoch: r.nonzero()}
	case kindJoin:
		want(1)
		m = join{card: r.card()}
	case kindWelcome:
		want(2)
		m = welcome{Value: r.mesh(), Members: r.members(maxMembers)}
	case kindRefuse:
		want(2)
		m = refuse{Why: refusal(r.Uint(uint64(refusals) - 1)), Text: r.String(maxText)}
	default:
		r.Fail(fmt.Sprintf("unknown message %d", k))
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("founding: %w", err)
	}
	return m, nil
}

type reader struct{ *wire.Reader }

func (r reader) nonzero() uint64 {
	v := r.Uint(maxUint)
	if v == 0 {
		r.Fail("zero")
	}
	return v
}

func (r reader) ballotOrNone() ballot {
	b := ballot{Round: r.Uint(maxRound), ID: transport.ID(r.Uint(maxUint))}
	if (b.Round == 0) != (b.ID == 0) {
		r.Fail("half a ballot")
	}
	return b
}

func (r reader) ballot() ballot {
	b := r.ballotOrNone()
	if b == (ballot{}) {
		r.Fail("no ballot")
	}
	return b
}

func (r reader) strings(limit int) []string {
	n := r.Array(limit)
	var list []string
	for range n {
		list = append(list, r.String(maxString))
	}
	return list
}

func (r reader) ids() []transport.ID {
	n := r.Array(maxSeeds)
	var ids []transport.ID
	for range n {
		ids = append(ids, transport.ID(r.Uint(maxUint)))
	}
	return ids
}

func (r reader) card() card {
	r.Tuple(9)
	return card{
		Name: r.String(maxString), Addr: r.String(maxString), Zone: r.String(maxString),
		Seeds: r.strings(maxSeeds),
		Wants: Options{
			MeshName: r.String(maxString),
			Shards:   int(r.Uint(maxCount)),
			Replicas: int(r.Uint(maxCount)),
			MaxTTL:   time.Duration(r.Uint(maxTTL)),
			LeaseTTL: time.Duration(r.Uint(maxTTL)),
		},
	}
}

func (r reader) mesh() Mesh {
	r.Tuple(10)
	v := Mesh{MeshID: r.nonzero(), Epoch: r.nonzero()}
	v.Params = Params{
		MeshName: r.String(maxString),
		Shards:   int(r.Uint(maxCount)),
		Replicas: int(r.Uint(maxCount)),
		MaxTTL:   time.Duration(r.Uint(maxTTL)),
		Rho:      uint32(r.Uint(maxRho)),
	}
	v.Founded = r.Uint(maxFounded)
	v.Grace = r.Bool()
	v.Roster = r.members(maxSeeds)
	switch p := v.Params; {
	case p.MeshName == "" || p.Shards == 0 || p.Replicas == 0 || p.MaxTTL == 0 || v.Founded == 0:
		r.Fail("a mesh lacks a parameter")
	case len(v.Roster) == 0:
		r.Fail("a mesh without founders")
	}
	for i, m := range v.Roster {
		if i > 0 && v.Roster[i-1].Name >= m.Name {
			r.Fail("founders out of order")
		}
	}
	return v
}

func (r reader) members(limit int) []Member {
	n := r.Array(limit)
	var list []Member
	for range n {
		r.Tuple(4)
		list = append(list, Member{
			ID: transport.ID(r.nonzero()), Name: r.String(maxString), Addr: r.String(maxString), Zone: r.String(maxString),
		})
	}
	return list
}

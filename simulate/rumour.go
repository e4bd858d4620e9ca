package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// rumour is one piece of news.
type rumour struct {
	belief      belief
	id          transport.ID
	incarnation uint64
	by          transport.ID // suspected, dead: who says so
	member      seam.Member  // alive
	leaving     bool         // alive
}

// size is about how many bytes memberlist takes to say it.
func (r rumour) size() int {
	if r.belief == alive {
		return 100 + len(r.member.Name) + len(r.member.Addr) + len(r.member.Zone)
	}
	return 65
}

// rumours are what a member has to tell, each some times.
type rumours struct {
	waiting []broadcast
	last    int
}

type broadcast struct {
	rumour  rumour
	refutes bool
	sent    int
	number  int
}

const (
	packetSize     = 1400
	packetOverhead = 100 // of a ping, and of several messages in one packet
	retransmitMult = 4   // half of what the real gossip takes: a refutation may be missed
)

func (q *rumours) empty() bool { return len(q.waiting) == 0 }

// add takes the place of older news of the same member, refutations apart: those
// do not.
func (q *rumours) add(r rumour, refutes bool) {
	q.waiting = slices.DeleteFunc(q.waiting, func(b broadcast) bool { return b.rumour.id == r.id && b.refutes == refutes })
	q.last++
	q.waiting = append(q.waiting, broadcast{rumour: r, refutes: refutes, number: q.last})
}

// take returns what fits in one packet: what was sent least, then what is largest,
// then what is newest. After a number of packets that grows with the logarithm of
// the members, a rumour is old.
func (q *rumours) take(members int) []rumour {
	if len(q.waiting) == 0 {
		return nil
	}
	limit := retransmitMult
	for n := 10; n < members+1; n *= 10 {
		limit += retransmitMult
	}
	slices.SortFunc(q.waiting, func(a, b broadcast) int {
		return cmp.Or(a.sent-b.sent, b.rumour.size()-a.rumour.size(), b.number-a.number)
	})
	var taken []rumour
	left := packetSize - packetOverhead
	kept := q.waiting[:0]
	for _, b := range q.waiting {
		if size := b.rumour.size(); size <= left {
			left -= size
			taken = append(taken, b.rumour)
			if b.sent++; b.sent >= limit {
				continue
			}
		}
		kept = append(kept, b)
	}
	clear(q.waiting[len(kept):])
	q.waiting = kept
	return taken
}

// packet is one message between the gossip of two nodes.
type packet struct {
	kind    packetKind
	number  uint64       // of the probe or exchange
	about   transport.ID // ask: whom to probe
	rumours []rumour
}

type packetKind uint8

const (
	hearsay packetKind = iota // rumours only
	ping
	ack
	ask
	pull
	push
	leave
)

func (p packet) append(b []byte) []byte {
	b = wire.AppendUint(b, uint64(p.kind))
	b = wire.AppendUint(b, p.number)
	b = wire.AppendUint(b, uint64(p.about))
	b = wire.AppendArray(b, len(p.rumours))
	for _, r := range p.rumours {
		b = wire.AppendUint(b, uint64(r.belief))
		b = wire.AppendUint(b, uint64(r.id))
		b = wire.AppendUint(b, r.incarnation)
		b = wire.AppendUint(b, uint64(r.by))
		b = wire.AppendString(b, r.member.Name)
		b = wire.AppendString(b, r.member.Addr)
		b = wire.AppendString(b, r.member.Zone)
		b = wire.AppendBool(b, r.leaving)
	}
	return b
}

func readPacket(b []byte) (packet, error) {
	r := wire.NewReader(b)
	p := packet{
		kind:   packetKind(r.Uint(uint64(leave))),
		number: r.Uint(math.MaxUint64),
		about:  transport.ID(r.Uint(math.MaxUint64)),
	}
	if n := r.Array(math.MaxInt32); n > 0 {
		p.rumours = make([]rumour, n)
	}
	for i := range p.rumours {
		n := &p.rumours[i]
		n.belief = belief(r.Uint(uint64(dead)))
		n.id = transport.ID(r.Uint(math.MaxUint64))
		n.incarnation = r.Uint(math.MaxUint64)
		n.by = transport.ID(r.Uint(math.MaxUint64))
		n.member = seam.Member{ID: n.id, Name: r.String(math.MaxInt32), Addr: r.String(math.MaxInt32), Zone: r.String(math.MaxInt32)}
		n.leaving = r.Bool()
	}
	if err := r.End(); err != nil {
		return packet{}, fmt.Errorf("simulate: a packet of gossip: %w", err)
	}
	return p, nil
}

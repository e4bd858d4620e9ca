package swim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// rumour is one piece of news.
type rumour struct {
	belief      belief
	id          transport.ID
	incarnation uint64
	by          transport.ID // suspected, dead: the member that says so
	member      env.Member   // alive
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
	about   transport.ID // ask: the member to be probed
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

// Fields is the packet's wire form.
func (p *packet) Fields(c *wire.Codec) {
	wire.Number(c, &p.kind, uint64(leave))
	c.Uint(&p.number, math.MaxUint64)
	wire.Number(c, &p.about, math.MaxUint64)
	if n := c.Array(len(p.rumours), math.MaxInt32); c.Reads() && n > 0 {
		p.rumours = make([]rumour, n)
	}
	for i := range p.rumours {
		r := &p.rumours[i]
		wire.Number(c, &r.belief, uint64(dead))
		wire.Number(c, &r.id, math.MaxUint64)
		c.Uint(&r.incarnation, math.MaxUint64)
		wire.Number(c, &r.by, math.MaxUint64)
		c.String(&r.member.Name, math.MaxInt32)
		c.String(&r.member.Addr, math.MaxInt32)
		c.String(&r.member.Zone, math.MaxInt32)
		c.Bool(&r.leaving)
		if c.Reads() {
			r.member.ID = r.id
		}
	}
}

func readPacket(b []byte) (p packet, err error) {
	if err := wire.Decode(b, &p); err != nil {
		return packet{}, fmt.Errorf("swim: a packet of gossip: %w", err)
	}
	return p, nil
}

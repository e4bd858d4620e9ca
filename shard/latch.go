package shard

import (
	"math"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// A latch is a key that opens once so many have arrived at it (P44). Those that wait for that are in its queue. That it is open is
// remembered like the success of a Once; who has arrived, until it opens.

// Arrive says that Who has arrived at a latch. A name that arrives again does not count again; the arrivals are remembered for longer. It
// opens the session's record; but an arrival is nobody's: it stays when its session ends. After a shard has lost its table it is told to
// the next one by the same command.
type Arrive struct {
	Call
	TTL       time.Duration // of the session
	Name      string        // of the client's node
	Key       string
	Capacity  int64 // how many open the latch
	Who       string
	Retention time.Duration // for how long it is remembered at least that the latch is open or, from the last arrival on, who has arrived
}

func (Arrive) number() uint64 { return wireArrive }

// arrivals are who has arrived at a latch that is not open.
type arrivals struct {
	names []string      // in their order
	last  time.Duration // when the last came, in table time
	keep  time.Duration // the longest retention of them
}

// forgottenAt is when the arrivals are forgotten, unless somebody waits for the latch.
func (a *arrivals) forgottenAt() time.Duration { return a.last + a.keep }

// arrive carries out an Arrive.
func (t *Table) arrive(c Arrive, out []Event) []Event {
	s, out := t.begin(c.Call, &opening{c.TTL, c.Name}, out)
	if s == nil {
		return out
	}
	e := t.open(c.Key, Latch, c.Capacity)
	if e.kind != Latch || e.capacity != c.Capacity {
		return append(out, t.refused(s, c.Number, Capacity, e))
	}
	t.keepEntry(e)
	if d := e.done[Run]; d != nil {
		d.until = max(d.until, d.at+c.Retention)
	} else {
		if !slices.Contains(e.names, c.Who) {
			e.names = append(e.names, c.Who)
		}
		if e.last, e.keep = t.now, max(e.keep, c.Retention); int64(len(e.names)) == e.capacity {
			e.done[Run] = &completion{at: t.now, until: e.forgottenAt()}
			e.arrivals = arrivals{}
		}
	}
	t.remind(e)
	out = append(out, s.done(c.Number))
	out = t.grant(e, out)
	t.sweep(e)
	return out
}

// waits returns the operation of a request that waits for a latch: it is skipped once the latch is open. Of other keys it is nil.
func (e *entry) waits() *Operation {
	if e.kind != Latch {
		return nil
	}
	return &Operation{Op: Run}
}

func (a *arrivals) fields(c *wire.Codec) {
	for i := range wire.List(c, &a.names, MaxMembers) {
		c.String(&a.names[i], MaxName)
		c.Check(a.names[i] != "" && !slices.Contains(a.names[:i], a.names[i]), "an arrival of nobody, or twice")
	}
	wire.Number(c, &a.keep, uint64(MaxDuration))
	wire.Number(c, &a.last, math.MaxInt64)
}

func (a *Arrive) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	key(c, &a.Key)
	wire.Number(c, &a.Capacity, MaxMembers)
	c.String(&a.Who, MaxName)
	duration(c, &a.Retention)
	c.Check(a.Who != "" && a.Retention > 0 && share(Latch, 1, a.Capacity), "an arrival of nobody, or at nothing")
}

package bubble

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"
)

// gate lets through, one at a time, what one goroutine does to another.
//
// Goroutines put requests at the gate. When all of them are blocked, it brings the
// new requests into an order that does not depend on who ran first, lets chance say
// when each happens, and makes the next one happen. So no two goroutines that the
// gate woke ever run side by side, unless one of them wakes others past the gate.
type gate struct {
	start time.Time
	kick  chan struct{} // something was requested
	stop  chan struct{}
	ended chan struct{}
	ajar  bool // for the gate's own test: lets through what comes as it comes

	mu     sync.Mutex
	fresh  []request
	chance *rand.Rand
	draws  uint64
	events events
	seq    uint64
	digest *xxhash.Digest
	count  uint64
}

// origin names who requests: a goroutine, or one of the things that an end of a
// connection does. One goroutine at a time may use one.
type origin struct {
	id   uint64
	lane lane
	last uint64 // number of the latest request
}

// lane tells apart what several goroutines may do to one connection at once.
type lane uint8

const (
	acts lane = iota
	writes
	reads
	deadlines
	closes
)

// request is what an origin wants to happen. The gate calls do, which schedules it.
type request struct {
	id     uint64
	lane   lane
	number uint64
	do     func()
}

// event is what happens at a time.
type event struct {
	at      time.Duration
	tie     uint64 // drawn
	seq     uint64
	kind    kind
	who     uint64 // an origin or a connection
	payload uint64
	owner   *process // happens only while this one lives; nil: always
	host    *Host    // happens only while this one is not paused; nil: always
	fn      func()
	slot    int
}

// kind is part of the hash: append only.
type kind uint8

const (
	turn     kind = iota + 1 // a goroutine goes on
	birth                    // a goroutine starts
	end                      // a goroutine's context ends
	arrival                  // of bytes
	opening                  // of a connection: a step of it
	deadline                 // of an end of a connection
	resend                   // of what a cut held up
)

func newGate(seed uint64, start time.Time) *gate {
	g := &gate{
		start: start, kick: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
		digest: xxhash.New(),
	}
	g.chance = rand.New(counted{rand.NewPCG(seed, 0x6c6f636b6d657368), &g.draws})
	return g
}

// counted counts the numbers that a source was asked for.
type counted struct {
	rand.Source
	draws *uint64
}

func (c counted) Uint64() uint64 {
	*c.draws++
	return c.Source.Uint64()
}

func (g *gate) now() time.Duration { return time.Since(g.start) }

// put leaves a request at the gate, and returns at once.
func (g *gate) put(o *origin, do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.putLocked(o, do)
}

func (g *gate) putLocked(o *origin, do func()) {
	o.last++
	g.fresh = append(g.fresh, request{o.id, o.lane, o.last, do})
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// run is the gate's goroutine.
func (g *gate) run() {
	defer close(g.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if !g.ajar {
			synctest.Wait()
		}
		next, due := g.settle()
		if due {
			continue
		}
		var at <-chan time.Time
		if next >= 0 {
			timer.Reset(next - g.now())
			at = timer.C
		}
		select {
		case <-g.kick:
		case <-at:
		case <-g.stop:
			return
		}
	}
}

// settle takes the requests in, and makes the next event happen if it is time.
// Otherwise it returns the time of the next one, or less than zero for none.
func (g *gate) settle() (next time.Duration, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fresh := g.fresh
	g.fresh = nil
	if !g.ajar {
		slices.SortFunc(fresh, func(a, b request) int {
			return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.lane, b.lane), cmp.Compare(a.number, b.number))
		})
	}
	for _, r := range fresh {
		r.do()
	}
	if len(g.events) == 0 {
		return -1, false
	}
	ev := g.events[0]
	if ev.at > g.now() {
		return ev.at, false
	}
	heap.Pop(&g.events)
	g.happen(ev)
	return 0, true
}

// happen is called with the lock held, as are all functions of events.
func (g *gate) happen(ev *event) {
	switch {
	case ev.owner != nil && ev.owner.dead:
		return
	case ev.host != nil && ev.host.paused:
		ev.host.late = append(ev.host.late, ev)
		return
	}
	var b [41]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(ev.at))
	binary.LittleEndian.PutUint64(b[8:], ev.who)
	binary.LittleEndian.PutUint64(b[16:], ev.payload)
	binary.LittleEndian.PutUint64(b[24:], g.draws)
	binary.LittleEndian.PutUint64(b[32:], ev.seq)
	b[40] = byte(ev.kind)
	_, _ = g.digest.Write(b[:])
	g.count++
	ev.fn()
}

// at schedules an event. Of those of one instant chance says which is first.
func (g *gate) at(t time.Duration, ev *event) *event {
	g.seq++
	ev.at, ev.seq, ev.tie = max(t, g.now()), g.seq, g.chance.Uint64()
	heap.Push(&g.events, ev)
	return ev
}

// cancel takes an event back, if it is still to come.
func (g *gate) cancel(ev *event) {
	if ev != nil && ev.slot >= 0 {
		heap.Remove(&g.events, ev.slot)
	}
}

// events is a heap.
type events []*event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	a, b := e[i], e[j]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.tie, b.tie), cmp.Compare(a.seq, b.seq)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i]; e[i].slot, e[j].slot = i, j }
func (e *events) Push(x any) {
	ev := x.(*event)
	ev.slot = len(*e)
	*e = append(*e, ev)
}
func (e *events) Pop() any {
	old := *e
	ev := old[len(old)-1]
	old[len(old)-1] = nil
	*e = old[:len(old)-1]
	ev.slot = -1
	return ev
}

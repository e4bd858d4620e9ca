package simulate

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// Divergence tells where two runs part that should have been one.
//
// What an event did shows in what comes after it: who is to blame for the difference
// is, as a rule, the last event that the two have in common.
type Divergence struct {
	Checkpoint Checkpoint // the last that the runs have in common; zero: none
	Common     Event      // the last event that they have in common
	// First and Second are the events after that one. Number is zero where a run has
	// none, and in both if the two runs could not be caught parting.
	First, Second Event
}

// Event is one event of a run.
type Event struct {
	Number uint64        // from 1
	Time   time.Duration // true time
	Order  uint64        // among events of one moment: how many were scheduled before
	Draws  uint64        // random numbers that were drawn before
	What   string        // what it was, and where
}

func (e Event) String() string {
	if e.Number == 0 {
		return "no event"
	}
	return fmt.Sprintf("event %d at %v, order %d, after %d draws: %s", e.Number, e.Time, e.Order, e.Draws, e.What)
}

func (d *Divergence) String() string {
	if d.First.Number == 0 && d.Second.Number == 0 {
		return fmt.Sprintf("they part after event %d, at %v or later, each time somewhere else", d.Checkpoint.Events, d.Checkpoint.Time)
	}
	return fmt.Sprintf("they agree up to the checkpoint after event %d; the last in common and the next are\n\tboth:   %v\n\tfirst:  %v\n\tsecond: %v",
		d.Checkpoint.Events, d.Common, d.First, d.Second)
}

// Diverge plays a scenario with a and with b, which should make no difference, and tells
// where the two runs part; nil if they do not. Both may be the same options.
//
//	if d := simulate.Diverge(opts, opts, scenario); d != nil {
//		t.Errorf("the seed does not decide everything: %v", d)
//	}
func Diverge(a, b Options, scenario func(w *World) error) *Divergence {
	// The first two runs find the checkpoint after which to look; the next two keep what
	// happens from there on. What chance decides may part earlier the next time.
	from, first, second := 0, play(a, nil, scenario), play(b, nil, scenario)
	parted := !first.same(second)
	for range 4 {
		if n := first.shared(second); !first.same(second) {
			parted, from = true, n
		}
		if !parted {
			return nil
		}
		since := uint64(from) * checkpointEvery
		first, second = play(a, &keeper{since: since}, scenario), play(b, &keeper{since: since}, scenario)
		if first.same(second) || first.shared(second) < from {
			continue
		}
		if d := first.kept.compare(second.kept); d != nil {
			if n := first.shared(second); n > 0 {
				d.Checkpoint = first.checkpoints[n-1]
			}
			return d
		}
	}
	d := &Divergence{}
	if n := min(from, first.shared(second)); n > 0 {
		d.Checkpoint = first.checkpoints[n-1]
	}
	return d
}

// play returns the trace of a run.
func play(opts Options, k *keeper, scenario func(w *World) error) *trace {
	w := New(opts)
	defer w.Close()
	w.trace.kept = k
	_ = w.play(scenario) // what came of it is in the trace
	return &w.trace
}

func (t *trace) same(o *trace) bool {
	return t.events == o.events && t.digest.Sum64() == o.digest.Sum64()
}

// shared returns how many checkpoints two traces have in common.
func (t *trace) shared(o *trace) int {
	n := 0
	for n < min(len(t.checkpoints), len(o.checkpoints)) && t.checkpoints[n] == o.checkpoints[n] {
		n++
	}
	return n
}

// keeper keeps events, as they happen, from one on.
type keeper struct {
	since  uint64 // the events before are not kept, but for the last of them
	before keptEvent
	events []keptEvent
}

// mostKept bounds what a keeper takes: it is enough for minutes of a storm.
const mostKept = 1 << 19

// keptEvent is what the trace hashes of an event, and what it takes to describe it.
type keptEvent struct {
	keptFields
	number uint64
	owner  *process
	fn     func()
	loop   *loop
	actor  *actor
	conn   *conn
	side   int
	frame  transport.Kind
	body   []byte
}

type keptFields struct {
	kind                eventKind
	at                  time.Duration
	seq, payload, draws uint64
	host                int
}

func (k *keeper) add(number uint64, ev *event, host int, payload, draws uint64) {
	if number < k.since || len(k.events) == mostKept {
		return
	}
	e := keptEvent{
		keptFields: keptFields{ev.kind, ev.at, ev.seq, payload, draws, host},
		number:     number, owner: ev.owner, fn: ev.fn, loop: ev.loop, actor: ev.actor, conn: ev.conn, side: ev.side,
	}
	if f := ev.frame; f != nil {
		e.conn, e.side, e.frame, e.body = f.conn, f.side, f.kind, f.body
	}
	if number == k.since {
		k.before = e
	} else {
		k.events = append(k.events, e)
	}
}

// compare returns where two lists part that begin alike.
func (k *keeper) compare(o *keeper) *Divergence {
	n := 0
	for n < min(len(k.events), len(o.events)) && k.events[n].keptFields == o.events[n].keptFields {
		n++
	}
	if n == len(k.events) && n == len(o.events) {
		return nil
	}
	d := &Divergence{Common: k.before.event(), First: k.at(n), Second: o.at(n)}
	if n > 0 {
		d.Common = k.at(n - 1)
	}
	return d
}

func (k *keeper) at(i int) Event {
	if i < len(k.events) {
		return k.events[i].event()
	}
	return Event{}
}

func (e *keptEvent) event() Event {
	if e.number == 0 {
		return Event{}
	}
	return Event{e.number, e.at, e.seq, e.draws, e.describe()}
}

func (e *keptEvent) describe() string {
	where := "no host"
	if e.owner != nil {
		where = e.owner.host.name
	}
	switch e.kind {
	case callEvent:
		return fmt.Sprintf("a call of %s, on %s", runtime.FuncForPC(reflect.ValueOf(e.fn).Pointer()).Name(), where)
	case loopEvent:
		return fmt.Sprintf("loop %s, on %s", e.loop.name, where)
	case actorEvent:
		return fmt.Sprintf("actor %s, on %s", e.actor.name, where)
	case contextEvent:
		return fmt.Sprintf("a context's deadline, on %s", where)
	case frameEvent:
		s := fmt.Sprintf("a frame from %s to %s, of %d bytes with hash %016x", e.conn.host(e.side).name, where, len(e.body), e.payload)
		if m := e.conn.messages(e.side, e.frame, e.body); len(m) > 0 {
			s += ": " + strings.Join(m, ", ")
		}
		return s
	case silenceEvent:
		return fmt.Sprintf("the patience of %s with %s ends", where, e.conn.host(1-e.side).name)
	}
	return fmt.Sprintf("event kind %d, on %s", e.kind, where)
}

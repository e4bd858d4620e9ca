package simulate

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"time"
)

// Event is one event of a run, as Options.Event hears of it. Two runs are the same up to an event if
// their events of that number have the same Hash.
type Event struct {
	Number uint64        // from 1
	Time   time.Duration // true time
	Order  uint64        // among events of one moment: it grows with each scheduling of an event
	Draws  uint64        // random numbers that were drawn before
	Hash   uint64        // of this event and all before it

	what func() string
}

// String says what happens, and where.
func (e Event) String() string {
	if e.Number == 0 {
		return "no event"
	}
	return fmt.Sprintf("event %d at %v, order %d, after %d draws: %s", e.Number, e.Time, e.Order, e.Draws, e.what())
}

// tell tells Options.Event of an event that was hashed just now. What describes it later on must not
// need the event itself, which is used again.
func (w *World) tell(ev *event, payload uint64) {
	e := Event{Number: w.trace.events, Time: ev.at, Order: ev.seq, Draws: w.draws, Hash: w.Hash()}
	kept := *ev
	var f frame
	if ev.frame != nil {
		f = *ev.frame
	}
	e.what = func() string { return kept.what(&f, payload) }
	w.opts.Event(e)
}

// what says what the event does. The frame is the event's, if it has one.
func (ev *event) what(f *frame, payload uint64) string {
	where := "no host"
	if ev.owner != nil {
		where = ev.owner.host.name
	}
	switch ev.kind {
	case callEvent:
		return fmt.Sprintf("a call of %s, on %s", runtime.FuncForPC(reflect.ValueOf(ev.fn).Pointer()).Name(), where)
	case loopEvent:
		return fmt.Sprintf("loop %s, on %s", ev.loop.name, where)
	case actorEvent:
		return fmt.Sprintf("actor %s, on %s", ev.actor.name, where)
	case contextEvent:
		return fmt.Sprintf("a context's deadline, on %s", where)
	case frameEvent:
		s := fmt.Sprintf("a frame from %s to %s, of %d bytes with hash %016x", f.from().name, where, len(f.Body), payload)
		if m := f.Messages(); len(m) > 0 {
			s += ": " + strings.Join(m, ", ")
		}
		return s
	}
	return fmt.Sprintf("the patience of %s with %s ends", where, ev.conn.host(1-ev.side).name)
}

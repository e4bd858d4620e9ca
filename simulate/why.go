package simulate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// why is what a world that keeps a timeline knows of the reasons of what happens. An event is due to
// one moment: the latest one, if a loop was woken by several. What happens in an event is due to that
// moment or to a step, and what is sent is not the reason of what is sent next. Without a timeline it
// stays empty.
type why struct {
	root int // the moment that the event is due to; 0: none is known
	step int // the moment in it that all that follows is due to; 0: none
	own  int // the latest one of the actor that runs; 0: none

	holds map[actorAt][]int // what each actor holds
}

type actorAt struct{ host, actor string }

// begin is called when an event begins, with its reason.
func (y *why) begin(root int) { y.root, y.step, y.own = root, 0, 0 }

// due returns the reason of what is brought about now, and happens later.
func (y *why) due() int { return cmp.Or(y.step, y.root) }

// goesOn returns the reason of what the actor that runs does later by itself.
func (y *why) goesOn() int { return cmp.Or(y.own, y.root) }

// isBroken is the end of the text about a property that is broken.
const isBroken = " is broken"

// of returns the reason of a moment, or 0 if there is none.
func (y *why) of(w *World, m *timeline.Moment) int {
	step := w.timeline.Moment(y.due())
	switch m.Kind {
	case timeline.Called:
		if len(y.holds[actorAt{m.Host, m.Actor}]) == 0 {
			return 0 // an actor that has nothing in hand begins anew
		}
	case timeline.Held, timeline.Refused, timeline.HoldEnded, timeline.Unlocked:
		return max(y.due(), m.Begin)
	case timeline.Sent:
		return y.goesOn()
	case timeline.News:
		return y.root
	case timeline.Fault, timeline.Struck:
		if w.current == nil {
			return 0 // a storm's, or a script's
		}
		return y.root
	case timeline.Ended:
		return max(y.root, m.Begin)
	case timeline.Up, timeline.Down, timeline.Paused, timeline.Resumed:
		switch {
		case step != nil && step.Host == m.Host:
			return step.ID
		case w.current == nil:
			return 0
		}
		return y.root
	}
	return y.due()
}

// follow notes what follows from a moment that was recorded.
func (y *why) follow(w *World, m *timeline.Moment) {
	switch m.Kind {
	case timeline.Arrived, timeline.Role:
		y.root, y.step = m.ID, 0
	case timeline.Called, timeline.Held, timeline.Refused, timeline.Unlocked:
		y.step = m.ID
		if w.current != nil {
			y.own = m.ID
		}
	case timeline.Property:
		if strings.HasSuffix(m.Text, isBroken) {
			y.step = m.ID
		}
	case timeline.Ended:
		if before := w.timeline.Moment(m.ID - 1); before == nil || before.Kind != timeline.Down || before.Host != m.Host {
			y.step = m.ID // or else the fault is over since its process is
		}
	case timeline.Up, timeline.Fault, timeline.Struck, timeline.Down, timeline.Paused, timeline.Resumed, timeline.News:
		y.step = m.ID
	}
	who := actorAt{m.Host, m.Actor}
	switch m.Kind {
	case timeline.Held:
		y.holds[who] = append(y.holds[who], m.ID)
	case timeline.HoldEnded, timeline.Unlocked:
		y.holds[who] = slices.DeleteFunc(y.holds[who], func(held int) bool { return held == m.Begin })
	}
}

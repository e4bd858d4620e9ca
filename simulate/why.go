package simulate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// why is what a world that keeps a timeline knows of the reasons of what happens. What
// happens in one event has the event's reasons, and is not each the reason of the next: a
// run that answers three messages sends each answer because of its own. Without a timeline
// it stays empty.
type why struct {
	roots []int // the moments that the event is due to, earlier ones first
	step  []int // the moment in it that all that follows is due to; nil: none
	own   []int // the latest one of the actor that runs; nil: none
	role  int   // in which a replica took another role; 0: none did
	timer bool  // a loop runs that was not woken

	roles map[shardAt]int   // the latest change of each replica's role
	asked map[keyAt]int     // when an actor on the host last asked for the key, or gave it back
	holds map[actorAt][]int // of each actor that ever held something, or was refused: what it holds
}

type shardAt struct {
	host  string
	shard int
}

type keyAt struct{ host, key string }

type actorAt struct{ host, actor string }

func newWhy() why {
	return why{roles: make(map[shardAt]int), asked: make(map[keyAt]int), holds: make(map[actorAt][]int)}
}

// begin is called when an event begins, with its reasons.
func (y *why) begin(roots []int) {
	y.roots, y.step, y.own, y.role, y.timer = roots, nil, nil, 0, false
}

// due returns the reasons of what is brought about now, and happens later.
func (y *why) due() []int {
	if y.step != nil {
		return y.step
	}
	return y.roots
}

// goesOn returns the reasons of what the actor that runs does later by itself.
func (y *why) goesOn() []int {
	if y.own != nil {
		return y.own
	}
	return y.roots
}

// isBroken ends the text of a property that is.
const isBroken = " is broken"

// of returns the reason of a moment, or 0 if there is none.
func (y *why) of(w *World, m *timeline.Moment) int {
	t := w.timeline
	root, akin := y.root(t, m)
	step := root
	if y.step != nil {
		step = y.step[0]
	}
	switch m.Kind {
	case timeline.Called:
		if held, known := y.holds[actorAt{m.Host, m.Actor}]; known && len(held) == 0 {
			return 0 // an actor that is done with all that it did before begins anew
		}
	case timeline.Held, timeline.Refused, timeline.HoldEnded, timeline.Unlocked:
		return max(step, m.Begin)
	case timeline.Sent:
		switch {
		case y.own != nil:
			return y.own[0]
		case !akin && y.role > 0:
			return y.role
		case y.timer:
			return max(root, y.again(m))
		}
		return root
	case timeline.Role:
		return max(root, y.roles[shardAt{m.Host, m.Shard}])
	case timeline.News:
		return root
	case timeline.Fault, timeline.Struck:
		if w.current == nil {
			return 0 // a storm's, or a script's
		}
		return root
	case timeline.Ended:
		return max(root, m.Begin)
	case timeline.Up, timeline.Down, timeline.Paused, timeline.Resumed:
		switch s := t.Moment(step); {
		case s != nil && s.Host == m.Host:
			return step
		case w.current == nil:
			return 0
		}
		return root
	case timeline.Failure:
		if s := t.Moment(step); !w.running && (s == nil || s.Kind != timeline.Property) {
			return spokenOf(t, m)
		}
	}
	return step
}

// follow notes what follows from a moment that was recorded.
func (y *why) follow(w *World, m *timeline.Moment) {
	id := []int{m.ID}
	switch m.Kind {
	case timeline.Arrived:
		y.roots, y.step = id, nil
	case timeline.Called, timeline.Held, timeline.Refused, timeline.Unlocked:
		y.step = id
		if w.current != nil {
			y.own = id
		}
		y.asked[keyAt{m.Host, m.Key}] = m.ID
	case timeline.Role:
		y.role, y.roles[shardAt{m.Host, m.Shard}] = m.ID, m.ID
	case timeline.Property:
		if strings.HasSuffix(m.Text, isBroken) {
			y.step = id
		}
	case timeline.Up:
		if before := w.timeline.Moment(m.Cause); w.running || before != nil && before.Kind == timeline.Ended {
			y.step = id
		}
	case timeline.Ended:
		if before := w.timeline.Moment(m.ID - 1); before == nil || before.Kind != timeline.Down || before.Host != m.Host {
			y.step = id // or else the fault is over since its process is
		}
	case timeline.Fault, timeline.Struck, timeline.Down, timeline.Paused, timeline.Resumed, timeline.News:
		y.step = id
	}
	who := actorAt{m.Host, m.Actor}
	switch m.Kind {
	case timeline.Held:
		y.holds[who] = append(y.holds[who], m.ID)
	case timeline.Refused, timeline.HoldEnded, timeline.Unlocked:
		y.holds[who] = slices.DeleteFunc(y.holds[who], func(held int) bool { return held == m.Begin })
	}
}

// root returns the latest of the event's reasons that is about what m is about, and tells
// whether there is one; or else the latest of all.
func (y *why) root(t *timeline.Timeline, m *timeline.Moment) (id int, akin bool) {
	keys := keysOf(t, m)
	for _, id := range slices.Backward(y.roots) {
		reason := t.Moment(id)
		if m.Kind == timeline.HoldEnded && reason.Kind == timeline.Resumed {
			return id, true // it wakes up, and finds its lease over
		}
		for _, key := range keysOf(t, reason) {
			if slices.Contains(keys, key) || m.Kind == timeline.Failure && strings.Contains(m.Text, strconv.Quote(key)) {
				return id, true
			}
		}
	}
	if n := len(y.roots); n > 0 {
		return y.roots[n-1], false
	}
	return 0, false
}

// keysOf returns the keys that a moment is about, as far as it says. In a frame it takes
// other words for keys, too, such as the 3 of "append 3".
func keysOf(t *timeline.Timeline, m *timeline.Moment) (keys []string) {
	text := m.Text
	switch m.Kind {
	case timeline.Sent:
	case timeline.Arrived:
		text = t.Moment(m.Frame).Text
	default:
		if m.Key != "" {
			return []string{m.Key}
		}
		return nil
	}
	for message := range strings.SplitSeq(text, ", ") { // "lock k", "granted k token 7", "refused lock k: locked"
		message = strings.TrimPrefix(strings.TrimPrefix(message, "pass on: "), "refused ")
		_, key, _ := strings.Cut(message, " ")
		for _, end := range []string{" token ", ": ", " ×"} {
			key, _, _ = strings.Cut(key, end)
		}
		if key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// again returns the moment in which an actor on m's host asked for what m, a frame that
// the clock sends, is about.
func (y *why) again(m *timeline.Moment) (id int) {
	for _, key := range keysOf(nil, m) {
		id = max(id, y.asked[keyAt{m.Host, key}])
	}
	return id
}

// spokenOf returns the latest moment that a verdict at a run's end names, by its key and
// its token.
func spokenOf(t *timeline.Timeline, verdict *timeline.Moment) int {
	for _, m := range slices.Backward(t.Moments) {
		if m.Token > 0 && strings.Contains(verdict.Text, strconv.FormatUint(m.Token, 10)) && strings.Contains(verdict.Text, strconv.Quote(m.Key)) {
			return m.ID
		}
	}
	return 0
}

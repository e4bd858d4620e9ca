package timeline

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// FailureMoments is how many moments of an Excerpt go with a failure, on the page and in a
// terminal: what fits on a screen.
const FailureMoments = 25

const (
	maxUnderWay = 5                     // faults that come before the last moments of a run that passed
	maxFaults   = 8                     // faults that an excerpt of a failure prefers to its frames
	maxLeaders  = 3                     // and changes of leaders
	maxWay      = 12                    // moments of one chain that it prefers to what else happened to its keys
	lateFrame   = 10 * time.Millisecond // a frame that took as long is said to be late
)

// Excerpt returns lines of text as WriteText writes them. In a run that failed it chooses at most n moments that led to the
// failure, in this order: the failure; the holds that it is about, the calls for these, and what ended them;
// calls for the failure's keys that are still open on hosts that it names; the faults, and the
// leaders, since the earliest of these moments, up to eleven; the failure's Chain, and what led to these holds; and then what else
// happened to the failure's keys. A frame has one line there, at the moment at which it arrived or was lost. Of a run
// that did not fail it returns the last n moments, and above them at most five earlier faults, the latest ones that were not
// over. Lines are in the order of time. A nil Timeline has none.
func (t *Timeline) Excerpt(n int) string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	for _, id := range t.excerpt(n) {
		b.WriteString(t.excerptLine(t.Moment(id)))
	}
	return b.String()
}

// excerpt returns the IDs of Excerpt's moments.
func (t *Timeline) excerpt(n int) (ids []int) {
	ranks := t.ranks()
	for r := subject; r > unconcerned; r-- {
		for id := len(t.Moments); id > 0 && len(ids) < n; id-- {
			if ranks[id] == r {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) > 0 && ranks[ids[0]] == anything { // it did not fail
		over, top := make(map[int]bool), 0
		for id := slices.Min(ids) - 1; id > 0 && top < maxUnderWay; id-- {
			switch m := t.Moment(id); {
			case m.Kind == Ended:
				over[m.Begin] = true
			case m.Kind == Fault && !over[id]:
				ids = append(ids, id)
				top++
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// excerptLine is a line of an excerpt. Of a failure it is the first one only, since the
// whole of it is said before.
func (t *Timeline) excerptLine(m *Moment) string {
	line := t.line(m)
	if sent := t.Moment(m.Frame); sent != nil && m.At-sent.At >= lateFrame {
		line = strings.TrimSuffix(line, "\n") + ", sent at " + strings.TrimSpace(stamp(sent.At)) + "\n"
	}
	if first, rest, _ := strings.Cut(line, "\n"); m.Kind == Failure && rest != "" {
		line = first + " …\n"
	}
	return line
}

// rank says how much a moment has to do with a failure.
type rank uint8

const (
	unconcerned rank = iota
	anything         // the run did not fail
	earlier          // like aside or akin, but before what the failure is about began; or what an uninvolved actor logged
	aside            // a frame that speaks of the failure's keys; a routine frame on the way to the failure
	akin             // a call for the failure's keys, or what an involved actor logged
	way              // on the way to the failure, or to what it is about
	fault            // a fault, or a new leader, since what the failure is about began
	subject          // the failure, or what it is about
)

// tale finds out what a failure is about.
type tale struct {
	*Timeline
	verdict *Moment
	ranks   []rank          // by ID
	named   bool            // the verdict says which keys it is about
	keys    map[string]bool // which; or else those on the way to it, and without any all
	tokens  map[string]bool // that the verdict names
	calls   map[int]bool    // the Calleds that it is about
	actors  map[string]bool // of the subjects
	begins  int             // the ID of the earliest subject, the verdict aside, or of a call that a grant nobody heard of is due to; or 0
}

// ranks returns the rank of each moment, by ID.
func (t *Timeline) ranks() []rank {
	ranks := make([]rank, len(t.Moments)+1)
	_, overlaps := t.holds()
	v := t.violation(overlaps)
	for i := range t.Moments {
		if m := &t.Moments[i]; v == nil && !t.Routine(m) && !t.implied(m) {
			ranks[m.ID] = anything
		}
	}
	if v == nil {
		return ranks
	}
	x := &tale{
		Timeline: t, verdict: t.Moment(v.moment), ranks: ranks,
		keys: make(map[string]bool), calls: make(map[int]bool), actors: make(map[string]bool),
	}
	x.actors[x.verdict.who()] = true
	x.names()
	x.way(x.verdict.ID)
	for _, id := range v.holds {
		x.hold(id)
	}
	x.spokenOf()
	x.requests()
	x.faults()
	x.leaders()
	x.rest()
	x.raise(x.verdict.ID, subject)
	for i := range t.Moments {
		m := &t.Moments[i]
		if m.Frame > 0 {
			ranks[m.Frame] = unconcerned // the frame is shown where it ended
		}
		if t.implied(m) {
			ranks[m.ID] = unconcerned
		}
	}
	return ranks
}

func (x *tale) raise(id int, r rank) { x.ranks[id] = max(x.ranks[id], r) }

// about makes a moment a subject.
func (x *tale) about(id int) {
	x.raise(id, subject)
	x.actors[x.Moment(id).who()] = true
	x.since(id)
}

func (x *tale) since(id int) {
	if x.begins == 0 || id < x.begins {
		x.begins = id
	}
}

// names finds the keys and the tokens of the failure.
func (x *tale) names() {
	x.tokens = numbersAfter("token", x.verdict.Text)
	for i := range x.Moments {
		if key := x.Moments[i].Key; key != "" && !x.keys[key] && strings.Contains(x.verdict.Text, strconv.Quote(key)) {
			x.keys[key], x.named = true, true
		}
	}
	if x.named {
		return
	}
	for _, id := range x.Chain(x.verdict.ID) {
		if key := x.Moment(id).Key; key != "" {
			x.keys[key] = true
		}
	}
}

// numbersAfter returns the numbers that follow a word in a text, as 7 does in "granted k
// token 7".
func numbersAfter(word, text string) map[string]bool {
	found := make(map[string]bool)
	for _, rest := range strings.Split(text, word+" ")[1:] {
		end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			found[rest[:end]] = true
		}
	}
	return found
}

// way ranks what led to a moment: highest what is nearest to it, and is not sent all the
// time.
func (x *tale) way(id int) {
	near := 0
	for _, id := range slices.Backward(x.Chain(id)) {
		m := x.Moment(id)
		if x.Routine(m) || near == maxWay {
			x.raise(id, aside)
			continue
		}
		x.raise(id, way)
		if m.Kind != Sent { // where it ended is the line
			near++
		}
	}
}

// hold makes a hold a subject, and how it came about the way to it.
func (x *tale) hold(id int) {
	x.about(id)
	x.way(id)
	if called := x.Moment(id).Begin; called > 0 {
		x.about(called)
		x.calls[called] = true
	}
}

// spokenOf makes subjects of what the failure names: holds, what ended those that are
// subjects, calls that are open on hosts that it names. A grant that it names and that was
// no hold, since nobody heard of it, is the frames that speak of it.
func (x *tale) spokenOf() {
	before := x.Moments[:x.verdict.ID-1]
	open, heard := make(map[int]bool), make(map[string]bool)
	for i := range before {
		switch m := &before[i]; m.Kind {
		case Held:
			delete(open, m.Begin)
			token := strconv.FormatUint(m.Token, 10)
			heard[token] = true
			if x.keys[m.Key] && x.tokens[token] {
				x.hold(m.ID)
			}
		case HoldEnded, Unlocked:
			if x.ranks[m.Begin] == subject {
				x.about(m.ID)
			}
		case Refused:
			delete(open, m.Begin)
		case Called:
			if x.named && x.keys[m.Key] && x.speaksOf(m.Host) {
				open[m.ID] = true
			}
		case Down:
			for id := range open {
				if x.Moment(id).Host == m.Host {
					delete(open, id)
				}
			}
		}
	}
	for id := range open {
		x.about(id)
		x.calls[id] = true
	}
	for i := range before {
		m := &before[i]
		text, ok := x.messages(m)
		if !ok {
			continue
		}
		for token := range numbersAfter("token", text) {
			if x.tokens[token] && !heard[token] {
				x.way(m.ID)
				x.raise(m.ID, way) // even if it is sent all the time
				x.since(x.calledFor(m.ID))
			}
		}
	}
}

// calledFor returns the nearest call on the way to a moment, or the beginning of the way.
func (x *tale) calledFor(id int) (from int) {
	for _, from = range slices.Backward(x.Chain(id)) {
		if x.Moment(from).Kind == Called {
			break
		}
	}
	return from
}

// speaksOf reports whether the failure names a host, alone or with an actor on it.
func (x *tale) speaksOf(host string) bool {
	return slices.Contains(strings.FieldsFunc(x.verdict.Text, func(r rune) bool { return strings.ContainsRune(" \n\t/,;:()", r) }), host)
}

// requests ranks the frames that were sent because of the calls that the failure is about,
// and speak of its keys.
func (x *tale) requests() {
	from := make(map[int]bool)
	for i := range x.Moments[:x.verdict.ID-1] {
		m := &x.Moments[i]
		if x.calls[m.ID] || from[m.because()] && x.speaks(m) {
			from[m.ID] = true
			x.raise(m.ID, way)
		}
	}
}

// quotes reports whether a text names one of the keys.
func (x *tale) quotes(text string) bool {
	for key := range x.keys {
		if strings.Contains(text, strconv.Quote(key)) {
			return true
		}
	}
	return false
}

// speaks reports whether m is about a frame that speaks of one of the keys.
func (x *tale) speaks(m *Moment) bool {
	text, _ := x.messages(m)
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" ,:", r) }) {
		if x.keys[word] {
			return true
		}
	}
	return false
}

// faults ranks the faults that lasted, or happened, since what the failure is about began. If
// that is not known, they are those that are not over.
func (x *tale) faults() {
	begins, shown := x.begins, 0
	if begins == 0 {
		begins = x.verdict.ID
	}
	again, down := make(map[int]bool), make(map[string]bool) // that a host runs at first is no news
	for i := range x.Moments {
		switch m := &x.Moments[i]; m.Kind {
		case Down:
			down[m.Host] = true
		case Up:
			again[m.ID] = down[m.Host]
		}
	}
	over := make(map[int]bool) // faults that ended before
	for i := x.verdict.ID - 2; i >= 0; i-- {
		m := &x.Moments[i]
		meanwhile := m.ID > begins
		switch m.Kind {
		case Ended:
			over[m.Begin] = !meanwhile
		case Fault:
			meanwhile = meanwhile || !over[m.ID]
		case Struck, Down, Paused, Resumed:
		case Up:
			meanwhile = meanwhile && again[m.ID]
		default:
			continue
		}
		switch {
		case x.implied(m):
		case meanwhile && shown < maxFaults:
			shown++
			x.raise(m.ID, fault)
		case meanwhile || x.begins == 0:
			x.raise(m.ID, akin)
		}
	}
}

// leaders ranks who led the shards of the failure's keys, and the shards that it names.
func (x *tale) leaders() {
	shards := numbersAfter("shard", x.verdict.Text)
	for i := range x.Moments {
		if m := &x.Moments[i]; m.Kind == Depth && x.named && x.keys[m.Key] {
			shards[strconv.Itoa(m.Shard)] = true
		}
	}
	shown := 0
	for i := x.verdict.ID - 2; i >= 0 && shown < maxLeaders; i-- {
		m := &x.Moments[i]
		if m.Kind != Role || !shards[strconv.Itoa(m.Shard)] || m.Role != roles[0] {
			continue
		}
		x.raise(m.ID, fault)
		if shown++; m.ID < x.begins {
			break // it led when that began
		}
	}
}

// rest ranks what else happened to the keys, and what users say.
func (x *tale) rest() {
	for i := range x.Moments[:x.verdict.ID-1] {
		m := &x.Moments[i]
		r := akin
		switch m.Kind {
		case Called, Refused, Held, HoldEnded, Unlocked:
			if len(x.keys) > 0 && !x.keys[m.Key] {
				continue
			}
		case Property:
		case Note:
			switch {
			case m.Actor == "": // a node's log
				continue
			case x.named && !x.actors[m.who()] && !x.quotes(m.Text):
				r = earlier
			}
		case Sent, Arrived, Lost:
			if r = aside; !x.speaks(m) {
				continue
			}
		default:
			continue
		}
		if m.ID < x.begins {
			r = earlier
		}
		x.raise(m.ID, r)
	}
}

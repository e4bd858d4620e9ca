package timeline

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// span is something that lasts: it begins with a moment, and ends with another or,
// if end is 0, not in this run.
type span struct{ begin, end int }

// faultSpan is a fault and the lanes that it concerns; none means all.
type faultSpan struct {
	span
	lanes []int
}

// faults returns all faults in the order in which they begin.
func (t *Timeline) faults() []faultSpan {
	lanes := make(map[string]int, len(t.Hosts))
	for i, host := range t.Hosts {
		lanes[host] = i
	}
	var all []faultSpan
	index := make(map[int]int) // by the ID of the Fault
	for i := range t.Moments {
		switch m := &t.Moments[i]; m.Kind {
		case Fault:
			index[m.ID] = len(all)
			all = append(all, faultSpan{span{m.ID, 0}, concerned(m, lanes)})
		case Ended:
			if i, ok := index[m.Begin]; ok && all[i].end == 0 {
				all[i].end = m.ID
			}
		}
	}
	return all
}

// concerned returns the lanes that a fault is about: its host's, or those of the hosts
// that its text names.
func concerned(m *Moment, lanes map[string]int) []int {
	if lane, ok := lanes[m.Host]; ok {
		return []int{lane}
	}
	var named []int
	for _, word := range strings.FieldsFunc(m.Text, func(r rune) bool { return strings.ContainsRune(" \t\n|,;:()[]<>→", r) }) {
		if lane, ok := lanes[word]; ok {
			named = append(named, lane)
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// holdSpan is a hold. Holds of one key that last at the same time have different slots,
// as low ones as there are.
type holdSpan struct {
	span
	slot int
}

// overlap is a time in which more held a key than it has room for, as far as the moments
// tell. It is no violation by itself: a holder may stop to believe in its hold a while
// before the end of that is recorded. What paused and dead processes believe does not
// count, as they cannot act on it.
type overlap struct {
	holds []int // the IDs of the Helds
	from  int   // the moment since when
	end   int   // the moment that ended it, or 0
}

// share is how much of a key a hold takes.
type share struct{ weight, capacity float64 }

// shareOf reads what was asked for: "lock", "read", "2 of 3".
func shareOf(called *Moment) share {
	if called == nil {
		return share{1, 1}
	}
	word := strings.Fields(called.Text)
	switch {
	case len(word) > 0 && word[0] == "read":
		return share{0, math.Inf(1)}
	case len(word) > 2 && word[1] == "of":
		if weight, capacity := number(word[0]), number(word[2]); weight > 0 && capacity >= weight {
			return share{weight, capacity}
		}
	}
	return share{1, 1}
}

// number returns 0 for what is none.
func number(s string) float64 {
	n, err := strconv.ParseUint(s, 10, 53)
	if err != nil {
		return 0
	}
	return float64(n)
}

// holds returns all holds in the order in which they begin, and all overlaps.
func (t *Timeline) holds() ([]holdSpan, []overlap) {
	x := &holdScan{
		Timeline: t,
		index:    make(map[int]int),
		live:     make(map[string][]int),
		open:     make(map[string]int),
		stopped:  make(map[string]bool),
		onHost:   make(map[string][]int),
	}
	for i := range t.Moments {
		x.take(&t.Moments[i])
	}
	return x.spans, slices.DeleteFunc(x.overlaps, func(o overlap) bool { return !t.lasts(o) })
}

// holdScan finds the holds and the overlaps. It takes one moment after another.
type holdScan struct {
	*Timeline
	spans    []holdSpan
	overlaps []overlap
	index    map[int]int      // into spans, by the ID of the Held
	live     map[string][]int // by key: IDs of Helds that have not ended
	open     map[string]int   // by key: one more than the index of the overlap that lasts
	stopped  map[string]bool  // hosts that are down or paused
	onHost   map[string][]int // by host: IDs of its Helds, ended ones too until the next look
}

func (x *holdScan) take(m *Moment) {
	switch m.Kind {
	case Held:
		x.begin(m)
	case HoldEnded, Unlocked:
		x.finish(m.Begin, m.ID)
	case Up:
		x.stopped[m.Host] = false
	case Down:
		for _, held := range x.onHost[m.Host] {
			x.finish(held, m.ID)
		}
		delete(x.onHost, m.Host)
		x.stopped[m.Host] = false
	case Paused, Resumed:
		x.stopped[m.Host] = m.Kind == Paused
		x.onHost[m.Host] = slices.DeleteFunc(x.onHost[m.Host], func(held int) bool { return x.spans[x.index[held]].end != 0 })
		// A hold that is found to be over on waking is no overlap: that is seen
		// at the same instant, so only what lasts longer counts (see lasts).
		for _, held := range x.onHost[m.Host] {
			x.review(x.Moment(held).Key, m.ID)
		}
	}
}

// begin begins the hold of a Held, in the lowest slot that is free.
func (x *holdScan) begin(held *Moment) {
	taken := make([]bool, len(x.live[held.Key])+1)
	for _, id := range x.live[held.Key] {
		if slot := x.spans[x.index[id]].slot; slot < len(taken) {
			taken[slot] = true
		}
	}
	x.index[held.ID] = len(x.spans)
	x.spans = append(x.spans, holdSpan{span{held.ID, 0}, slices.Index(taken, false)})
	x.live[held.Key] = append(x.live[held.Key], held.ID)
	x.onHost[held.Host] = append(x.onHost[held.Host], held.ID)
	x.review(held.Key, held.ID)
}

// finish ends the hold of a Held with the moment now, unless it is over already.
func (x *holdScan) finish(held, now int) {
	i, ok := x.index[held]
	if !ok || x.spans[i].end != 0 {
		return
	}
	x.spans[i].end = now
	key := x.Moment(held).Key
	x.live[key] = slices.DeleteFunc(x.live[key], func(id int) bool { return id == held })
	x.review(key, now)
}

// review begins, extends or ends the overlap of a key, as its holds now demand.
func (x *holdScan) review(key string, now int) {
	holders := x.tooMany(key)
	i := x.open[key]
	switch {
	case i > 0 && holders == nil:
		x.overlaps[i-1].end = now
		delete(x.open, key)
	case i == 0 && holders != nil:
		x.overlaps = append(x.overlaps, overlap{holds: holders, from: now})
		x.open[key] = len(x.overlaps)
	case i > 0:
		o := &x.overlaps[i-1]
		o.holds = append(o.holds, holders...)
		slices.Sort(o.holds)
		o.holds = slices.Compact(o.holds)
	}
}

// tooMany returns the holders of a key, if they have more than there is.
func (x *holdScan) tooMany(key string) []int {
	var holders []int
	sum, capacity := 0.0, math.Inf(1)
	for _, id := range x.live[key] {
		m := x.Moment(id)
		if x.stopped[m.Host] {
			continue
		}
		s := shareOf(x.Moment(m.Begin))
		sum += s.weight
		capacity = min(capacity, s.capacity)
		holders = append(holders, id)
	}
	alone := capacity == 1 && len(holders) > 1 // one of them, beside readers
	if alone || sum > capacity {
		return holders
	}
	return nil
}

func (t *Timeline) lasts(o overlap) bool {
	return o.end == 0 || t.Moment(o.end).At > t.Moment(o.from).At
}

// violation is what a reader of a run that failed wants to see first.
type violation struct {
	moment int   // the Failure, or the first property that was broken
	holds  []int // the Helds that it is about, if it is about any, all of one key
	atOnce bool  // they are too many to be held at once, as far as they are
}

// violation returns nil if nothing went wrong. The holds are those of which the verdict
// names key and token, if there are two at least; or else those that are too many for
// its key at that moment; or else those that a broken property may be about.
func (t *Timeline) violation(overlaps []overlap) *violation {
	at := slices.IndexFunc(t.Moments, func(m Moment) bool { return m.Kind == Failure })
	if at < 0 {
		at = slices.IndexFunc(t.Moments, func(m Moment) bool { return m.broken() })
	}
	if at < 0 {
		return nil
	}
	verdict := &t.Moments[at]
	v := &violation{moment: verdict.ID}
	words := make(map[string]bool)
	for _, word := range strings.FieldsFunc(verdict.Text, func(r rune) bool { return r < '0' || r > '9' }) {
		words[word] = true
	}
	for i := range t.Moments[:at] {
		m := &t.Moments[i]
		if m.Kind != Held || !words[strconv.FormatUint(m.Token, 10)] || !strings.Contains(verdict.Text, strconv.Quote(m.Key)) {
			continue
		}
		if len(v.holds) > 0 && t.Moment(v.holds[0]).Key != m.Key {
			v.holds = nil
		}
		v.holds = append(v.holds, m.ID)
	}
	v.atOnce = true
	if len(v.holds) > 1 {
		return v
	}
	v.holds = nil
	for _, o := range overlaps {
		if lasts := o.from <= verdict.ID && (o.end == 0 || o.end > verdict.ID); lasts && t.Moment(o.holds[0]).Key == verdict.Key {
			v.holds = o.holds
		}
	}
	if v.holds == nil {
		v.holds, v.atOnce = t.behind(verdict), false
	}
	return v
}

const maxBehind = 6 // holds that are shown for a property

// behind returns the holds that a verdict may be about which names none: if it says that
// a property is broken, those of the key that the actor holds, from the one before its
// own on, but not more than maxBehind.
func (t *Timeline) behind(verdict *Moment) []int {
	if before := t.Moment(verdict.Cause); verdict.Kind == Failure && before != nil {
		verdict = before
	}
	if verdict.Kind != Property || !verdict.broken() || verdict.Actor == "" {
		return nil
	}
	var own []int // what the actor holds
	byKey := make(map[string][]int)
	for i := range t.Moments[:verdict.ID-1] {
		switch m := &t.Moments[i]; m.Kind {
		case Held:
			byKey[m.Key] = append(byKey[m.Key], m.ID)
			if m.Host == verdict.Host && m.Actor == verdict.Actor {
				own = append(own, m.ID)
			}
		case HoldEnded, Unlocked:
			own = slices.DeleteFunc(own, func(id int) bool { return id == m.Begin })
		}
	}
	if len(own) == 0 {
		return nil
	}
	latest := own[len(own)-1]
	holds := byKey[t.Moment(latest).Key]
	holds = holds[max(0, slices.Index(holds, latest)-1):]
	if len(holds) > maxBehind {
		holds = slices.Concat(holds[:2], holds[len(holds)-maxBehind+2:])
	}
	return holds
}

// end is the time at which the picture ends.
func (t *Timeline) end() time.Duration {
	end := t.Duration
	if n := len(t.Moments); n > 0 {
		end = max(end, t.Moments[n-1].At)
	}
	return max(end, time.Microsecond)
}

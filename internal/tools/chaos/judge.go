package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// judge reads the records of a journal in their order, and finds what breaks a promise of the mesh. It goes by the
// times and tokens of the records alone, never by what a node says of the mesh.
//
// # What a holder believed
//
// A hold is believed in from the moment at which its call had returned (the record granted, to) until
//
//   - the last moment before a look at Lock.Err that found nil (act, from);
//   - the moment before an Unlock that returned nil (ended, from): the lease had not ended before.
//
// A process may be stopped, or be without a processor, at any point of its program, also between a look and the
// record of it. The interval from returned to the last of those moments is certain all the same: the time is
// taken before the look, and the lock was held when the look found nil. So no intervals that overlap can be
// explained by a late process. A look at the context alone counts in the same way, unless the process had been
// stopped or stalled in the last moments: the context ends once the process has read its mailboxes.
//
// # What is a violation
//
//   - overlap (G1): certain beliefs of one key overlap, and one is exclusive, or the permits are more than there are.
//   - token (G2): two grants of a key have one token; a call that began after another one had returned got the
//     smaller one; or an exclusive belief that was over before another one of the key began has the larger one.
//   - late write (G1, G2): an exclusive holder wrote after a write with a larger token, although no more time passed
//     between its last look and its next record than the margin by which its belief ends before the lease does. If
//     more did, the process was late, and the write is counted as fenced: a resource that compares tokens refuses it.
//   - too long (G5): a hold of fixed length was believed in after its end.
//   - lost (G5): a hold was lost, or one of fixed length ended early, and nothing explains it.
//   - error (G6, G9): a call failed in another way than it may in a healthy mesh, and nothing explains it; or it has
//     not returned long after its context ended.
//   - broken: what a process or the supervisor found to be wrong by itself, for example a key that could not be
//     locked in time after the faults, or a process that ended itself.
//
// A fault explains losses and errors from its begin until the mesh was seen healthy, and for the length of the
// lease after that. A fault that spares all but those it names, and that began in a healthy mesh, explains
// nothing to the others: the kill of one node of the core, the kill or the stop of clients, and every orderly restart (G9). A process that was stalled
// for 0.3 s or more explains its own losses and errors of that time; if it is a node of the core, those of all processes.
type judge struct {
	verdict

	origin   moment // from which texts count
	now      moment
	keys     map[string]*keyState
	open     map[string]*hold   // by who and call: holds that have not ended
	begun    map[string]record  // by who and call: calls that have not returned
	stops    map[string][]span  // by process: when it was stopped, or stalled
	last     map[string]*latest // by who and call: the write whose next record is awaited
	faults   []disturbance
	core     map[string]bool // names of processes that are at an entry
	deferred []deferral
}

// verdict is what a judge has found.
type verdict struct {
	grants, writes int
	fenced         int            // late writes that the tokens stop
	overs          int            // holds of fixed length that came to their end
	losses         map[string]int // lost holds, by what explains them
	errors         map[string]int // failed calls, by class
	wait           time.Duration  // the longest for a key that nobody believed in
	waited         string         // for which, when
	violations     []violation
}

// violation is one broken promise.
type violation struct {
	kind string
	at   moment
	text string
}

// keyState is what the judge knows of one key.
type keyState struct {
	holds   []*hold // those of the last time, by the order of their records
	tokens  map[uint64]string
	written uint64 // the largest token of a write of an exclusive holder
	forgot  uint64 // the largest token of a hold that is not in holds any more
	until   moment // when those had returned at the latest
}

// hold is one grant.
type hold struct {
	record             // granted
	believed    moment // until when for certain; zero: not at all
	overlapping bool   // reported
}

// span is an interval; to is zero while it lasts.
type span struct{ from, to moment }

// disturbance is a fault, until the mesh was seen healthy again.
type disturbance struct {
	span
	kind  string
	named []string
	alone bool // it spares whom it does not name, and began in a healthy mesh
}

// latest is a write that came after one with a larger token.
type latest struct {
	write record
	over  uint64 // that token
}

// deferral is a check that waits until records of what may explain something have arrived.
type deferral struct {
	at    moment
	check func()
}

const (
	memory   = 90 * time.Second       // for which holds are remembered; longer than any process is stopped, or waits
	patience = 4 * time.Second        // for records of what may explain something
	afterlag = 250 * time.Millisecond // for which a context may outlive a stop
	lateness = 300 * time.Millisecond // a stall that may cost a lease
	overtime = 10 * time.Second       // for which a call may go on when its time is over
	longest  = 15 * time.Second       // a call that waited so long in a healthy mesh should have returned
)

func newJudge() *judge {
	return &judge{
		verdict: verdict{losses: make(map[string]int), errors: make(map[string]int)},
		keys:    make(map[string]*keyState), open: make(map[string]*hold), begun: make(map[string]record),
		stops: make(map[string][]span), last: make(map[string]*latest), core: make(map[string]bool),
	}
}

func (j *judge) violate(kind string, at moment, format string, args ...any) {
	j.violations = append(j.violations, violation{kind, at, fmt.Sprintf(format, args...)})
}

// see takes the next record of the journal.
func (j *judge) see(r record) {
	j.now = max(j.now, r.from, r.to)
	j.settleWrite(r)
	switch r.kind {
	case called:
		j.begun[r.id()] = r
	case granted:
		j.granted(r)
	case failed:
		j.failed(r)
	case act:
		j.act(r)
	case ended:
		j.ended(r)
	case broken:
		j.violate("broken", r.from, "%s: %s", r.who, r.note)
	default:
		j.supervised(r)
	}
	j.check(j.now)
}

// finish makes the checks that were deferred.
func (j *judge) finish() { j.check(1 << 62) }

func (j *judge) check(now moment) {
	n := 0
	for ; n < len(j.deferred) && j.deferred[n].at <= now; n++ {
		j.deferred[n].check()
	}
	j.deferred = j.deferred[n:]
}

// later makes a check when the records of what may explain a thing have arrived. Deferrals are in order of
// time, since the clock of the judge only grows.
func (j *judge) later(check func()) {
	j.deferred = append(j.deferred, deferral{j.now.add(patience), check})
}

func (r record) id() string { return r.who + "/" + r.call }

// process returns the name of the process, without the number of its start.
func (r record) process() string {
	name, _, _ := strings.Cut(r.who, ".")
	return name
}

func (j *judge) key(name string) *keyState {
	k := j.keys[name]
	if k == nil {
		k = &keyState{tokens: make(map[uint64]string)}
		j.keys[name] = k
	}
	return k
}

// granted takes a new hold, and compares its token with those of the other grants.
func (j *judge) granted(r record) {
	j.grants++
	delete(j.begun, r.id())
	k := j.key(r.key)
	if other, has := k.tokens[r.token]; has || r.token == 0 {
		j.violate("token", r.to, "%s got token %d of %s, which %s had got", r.id(), r.token, r.key, cmp.Or(other, "nobody"))
	}
	k.tokens[r.token] = r.id()
	k.forget(j.now.add(-memory))
	if k.forgot > r.token && k.until < r.from {
		j.violate("token", r.to, "%s got token %d of %s, and before the call another one had got %d", r.id(), r.token, r.key, k.forgot)
	}
	free := r.from
	for _, g := range k.holds {
		first, second := &g.record, &r
		if r.to < g.from {
			first, second = second, first
		}
		if first.to < second.from && first.token > second.token {
			j.violate("token", r.to, "%s called after %s had got token %d of %s, and got %d",
				second.id(), first.id(), first.token, r.key, second.token)
		}
		free = max(free, g.believed, g.to)
	}
	if w := r.to.sub(free); w > j.wait {
		j.wait, j.waited = w, fmt.Sprintf("%s, by %s, until %s", r.key, r.who, j.clock(r.to))
	}
	h := &hold{record: r}
	k.holds = append(k.holds, h)
	j.open[r.id()] = h
}

// forget drops the holds that are over for long.
func (k *keyState) forget(before moment) {
	k.holds = slices.DeleteFunc(k.holds, func(h *hold) bool {
		if max(h.believed, h.to) >= before {
			return false
		}
		k.forgot, k.until = max(k.forgot, h.token), max(k.until, h.to)
		return true
	})
}

// act takes a look of a holder, and its write.
func (j *judge) act(r record) {
	h := j.open[r.id()]
	if h == nil {
		j.violate("broken", r.from, "%s acts without a lock", r.id())
		return
	}
	if h.isFixed() && r.note == byErr && r.from > h.to.add(h.ttl) {
		j.violate("too long", r.from, "%s still holds %s %v after Lock returned; its length is %v", r.id(), r.key, r.from.sub(h.to), h.ttl)
	}
	if r.note == byErr {
		j.believe(h, r.from)
	} else {
		j.later(func() {
			if !j.wasLate(r.process(), r.from.add(-afterlag), r.from) {
				j.believe(h, r.from)
			}
		})
	}
	if r.mode != exclusive {
		return
	}
	j.writes++
	if k := j.key(r.key); k.written > r.token {
		j.last[r.id()] = &latest{r, k.written}
	} else {
		k.written = r.token
	}
}

// settleWrite decides about a late write when the next record of the same call, or the end of its process, shows
// how long it took at most.
func (j *judge) settleWrite(r record) {
	if r.kind == killed || r.kind == started {
		for id, w := range j.last {
			if slices.Contains(strings.Split(r.who, ","), w.write.process()) {
				j.writeWas(w, r.from)
				delete(j.last, id)
			}
		}
		return
	}
	if w := j.last[r.id()]; w != nil {
		j.writeWas(w, r.from)
		delete(j.last, r.id())
	}
}

func (j *judge) writeWas(w *latest, after moment) {
	r := w.write
	if after.sub(r.from) > margin(r.ttl) {
		j.fenced++ // it is no matter whether it looked at Err or at the context: it was late
		return
	}
	j.later(func() {
		if r.note == byContext && j.wasLate(r.process(), r.from.add(-afterlag), after) {
			j.fenced++
			return
		}
		j.violate("late write", r.from, "%s wrote to %s with token %d after a write with %d, %v after it had looked",
			r.id(), r.key, r.token, w.over, after.sub(r.from))
	})
}

// margin is less than the time by which a holder's belief in a lease ends before the table's (P1).
func margin(ttl time.Duration) time.Duration { return ttl * 19 / 1000 }

// ended takes the end of a hold.
func (j *judge) ended(r record) {
	h := j.open[r.id()]
	if h == nil {
		j.violate("broken", r.from, "%s ends a hold that it does not have", r.id())
		return
	}
	delete(j.open, r.id())
	switch {
	case r.note == released:
		j.believe(h, r.from)
	case r.note != lost:
	case h.isFixed() && r.from >= h.from.add(h.ttl-margin(h.ttl)-h.ttl/100):
		j.overs++
	default:
		j.later(func() { j.lost(h, r.from) })
	}
}

// lost looks for what explains a loss.
func (j *judge) lost(h *hold, at moment) {
	why := j.explain(h.process(), at.add(-h.ttl-time.Second/2), at)
	if why == "" {
		j.violate("lost", at, "%s lost %s, which it had got at %s with a lease of %v", h.id(), h.key, j.clock(h.to), h.ttl)
		why = "nothing"
	}
	j.losses[why]++
}

// failed takes the error of a call.
func (j *judge) failed(r record) {
	j.errors[r.note]++
	delete(j.begun, r.id())
	switch {
	case r.note == "locked" || r.note == "rest": // of Try; or it was told to end its calls
	case r.note == "timeout" && r.to.sub(r.from) < longest:
	default:
		j.later(func() {
			if j.explain(r.process(), r.from.add(-time.Second/2), r.to) == "" {
				j.violate("error", r.to, "%s: a call for %s failed after %v: %s", r.id(), r.key, r.to.sub(r.from), r.note)
			}
		})
	}
}

// believe extends the time for which a hold was believed in for certain, and compares it with the other holds.
func (j *judge) believe(h *hold, until moment) {
	if until < h.to || until <= h.believed {
		return
	}
	h.believed = until
	for _, g := range j.key(h.key).holds {
		if g == h || g.believed == 0 || g.mode != exclusive && h.mode != exclusive {
			continue
		}
		first, second := g, h
		if h.to < g.to {
			first, second = h, g
		}
		switch {
		case first.believed > second.to:
			if !h.overlapping || !g.overlapping {
				h.overlapping, g.overlapping = true, true
				j.violate("overlap", second.to, "%s believed in %s (%s, token %d) until %s, and %s (%s, token %d) from %s on",
					first.id(), h.key, first.mode, first.token, j.clock(first.believed), second.id(), second.mode, second.token, j.clock(second.to))
			}
		case first.token > second.token && !h.overlapping:
			h.overlapping = true
			j.violate("token", second.to, "%s held %s with token %d before %s did with %d", first.id(), h.key, first.token, second.id(), second.token)
		}
	}
	if h.mode == permits && !h.overlapping {
		j.weigh(h)
	}
}

// weigh compares the permits that were believed in during a hold with the capacity.
func (j *judge) weigh(h *hold) {
	all := slices.DeleteFunc(slices.Clone(j.key(h.key).holds), func(g *hold) bool {
		return g.believed == 0 || g.believed < h.to || g.to > h.believed
	})
	for _, at := range all {
		sum, from := int64(0), max(at.to, h.to)
		var who []string
		var together []*hold
		for _, g := range all {
			if g.to <= from && from < g.believed {
				sum += g.weight
				who, together = append(who, fmt.Sprintf("%s (%d)", g.id(), g.weight)), append(together, g)
			}
		}
		if sum > h.capacity {
			for _, g := range together {
				g.overlapping = true // reported once
			}
			j.violate("overlap", from, "of the %d permits of %s, %d were believed in: %s", h.capacity, h.key, sum, strings.Join(who, ", "))
			return
		}
	}
}

// isFixed tells whether a hold has a fixed length.
func (h *hold) isFixed() bool { return h.note == fixedLength }

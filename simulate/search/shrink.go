package search

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// Budget is what shrinking a failure may cost. Zero fields have their defaults.
type Budget struct {
	// Runs is how many runs of the scenario shrinking may take; default 1000.
	Runs int
	// For is how long shrinking may take, in real time; default 2 minutes. If For ends before Runs are used up, two machines
	// may find different smallest failures.
	For time.Duration
	// Variants is how many courses of events are tried with each change (see Options.Variant); default 5. The first round
	// tries two, and large changes are tried in up to three times as many.
	Variants int
}

// Shrunk is a failure made small.
type Shrunk struct {
	// Before is the run as it was found, and After the smallest that still failed in the
	// same way: with as few faults as possible, few hosts, and all else at its calmest.
	Before, After Outcome
	// Runs is how many runs the shrinking took.
	Runs int
	// Confirmed is true if After was played twice, with the same hash and error.
	Confirmed bool
	// Interrupted is true if the context ended first: After is the smallest so far, and was
	// seen once.
	Interrupted bool
}

// Shrink looks for the smallest case that fails as o does: with a message that is equal up
// to the first colon, numbers and quoted texts aside. It leaves out faults (Options.Only), and
// lowers parameters towards their least values (Options.Set). Since each such change alters everything
// that comes later, it tries several courses of events (Options.Variant) each time. When ctx ends, the worlds
// under way end before their next events, and Shrink returns the smallest failure so far. The
// same failure shrinks the same way, if there is time enough.
//
//	shrunk := plan.Shrink(ctx, report.Findings[0].First)
//	fmt.Println(shrunk.After.Case)
func (s Plan) Shrink(ctx context.Context, o Outcome) Shrunk {
	result := Shrunk{Before: o, After: o}
	s.Options.Interrupt = ctx.Done()
	class := classOf(o.Err)
	if o.Err == nil || !smaller(o.Err) || s.check() != nil {
		return result
	}
	x := &shrinker{Plan: s, ctx: ctx, class: class, before: o, best: o, tried: make(map[string]bool)}
	x.budget = s.Budget.orDefault()
	x.deadline = time.Now().Add(x.budget.For)
	x.shrink()
	result.Runs, result.After = x.runs, x.best
	if ctx.Err() == nil {
		again := s.Replay(x.best.Case, false)
		result.Runs++
		result.Confirmed = again.Hash == x.best.Hash && text(again.Err) == text(x.best.Err)
	}
	result.Interrupted = ctx.Err() != nil && !result.Confirmed
	return result
}

// smaller reports whether to look for a smaller run that fails with err: of one that is not
// repeatable, there is none, and t.Fatal would be called in each.
func smaller(err error) bool {
	_, unrepeatable := errors.AsType[*Unrepeatable](err)
	return !unrepeatable && !errors.Is(err, simulate.ErrExited)
}

// shrinker is one failure being shrunk.
type shrinker struct {
	Plan
	ctx      context.Context
	class    string
	budget   Budget
	deadline time.Time
	variants int // to be tried with a small change
	runs     int
	played   int // with those whose failure is not needed
	before   Outcome
	best     Outcome
	tried    map[string]bool // cases that did not fail so
}

func (x *shrinker) over() bool { return x.runs >= x.budget.Runs || x.late() }

// late reports whether no more runs are to be begun.
func (x *shrinker) late() bool { return x.ctx.Err() != nil || !time.Now().Before(x.deadline) }

// shrink looks first whether much of the world can go at once: the less there is, the less
// each further run takes. What is due to few faults then needs few parameters, as a rule.
func (x *shrinker) shrink() {
	x.variants = min(2, x.budget.Variants)
	x.name()
	x.parameters(true)
	for round := 0; round < 4 && !x.over(); round++ {
		before := x.best.Case.String()
		x.faults()
		x.parameters(false)
		if round > 0 && x.best.Case.String() == before {
			break
		}
		x.variants = x.budget.Variants
	}
}

// name names the faults that happened, in place of all. A storm whose faults are named
// does not end before the last of them, however short it shall be.
func (x *shrinker) name() {
	c := x.best.Case.clone()
	c.Only = []string{}
	for _, f := range x.best.Faults {
		c.Only = append(c.Only, f.Name)
	}
	x.take(1, c)
}

// take takes the first of the cases that fails as it should, and returns its index; -1 if
// none does. All are tried in the course of events that failed last, then all in another
// one, so that what fails easily is found soon. Size is how many things each case leaves
// out. What is taken, and how many runs that counts as, does not depend on the workers.
func (x *shrinker) take(size int, cases ...Case) int {
	type attempt struct {
		Case
		index int
	}
	var attempts []attempt
	asked := make(map[string]bool)
	for _, v := range x.courses(size) {
		for i, c := range cases {
			c.Variant = v
			if key := c.String(); !x.tried[key] && !asked[key] {
				asked[key] = true
				attempts = append(attempts, attempt{c, i})
			}
		}
	}
	attempts = attempts[:min(len(attempts), max(x.budget.Runs-x.runs, 0))]
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, first := 0, len(attempts) // first is the lowest that fails
	var found Outcome
	for range x.Workers {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < first && !x.late() {
				i := next
				next++
				mu.Unlock()
				o := x.try(attempts[i].Case)
				mu.Lock()
				if i < first && classOf(o.Err) == x.class {
					first, found = i, o
				}
				if x.played++; x.Shrinking != nil {
					x.Shrinking(Shrunk{Before: x.before, After: x.best, Runs: x.played})
				}
			}
		})
	}
	wg.Wait()
	for _, a := range attempts[:min(next, first)] { // those behind the first were only quick
		x.runs++
		x.tried[a.String()] = true
	}
	if first == len(attempts) {
		return -1
	}
	x.runs++
	x.best = found
	return attempts[first].index
}

// courses returns the variants to be tried with a change. One that leaves out many things
// at once is worth more of them, since it saves as many changes.
func (x *shrinker) courses(size int) []uint64 {
	n := max(x.variants, min(size/3, 3*x.budget.Variants))
	variants := []uint64{x.best.Case.Variant}
	for v := uint64(0); len(variants) < n; v++ {
		if v != variants[0] {
			variants = append(variants, v)
		}
	}
	return variants
}

// try plays a case, and gives it up when it has gone on for much longer than the smallest
// so far took to fail: what has not happened by then is not worth the wait, as a rule.
func (x *shrinker) try(c Case) Outcome {
	s := x.Plan
	u := &s.Options.Until
	if end := x.best.Time*3/2 + 5*time.Second; u.Time == 0 || u.Time > end {
		u.Time = end
	}
	if end := 2*x.best.Events + 20_000; u.Events == 0 || u.Events > end {
		u.Events = end
	}
	return s.Replay(c, false)
}

// faults leaves out as many faults as it can.
func (x *shrinker) faults() {
	if x.name(); x.best.Case.Only == nil {
		return // not in these courses of events; perhaps in another world
	}
	only := func(names []string) Case {
		c := x.best.Case.clone()
		c.Only = append([]string{}, names...)
		return c
	}
	// What came last is what it is due to, often.
	happened := x.best.Case.Only
	var last [][]string
	for n := 1; n < len(happened); n *= 2 {
		last = append(last, happened[len(happened)-n:])
	}
	x.take(1, each(last, only)...)
	minimize(x.best.Case.Only, 1, func(size int, parts [][]string) int { return x.take(size, each(parts, only)...) })
}

// each returns the cases of some lists of names.
func each(lists [][]string, named func([]string) Case) (cases []Case) {
	for _, names := range lists {
		cases = append(cases, named(names))
	}
	return cases
}

// parameters lowers as many parameters as it can, or, if that is to be quick, only many
// at once.
func (x *shrinker) parameters(quick bool) {
	// kept is the case in which only these parameters are above their least.
	kept := func(names []string) Case {
		c := x.best.Case.clone()
		c.Set = map[string]int64{"*": simulate.Least}
		for _, p := range x.best.Parameters {
			if slices.Contains(names, p.Name) {
				c.Set[p.Name] = p.Value
			}
		}
		return c
	}
	raised := func() (names []string) {
		for _, p := range x.best.Parameters {
			if p.Value > p.Least {
				names = append(names, p.Name)
			}
		}
		return names
	}
	names := raised()
	if len(names) == 0 {
		return
	}
	// Fault points in the code and lost kinds of messages first, all at once: there are many.
	x.take(len(names), kept(nil), kept(slices.DeleteFunc(names, x.isSwitch)))
	finest := 1
	names = raised()
	if quick {
		finest = (len(names) + 3) / 4
	}
	names = minimize(names, finest, func(size int, parts [][]string) int { return x.take(size, each(parts, kept)...) })
	if quick {
		return
	}
	x.take(1, kept(names)) // they are the same, and said in fewer words
	x.lower(names)
}

func (x *shrinker) isSwitch(name string) bool {
	return slices.ContainsFunc(x.best.Parameters, func(p simulate.Parameter) bool { return p.Name == name && p.Switch })
}

// lower makes smaller, in few steps, what cannot be least.
func (x *shrinker) lower(names []string) {
	type span struct {
		name      string
		low, high int64 // low does not fail
		steps     int   // that are left
	}
	var spans []span
	for _, p := range x.best.Parameters {
		if slices.Contains(names, p.Name) {
			spans = append(spans, span{p.Name, p.Least, p.Value, 6})
		}
	}
	for {
		var open []*span
		var cases []Case
		for i := range spans {
			s := &spans[i]
			if s.steps == 0 || s.high-s.low < 2 {
				continue
			}
			c := x.best.Case.clone()
			if c.Set == nil {
				c.Set = make(map[string]int64)
			}
			c.Set[s.name] = s.low + (s.high-s.low)/2
			open, cases = append(open, s), append(cases, c)
		}
		if len(open) == 0 {
			return
		}
		taken := x.take(1, cases...)
		for i, s := range open {
			middle := cases[i].Set[s.name]
			switch taken {
			case i:
				s.high = middle
			case -1:
				s.low = middle
			default:
				continue
			}
			s.steps--
		}
	}
}

// minimize returns a part of items, in their order, that fails as all of them do. It leaves
// out halves, then quarters, and so on down to finest items at a time; with 1, none of what
// it returns can be left out alone: delta debugging, by complements (Zeller and Hildebrandt,
// IEEE TSE 28(2), 2002). Fails returns the index of the first of some parts that fails, or
// -1; size is how many items each of them lacks. It is not asked about all items. Where
// failing is not monotonic, the result is one such part, and not always the smallest.
func minimize(items []string, finest int, fails func(size int, parts [][]string) int) []string {
	if len(items) == 0 || fails(len(items), [][]string{nil}) == 0 {
		return nil
	}
	size := (len(items) + 1) / 2
	for len(items) > 1 {
		before := len(items)
		for from := 0; from < len(items) && size < len(items); {
			var parts [][]string
			for i := from; i < len(items); i += size {
				parts = append(parts, slices.Concat(items[:i], items[min(i+size, len(items)):]))
			}
			found := fails(size, parts)
			if found < 0 {
				break
			}
			items, from = parts[found], from+found*size
		}
		switch {
		case size > finest:
			size = max(min(size, len(items)+1)/2, finest)
		case len(items) == before:
			return items
		}
	}
	return items
}

package simulate

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Budget is what shrinking a failure may cost. Zero fields have their defaults.
type Budget struct {
	Runs     int           // of the scenario; default 1000
	For      time.Duration // of real time; default 2 minutes. Only if it ends first, two machines may differ in what they find
	Variants int           // courses of events that are tried with each change (see Options.Variant); default 5
}

// Shrunk is a failure made small.
type Shrunk struct {
	// Before is the run as it was found, and After the smallest that still failed in the
	// same way: with as few faults as possible, few hosts, and all else at its calmest.
	Before, After Outcome
	// Runs is what it cost.
	Runs int
	// Confirmed is true if After was seen twice, with the same hash and error.
	Confirmed bool
}

// Shrink looks for the smallest case that fails as o does: whose message begins alike, up
// to the first colon, numbers and quoted texts aside. Faults are left out
// (Options.Only), and parameters lowered towards their least (Options.Set). Since either
// moves everything that comes later, several courses of events are tried each time. When
// ctx ends, the smallest so far is returned. The same failure shrinks the same way, if the
// time is enough.
//
//	shrunk := search.Shrink(ctx, report.Findings[0].First)
//	fmt.Println(shrunk.After.Case)
func (s Search) Shrink(ctx context.Context, o Outcome) Shrunk {
	result := Shrunk{Before: o, After: o}
	class := classOf(o.Err)
	if o.Err == nil || class == "unrepeatable" || s.check() != nil {
		return result
	}
	x := &shrinker{Search: s, ctx: ctx, class: class, best: o, tried: make(map[string]bool)}
	b := s.Budget
	for _, v := range []struct {
		field *int
		value int
	}{{&b.Runs, 1000}, {&b.Variants, 5}} {
		if *v.field <= 0 {
			*v.field = v.value
		}
	}
	if b.For <= 0 {
		b.For = 2 * time.Minute
	}
	x.budget, x.deadline = b, time.Now().Add(b.For)
	x.shrink()
	result.Runs = x.runs + 1
	again := s.Replay(x.best.Case, false)
	result.Confirmed = again.Hash == x.best.Hash && text(again.Err) == text(x.best.Err)
	result.After = x.best
	return result
}

// shrinker is one failure being shrunk.
type shrinker struct {
	Search
	ctx      context.Context
	class    string
	budget   Budget
	deadline time.Time
	variants int // to be tried with each change
	runs     int
	best     Outcome
	tried    map[string]bool // cases that did not fail so, whatever their variant
}

func (x *shrinker) over() bool {
	return x.runs >= x.budget.Runs || x.ctx.Err() != nil || !time.Now().Before(x.deadline)
}

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
	x.accept(c)
}

// accept takes c, in one of some courses of events, if it fails as it should.
func (x *shrinker) accept(c Case) bool {
	key := c
	key.Variant = uint64(x.variants) // with more variants, it is worth another try
	if x.over() || x.tried[key.String()] {
		return false
	}
	variants := []uint64{x.best.Case.Variant}
	for v := uint64(0); len(variants) < x.variants; v++ {
		if v != variants[0] {
			variants = append(variants, v)
		}
	}
	for len(variants) > 0 && !x.over() {
		wave := variants[:min(x.Workers, len(variants), x.budget.Runs-x.runs)]
		variants = variants[len(wave):]
		outcomes := make([]Outcome, len(wave))
		var wg sync.WaitGroup
		for i, v := range wave {
			c := c
			c.Variant = v
			wg.Go(func() { outcomes[i] = x.Replay(c, false) })
		}
		wg.Wait()
		for _, o := range outcomes { // those after the first that fails are not counted: they were only quick
			x.runs++
			if classOf(o.Err) == x.class {
				x.best = o
				return true
			}
		}
	}
	if !x.over() {
		x.tried[key.String()] = true
	}
	return false
}

// faults leaves out as many faults as it can.
func (x *shrinker) faults() {
	if x.name(); x.best.Case.Only == nil {
		return // not in these courses of events; perhaps in another world
	}
	happened := x.best.Case.Only
	fails := func(names []string) bool {
		c := x.best.Case.clone()
		c.Only = append([]string{}, names...)
		return x.accept(c)
	}
	// What came last is what it is due to, often.
	for n := 0; n < len(happened); n = max(2*n, 1) {
		if fails(happened[len(happened)-n:]) {
			happened = happened[len(happened)-n:]
			break
		}
	}
	minimize(happened, fails)
}

// coarse is how many halves and quarters of the parameters are tried at first.
const coarse = 6

// parameters lowers as many parameters as it can, or, if that is to be quick, only many
// at once.
func (x *shrinker) parameters(quick bool) {
	// kept is the case in which only these parameters are above their least.
	kept := func(names []string) Case {
		c := x.best.Case.clone()
		c.Set = map[string]int64{"*": Least}
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
	if len(raised()) == 0 {
		return
	}
	// The fault points in the code first, all at once: there are many.
	x.accept(kept(slices.DeleteFunc(raised(), isSite)))
	asked := 0
	names := minimize(raised(), func(part []string) bool {
		asked++
		return !(quick && asked > coarse) && x.accept(kept(part))
	})
	if quick {
		return
	}
	x.accept(kept(names)) // they are the same, and said in fewer words
	// What cannot be least may be less.
	for _, name := range names {
		i := slices.IndexFunc(x.best.Parameters, func(p Parameter) bool { return p.Name == name })
		if i < 0 {
			continue // the run ends before it is drawn now
		}
		low, high := x.best.Parameters[i].Least, x.best.Parameters[i].Value // low does not fail
		for range 6 {
			middle := low + (high-low)/2
			if middle == low {
				break
			}
			c := x.best.Case.clone()
			if c.Set == nil {
				c.Set = make(map[string]int64)
			}
			if c.Set[name] = middle; x.accept(c) {
				high = middle
			} else {
				low = middle
			}
		}
	}
}

func isSite(parameter string) bool { return strings.HasPrefix(parameter, sitePrefix) }

// minimize returns a part of items, in their order, for which fails holds as it does for
// all of them, and no longer does if any one is taken out: delta debugging (Zeller and
// Hildebrandt, IEEE TSE 28(2), 2002). Fails is not asked about all of them. Where it is not
// monotonic, the result is one such part, and not always the smallest.
func minimize(items []string, fails func(part []string) bool) []string {
	if len(items) == 0 || fails(nil) {
		return nil
	}
	for n := 2; len(items) > 1; {
		n = min(n, len(items))
		size := (len(items) + n - 1) / n
		found := false
		for complement := range 2 {
			if complement == 1 && n == 2 {
				break // the other half is a part too
			}
			for from := 0; from < len(items) && !found; from += size {
				to := min(from+size, len(items))
				part := slices.Clone(items[from:to])
				if complement == 1 {
					part = slices.Concat(items[:from], items[to:])
				}
				if len(part) < len(items) && fails(part) {
					items, found = part, true
					n = max(complement*(n-1), 2)
				}
			}
		}
		if !found {
			if n >= len(items) {
				break
			}
			n *= 2
		}
	}
	return items
}

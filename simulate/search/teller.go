package search

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"time"
)

// teller tells how a test is getting on, where that is seen before the test is over: in its
// log with -v, and else on standard error if that is a terminal. In other places it would be
// read when it is of no use any more.
type teller struct {
	say   func(line string) // nil: it would not be seen
	logs  bool              // that is the test's log
	start time.Time         // of the shrinking
	next  time.Duration     // not before so much time has passed
}

// tellEvery is how often a teller speaks, at most; later on, each tenth of the time.
const tellEvery = 10 * time.Second

func newTeller(t T) *teller {
	x := &teller{next: tellEvery}
	info, err := os.Stderr.Stat()
	v := flag.Lookup("test.v") // "test2json" with -json
	switch {
	case v != nil && v.Value.String() != "false":
		x.logs = true
		x.say = func(line string) { t.Logf("%s", line) }
	case err == nil && info.Mode()&os.ModeCharDevice != 0:
		x.say = func(line string) { _, _ = fmt.Fprintf(os.Stderr, "%s: %s\n", t.Name(), line) }
	}
	return x
}

// hear makes the search tell the teller, and what it told before.
func (x *teller) hear(s *Plan) {
	progress, shrinking := s.Progress, s.Shrinking
	s.Progress = func(p Progress) {
		if progress != nil {
			progress(p)
		}
		x.tell(p.Elapsed, fmt.Sprintf("%s in %v, %d failed, %v simulated", seeds(p.Seeds), p.Elapsed.Round(time.Second), p.Failures, p.Simulated.Round(time.Second)))
	}
	s.Shrinking = func(smallest Shrunk) {
		if shrinking != nil {
			shrinking(smallest)
		}
		elapsed := time.Since(x.start)
		x.tell(elapsed, fmt.Sprintf("%s in %v", smallest.soFar(), elapsed.Round(time.Second)))
	}
}

func (x *teller) tell(elapsed time.Duration, line string) {
	if x.say != nil && elapsed >= x.next {
		x.next = elapsed + max(tellEvery, elapsed/10)
		x.say(line)
	}
}

// also says what a test that passes has logged, where its log is not shown.
func (x *teller) also(lines []string) {
	for _, line := range lines {
		if x.say != nil && !x.logs {
			x.say(line)
		}
	}
}

// shrinks says at once that a failure is to be made smaller.
func (x *teller) shrinks(s *Plan, first Outcome) {
	x.start, x.next = time.Now(), tellEvery
	if x.say != nil {
		x.say(fmt.Sprintf("seed %d failed: %s\nmaking it smaller, for %v at most; if interrupted, the smallest failure so far is shown", first.Case.Seed, firstLine(first.Err), s.Budget.orDefault().For))
	}
}

// spare keeps half of the time that the test has left for what comes after the shrinking: a
// test that is stopped for being late says nothing of what it has found.
func spare(t T, b Budget) Budget {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := d.Deadline(); ok {
			b.For = max(min(b.orDefault().For, time.Until(end)/2), 1)
		}
	}
	return b
}

// orDefault fills in what is not given.
func (b Budget) orDefault() Budget {
	return Budget{cmp.Or(max(b.Runs, 0), 1000), cmp.Or(max(b.For, 0), 2*time.Minute), cmp.Or(max(b.Variants, 0), 5)}
}

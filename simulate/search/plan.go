package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// Plan says which scenario is played under which seeds, to look for those that fail.
//
// Every seed that fails is played twice, unless it called t.Fatal, and so are the first seed and
// one in a hundred that pass. If the two runs differ, the scenario or the mesh depends on
// something that the seed does not decide: then that is reported.
type Plan struct {
	// Play is the scenario: it makes hosts and actors in a new world, lets time pass,
	// and returns what failed. If nothing did, the world's history is judged: see [simulate.Play].
	// It is called from several goroutines at once, with a world for each call.
	Play func(w *simulate.World) error
	// Options are those of each world. Options.Seed is the first seed. Repeat is
	// overwritten, and by Run and Shrink also Interrupt.
	Options simulate.Options
	// Profiles, if there are any, are taken in turns in place of Options.Profile. Which
	// one a seed gets depends on that seed alone.
	Profiles []simulate.Profile
	// Seeds is how many seeds are played. After For, in real time, no more are begun. Default:
	// 100 seeds, or 10 for Test with -short; if only For is given, as many as there is time for.
	Seeds int
	For   time.Duration
	// Workers is how many worlds run at once. Default: GOMAXPROCS.
	Workers int
	// KeepGoing plays all seeds, whatever fails. Without it, the search ends with the
	// first failure, which is the same one however many workers there are.
	KeepGoing bool
	// Wanted demands that every property that is wanted (see [simulate.Property.Wanted]) is met in
	// some world, unless the search was ended before its time, or Test with -short has
	// made it too small for that.
	Wanted bool
	// Progress is called after each seed, one call at a time.
	Progress func(Progress)
	// Shrinking is called after each run of Shrink, one call at a time, with the number of
	// runs and the smallest failure so far.
	Shrinking func(Shrunk)
	// Found is called for each new way in which a seed failed, as soon as one did. It need not be
	// the lowest such seed; the report has that one.
	Found func(Finding)
	// Budget is what Shrink may spend.
	Budget Budget
	// Repeat returns the line that repeats a case. The default is the case itself.
	Repeat func(Case) string
}

// Progress is what a search has done so far.
type Progress struct {
	Seeds     int           // seeds that were played to their end
	Failures  int           // seeds that failed
	Faults    int           // faults of storms that happened
	Calls     int           // calls for keys, see simulate.Outcome
	Grants    int           // calls that ended in a hold
	Events    uint64        // events of all worlds
	Simulated time.Duration // the sum of the worlds' times
	Elapsed   time.Duration // real time
}

// Report is what a search has found.
type Report struct {
	Progress
	// Findings has one failure for each way in which seeds failed, that of the lowest
	// seed, in the order of seeds. At most 100 ways are told apart.
	Findings []Finding
	// Properties are the sums over all worlds.
	Properties []simulate.Property
	// Missing are the wanted properties that no world met; nil unless Plan.Wanted is set
	// and the search came to its end.
	Missing []simulate.Property
	// UnderWay are the runs that the end of Run's context has ended, in the order of their
	// seeds. Nothing else here counts them.
	UnderWay []Outcome
}

// Outcome is how a case went.
type Outcome struct {
	Case Case
	simulate.Outcome
}

// Finding is one way in which seeds failed.
type Finding struct {
	// Class is the beginning of the message, without what differs from seed to seed.
	Class string
	// Seeds is how many seeds failed in this way.
	Seeds int
	// First is the run of the lowest of these seeds.
	First Outcome
	// Others are the cases of the next seeds, nine at most: they fail alike, but may have another cause.
	Others []Case
}

// maxOthers bounds Finding.Others.
const maxOthers = 9

// maxFindings bounds what a search remembers.
const maxFindings = 100

// rechecked reports whether a seed that passes is played twice: one in a hundred is.
func rechecked(seed uint64) bool { return rand.New(rand.NewPCG(seed, 0)).IntN(100) == 0 }

// Unrepeatable is the error of a seed whose second run differs from its first.
type Unrepeatable struct {
	Case          Case
	First, Second Outcome
	// Divergence tells where two further runs part. It is nil if no two further runs parted: by chance, or because
	// the events are equal and only the error or the properties differ.
	Divergence *Divergence
}

func (u *Unrepeatable) Error() string {
	say := func(o Outcome) string {
		s := fmt.Sprintf("hash %x, %d events, %v", o.Hash, o.Events, o.Time)
		if o.Err == nil {
			return s + ", no failure"
		}
		return s + fmt.Sprintf(", %s", firstLine(o.Err))
	}
	parted := "their events differ, but two further runs were equal: try again"
	switch {
	case u.Divergence != nil:
		parted = u.Divergence.String()
	case u.First.sameEvents(u.Second):
		parted = "their events are the same, but not what the scenario says of them"
		if p, ok := ofOneRun(u.First, u.Second); ok {
			parted += fmt.Sprintf(": one of them has %v", p)
		}
	}
	return fmt.Sprintf("unrepeatable: two runs of %v differ: something other than the seed decides\n\tfirst:  %s\n\tsecond: %s\n\t%s",
		u.Case, say(u.First), say(u.Second), parted)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Err returns nil if the search has found nothing wrong.
func (r *Report) Err() error {
	var errs []error
	for _, f := range r.Findings {
		errs = append(errs, f.First.Err)
	}
	if len(r.Missing) > 0 {
		text := fmt.Sprintf("search: these properties were met in none of %s:", seeds(r.Seeds))
		for _, p := range r.Missing {
			text += fmt.Sprintf("\n\t%v %q", p.Kind, p.Name)
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// Unfenced returns a line for each register that refused no write in any world. No stale token
// came to it, so that the search does not show whether the fence holds, or is needed. That is no
// failure: see [simulate.Register].
func (r *Report) Unfenced() (lines []string) {
	for _, p := range r.Properties {
		if p.Kind == simulate.Fence && p.Met == 0 {
			lines = append(lines, fmt.Sprintf("%s refused none of %s: no stale token came to it, so this shows nothing about fencing", p.Name, count(int(p.Asked), "write")))
		}
	}
	return lines
}

// count is a number of things.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func seeds(n int) string { return count(n, "seed") }

// check completes the search, or says what is wrong with it.
func (s *Plan) check() error {
	switch {
	case s.Play == nil:
		return errors.New("search: Plan.Play is nil")
	case s.Seeds < 0:
		return fmt.Errorf("search: Plan.Seeds is %d, which is negative", s.Seeds)
	case s.For < 0:
		return fmt.Errorf("search: Plan.For is %v, which is negative", s.For)
	case s.Workers < 0:
		return fmt.Errorf("search: Plan.Workers is %d, which is negative", s.Workers)
	}
	o, profiles := s.Options, s.Profiles
	if len(profiles) == 0 {
		profiles = []simulate.Profile{o.Profile}
	}
	for _, o.Profile = range profiles {
		if err := possible(o); err != nil {
			return err
		}
	}
	if s.Seeds == 0 && s.For == 0 {
		s.Seeds = 100
	}
	if s.Workers == 0 {
		s.Workers = runtime.GOMAXPROCS(0)
	}
	return nil
}

// possible returns an error if there can be no world with these options.
func possible(o simulate.Options) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	simulate.New(o).Close()
	return nil
}

// Case returns the case of a seed.
func (s Plan) Case(seed uint64) Case {
	c := caseOf(s.Options)
	c.Seed = seed
	if n := uint64(len(s.Profiles)); n > 0 {
		c.Profile = s.Profiles[seed%n]
	}
	return c
}

// Replay plays one case, with a timeline if it is wanted.
func (s Plan) Replay(c Case, timeline bool) Outcome {
	opts := c.apply(s.Options)
	opts.Timeline = timeline || s.Options.Timeline
	opts.Repeat = s.repeat(c)
	return Outcome{caseOf(opts), simulate.Play(opts, s.Play)}
}

func (s *Plan) repeat(c Case) string {
	if s.Repeat != nil {
		return s.Repeat(c)
	}
	return "search.Case: " + c.String()
}

// Run searches. It returns an error, having done nothing, if the plan's fields make no
// sense. When ctx ends first, it returns the cause and the report so far; the worlds that are
// under way then end before their next events.
//
//	report, err := search.Plan{Play: scenario, Seeds: 1000}.Run(ctx)
func (s Plan) Run(ctx context.Context) (*Report, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	s.Options.Interrupt = ctx.Done()
	h := hunt{Plan: s, next: s.Options.Seed, report: &Report{}, start: time.Now()}
	var wg sync.WaitGroup
	for range s.Workers {
		wg.Go(func() {
			for {
				seed, ok := h.claim(ctx)
				if !ok {
					return
				}
				h.add(h.try(s.Case(seed)))
			}
		})
	}
	wg.Wait()
	r := h.report
	r.Elapsed = time.Since(h.start)
	if !s.KeepGoing && len(r.Findings) > 1 {
		r.Findings = r.Findings[:1] // others were ahead
	}
	slices.SortFunc(r.UnderWay, func(a, b Outcome) int { return cmp.Compare(a.Case.Seed, b.Case.Seed) })
	if err := context.Cause(ctx); err != nil && (!h.ended || len(r.UnderWay) > 0) {
		return r, err
	}
	if s.Wanted && (len(r.Findings) == 0 || s.KeepGoing) {
		for _, p := range r.Properties {
			if p.Wanted() && p.Met == 0 {
				r.Missing = append(r.Missing, p)
			}
		}
	}
	return r, nil
}

// hunt is a search under way.
type hunt struct {
	Plan
	start time.Time

	mu     sync.Mutex
	next   uint64 // seed
	begun  int
	ended  bool // by itself
	report *Report
}

// claim returns the next seed. Seeds are begun in order, so that all below one that
// fails are played.
func (h *hunt) claim(ctx context.Context) (seed uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return 0, false
	}
	if h.Seeds > 0 && h.begun >= h.Seeds || h.For > 0 && time.Since(h.start) >= h.For ||
		h.report.Failures > 0 && !h.KeepGoing {
		h.ended = true
		return 0, false
	}
	seed = h.next
	h.next++
	h.begun++
	return seed, true
}

// divergeTries is how often two runs are compared that should part: the same luck can
// come twice.
const divergeTries = 5

// try plays a case, and plays it again where that is due.
func (h *hunt) try(c Case) Outcome {
	first := h.Replay(c, false)
	if errors.Is(first.Err, simulate.ErrExited) || interrupted(first.Err) {
		return first
	}
	if first.Err == nil && c.Seed != h.Options.Seed && !rechecked(c.Seed) {
		return first
	}
	second := h.Replay(c, false)
	if interrupted(second.Err) {
		return first // what was seen once is told of
	}
	if first.sameEvents(second) && text(first.Err) == text(second.Err) && slices.Equal(first.Properties, second.Properties) {
		return first
	}
	u := &Unrepeatable{Case: c, First: first, Second: second}
	for i := 0; i < divergeTries && u.Divergence == nil && !first.sameEvents(second) && !closed(h.Options.Interrupt); i++ {
		u.Divergence = Diverge(c.apply(h.Options), c.apply(h.Options), h.Play)
	}
	if closed(h.Options.Interrupt) {
		u.Divergence = nil // it may be where one of the two was interrupted
	}
	o := first
	o.Err = u
	return o
}

func (o Outcome) sameEvents(p Outcome) bool { return o.Hash == p.Hash && o.Events == p.Events }

// ofOneRun returns what one of two runs says of a property and the other does not, if there
// is any.
func ofOneRun(first, second Outcome) (p simulate.Property, ok bool) {
	for _, runs := range [2][2]Outcome{{first, second}, {second, first}} {
		for _, p := range runs[0].Properties {
			if !slices.Contains(runs[1].Properties, p) {
				return p, true
			}
		}
	}
	return simulate.Property{}, false
}

// text is what an error says, without the stack of a panic, which has the numbers of
// goroutines in it.
func text(err error) string {
	if err == nil {
		return ""
	}
	message, _, _ := strings.Cut(err.Error(), "\ngoroutine ")
	return message
}

// interrupted reports whether the end of its context has ended a run.
func interrupted(err error) bool {
	s, ok := errors.AsType[*simulate.Stopped](err)
	return ok && s.Interrupted
}

// add counts one outcome in. It keeps nothing of those that pass.
func (h *hunt) add(o Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.report
	if interrupted(o.Err) {
		r.UnderWay = append(r.UnderWay, o)
		return
	}
	r.Seeds++
	r.Faults += len(o.Faults)
	r.Calls += o.Calls
	r.Grants += o.Grants
	r.Events += o.Events
	r.Simulated += o.Time
	r.Elapsed = time.Since(h.start)
	for _, p := range o.Properties {
		r.addProperty(p)
	}
	if o.Err != nil {
		r.Failures++
		if f, is := r.addFailure(o); is && h.Found != nil {
			h.Found(f)
		}
	}
	if h.Progress != nil {
		h.Progress(r.Progress)
	}
}

func (r *Report) addProperty(p simulate.Property) {
	i := slices.IndexFunc(r.Properties, func(q simulate.Property) bool { return q.Name == p.Name })
	if i < 0 {
		r.Properties = append(r.Properties, p)
		return
	}
	q := &r.Properties[i]
	q.Asked += p.Asked
	q.Met += p.Met
	if q.Kind == simulate.Expected {
		q.Kind = p.Kind
	}
}

// addFailure counts a failure in, and reports whether it is one of a new class.
func (r *Report) addFailure(o Outcome) (found Finding, is bool) {
	class := classOf(o.Err)
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Class == class })
	switch {
	case i >= 0:
		f := &r.Findings[i]
		f.Seeds++
		other := o.Case
		if other.Seed < f.First.Case.Seed {
			other, f.First = f.First.Case, o
		}
		i, _ := slices.BinarySearchFunc(f.Others, other.Seed, func(c Case, seed uint64) int { return cmp.Compare(c.Seed, seed) })
		f.Others = slices.Insert(f.Others, i, other)
		f.Others = f.Others[:min(len(f.Others), maxOthers)]
	case len(r.Findings) < maxFindings:
		found, is = Finding{Class: class, Seeds: 1, First: o}, true
		r.Findings = append(r.Findings, found)
	}
	slices.SortFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.First.Case.Seed, b.First.Case.Seed) })
	return found, is
}

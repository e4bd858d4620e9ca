package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/search"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// runSimulate is lockmesh simulate.
func runSimulate(ctx context.Context, args []string, c console) int {
	s, err := parse(args, c.out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(c.err, "lockmesh simulate: %v\nlockmesh simulate -help lists the flags.\n", err)
		return exitUsage
	case s.list:
		s.writeList(c.out)
		return exitOK
	case len(s.mutants) > 0:
		return runMutants(ctx, s.mutants, args, c)
	}
	s.search.Options.Interrupt = ctx.Done()
	r := &simulation{settings: s, console: c}
	if u := s.search.Options.Until; u.Events > 0 || u.Time > 0 {
		return r.stop()
	}
	return r.run(ctx)
}

// simulation is one use of the command.
type simulation struct {
	*settings
	console
}

// stop plays one seed as far as -until says.
func (r *simulation) stop() int {
	o := r.search.Replay(r.search.Case(r.search.Options.Seed), r.wantsTimeline())
	if stopped, ok := errors.AsType[*simulate.Stopped](o.Err); ok {
		fmt.Fprint(r.out, stopped.State)
		if stopped.Interrupted {
			fmt.Fprintln(r.out, "interrupted before the point of -until")
			return exitInterrupted
		}
		return r.show(o)
	}
	fmt.Fprintf(r.out, "the run ended at %v, after %d events, before the point of -until\n", o.Time, o.Events)
	if o.Err != nil {
		fmt.Fprintf(r.out, "FAILED: %v\n", o.Err)
		return max(r.show(o), exitFailed)
	}
	return r.show(o)
}

// run searches.
func (r *simulation) run(ctx context.Context) int {
	m := newMeter(r.console, r.search.Seeds, r.search.For)
	r.search.Progress = m.tell
	if r.search.KeepGoing {
		r.search.Found = func(f search.Finding) { m.tellFailure(f, r.search.Repeat(f.First.Case)) }
	}
	report, err := r.search.Run(ctx)
	m.close()
	if report == nil {
		fmt.Fprintf(r.console.err, "lockmesh simulate: %v\n", err)
		return exitUsage
	}
	r.summary(report)
	code := exitOK
	if err != nil {
		r.interrupted(report)
		code = exitInterrupted
	}
	missing := r.missing(report)
	if err == nil && len(missing) > 0 {
		fmt.Fprintf(r.out, "FAILED: of the rare situations, these did not come about in any world:\n")
		for _, p := range missing {
			fmt.Fprintf(r.out, "\t%s\n", p.Name)
		}
		code = exitFailed
	}
	if len(report.Findings) > 0 {
		r.failures(ctx, report)
		return exitFailed
	}
	if err == nil && len(missing) == 0 {
		fmt.Fprintln(r.out, "no failure")
	}
	switch {
	case !r.wantsTimeline():
	case r.one && report.Seeds == 1:
		o := r.search.Replay(r.search.Case(r.search.Options.Seed), true)
		if interrupted(o) {
			fmt.Fprintln(r.out, "interrupted: no timeline")
			return exitInterrupted
		}
		return max(r.show(o), code)
	default:
		fmt.Fprintln(r.out, "no timeline: there is no failure")
	}
	return code
}

// interrupted says what was going on when a signal came.
func (r *simulation) interrupted(report *search.Report) {
	fmt.Fprintln(r.out, "interrupted")
	for _, o := range report.UnderWay {
		fmt.Fprintf(r.out, "under way: seed %d, at %v: %s\n", o.Case.Seed, o.Time.Round(time.Millisecond), r.search.Repeat(o.Case))
	}
}

// interrupted reports whether a signal has ended the run.
func interrupted(o search.Outcome) bool {
	stopped, ok := errors.AsType[*simulate.Stopped](o.Err)
	return ok && stopped.Interrupted
}

// missing returns the marks that no world met, if they are demanded. A search that ended
// with a failure does not owe them.
func (r *simulation) missing(report *search.Report) (missing []simulate.Property) {
	if !r.marks || len(report.Findings) > 0 && !r.search.KeepGoing {
		return nil
	}
	for _, p := range report.Properties {
		if p.Kind == simulate.Mark && p.Met == 0 {
			missing = append(missing, p)
		}
	}
	return missing
}

// summary says what was done.
func (r *simulation) summary(report *search.Report) {
	p := report.Progress
	of := ""
	if len(r.search.Profiles) > 0 { // a story has none
		of = ", " + list(r.search.Profiles)
	}
	fmt.Fprintf(r.out, "%s from %d on%s%s\n", count(p.Seeds, "seed"), r.search.Options.Seed, of, version())
	fmt.Fprintf(r.out, "%v simulated in %v: %s; %s of %s calls granted, %s faults, %s events\n",
		p.Simulated.Round(time.Second), p.Elapsed.Round(time.Millisecond), speed(p),
		thousands(p.Grants), thousands(p.Calls), thousands(p.Faults), thousands(p.Events))
	if only := r.search.Options.Only; len(only) > 0 && p.Faults == 0 {
		fmt.Fprintf(r.out, "no storm had a fault of -only %s\n", strings.Join(only, ","))
	}
	met, marks := 0, 0
	for _, q := range report.Properties {
		if q.Kind != simulate.Mark {
			continue
		}
		if marks++; q.Met > 0 {
			met++
		}
	}
	if marks > 0 {
		fmt.Fprintf(r.out, "%d of %d rare situations came about\n", met, marks)
	}
	for _, line := range report.Unfenced() {
		fmt.Fprintln(r.out, line)
	}
}

// failures shows the first failure whole, small if that is wanted, and of the others how
// they are to be repeated.
func (r *simulation) failures(ctx context.Context, report *search.Report) {
	for _, f := range report.Findings[1:] {
		fmt.Fprintf(r.out, "FAILED, %s: %s\nrepeat: %s\n", count(f.Seeds, "seed"), firstLine(f.First.Err), r.search.Repeat(f.First.Case))
		r.others(f)
	}
	f := report.Findings[0]
	o := f.First
	notes := ""
	if _, ok := errors.AsType[*search.Unrepeatable](o.Err); ok {
		fmt.Fprintf(r.out, "FAILED, %s: %v\nrepeat: %s\n", count(f.Seeds, "seed"), o.Err, r.search.Repeat(o.Case))
		r.others(f)
		return
	}
	if r.shrink && ctx.Err() == nil {
		fmt.Fprintf(r.console.err, "seed %d failed: %s\nmaking it smaller, for %v at most; if interrupted, the smallest failure so far is shown\n",
			o.Case.Seed, firstLine(o.Err), r.search.Budget.For)
		shrunk := r.makeSmaller(ctx, o)
		o, notes = shrunk.After, fmt.Sprintf("%v\n", shrunk)
	}
	told := r.search.Replay(o.Case, true) // its error tells how it came to that
	switch {
	case !interrupted(told):
		o = told
	case r.wantsTimeline():
		notes += "interrupted: no timeline\n"
	}
	fmt.Fprintf(r.out, "FAILED, %s: %v\n%s", count(f.Seeds, "seed"), o.Err, notes)
	r.others(f)
	if r.wantsTimeline() {
		r.show(o)
	}
}

// others names the seeds that failed like the first one.
func (r *simulation) others(f search.Finding) {
	for _, c := range f.Others {
		fmt.Fprintf(r.out, "likewise: %s\n", r.search.Repeat(c))
	}
}

// makeSmaller shrinks a failure, and shows how that is getting on.
func (r *simulation) makeSmaller(ctx context.Context, o search.Outcome) search.Shrunk {
	m, start := newMeter(r.console, 0, 0), time.Now()
	s := r.search
	s.Shrinking = func(smallest search.Shrunk) { m.tellShrinking(smallest, time.Since(start)) }
	defer m.close()
	return s.Shrink(ctx, o)
}

// show writes the run's timeline where it is wanted.
func (r *simulation) show(o search.Outcome) int {
	t := o.Timeline
	if t == nil {
		return exitOK
	}
	code := exitOK
	complain := func(err error) {
		if err != nil {
			fmt.Fprintf(r.console.err, "lockmesh simulate: %v\n", err)
			code = exitFailed
		}
	}
	if r.text {
		complain(t.WriteText(r.out))
	}
	if r.mermaid && len(t.Moments) > 0 {
		around := t.Moments[len(t.Moments)-1].ID
		for _, m := range t.Moments {
			if m.Kind == timeline.Failure {
				around = m.ID
			}
		}
		complain(t.WriteMermaid(r.out, around, 40))
	}
	if r.page != "" {
		complain(timeline.WriteFile(r.page, t.WriteHTML))
	}
	if r.log != "" {
		complain(timeline.WriteFile(r.log, t.WriteLog))
	}
	return code
}

// version says which code this is: a seed is worth nothing without it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return ""
	}
	return fmt.Sprintf(" (version %s)", info.Main.Version)
}

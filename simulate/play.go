package simulate

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// Outcome is how one run went.
type Outcome struct {
	Err        error // nil: nothing failed
	Hash       uint64
	Time       time.Duration // simulated
	Events     uint64
	Faults     []Fault // that happened, of the storm
	Parameters []Parameter
	Properties []Property
	Calls      int // of lockers, or whatever else the world's history was told of
	Grants     int // calls that ended in a hold
	Timeline   *timeline.Timeline
}

// Play makes the world of opts, plays the scenario in it, and closes it. A panic of the
// scenario is a failure like any other. If nothing failed, the world's history is judged
// as a whole, as by [History.Finish], except that calls may still be under way. The
// error names the seed, and says how to repeat the run: it is a [Failure], or wraps one,
// unless Options.Until or Options.Interrupt stopped the run.
func Play(opts Options, scenario func(w *World) error) Outcome {
	w := New(opts)
	o := Outcome{Err: w.play(scenario)}
	o.Hash, o.Time, o.Events = w.Hash(), w.Now(), w.trace.events
	o.Parameters, o.Properties, o.Timeline = w.Parameters(), w.properties(), w.Timeline()
	if w.storm != nil {
		for _, f := range w.storm.faults {
			if f.Happened {
				o.Faults = append(o.Faults, f)
			}
		}
	}
	o.Calls, o.Grants = w.history.Calls()
	// A deferred call of an actor may panic now, or end the goroutine, which is not to be ours.
	closing := guarded(w, "an actor's deferred call", func(w *World) error { w.Close(); return nil })
	if o.Err == nil {
		w.Fail(closing)
		o.Err = w.failure
	}
	return o
}

func (w *World) play(scenario func(w *World) error) error {
	err := guarded(w, "the scenario", scenario)
	if s, ok := errors.AsType[*Stopped](w.failure); ok {
		return s // whatever the scenario made of it
	}
	if err != nil && w.failure != nil {
		return w.said(err)
	}
	w.Fail(err)
	if w.failure == nil && !w.history.checks.Judged() { // the scenario has not asked for it
		_ = w.history.checks.Verdict() // which is the world's failure
	}
	w.Fail(w.unpicked())
	if w.trace.events == 0 && len(w.queue.heap) > 0 {
		w.Fail(errors.New("simulate: the scenario lets no time pass, so that nothing happens: it must call Run"))
	}
	return w.failure
}

// said returns the error of a scenario in a world that has failed, with the line that repeats it. That is
// the world's own failure, unless the scenario's error wraps it, or the world's only says that something was
// waited for in vain: what that was, the scenario says.
func (w *World) said(err error) error {
	if strings.Contains(err.Error(), w.opts.Repeat) {
		return err
	}
	f, ok := errors.AsType[*Failure](w.failure)
	if !ok {
		return err
	}
	if errors.Is(f.Err, ErrNotWithin) {
		own := *f
		own.Err = err
		return &own
	}
	return f
}

// ErrExited is the failure of a run whose scenario, or one of its actors, has called t.Fatal. Every further
// run of the scenario would call it again.
var ErrExited = errors.New("in a simulation neither a scenario nor an actor may call t.Fatal or t.FailNow: a scenario returns its error, and an actor hands it to World.Fail")

func exited(what string) error {
	return fmt.Errorf("simulate: %s ended its goroutine: %w", what, ErrExited)
}

// guarded calls the scenario on a goroutine of its own. It returns also if the scenario panics,
// or ends its goroutine, as t.Fatal does.
func guarded(w *World, who string, scenario func(w *World) error) (err error) {
	err = exited(who)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		err = scenario(w)
	}()
	<-done
	return err
}

// unpicked returns an error if Options.Set names a parameter that was not picked.
func (w *World) unpicked() error {
	for _, name := range slices.Sorted(maps.Keys(w.opts.Set)) {
		beginning, star := strings.CutSuffix(name, "*")
		if !slices.ContainsFunc(w.parameters, func(p Parameter) bool {
			return p.Name == name || star && strings.HasPrefix(p.Name, beginning)
		}) {
			return fmt.Errorf("simulate: parameter %q is set, but the scenario picks none of that name", name)
		}
	}
	return nil
}

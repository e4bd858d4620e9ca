package search

import (
	"fmt"

	"github.com/lockmesh/mesh/simulate"
)

// Divergence tells where two runs part that should have been one.
//
// What an event did shows in what comes after it: as a rule, the last event that the two runs have in
// common is to blame for the difference.
type Divergence struct {
	// Common is the last event that the runs have in common, and First and Second are the events
	// after it. An event without a number is none.
	Common, First, Second simulate.Event
}

func (d *Divergence) String() string {
	return fmt.Sprintf("they agree up to event %d; the last in common and the next are\n\tboth:   %v\n\tfirst:  %v\n\tsecond: %v",
		d.Common.Number, d.Common, d.First, d.Second)
}

// Diverge plays a scenario with the options a and with the options b, one event of each run in
// turn, and tells where the two runs part. It is for options whose runs should be equal: the same options twice, or such as
// differ only in Timeline. It returns nil if the runs do not part, and if the Interrupt of a ends them.
//
//	if d := search.Diverge(opts, opts, scenario); d != nil {
//		t.Errorf("the seed does not decide everything: %v", d)
//	}
func Diverge(a, b simulate.Options, scenario func(w *simulate.World) error) *Divergence {
	interrupt, over := a.Interrupt, make(chan struct{})
	first, second := newLockstep(a, over, scenario), newLockstep(b, over, scenario)
	defer func() {
		close(over)
		for range first.events {
		}
		for range second.events {
		}
	}()
	var common simulate.Event
	for {
		x, ok := first.next(interrupt)
		y, too := second.next(interrupt)
		switch {
		case closed(interrupt), !ok && !too:
			return nil
		case !ok || !too || x.Number != y.Number || x.Hash != y.Hash:
			return &Divergence{common, x, y}
		}
		common = x
		first.goOn <- struct{}{}
		second.goOn <- struct{}{}
	}
}

// lockstep is a run that waits before each of its events.
type lockstep struct {
	events chan simulate.Event
	goOn   chan struct{}
}

// newLockstep starts a run. When over is closed, the run waits no more, and ends.
func newLockstep(o simulate.Options, over <-chan struct{}, scenario func(w *simulate.World) error) *lockstep {
	r := &lockstep{events: make(chan simulate.Event), goOn: make(chan struct{})}
	o.Interrupt = over
	o.Event = func(e simulate.Event) {
		select {
		case r.events <- e:
		case <-over:
			return
		}
		select {
		case <-r.goOn:
		case <-over:
		}
	}
	go func() {
		defer close(r.events)
		simulate.Play(o, scenario) // how it ends does not matter
	}()
	return r
}

// next returns the next event of the run, which then waits.
func (r *lockstep) next(interrupt <-chan struct{}) (e simulate.Event, ok bool) {
	select {
	case e, ok = <-r.events:
	case <-interrupt:
	}
	return e, ok
}

// closed reports whether a channel is closed; nil never is.
func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

package node

import (
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// observed reports whether the observer of a simulation is to hear of the session's calls. What a guest believes, its node does not know.
func (s *Session) observed() bool { return s.node.clients != nil && s.life.Guest == "" }

// calls tells the observer of a simulation of a call; nil: there is none.
func (s *Session) calls(ask env.Ask) env.Caller {
	if !s.observed() {
		return nil
	}
	return s.node.clients.Called(transport.ID(s.node.id), ask)
}

// returned tells what calls has returned how the call ends.
func returned(caller env.Caller, h *Hold, err error) {
	switch {
	case caller == nil:
	case err != nil:
		caller.Returned(nil, err)
	default:
		h.observe(caller)
	}
}

// askOf is how observers see a request.
func askOf(req *client.Request) env.Ask {
	weight, capacity := req.Share()
	return env.Ask{Key: req.Key, Weight: weight, Capacity: capacity, MaxHold: req.MaxHold, Leads: req.Mode == client.Elects}
}

// observe tells callers' observers of a hold that is about to be returned.
func (h *Hold) observe(callers ...env.Caller) {
	var all holders
	for _, c := range callers {
		all = append(all, c.Returned(h, nil))
	}
	if h.holders = all; h.Over() {
		h.holders.Ended(h.mayEnd()) // before the observers listened
	}
}

// holders are the observers of one hold: none outside simulations.
type holders []env.Holder

func (all holders) each(tell func(env.Holder)) {
	for _, h := range all {
		tell(h)
	}
}

func (all holders) Renewed()   { all.each(env.Holder.Renewed) }
func (all holders) Broken()    { all.each(env.Holder.Broken) }
func (all holders) Unlocking() { all.each(env.Holder.Unlocking) }
func (all holders) Succeeding(d time.Duration) {
	all.each(func(h env.Holder) { h.Succeeding(d) })
}
func (all holders) Proclaimed(sequence uint64) {
	all.each(func(h env.Holder) { h.Proclaimed(sequence) })
}
func (all holders) Downgrading() { all.each(env.Holder.Downgrading) }
func (all holders) Downgraded(err error) {
	all.each(func(h env.Holder) { h.Downgraded(err) })
}
func (all holders) Ended(excused bool) { all.each(func(h env.Holder) { h.Ended(excused) }) }
func (all holders) Unlocked(err error) { all.each(func(h env.Holder) { h.Unlocked(err) }) }
func (all holders) Shared(handles int) { all.each(func(h env.Holder) { h.Shared(handles) }) }

func (all holders) Extending(d time.Duration) { all.each(func(h env.Holder) { h.Extending(d) }) }
func (all holders) Extended(d time.Duration, err error) {
	all.each(func(h env.Holder) { h.Extended(d, err) })
}

package operator

import (
	"fmt"
	"slices"
	"time"
)

// Reached is what came of a question to an entry.
type Reached struct {
	Status *Status // nil: none answered
	Err    string
}

// Finding is one thing that Check found, and what to do about it.
type Finding struct {
	Problem bool   `json:"problem"` // else it is only to be known
	What    string `json:"what"`
	Do      string `json:"do,omitempty"`
}

// Check returns what is wrong with a core, problems before notes, by the status s that a node told and by what the entries
// answered. If the core is whole, no finding is a problem. Reached must have an element for each of s.Entries().
func Check(s *Status, reached map[string]Reached) []Finding {
	c := &checking{s: s, reached: reached}
	if s.Core == nil {
		c.unfounded()
	} else {
		c.majority()
		for _, seat := range s.Core.Seats {
			c.seat(seat)
		}
		c.lists()
		c.shards()
		c.stateDirs()
	}
	return append(c.problems, c.notes...)
}

// Entries returns the entries that are to be asked before Check: those of the core, or, before there is one, of the node's list.
func (s *Status) Entries() []string {
	if s.Core != nil {
		return s.Core.Entries()
	}
	return s.List
}

type checking struct {
	s               *Status
	reached         map[string]Reached
	problems, notes []Finding
}

func (c *checking) problem(do, what string, args ...any) {
	c.problems = append(c.problems, Finding{Problem: true, What: fmt.Sprintf(what, args...), Do: do})
}

func (c *checking) note(do, what string, args ...any) {
	c.notes = append(c.notes, Finding{What: fmt.Sprintf(what, args...), Do: do})
}

const startOne = "start a process there"

// unfounded: the node that was asked is in no mesh.
func (c *checking) unfounded() {
	s := c.s
	c.problem("", "node %q (%s) is in no mesh yet: it is %s%s", s.Name, s.Role, s.Phase, because(s.Why))
	for _, entry := range s.List {
		r := c.reached[entry]
		switch {
		case r.Status == nil:
			c.problem(startOne+"; if that entry's machine is gone for good, restart the other nodes of the core, one after the other, with a list without it", "no node answers at %s%s", entry, because(r.Err))
		case r.Status.Core != nil:
			c.problem("", "node %q at %s is in mesh %s, whose core is %s", r.Status.Name, entry, r.Status.Core.Mesh, r.Status.Core.Entries())
		case r.Status.Role == "client":
			c.problem("list each node by a name or an address at which it reaches itself", "node %q answers at %s, and takes itself for a client", r.Status.Name, entry)
		case !slices.Equal(r.Status.List, s.List):
			c.problem("restart it, or the others, until all have one list; meanwhile two lists may differ in one entry", "node %q at %s was started with the list %s, and node %q with %s", r.Status.Name, entry, r.Status.List, s.Name, s.List)
		}
	}
	for _, a := range s.Waiting {
		if c.reached[a.Entry].Status == nil && slices.Contains(s.List, a.Entry) {
			continue // that was said
		}
		c.note("", "node %q waits for %s, for %v by now%s", s.Name, a.Entry, a.For.Round(time.Second), because(a.Why))
	}
}

// majority looks whether the core can decide.
func (c *checking) majority() {
	bound, there := 0, 0
	for _, seat := range c.s.Core.Seats {
		if seat.ID == "" {
			continue
		}
		bound++
		if r := c.reached[seat.Entry]; r.Status != nil && r.Status.ID == seat.ID {
			there++
		}
	}
	if need := bound/2 + 1; there < need {
		c.problem("start a process at each entry that is silent: the core goes on as soon as all of them answer", "%d of the %d nodes that have a seat answer, and %d must: nothing can be decided", there, bound, need)
	}
}

// seat looks at one entry of the core.
func (c *checking) seat(seat Seat) {
	r := c.reached[seat.Entry]
	gone := fmt.Sprintf("%s; if the machine is gone for good, declare %[2]s dead, or replace it by another entry", startOne, seat.Entry)
	switch {
	case seat.Ended:
		c.problem(startOne+", or remove the entry", "node %q of %s was declared dead, and no other one has its seat yet", seat.Name, seat.Entry)
	case r.Status == nil && seat.Vacant():
		c.problem(startOne+", or replace or remove the entry", "the seat of %s is vacant: its node is silent, and no node answers there%s", seat.Entry, because(r.Err))
	case r.Status == nil && seat.ID == "":
		c.problem(startOne+", or remove the entry", "nobody has the seat of %s, and no node answers there%s", seat.Entry, because(r.Err))
	case r.Status == nil:
		c.problem(gone, "node %q of %s does not answer%s", seat.Name, seat.Entry, because(r.Err))
	case r.Status.ID == seat.ID:
		if m := r.Status.Core; m != nil && m.Mesh != c.s.Core.Mesh {
			c.problem("", "node %q at %s is in another mesh: %s", seat.Name, seat.Entry, m.Mesh)
		} else if !seat.Connected {
			c.problem("look at the network between the two", "node %q of %s answers, and is not connected with node %q, which was asked", seat.Name, seat.Entry, c.s.Name)
		}
	case r.Status.Entry != "" && r.Status.Entry != seat.Entry:
		c.problem("list each node by a name of its own", "node %q answers at %s, whose entry is %s", r.Status.Name, seat.Entry, r.Status.Entry)
	case seat.ID == "":
		c.problem("", "node %q answers at %s, and has no seat yet%s", r.Status.Name, seat.Entry, because(r.Status.Why))
	case seat.Connected:
		c.problem("end one of the two, or list each by a name of its own", "two nodes are at %s: node %s answers there, and node %s, which has the seat, is connected", seat.Entry, r.Status.ID, seat.ID)
	default:
		c.problem("", "another node, %s, answers at %s than %s, which has the seat: the other node gets the seat once most nodes of the core miss the one that has it%s", r.Status.ID, seat.Entry, seat.ID, because(r.Status.Why))
	}
}

// lists looks whether the nodes have the core's list.
func (c *checking) lists() {
	list, do := c.s.Core.Entries(), "restart it with %s"
	if o := c.s.Core.Ordered; len(o) > 0 {
		c.note("wait a moment; if the change does not end, look at the logs of the nodes that lack the list", "an operator changes the list to %s", o)
		list, do = o, "see its log; or restart it with %s"
	}
	for _, seat := range c.s.Core.Seats {
		if seat.ID != "" && slices.Contains(list, seat.Entry) && !slices.Equal(seat.List, list) {
			c.problem(fmt.Sprintf(do, list), "node %q of %s has the list %s, and is to have %s: the list cannot change again before all have one", seat.Name, seat.Entry, seat.List, list)
		}
	}
	if c.s.Core.Dropped != "" {
		c.problem("wait; if it is gone, shards that cannot do without it begin again by themselves", "node %s, whose entry was dropped, still has a vote", c.s.Core.Dropped)
	}
}

// shards looks whether all shards have a leader, as most nodes of the core say.
func (c *checking) shards() {
	s := c.s
	if len(s.NoMajority) > 0 {
		c.problem("start what is missing above; if nodes are gone for good, declare them dead", "%d of %d shards have no leader: %s", len(s.NoMajority), s.Core.Shards, some(s.NoMajority))
	}
	if n := len(s.UnderReplicated); n > 0 {
		c.problem("", "%d of %d shards lack replicas, or their replicas move: %s", n, s.Core.Shards, some(s.UnderReplicated))
	}
	if s.Quiet > 0 {
		c.note("", "some shards grant nothing for another %v, for the sake of earlier leases", s.Quiet.Round(time.Second))
	}
	if len(s.NoMajority) == 0 && !s.Settled {
		c.problem("", "node %q has not caught up with its mesh yet: it is %s%s", s.Name, s.Phase, because(s.Why))
	}
}

// stateDirs notes the nodes without a state directory: while there are any, the list changes by restarts only.
func (c *checking) stateDirs() {
	for _, entry := range c.s.Core.Entries() {
		if r := c.reached[entry]; r.Status != nil && r.Status.Role == "core" && !r.Status.StateDir {
			c.note("", "node %q of %s has no state directory: the list changes by restarts only", r.Status.Name, entry)
		}
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// some names the first of many shards.
func some(shards []int) string {
	const most = 16
	if len(shards) > most {
		return fmt.Sprintf("%v and others", shards[:most])
	}
	return fmt.Sprint(shards)
}

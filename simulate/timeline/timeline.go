// Package timeline holds the account of one simulated run: what happened, where,
// and because of what.
//
// A simulator appends a [Moment] for each thing that happens; this package
// knows nothing of how. A [Timeline] then shows itself in four ways: as one HTML page
// that needs nothing else (WriteHTML), as text with a line for each moment
// (WriteText, Excerpt), as a Mermaid diagram of what led to one moment (WriteMermaid),
// and as an event log that can be read back (WriteLog, [Read]).
//
// Equal timelines give equal bytes, in each of these forms.
package timeline

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Timeline is the account of one run. It is plain data: one goroutine at a time may
// change it, and any number may write it while nobody does.
type Timeline struct {
	Title    string        // for example "seed 42, hostile"
	Repeat   string        // the one line that repeats the run
	Seed     uint64        // what the run was drawn from
	Duration time.Duration // simulated
	Hosts    []string      // in the order of their lanes; "-" (the lab: faults, the experimenter) is not one of them
	Moments  []Moment      // in the order in which they happened
}

// Lab is the Host of what happens to no host in particular: a partition, the verdict.
const Lab = "-"

// Moment returns the moment with that ID, or nil if there is none.
func (t *Timeline) Moment(id int) *Moment {
	if id < 1 || id > len(t.Moments) {
		return nil
	}
	return &t.Moments[id-1]
}

// Chain returns the IDs of what led to the moment id, the first of them first and id
// last. It follows Cause, and where none is known Frame or Begin. It is empty if there
// is no such moment.
func (t *Timeline) Chain(id int) []int {
	var chain []int
	for t.Moment(id) != nil {
		chain = append(chain, id)
		before := t.Moment(id).because()
		if before >= id { // broken, as Check says; but walk must end
			break
		}
		id = before
	}
	slices.Reverse(chain)
	return chain
}

// Check reports the first thing in t that breaks the rules which [Timeline], [Moment]
// and [Kind] give: IDs that count from 1, times that never go back, hosts that are
// known, and references to earlier moments of the right kind.
func (t *Timeline) Check() error {
	known := map[string]bool{Lab: true}
	for _, host := range t.Hosts {
		if host == "" || known[host] || !utf8.ValidString(host) {
			return fmt.Errorf("timeline: host %q is empty, the lab, named twice, or not UTF-8", host)
		}
		known[host] = true
	}
	if t.Duration < 0 {
		return fmt.Errorf("timeline: duration %v is negative", t.Duration)
	}
	var before time.Duration
	for i := range t.Moments {
		m := &t.Moments[i]
		if m.ID != i+1 {
			return fmt.Errorf("timeline: moment %d has ID %d", i+1, m.ID)
		}
		if m.At < before {
			return fmt.Errorf("timeline: moment %d at %v is earlier than the one before, at %v", m.ID, m.At, before)
		}
		before = m.At
		if !known[m.Host] || m.Peer != "" && !known[m.Peer] {
			return fmt.Errorf("timeline: moment %d is of an unknown host: %q, peer %q", m.ID, m.Host, m.Peer)
		}
		if err := t.checkMoment(m); err != nil {
			return fmt.Errorf("timeline: moment %d (%v): %w", m.ID, m.Kind, err)
		}
	}
	return nil
}

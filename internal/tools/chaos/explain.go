package main

import (
	"fmt"
	"slices"
	"strings"
)

// supervised takes a record that explains others.
func (j *judge) supervised(r record) {
	names := strings.Split(r.who, ",")
	switch r.kind {
	case fault:
		alone := r.note == spares && !slices.ContainsFunc(j.faults, func(d disturbance) bool { return d.to == 0 })
		j.faults = append(j.faults, disturbance{span{from: r.from}, r.key, names, alone})
	case calm:
		j.overdue(r.from)
		for i := range j.faults {
			if j.faults[i].to == 0 {
				j.faults[i].to = r.from
			}
		}
		j.faults = slices.DeleteFunc(j.faults, func(d disturbance) bool { return d.to != 0 && d.to < r.from.add(-memory) })
		for name, all := range j.stops {
			j.stops[name] = slices.DeleteFunc(all, func(s span) bool { return s.to != 0 && s.to < r.from.add(-memory) })
		}
	case stopped:
		for _, name := range names {
			j.stops[name] = append(j.stops[name], span{from: r.from})
		}
	case continued, killed, started:
		for _, name := range names {
			j.runs(name, r)
		}
	case stalled:
		j.stops[r.process()] = append(j.stops[r.process()], span{r.from, r.to})
	default:
		j.violate("broken", r.from, "an unknown record: %s", r.kind)
	}
}

// overdue finds calls that should have returned.
func (j *judge) overdue(now moment) {
	for id, c := range j.begun {
		late := c.from.add(c.ttl + overtime)
		if late < now && !j.wasLate(c.process(), late.add(-overtime), now) {
			j.violate("error", now, "%s: a call for %s, which was to wait for %v at most, has not returned after %v", id, c.key, c.ttl, now.sub(c.from))
			delete(j.begun, id)
		}
	}
}

// runs notes that a process is stopped no more, or never was. One that is started anew has no holds and calls.
func (j *judge) runs(name string, r record) {
	for i := range j.stops[name] {
		if s := &j.stops[name][i]; s.to == 0 {
			s.to = r.from
		}
	}
	if r.kind != started {
		return // a process that is about to be killed may still write
	}
	j.core[name] = r.note == "core"
	for id, h := range j.open {
		if h.process() == name {
			delete(j.open, id)
		}
	}
	for id, c := range j.begun {
		if c.process() == name {
			delete(j.begun, id)
		}
	}
}

// wasLate tells whether a process was stopped, or stalled, in an interval.
func (j *judge) wasLate(name string, from, to moment) bool {
	return slices.ContainsFunc(j.stops[name], func(s span) bool { return s.meets(from, to) })
}

// meets tells whether a span and an interval have a moment in common.
func (s span) meets(from, to moment) bool { return s.from <= to && (s.to == 0 || s.to >= from) }

// explain returns what may have cost a process a lock or an answer in an interval: a fault, or a stall of its
// own or of a node of the core; "" if there was nothing.
func (j *judge) explain(name string, from, to moment) string {
	for _, d := range slices.Backward(j.faults) {
		if d.meets(from, to) && (!d.alone || slices.Contains(d.named, name)) {
			return d.kind
		}
	}
	for who, all := range j.stops {
		if who != name && !j.core[who] {
			continue
		}
		for _, s := range all {
			if s.meets(from, to) && s.to != 0 && s.to.sub(s.from) >= lateness {
				return "the machine's load"
			}
		}
	}
	return ""
}

// clock returns a moment in seconds, as the supervisor prints them.
func (j *judge) clock(m moment) string { return fmt.Sprintf("%.3fs", m.sub(j.origin).Seconds()) }

package founding

import (
	"fmt"
	"strings"
)

// Waiting tells in words what this node waits for, for the error of a Join whose
// context ends: "2 of 3 seeds answered; no answer from 10.0.0.3:7946". It is empty
// once there is nothing to wait for.
func (m *Machine) Waiting() string {
	if m.phase != searching {
		return ""
	}
	if t := m.joining.member; t != 0 {
		text := fmt.Sprintf("a living mesh was found; waiting to be let in by node %v", t)
		for _, o := range m.targets {
			if o.id == t {
				text = fmt.Sprintf("mesh %q was found; waiting to be let in by node %v at %s", o.name, t, o.addr)
			}
		}
		if m.joining.why != "" {
			text += ", which says: " + m.joining.why
		}
		return text
	}
	var silent, vague []string
	answered := 0
	for i := range m.seeds {
		s := &m.seeds[i]
		switch {
		case !m.answered(s) && s.err != "":
			silent = append(silent, s.addr+" ("+s.err+")")
			continue
		case !m.answered(s):
			silent = append(silent, s.addr)
			continue
		case s.rival != 0:
			vague = append(vague, fmt.Sprintf("two nodes answer at %s", s.addr))
		case !s.known:
			vague = append(vague, fmt.Sprintf("%s has not told of itself", s.addr))
		case !s.reached:
			vague = append(vague, fmt.Sprintf("node %q of %s does not answer at the address %s that it advertises", s.card.Name, s.addr, s.card.Addr))
		}
		answered++
	}
	parts := []string{fmt.Sprintf("%d of %d seeds answered", answered, len(m.seeds))}
	if len(silent) > 0 {
		parts = append(parts, "no answer from "+strings.Join(silent, ", "))
	}
	parts = append(parts, vague...)
	p := &m.proposer
	switch {
	case m.living():
		parts = append(parts, "a living mesh was found and lost again")
	case len(silent)+len(vague) > 0:
	case !m.listed():
		parts = append(parts, "this node is not among the seeds, and waits for them to found a mesh")
	case p.running:
		var missing []string
		for _, v := range p.voters {
			if !p.chosen && !v.promised || p.chosen && !v.accepted {
				missing = append(missing, fmt.Sprintf("%q", v.card.Name))
			}
		}
		parts = append(parts, "founding, without an answer from "+strings.Join(missing, ", "))
		if p.halt != "" {
			parts = append(parts, p.halt)
		}
	default:
		parts = append(parts, "listening for a living mesh before founding one")
	}
	return strings.Join(parts, "; ")
}

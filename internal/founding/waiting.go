package founding

import (
	"fmt"
	"slices"
	"strings"
)

// Waiting describes what this node waits for, for the error of a Join whose context ends:
// "2 of 3 seeds answered; no answer from 10.0.0.3:7300". It is "" if the node no longer
// waits.
func (m *Machine) Waiting() string {
	if m.phase != searching {
		return ""
	}
	if m.joining.member != 0 {
		return m.waitingForMember()
	}
	parts, ready := m.waitingForSeeds()
	switch {
	case m.living():
		parts = append(parts, "a living mesh was found and lost again")
	case !ready:
	case !m.listed():
		parts = append(parts, "this node is not among the seeds, and waits for them to found a mesh")
	case m.proposer.running:
		parts = append(parts, m.proposer.waiting()...)
	default:
		parts = append(parts, "listening for a living mesh before founding one")
	}
	return strings.Join(parts, "; ")
}

// waitingForMember describes the wait for the member of a mesh that is to let this node in.
func (m *Machine) waitingForMember() string {
	text := fmt.Sprintf("a living mesh was found; waiting to be let in by node %v", m.joining.member)
	if i := slices.IndexFunc(m.targets, func(o target) bool { return o.id == m.joining.member }); i >= 0 {
		o := m.targets[i]
		text = fmt.Sprintf("mesh %q was found; waiting to be let in by node %v at %s", o.name, o.id, o.addr)
	}
	if m.joining.why != "" {
		text += ", which says: " + m.joining.why
	}
	return text
}

// waitingForSeeds counts the seeds that have answered, and names each that keeps this node
// from founding a mesh. Ready means that there is none.
func (m *Machine) waitingForSeeds() (parts []string, ready bool) {
	var silent, unclear []string
	for i := range m.seeds {
		s := &m.seeds[i]
		switch {
		case !m.answered(s) && s.err != "":
			silent = append(silent, s.addr+" ("+s.err+")")
		case !m.answered(s):
			silent = append(silent, s.addr)
		case s.former != 0:
			unclear = append(unclear, fmt.Sprintf("two nodes answer at %s", s.addr))
		case !s.known:
			unclear = append(unclear, fmt.Sprintf("%s has not introduced itself", s.addr))
		case !s.reached:
			unclear = append(unclear, fmt.Sprintf("node %q of %s does not answer at the address %s that it advertises", s.card.Name, s.addr, s.card.Addr))
		}
	}
	parts = append(parts, fmt.Sprintf("%d of %d seeds answered", len(m.seeds)-len(silent), len(m.seeds)))
	if len(silent) > 0 {
		parts = append(parts, "no answer from "+strings.Join(silent, ", "))
	}
	return append(parts, unclear...), len(silent)+len(unclear) == 0
}

// waiting names the voters whose answers a running ballot still needs, and why one of them
// refuses for now.
func (p *proposer) waiting() []string {
	var missing []string
	for _, v := range p.voters {
		if !p.proposed && !v.promised || p.proposed && !v.accepted {
			missing = append(missing, fmt.Sprintf("%q", v.card.Name))
		}
	}
	parts := []string{"founding, without an answer from " + strings.Join(missing, ", ")}
	if p.objection != "" {
		parts = append(parts, p.objection)
	}
	return parts
}

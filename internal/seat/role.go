package seat

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
)

// Role is what a node is to the core of its mesh. It goes from Undecided to one of the others, and from Client to
// AtEntry if the node is reached at an entry later.
type Role uint8

// The roles.
const (
	Undecided Role = iota // it has not found its entry yet, or does not know whether it has one
	AtEntry               // it answers at an entry: it votes, or is to
	Client                // it answers at no entry
)

// String returns the name of a role, as package mesh has it.
func (r Role) String() string {
	return [...]string{Undecided: "undecided", AtEntry: "core", Client: "client"}[r]
}

// Role returns what this node is. That it is to be at an entry, as Config.Entry or its host's name says, makes it
// no part of the core: a dial of the entry must have reached it. But it keeps the node from being taken for a client.
func (m *Machine) Role() Role {
	entry, _ := m.expected()
	switch {
	case m.own != "":
		return AtEntry
	case m.cfg.Client:
		return Client
	case entry != "" || !m.looked:
		return Undecided
	}
	return Client
}

// expected returns the entry at which this node is to answer, and what says so; "" if nothing does.
func (m *Machine) expected() (entry, by string) {
	if m.cfg.Entry != "" {
		return m.cfg.Entry, "WithEntry"
	}
	return m.named, "its host's name"
}

// orient looks whether this node knows by now what it is.
func (m *Machine) orient(now time.Duration) {
	if m.Role() != Undecided {
		return
	}
	if m.named != "" && m.holder(m.named) != nil {
		m.named = "" // another process, of a host that has the same name
	}
	if p := m.holder(m.cfg.Entry); p != nil {
		for _, e := range m.book.entries {
			if e.node == m.cfg.Self.ID {
				m.fail(fmt.Errorf("%w: WithEntry is %s, which is the entry of node %q; a dial of %s reaches this node, %q",
					fault.ErrInvalidOption, m.cfg.Entry, p.told.Member.Name, e.addr, m.cfg.Self.Name))
				return
			}
		}
	}
	untried := func(e entry) bool { return !e.tried && slices.Contains(m.cfg.List, e.addr) }
	m.looked = m.looked || now >= m.lookUntil() || !slices.ContainsFunc(m.book.entries, untried)
}

// lookUntil returns when a node that was not reached at any entry is a client, though some dials have not ended yet:
// that of its own entry would have.
func (m *Machine) lookUntil() time.Duration { return m.started + m.pace.contact }

// roleDeadline returns when to orient again.
func (m *Machine) roleDeadline() time.Duration {
	if m.own != "" || m.cfg.Client || m.looked {
		return env.Never
	}
	return m.lookUntil()
}

// holder returns the other node that answers at an entry, and says that it is its own; nil if none does.
func (m *Machine) holder(entry string) *peer {
	e := m.book.entry(entry)
	if e == nil || e.node == m.cfg.Self.ID {
		return nil
	}
	if p := m.book.peers[e.node]; p != nil && p.told.Entry == entry && p.told.Member.ID == e.node {
		return p
	}
	return nil
}

// undecided says what a node waits for that is Undecided.
func (m *Machine) undecided() error {
	entry, by := m.expected()
	if entry == "" {
		return errors.New("whether a dial of an entry reaches this node")
	}
	e := m.book.entry(entry)
	why := "it has not ended yet"
	switch {
	case e == nil:
	case e.err != nil:
		why = e.err.Error()
	case e.node != 0:
		why = fmt.Sprintf("node %q answers there", e.name)
	}
	for _, o := range m.book.entries {
		if o.node == m.cfg.Self.ID {
			why += fmt.Sprintf("; %s leads to this node", o.addr)
		}
	}
	return fmt.Errorf("no dial of %s, the entry of this node by %s, has reached it: %s", entry, by, why)
}

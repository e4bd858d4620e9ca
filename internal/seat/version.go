package seat

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

// version is an attempt to decide the version after prev.
type version struct {
	ballot   core.Ballot
	prev     *core.Table
	own      *core.Table
	read     []transport.ID // those that answered, and what they had accepted
	at       []core.Ballot
	accepted []*core.Table
	value    *core.Table
	wrote    []transport.ID
}

func (v *version) moot(a *core.Acceptor) bool { return a.Table().Stamp != v.prev.Stamp }

func (v *version) send(m *Machine) {
	for _, id := range v.prev.Bound() {
		switch {
		case v.value != nil && !slices.Contains(v.wrote, id):
			m.send(id, write{v.ballot, v.prev.Stamp, pack(v.value)})
		case v.value == nil && !slices.Contains(v.read, id):
			m.send(id, read{core.Read{Ballot: v.ballot, Prev: v.prev.Stamp}})
		}
	}
}

func (v *version) answered(m *Machine, now time.Duration, from transport.ID, msg message) {
	bound := v.prev.Bound()
	if !slices.Contains(bound, from) {
		return
	}
	switch msg := msg.(type) {
	case value:
		if msg.Read != (core.Read{Ballot: v.ballot, Prev: v.prev.Stamp}) || v.value != nil || slices.Contains(v.read, from) {
			return
		}
		v.read, v.at, v.accepted = append(v.read, from), append(v.at, msg.At), append(v.accepted, msg.Accepted.unpack())
		if len(v.read) >= core.Majority(len(bound)) {
			if v.value = core.Chosen(v.at, v.accepted); v.value == nil {
				v.value = v.own
			}
			v.send(m)
		}
	case written:
		if msg.Ballot != v.ballot || msg.Prev != v.prev.Stamp || v.value == nil || slices.Contains(v.wrote, from) {
			return
		}
		if v.wrote = append(v.wrote, from); len(v.wrote) >= core.Majority(len(bound)) {
			m.decided(now, v.value, bound)
		}
	case refused:
		if msg.Ballot != v.ballot {
			return
		}
		if m.round = max(m.round, msg.Promised.Round); v.ballot.Compare(msg.Promised) < 0 {
			m.miss(now)
		} else if msg.Known.Roll == v.prev.Stamp.Roll && msg.Known.Version < v.prev.Stamp.Version || msg.Known == (core.Stamp{}) {
			m.send(from, shown{pack(v.prev)})
		}
	}
}

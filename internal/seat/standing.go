package seat

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

// Standing is where a node stands with the core of its mesh. It is never changed.
type Standing struct {
	Role   Role
	Why    string // what the node waits for; "": nothing
	Away   []Away // the entries that are waited for, sorted
	Fenced bool   // no replica on this node may vote
	Voters int    // that each shard is to have; zero: in no mesh yet

	// Unfounded: this node answers at its entry, and knows of no mesh; nor does any node at another entry; and at each entry where no node
	// answers there is no process, as its host or the name server says. Only those processes are missing for the mesh to be founded.
	Unfounded bool
}

// Away is an entry that does not count.
type Away struct {
	Entry string
	Since time.Duration // by the clock of the Machine's inputs
	Why   string
}

// Standing returns where the node stands: the same pointer as long as nothing has changed.
func (m *Machine) Standing() *Standing { return m.standing }

// Pending reports whether this node calls, or has accepted the value of a roll call, and does not know yet that a roll call was decided.
func (m *Machine) Pending() bool {
	_, calls := m.attempt.(*rollCall)
	return calls || m.acceptor.Pending()
}

// Entry returns the entry at which this node answers; "": at none, or it does not know yet.
func (m *Machine) Entry() string { return m.own }

// List returns the list with which this node was started. It must not be changed.
func (m *Machine) List() []string { return m.cfg.List }

// stand notes where the node stands.
func (m *Machine) stand(now time.Duration) {
	s := Standing{Role: m.Role(), Why: m.Waiting(), Fenced: m.state.Fenced, Unfounded: m.unfounded()}
	if t := m.state.Table; t != nil {
		s.Voters = t.Params.Voters(len(t.Seats))
	}
	list := m.cfg.List
	if t := m.acceptor.Table(); t != nil {
		list = t.List()
	}
	for i := range m.book.entries {
		e := &m.book.entries[i]
		why := m.missing(e, now)
		switch {
		case why == "":
			e.counted = true
			continue
		case e.counted:
			e.counted, e.away = false, now
		}
		if s.Role == Client && s.Why != "" || s.Role != Client && slices.Contains(list, e.addr) {
			s.Away = append(s.Away, Away{e.addr, e.away, why})
		}
	}
	if o := m.standing; s.Role != o.Role || s.Why != o.Why || s.Fenced != o.Fenced || s.Voters != o.Voters || s.Unfounded != o.Unfounded || !slices.Equal(s.Away, o.Away) {
		m.standing = &s
	}
}

// unfounded reports what Standing.Unfounded says. An entry that is silent in another way may be cut off, and know of a mesh.
func (m *Machine) unfounded() bool {
	if m.own == "" || !m.sure || m.acceptor.Table() != nil || m.serving != nil {
		return false
	}
	return !slices.ContainsFunc(m.book.entries, func(e entry) bool {
		p := m.book.peers[e.node]
		switch {
		case e.addr == m.own:
			return false
		case e.node == m.cfg.Self.ID:
			return true
		case p != nil && p.up && p.told.Member.ID != 0:
			return p.told.Known != core.Stamp{}
		}
		return !transport.Absent(e.err)
	})
}

// missing says why what is known of an entry does not count; "" if it does.
func (m *Machine) missing(e *entry, now time.Duration) string {
	p := m.book.peers[e.node]
	switch several := m.several(*e, now); {
	case e.node == m.cfg.Self.ID && e.addr == m.own:
		if m.sure {
			return ""
		}
		return "no dial of it has reached this node since the node stalled"
	case e.node == m.cfg.Self.ID:
		entry, _ := m.expected()
		return fmt.Sprintf("it leads to this node, whose entry is %s", orNone(entry))
	case p != nil && m.counts(*e, p, now):
		return ""
	case several != nil && m.Role() != Client:
		return several.Error()
	case m.own != "" && m.held(*e, now) != nil:
		return m.held(*e, now).Error()
	case e.err != nil:
		return e.err.Error()
	case p == nil:
		return "no dial of it has ended yet"
	case !m.heardLately(p, now):
		return fmt.Sprintf("node %q answers there, and has reported nothing lately", e.name)
	case p.told.Entry != e.addr && m.own != "":
		return fmt.Sprintf("node %q answers there, whose entry is %s", e.name, orNone(p.told.Entry))
	}
	return fmt.Sprintf("node %q answers there, and has not shown yet what it knows", e.name)
}

func orNone(entry string) string {
	if entry == "" {
		return "none, or not known yet"
	}
	return entry
}

// accuse logs, at most once a minute for each entry, that several nodes answer at it; or that another node answers there than the
// one that has its seat, which lives: if that lasts, for the end of a connection may not be known yet.
func (m *Machine) accuse(now time.Duration) {
	if m.Role() == Client {
		return // a contact point
	}
	for i := range m.book.entries {
		e := &m.book.entries[i]
		text, err := "several nodes answer at one entry: the entry does not count", m.several(*e, now)
		switch held := m.held(*e, now); {
		case held == nil:
			e.held = 0
		case e.held == 0:
			e.held = now
		case err == nil && now-e.held >= afar.fresh:
			text, err = "a node answers at an entry whose seat belongs to another node, which is still alive", held
		}
		if err != nil && now >= e.accused {
			e.accused = now + time.Minute
			m.log(slog.LevelError, text, slog.String("entry", e.addr), slog.String("error", err.Error()))
		}
	}
}

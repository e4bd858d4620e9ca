package seat

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// listens is for how long a new mesh that is not on loopback grants nothing at least, whatever its MaxTTL is: an
// earlier mesh that has one of the same entries dials it within some 2 s, and by then the new mesh has given way (C10).
const listens = 4 * time.Second

// foreign reports whether t is of another mesh than this node's, or, to a node that has none yet, of one with
// entries that it does not dial.
func (m *Machine) foreign(t *core.Table) bool {
	if own := m.acceptor.Table(); own != nil {
		return t.Mesh != own.Mesh
	}
	return slices.ContainsFunc(t.List(), func(e string) bool { return !slices.Contains(m.cfg.List, e) })
}

// claim notes that a node tells of another mesh: a node of the core shows that mesh; or the node at an entry shows that it was started
// with a list that has none of this node's entries.
func (m *Machine) claim(id transport.ID) {
	if m.own != "" && !slices.Contains(m.book.claims, id) && len(m.claims(id)) > 0 {
		m.book.claims = append(m.book.claims, id)
	}
}

// claims returns the addresses at which the nodes of another mesh are to be found, as a node tells.
func (m *Machine) claims(id transport.ID) (addrs []string) {
	p := m.book.peers[id]
	if p == nil {
		return nil
	}
	e := m.book.entryOf(id)
	if p.knows != nil && (p.told.Entry != "" || e != nil) && m.foreign(p.knows) {
		for _, s := range p.knows.Seats {
			if s.Node.ID != 0 && s.Node.Addr != m.cfg.Self.Addr {
				addrs = append(addrs, s.Node.Addr)
			}
		}
	}
	if e != nil && m.astray(*e) {
		addrs = append(addrs, p.told.List...)
	}
	return addrs
}

// astray reports whether the node at an entry of this node's list, or of its mesh's, was started with one that has none
// of its entries.
func (m *Machine) astray(e entry) bool {
	p := m.book.peers[e.node]
	return !e.back && p != nil && p.told.Member.ID != 0 && !core.Meets(m.list(), p.told.List)
}

// list returns the list of this node's mesh, or else its own.
func (m *Machine) list() []string {
	if own := m.acceptor.Table(); own != nil {
		return own.List()
	}
	return m.cfg.List
}

// claimed returns the addresses of other meshes of which nodes tell now. This one dials them back: who stands by a mesh
// is to say so itself (C10).
func (m *Machine) claimed() (addrs []string) {
	m.book.claims = slices.DeleteFunc(m.book.claims, func(id transport.ID) bool {
		all := m.claims(id)
		addrs = append(addrs, all...)
		return len(all) == 0
	})
	if o := m.bearer(); o.ID != 0 && o.Addr != m.cfg.Self.Addr {
		addrs = append(addrs, o.Addr)
	}
	return addrs
}

// leaveOut takes out of reports those of other meshes to which this node's mesh does not give way: meshes of another name, or without
// any of its entries; later ones that this node does not fit in; and those that this node has left. It returns why one was taken out;
// and an error if this node must end: it has no mesh, and a node of another one, whose list has none of its entries, answers at one of
// them; or the only mesh that lives, for as long as reports count, is one that this node has left.
func (m *Machine) leaveOut(now time.Duration, reports map[string]core.Report) (why, ends error) {
	m.alarm.why = nil
	if m.own == "" {
		return nil, nil
	}
	told, own := m.inOrder(reports), m.acceptor.Table()
	var apart, left error
	for _, e := range m.book.entries {
		t := reports[e.addr].Table
		if t == nil || own != nil && t.Mesh == own.Mesh {
			continue
		}
		err := m.differs(t)
		switch {
		case err != nil && t.Lives(told):
			apart = cmp.Or(apart, err)
		case err == nil && m.acceptor.Left(t.Mesh):
			err = fmt.Errorf("%w: node %q left the mesh %016x, which gave way to %016x: to go back, the node must be started again", fault.ErrForeignMesh, m.cfg.Self.Name, t.Mesh, own.Mesh)
			if t.Lives(told) && !own.Lives(told) {
				left = err
			}
		case err == nil && own != nil:
			err = m.stranger(t, own, e.addr)
		}
		if err != nil {
			delete(reports, e.addr)
			why = cmp.Or(why, err)
		}
	}
	m.alarm.why = apart
	ours := func(r core.Report) bool { return r.Table != nil && m.differs(r.Table) == nil }
	if own == nil && apart != nil && slices.ContainsFunc(m.book.entries, m.astray) && !slices.ContainsFunc(told, ours) {
		return why, apart
	}
	if left == nil {
		m.alone = now
	}
	if now >= m.alone+m.pace.fresh {
		return why, left
	}
	return why, nil
}

// inOrder returns reports in the order of their entries.
func (m *Machine) inOrder(reports map[string]core.Report) (all []core.Report) {
	for _, e := range m.book.entries {
		if r, ok := reports[e.addr]; ok {
			all = append(all, r)
		}
	}
	return all
}

// differs returns an error if another mesh has the name of this node's, and no entry in common with it.
func (m *Machine) differs(t *core.Table) error {
	list, own := m.list(), m.acceptor.Table()
	if core.Meets(list, t.List()) || own != nil && own.Params.MeshName != t.Params.MeshName {
		return nil
	}
	return coreDiffers(list, t)
}

func coreDiffers(list []string, t *core.Table) error {
	return fmt.Errorf("%w: the list here is %q, and mesh %016x has %q", fault.ErrCoreDiffers, list, t.Mesh, t.List())
}

// stranger returns why this node's mesh never ends for the mesh of t, which answers at one of its entries, or nil. A
// mesh of its name that was founded before makes it end, whether this node fits in or not.
func (m *Machine) stranger(t, own *core.Table, entry string) error {
	switch {
	case t.Params.MeshName != own.Params.MeshName:
		return fmt.Errorf("%w: mesh %q answers at %s, an entry of mesh %q", fault.ErrForeignMesh, t.Params.MeshName, entry, own.Params.MeshName)
	case t.Before(own):
		return nil
	}
	return m.cfg.Wants.Fits(m.cfg.Self.Name, t.Params)
}

// prefer returns which of two tables that serve this node goes by, if it has no seat. Of two meshes it is the earlier
// one, as for their cores. Where they have no entry in common it stays in its own.
func (m *Machine) prefer(best, t *core.Table) *core.Table {
	switch {
	case best == nil:
		return t
	case best.Mesh == t.Mesh:
		if best.Stamp.Compare(t.Stamp) < 0 {
			return t
		}
		return best
	case !core.Meets(best.List(), t.List()) && best.Params.MeshName == t.Params.MeshName:
		m.alarm.why = coreDiffers(best.List(), t)
		for _, stays := range []*core.Table{best, t} {
			if m.serving != nil && m.serving.Mesh == stays.Mesh {
				return stays
			}
		}
	}
	if t.Before(best) {
		return t
	}
	return best
}

// bearer returns the node that has this one's entry in the mesh to which this one's mesh gave way. ID zero: none, or this
// node itself.
func (m *Machine) bearer() env.Member {
	if m.moved {
		for _, s := range m.acceptor.Table().Seats {
			if s.Entry == m.own && s.Node.ID != m.cfg.Self.ID {
				return s.Node
			}
		}
	}
	return env.Member{}
}

// taken returns an error if the bearer of this node's entry lives.
func (m *Machine) taken() error {
	o := m.bearer()
	if p := m.book.peers[o.ID]; p == nil || !p.up || p.told.Entry != m.own {
		return nil
	}
	return fmt.Errorf("%w: node %q (%v) answers at %s, the entry of node %q, in the mesh to which that one's gave way: list each by a name of its own",
		fault.ErrEntryTaken, o.Name, o.ID, m.own, m.cfg.Self.Name)
}

// givesWay tells of it that this node's mesh gives way to another.
func (m *Machine) givesWay(own, other *core.Table) {
	m.log(slog.LevelError, "this mesh gives way to another one of its name",
		slog.String("mesh", fmt.Sprintf("%016x", own.Mesh)), slog.Any("entries", own.List()),
		slog.String("other", fmt.Sprintf("%016x", other.Mesh)), slog.Any("otherEntries", other.List()))
}

// Raise returns the revision above which the tables of all shards are to go on, because a later mesh gives way to
// this one; zero: none.
func (m *Machine) Raise() uint64 { return m.raise }

// raised returns what replicas here have applied, to a node whose mesh gives way once that is above floor.
func (m *Machine) raised(from transport.ID, floor uint64) (revisions []uint64) {
	if floor == 0 {
		return nil
	}
	if above := min(floor, maxFloor-revisionJump) + revisionJump; above > m.raise {
		m.raise = above
		m.log(slog.LevelWarn, "a later mesh of this name gives way to this one", slog.String("id", from.String()))
	}
	for i := range m.acceptor.Table().Shards {
		r := uint64(0)
		if m.cfg.Applied != nil {
			r = m.cfg.Applied(i)
		}
		revisions = append(revisions, r)
	}
	return revisions
}

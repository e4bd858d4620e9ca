package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/state"
	"github.com/lockmesh/mesh/transport"
)

// keepEvery is how often what a node of the core must not forget is saved at least, while it changes.
const keepEvery = 10 * time.Second

// unsaved is more revisions than there are in the time since the last Save, of a shard that grants and frees half a million keys a second.
const unsaved = 1 << 24

// keeper saves in the state directory what a node of the core must not forget, off its loops (P35).
type keeper struct {
	store    env.Store    // nil: there is no state directory
	found    state.State  // when the node was started
	last     state.State  // that was saved, or found
	replaces transport.ID // the incarnation before this one, which has ended: the directory was not in use
	saving   bool
	list     string        // that is to be kept in place of last.List; "": none
	next     time.Duration // when to save again, though nothing but the floor has changed, or the last Save failed
	failed   bool          // it did
}

// openState opens the state directory, if there is one, and reads what is in it. A mesh's name that is not set is the
// one in the directory.
func (n *Node) openState() (k keeper, err error) {
	dir := n.cfg.StateDir
	if dir == "" {
		return k, nil
	}
	if k.store, err = n.env.OpenStore(dir); err != nil {
		return k, fmt.Errorf("%w: WithStateDir %q: %w", fault.ErrInvalidOption, dir, err)
	}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	b, err := k.store.Load()
	if err == nil && b != nil {
		k.found, err = state.Decode(b)
		k.last = k.found
	}
	switch {
	case errors.Is(err, state.ErrDamaged):
		return k, fmt.Errorf("%w: WithStateDir %q: the file %q is %w; restore it; or, once every lease of the mesh has ended, remove it and start the node with the list that the core has now: without that file a mesh that is founded anew knows nothing of earlier tokens and leases, and the node nothing of changes of the list",
			fault.ErrInvalidOption, dir, "state", err)
	case err != nil:
		return k, fmt.Errorf("%w: WithStateDir %q: %w", fault.ErrInvalidOption, dir, err)
	case k.last.MeshName != "" && n.cfg.MeshName != "" && k.last.MeshName != n.cfg.MeshName:
		return k, fmt.Errorf("%w: the state directory %q is of mesh %q, and this node is for mesh %q", fault.ErrForeignMesh, dir, k.last.MeshName, n.cfg.MeshName)
	}
	n.cfg.MeshName = cmp.Or(n.cfg.MeshName, k.last.MeshName)
	if err := n.startWith(&k.last); err != nil {
		return k, err
	}
	k.replaces, k.last.Node = k.last.Node, transport.ID(n.id)
	if err := k.store.Save(k.last.Encode()); err != nil {
		return k, fmt.Errorf("%w: WithStateDir %q: %w", fault.ErrInvalidOption, dir, err)
	}
	return k, nil
}

// startWith lets the node start with the list that the one before it has kept, if an operator has changed the list since the
// seeds were changed last (C11).
func (n *Node) startWith(s *state.State) error {
	if n.cfg.Client || n.cfg.Discover != nil {
		return nil
	}
	seeds := founding.Normalise(n.cfg.Seeds)
	list, kept := s.Start(seeds)
	switch {
	case !kept || slices.Equal(list, seeds):
		return nil
	case n.cfg.Entry != "" && !slices.Contains(list, n.cfg.Entry):
		return fmt.Errorf("%w: WithEntry %q is not in the list %q, to which an operator has changed the core, and which the state directory %q keeps: give the node one of these entries, or start it with the list that the core has now as seeds",
			fault.ErrInvalidOption, n.cfg.Entry, list, n.cfg.StateDir)
	}
	n.log.Info("this node starts with the list that its state directory keeps: an operator has changed the core's list since this node's seeds were changed last",
		"list", strings.Join(list, " "), "seeds", strings.Join(seeds, " "), "advice", "make the list the seeds of all nodes")
	n.cfg.Seeds = list
	return nil
}

// undo closes the state directory of a node that was not started. It leaves there what was found: else the next one would say that
// it replaces this one, of which the core has never heard, and wait for its seat.
func (k *keeper) undo() {
	if k.store != nil {
		_ = k.store.Save(k.found.Encode()) // if that fails, the next node only waits
		k.close()
	}
}

func (k *keeper) close() {
	if k.store != nil {
		_ = k.store.Close() // the lock goes with the process at the latest
	}
}

// keep saves what has changed, one time after the other. A node without a seat has nothing to keep.
func (l *shardLoop) keep() {
	k := &l.keeper
	if k.store == nil || k.saving || !l.seated() {
		return
	}
	s := state.State{
		MeshName: l.core.table.Params.MeshName, Mesh: l.core.table.Mesh, Node: transport.ID(l.node.id),
		Floor: max(k.last.Floor, l.core.seat.Floor()), Quiet: l.core.seat.Quiet(), Seeds: k.last.Seeds, List: k.last.List, Before: k.last.Before,
	}
	if k.list != "" {
		s.Keep(k.list)
	}
	soon := s
	soon.Floor = k.last.Floor
	if s == k.last || (soon == k.last || k.failed) && l.now < k.next {
		return
	}
	k.saving, k.next = true, l.now+keepEvery
	store, b := k.store, s.Encode()
	l.node.env.Go("state", keepEvery, func(context.Context) {
		err := store.Save(b)
		l.post(func(l *shardLoop) { l.kept(s, err) })
	})
}

// kept: a Save has ended.
func (l *shardLoop) kept(s state.State, err error) {
	k := &l.keeper
	k.saving, k.failed = false, err != nil
	if err != nil {
		l.node.log.Error("the state directory cannot be written: a mesh that is founded anew may not know of this one's tokens and leases",
			"directory", l.node.cfg.StateDir, "error", err)
		return
	}
	changed := s.List != k.last.List
	k.last = s
	if k.list == s.List {
		k.list = ""
	}
	if changed {
		l.carryOutCore(l.core.seat.Kept(l.now, strings.Fields(s.List), nil))
	}
	if k.list != "" {
		l.keep() // it has come meanwhile
	}
}

// saved returns a function that returns the Quiet of the file, or nil if there is no state directory.
func (k *keeper) saved() func() time.Duration {
	if k.store == nil {
		return nil
	}
	return func() time.Duration { return k.last.Quiet }
}

// floor returns a revision that the mesh before has not passed; zero: none is known.
func (k *keeper) floor() uint64 {
	if k.last.Floor == 0 {
		return 0
	}
	return k.last.Floor + unsaved
}

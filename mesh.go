// Package mesh provides distributed locks for the processes of a fleet. Every process
// embeds a node; there is no server to run. The nodes at the entries of one list, the core, keep the locks;
// all others are clients of it.
//
//	node, err := mesh.Join([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})
//	if err != nil {
//		return err
//	}
//	defer node.Leave(context.Background())
//
//	lock, err := node.Lock(ctx, "orders/42")
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock(ctx)
//	return bill(lock.Context(), lock.Token())
//
// In the whole mesh a key has at most one exclusive holder at a time, or only readers, as long as
// no clock runs more than 1 % fast or slow. Every grant carries a token that is larger than all
// earlier tokens of its key in this mesh ([Lock.Token]): a resource that refuses tokens smaller
// than the largest it has seen is safe even if a clock is off by more. A holder that loses its
// lock, for example because its machine was cut off, is told before the key can be
// granted again: [Lock.Context] ends with the cause [ErrLost].
//
// There are also read locks ([Node.RLock]) and semaphores ([Node.Acquire]). Requests for
// a key are served first come, first served.
//
// Every function that waits takes a context ([Join] has the variant [JoinContext]; [Solo], which waits for no other
// node, has none). The context bounds the wait and never the hold. But calls that take a function (Do,
// [Election.Lead], Once, and Pull, Update and Delete of a [Resource]) give the function a context that also ends with the call's. All
// functions and methods may be called from several goroutines at once.
package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmesh/mesh/internal/bridge"
	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/internal/realenv"
)

// Node is one member of a mesh, of its core or a client, embedded in this process. A zero or nil Node behaves like
// a closed node without a name or members.
type Node struct {
	node   *node.Node
	config sessionConfig           // of its sessions, without what only the mesh knows
	own    atomic.Pointer[Session] // of the node's own locks; nil: not needed yet
}

// joinTimeout is how long Join tries.
const joinTimeout = time.Minute

// Join makes this process a member of the mesh of its seeds. It returns when
// the node can serve, or after 60 s with an error that says what it waited for. A process that must
// do something meanwhile, such as answer the probes of its platform, calls [Start] instead.
//
// The seeds are the core of the mesh: a node that answers at one of these entries has a seat in it, votes, and keeps locks. A node
// that answers at none of them is a client: it need not be dialled, and comes and goes without moving anything. It must
// reach most of the core to join. [WithClientOnly] makes a client that opens no port.
// All nodes of a fleet have the same list. The core founds the mesh together: every entry must answer, and no
// mesh is founded while one is missing. Once it is founded, a node joins while a majority of the core lives.
//
// A seed, or entry of the list, is "host:port", or a host alone, which means port 7300. Each entry must lead to one
// node: if it leads to several, those that answer there end with ErrEntryTaken or ErrInvalidOption. List three, or five, that do not fail together: of
// two, either one stops service while it is away. A single entry that is not on loopback is ErrInvalidOption for
// its node, unless [WithFound] is given. Blank seeds are dropped; if all are blank, for
// example because a variable is unset, Join returns ErrNoSeeds, unless WithFound or WithDiscovery is given: else
// each process of a fleet would found a mesh of its own. See [Solo] for a mesh of one, and [WithDiscovery] for clients
// without seeds.
//
// A node learns by dialling which entry is its own: the one at which it reaches itself; see [WithEntry] for what else tells it.
//
// Errors: ErrInvalidOption, ErrNoSeeds, ErrForeignMesh, ErrNameTaken, ErrEntryTaken, ErrCoreDiffers, or the
// network's error; after 60 s one that unwraps to ErrNotFounded and to context.DeadlineExceeded. Call Leave or Close
// when done.
func Join(seeds []string, opts ...Option) (*Node, error) {
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	return JoinContext(ctx, seeds, opts...)
}

// JoinContext is Join, but it tries until ctx ends: then the error unwraps to ErrNotFounded and to ctx.Err(). Once JoinContext has
// returned a node, the end of ctx means nothing to it.
func JoinContext(ctx context.Context, seeds []string, opts ...Option) (*Node, error) {
	n, err := StartContext(ctx, seeds, opts...)
	if err != nil {
		return nil, err
	}
	if err := n.node.WaitReady(ctx); err != nil {
		_ = n.Close()
		return nil, err
	}
	return n, nil
}

// Solo makes a mesh of one on loopback, for tests and for a single process. It is Join without seeds, with
// [WithFound], and at a free port of 127.0.0.1. WithBind may name another loopback address; any other is ErrInvalidOption.
func Solo(opts ...Option) (*Node, error) {
	return Join(nil, append(slices.Clip(opts), WithFound(), loopbackOnly)...)
}

// Start begins what Join does, and returns at once. The node looks for its mesh until it is closed, or fails;
// [Node.WaitReady] waits for it. Several nodes of a core in one process need it: none is ready before all have
// started. Until then NewSession and all calls about keys wait, too; if their context ends first, their error unwraps to ErrNotFounded and to
// ctx.Err(). But TryLock, TryRLock and TryAcquire return ErrNotFounded at once. Errors: ErrInvalidOption, ErrNoSeeds,
// ErrForeignMesh if the state directory is of another mesh, or the network's. What Join would find out later, such as ErrNameTaken,
// ends the node: see [Node.Err]. Call Leave or Close when done.
func Start(seeds []string, opts ...Option) (*Node, error) {
	return StartContext(context.Background(), seeds, opts...)
}

// StartContext is Start. In a simulation, ctx says to which world the node belongs. Nothing else of ctx counts, not even its end.
func StartContext(ctx context.Context, seeds []string, opts ...Option) (*Node, error) {
	if ctx == nil {
		return nil, invalid("the context", "nil", "a context")
	}
	cfg, err := configure(seeds, opts)
	if err != nil {
		return nil, err
	}
	cfg.Env = env.FromContext(ctx)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
		if w, ok := cfg.Env.(env.Instrumented); ok {
			cfg.Logger = w.Logger()
		}
	}
	if cfg.Env == nil {
		cfg.Env = realenv.New(cfg.Logger)
	}
	_, real := cfg.Env.(*realenv.Env)
	c, err := node.Start(cfg)
	if err != nil {
		return nil, err
	}
	return &Node{node: c, config: sessionConfig{
		log:           cfg.Logger.With("node", c.Name()),
		reportDropped: real, // the garbage collector keeps no virtual time
	}}, nil
}

// Name returns the node's name: see [WithName].
func (n *Node) Name() string {
	if n.isZero() {
		return ""
	}
	return n.node.Name()
}

func (n *Node) isZero() bool { return n == nil || n.node == nil }

func init() {
	bridge.NodeOf = func(n any) *node.Node {
		if n := n.(*Node); !n.isZero() {
			return n.node
		}
		return nil
	}
	bridge.TTLs = func(n any) (usual, most time.Duration) {
		if s := n.(*Node).session(); s != nil {
			return s.TTL(), s.config.maxTTL()
		}
		return 0, 0
	}
	bridge.KeyStateOf = func(seen node.Sight) any { return newKeyState(seen) }
}

// Addr returns the host and port at which other nodes reach the node; "" for a node of [WithClientOnly].
func (n *Node) Addr() string {
	if n.isZero() {
		return ""
	}
	return n.node.Addr()
}

// Members returns the nodes of the mesh as this node knows them, itself included, sorted by name. Each name is listed
// once, with its present node. A node of the core lists the core and the clients that are connected with it, as a rule
// all; a client that ended without [Node.Leave], or was cut off, is listed as MemberDead for a minute. A client lists the core and itself;
// see [Node.ListMembers]. Before the node has joined there are none.
func (n *Node) Members() []Member {
	if n.isZero() {
		return nil
	}
	return membersOf(n.node.Members())
}

// Health returns the state of this node, and of the mesh's shards as far as it has heard. It is up
// to date a few seconds after a change.
func (n *Node) Health() Health {
	if n.isZero() {
		return Health{}
	}
	h := n.node.Health()
	all := Health{
		Role: Role(h.Role), Phase: Phase(h.Phase), SafeToStop: h.SafeToStop,
		Settled: h.Settled, Ready: h.Ready, Unfounded: h.Unfounded, FullyReplicated: h.FullyReplicated,
		NoMajority: h.NoMajority, UnderReplicated: h.UnderReplicated, QuietUntil: n.node.Date(h.QuietUntil),
	}
	for _, w := range h.Waiting {
		all.Waiting = append(all.Waiting, Waiting{Entry: w.Entry, Since: n.node.Date(w.Since), Why: w.Why})
	}
	return all
}

// Live returns nil while the node works: a process whose node does not should be restarted. It returns [Node.Err] if
// the node has ended, and an error that wraps ErrHung if one of its loops has done nothing for 10 s, in a log handler
// that blocks for example. It takes no account of other nodes, nor of whether keys can be locked: the last survivor of
// a core lives. Loops are looked after from the first call on, so call it repeatedly, as a probe does; it does not block.
// Time for which the whole process was suspended does not count.
func (n *Node) Live() error {
	if n.isZero() {
		return ErrClosed
	}
	return n.node.Live()
}

// WaitHealthy waits until every shard is fully replicated, and returns nil. Call it before
// the next node of the core is stopped in a rolling restart, for example. While a node of the core is away and
// no other entry can take its place, as in a core of three, it waits. It does not wait for the end of the quiet time,
// nor does Join: the replicas that a restart needs are complete before. If ctx ends first, it returns
// an error that unwraps to ctx.Err(); if the node ends first, it returns [Node.Err].
func (n *Node) WaitHealthy(ctx context.Context) error {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return err
	}
	return n.node.WaitHealthy(ctx)
}

// Done returns a channel that is closed when the node has ended.
func (n *Node) Done() <-chan struct{} {
	if n.isZero() {
		return closedChannel()
	}
	return n.node.Done()
}

// Err returns nil while the node runs, and afterwards why it ended: for example ErrClosed
// after Close, ErrLeft after Leave of a node that had joined, or ErrEjected.
func (n *Node) Err() error {
	if n.isZero() {
		return ErrClosed
	}
	return n.node.Err()
}

// Stats returns counters, as sql.DB.Stats does.
func (n *Node) Stats() Stats {
	if n.isZero() {
		return Stats{}
	}
	return Stats(n.node.Stats())
}

// Leave waits until this node's locks are given back, hands over what others can take over, and stops the node. A client has
// nothing to hand over. A node of the core hands its votes over if at least two others stay, else only the leadership of
// shards: of three nodes one may leave at a time, and the last one alone grants nothing. Its entry stays
// in the list, and the next process at that entry takes its place. New calls fail with
// ErrClosed at once, except those that enter a lock again ([Reentrant]); calls that wait for a key return ErrClosed.
//
// Leave waits until the locks held here are unlocked or have ended by their [MaxHold], or
// until ctx ends (20 s, if ctx has no deadline). Then the contexts of the remaining locks
// end. Their keys are free when their leases end and not before, because their holders may
// not have stopped yet. Leave does not wait for a lock with MaxHold that was
// garbage-collected, because the program can no longer unlock it; but it does wait if
// Context, WithContext or Lost of that lock was called. It waits for an operation on a [Resource] as for a lock, and for no
// use: the contexts of uses end, and the uses when their leases end, but for those that are [Durable]. The contexts of functions that
// [Election.Lead] runs end at once, so that it resigns; Leave waits for that, as for other leaderships.
//
// Handing over takes up to another 20 s, even if ctx has ended. Leave returns
//
//   - nil if nothing was left behind, or if the node had ended before; also if it was in no mesh yet: it is just closed then
//   - an error that says what was left behind: locks that were still held or, if there were
//     none, replicas that others could have taken over and did not in time, or shards that wait for this
//     node's return, since too few nodes of the core stay. The node has left all the same
//   - [ErrClosed] at once if another call of Leave is under way
//   - [Node.Err], if the node ends meanwhile for another reason
func (n *Node) Leave(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case n.isZero():
		return nil
	}
	return n.node.Leave(ctx)
}

// Close stops the node at once, as a crash would: the keys that it held are free when their
// leases end, and the shards that it led elect new leaders. Close returns nil. A second
// Close does nothing.
func (n *Node) Close() error {
	if n.isZero() {
		return nil
	}
	return n.node.Close()
}

// DeclareDead tells the core, on the word of an operator, that the node at an entry of the list has ended for good:
// its machine is gone. Shards that had waited for its vote go on without it: they begin again from what
// the holders report, after a quiet time if need be. The dead node keeps its seat until another node answers at the
// entry, the list is changed, or, in a core of three, it has been silent for some 20 s. Of a core of three, one node may be declared dead before it is replaced, of five two: a majority
// must be left. DeclareDead returns nil when the core has decided it; at once if no node has the seat of
// the entry, or if that node is already known to have ended.
//
// The caller answers for it: a node that only does not answer may live, and serve its shards. If it does, two callers may
// hold a key at once, until that node learns of the declaration; then it ends with [ErrEjected], or, if its seat has been vacated by then, gives up
// its shards.
//
// The entry is written as in the list of seeds. Call it on any node of the core. Errors:
//
//   - [ErrNoSeat]: this node has no seat in the core; [ErrInvalidOption]: the list has no such entry
//   - [ErrAlive]: the node is still connected with a node of the core when ctx ends, or is the one that was called; or, at once, it
//     has connected with that one meanwhile. A connection with a machine that was switched off counts as broken after 5 to 8 s
//   - [ErrNoQuorum]: no majority of the core has decided it when ctx ends; or, at once, no majority would be left
//   - [Node.Err], if this node ends
//
// If ctx ends while a decision is under way, the core may still make it. If ctx has no deadline, DeclareDead waits 15 s.
func (n *Node) DeclareDead(ctx context.Context, entry string) error {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return err
	}
	addr, err := seedAddr(entry)
	if err != nil {
		return invalid("the entry", fmt.Sprintf("%q", brief(entry)), err.Error())
	}
	return n.node.DeclareDead(ctx, addr)
}

// ChangeCore changes the list of a mesh that runs, on the word of an operator: it adds an entry, removes one, or both; ""
// is none. The core decides it by its majority; the node whose entry goes need not agree, nor live. Every node of the core whose
// entry stays saves the next list in its state directory ([WithStateDir]), where its next process finds it, and only then goes by that
// list in place of its seeds. Nothing restarts, and no lock is lost. Make the next list the seeds of all
// processes when you start them next; clients need not be restarted for it, as long as their seeds and the list have an
// entry in common. If a node still has an earlier list, call ChangeCore with an entry that the list already has as add: that
// node then saves the present list.
//
// ChangeCore returns nil when the list is in force, and every node whose entry stays has saved it. Start the node at a new entry before
// or after the call, with the next list as its seeds; but if an entry of a list of three or fewer is replaced, with the present
// entries and its own. Never start it with a list that is two changes away: if all others restarted behind a cut, it could
// found a second mesh with them. The next change waits until the new node has joined, and the votes of the old one have
// moved. Until then the change may be taken back by another call, for example to remove a misspelt entry. A list of three or fewer
// grows before it drops an entry. To replace one there takes two changes, which ChangeCore makes one after the other: it waits for the
// new node before it removes the old one; or, in a list of three, removes the old one first if no node of the core is connected with it. If it
// fails halfway, call it again.
//
// A node of the core that was cut off or ends meanwhile takes the next list when it is back. End the process whose entry was
// removed before the list changes again.
//
// Entries are written as in the list of seeds. Call it on any node of the core that stays. Errors:
//
//   - [ErrNoSeat]: this node has no seat in the core; [ErrInvalidOption]: the list has no such entry to remove, or the entry
//     to add leads each node to itself, as one on loopback does in a list of other machines
//   - [ErrUnchanged]: the list cannot change so, or another change came first. This call has changed nothing, but for the first of two
//     changes that replace an entry. The text names lists, and says why, for example: a node that stays has no state directory, so change
//     the list by restarts; a node has ended, so replace or remove that first; the only entry is to be replaced, and the list must grow
//     first; or one entry that is not on loopback would be left, and its node has no [WithFound], or is not the one that was asked
//   - [ErrUnfinished], with the error of ctx: when ctx ended, the change before was not complete, a node did not answer, or
//     not all had saved the list. The text says which. What the core has decided goes on by itself
//   - [Node.Err], if this node ends
//
// If ctx has no deadline, ChangeCore waits 30 s.
func (n *Node) ChangeCore(ctx context.Context, add, remove string) error {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return err
	}
	for _, e := range []*string{&add, &remove} {
		if *e == "" {
			continue
		}
		addr, err := seedAddr(*e)
		if err != nil {
			return invalid("the entry", fmt.Sprintf("%q", brief(*e)), err.Error())
		}
		*e = addr
	}
	if add == remove {
		return invalid("what to add and to remove", fmt.Sprintf("%q and %q", brief(add), brief(remove)), "one entry, or two different ones")
	}
	return n.node.ChangeCore(ctx, add, remove)
}

// NewSession returns a session with its own lease TTL. It sends nothing; but while a node of [Start] cannot serve yet, it waits.
// Close the session when done. Errors: ErrInvalidOption, ErrClosed, or ctx.Err() if ctx has ended; also ErrNotFounded if the node could
// not serve before ctx ended.
func (n *Node) NewSession(ctx context.Context, opts ...SessionOption) (*Session, error) {
	if ctx == nil {
		return nil, invalid("the context", "nil", "a context")
	}
	own, err := n.anySession(ctx)
	if err != nil {
		return nil, err
	}
	ttl, err := own.config.sessionTTL(own.TTL(), opts)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	s, err := n.node.NewSession(ttl)
	if err != nil {
		return nil, err
	}
	return newSession(s, own.config), nil
}

// WaitReady waits until the node can serve ([Health].Settled), and returns nil. If ctx ends first, it returns an
// error that unwraps to ErrNotFounded and to ctx.Err(), and says what the node waits for, for example which seed
// does not answer; if the node ends first, [Node.Err]; while it leaves, ErrClosed.
func (n *Node) WaitReady(ctx context.Context) error {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return err
	}
	return n.node.WaitReady(ctx)
}

// session returns the session of the node's own locks, or nil if the node cannot serve yet, or never could.
func (n *Node) session() *Session {
	if n.isZero() {
		return nil
	}
	if s := n.own.Load(); s != nil {
		return s
	}
	inner := n.node.Session()
	if inner == nil {
		return nil
	}
	config, p := n.config, n.node.Params()
	config.maxTTL, config.shards = n.node.MaxTTL, p.Shards
	n.own.CompareAndSwap(nil, newSession(inner, &config))
	return n.own.Load()
}

// anySession returns the node's own session, as soon as the node can serve. ErrClosed: there will be none.
func (n *Node) anySession(ctx context.Context) (*Session, error) {
	s := n.session()
	if s == nil && !n.isZero() {
		if err := n.node.WaitReady(ctx); errors.Is(err, ErrNotFounded) {
			return nil, err
		}
		s = n.session()
	}
	if s == nil {
		return nil, ErrClosed
	}
	return s, nil
}

// take is Session.take, once the node can serve.
func (n *Node) take(ctx context.Context, req client.Request, opts []LockOption) (*Lock, error) {
	s := n.session()
	if s == nil && ctx != nil && !n.isZero() {
		if n.node.Starting() {
			if _, err := checkRequest(&req, opts); err != nil {
				return nil, err
			}
			if req.Try {
				return nil, fmt.Errorf("%w: %s", ErrNotFounded, n.node.Waiting())
			}
		}
		var err error
		if s, err = n.anySession(ctx); err != nil { // at once, if the node serves by now, or has ended
			return nil, err
		}
	}
	return s.take(ctx, req, opts)
}

// Lock is [Session.Lock] in the node's own session, which is not lost as a whole, unlike those
// of NewSession: if its lease is lost in one shard, only the locks of that shard
// are lost. While a node of [Start] cannot serve yet, Lock waits; if ctx ends first, the error unwraps to
// ErrNotFounded and to ctx.Err().
func (n *Node) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return n.take(ctx, client.Request{Key: key}, opts)
}

// TryLock is [Session.TryLock] in the node's own session. It returns ErrNotFounded while a node of [Start] cannot
// serve yet.
func (n *Node) TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return n.take(ctx, client.Request{Key: key, Try: true}, opts)
}

// RLock is [Session.RLock] in the node's own session.
func (n *Node) RLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return n.take(ctx, client.Request{Key: key, Mode: client.Shared}, opts)
}

// TryRLock is [Session.TryRLock] in the node's own session.
func (n *Node) TryRLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return n.take(ctx, client.Request{Key: key, Mode: client.Shared, Try: true}, opts)
}

// Acquire is [Session.Acquire] in the node's own session.
func (n *Node) Acquire(ctx context.Context, key string, permits, capacity int64, opts ...LockOption) (*Lock, error) {
	return n.take(ctx, client.Request{Key: key, Mode: client.Permits, Weight: permits, Capacity: capacity}, opts)
}

// TryAcquire is [Session.TryAcquire] in the node's own session.
func (n *Node) TryAcquire(ctx context.Context, key string, permits, capacity int64, opts ...LockOption) (*Lock, error) {
	return n.take(ctx, client.Request{Key: key, Mode: client.Permits, Weight: permits, Capacity: capacity, Try: true}, opts)
}

// Do is [Session.Do] in the node's own session.
func (n *Node) Do(ctx context.Context, key string, fn func(context.Context, *Lock) error, opts ...LockOption) error {
	return do(ctx, n.Lock, key, fn, opts)
}

// Package mesh lets the processes of a fleet lock keys among themselves. Every process
// embeds a node; there is no server to run.
//
//	node, err := mesh.Join([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})
//	if err != nil {
//		return err
//	}
//	defer node.Close()
//
//	lock, err := node.Lock(ctx, "orders/42")
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock(ctx)
//	return bill(lock.Context(), lock.Token())
//
// At most one [Lock] of a key is held at a time, in the whole mesh, as long as clocks run
// at rates that are wrong by 1 % at most. Every grant carries a token that is larger than
// those before it ([Lock.Token]): a resource that refuses smaller tokens than it has seen
// is safe even where clocks are not. Who loses a lock, for example because its machine
// was cut off, is told before anybody else can have it: [Lock.Context] ends with the
// cause [ErrLost].
//
// Beside locks there are read locks ([Node.RLock]) and semaphores ([Node.Acquire]). All
// are served first come, first served.
//
// Every function that waits takes a context ([Join] has [JoinContext]), which governs the
// wait and never the hold; only that of Do ([Node.Do]) also governs the work. All functions
// and methods may be called from several goroutines at once.
package mesh

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/internal/realenv"
)

// Node is one member of a mesh, embedded in this process. The zero Node and a nil one behave
// like a node that was closed, without a name or members.
type Node struct {
	node *node.Node
	own  *Session
}

// joinPatience is how long Join tries.
const joinPatience = time.Minute

// Join makes this process a member of the mesh that its seeds belong to, and returns when
// the node can serve, or after 60 s with an error that says what it waited for. If no
// seed belongs to a mesh, those that are listed found one together: all of them, with the same
// list, so that a mesh is not founded while one of them is missing.
//
// A seed is "host:port", or a host, whose port then is 7300; every node of a fleet may have
// the same list, and be on it itself. Blank seeds are dropped; if all are blank, as those of an
// unset variable are, that is ErrNoSeeds. Join(nil) founds a mesh of one on loopback, for tests
// and for a single process; WithBind, and WithFound elsewhere, choose another address for it.
//
// Errors: ErrInvalidOption, ErrNoSeeds, ErrForeignMesh, ErrNameTaken, ErrUnreachable,
// context.DeadlineExceeded, or what the network failed with. Call Leave or Close when done.
func Join(seeds []string, opts ...Option) (*Node, error) {
	ctx, cancel := context.WithTimeout(context.Background(), joinPatience)
	defer cancel()
	return JoinContext(ctx, seeds, opts...)
}

// JoinContext is Join for as long as ctx lasts. The node lives on when ctx ends later.
func JoinContext(ctx context.Context, seeds []string, opts ...Option) (*Node, error) {
	if ctx == nil {
		return nil, invalid("the context", "nil", "a context")
	}
	cfg, err := configure(seeds, opts)
	if err != nil {
		return nil, err
	}
	cfg.Env = env.FromContext(ctx)
	simulated := cfg.Env != nil
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
		if w, ok := cfg.Env.(env.Instrumented); ok {
			cfg.Logger = w.Logger()
		}
	}
	cfg.Transport.Logger = cfg.Logger
	if !simulated {
		cfg.Env = realenv.New(cfg.Logger)
	}
	c, err := node.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p := c.Params()
	h := &house{
		log: cfg.Logger.With("node", c.Name()), maxTTL: p.MaxTTL, shardOf: shardOf(p.Shards),
		leaks: !simulated, // the garbage collector keeps no virtual time
	}
	return &Node{node: c, own: &Session{life: nodeLife{c.Session()}, house: h, ownTTL: p.LeaseTTL}}, nil
}

// Name returns the node's name, which is its place on the ring.
func (n *Node) Name() string {
	if n.none() {
		return ""
	}
	return n.node.Name()
}

func (n *Node) none() bool { return n == nil || n.node == nil }

// Addr returns the host and port at which others reach the node.
func (n *Node) Addr() string {
	if n.none() {
		return ""
	}
	return n.node.Addr()
}

// Members returns the nodes of the mesh as this one knows them, this one included,
// sorted by name. A name is there once: as the node that bears it now.
func (n *Node) Members() []Member {
	if n.none() {
		return nil
	}
	known := n.node.Members()
	all := make([]Member, len(known))
	for i, m := range known {
		all[i] = memberOf(m)
	}
	return all
}

// Health returns how the mesh's shards are, as far as this node has heard. It is right
// a few seconds after a change.
func (n *Node) Health() Health {
	if n.none() {
		return Health{}
	}
	return Health(n.node.Health())
}

// WaitHealthy returns nil when every shard is fully replicated: before the next node is
// stopped in a roll-out, for example. If ctx ends first, it returns an error that unwraps
// to ctx.Err(); if the node ends, what it ended with.
func (n *Node) WaitHealthy(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case n.none():
		return ErrClosed
	}
	return n.node.WaitHealthy(ctx)
}

// Done returns a channel that is closed when the node has ended.
func (n *Node) Done() <-chan struct{} {
	if n.none() {
		return past()
	}
	return n.node.Done()
}

// Err returns nil while the node lives, then why it ended: ErrClosed after Close, ErrLeft
// after Leave, or ErrEjected, for example.
func (n *Node) Err() error {
	if n.none() {
		return ErrClosed
	}
	return n.node.Err()
}

// Stats returns counters, as sql.DB.Stats does.
func (n *Node) Stats() Stats {
	if n.none() {
		return Stats{}
	}
	return Stats(n.node.Stats())
}

// Leave hands everything over to the other nodes and stops this one. New calls fail with
// ErrClosed at once, and calls that wait are cancelled. It waits until the locks that are
// held here are unlocked, or over by their [MaxHold], or ctx ends (20 s, if ctx has no deadline);
// the contexts of the rest end then, and their keys are free when their leases end, not before,
// because their holders may not have stopped yet. It does not wait for a lock with MaxHold that
// was garbage-collected, since nobody can unlock it, unless its Context, WithContext or Lost
// was called.
// Handing over takes up to another 20 s, also if ctx has ended. Leave returns nil if nothing was
// left behind, else an error that says what.
func (n *Node) Leave(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case n.none():
		return nil
	}
	return n.node.Leave(ctx)
}

// Close stops the node at once, as a crash would: what it held is free when its leases
// end, and its shards elect new leaders. It returns nil. Closing a node twice does nothing.
func (n *Node) Close() error {
	if n.none() {
		return nil
	}
	return n.node.Close()
}

// NewSession returns a session with a lease time of its own. Close it when done.
// ErrInvalidOption, ErrClosed, or ctx.Err() if ctx has ended.
func (n *Node) NewSession(ctx context.Context, opts ...SessionOption) (*Session, error) {
	switch {
	case ctx == nil:
		return nil, invalid("the context", "nil", "a context")
	case n.none():
		return nil, ErrClosed
	}
	ttl, err := n.own.house.ttl(n.node.Params().LeaseTTL, opts)
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
	return &Session{life: nodeLife{s}, house: n.own.house, ownTTL: ttl}, nil
}

// session returns the node's own session; that of a node which is none is none.
func (n *Node) session() *Session {
	if n == nil {
		return nil
	}
	return n.own
}

// Lock is [Session.Lock] in the node's own session. That one has no single fate: a lease
// that is lost in one shard costs the locks of that shard only.
func (n *Node) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return n.session().take(ctx, client.Request{Key: key}, opts)
}

// TryLock is [Session.TryLock] in the node's own session.
func (n *Node) TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return n.session().take(ctx, client.Request{Key: key, Try: true}, opts)
}

// RLock is [Session.RLock] in the node's own session.
func (n *Node) RLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return n.session().take(ctx, client.Request{Key: key, Mode: client.Shared}, opts)
}

// TryRLock is [Session.TryRLock] in the node's own session.
func (n *Node) TryRLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return n.session().take(ctx, client.Request{Key: key, Mode: client.Shared, Try: true}, opts)
}

// Acquire is [Session.Acquire] in the node's own session.
func (n *Node) Acquire(ctx context.Context, key string, permits, capacity int64, opts ...LockOption) (*Lock, error) {
	return n.session().take(ctx, client.Request{Key: key, Mode: client.Permits, Weight: permits, Capacity: capacity}, opts)
}

// TryAcquire is [Session.TryAcquire] in the node's own session.
func (n *Node) TryAcquire(ctx context.Context, key string, permits, capacity int64, opts ...LockOption) (*Lock, error) {
	return n.session().take(ctx, client.Request{Key: key, Mode: client.Permits, Weight: permits, Capacity: capacity, Try: true}, opts)
}

// Do is [Session.Do] in the node's own session.
func (n *Node) Do(ctx context.Context, key string, fn func(context.Context, *Lock) error, opts ...LockOption) error {
	return n.session().do(ctx, key, fn, opts)
}

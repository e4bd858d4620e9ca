// Package visit answers guests (P42): callers outside the mesh, which ask one node, and then another one. A [Desk] is where the
// guests of one node ask: it carries them as they come, makes their requests, and tells them what has become of those. Package
// lockhttp is a Desk over HTTP.
//
// A Desk does not answer from memory alone. Another node may carry the guest by then, and the guest may have given back there what
// this node remembers. So the Desk first gathers what it knows, then asks the guest's home shard, and the shards of the keys in question, whether
// its node still carries the guest, and answers only if they say so. Otherwise it carries the guest again, and begins anew.
package visit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/node"
)

// Config is what a Desk needs to know.
type Config struct {
	// TTL returns how long the leases of guests last now. An error is the answer to every request.
	TTL func() (time.Duration, error)
	// WithTimeout is context.WithTimeout, or what takes its place in a simulation.
	WithTimeout func(context.Context, time.Duration) (context.Context, context.CancelFunc)
}

// Desk answers the guests of one node. Its methods may be called by several goroutines at once.
type Desk struct {
	node *node.Node
	cfg  Config

	mu      sync.Mutex
	guests  map[string]*guest
	sweepAt int // how many guests there may be before those that have gone are taken out
}

// Errors that a guest is told, beside those of package fault. ErrNotHeld is not one of them.
var (
	// ErrNotLocked: the guest does not hold what it wants to give back, nor is anybody known who does.
	ErrNotLocked = errors.New("the guest does not hold the key, and no holder is known")
	// ErrNotHolder: the guest does not hold what it wants to give back, and another caller does. The text names that one.
	ErrNotHolder = errors.New("another caller holds the key")
	// ErrMismatch: the guest has made a request of this name, and asked for something else.
	ErrMismatch = errors.New("the guest has made a request of this name already, and asked for something else")
	// ErrRunning: the request does not wait any more.
	ErrRunning = errors.New("the request does not wait any more")
	// ErrMoved: other nodes carry the guest again and again while this one tries to answer.
	ErrMoved = errors.New("the guest uses another server at the same time")
)

// Patience is how long the shards have time to answer.
const Patience = 3 * time.Second

// attempts is how often a request is begun, at most.
const attempts = 4

// minSweep is how many guests a Desk keeps before it looks which of them have gone.
const minSweep = 64

// New returns the Desk of a node. Without a node, each answer is ErrClosed.
func New(n *node.Node, cfg Config) *Desk {
	return &Desk{node: n, cfg: cfg, guests: make(map[string]*guest), sweepAt: minSweep}
}

// gather finds out what a guest is to be told. It may wait until waits ends before it tells of something that waits. Stands reports
// whether that is still true; nil means always.
type gather func(ctx, waits context.Context, g *guest) (stands func() bool, err error)

// answer answers a request of a guest about keys: it calls find, and confirms what that has found. Lease is for how long the guest may
// believe in all that it has, from when it asked. It is zero if the answer, or the error, is not confirmed, or if the guest may have something
// that nobody here knows of.
func (d *Desk) answer(ctx context.Context, name string, wait time.Duration, keys []string, find gather) (lease time.Duration, err error) {
	ttl, err := d.cfg.TTL()
	if err != nil {
		return 0, err
	}
	wait = min(wait, ttl/3)
	ctx, cancel := d.cfg.WithTimeout(ctx, wait+Patience)
	defer cancel()
	var waits context.Context // of all attempts
	for range attempts {
		g, err := d.carry(ctx, name, ttl)
		switch {
		case errors.Is(err, fault.ErrLost): // another node carried it at the same time
			continue
		case err != nil:
			return 0, err
		}
		if waits == nil {
			var cancel context.CancelFunc
			waits, cancel = d.cfg.WithTimeout(ctx, min(wait, g.session.TTL()/3))
			defer cancel()
		}
		lease, told, err := g.answer(ctx, waits, keys, find)
		switch lost := g.session.Err(); {
		case errors.Is(lost, fault.ErrLost): // another node carries the guest, or its lease has ended
			d.forget(g)
		case lost != nil:
			return 0, fault.ErrClosed
		case err == nil:
			return lease, told
		case err != errChanged:
			return 0, err
		}
	}
	return 0, ErrMoved
}

// errChanged: what was found is not true any more.
var errChanged = errors.New("it has changed")

// answer is one attempt. Told is what the guest is told: it is confirmed if err is nil.
func (g *guest) answer(ctx, waits context.Context, keys []string, find gather) (lease time.Duration, told, err error) {
	if _, err := g.session.Heard(ctx); err != nil {
		return 0, nil, err
	}
	stands, told := find(ctx, waits, g)
	if told != nil && unknown(told) {
		return 0, nil, told
	}
	if lease, err = g.session.Confirm(ctx, keys...); err != nil {
		return 0, nil, err
	}
	if stands != nil && !stands() {
		return 0, nil, errChanged
	}
	if sure, _ := g.sureOf(id{}, 0); !sure {
		lease = 0
	}
	return lease, told, nil
}

// unknown reports whether an error says that nothing is known.
func unknown(err error) bool {
	for _, e := range []error{fault.ErrNoQuorum, fault.ErrUnconfirmed, fault.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// carry returns the guest of that name. The first caller carries it here, and others wait for that.
func (d *Desk) carry(ctx context.Context, name string, ttl time.Duration) (*guest, error) {
	for {
		if d.node == nil || d.node.Err() != nil {
			return nil, fault.ErrClosed
		}
		g, mine := d.guest(name)
		if mine {
			s, err := d.node.Carry(ctx, name, ttl)
			if err != nil {
				d.forget(g)
			}
			g.begin(s, err)
			return g, err
		}
		if err := g.bell.Await(ctx, g.hasBegun); err != nil {
			return nil, err
		}
		if !errors.Is(g.err, context.Canceled) { // else the first caller has gone, and this one has not
			return g, g.err
		}
	}
}

// guest returns the guest of that name, and whether the caller is to carry it.
func (d *Desk) guest(name string) (g *guest, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g := d.guests[name]; g != nil && !g.gone() {
		return g, false
	}
	if len(d.guests) >= d.sweepAt {
		for name, g := range d.guests { // order-free: each alone
			if g.gone() {
				delete(d.guests, name)
			}
		}
		d.sweepAt = max(minSweep, 2*len(d.guests))
	}
	g = newGuest(name, d.node.NewBell())
	d.guests[name] = g
	return g, true
}

func (d *Desk) forget(g *guest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.guests[g.name] == g {
		delete(d.guests, g.name)
	}
}

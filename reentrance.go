package mesh

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/node"
)

// grant is one hold and the handles that share it: more than one only after re-entrance.
type grant struct {
	hold     *node.Hold // nil only in the grant of a zero Lock
	owner    *Session
	key      string
	mode     client.Mode
	weight   int64 // Permits only
	capacity int64 // Permits and Enters
	fixed    bool  // MaxHold

	mu      sync.Mutex
	entries int // number of handles that are not unlocked
}

// link is an entry of a context's list of the grants that it comes from, the latest first (P37).
type link struct {
	grant *grant
	up    *link
}

type linkKey struct{}

func linkOf(ctx context.Context) *link {
	l, _ := ctx.Value(linkKey{}).(*link)
	return l
}

// withGrant returns ctx with g on top of its list. Grants at the top that have ended are
// left out, or a context that is passed from lock to lock would grow for ever.
func withGrant(ctx context.Context, g *grant) context.Context {
	up := linkOf(ctx)
	for up != nil && !up.grant.living() {
		up = up.up
	}
	if up != nil && up.grant == g {
		return ctx
	}
	return context.WithValue(ctx, linkKey{}, &link{g, up})
}

// reenter returns the grant that req enters, or nil if ctx does not come from a grant of the
// same key and session. A grant of another session excludes this session like any other.
func (s *Session) reenter(ctx context.Context, req *client.Request, allowed bool) (*grant, error) {
	for l := linkOf(ctx); l != nil; l = l.up {
		if g := l.grant; g.owner == s && g.key == req.Key && g.mode != client.Uses && g.living() {
			if err := g.admits(req, allowed); err != nil {
				return nil, err
			}
			if g.enter() {
				return g, nil
			}
		}
	}
	return nil, nil
}

// admits returns nil if req may enter g, else the reason why not.
func (g *grant) admits(req *client.Request, allowed bool) error {
	locks := func(m client.Mode) bool { return m == client.Exclusive || m == client.Shared }
	more := g.mode == client.Shared && req.Mode == client.Exclusive || req.Weight > g.weight
	switch {
	case req.Mode != g.mode && !(locks(req.Mode) && locks(g.mode)), req.Capacity != g.capacity:
		return fmt.Errorf("%w: the context holds %q", ErrCapacityMismatch, brief(g.key))
	case !allowed && more:
		return fmt.Errorf("%w, and %w: %q", ErrSelfDeadlock, ErrUpgrade, brief(g.key))
	case req.Mode == client.Operates:
		return fmt.Errorf("%w: an operation on %q runs in it", ErrSelfDeadlock, brief(g.key))
	case req.Mode == client.Elects:
		return fmt.Errorf("%w: it leads %q", ErrSelfDeadlock, brief(g.key))
	case req.Mode == client.Enters:
		return fmt.Errorf("%w: it is inside %q", ErrSelfDeadlock, brief(g.key))
	case !allowed:
		return fmt.Errorf("%w: %q; pass Reentrant() to enter it", ErrSelfDeadlock, brief(g.key))
	case more:
		return fmt.Errorf("%w: %q", ErrUpgrade, brief(g.key))
	}
	return nil
}

// err returns nil while the hold lasts, by the clock at this call. It ends a hold that is over.
func (g *grant) err() error {
	if g.hold == nil {
		return ErrClosed
	}
	return g.hold.Err()
}

// living reports whether g is held, by the clock at this call. It ends a hold that is over.
func (g *grant) living() bool {
	if g.err() != nil { // not under the mutex: it may end contexts
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entries > 0
}

// enter counts one more handle in. It returns false if g is no longer held.
func (g *grant) enter() bool {
	g.mu.Lock()
	n := g.entries
	if n > 0 {
		g.entries++
	}
	g.mu.Unlock()
	if n == 0 {
		return false
	}
	g.hold.Shared(n + 1)
	return true
}

// leave counts a handle out and returns whether it was the last one, which must release.
func (g *grant) leave() bool {
	g.mu.Lock()
	g.entries--
	n := g.entries
	g.mu.Unlock()
	g.hold.Shared(n)
	return n == 0
}

package concurrency

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
)

// LeaseID numbers a [Session].
type LeaseID int64

// Session is a contender for locks and elections. What it holds is lost together, when its lease ends. A zero or nil Session behaves like one that
// has ended.
type Session struct {
	node  *mesh.Node
	inner *mesh.Session
	lease LeaseID
	ctx   context.Context // of WithContext
	stop  func() bool     // forget ctx

	mu    sync.Mutex
	names map[id]*name // what the session holds or asks for
}

// NewSession returns a session of node, with a lease of its own. It waits until a node of [mesh.Start] can serve, and else for
// nothing: the lease begins with the first lock. Errors:
//
//   - mesh.ErrInvalidOption for a TTL that the mesh does not allow, and for a nil option or context
//   - mesh.ErrClosed if the node is nil, or has ended
//   - the error of the context of [WithContext] if that ends first, with mesh.ErrNotFounded if the node cannot serve yet
//
// Call Close when done.
func NewSession(node *mesh.Node, opts ...SessionOption) (*Session, error) {
	o := sessionOptions{ctx: context.Background()}
	for i, opt := range opts {
		if opt == nil {
			return nil, invalid(fmt.Sprintf("option %d", i+1), "nil", "a SessionOption")
		}
		if err := opt(&o); err != nil {
			return nil, err
		}
	}
	var lease []mesh.SessionOption
	if o.ttl > 0 {
		lease = append(lease, mesh.WithTTL(o.ttl))
	}
	inner, err := node.NewSession(o.ctx, lease...)
	switch {
	case errors.Is(err, mesh.ErrInvalidOption):
		return nil, fmt.Errorf("%w; mesh.WithMaxTTL and Node.SetMaxTTL allow more", err)
	case err != nil:
		return nil, err
	}
	s := &Session{
		node: node, inner: inner, ctx: o.ctx, names: make(map[id]*name),
		lease: 1 + LeaseID(rand.Int64N(math.MaxInt64)), // nothing goes wrong if two are equal
	}
	s.stop = context.AfterFunc(o.ctx, inner.Abandon)
	return s, nil
}

func (s *Session) isZero() bool { return s == nil || s.inner == nil }

// Client returns the node of the session.
func (s *Session) Client() *mesh.Node {
	if s.isZero() {
		return nil
	}
	return s.node
}

// Lease returns the session's number, from 1 on, drawn at random. It is not known to other sessions.
func (s *Session) Lease() LeaseID {
	if s.isZero() {
		return 0
	}
	return s.lease
}

// Ctx returns a context that ends with the session. It carries the values of the context of [WithContext].
func (s *Session) Ctx() context.Context {
	if s.isZero() {
		return lifetime{context.Background(), (*mesh.Session)(nil).Done()}
	}
	return lifetime{context.WithoutCancel(s.ctx), s.inner.Done()}
}

// lifetime is the context of a session. No goroutine waits for its end.
type lifetime struct {
	context.Context // its values
	done            <-chan struct{}
}

func (l lifetime) Done() <-chan struct{} { return l.done }

func (l lifetime) Err() error {
	select {
	case <-l.done:
		return context.Canceled
	default:
		return nil
	}
}

// Done returns a channel that is closed when the session has ended: by Close or Orphan, with its lease or its node, or with the
// context of [WithContext]. If the lease is lost, that is before another session can get the locks.
func (s *Session) Done() <-chan struct{} {
	if s.isZero() {
		return (*mesh.Session)(nil).Done()
	}
	return s.inner.Done()
}

// Orphan ends the session and releases nothing: its locks are free when the lease ends, within the TTL. It waits for no other node.
// A session that has ended stays as it is.
func (s *Session) Orphan() {
	if s.isZero() {
		return
	}
	s.stop()
	s.inner.Abandon()
}

// Close ends the session, and releases its locks. It returns nil when that is confirmed, or if the session had ended
// before. If it is not confirmed before the lease ends, or before the end of the context of [WithContext], it returns
// mesh.ErrUnconfirmed; then the locks are free at the latest when the lease ends. If that context had ended before, Close is Orphan,
// and returns the context's error.
func (s *Session) Close() error {
	if s.isZero() {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		s.Orphan()
		return err
	}
	s.stop()
	return s.inner.Close(s.ctx)
}

type sessionOptions struct {
	ttl time.Duration // zero: the node's
	ctx context.Context
}

// SessionOption is an option of [NewSession].
type SessionOption func(*sessionOptions) error

// WithTTL sets for how many seconds the session's locks outlive its last confirmed renewal: 1 to the mesh's MaxTTL, which is 10 s
// unless [mesh.WithMaxTTL] or [mesh.Node.SetMaxTTL] has raised it; else NewSession returns mesh.ErrInvalidOption. Default: the lease
// TTL of the node, see [mesh.WithLeaseTTL].
func WithTTL(seconds int) SessionOption {
	return func(o *sessionOptions) error {
		if seconds < 1 {
			return invalid("WithTTL", fmt.Sprintf("%d s", seconds), "1 s or more")
		}
		o.ttl = time.Duration(min(seconds, math.MaxInt32)) * time.Second // the mesh refuses what is too long
		return nil
	}
}

// WithContext sets the context of the session: when it ends, NewSession gives up, and the session is orphaned. Default: none.
func WithContext(ctx context.Context) SessionOption {
	return func(o *sessionOptions) error {
		if ctx == nil {
			return invalid("WithContext", "nil", "a context")
		}
		o.ctx = ctx
		return nil
	}
}

// invalid returns a mesh.ErrInvalidOption that names an argument, its value and its valid range.
func invalid(what, got, want string) error {
	return fmt.Errorf("%w: %s is %s, want %s", mesh.ErrInvalidOption, what, got, want)
}

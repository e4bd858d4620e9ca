package concurrency

import (
	"context"
	"errors"
	"sync"

	"github.com/lockmesh/mesh"
)

// Errors of a Mutex. They are returned as they are, not wrapped. The texts may change.
var (
	// ErrLocked: another session holds the lock, or waits for it; or another call of this session waits for it.
	ErrLocked = errors.New("concurrency: the mutex is locked by another session")
	// ErrSessionExpired: the session has ended; or an operator has broken the lock (mesh.Node.Break) while the mutex was locked, and the
	// session goes on: then unlock, and lock again. If the session was lost, or the lock broken, another session may hold the lock by now.
	ErrSessionExpired = errors.New("concurrency: the session has ended")
	// ErrLockReleased: the mutex is not locked: it never was, or it was unlocked.
	ErrLockReleased = errors.New("concurrency: the mutex is not locked")
)

// Mutex is a lock that sessions contend for. The mutexes of one name and one session do not exclude each other: while the session
// holds the lock, each of them can be locked at once, and the lock is released when all of them are unlocked. So goroutines
// that are to exclude each other need a session each. A zero or nil Mutex behaves like one of a session that has ended.
type Mutex struct {
	session *Session
	name    string

	hold   *hold // that of the last Lock; nil after an Unlock that was confirmed
	header *ResponseHeader
}

// NewMutex returns a mutex of a name, 1 to 1024 bytes, which is a key of the mesh: it excludes [mesh.Node.Lock] of that key. Nothing
// is sent or checked yet.
func NewMutex(s *Session, name string) *Mutex { return &Mutex{session: s, name: name} }

func (m *Mutex) id() id { return id{locks, m.name} }

func (m *Mutex) isZero() bool { return m == nil || m.session.isZero() }

// enter notes that m is locked. The session's mutex is held.
func (m *Mutex) enter(h *hold) {
	h.mutexes[m] = true
	m.hold, m.header = h, &ResponseHeader{Revision: h.revision()}
}

// in reports whether m is locked, under h. The session's mutex is held.
func (m *Mutex) in(h *hold) bool { return h.mutexes[m] }

// Lock waits until the session holds the lock, and returns nil; at once if it does already. On any error m stays as it
// was, and no place in the queue is kept:
//
//   - an error that unwraps to ctx.Err() if ctx ends first: a [mesh.WaitError], if the mesh was asked
//   - ErrSessionExpired if the session has ended, or ends first; or if m is locked, and an operator has broken that lock: then Unlock, and lock again
//   - other errors of [mesh.Session.Lock], for example mesh.ErrInvalidKey
//
// Call Unlock when done. If the session is lost meanwhile, [Session.Done] is closed before another session gets the lock.
func (m *Mutex) Lock(ctx context.Context) error { return m.take(ctx, false) }

// TryLock is Lock without waiting for other sessions: it returns ErrLocked if another one holds the lock or waits for it, or if another
// call of Lock in this session waits for it. While the mesh grants nothing because of locks of an earlier one, it returns
// mesh.ErrQuiet, and if no majority answers within 2 s, mesh.ErrNoQuorum.
func (m *Mutex) TryLock(ctx context.Context) error { return m.take(ctx, true) }

func (m *Mutex) take(ctx context.Context, try bool) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case m.isZero():
		return ErrSessionExpired
	}
	_, err := m.session.take(ctx, request{id: m.id(), try: try, enter: m.enter, in: m.in, ask: func(ctx context.Context) (*hold, error) {
		take := m.session.inner.Lock
		if try {
			take = m.session.inner.TryLock
		}
		l, err := take(ctx, m.name)
		if err != nil {
			return nil, err
		}
		return &hold{grant: l, release: l.Unlock, mutexes: make(map[*Mutex]bool)}, nil
	}})
	return err
}

// Unlock unlocks m. If no other mutex of the session has the lock, it is released: that is sent even if ctx has ended, and repeated
// until it is confirmed or the lease ends. Ctx bounds only the wait for the confirmation, as in [mesh.Lock.Unlock].
//
//   - nil: the lock is released, or another mutex of the session has it still
//   - ErrLockReleased: m is not locked
//   - ErrSessionExpired: the session had ended before, or the lock was broken; m is not locked any more
//   - mesh.ErrUnconfirmed: the wait ended first. The lock is free at the latest when the lease ends. Another Unlock of m waits again
//   - mesh.ErrInvalidOption: ctx is nil, and nothing has changed
func (m *Mutex) Unlock(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case m.isZero():
		return ErrLockReleased
	}
	h := m.got()
	if h == nil {
		return ErrLockReleased
	}
	err := h.Err() // not under the mutex: it may end contexts
	if m.leave(h) {
		if err = h.release(ctx); errors.Is(err, mesh.ErrUnconfirmed) {
			return err
		}
		m.forget(h)
	}
	if err != nil {
		return ErrSessionExpired
	}
	return nil
}

// got returns the hold of the last Lock, until its release is confirmed.
func (m *Mutex) got() *hold {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	return m.hold
}

// leave unlocks m, and reports whether no mutex has h any more: then it must be released.
func (m *Mutex) leave(h *hold) (last bool) {
	s := m.session
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(h.mutexes, m)
	if len(h.mutexes) > 0 {
		m.forgetLocked(h)
		return false
	}
	s.drop(m.id(), h)
	return true
}

// forget drops h from m, unless m has been locked again.
func (m *Mutex) forget(h *hold) {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	m.forgetLocked(h)
}

func (m *Mutex) forgetLocked(h *hold) {
	if m.hold == h && !h.mutexes[m] {
		m.hold = nil
	}
}

// locked returns the hold of m; nil if m is not locked.
func (m *Mutex) locked() *hold {
	if m.isZero() {
		return nil
	}
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	if m.hold == nil || !m.hold.mutexes[m] {
		return nil
	}
	return m.hold
}

// Key returns the mutex's name, a slash, and the fencing token as a hexadecimal number; "" if m is not locked.
func (m *Mutex) Key() string { return m.IsOwner().Key }

// IsOwner returns the condition that the session still holds the lock as it did at this call.
func (m *Mutex) IsOwner() Cmp {
	h := m.locked()
	if h == nil {
		return Cmp{}
	}
	return Cmp{Key: keyOf(m.name, h.revision()), CreateRevision: h.revision(), hold: h, session: m.session}
}

// Header returns the header of the last Lock or TryLock that succeeded; nil if there was none. Its Revision is a fencing token.
func (m *Mutex) Header() *ResponseHeader {
	if m.isZero() {
		return nil
	}
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	return m.header
}

// locker is a Mutex without contexts and errors.
type locker struct{ *Mutex }

// NewLocker returns a [sync.Locker] on a mutex of a name: see [NewMutex]. Its Lock waits for as long as the session lasts. Lock and
// Unlock panic with the error, where a Mutex would return one, except mesh.ErrUnconfirmed. As with mutexes, goroutines that are to
// exclude each other need a session each.
func NewLocker(s *Session, name string) sync.Locker { return locker{NewMutex(s, name)} }

func (l locker) Lock() {
	if err := l.Mutex.Lock(l.ctx()); err != nil {
		panic(err)
	}
}

func (l locker) Unlock() {
	err := l.Mutex.Unlock(l.ctx())
	if err != nil && !errors.Is(err, mesh.ErrUnconfirmed) { // then the lock is free when the lease ends
		panic(err)
	}
}

// ctx returns a context without an end: when the session ends, calls return ErrSessionExpired.
func (l locker) ctx() context.Context { return context.WithoutCancel(l.session.Ctx()) }

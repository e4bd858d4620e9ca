package concurrency

import (
	"context"
	"errors"
	"iter"

	"github.com/lockmesh/mesh"
)

// Errors of an Election. They are returned as they are, not wrapped. The texts may change.
var (
	// ErrElectionNotLeader: the session does not lead, or not any more, or not by this [Election]. If its leadership was lost, another session may
	// lead by now.
	ErrElectionNotLeader = errors.New("concurrency: the session is not the leader")
	// ErrElectionNoLeader: nobody leads.
	ErrElectionNoLeader = errors.New("concurrency: there is no leader")
)

// Election chooses one of the sessions that campaign for a name. The elections of one name and one session lead together: while the session
// leads, Campaign of another one joins in its leadership, and Resign of one that leads ends it for all. An election itself leads once its own
// Campaign has succeeded, or by [ResumeElection]; else its Proclaim returns ErrElectionNotLeader, even while its session leads. A zero or nil
// Election behaves like one of a session that has ended.
type Election struct {
	session *Session
	name    string

	hold   *hold  // that of the last Campaign, or of ResumeElection; nil after a Resign that was confirmed
	key    string // of ResumeElection, if hold is nil
	rev    int64
	header *ResponseHeader
}

// NewElection returns an election of a name, 1 to 1024 bytes, which is a key of the mesh: it is [mesh.Node.Election] of that
// name. Nothing is sent or checked yet.
func NewElection(s *Session, name string) *Election { return &Election{session: s, name: name} }

// ResumeElection returns an election that leads, if its session leads with that key and revision, which are those of [Election.Key] and
// [Election.Rev], or of the first of the Kvs of [Election.Leader]. If it does not, Proclaim of the election returns ErrElectionNotLeader.
func ResumeElection(s *Session, name, leaderKey string, leaderRev int64) *Election {
	e := &Election{session: s, name: name, key: leaderKey, rev: leaderRev}
	if s.isZero() {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.leads(name, leaderRev); h != nil && leaderKey == keyOf(name, leaderRev) {
		e.hold = h
	}
	return e
}

// leads returns the leadership of a name that the session has with a revision; nil if it has none. The session's mutex is held.
func (s *Session) leads(name string, revision int64) *hold {
	n := s.names[id{elections, name}]
	if n == nil || n.hold == nil || n.hold.revision() != revision {
		return nil
	}
	return n.hold
}

func (e *Election) id() id { return id{elections, e.name} }

// check checks the arguments that all calls have.
func (e *Election) check(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("the context", "nil", "a context")
	case e == nil || e.session.isZero():
		return ErrSessionExpired
	}
	return nil
}

// inner returns the mesh's election.
func (e *Election) inner() *mesh.Election { return e.session.inner.Election(e.name) }

// enter notes that e leads. The session's mutex is held.
func (e *Election) enter(h *hold) {
	e.hold, e.key, e.rev = h, "", h.revision()
	e.header = &ResponseHeader{Revision: e.rev}
}

// in reports whether e leads, or has led, with h, and has not resigned. The session's mutex is held.
func (e *Election) in(h *hold) bool { return e.hold == h }

// got returns the leadership of the last Campaign, until its end is confirmed.
func (e *Election) got() *hold {
	e.session.mu.Lock()
	defer e.session.mu.Unlock()
	return e.hold
}

// Campaign waits until the session leads, and returns nil. Val is the leader's value, at most 4096 bytes, which others see. If the
// session leads already, it goes on leading, and Campaign proclaims the value; its errors are then those of Proclaim. Else e stays as
// it was on an error, and no place in the queue is kept:
//
//   - an error that unwraps to ctx.Err() if ctx ends first: a [mesh.WaitError], if the mesh was asked
//   - ErrSessionExpired if the session has ended, or ends first; or if an operator has broken the leadership that e had: then Resign,
//     and campaign again
//   - other errors of [mesh.Election.Campaign], for example mesh.ErrInvalidKey, or mesh.ErrInvalidOption for a value that is too long
//
// Call Resign when done. If the session is lost meanwhile, [Session.Done] is closed before another session leads.
func (e *Election) Campaign(ctx context.Context, val string) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	for {
		joined, err := e.session.take(ctx, request{id: e.id(), enter: e.enter, in: e.in, ask: func(ctx context.Context) (*hold, error) {
			l, err := e.inner().Campaign(ctx, []byte(val))
			if err != nil {
				return nil, err
			}
			return &hold{grant: l, release: l.Resign, leader: l}, nil
		}})
		if !joined {
			return err
		}
		if err := e.Proclaim(ctx, val); err != ErrElectionNotLeader { // else it was resigned meanwhile
			return err
		}
	}
}

// Proclaim gives the leader another value, at most 4096 bytes. It returns nil if others see this value, or a later one of the session;
// ErrElectionNotLeader if e does not lead; ctx.Err() if ctx ends first, and then the value may be seen; or mesh.ErrInvalidOption.
func (e *Election) Proclaim(ctx context.Context, val string) error {
	switch err := e.check(ctx); {
	case err == ErrSessionExpired:
		return ErrElectionNotLeader
	case err != nil:
		return err
	}
	h := e.got()
	if h == nil {
		return ErrElectionNotLeader
	}
	err := h.leader.Proclaim(ctx, []byte(val))
	switch {
	case isOver(err):
		return ErrElectionNotLeader
	case err != nil:
		return err
	}
	e.session.mu.Lock()
	defer e.session.mu.Unlock()
	e.header = &ResponseHeader{Revision: h.revision()}
	return nil
}

// Resign ends the session's leadership, so that the next candidate leads. It ends for all Elections of this name and session. The release is
// sent even if ctx has ended, and repeated until it is confirmed or the lease ends. Ctx bounds only the wait for the confirmation, as
// in [mesh.Lock.Unlock].
//
//   - nil: the leadership has ended, or e did not lead
//   - ErrElectionNotLeader: the leadership had been lost or broken, or ended with the session
//   - mesh.ErrUnconfirmed: the wait ended first. Another session can lead at the latest when the lease ends. Another Resign of e waits again
//   - mesh.ErrInvalidOption: ctx is nil, and nothing has changed
func (e *Election) Resign(ctx context.Context) error {
	switch err := e.check(ctx); {
	case err == ErrSessionExpired:
		return nil
	case err != nil:
		return err
	}
	s := e.session
	s.mu.Lock()
	h := e.hold
	if h == nil {
		e.key = ""
		s.mu.Unlock()
		return nil
	}
	s.drop(e.id(), h)
	s.mu.Unlock()

	err := h.release(ctx)
	if errors.Is(err, mesh.ErrUnconfirmed) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.hold == h {
		e.hold, e.key = nil, ""
	}
	if err != nil {
		return ErrElectionNotLeader
	}
	e.header = &ResponseHeader{Revision: h.revision()}
	return nil
}

// Leader returns the leader, as a majority confirms it after the call: one KeyValue, with the leader's value. Errors: ErrElectionNoLeader if
// nobody leads, and others of [mesh.Election.Leader], such as mesh.ErrNoQuorum.
func (e *Election) Leader(ctx context.Context) (*GetResponse, error) {
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	l, err := e.inner().Leader(ctx)
	if err != nil {
		return nil, e.session.failed(err)
	}
	return e.response(l), nil
}

// Observe returns a channel that gets the leader when it is known, and again after each change of the leader or its value: each
// time one KeyValue. While nobody leads, or nobody can say who does, it gets nothing. A receiver that is slow misses values, and never the last. The
// channel is closed when ctx or the node ends, and at once if ctx is nil or the name is not valid. Let ctx end when the channel is
// not read any more.
func (e *Election) Observe(ctx context.Context) <-chan *GetResponse {
	states := make(chan *GetResponse)
	if e.check(ctx) != nil {
		close(states)
		return states
	}
	go e.observe(ctx, states)
	return states
}

// observe sends what Observe says. It returns when ctx or the node ends.
func (e *Election) observe(ctx context.Context, states chan<- *GetResponse) {
	defer close(states)
	for l := range leaders(e.inner().Observe(ctx)) {
		select {
		case states <- e.response(l):
		case <-ctx.Done():
			return
		case <-e.session.node.Done():
			return
		}
	}
}

// leaders yields the states in which somebody leads, each once.
func leaders(states iter.Seq[mesh.LeaderState]) iter.Seq[mesh.LeaderState] {
	return func(yield func(mesh.LeaderState) bool) {
		var token, sequence uint64 // of the last one
		for l := range states {
			if l.Token == 0 || l.Unknown || l.Token == token && l.Sequence == sequence {
				continue
			}
			token, sequence = l.Token, l.Sequence
			if !yield(l) {
				return
			}
		}
	}
}

// response returns what etcd would say of a leader.
func (e *Election) response(l mesh.LeaderState) *GetResponse {
	kv := &KeyValue{
		Key: []byte(keyOf(e.name, int64(l.Token))), Value: l.Value,
		CreateRevision: int64(l.Token), ModRevision: int64(l.Token + l.Sequence), Version: int64(l.Sequence + 1),
	}
	s := e.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leads(e.name, kv.CreateRevision) != nil {
		kv.Lease = int64(s.lease)
	}
	return &GetResponse{Header: &ResponseHeader{Revision: kv.ModRevision}, Kvs: []*KeyValue{kv}, Count: 1}
}

// Key returns the leader's key while e leads, which is the election's name, a slash, and the fencing token as a hexadecimal
// number; else "". After [ResumeElection] in a session that did not lead with it, it is the key that was given, until Resign or Campaign.
func (e *Election) Key() string {
	if e == nil || e.session.isZero() {
		return ""
	}
	e.session.mu.Lock()
	h, key := e.hold, e.key
	e.session.mu.Unlock()
	switch {
	case h == nil:
		return key
	case h.Err() != nil || e.session.inner.Err() != nil:
		return ""
	}
	return keyOf(e.name, h.revision())
}

// Rev returns the fencing token of the last Campaign that succeeded, or what was given to [ResumeElection]; else zero.
func (e *Election) Rev() int64 {
	if e == nil || e.session.isZero() {
		return 0
	}
	e.session.mu.Lock()
	defer e.session.mu.Unlock()
	return e.rev
}

// Header returns the header of the last Campaign, Proclaim or Resign that succeeded; nil if there was none. Its Revision is the
// fencing token.
func (e *Election) Header() *ResponseHeader {
	if e == nil || e.session.isZero() {
		return nil
	}
	e.session.mu.Lock()
	defer e.session.mu.Unlock()
	return e.header
}

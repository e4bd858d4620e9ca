package lockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bridge"
	"github.com/lockmesh/mesh/internal/node"
)

// Options are those of a handler.
type Options struct {
	// Lease is how long the leases of guests last: 1 s to the mesh's MaxTTL; zero: as long as those of the node.
	Lease time.Duration
}

// Handler returns a handler that serves guests by a node. It may serve any number of requests at a time. It needs no end of its own:
// once the node has ended, every request is answered with the code "leaving". A node that leaves in an orderly way leaves its guests to
// the other servers. Options that are not valid are an error of every request.
func Handler(n *mesh.Node, o Options) http.Handler {
	h := &handler{mesh: n, lease: o.Lease, guests: make(map[string]*guest)}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(*http.Request) (any, *Error){ // order-free: patterns do not overlap
		"POST /lock":             fromBody(h.lock),
		"GET /lock":              inQuery(h.look),
		"DELETE /lock":           inQuery(h.leave),
		"POST /unlock":           fromBody(h.end),
		"POST /renew":            fromBody(h.renew),
		"POST /release":          fromBody(h.release),
		"GET /refs":              inQuery(h.refs),
		"PUT /locks/{key...}":    inPath(h.lock),
		"GET /locks/{key...}":    inPath(h.look),
		"DELETE /locks/{key...}": inPath(h.end),
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := serve(r)
			status := http.StatusOK
			if err != nil {
				answer, status = err, err.Status
				if status == http.StatusServiceUnavailable {
					w.Header().Set("Retry-After", "1")
				}
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(answer) // the caller may have gone
		})
	}
	return mux
}

type handler struct {
	mesh  *mesh.Node
	lease time.Duration

	mu     sync.Mutex
	guests map[string]*guest
}

// patience is how long the shards have time to answer.
const patience = 3 * time.Second

// visit returns the guest of that name, whose lease is renewed: it has made a request.
func (h *handler) visit(ctx context.Context, name string) (*guest, *Error) {
	n := bridge.NodeOf(h.mesh)
	if n == nil || n.Err() != nil {
		return nil, leaving()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := h.mesh.WaitReady(ctx); err != nil {
		return nil, failure(err)
	}
	for {
		g, err := h.guest(ctx, n, name)
		if err != nil {
			return nil, err
		}
		if _, err := g.session.Heard(ctx); err == nil {
			return g, nil
		} else if g.session.Err() == nil || n.Err() != nil {
			return nil, failure(err)
		}
		// Its lease has ended, or another server has carried it: it begins again here.
		h.forget(name, g)
	}
}

// guest returns the guest of that name. The first caller carries it here, and the others wait.
func (h *handler) guest(ctx context.Context, n *node.Node, name string) (*guest, *Error) {
	h.mu.Lock()
	g := h.guests[name]
	if g != nil && g.over() {
		delete(h.guests, name)
		g = nil
	}
	mine := g == nil
	if mine {
		g = newGuest()
		h.guests[name] = g
	}
	h.mu.Unlock()
	if mine {
		session, err := h.carry(ctx, n, name)
		if err != nil {
			h.forget(name, g)
		}
		g.begin(session, err)
		if err == nil {
			go func() {
				<-session.Done()
				h.forget(name, g)
			}()
		}
	}
	select {
	case <-g.begun:
	case <-ctx.Done():
		return nil, failure(ctx.Err())
	}
	return g, g.err
}

func (h *handler) carry(ctx context.Context, n *node.Node, name string) (*node.Session, *Error) {
	ttl, err := h.ttl()
	if err != nil {
		return nil, err
	}
	s, e := n.Carry(ctx, name, ttl)
	if e != nil {
		return nil, failure(e)
	}
	return s, nil
}

func (h *handler) forget(name string, g *guest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guests[name] == g {
		delete(h.guests, name)
	}
}

// ttl returns the TTL of a guest's lease.
func (h *handler) ttl() (time.Duration, *Error) {
	usual, most := bridge.TTLs(h.mesh)
	switch {
	case h.lease == 0:
		return usual, nil
	case h.lease < time.Second || h.lease > most:
		return 0, invalid("this server is set up wrongly: the lease of its guests is %v, want 1s to the mesh's MaxTTL, %v", h.lease, most)
	}
	return h.lease, nil
}

// fromBody returns what serves a request that is the body.
func fromBody[T any](serve func(context.Context, T) (any, *Error)) func(*http.Request) (any, *Error) {
	return func(r *http.Request) (any, *Error) {
		var q T
		if err := decode(r, &q); err != nil {
			return nil, err
		}
		return serve(r.Context(), q)
	}
}

// inQuery returns what serves a request whose fields are the parameters of the URL.
func inQuery(serve func(context.Context, Request) (any, *Error)) func(*http.Request) (any, *Error) {
	return func(r *http.Request) (any, *Error) {
		q, err := fromQuery(r.URL.Query())
		if err != nil {
			return nil, err
		}
		return serve(r.Context(), q)
	}
}

// inPath returns what serves a request whose key is in the path, and whose other fields are the parameters of the URL.
func inPath(serve func(context.Context, Request) (any, *Error)) func(*http.Request) (any, *Error) {
	return func(r *http.Request) (any, *Error) {
		q, err := fromQuery(r.URL.Query())
		if err != nil {
			return nil, err
		}
		if q.ResourceID != "" {
			return nil, invalid("resource_id is given, and the path has it")
		}
		if q.ResourceID = r.PathValue("key"); q.Type == "" {
			q.Type = "lock"
		}
		return serve(r.Context(), q)
	}
}

// enter checks a request, and returns its guest, whose lease is renewed, and what it asks for.
func (h *handler) enter(ctx context.Context, q Request) (*guest, ask, *Error) {
	a, err := q.parse()
	if err != nil {
		return nil, ask{}, err
	}
	g, err := h.visit(ctx, q.NodeID)
	return g, a, err
}

// lock makes a request, unless it is made already.
func (h *handler) lock(ctx context.Context, q Request) (any, *Error) {
	g, a, err := h.enter(ctx, q)
	if err != nil {
		return nil, err
	}
	var r *request
	if q.RequestID != "" { // an earlier server may know of its end
		if r, _, err = g.find(ctx, a); r != nil {
			err = r.differs(a)
		}
	}
	if r == nil && err == nil {
		r, err = g.request(a)
	}
	if err != nil {
		return nil, err
	}
	return g.answer(ctx, h, r, q)
}

// look tells what has become of a request.
func (h *handler) look(ctx context.Context, q Request) (any, *Error) {
	g, a, err := h.enter(ctx, q)
	if err != nil {
		return nil, err
	}
	switch r, _, err := g.find(ctx, a); {
	case err != nil:
		return nil, err
	case r == nil:
		return State{State: "none", LeaseMS: g.leaseMS()}, nil
	default:
		return g.answer(ctx, h, r, q)
	}
}

// leave takes a request out of its queue.
func (h *handler) leave(ctx context.Context, q Request) (any, *Error) {
	g, a, err := h.enter(ctx, q)
	if err != nil {
		return nil, err
	}
	r, _, err := g.find(ctx, a)
	if err == nil && r != nil {
		err = g.leave(r)
	}
	if err != nil {
		return nil, err
	}
	return State{State: "none", LeaseMS: g.leaseMS()}, nil
}

// end ends a request.
func (h *handler) end(ctx context.Context, q Request) (any, *Error) {
	g, a, err := h.enter(ctx, q)
	if err != nil {
		return nil, err
	}
	return g.end(ctx, a, q)
}

// renewing is the body of a POST /renew.
type renewing struct {
	NodeID string    `json:"node_id"`
	Locks  []Request `json:"locks,omitempty"`
}

// parse checks a renewal, and returns what is asked about.
func (q *renewing) parse() ([]ask, *Error) {
	if err := (&Request{NodeID: q.NodeID}).checkGuest(); err != nil {
		return nil, err
	}
	if len(q.Locks) > maxLocks {
		return nil, invalid("%d locks, want at most %d", len(q.Locks), maxLocks)
	}
	all := make([]ask, len(q.Locks))
	for i, l := range q.Locks {
		if l.NodeID != "" && l.NodeID != q.NodeID {
			return nil, invalid("lock %d has another node_id", i+1)
		}
		l.NodeID = q.NodeID
		var err *Error
		if all[i], err = l.parse(); err != nil {
			return nil, invalid("lock %d: %s", i+1, err.Message)
		}
	}
	return all, nil
}

func (h *handler) renew(ctx context.Context, q renewing) (any, *Error) {
	asks, err := q.parse()
	if err != nil {
		return nil, err
	}
	g, err := h.visit(ctx, q.NodeID)
	if err != nil {
		return nil, err
	}
	answer := Renewal{}
	for i, a := range asks {
		r, _, err := g.find(ctx, a)
		if token := q.Locks[i].Token; err == nil && r == nil && token != 0 {
			r, err = g.say(ctx, a, token)
		}
		if err != nil {
			return nil, err
		}
		answer.Locks = append(answer.Locks, stateOrNone(r))
	}
	answer.LeaseMS = g.leaseMS()
	for i := range answer.Locks {
		answer.Locks[i].LeaseMS = answer.LeaseMS
	}
	return answer, nil
}

// stateOrNone is what a renewal tells of a request; nil: it is not known.
func stateOrNone(r *request) State {
	if r != nil {
		if s, err := r.state(); err == nil {
			return s
		}
	}
	return State{State: "none"}
}

func (h *handler) release(ctx context.Context, q Request) (any, *Error) {
	if q.Type != "" && q.Type != "pull" {
		return nil, invalid("type is %q: uses are made by pulls", q.Type)
	}
	q.Type = "pull"
	g, _, err := h.enter(ctx, q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := g.session.Drop(ctx, q.ResourceID, q.user()); err != nil {
		return nil, failure(err)
	}
	return State{State: "done", LeaseMS: g.leaseMS()}, nil
}

func (h *handler) refs(ctx context.Context, q Request) (any, *Error) {
	if q.NodeID != "" {
		if err := q.checkGuest(); err != nil {
			return nil, err
		}
		if _, err := h.visit(ctx, q.NodeID); err != nil {
			return nil, err
		}
	}
	users, err := h.usersOf(ctx, q.ResourceID)
	if err != nil {
		return nil, failure(err)
	}
	return Refs{users}, nil
}

// usersOf returns the users of a resource.
func (h *handler) usersOf(ctx context.Context, id string) ([]Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := h.mesh.Resource(id).Refs(ctx)
	if err != nil {
		return nil, err
	}
	users := make([]Ref, 0, len(all))
	for _, u := range all {
		users = append(users, Ref{u.User, u.Durable, u.Token})
	}
	return users, nil
}

func leaving() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: CodeLeaving, Message: "this server is about to end: use another one"}
}

// failure is what a guest is told of an error of the mesh.
func failure(err error) *Error {
	code, status := CodeNoQuorum, http.StatusServiceUnavailable
	switch {
	case errors.Is(err, mesh.ErrQuiet):
		code = CodeQuiet
	case errors.Is(err, mesh.ErrTooManyWaiters):
		code = CodeCrowded
	case errors.Is(err, mesh.ErrClosed), errors.Is(err, mesh.ErrLeft):
		code = CodeLeaving
	case errors.Is(err, mesh.ErrLost):
		code, status = CodeLost, http.StatusForbidden
	case errors.Is(err, mesh.ErrLocked):
		code, status = CodeLocked, http.StatusConflict
	case errors.Is(err, mesh.ErrCapacityMismatch):
		code, status = CodeMismatch, http.StatusConflict
	case errors.Is(err, mesh.ErrInvalidKey), errors.Is(err, mesh.ErrInvalidOption):
		code, status = CodeInvalid, http.StatusBadRequest
	}
	return &Error{Status: status, Code: code, Message: err.Error()}
}

// milliseconds rounds down: a guest must not believe for too long.
func milliseconds(d time.Duration) int64 { return int64(d / time.Millisecond) }

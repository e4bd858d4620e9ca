package lockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bridge"
	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/visit"
	"github.com/lockmesh/mesh/shard"
)

// Options are those of a handler.
type Options struct {
	// Lease is how long the leases of guests last: at least 1 s. A longer one than the mesh's MaxTTL counts as MaxTTL. Zero: as long as the
	// node's own leases.
	Lease time.Duration
}

// Handler returns a handler that serves guests by a node. It may serve any number of requests at a time. It need not be closed:
// once the node has ended, every request is answered with the code "leaving". A node that leaves ([mesh.Node.Leave]) leaves its guests to
// the other servers. If an option is not valid, every request of a guest is answered with the code
// "invalid".
func Handler(n *mesh.Node, o Options) http.Handler {
	h := &handler{mesh: n, lease: o.Lease}
	h.desk = visit.New(bridge.NodeOf(n), visit.Config{TTL: h.ttl, WithTimeout: context.WithTimeout})
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(*http.Request) (any, *Error){ // order-free: patterns do not overlap
		"POST /lock":             fromBody(h.about(h.lock)),
		"GET /lock":              inQuery(h.about(h.look)),
		"DELETE /lock":           inQuery(h.about(h.leave)),
		"POST /unlock":           fromBody(h.about(h.end)),
		"POST /renew":            fromBody(h.renew),
		"POST /release":          fromBody(h.release),
		"GET /refs":              inQuery(h.refs),
		"PUT /locks/{key...}":    inPath(h.about(h.lock)),
		"GET /locks/{key...}":    inPath(h.about(h.look)),
		"DELETE /locks/{key...}": inPath(h.about(h.end)),
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := serve(r)
			write(w, answer, err)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := r.URL.EscapedPath()
		clean := path.Clean("/" + p) // to which mux would redirect, and it would escape that once more
		if clean != strings.TrimSuffix(p, "/") && (strings.HasPrefix(p, "/locks/") || strings.HasPrefix(clean, "/locks/")) {
			write(w, nil, invalid("the path would be shortened to %q, which may name another key: write each / of a key as %%2F, or use /lock and /unlock", clean))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// write writes what a guest is answered.
func write(w http.ResponseWriter, answer any, err *Error) {
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
}

type handler struct {
	mesh  *mesh.Node
	lease time.Duration
	desk  *visit.Desk
}

// ttl returns the TTL of a guest's lease.
func (h *handler) ttl() (time.Duration, error) {
	usual, most := bridge.TTLs(h.mesh)
	switch {
	case h.lease == 0:
		return usual, nil
	case h.lease < time.Second:
		return 0, invalid("this server is set up wrongly: the lease of its guests is %v, want at least 1s", h.lease)
	}
	return min(h.lease, most), nil // most may have been lowered
}

// ready waits until the node can serve.
func (h *handler) ready(ctx context.Context) *Error {
	if n := bridge.NodeOf(h.mesh); n == nil || n.Err() != nil {
		return leaving()
	}
	ctx, cancel := context.WithTimeout(ctx, visit.Patience)
	defer cancel()
	if err := h.mesh.WaitReady(ctx); err != nil {
		return failure(err)
	}
	return nil
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
			return nil, invalid("resource_id is given as a parameter, and the path names the resource already")
		}
		if q.ResourceID = r.PathValue("key"); q.Type == "" {
			q.Type = "lock"
		}
		return serve(r.Context(), q)
	}
}

// about returns what serves a request about one key, once that is checked.
func (h *handler) about(serve func(context.Context, Request, visit.Request) (visit.Answer, error)) func(context.Context, Request) (any, *Error) {
	return func(ctx context.Context, q Request) (any, *Error) {
		asks, bad := q.parse()
		if bad == nil {
			bad = h.ready(ctx)
		}
		if bad != nil {
			return nil, bad
		}
		a, err := serve(ctx, q, q.visit(asks))
		if err != nil {
			return nil, refusal(err, &a)
		}
		return stateOf(a), nil
	}
}

// lock makes a request, unless it is made already.
func (h *handler) lock(ctx context.Context, q Request, v visit.Request) (visit.Answer, error) {
	return h.desk.Ask(ctx, q.NodeID, v)
}

// look tells what has become of a request.
func (h *handler) look(ctx context.Context, q Request, v visit.Request) (visit.Answer, error) {
	return h.desk.Look(ctx, q.NodeID, v)
}

// leave takes a request out of its queue.
func (h *handler) leave(ctx context.Context, q Request, v visit.Request) (visit.Answer, error) {
	return h.desk.Leave(ctx, q.NodeID, v)
}

// end ends a request.
func (h *handler) end(ctx context.Context, q Request, v visit.Request) (visit.Answer, error) {
	return h.desk.End(ctx, q.NodeID, v, q.Token, q.Failed)
}

// renewing is the body of a POST /renew.
type renewing struct {
	NodeID string    `json:"node_id"`
	Locks  []Request `json:"locks"` // nil: the guest does not say what it holds
}

// parse checks a renewal, and returns what is asked about: nil if the guest does not say what it holds.
func (q *renewing) parse() ([]client.Request, *Error) {
	if err := (&Request{NodeID: q.NodeID}).checkGuest(); err != nil {
		return nil, err
	}
	if len(q.Locks) > maxLocks {
		return nil, invalid("%d locks, want at most %d", len(q.Locks), maxLocks)
	}
	if q.Locks == nil {
		return nil, nil
	}
	all := make([]client.Request, len(q.Locks))
	for i, l := range q.Locks {
		if l.NodeID != "" && l.NodeID != q.NodeID {
			return nil, invalid("lock %d has another node_id", i+1)
		}
		l.NodeID = q.NodeID
		var err *Error
		if all[i], err = l.parse(); err != nil {
			return nil, invalid("lock %d: %s", i+1, err.Message)
		}
		all[i].Held = l.Token
	}
	return all, nil
}

func (h *handler) renew(ctx context.Context, q renewing) (any, *Error) {
	asks, bad := q.parse()
	if bad == nil {
		bad = h.ready(ctx)
	}
	if bad != nil {
		return nil, bad
	}
	all, lease, broken, err := h.desk.Renew(ctx, q.NodeID, asks)
	if err != nil {
		return nil, refusal(err, &visit.Answer{Lease: lease, Broken: broken})
	}
	answer := Renewal{LeaseMS: milliseconds(lease), Broken: brokenOf(broken)}
	for _, a := range all {
		answer.Locks = append(answer.Locks, stateOf(a))
	}
	return answer, nil
}

func (h *handler) release(ctx context.Context, q Request) (any, *Error) {
	if q.Type != "" && q.Type != "pull" {
		return nil, invalid("type is %q, want \"pull\" or none: only a pull makes a use", q.Type)
	}
	q.Type = "pull"
	_, bad := q.parse()
	if bad == nil {
		bad = h.ready(ctx)
	}
	if bad != nil {
		return nil, bad
	}
	lease, err := h.desk.Release(ctx, q.NodeID, q.ResourceID, q.user())
	if err != nil {
		return nil, refusal(err, &visit.Answer{Lease: lease})
	}
	return State{State: "done", LeaseMS: milliseconds(lease)}, nil
}

func (h *handler) refs(ctx context.Context, q Request) (any, *Error) {
	if q.NodeID == "" {
		users, err := h.usersOf(ctx, q.ResourceID)
		if err != nil {
			return nil, failure(err)
		}
		return Refs{Users: users}, nil
	}
	q.Type = "pull"
	_, bad := q.parse()
	if bad == nil {
		bad = h.ready(ctx)
	}
	if bad != nil {
		return nil, bad
	}
	users, lease, err := h.desk.Refs(ctx, q.NodeID, q.ResourceID)
	if err != nil {
		return nil, refusal(err, &visit.Answer{Lease: lease})
	}
	return Refs{refsOf(users), milliseconds(lease)}, nil
}

// usersOf returns the users of a resource, for a caller that is no guest.
func (h *handler) usersOf(ctx context.Context, id string) ([]Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, visit.Patience)
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

func refsOf(uses []shard.Ref) []Ref {
	all := shard.Users(uses)
	users := make([]Ref, 0, len(all))
	for _, u := range all {
		users = append(users, Ref{u.User, u.Durable, u.Stamp})
	}
	return users
}

// stateOf is an answer as a guest reads it.
func stateOf(a visit.Answer) State {
	names := [...]string{visit.None: "none", visit.Waiting: "waiting", visit.Running: "running", visit.Done: "done"}
	return State{
		State: names[a.State], Acquired: a.State == visit.Running, Skip: a.Skipped, Token: a.Token,
		Ahead: a.Ahead, Holder: a.Holder, LeaseMS: milliseconds(a.Lease), Broken: brokenOf(a.Broken),
	}
}

// refusal is an error of the desk as a guest reads it.
func refusal(err error, a *visit.Answer) *Error {
	e := failure(err)
	e.Broken = brokenOf(a.Broken)
	if e.LeaseMS = milliseconds(a.Lease); e.Code == CodeInUse {
		e.Users = refsOf(a.Users)
	}
	return e
}

func brokenOf(all []shard.Breach) (broken []Broken) {
	for _, b := range all {
		broken = append(broken, Broken{b.Key, b.Token})
	}
	return broken
}

func leaving() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: CodeLeaving, Message: "this server is about to end: use another one"}
}

// failure is what a guest is told of an error of the mesh.
func failure(err error) *Error {
	code, status := CodeNoQuorum, http.StatusServiceUnavailable
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, visit.ErrMoved):
		code = CodeMoved
	case errors.Is(err, mesh.ErrQuiet):
		code = CodeQuiet
	case errors.Is(err, mesh.ErrTooManyWaiters):
		code = CodeCrowded
	case errors.Is(err, mesh.ErrClosed), errors.Is(err, mesh.ErrLeft):
		code = CodeLeaving
	case errors.Is(err, mesh.ErrBroken):
		code, status = CodeBroken, http.StatusForbidden
	case errors.Is(err, mesh.ErrLost):
		code, status = CodeLost, http.StatusForbidden
	case errors.Is(err, visit.ErrNotLocked):
		code, status = CodeNotLocked, http.StatusForbidden
	case errors.Is(err, visit.ErrNotHolder):
		code, status = CodeNotHolder, http.StatusForbidden
	case errors.Is(err, visit.ErrRunning):
		code, status = CodeRunning, http.StatusConflict
	case errors.Is(err, mesh.ErrInUse):
		code, status = CodeInUse, http.StatusConflict
	case errors.Is(err, mesh.ErrLocked):
		code, status = CodeLocked, http.StatusConflict
	case errors.Is(err, mesh.ErrCapacityMismatch), errors.Is(err, visit.ErrMismatch):
		code, status = CodeMismatch, http.StatusConflict
	case errors.Is(err, mesh.ErrInvalidKey), errors.Is(err, mesh.ErrInvalidOption):
		code, status = CodeInvalid, http.StatusBadRequest
	}
	return &Error{Status: status, Code: code, Message: err.Error()}
}

// milliseconds rounds down: a guest must not believe for too long.
func milliseconds(d time.Duration) int64 { return int64(d / time.Millisecond) }

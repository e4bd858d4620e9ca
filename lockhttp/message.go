package lockhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/visit"
	"github.com/lockmesh/mesh/shard"
)

// Request is what a guest asks for. A field that its type does not use must be left out.
type Request struct {
	NodeID     string `json:"node_id"`              // the guest's name, 1 to 255 bytes
	Type       string `json:"type,omitempty"`       // "lock", "rlock", "semaphore", "pull", "update" or "delete"
	ResourceID string `json:"resource_id"`          // 1 to 1024 bytes
	RequestID  string `json:"request_id,omitempty"` // up to 125 bytes: names the request in place of its type

	N        int64 `json:"n,omitempty"`        // semaphore, in every request: permits, 1 to capacity
	Capacity int64 `json:"capacity,omitempty"` // semaphore, in every request: 1 to 2^40
	Try      bool  `json:"try,omitempty"`      // lock, rlock, semaphore: do not wait

	Version       string `json:"version,omitempty"`         // pull, update, delete: up to 255 bytes
	User          string `json:"user,omitempty"`            // pull, and /release: up to 255 bytes; by default the node_id
	Durable       *bool  `json:"durable,omitempty"`         // pull: the use outlives the guest's lease; by default true
	WhileUsed     bool   `json:"while_used,omitempty"`      // pull: may run again while the resource is used
	RequiresNoRef bool   `json:"requires_no_ref,omitempty"` // update: not while the resource is used
	RetentionMS   int64  `json:"retention_ms,omitempty"`    // pull, update, delete: for how long a success is remembered, up to 365 days; by default 5 min

	WaitMS int64  `json:"wait_ms,omitempty"` // for how long the answer may be put off while the request waits, up to an hour
	Token  uint64 `json:"token,omitempty"`   // /unlock: end it only if the guest has it under this token; /renew: the token under which the guest has it
	Failed bool   `json:"failed,omitempty"`  // /unlock of an operation: it has failed
}

// State is what has become of a request.
type State struct {
	State    string `json:"state"`    // "none", "waiting", "running" (it is held, or is to be carried out) or "done"
	Acquired bool   `json:"acquired"` // the guest holds it, or is to carry it out
	Skip     bool   `json:"skip"`     // the operation was done already; after a pull the guest's user uses the resource
	Token    uint64 `json:"token,omitempty"`
	Ahead    int    `json:"ahead,omitempty"`  // waiting: how many are before it, as far as known; -1: too many to count
	Holder   string `json:"holder,omitempty"` // waiting: the name of one that holds it: a node, or a guest
	LeaseMS  int64  `json:"lease_ms"`         // zero: an earlier lease goes on as it was

	Broken []Broken `json:"broken,omitempty"` // what an operator has broken, and the guest has not given back: there is no lease_ms meanwhile
}

// Broken is something that a guest has had until an operator broke it: see mesh.Node.Break.
type Broken struct {
	ResourceID string `json:"resource_id"`
	Token      uint64 `json:"token"`
}

// Renewal is the answer to a POST /renew.
type Renewal struct {
	LeaseMS int64    `json:"lease_ms"`
	Locks   []State  `json:"locks,omitempty"` // in the order of the request's locks; "none": the guest has lost it, or never had it
	Broken  []Broken `json:"broken,omitempty"`
}

// Ref is a user of a resource.
type Ref struct {
	User    string `json:"user"`
	Durable bool   `json:"durable"`
	Token   uint64 `json:"token,omitempty"`
}

// Refs is the answer to a GET /refs.
type Refs struct {
	Users   []Ref `json:"users"`
	LeaseMS int64 `json:"lease_ms,omitempty"` // if the question has a node_id
}

// Error is an answer that is no success.
type Error struct {
	Status  int    `json:"-"` // of HTTP
	Code    string `json:"code"`
	Message string `json:"error"`
	Users   []Ref  `json:"users,omitempty"`    // in_use: those of the resource
	LeaseMS int64  `json:"lease_ms,omitempty"` // as in State: a refusal may renew the lease, too

	Broken []Broken `json:"broken,omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("lockhttp: %s: %s", e.Code, e.Message) }

// The codes of errors.
const (
	CodeInvalid   = "invalid"
	CodeNotLocked = "not_locked"
	CodeNotHolder = "not_holder"
	CodeLost      = "lost"
	CodeBroken    = "broken"
	CodeInUse     = "in_use"
	CodeMismatch  = "mismatch"
	CodeRunning   = "running"
	CodeLocked    = "locked" // a try that would have to wait
	CodeNoQuorum  = "no_quorum"
	CodeQuiet     = "quiet"
	CodeLeaving   = "leaving"
	CodeCrowded   = "crowded"
	CodeMoved     = "moved"
)

func invalid(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

const (
	maxBody      = 1 << 20
	maxRequestID = shard.MaxTag - len("id:")
	maxLocks     = 4096 // of one renewal
	retention    = 5 * time.Minute
	maxRetention = 365 * 24 * time.Hour
)

// decode reads a body.
func decode(r *http.Request, into any) *Error {
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return invalid("the body: %v", err)
	}
	if d.More() {
		return invalid("the body: something behind the object")
	}
	return nil
}

// fromQuery reads a request from the parameters of a URL.
func fromQuery(q url.Values) (Request, *Error) {
	var r Request
	for name, values := range q {
		if len(values) > 1 {
			return r, invalid("%q is given twice", name)
		}
		var err error
		switch v := values[0]; name {
		case "node_id":
			r.NodeID = v
		case "type":
			r.Type = v
		case "resource_id":
			r.ResourceID = v
		case "request_id":
			r.RequestID = v
		case "n":
			r.N, err = strconv.ParseInt(v, 10, 64)
		case "capacity":
			r.Capacity, err = strconv.ParseInt(v, 10, 64)
		case "wait_ms":
			r.WaitMS, err = strconv.ParseInt(v, 10, 64)
		case "try":
			r.Try, err = strconv.ParseBool(v)
		case "token":
			r.Token, err = strconv.ParseUint(v, 10, 64)
		default:
			return r, invalid("no parameter is called %q", name)
		}
		if err != nil {
			return r, invalid("%s is %q, want a number (or, for try, true or false)", name, values[0])
		}
	}
	return r, nil
}

func between(what string, n, least, most int64) *Error {
	if n < least || n > most {
		return invalid("%s is %d, want %d to %d", what, n, least, most)
	}
	return nil
}

func (r *Request) checkGuest() *Error {
	if n := len(r.NodeID); n < 1 || n > shard.MaxName {
		return invalid("node_id has %d bytes, want 1 to %d", n, shard.MaxName)
	}
	return between("wait_ms", r.WaitMS, 0, int64(time.Hour/time.Millisecond))
}

// parse checks a request, and returns what it asks of the mesh.
func (r *Request) parse() (client.Request, *Error) {
	q := client.Request{Key: r.ResourceID, Try: r.Try}
	fail := func(e *Error) (client.Request, *Error) { return client.Request{}, e }
	if e := r.checkGuest(); e != nil {
		return fail(e)
	}
	if n := len(r.ResourceID); n < 1 || n > shard.MaxKey {
		return fail(invalid("resource_id has %d bytes, want 1 to %d", n, shard.MaxKey))
	}
	if n := len(r.RequestID); n > maxRequestID {
		return fail(invalid("request_id has %d bytes, want at most %d", n, maxRequestID))
	}
	if r.Token > mostToken() {
		return fail(invalid("token is %d, which was never given", r.Token))
	}
	if n := len(r.Version); n > shard.MaxVersion {
		return fail(invalid("version has %d bytes, want at most %d", n, shard.MaxVersion))
	}
	if n := len(r.User); n > shard.MaxName {
		return fail(invalid("user has %d bytes, want at most %d", n, shard.MaxName))
	}
	if e := between("retention_ms", r.RetentionMS, 0, int64(maxRetention/time.Millisecond)); e != nil {
		return fail(e)
	}
	op := &shard.Operation{Version: r.Version, Retention: time.Duration(r.RetentionMS) * time.Millisecond}
	if r.RetentionMS == 0 {
		op.Retention = retention
	}
	switch r.Type {
	case "lock":
		q.Mode = client.Exclusive
	case "rlock":
		q.Mode = client.Shared
	case "semaphore":
		q.Mode, q.Weight, q.Capacity = client.Permits, r.N, r.Capacity
		if e := between("capacity", r.Capacity, 1, shard.MaxWeight); e != nil {
			return fail(e)
		}
		if e := between("n", r.N, 1, r.Capacity); e != nil {
			return fail(e)
		}
	case "pull":
		op.Op, op.User, op.Durable, op.Alone = shard.Pull, r.user(), r.Durable == nil || *r.Durable, !r.WhileUsed
	case "update":
		op.Op, op.Alone = shard.Update, r.RequiresNoRef
	case "delete":
		op.Op, op.Alone = shard.Delete, true
	default:
		return fail(invalid("type is %q, want lock, rlock, semaphore, pull, update or delete", r.Type))
	}
	operates := r.Type == "pull" || r.Type == "update" || r.Type == "delete"
	if operates {
		q.Mode, q.Operation = client.Operates, op
	}
	for _, f := range []struct {
		name  string
		given bool
		of    string
	}{
		{"n", r.N != 0, "semaphore"}, {"capacity", r.Capacity != 0, "semaphore"},
		{"try", r.Try, "lock rlock semaphore"},
		{"version", r.Version != "", "pull update delete"}, {"retention_ms", r.RetentionMS != 0, "pull update delete"}, {"failed", r.Failed, "pull update delete"},
		{"user", r.User != "", "pull"}, {"durable", r.Durable != nil, "pull"}, {"while_used", r.WhileUsed, "pull"},
		{"requires_no_ref", r.RequiresNoRef, "update"},
	} {
		if f.given && !strings.Contains(" "+f.of+" ", " "+r.Type+" ") {
			return fail(invalid("%s is given, which a request of type %s does not have", f.name, r.Type))
		}
	}
	q.Tag = "type:" + r.Type
	if r.RequestID != "" {
		q.Tag = "id:" + r.RequestID
	}
	return q, nil
}

// visit returns what a request asks of the desk.
func (r *Request) visit(asks client.Request) visit.Request {
	v := visit.Request{Request: asks, Once: r.RequestID != "", Wait: usualWait}
	switch {
	case r.WaitMS > 0:
		v.Wait = time.Duration(r.WaitMS) * time.Millisecond
	case r.Try:
		v.Wait = visit.Patience
	}
	return v
}

// usualWait is how long an answer to a guest that does not wish to wait is put off: as a rule a free key is granted by then.
const usualWait = 100 * time.Millisecond

// mostToken returns a token that is above all that have been given: tokens begin at a time of day (P17). A token that a guest names must not
// be larger: a table believes it, and gives larger ones from then on.
func mostToken() uint64 { return uint64(time.Now().Add(24*time.Hour).UnixMilli()) << 10 }

func (r *Request) user() string {
	if r.User != "" {
		return r.User
	}
	return r.NodeID
}

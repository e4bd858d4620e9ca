package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/shard"
)

// Resource is something to which many nodes want the same to be done once, and which nobody may take away from those who use it: an image
// to pull, a model to update, a file to delete. It has operations, which run one at a time in the order of their calls, and uses.
// Its ID is a key of the mesh: a key that is a resource cannot be locked, until nothing is known of it any more.
//
//	image := node.Resource("registry/app:7")
//	use, err := image.Pull(ctx, func(ctx context.Context, op *mesh.Operation) error { return fetch(ctx, "app:7") })
//	if err != nil { … }
//	defer use.Release(ctx)
//
// The first caller's function runs. If it succeeds, the callers that wait, and those that call later, skip theirs: it is done. If it
// fails, or its node is lost, the next caller's function runs. A pull that succeeds, or is skipped, makes its caller a user of the
// resource: until Release, or until its session ends. While there is a user no delete runs: it fails with [ErrInUse].
//
// A success is remembered for a time: see [Retention]. But an operation that begins also ends the memory of
// what it may undo: after a delete or an update has begun, the next pull runs again, even if the delete or the update failed. While the
// resource is used, such a pull fails with ErrInUse, unless the Resource has [WhileUsed].
// When the shard of the ID has lost its majority and begins again, nothing that was done is remembered.
//
// A Resource has no state of its own. It may be used by several goroutines at once.
type Resource struct {
	keyed
	options resourceOptions
}

// Op is an operation on a [Resource].
type Op uint8

// The operations.
const (
	OpPull   Op = Op(shard.Pull)   // bring the resource here; its caller is a user of it afterwards
	OpUpdate Op = Op(shard.Update) // change it
	OpDelete Op = Op(shard.Delete) // remove it; never while it is used
)

// String returns "pull", "update" or "delete".
func (o Op) String() string {
	if o > opRun {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return shard.Op(o).String()
}

// OpFunc carries an operation out. Its context is derived from that of the call, and also ends when the operation is
// lost: then another caller's operation may run. What the function returns is passed to [Operation.End]; but if it has called End itself,
// that call counts. If the function fails after it has ended a pull with success, the use is released.
type OpFunc = func(ctx context.Context, op *Operation) error

// Resource returns the resource with this ID, 1 to 1024 bytes, any bytes. Its uses belong to the node's own session.
// Of an option that is given twice the last counts. An argument that is not valid is an error of every call.
func (n *Node) Resource(id string, opts ...ResourceOption) *Resource {
	return newResource(id, opts, n.anySession)
}

// Resource is [Node.Resource] in this session.
func (s *Session) Resource(id string, opts ...ResourceOption) *Resource {
	return newResource(id, opts, s.itself)
}

func newResource(id string, opts []ResourceOption, session func(context.Context) (*Session, error)) *Resource {
	r := &Resource{newKeyed(id, session), resourceOptions{retention: defaultRetention}}
	if r.err == nil {
		r.err = apply(&r.options, opts, "a ResourceOption")
	}
	return r
}

// ID returns the resource's ID.
func (r *Resource) ID() string {
	if r == nil {
		return ""
	}
	return r.key
}

// Pull waits for its turn, and runs fn, unless a pull of the same version is done already. It returns the
// use; call its Release when done, if fn has not. Errors are those of Begin, fn's error, and those of [Operation.End]. If this process was
// suspended until the use was over, Pull begins again, and fn may run a second time.
func (r *Resource) Pull(ctx context.Context, fn OpFunc) (*Use, error) {
	for {
		op, err := r.run(ctx, OpPull, fn)
		if err != nil {
			return nil, err
		}
		if use := op.Use(); use.Err() != ErrLost {
			return use, nil
		}
	}
}

// Update waits for its turn, and runs fn, unless an update to the same version is done already. It reports whether fn
// ran and succeeded. Users of the resource do not keep it from running, except with [UpdateRequiresNoRef]. Errors are those of
// Begin, fn's error, and those of [Operation.End].
func (r *Resource) Update(ctx context.Context, fn OpFunc) (ran bool, err error) {
	op, err := r.run(ctx, OpUpdate, fn)
	return err == nil && !op.Skipped(), err
}

// Delete waits for its turn, and runs fn, unless a delete of the same version is done already. It reports whether fn
// ran and succeeded. While the resource is used, by whomever, also by the caller, it fails with an [InUseError]. Other
// errors are those of Begin, fn's error, and those of [Operation.End].
func (r *Resource) Delete(ctx context.Context, fn OpFunc) (ran bool, err error) {
	op, err := r.run(ctx, OpDelete, fn)
	return err == nil && !op.Skipped(), err
}

// run runs fn in its turn, also if it panics.
func (r *Resource) run(ctx context.Context, op Op, fn OpFunc) (o *Operation, err error) {
	if fn == nil {
		return nil, invalid("the function", "nil", "a function")
	}
	o, err = r.begin(ctx, op)
	if err != nil || o.Skipped() {
		return o, err
	}
	failure := errPanicked
	defer func() {
		endErr := o.End(ctx, failure)
		if failure != nil {
			_ = o.Use().Release(ctx) // fn had ended it with success, and failed then
		}
		err = joined(cmp.Or(failure, o.failure), endErr)
	}()
	failure = fn(o.lock.WithContext(ctx), o)
	return o, nil
}

// errPanicked is why an operation failed whose function panicked.
var errPanicked = errors.New("mesh: the function panicked")

// Begin waits until op is to run, or is known to be done: see [Operation.Skipped]. An operation that is to run must be ended by
// [Operation.End]. On any error none has begun. Errors:
//
//   - an [InUseError], which is ErrInUse: somebody uses the resource, and op is a delete, an update with [UpdateRequiresNoRef],
//     or a pull that must run again without [WhileUsed]
//   - a *[WaitError] that unwraps to ctx.Err() if ctx ends first, and also to ErrNoQuorum if the resource's replicas have not
//     answered for 2 s
//   - ErrCapacityMismatch if the key is in use as something else; ErrTooManyWaiters, ErrClosed, ErrLost as for [Session.Lock]
//   - ErrSelfDeadlock if ctx comes from an operation on this resource
//   - ErrInvalidKey, ErrInvalidOption
func (r *Resource) Begin(ctx context.Context, op Op) (*Operation, error) {
	if op > OpDelete {
		return nil, invalid("the operation", op, "OpPull, OpUpdate or OpDelete")
	}
	return r.begin(ctx, op)
}

// begin is Begin, also of what is done once.
func (r *Resource) begin(ctx context.Context, op Op) (*Operation, error) {
	s, err := r.check(ctx)
	if err != nil {
		return nil, err
	}
	req := client.Request{Key: r.key, Mode: client.Operates, Operation: r.options.operation(op, s)}
	if _, err := s.reenter(ctx, &req, false); err != nil {
		return nil, err
	}
	req.Within = s.within(ctx)
	h, skipped, info, err := s.inner.Operate(ctx, req)
	switch {
	case errors.Is(err, ErrInUse):
		return nil, s.inUse(ctx, r.key, op, info.Holder)
	case err != nil:
		return nil, s.waitError(r.key, info, err)
	}
	o := &Operation{op: op, skipped: skipped, session: s, base: ctx}
	switch {
	case !skipped:
		o.lock = newLock(ctx, &grant{hold: h, owner: s, key: r.key, mode: client.Operates, entries: 1})
	case h != nil:
		o.use = newUse(ctx, s, h, r.key)
	}
	return o, nil
}

// check checks the arguments, and returns the session.
func (r *Resource) check(ctx context.Context) (*Session, error) {
	if r == nil {
		r = &Resource{}
	}
	return r.keyed.check(ctx)
}

// Refs returns who uses the resource, in the order of their last pulls: each user once. It takes nothing. A key that is in use as something
// else has no users. While the key's shard is quiet ([WithMaxTTL]), users that it has not heard of yet are missing: [KeyState].Quiet says
// whether it is. If the resource's replicas do not answer, Refs returns ErrNoQuorum after 2 s, or ctx.Err() if ctx ends first.
func (r *Resource) Refs(ctx context.Context) ([]Ref, error) {
	s, err := r.check(ctx)
	if err != nil {
		return nil, err
	}
	return s.refs(ctx, r.key)
}

func (s *Session) refs(ctx context.Context, id string) ([]Ref, error) {
	all, err := s.inner.Refs(ctx, id)
	if err != nil {
		return nil, err
	}
	return refsOf(all), nil
}

func refsOf(uses []shard.Ref) (refs []Ref) {
	for _, u := range shard.Users(uses) {
		refs = append(refs, Ref{User: u.User, Durable: u.Durable, Token: u.Stamp})
	}
	return refs
}

// Release ends the use of this resource by its user ([User]): all its handles in this session, whose contexts end first,
// and a durable use that outlived its session. Uses through other sessions that live stay: another process may count on
// them. If there is no use, Release returns nil. Ctx bounds only the wait for the confirmation, as in [Lock.Unlock]: if ctx ends first, Release
// returns ErrUnconfirmed. Ctx must not be the context of one of the
// handles, which ends first. ErrClosed or ErrLost: the session has ended, or the node leaves; then a durable use stays.
func (r *Resource) Release(ctx context.Context) error {
	s, err := r.check(ctx)
	if err != nil {
		return err
	}
	return s.inner.Drop(ctx, r.key, r.options.userIn(s))
}

// Ref is a user of a resource.
type Ref struct {
	User    string `json:"user"`
	Durable bool   `json:"durable"` // the use outlives its session
	Token   uint64 `json:"token"`   // of the user's last pull
}

// InUseError is the error of an operation that must not run while its resource is used. It is ErrInUse.
type InUseError struct {
	Resource string
	Op       Op
	Users    []Ref // by a question right after the refusal; empty if all had gone. Without an answer, the user that the refusal named, without Token
}

// Error implements error.
func (e *InUseError) Error() string {
	text := fmt.Sprintf("mesh: %v of %q: it is used", e.Op, brief(e.Resource))
	for i, u := range e.Users {
		switch {
		case i == 0:
			text += fmt.Sprintf(" by %q", brief(u.User))
		case i < 3:
			text += fmt.Sprintf(", %q", brief(u.User))
		default:
			return fmt.Sprintf("%s and %d others", text, len(e.Users)-i)
		}
	}
	return text
}

// Is reports whether target is ErrInUse.
func (e *InUseError) Is(target error) bool { return target == ErrInUse }

func (s *Session) inUse(ctx context.Context, id string, op Op, one string) error {
	refs, err := s.refs(ctx, id)
	if err != nil && one != "" {
		refs = []Ref{{User: one}}
	}
	return &InUseError{Resource: id, Op: op, Users: refs}
}

// Operation is one operation on a resource, between Begin and End. A zero or nil Operation has ended.
type Operation struct {
	_       noCopy
	op      Op
	skipped bool
	session *Session
	base    context.Context
	lock    *Lock // of one that runs
	use     *Use  // of a pull that was skipped or is done

	mu      sync.Mutex
	ended   bool
	failure error // by the first End
}

// Skipped reports whether the operation was done already. Then there is nothing to do, and End has no effect.
func (o *Operation) Skipped() bool { return o != nil && o.skipped }

// Token returns the fencing token of the operation, which is larger than those of all that ran before it on this resource. For a
// pull that was skipped it returns the token of its use; for another operation that was skipped, zero.
func (o *Operation) Token() uint64 {
	switch {
	case o == nil:
		return 0
	case o.lock != nil:
		return o.lock.Token()
	}
	return o.use.Token()
}

// Context returns a context that ends when the operation is lost or ended: see [Lock.Context]. If the operation was skipped, the context
// has ended already.
func (o *Operation) Context() context.Context {
	if o == nil {
		return (*Lock)(nil).Context()
	}
	return o.lock.Context()
}

// Err returns nil while the operation may run, by the clock at this call: call it right before what must not be done twice. Then it returns
// ErrLost, ErrBroken if an operator has broken it ([Node.Break]), or ErrClosed after End, or if it was skipped.
func (o *Operation) Err() error {
	if o == nil {
		return ErrClosed
	}
	return o.lock.Err()
}

// Use returns the use that a pull has made: once End has returned nil, or if it was skipped. Else nil.
func (o *Operation) Use() *Use {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.use
}

// End ends the operation: with a nil failure it has succeeded, and is remembered. Its context ends first. Then the end is
// sent, even if ctx has ended, and retried until it is confirmed or the lease has ended. Ctx bounds only the wait: if it has
// already ended, or ends with the operation, End waits up to 1 s. It returns
//
//   - nil if the end is confirmed, whatever failure is. If this process was suspended meanwhile, the use of a pull may be over
//     already: see [Use.Err]
//   - ErrLost if the lease or the node had ended before: the operation counts as failed, whatever it did, and another one may run. ErrBroken,
//     which is an ErrLost, too, if an operator had broken it
//   - ErrUnconfirmed if the wait ended first, or the shard lost its majority and the lease ended then. A pull then makes no use, and the
//     operation may count as done or as failed
//   - ErrClosed if the session had been closed before
//
// The first call says whether the operation has failed; later ones wait for the same confirmation. If the operation was skipped, End
// returns nil.
func (o *Operation) End(ctx context.Context, failure error) error {
	if err := checkCall(ctx, o == nil || o.session == nil); err != nil || o.skipped {
		return err
	}
	h := o.lock.handle
	held := h.grant.err() // not under the mutex: it may end contexts
	o.mu.Lock()
	first := !o.ended
	if first {
		o.ended, o.failure = true, failure
	}
	failure = o.failure
	o.mu.Unlock()
	if first {
		o.lock.cleanup.Stop()
	}
	used, err := h.grant.hold.Finish(ctx, failure != nil)
	if first {
		h.end(held)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case used != nil && o.use == nil:
		o.use = newUse(o.base, o.session, used, h.grant.key)
	case err == nil && failure == nil && o.op == OpPull && o.use == nil:
		return ErrUnconfirmed // an earlier call did not wait for the use
	}
	return err
}

// Use is one handle of a user's use of a resource: see [Resource]. The user uses the resource until all of its handles are
// released, or the session ends. A Use that is garbage-collected is not released. A zero or nil Use has ended.
type Use struct{ lock *Lock }

func newUse(ctx context.Context, s *Session, h *node.Hold, id string) *Use {
	return &Use{newLock(ctx, &grant{hold: h, owner: s, key: id, mode: client.Uses, entries: 1})}
}

func (u *Use) of() *Lock {
	if u == nil {
		return nil
	}
	return u.lock
}

// User returns the name of the user.
func (u *Use) User() string {
	if u.of().isZero() {
		return ""
	}
	return u.lock.handle.grant.hold.User()
}

// Token returns a fencing token: larger than those of all operations on the resource before this use, and smaller than those of all later ones.
func (u *Use) Token() uint64 { return u.of().Token() }

// Context returns a context that ends before the use can lapse: with the cause ErrLost when the lease is lost, else at
// Release or the session's Close. See [Lock.Context].
func (u *Use) Context() context.Context { return u.of().Context() }

// Lost returns a channel that is closed when the lease ends before Release. Then this handle has ended; a durable use goes on without it.
func (u *Use) Lost() <-chan struct{} { return u.of().Lost() }

// Err returns nil while the use lasts, by the clock at this call; then ErrLost, or ErrClosed after Release.
func (u *Use) Err() error { return u.of().Err() }

// Release ends this handle, and with the user's last handle in its session the use. Its context ends first. Release returns what
// [Lock.Unlock] returns.
func (u *Use) Release(ctx context.Context) error { return u.of().Unlock(ctx) }

// resourceOptions are what ResourceOptions set.
type resourceOptions struct {
	retention          time.Duration
	version, user      string
	durable, whileUsed bool
	updateAlone        bool
	attempts           uint64 // of Once
}

// operation returns what op asks for, in a session.
func (o *resourceOptions) operation(op Op, s *Session) *shard.Operation {
	q := &shard.Operation{Op: shard.Op(op), Version: o.version, Retention: o.retention}
	switch op {
	case OpPull:
		q.User, q.Durable, q.Alone = o.userIn(s), o.durable, !o.whileUsed
	case OpUpdate:
		q.Alone = o.updateAlone
	case OpDelete:
		q.Alone = true
	case opRun:
		q.Attempts = o.attempts
	}
	return q
}

func (o *resourceOptions) userIn(s *Session) string {
	if o.user != "" {
		return o.user
	}
	return s.inner.NodeName()
}

// ResourceOption is an option of a [Resource].
type ResourceOption func(*resourceOptions) error

// defaultRetention is for how long a success is remembered, if Retention does not say otherwise.
const defaultRetention = 5 * time.Minute

// Retention sets for how long a success is remembered at least, from when it was confirmed: 1 s to 365 days. Default: 5 minutes. The
// longest that a caller has named counts, also one that skipped. A pull is remembered for as long as somebody uses the resource,
// except to a caller with [WhileUsed].
func Retention(d time.Duration) ResourceOption {
	return func(o *resourceOptions) error {
		if o.retention = d; d < time.Second || d > shard.MaxDuration {
			return invalid("Retention", d, fmt.Sprintf("1s to %v", shard.MaxDuration))
		}
		return nil
	}
}

// Version says which version an operation is about, at most 255 bytes: what was done for one version is not skipped
// for another one.
func Version(v string) ResourceOption {
	return func(o *resourceOptions) error {
		if o.version = v; len(v) > shard.MaxVersion {
			return invalid("Version", fmt.Sprintf("%d bytes", len(v)), fmt.Sprintf("at most %d", shard.MaxVersion))
		}
		return nil
	}
}

// User sets the name under which pulls use the resource, 1 to 255 bytes. Default: the node's name.
func User(name string) ResourceOption {
	return func(o *resourceOptions) error {
		if o.user = name; name == "" || len(name) > shard.MaxName {
			return invalid("User", fmt.Sprintf("%d bytes", len(name)), fmt.Sprintf("1 to %d", shard.MaxName))
		}
		return nil
	}
}

// Durable makes the uses of pulls outlive their session. While the session lasts, such a use ends when the last handle of its [User] in that
// session is released ([Use.Release]), also if that handle is of a pull without Durable. After the session, [Resource.Release] for that user
// ends it; and so does the release of the user's last handle in another session, if that session's last pull for the user came later. The
// handles, with their contexts, end with the session. A use that has outlived its session does not outlive the core of the mesh, nor all replicas
// of the resource's shard ([WithReplicas]) if these end at once.
func Durable() ResourceOption {
	return func(o *resourceOptions) error { o.durable = true; return nil }
}

// WhileUsed lets a pull run again while the resource is used, once its success is not remembered any more. Without it such a pull is
// skipped, as users have the resource; or it is refused with ErrInUse, if another operation has begun since.
func WhileUsed() ResourceOption {
	return func(o *resourceOptions) error { o.whileUsed = true; return nil }
}

// UpdateRequiresNoRef makes updates fail with ErrInUse while the resource is used, as deletes do.
func UpdateRequiresNoRef() ResourceOption {
	return func(o *resourceOptions) error { o.updateAlone = true; return nil }
}

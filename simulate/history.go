package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// History is what the clients of a world did and believed, in true time. The
// checkers judge a mesh by its promises alone: what clients were told, when, and with
// which tokens. The first broken promise ends the run.
//
// Whatever the nodes of a mesh are asked for is taken down by itself, and every check
// is made. What clients of another kind do, or more than the nodes know, is reported:
//
//	call := w.History().Call(ctx, simulate.Exclusive("orders"))
//	l, err := node.Lock(ctx, "orders") // by the same actor: it is taken down once
//	held := call.Returned(l, err)
//	…
//	held.Use() // right where the guarded work is done
//	held.Unlocking()
//	held.Unlocked(l.Unlock(ctx))
type History struct {
	// Bound is how long a call for a free key may wait once the world is healed. Lockers
	// set it. Zero: for ever.
	Bound time.Duration
	// Meshes is how many meshes may live in the world at a time; zero means one. Where there
	// may be several, a mesh of one may end itself; otherwise no node may.
	Meshes int

	world *World
	calls []*CallRecord
	keys  map[string]*keyHistory // looked up, never ranged over
	order []*keyHistory
	// early are holds that ended before their deadline without an Unlock, a crash,
	// or a node's end (G5). A user's session may lose some so, for its fate is one, and
	// a node that leaves, when it has waited for them: those are none of these.
	early  []*HoldRecord
	leaves map[transport.ID]*departure // looked up, never ranged over
	judged uint64                      // one more than the events that had happened at the latest verdict; zero: there was none
	inside observer
}

func newHistory(w *World) *History {
	h := &History{world: w, keys: make(map[string]*keyHistory), leaves: make(map[transport.ID]*departure)}
	h.inside = newObserver(w)
	return h
}

// keyHistory is all that happened to one key.
type keyHistory struct {
	key    string
	calls  []*CallRecord // in the order of their begin
	live   []*HoldRecord // holds that may be believed in; walked from the end, for one that is asked may find that it is over, and go
	weight int64         // of all that live: a bound on what is believed in
	lapsed []*HoldRecord // holds that ended without a confirmed release, and may still be leased

	returns   []peak // the highest token after each return that raised it
	highest   uint64 // token of those that returned
	exclusive uint64 // the highest token that excludes all others
	tokens    map[uint64]*HoldRecord
	freed     time.Duration   // when the latest of the holds that are over left the key free
	settling  []time.Duration // when tries were refused since the shard was young (P27)
	granted   []*tableGrant   // by the table, in the order in which that was told
}

// tableGrant is a grant as the table told of it. One that no call returned with is nobody's:
// its session was given up while it was on its way, and it ends with that one's lease.
type tableGrant struct {
	token    uint64
	owner    transport.ID
	queued   time.Duration
	from, to time.Duration // to is running while it is not over
}

// peak is the highest token of all holds that had returned by some time.
type peak struct {
	at    time.Duration
	token uint64
}

// Want is what a call asks for.
type Want struct {
	Key      string
	Weight   int64         // how much of the key
	Capacity int64         // and how much there is of it: those who hold it fit in together
	MaxHold  time.Duration // the hold ends by then; zero: it is renewed until its Unlock
}

// whole is the capacity of a read/write lock.
const whole = 1 << 40

// Exclusive is what Lock wants.
func Exclusive(key string) Want { return Want{Key: key, Weight: whole, Capacity: whole} }

// Shared is what RLock wants.
func Shared(key string) Want { return Want{Key: key, Weight: 1, Capacity: whole} }

// Permits is what Acquire wants of a semaphore.
func Permits(key string, n, capacity int64) Want {
	return Want{Key: key, Weight: n, Capacity: capacity}
}

// kind says what the call wants of its key.
func (w Want) kind() string {
	switch {
	case w.Weight == whole:
		return "lock"
	case w.Capacity == whole:
		return "read"
	}
	return fmt.Sprintf("%d of %d", w.Weight, w.Capacity)
}

func (w Want) String() string {
	switch {
	case w.Weight == whole:
		return fmt.Sprintf("%q", w.Key)
	case w.Capacity == whole:
		return fmt.Sprintf("%q shared", w.Key)
	}
	return fmt.Sprintf("%q %d of %d", w.Key, w.Weight, w.Capacity)
}

// CallRecord is what a History knows of one call, which may end in a hold.
type CallRecord struct {
	history *History
	process *process
	node    transport.ID // zero: no node was asked
	who     string
	actor   string
	by      *actor   // who reports it, until its end is reported
	silent  bool     // nobody reports it: the nodes tell
	core    env.Hold // what the node tells of a call that is reported
	excused bool     // its hold ended before it was reported, and might
	left    bool     // and since its node had waited for it while it left
	moment  int      // of its begin
	want    Want
	began   time.Duration
	ended   time.Duration // running: not yet
	held    *HoldRecord
	err     error // it has no hold
	refused bool  // it would have had to wait, and did not want to
}

// running is the time of what has not happened.
const running = time.Duration(-1)

// HoldRecord is what a History knows of one hold.
type HoldRecord struct {
	call   *CallRecord
	key    *keyHistory
	hold   env.Hold
	token  uint64
	watch  watch
	moment int // of its begin
	shares []share
	claims []claim
	latest time.Duration // of a hold with a fixed end: the latest that this may be

	began     time.Duration
	unlocking time.Duration // running: not begun
	unlocked  time.Duration // running: no answer yet
	err       error         // of the unlock
	end       time.Duration // of the belief; running: it goes on
	deadline  time.Duration // by the process's clock, when the belief ended
	excused   bool          // it may end before its deadline
	left      bool          // it ended since its node left, and had waited for it
}

// History returns the world's history.
func (w *World) History() *History { return w.history }

// Call records that the actor of ctx is about to ask for something.
func (h *History) Call(ctx context.Context, want Want) *CallRecord {
	c := h.call(processOf(ctx, "History.Call"), want)
	if a := h.world.current; a != nil {
		c.by = a
		a.calls = append(a.calls, c)
	}
	return c
}

func (h *History) call(p *process, want Want) *CallRecord {
	k := h.keys[want.Key]
	if k == nil {
		k = &keyHistory{key: want.Key, tokens: make(map[uint64]*HoldRecord)}
		h.keys[want.Key] = k
		h.order = append(h.order, k)
	}
	c := &CallRecord{history: h, process: p, who: p.host.name, want: want, began: h.world.now, ended: running}
	if h.world.current != nil {
		c.who, c.actor = h.world.current.String(), h.world.current.name
	}
	c.moment = c.record(timeline.Called, 0, 0, want.kind())
	h.calls = append(h.calls, c)
	k.calls = append(k.calls, c)
	return c
}

// record takes down a moment of the call, and of what came of it.
func (c *CallRecord) record(kind timeline.Kind, begin int, token uint64, text string) int {
	return c.history.world.record(timeline.Moment{Kind: kind, Host: c.process.host.name, Actor: c.actor, Key: c.want.Key, Begin: begin, Token: token, Text: text})
}

// Returned records how the call ended, and returns the hold, or nil if there is
// none: the methods of a nil *HoldRecord do nothing.
func (c *CallRecord) Returned(l Lock, err error) *HoldRecord {
	c.forget()
	if err != nil {
		return c.end(nil, err)
	}
	x := c.end(reported{l}, nil)
	if c.core != nil {
		if x.excused, x.left = c.excused, c.left; c.core.Over() {
			x.ended()
		}
	} else if done := l.Context().Done(); done != nil {
		c.history.world.watch(&x.watch, done)
	}
	return x
}

// forget: the call's end is reported now, or by nobody.
func (c *CallRecord) forget() {
	if a := c.by; a != nil {
		a.calls = slices.DeleteFunc(a.calls, func(o *CallRecord) bool { return o == c })
		c.by = nil
	}
}

// reported is a hold that a client reports: the user's lock, which may end later than
// what it stands for.
type reported struct{ Lock }

// Over implements env.Hold.
func (r reported) Over() bool { return r.Context().Err() != nil }

// end records how the call ended.
func (c *CallRecord) end(l env.Hold, err error) *HoldRecord {
	h := c.history
	w := h.world
	c.ended = w.now
	if err != nil {
		c.err, c.refused = err, errors.Is(err, fault.ErrLocked)
		c.record(timeline.Refused, c.moment, 0, err.Error())
		return nil
	}
	k := h.keys[c.want.Key]
	x := &HoldRecord{call: c, key: k, hold: l, token: l.Token(), began: w.now, unlocking: running, unlocked: running, end: running}
	x.watch = watch{held: x, slot: idle}
	if d := c.want.MaxHold; d > 0 {
		x.latest = w.now + d
	}
	c.held = x
	x.moment = c.record(timeline.Held, c.moment, x.token, c.want.kind())
	h.checkToken(k, x)
	k.live = append(k.live, x)
	k.weight += c.want.Weight
	h.checkExclusion(k, x)
	h.checkLeases(k, x)
	h.checkLate(k, x)
	x.checkFixed()
	return x
}

// Use records that the holder does its guarded work now, if it believes that it
// may: the resource sees the token.
func (x *HoldRecord) Use() {
	if x != nil && x.believed() {
		x.call.history.checkExclusion(x.key, x)
		x.call.history.checkFence(x)
		x.checkFixed()
	}
}

// Unlocking records that the holder is about to unlock, or that something else is
// about to end the hold and free the key: Session.Close, a forced release.
func (x *HoldRecord) Unlocking() {
	if x != nil && x.unlocking == running {
		if !x.believed() {
			x.ended() // before, perhaps while the host was paused
		}
		x.unlocking = x.call.history.world.now
		x.call.record(timeline.Unlocked, x.moment, x.token, "")
	}
}

// Unlocked records what the unlock returned.
func (x *HoldRecord) Unlocked(err error) {
	if x == nil || x.unlocked != running {
		return
	}
	w := x.call.history.world
	x.unlocked, x.err = w.now, err
	if err != nil {
		x.call.record(timeline.Note, 0, x.token, fmt.Sprintf("unlocking %v: %v", x.call.want, err))
	}
	if x.end == running && x.hold.Over() {
		x.ended()
	}
	if err == nil && x.end == running {
		w.Fail(fmt.Errorf("late belief (P8): %v: Unlock has returned, and the hold's context has not ended", x))
	}
	if err == nil {
		x.key.freed = w.now
	}
	x.key.settle()
}

// believed tells whether the holder's code may think that it holds the key: its
// context lives, and its deadline is ahead by its own clock.
func (x *HoldRecord) believed() bool {
	p := x.call.process
	return x.end == running && !p.dead && !isOver(x.hold, p)
}

// isOver reports whether a process that looks at a hold sees that it is over. The time comes
// first, for who asks a client's handle makes it look, and so has it told.
func isOver(l env.Hold, p *process) bool { return !p.Wall().Before(l.Deadline()) || l.Over() }

// told tells whether the holder has heard of the end. It asks the node itself, for a
// handle that is asked looks at the clock, and so is told.
func (x *HoldRecord) told() bool {
	if core := x.call.core; core != nil {
		return core.Over()
	}
	return x.hold.Over()
}

// localDeadline is the end of the lease as the client knows it, by its own clock.
func (x *HoldRecord) localDeadline() time.Duration {
	p := x.call.process
	return p.Now() + x.hold.Deadline().Sub(p.Wall())
}

// leasedUntil is the same in true time.
func (x *HoldRecord) leasedUntil() time.Duration {
	d := x.deadline
	if x.end == running {
		d = x.localDeadline()
	}
	p := x.call.process
	return p.host.clock.truth(d - p.base)
}

// ended notes the end of a belief: the hold's context has ended.
func (x *HoldRecord) ended() {
	if x.end != running {
		return
	}
	h := x.call.history
	w := h.world
	x.deadline = x.localDeadline()
	x.end = w.now
	x.checkFixed()
	early := x.leasedUntil() > w.now
	x.end = min(w.now, x.leasedUntil())
	if x.unlocking == running {
		x.call.record(timeline.HoldEnded, x.moment, x.token, "")
		switch l := h.leaves[x.call.node]; {
		case !early || x.excused || x.call.node == 0 && x.call.process.leaving:
		case l != nil:
			w.Fail(fmt.Errorf("G9 leave: %v ended, though it was leased until %v, and its node leaves and waits for it until %v", x, x.leasedUntil(), l.end()))
		default:
			h.early = append(h.early, x)
		}
	}
	x.retire()
}

// retire moves a hold from the living to the lapsed.
func (x *HoldRecord) retire() {
	k := x.key
	for i, y := range k.live {
		if y == x {
			k.live = append(k.live[:i], k.live[i+1:]...)
			k.weight -= x.call.want.Weight
			break
		}
	}
	x.call.history.world.unwatch(&x.watch)
	k.freed = max(k.freed, x.leasedUntil())
	k.lapsed = append(k.lapsed, x)
	k.settle()
}

// settle forgets the lapsed holds that were released, and those whose lease is over.
func (k *keyHistory) settle() {
	kept := k.lapsed[:0]
	for _, x := range k.lapsed {
		if x.unlocking == running && x.leasedUntil() > x.call.history.world.now {
			kept = append(kept, x)
		}
	}
	clear(k.lapsed[len(kept):])
	k.lapsed = kept
}

// crashed ends the calls and the beliefs of a dead process.
func (h *History) crashed(p *process) {
	for _, c := range h.calls {
		if c.process != p {
			continue
		}
		if c.ended == running {
			c.ended = h.world.now
		}
		if x := c.held; x != nil && x.end == running {
			c.record(timeline.HoldEnded, x.moment, x.token, "crashed")
			x.deadline = x.localDeadline()
			x.end = min(h.world.now, x.leasedUntil())
			x.retire()
		}
	}
}

// Calls returns how many calls began, and how many ended in a hold.
func (h *History) Calls() (begun, held int) {
	for _, c := range h.calls {
		if c.held != nil {
			held++
		}
	}
	return len(h.calls), held
}

// open returns a description of each call that has not ended, by nodes that live.
func (h *History) open() []string {
	var open []string
	for _, c := range h.calls {
		if c.ended == running {
			open = append(open, fmt.Sprintf("%s wants %v since %v", c.who, c.want, c.began))
		}
	}
	return open
}

// Finish checks what only the end can tell: every call has ended (G4), and what the
// verdict on a run is about, which [Play] asks for by itself: no hold was lost before its
// time (G5) or, on a good day, at all, each key's history is linearizable, and all replicas
// have the same tables.
// Call it when all actors are done.
func (h *History) Finish() error {
	if open := h.open(); len(open) > 0 {
		h.world.Fail(fmt.Errorf("G4: %d calls have not ended: %q", len(open), open))
	}
	return h.verdict()
}

// verdict judges the history so far as a whole, and returns the first failure. Calls may
// be under way.
func (h *History) verdict() error {
	w := h.world
	h.judged = w.trace.events + 1
	if w.failure != nil {
		return w.failure
	}
	if h.inside.late.all(); w.failure != nil {
		return w.failure
	}
	if len(h.early) > 0 {
		w.Fail(fmt.Errorf("G5 lease: %d holds ended before their deadline, the first: %v, though leased until %v",
			len(h.early), h.early[0], h.early[0].leasedUntil()))
	} else if err := h.linearizable(); err != nil {
		w.Fail(err)
	} else if err := h.kept(); err != nil && !w.ailed {
		w.Fail(err)
	} else if err := h.inside.state.equal(); err != nil {
		w.Fail(err)
	}
	return w.failure
}

func (x *HoldRecord) String() string {
	s := fmt.Sprintf("%s with token %d of %v since %v", x.call.who, x.token, x.call.want, x.began)
	if x.end != running {
		s += fmt.Sprintf(" until %v", x.end)
	}
	return s
}

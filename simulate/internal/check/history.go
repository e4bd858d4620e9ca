package check

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
// checkers judge a mesh by its promises: by what clients were told, when, and with which
// tokens, and by what its replicas tell (see [Observer]). The first broken promise ends the run.
//
// The nodes of a mesh tell of each call by themselves. Clients of another kind report theirs, and
// clients that know more than their nodes do so, too:
//
//	call := h.Call(process, check.Exclusive("orders"))
//	l, err := node.Lock(ctx, "orders") // by the same actor: it counts as one call
//	held := call.Returned(l, err)
//	…
//	held.Use() // right where the guarded work is done
//	held.Unlocking()
//	held.Unlocked(l.Unlock(ctx))
type History struct {
	world World
	calls []*Call
	keys  map[string]*keyHistory // looked up, never ranged over
	order []*keyHistory
	// early are holds that ended before their deadline without an Unlock, a crash
	// or a node's end (G5). Holds that end with their user's session, or since their node
	// leaves and has waited for them, are not among these.
	early  []*Hold
	leaves map[transport.ID]*departure // looked up, never ranged over
	judged uint64                      // one more than the events that had happened at the latest verdict; zero: there was none
	inside Observer
	// reports are the calls that each actor reports, and which have not ended.
	reports map[Actor][]*Call // looked up, never ranged over
}

// New returns the history of a world that has just begun.
func New(w World) *History {
	h := &History{world: w, keys: make(map[string]*keyHistory), leaves: make(map[transport.ID]*departure), reports: make(map[Actor][]*Call)}
	h.inside = newObserver(h)
	return h
}

// Observer returns what hears of the replicas.
func (h *History) Observer() *Observer { return &h.inside }

// keyHistory is all that happened to one key.
type keyHistory struct {
	key    string
	calls  []*Call // in the order of their begin
	live   []*Hold // holds that may be believed in; walked from the end, since a hold that is asked may find that it is over, and be removed
	weight int64   // of all that live: a bound on what is believed in
	lapsed []*Hold // holds that ended without a confirmed release, and may still be leased

	returns   []peak // the highest token after each return that raised it
	highest   uint64 // token of those that returned
	exclusive uint64 // the highest token that excludes all others
	tokens    map[uint64]*Hold
	behind    bool          // tokens may have begun again, below the earlier ones: see Observer.behind
	freed     time.Duration // when the latest of the holds that are over left the key free
	done      successes
	settling  []time.Duration // when tries were refused since the shard was quiet (P27)
	granted   []*tableGrant   // by the table, in the order in which that was told
	resizes   []resizing
	breaks    map[uint64]bool  // the tokens that operators have named; looked up, never ranged over
	sizes     map[uint64]int64 // by token: of which capacity it was granted; of a semaphore; looked up, never ranged over

	words    map[word]string // of an election: the values of its leaders; looked up, never ranged over
	watchers []*watcher      // that observe it
}

// tableGrant is a grant as the table told of it. A grant with which no call returned has no holder:
// its session was given up while it was on its way, and it ends with the session's lease.
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
type Want env.Ask

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

// Call is what a History knows of one call, which may end in a hold.
type Call struct {
	history    *History
	process    Process
	node       transport.ID // zero: no node was asked
	who        string
	actor      string
	by         Actor    // that reports it, until its end is reported
	unreported bool     // no actor reports it: the nodes tell
	core       env.Hold // what the node tells of a call that is reported
	excused    bool     // its hold ended before it was reported, and might
	left       bool     // and since its node had waited for it while it left
	moment     int      // of its begin
	want       Want
	began      time.Duration
	ended      time.Duration // running: not yet
	held       *Hold
	err        error // it has no hold
	refused    bool  // it would have had to wait, or its shard was quiet, and it did not want to
}

// running is the time of what has not happened.
const running = time.Duration(-1)

// Hold is what a History knows of one hold.
type Hold struct {
	call       *Call
	key        *keyHistory
	hold       env.Hold
	token      uint64
	unwatch    func()
	moment     int // of its begin
	shares     []share
	extensions []extension
	latest     time.Duration // of a hold with a fixed end: the latest that this may be; zero: it has none, so far

	began     time.Duration
	unlocking time.Duration // running: not begun
	unlocked  time.Duration // running: no answer yet
	err       error         // of the unlock
	end       time.Duration // of the belief; running: it goes on
	deadline  time.Duration // by the process's clock, when the belief ended
	excused   bool          // it may end before its deadline
	broken    bool          // an operator has broken it (P49)
	left      bool          // it ended since its node left, and had waited for it
	succeeded bool          // its caller has said that what is done once has succeeded

	less downgrade // it is a reader's (P47)

	proclaimed uint64 // of a leadership: the sequence of the latest value that was confirmed
}

// Call records that the actor that runs, in that process, is about to ask for something.
func (h *History) Call(p Process, want Want) *Call {
	c := h.call(p, want)
	if a := h.world.Actor(); a != nil {
		c.by = a
		h.reports[a] = append(h.reports[a], c)
	}
	return c
}

func (h *History) call(p Process, want Want) *Call {
	k := h.key(want.Key)
	c := &Call{history: h, process: p, who: p.Host(), want: want, began: h.world.Now(), ended: running}
	if a := h.world.Actor(); a != nil {
		c.who, c.actor = a.String(), a.Name()
	}
	c.moment = c.record(timeline.Called, 0, 0, want.kind())
	h.calls = append(h.calls, c)
	k.calls = append(k.calls, c)
	return c
}

// key returns the history of a key.
func (h *History) key(key string) *keyHistory {
	k := h.keys[key]
	if k == nil {
		k = &keyHistory{key: key, tokens: make(map[uint64]*Hold)}
		h.keys[key] = k
		h.order = append(h.order, k)
	}
	return k
}

// record takes down a moment of the call, and of what came of it.
func (c *Call) record(kind timeline.Kind, begin int, token uint64, text string) int {
	return c.history.world.Record(timeline.Moment{Kind: kind, Host: c.process.Host(), Actor: c.actor, Key: c.want.Key, Begin: begin, Token: token, Text: text})
}

// Returned records how the call ended, and returns the hold, or nil if there is
// none: the methods of a nil *Hold do nothing.
func (c *Call) Returned(l Lock, err error) *Hold {
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
		x.unwatch = c.history.world.Watch(done, x.ended)
	}
	return x
}

// forget: the call's end is reported now, or never.
func (c *Call) forget() {
	if a := c.by; a != nil {
		reports := c.history.reports
		if reports[a] = slices.DeleteFunc(reports[a], func(o *Call) bool { return o == c }); len(reports[a]) == 0 {
			delete(reports, a)
		}
		c.by = nil
	}
}

// Lock is a hold as its user sees it.
type Lock interface {
	Token() uint64
	Context() context.Context
	Deadline() time.Time
}

// reported is a hold that a client reports: the user's lock, which may end later than
// what it stands for.
type reported struct{ Lock }

// Over implements env.Hold.
func (r reported) Over() bool { return r.Context().Err() != nil }

// end records how the call ended.
func (c *Call) end(l env.Hold, err error) *Hold {
	h := c.history
	w := h.world
	c.ended = w.Now()
	if err != nil {
		quiet := errors.Is(err, fault.ErrQuiet)
		c.err, c.refused = err, quiet || errors.Is(err, fault.ErrLocked)
		if quiet {
			h.checkQuiet(c)
		}
		c.record(timeline.Refused, c.moment, 0, err.Error())
		if c.want.Once && err == env.ErrSkipped {
			h.checkSkip(c)
		}
		return nil
	}
	k := h.keys[c.want.Key]
	x := &Hold{call: c, key: k, hold: l, token: l.Token(), began: w.Now(), unlocking: running, unlocked: running, end: running}
	if d := c.want.MaxHold; d > 0 {
		x.latest = w.Now() + d
	}
	c.held = x
	x.moment = c.record(timeline.Held, c.moment, x.token, c.want.kind())
	h.checkToken(k, x)
	k.live = append(k.live, x)
	k.weight += c.want.Weight
	h.checkExclusion(k, x)
	h.checkLeases(k, x)
	h.checkLate(k, x)
	h.checkOnce(k, x)
	x.checkFixed()
	return x
}

// Use records that the holder does its guarded work now, if it believes that it
// may: the resource sees the token.
func (x *Hold) Use() {
	if x != nil && x.believed() {
		x.call.history.checkExclusion(x.key, x)
		x.call.history.checkFence(x)
		x.checkFixed()
	}
}

// Unlocking records that the holder is about to unlock, or that something else is
// about to end the hold and free the key: Session.Close, a forced release.
func (x *Hold) Unlocking() {
	if x != nil && x.unlocking == running {
		if !x.believed() {
			x.ended() // before, perhaps while the host was paused
		}
		x.checkWatchers()
		x.unlocking = x.call.history.world.Now()
		x.call.record(timeline.Unlocked, x.moment, x.token, "")
	}
}

// Unlocked records what the unlock returned.
func (x *Hold) Unlocked(err error) {
	if x == nil || x.unlocked != running {
		return
	}
	w := x.call.history.world
	x.unlocked, x.err = w.Now(), err
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
		x.key.freed = w.Now()
		x.key.done.confirmed(x)
	}
	x.key.settle()
}

// downgrade is what is known of a Downgrade.
type downgrade struct {
	begun, ended bool // ended: it was confirmed
	from, to     time.Duration
}

// weight is how much of the key it is.
func (x *Hold) weight() int64 {
	if x.less.begun {
		return 1
	}
	return x.call.want.Weight
}

// believed reports whether the holder's code may think that it holds the key: its
// context lives, and its deadline is ahead by its own clock.
func (x *Hold) believed() bool {
	p := x.call.process
	return x.end == running && !p.Dead() && !isOver(x.hold, p)
}

// isOver reports whether a process that looks at a hold sees that it is over. The time comes
// first: a client's handle that is asked looks at the clock, and so is told.
func isOver(l env.Hold, p Process) bool { return !p.Wall().Before(l.Deadline()) || l.Over() }

// told reports whether the holder has heard of the end. It asks the node itself, since a
// handle that is asked looks at the clock, and so is told.
func (x *Hold) told() bool {
	if core := x.call.core; core != nil {
		return core.Over()
	}
	return x.hold.Over()
}

// localDeadline is the end of the lease as the client knows it, by its own clock.
func (x *Hold) localDeadline() time.Duration {
	p := x.call.process
	return p.Now() + x.hold.Deadline().Sub(p.Wall())
}

// leasedUntil is the same in true time.
func (x *Hold) leasedUntil() time.Duration {
	d := x.deadline
	if x.end == running {
		d = x.localDeadline()
	}
	p := x.call.process
	return p.Truth(d)
}

// ended notes the end of a belief: the hold's context has ended.
func (x *Hold) ended() {
	if x.end != running {
		return
	}
	h := x.call.history
	w := h.world
	x.deadline = x.localDeadline()
	x.end = w.Now()
	x.checkFixed()
	early := x.leasedUntil() > w.Now()
	x.end = min(w.Now(), x.leasedUntil())
	if x.unlocking == running {
		x.call.record(timeline.HoldEnded, x.moment, x.token, "")
		switch l := h.leaves[x.call.node]; {
		case !early || x.excused || x.call.node == 0 && x.call.process.Leaving():
		case l != nil:
			w.Fail(fmt.Errorf("G9 leave: %v ended, though it was leased until %v, and its node leaves and waits for it until %v", x, x.leasedUntil(), l.end()))
		default:
			h.early = append(h.early, x)
		}
	}
	x.retire()
}

// retire moves a hold from the living to the lapsed.
func (x *Hold) retire() {
	k := x.key
	if i := slices.Index(k.live, x); i >= 0 {
		k.live = append(k.live[:i], k.live[i+1:]...) // a walk from the end may be under way, and must find no nil
		k.weight -= x.weight()
	}
	if x.unwatch != nil {
		x.unwatch()
	}
	k.freed = max(k.freed, x.leasedUntil())
	k.lapsed = append(k.lapsed, x)
	k.settle()
}

// settle forgets the lapsed holds that were released, and those whose lease is over.
func (k *keyHistory) settle() {
	kept := k.lapsed[:0]
	for _, x := range k.lapsed {
		if x.unlocking == running && x.leasedUntil() > x.call.history.world.Now() {
			kept = append(kept, x)
		}
	}
	clear(k.lapsed[len(kept):])
	k.lapsed = kept
}

// Born is called for each node before it has joined.
func (h *History) Born(p Process, node transport.ID) { h.inside.identity.born(p, node) }

// Dies is called when a process is about to die.
func (h *History) Dies(p Process) { h.inside.late.crashed(p) }

// Calm is called when the world has no faults any more.
func (h *History) Calm() { h.inside.late.calm() }

// Judged reports whether nothing has happened since the latest Verdict.
func (h *History) Judged() bool { return h.judged == h.world.Events()+1 }

// Crashed ends the calls and the beliefs of a dead process, when its actors are unwound.
func (h *History) Crashed(p Process) {
	for _, c := range h.calls {
		if c.process != p {
			continue
		}
		if c.ended == running {
			c.ended = h.world.Now()
		}
		if x := c.held; x != nil && x.end == running {
			c.record(timeline.HoldEnded, x.moment, x.token, "crashed")
			x.deadline = x.localDeadline()
			x.end = min(h.world.Now(), x.leasedUntil())
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

// Open returns a description of each call that has not ended, by nodes that live.
func (h *History) Open() []string {
	var open []string
	for _, c := range h.calls {
		if c.ended == running {
			open = append(open, fmt.Sprintf("%s wants %v since %v", c.who, c.want, c.began))
		}
	}
	return open
}

// Finish checks that every call has ended (G6), and returns the Verdict.
func (h *History) Finish() error {
	if open := h.Open(); len(open) > 0 {
		h.world.Fail(fmt.Errorf("G6: %d calls have not ended: %q", len(open), open))
	}
	return h.Verdict()
}

// Verdict judges the history so far as a whole, and returns the first failure: no hold was lost
// before its time (G5) or, on a good day, at all, each key's history is linearizable, and all
// replicas have the same tables. Calls may be under way.
func (h *History) Verdict() error {
	w := h.world
	h.judged = w.Events() + 1
	if w.Err() != nil {
		return w.Err()
	}
	if h.inside.late.all(); w.Err() != nil {
		return w.Err()
	}
	if len(h.early) > 0 {
		w.Fail(fmt.Errorf("G5 lease: %d holds ended before their deadline, the first: %v, though leased until %v",
			len(h.early), h.early[0], h.early[0].leasedUntil()))
	} else if err := h.linearizable(); err != nil {
		w.Fail(err)
	} else if err := h.kept(); err != nil && !w.Ailed() {
		w.Fail(err)
	} else if err := h.inside.state.equal(); err != nil {
		w.Fail(err)
	}
	return w.Err()
}

func (x *Hold) String() string {
	s := fmt.Sprintf("%s with token %d of %v since %v", x.call.who, x.token, x.call.want, x.began)
	if x.end != running {
		s += fmt.Sprintf(" until %v", x.end)
	}
	return s
}

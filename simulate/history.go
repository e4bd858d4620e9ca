package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// History is what the clients of a world did and believed, in true time. The
// checkers read nothing else, so that they judge a mesh by its promises alone:
// what clients were told, when, and with which tokens. The first broken promise
// ends the run.
//
//	call := w.History().Call(ctx, simulate.Exclusive("orders"))
//	l, err := node.Lock(ctx, "orders")
//	held := call.Returned(l, err)
//	…
//	held.Use() // right where the guarded work is done
//	held.Unlocking()
//	held.Unlocked(l.Unlock(ctx))
type History struct {
	world *World
	calls []*Call
	keys  map[string]*keyHistory // looked up, never ranged over
	order []*keyHistory
	queue fifo

	// Early are holds that ended before their deadline without an Unlock, a crash,
	// or a node's end. A user's session may lose some so, for its fate is one, and a
	// node that leaves does; the own session of a node that stays should not (G5).
	Early []*Held
}

func newHistory(w *World) *History {
	h := &History{world: w, keys: make(map[string]*keyHistory)}
	h.queue = fifo{world: w, next: w.opts.Observer, seen: make(map[decisionName]decision), keys: make(map[shardKey]*keyQueue)}
	return h
}

// keyHistory is all that happened to one key.
type keyHistory struct {
	key    string
	calls  []*Call // in the order of their begin
	live   []*Held // holds that may be believed in
	lapsed []*Held // holds that ended without a confirmed release, and may still be leased

	returns   []peak // the highest token after each return that raised it
	highest   uint64 // token of those that returned
	exclusive uint64 // the highest token that excludes all others
	tokens    map[uint64]*Held
}

// peak is the highest token of all holds that had returned by some time.
type peak struct {
	at    time.Duration
	token uint64
}

// Want is what a call asks for.
type Want struct {
	Key      string
	Weight   int64
	Capacity int64
}

// whole is the capacity of a read/write lock.
const whole = 1 << 40

// Exclusive is what Lock wants.
func Exclusive(key string) Want { return Want{key, whole, whole} }

// Shared is what RLock wants.
func Shared(key string) Want { return Want{key, 1, whole} }

// Permits is what Acquire wants of a semaphore.
func Permits(key string, n, capacity int64) Want { return Want{key, n, capacity} }

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

// Hold is the part of a lock's handle that tells what its holder believes. A
// *mesh.Lock is one. After the hold has ended, Deadline stays what it was.
type Hold interface {
	Token() uint64
	Context() context.Context
	Deadline() time.Time
}

// Call is one call that may end in a hold.
type Call struct {
	history *History
	process *process
	who     string
	actor   string
	moment  int // of its begin
	want    Want
	began   time.Duration
	ended   time.Duration // running: not yet
	held    *Held
	err     error
	crashed bool
}

// running is the time of what has not happened.
const running = time.Duration(-1)

// Held is one hold.
type Held struct {
	call   *Call
	key    *keyHistory
	hold   Hold
	token  uint64
	watch  watch
	moment int // of its begin

	began     time.Duration
	unlocking time.Duration // running: not begun
	unlocked  time.Duration // running: no answer yet
	err       error         // of the unlock
	end       time.Duration // of the belief; running: it goes on
	deadline  time.Duration // by the process's clock, when the belief ended
	crashed   bool
}

// History returns the world's history.
func (w *World) History() *History { return w.history }

// Call records that the actor of ctx is about to ask for something.
func (h *History) Call(ctx context.Context, want Want) *Call {
	p := processOf(ctx, "History.Call")
	k := h.keys[want.Key]
	if k == nil {
		k = &keyHistory{key: want.Key, tokens: make(map[uint64]*Held)}
		h.keys[want.Key] = k
		h.order = append(h.order, k)
	}
	c := &Call{history: h, process: p, who: p.host.name, want: want, began: h.world.now, ended: running}
	if h.world.current != nil {
		c.who, c.actor = h.world.current.String(), h.world.current.name
	}
	c.moment = c.record(timeline.Called, 0, 0, want.kind())
	h.calls = append(h.calls, c)
	k.calls = append(k.calls, c)
	return c
}

// record takes down a moment of the call, and of what came of it.
func (c *Call) record(kind timeline.Kind, begin int, token uint64, text string) int {
	return c.history.world.record(timeline.Moment{Kind: kind, Host: c.process.host.name, Actor: c.actor, Key: c.want.Key, Begin: begin, Token: token, Text: text})
}

// Returned records how the call ended, and returns the hold, or nil if there is
// none: the methods of a nil *Held do nothing.
func (c *Call) Returned(l Hold, err error) *Held {
	h := c.history
	w := h.world
	c.ended, c.err = w.now, err
	if err != nil {
		c.record(timeline.Refused, c.moment, 0, err.Error())
		return nil
	}
	k := h.keys[c.want.Key]
	x := &Held{call: c, key: k, hold: l, token: l.Token(), began: w.now, unlocking: running, unlocked: running, end: running}
	c.held = x
	x.moment = c.record(timeline.Held, c.moment, x.token, c.want.kind())
	h.checkToken(k, x)
	k.live = append(k.live, x)
	h.checkExclusion(k, x)
	h.checkLeases(k, x)
	x.watch = watch{held: x, slot: idle}
	if done := l.Context().Done(); done != nil {
		w.watch(&x.watch, done)
	}
	return x
}

// Use records that the holder does its guarded work now, if it believes that it
// may: the resource sees the token.
func (x *Held) Use() {
	if x != nil && x.believed() {
		x.call.history.checkExclusion(x.key, x)
		x.call.history.checkFence(x)
	}
}

// Unlocking records that the holder is about to unlock, or that something else is
// about to end the hold and free the key: Session.Close, a forced release.
func (x *Held) Unlocking() {
	if x != nil && x.unlocking == running {
		if !x.believed() {
			x.ended() // before, perhaps while the host was paused
		}
		x.unlocking = x.call.history.world.now
	}
}

// Unlocked records what the unlock returned.
func (x *Held) Unlocked(err error) {
	if x == nil || x.unlocked != running {
		return
	}
	w := x.call.history.world
	x.unlocked, x.err = w.now, err
	x.call.record(timeline.Unlocked, x.moment, x.token, errorText(err))
	if x.end == running && x.hold.Context().Err() != nil {
		x.ended()
	}
	if err == nil && x.end == running {
		w.Fail(fmt.Errorf("late belief (P8): %v: Unlock has returned, and the hold's context has not ended", x))
	}
	x.key.settle()
}

// believed tells whether the holder's code may think that it holds the key: its
// context lives, and its deadline is ahead by its own clock.
func (x *Held) believed() bool {
	p := x.call.process
	return x.end == running && !p.dead && x.hold.Context().Err() == nil && p.Wall().Before(x.hold.Deadline())
}

// localDeadline is the end of the lease as the client knows it, by its own clock.
func (x *Held) localDeadline() time.Duration {
	p := x.call.process
	return p.Now() + x.hold.Deadline().Sub(p.Wall())
}

// leasedUntil is the same in true time.
func (x *Held) leasedUntil() time.Duration {
	d := x.deadline
	if x.end == running {
		d = x.localDeadline()
	}
	p := x.call.process
	return p.host.clock.truth(d - p.base)
}

// ended notes the end of a belief: the hold's context has ended.
func (x *Held) ended() {
	if x.end != running {
		return
	}
	h := x.call.history
	w := h.world
	x.deadline = x.localDeadline()
	x.end = w.now
	early := x.leasedUntil() > w.now
	x.end = min(w.now, x.leasedUntil())
	if x.unlocking == running {
		x.call.record(timeline.HoldEnded, x.moment, x.token, "lost")
		if early {
			h.Early = append(h.Early, x)
		}
	}
	x.retire()
}

// retire moves a hold from the living to the lapsed.
func (x *Held) retire() {
	k := x.key
	for i, y := range k.live {
		if y == x {
			k.live = append(k.live[:i], k.live[i+1:]...)
			break
		}
	}
	x.call.history.world.unwatch(&x.watch)
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
			c.crashed, c.ended, c.err = true, h.world.now, errCrashed
		}
		if x := c.held; x != nil && x.end == running {
			x.crashed = true
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

// Finish checks what only the end can tell: every call has ended (G4), and each
// key's history is linearizable. Call it when all actors are done.
func (h *History) Finish() error {
	if h.world.failure != nil {
		return h.world.failure
	}
	if open := h.Open(); len(open) > 0 {
		h.world.Fail(fmt.Errorf("G4: %d calls have not ended: %q", len(open), open))
	} else if err := h.linearizable(); err != nil {
		h.world.Fail(err)
	}
	return h.world.failure
}

func (x *Held) String() string {
	s := fmt.Sprintf("%s with token %d of %v since %v", x.call.who, x.token, x.call.want, x.began)
	if x.end != running {
		s += fmt.Sprintf(" until %v", x.end)
	}
	return s
}

func errorText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

var _ seam.Observer = (*fifo)(nil)

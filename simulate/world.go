package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// Options say what a world is like. The zero value is a calm local network whose
// clocks all agree.
type Options struct {
	// Seed decides everything that chance decides.
	Seed uint64
	// Profile, if there is one, draws Link, Gossip, ClockRate and ClockOffset from the
	// seed, whatever is given here.
	Profile Profile
	// Set gives parameters values in place of the seed's: see [World.Pick]. A name that ends
	// in a star, as in "site-*", stands for all parameters that begin so and are not named
	// themselves. The value [Least] stands for the least value of each.
	Set map[string]int64
	// Only, if it is not nil, names the only faults that storms may have: see [Fault].
	Only []string
	// Variant draws another course of the same world: with equal parameters, clocks and
	// storms, but other delays, losses and loads.
	Variant uint64
	// Until stops the run early, with a [Stopped] that has the state of the world.
	Until Until
	// Interrupt stops the run before the next event once it is closed. Where that is depends on
	// real time. A search puts the end of its context here. A nil channel is never closed.
	Interrupt <-chan struct{}
	// Link is what every link is like until [Net.SetLink] changes it.
	Link Link
	// Gossip is how well news of members travels.
	Gossip Gossip
	// ClockRate bounds the rates of the hosts' clocks, in millionths: each host
	// draws its own from [-ClockRate, ClockRate].
	ClockRate int64
	// ClockOffset bounds how far the hosts' times of day are apart from the true one.
	ClockOffset time.Duration
	// Timeline keeps an account of what happens; see [World.Timeline].
	Timeline bool
	// Event is called right before each event. It must not touch the world.
	Event func(Event)
	// Repeat is printed with a failure, and says how to repeat the run. The default
	// names the seed.
	Repeat string
	// Stalled is called if code in the world does not return to the simulation for a minute of
	// real time: an actor, a function of World.At, a condition of RunUntil. It blocks on a channel,
	// a mutex or a clock, or computes. Stalled is called on a goroutine of its own, with the stack
	// of that code in the report, and again if that goes on. The default panics.
	Stalled func(report string)
}

// World is a simulated network of hosts, with a clock of its own. Same options,
// same code: same events, bit for bit, on any machine.
//
// One goroutine at a time may use a world; its actors run inside of Run, one at a
// time, and may use it too.
type World struct {
	Net *Net // between the hosts

	opts Options

	now     time.Duration
	seq     uint64
	queue   queue
	instant int // events that happened at now

	draws      uint64
	user       *rand.Rand
	climate    climate
	parameters []Parameter
	sites      []int64       // by point.Site: how often it is taken, in percent
	taken      []uint64      // by point.Site: how often it was taken
	faultless  bool          // HealAll or HealCore: no fault point is taken, and the sieve rests, until the storm
	noisy      bool          // some fault points are taken, or the sieve does something, unless faultless
	healed     time.Duration // the latest HealAll; zero: there was a fault since, or a node left or joined
	ailed      bool          // something was ever worse than on a good day
	storm      *Chaos        // nil: none yet
	backwards  bool          // a host's time of day went back
	fresh      bool          // all processes were ended at once: a second mesh is founded

	hosts     []*Host // the first is the lab, where World.Go's actors run
	byName    map[string]*Host
	gossip    *gossip
	history   History
	marks     *marks
	registers map[string]*Register
	claims    []*Property               // of scenarios
	nodes     map[transport.ID]*process // looked up, never ranged over

	current   *actor // that runs
	turn      *loop  // the one that runs now
	watches   []*watch
	triggered []*watch
	reaping   []*process
	actors    int
	processes int

	trace    trace
	timeline *timeline.Timeline
	why      why  // the reasons of what happens now
	moving   bool // events are only moved to other times, and keep their reasons
	failure  error
	running  bool
	closed   bool
	dog      watchdog
}

// New returns a world without hosts, at time zero.
//
//	w := simulate.New(simulate.Options{Seed: 7})
//	defer w.Close()
//	w.Host("a").Go("worker", func(ctx context.Context) {
//		simulate.Logf(ctx, "working")
//		simulate.Sleep(ctx, time.Second)
//	})
//	err := w.Run(30 * time.Second)
func New(opts Options) *World {
	if opts.Repeat == "" {
		opts.Repeat = fmt.Sprintf("simulate.Options.Seed = %d", opts.Seed)
	}
	w := &World{opts: opts, byName: make(map[string]*Host), registers: make(map[string]*Register), nodes: make(map[transport.ID]*process), trace: newTrace()}
	w.user = rand.New(w.stream(userStream))
	w.draw()
	w.opts.check()
	w.drawSites()
	if opts.Timeline {
		w.timeline, w.why.holds = &timeline.Timeline{}, make(map[actorAt][]int)
	}
	w.Net = newNetwork(w, w.opts.Link)
	w.noisy = slices.Max(w.sites) > 0 || w.Net.sieve.on
	w.ailed = !w.opts.good() || w.noisy
	w.gossip = newGossip(w, w.opts.Gossip)
	w.history.checks = check.New(judged{w})
	w.marks = newMarks(w)
	w.newHost(lab)
	return w
}

func (w *World) stream(concern uint64) *stream {
	seed := w.varied()
	if steady(concern) {
		seed = w.opts.Seed
	}
	return newStream(seed, concern, &w.draws)
}

// varied is the seed of all that Options.Variant changes.
func (w *World) varied() uint64 {
	if w.opts.Variant == 0 {
		return w.opts.Seed
	}
	return w.opts.Seed ^ mix(w.opts.Variant)
}

// Now is the true time since the world began. No host's clock shows it.
func (w *World) Now() time.Duration { return w.now }

// Seed returns the world's seed.
func (w *World) Seed() uint64 { return w.opts.Seed }

// Hash returns the hash of everything that has happened so far: two runs with equal hashes were the same.
func (w *World) Hash() uint64 { return w.trace.digest.Sum64() }

// Rand returns the source of random numbers for scenarios and actors. The seed decides what they draw
// from it. Use Pick for sizes that a search may make smaller.
//
//	simulate.Sleep(ctx, time.Duration(w.Rand().Int64N(int64(time.Second))))
func (w *World) Rand() *rand.Rand { return w.user }

// Run lets d pass, and returns the first failure: an actor's panic, or a promise
// that a checker of [World.History] saw broken. After a failure nothing moves, and Run returns that failure at once.
// It panics if d is negative, in an actor or another function that the world calls, and after Close.
//
//	if err := w.Run(time.Minute); err != nil {
//		t.Fatal(err)
//	}
func (w *World) Run(d time.Duration) error { return w.run(add(w.now, d), nil) }

// RunUntil is Run until cond holds, which it calls before the first event and after every event. If cond does not hold within d,
// the run fails with [ErrNotWithin], and so do all later calls of Run.
//
//	done := false // some actor sets it
//	err := w.RunUntil(func() bool { return done }, time.Minute)
func (w *World) RunUntil(cond func() bool, d time.Duration) error {
	met := false
	err := w.run(add(w.now, d), func() bool { met = cond(); return met })
	if err == nil && !met && !cond() {
		w.Fail(fmt.Errorf("%w %v what was waited for", ErrNotWithin, d))
		err = w.failure
	}
	return err
}

// ErrNotWithin is the failure of [World.RunUntil]. What it waited for, only the scenario can say.
var ErrNotWithin = errors.New("simulate: not within")

func (w *World) run(until time.Duration, cond func() bool) (err error) {
	if until < w.now {
		panic(fmt.Sprintf("simulate: Run for %v: time does not go back", until-w.now))
	}
	if w.running {
		panic("simulate: Run called from inside the simulation")
	}
	if w.closed {
		panic("simulate: Run of a closed world")
	}
	w.running = true
	for _, h := range w.hosts {
		h.known = true
	}
	w.dog.start(w)
	defer func() {
		w.dog.stop()
		if r := recover(); r != nil {
			w.Fail(fmt.Errorf("simulate: panic: %v\n%s", r, debug.Stack()))
			err = w.failure
		}
		w.running, w.current = false, nil // an actor may have ended this goroutine
		w.why.begin(0)
	}()
	w.settle()
	for w.failure == nil {
		if cond != nil && cond() {
			return nil
		}
		if w.stops(until) {
			break
		}
		if len(w.queue.heap) == 0 || w.queue.heap[0].at > until {
			w.now = until
			break
		}
		w.step()
	}
	return w.failure
}

// maxInstant is how many events may happen without time going on.
const maxInstant = 1 << 20

func (w *World) step() {
	ev := w.queue.pop()
	if ev.at != w.now {
		w.now, w.instant = ev.at, 0
	}
	if w.instant++; w.instant > maxInstant {
		w.Fail(fmt.Errorf("simulate: time stands still: %d events at %v, the last one %v", w.instant, w.now, ev.what(ev.frame, 0)))
		return
	}
	host, payload := 0, uint64(0)
	if p := ev.owner; p != nil {
		if p.dead {
			w.drop(ev)
			return
		}
		if p.host.paused {
			if ev.kind == frameEvent {
				ev.frame.began = endOfTime // it is on its way no more
			}
			ev.slot = deferred
			p.host.deferred = append(p.host.deferred, ev)
			return
		}
		host = p.host.index
	}
	switch ev.kind {
	case frameEvent:
		payload = ev.frame.hash
	case loopEvent:
		payload = uint64(ev.loop.id)
	case actorEvent:
		payload = uint64(ev.actor.id)
	}
	w.trace.add(ev, host, payload, w.draws)
	if w.opts.Event != nil {
		w.tell(ev, payload)
	}
	w.dog.progress.Add(1)
	w.why.begin(ev.due)

	switch ev.kind {
	case callEvent:
		ev.fn()
	case loopEvent:
		ev.loop.fire()
	case actorEvent:
		ev.actor.resume()
	case contextEvent:
		ev.context.cancel(context.DeadlineExceeded)
	case frameEvent:
		w.Net.arrive(ev.frame)
	case silenceEvent:
		ev.conn.broken(ev.side) // its patience is over
	}
	w.settle()
}

// settle follows up on what an event did.
func (w *World) settle() {
	if len(w.reaping) > 0 {
		w.reap()
	}
	if len(w.marks.looks) > 0 {
		w.marks.settle()
	}
	if len(w.watches) > 0 {
		w.poll()
	}
}

// drop forgets an event whose process is dead.
func (w *World) drop(ev *event) {
	if ev.kind == frameEvent {
		w.recordFrame(timeline.Lost, ev.frame.Frame, ev.frame.sent, "down")
		w.Net.free(ev.frame)
	}
}

// schedule moves ev to the true time at, or to now if that is past.
func (w *World) schedule(ev *event, at time.Duration) {
	if ev.slot == deferred {
		return // already due
	}
	w.seq++
	ev.at, ev.seq = max(at, w.now), w.seq
	if !w.moving || ev.slot == idle {
		ev.due = w.why.due()
		if ev.actor != nil && ev.actor == w.current { // its own timer
			ev.due = w.why.goesOn()
		}
	}
	if ev.slot == idle {
		w.queue.push(ev)
	} else {
		w.queue.fix(ev)
	}
}

func (w *World) cancel(ev *event) {
	if ev.slot >= 0 {
		w.queue.remove(ev)
	}
	ev.slot = idle
}

// after calls fn when d has passed, if owner still lives then, and not before
// it goes on if it is paused.
func (w *World) after(d time.Duration, owner *process, fn func()) *event {
	ev := &event{kind: callEvent, slot: idle, owner: owner, fn: fn}
	w.schedule(ev, add(w.now, d))
	return ev
}

// At calls fn at the true time t, or as soon as Run goes on if t is past. It is
// for scripts of faults: fn must not block.
//
//	w.At(10*time.Second, func() { w.Net.Partition([]string{"a"}, []string{"b", "c"}) })
//	w.At(20*time.Second, w.Net.Heal)
func (w *World) At(t time.Duration, fn func()) { w.after(t-w.now, nil, fn) }

// Go starts an actor that belongs to no host: an experimenter, which no fault
// reaches. It sleeps by the true clock, and cannot run a node.
func (w *World) Go(name string, fn func(ctx context.Context)) <-chan struct{} {
	return w.hosts[0].Go(name, fn)
}

// Fail ends the run with err, unless the run has failed already or err is nil.
func (w *World) Fail(err error) {
	if w.failure == nil && err != nil {
		f := &Failure{Err: err, Seed: w.opts.Seed, Time: w.now, Events: w.trace.events, Repeat: w.opts.Repeat}
		message, _ := splitStack(err)
		w.note(timeline.Failure, lab, "%s", message)
		if t := w.Timeline(); t != nil {
			f.Timeline = t.Excerpt(timeline.FailureMoments)
		}
		w.failure = f
	}
}

// Err returns the first failure.
func (w *World) Err() error { return w.failure }

// Close ends all hosts and unwinds their actors, whose deferred calls run. The
// timeline does not show it.
func (w *World) Close() {
	if w.closed {
		return
	}
	account := w.timeline
	w.timeline = nil
	if !w.running { // an actor's deferred call may block outside
		w.dog.start(w)
		defer w.dog.stop()
	}
	defer func() { w.timeline = account }()
	for _, h := range w.hosts {
		if h.process != nil {
			h.process.kill()
		}
	}
	w.reap()
	w.closed = true
}

// Failure is the error of a run that failed.
type Failure struct {
	Err      error
	Seed     uint64
	Time     time.Duration // true time
	Events   uint64        // that happened before
	Repeat   string        // how to repeat the run
	Timeline string        // the lines of the timeline that bear on the failure, if one was kept
}

func (f *Failure) Error() string {
	message, stack := splitStack(f.Err)
	s := fmt.Sprintf("%s\nseed %d, at %v, after %d events\nrepeat: %s%s", message, f.Seed, f.Time, f.Events, f.Repeat, stack)
	if f.Timeline != "" {
		s += "\n" + f.Timeline
	}
	return s
}

func (f *Failure) Unwrap() error { return f.Err }

// splitStack takes an error's text apart: what it says, and the stack of a panic, if it has one,
// with the end of a line before it.
func splitStack(err error) (message, stack string) {
	all := err.Error()
	if i := strings.Index(all, "\ngoroutine "); i >= 0 {
		return all[:i], strings.TrimRight(all[i:], "\n")
	}
	return all, ""
}

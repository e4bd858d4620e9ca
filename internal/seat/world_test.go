package seat

import (
	"container/heap"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/transport"
)

// world is a small network of processes in virtual time, all of it drawn from a seed. Each process runs
// a Machine. Frames and dials take their time; frames are lost where a link is cut or a process ends, and
// now and then without a reason.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Duration
	events eventHeap
	order  int
	trace  []string

	place                func(seats []core.Seat, shard, replicas int) []transport.ID // nil: place
	boots                func(*Config)                                               // changes what each process is started with; nil: nothing
	list                 []string
	lists                map[string][]string // with which one at an address starts instead
	procs                map[string]*proc    // by the address at which it answers
	byID                 map[transport.ID]*proc
	cut                  map[[2]string]bool // from, to: nothing gets through
	loss, twice, late    int                // frames in a thousand: lost, come twice, come late and out of order
	lose                 func(name string) bool
	seen                 func(from, to *proc, name string) // every frame
	resolve              func(p *proc, addr string) string // for whom; nil: an address is its own
	oracle               func(p *proc, node env.Member)    // p asks about a node
	delay                time.Duration                     // of a frame, at most
	disk                 time.Duration                     // that a list takes to be kept, at least; negative: for ever
	decided              map[core.Stamp]*core.Table
	texts                map[*core.Table]string
	lines                map[life]line // the latest of each generation of each shard
	living               []*proc
	clients              []*proc
	meshes               map[uint64]bool
	apart                bool // there may be two meshes: one of each may decide
	toldToo              bool
	frames, bytes, dials int
	parts                int                     // by clients
	led                  time.Duration           // the last time
	taken                map[lease]time.Duration // when a lease could last be taken; nil: it is not judged
	took                 time.Duration           // when that was looked at last
	busy                 int                     // events at this instant
	changed              bool                    // what some process may do, since the last judgement
	err                  error
}

// life is one generation of a shard, and line what the core last decided of it.
type life struct {
	shard      int
	generation core.Generation
}

type line struct {
	stamp core.Stamp
	shard core.Shard
}

type proc struct {
	id     transport.ID
	born   int // in which order
	addr   string
	alive  bool
	paused time.Duration // until then it does nothing
	missed []func() []Output
	links  map[transport.ID]time.Duration
	m      *Machine
	tickAt time.Duration
	state  State
	cuts   []Cut
	failed error
	logs   []string
	said   map[string]Log // the last with each text
	judged *core.Table

	discoveries int // that it asked for
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

func newWorld(t *testing.T, seed uint64, n int) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), procs: map[string]*proc{}, byID: map[transport.ID]*proc{},
		cut: map[[2]string]bool{}, decided: map[core.Stamp]*core.Table{}, texts: map[*core.Table]string{}, lines: map[life]line{},
		meshes: map[uint64]bool{}, delay: 20 * time.Millisecond,
	}
	for i := range n {
		w.list = append(w.list, fmt.Sprintf("10.0.0.%d:7946", i+1))
	}
	return w
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{w.now + d, w.order, do})
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) + 1 }

func (w *world) run(d time.Duration) {
	w.runUntil(d, func() bool { return false })
}

// runUntil runs until ok, for at most d, and reports whether it is.
func (w *world) runUntil(d time.Duration, ok func() bool) bool {
	for until := w.now + d; w.err == nil && !ok(); {
		if len(w.events) == 0 || w.events[0].at > until {
			w.now = until
			return ok()
		}
		e := heap.Pop(&w.events).(event)
		if w.busy++; w.now != e.at {
			w.busy = 0
		}
		if w.busy > 10_000 {
			w.err = errors.New("time stands still")
		}
		w.now = e.at
		e.do()
		w.judge()
	}
	return w.err == nil
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9.3fs ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

// boot starts a process at an address, with the list, in place of the one that was there.
func (w *world) boot(addr string, change ...func(*Config)) *proc {
	w.kill(addr)
	p := &proc{id: transport.ID(w.rng.Uint64() | 1), born: len(w.byID), addr: addr, alive: true, links: map[transport.ID]time.Duration{}, said: map[string]Log{}}
	cfg := Config{
		Self: env.Member{ID: p.id, Name: addr, Addr: addr}, List: slices.Clone(w.list), Rand: w.rng.Uint64(),
		Found: true, Wants: founding.Options{Shards: 4}, Place: func(seats []core.Seat, p founding.Params) func(int) []transport.ID {
			return func(shard int) []transport.ID {
				if w.place != nil {
					return w.place(seats, shard, p.Replicas)
				}
				return place(seats, shard, p.Replicas)
			}
		},
	}
	if l := w.lists[addr]; l != nil {
		cfg.List = slices.Clone(l)
	}
	if w.boots != nil {
		w.boots(&cfg)
	}
	for _, c := range change {
		c(&cfg)
	}
	p.m = New(cfg)
	w.procs[addr], w.byID[p.id] = p, p
	w.living = append(w.living, p)
	w.note("%s boots as %v", addr, p.id)
	w.do(p, func() []Output { return p.m.Start(w.now, nil) })
	return p
}

// place gives a shard the first so many nodes from its number on.
func place(seats []core.Seat, shard, replicas int) (ids []transport.ID) {
	for i := range seats {
		if s := seats[(shard+i)%len(seats)]; s.Node.ID != 0 && len(ids) < replicas {
			ids = append(ids, s.Node.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// kill ends the process at an address. Those that are connected with it learn it soon, if a link is not cut.
func (w *world) kill(addr string) {
	if p := w.procs[addr]; p != nil && p.alive {
		w.end(p)
	}
}

func (w *world) end(p *proc) {
	p.alive = false
	w.living = slices.DeleteFunc(w.living, func(o *proc) bool { return o == p })
	w.note("%s ends", p.addr)
	for _, id := range sorted(p.links) {
		w.hangUp(w.byID[id], p, w.upTo(w.delay))
	}
	for _, o := range w.living { // also one whose end alone is open still
		if _, half := o.links[p.id]; half && p.links[o.id] == 0 {
			w.hangUp(o, p, 2*time.Second)
		}
	}
}

func sorted[V any](m map[transport.ID]V) []transport.ID {
	var ids []transport.ID
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (w *world) hangUp(p, other *proc, d time.Duration) {
	w.after(d, func() {
		if _, ok := p.links[other.id]; ok && p.alive {
			delete(p.links, other.id)
			w.note("%s down %v", p.addr, other.id)
			if !other.alive && !w.cut[[2]string{p.addr, other.addr}] {
				p.m.Gone(other.id) // a redial is refused
			}
			w.do(p, func() []Output { return p.m.Down(w.now, other.id, nil) })
		}
	})
}

// breakLink lets both ends of a connection know that it is gone, after a while.
func (w *world) breakLink(a, b string) {
	p, q := w.procs[a], w.procs[b]
	if p != nil && q != nil && p != q {
		w.hangUp(p, q, w.upTo(3*time.Second))
		w.hangUp(q, p, w.upTo(3*time.Second))
	}
}

// do gives a process an input, and carries out what it wants.
func (w *world) do(p *proc, input func() []Output) {
	if !p.alive {
		return
	}
	if w.now < p.paused || len(p.missed) > 0 {
		p.missed = append(p.missed, input)
		if len(p.missed) == 1 {
			w.after(p.paused-w.now, func() { w.wake(p) })
		}
		return
	}
	w.input(p, input)
}

// keep has a list kept for the next process at an address, after a while: perhaps also if this one ends meanwhile.
func (w *world) keep(p *proc, list []string) {
	if w.disk < 0 {
		return // it takes for ever
	}
	w.after(w.disk+w.upTo(w.delay), func() {
		if w.procs[p.addr] == p && (p.alive || w.rng.IntN(2) == 0) {
			w.lists[p.addr] = list
			w.do(p, func() []Output { return p.m.Kept(w.now, list, nil) })
		}
	})
}

// wake gives a process that stalled what came meanwhile, in order.
func (w *world) wake(p *proc) {
	if w.now < p.paused {
		w.after(p.paused-w.now, func() { w.wake(p) })
		return
	}
	missed := p.missed
	p.missed = nil
	for _, input := range missed {
		w.input(p, input)
	}
}

// input carries out what a process wants after an input.
func (w *world) input(p *proc, input func() []Output) {
	if !p.alive {
		return
	}
	w.changed = w.changed || p.paused != 0
	for _, o := range input() {
		switch o := o.(type) {
		case Dial:
			w.dial(p, o.Addr)
		case Send:
			w.carry(p, o)
		case Part:
			w.parts++
			w.note("%s parts with %v", p.addr, o.Peer)
			w.hangUp(p, w.byID[o.Peer], 1)
			w.hangUp(w.byID[o.Peer], p, w.upTo(w.delay))
		case Drop:
			w.err = fmt.Errorf("%s drops %v: %w", p.addr, o.Peer, o.Err)
		case Log:
			p.logs = append(p.logs, o.Text)
			p.said[o.Text] = o
			if slices.ContainsFunc(o.Attrs, func(a slog.Attr) bool { return a.Key == "node" }) {
				w.err = fmt.Errorf("%s logs %q with a node, and every line says which one logs it", p.addr, o.Text)
			}
			w.note("%s: %s %v", p.addr, o.Text, o.Attrs)
		case State:
			p.state, w.changed = o, true
			w.note("%s: table %v of %v, fenced %v", p.addr, o.Table.Stamp, o.Table.List(), o.Fenced)
		case Discover:
			p.discoveries++
		case Cut:
			p.cuts, w.changed = append(p.cuts, o), true
		case Keep:
			w.note("%s is to keep %v", p.addr, o.List)
			w.keep(p, o.List)
		case Inquire:
			w.note("%s asks whether %v has ended", p.addr, o.Node.ID)
			w.oracle(p, o.Node)
		case Failed:
			p.failed = o.Err
			w.note("%s fails: %v", p.addr, o.Err)
			w.end(p)
		default:
			w.err = fmt.Errorf("unknown output %T", o)
		}
	}
	if at := p.m.Deadline(); at != env.Never && at != p.tickAt {
		p.tickAt = at
		w.after(max(0, at-w.now), func() {
			if p.tickAt == at {
				p.tickAt = 0
				w.do(p, func() []Output { return p.m.Tick(w.now, nil) })
			}
		})
	}
}

func (w *world) dial(p *proc, addr string) {
	w.dials++
	w.after(w.upTo(2*w.delay), func() {
		to := addr
		if w.resolve != nil {
			to = w.resolve(p, addr)
		}
		o := w.procs[to]
		switch {
		case !p.alive:
		case o != nil && o == p:
			w.do(p, func() []Output { return p.m.Dialed(w.now, addr, transport.Hello{ID: p.id}, nil, nil) })
		case o == nil || !o.alive || w.cut[[2]string{p.addr, to}] || w.cut[[2]string{to, p.addr}]:
			err := errors.New("no answer")
			if !w.cut[[2]string{p.addr, to}] && !w.cut[[2]string{to, p.addr}] {
				err = fmt.Errorf("no answer: %w", syscall.ECONNREFUSED)
			}
			w.after(w.upTo(time.Second), func() {
				w.do(p, func() []Output { return p.m.Dialed(w.now, addr, transport.Hello{}, err, nil) })
			})
		default:
			up := func(a, b *proc) {
				if _, ok := a.links[b.id]; !ok {
					a.links[b.id] = w.now
					w.note("%s up %v", a.addr, b.id)
					w.do(a, func() []Output { return a.m.Up(w.now, b.id, nil) })
				}
			}
			if w.rng.IntN(2) == 0 {
				up(p, o)
			}
			w.do(p, func() []Output { return p.m.Dialed(w.now, addr, transport.Hello{ID: o.id, Addr: addr}, nil, nil) })
			up(p, o)
			up(o, p)
		}
	})
}

// carry brings a frame to its receiver. Frames of a pair arrive in their order, but for those that come late.
func (w *world) carry(p *proc, s Send) {
	o := w.byID[s.To]
	if o == nil || p.links[s.To] == 0 || o.links[p.id] == 0 || w.rng.IntN(1000) < w.loss {
		return
	}
	if w.seen != nil {
		w.seen(p, o, Describe(s.Body))
	}
	w.frames++
	w.bytes += len(s.Body)
	at := max(w.now+w.upTo(w.delay), p.links[s.To])
	p.links[s.To] = at
	name := Describe(s.Body)
	if w.lose != nil && w.lose(name) {
		return
	}
	if strings.HasPrefix(name, "malformed") {
		_, err := decode(s.Body)
		w.err = fmt.Errorf("%s sends %x: %w", p.addr, s.Body, err)
	}
	w.after(at-w.now, func() {
		if o.links[p.id] != 0 {
			w.deliver(p, o, name, s.Body)
		}
	})
	if chance := w.rng.IntN(1000); chance < w.twice {
		w.after(at-w.now+w.upTo(w.delay), func() { w.deliver(p, o, name, s.Body) })
	} else if chance < w.twice+w.late { // also after the connection, and its sender, have ended
		w.after(at-w.now+w.upTo(8*time.Second), func() { w.deliver(p, o, name, s.Body) })
	}
}

func (w *world) deliver(p, o *proc, name string, body []byte) {
	if o.alive && !w.cut[[2]string{p.addr, o.addr}] {
		if name != "told" || w.toldToo {
			w.note("%s -> %s: %s", p.addr, o.addr, name)
		}
		w.do(o, func() []Output { return o.m.Message(w.now, p.id, body, nil) })
	}
}

// judge looks whether two generations of the core can decide, or two of a shard can commit; whether two
// tables bear one stamp; and whether a seat goes back to an older incarnation.
func (w *world) judge() {
	able, seen := map[core.Ballot]bool{}, map[core.Stamp]bool{}
	for _, p := range w.living {
		t := p.m.acceptor.Table()
		if t == nil {
			continue
		}
		if t != p.judged {
			p.judged = t
			w.judgeTable(t)
		}
		if seen[t.Stamp] {
			continue
		}
		if seen[t.Stamp] = true; w.deciders(t) >= core.Majority(len(t.Bound())) {
			able[t.Stamp.Roll] = true
		}
	}
	if len(able) > 1 && !w.apart {
		w.err = fmt.Errorf("two generations can decide: %v", able)
	}
	if w.changed && !w.apart {
		w.changed = false
		w.judgeShards()
	}
	if w.taken != nil && w.err == nil && w.now >= w.took+20*time.Millisecond {
		w.took = w.now
		w.judgeLeases()
	}
}

// judgeTable takes in a decision that a node knows.
func (w *world) judgeTable(t *core.Table) {
	text := fmt.Sprint(*t)
	if old := w.decided[t.Stamp]; old != nil {
		if w.texts[old] != text {
			w.err = fmt.Errorf("two decisions are called %v:\n%s\n%s", t.Stamp, w.texts[old], text)
		}
		return
	}
	w.decided[t.Stamp], w.texts[t] = t, text
	w.meshes[t.Mesh] = true
	w.judgeQuiet(t)
	for i, s := range t.Shards {
		l := life{i, s.Generation}
		if old, ok := w.lines[l]; !ok || old.stamp.Compare(t.Stamp) < 0 {
			w.lines[l] = line{t.Stamp, s}
		}
	}
	for _, s := range t.Seats {
		before := w.decided[core.Stamp{Roll: t.Stamp.Roll, Version: t.Stamp.Version - 1}]
		if before == nil || s.Node.ID == 0 {
			continue
		}
		i := slices.IndexFunc(before.Seats, func(o core.Seat) bool { return o.Entry == s.Entry })
		if i >= 0 && before.Seats[i].Node.ID != 0 && w.byID[before.Seats[i].Node.ID].born > w.byID[s.Node.ID].born {
			w.err = fmt.Errorf("%v gives the seat of %s back to %v, which has ended", t.Stamp, s.Entry, s.Node.ID)
		}
	}
}

// judgeShards looks, by what the nodes were told to do, whether two generations of a shard have a majority
// that may vote: of their voters, or of those that they may be changing to.
func (w *world) judgeShards() {
	able := map[int]core.Generation{}
	seen := map[life]bool{}
	for _, p := range w.living {
		if p.state.Table == nil {
			continue
		}
		for i, s := range p.state.Table.Shards {
			l := life{i, s.Generation}
			if seen[l] || !w.commits(l) {
				continue
			}
			seen[l] = true
			if g, ok := able[i]; ok {
				w.err = fmt.Errorf("two generations of shard %d can commit: %v and %v", i, g, s.Generation)
			}
			able[i] = s.Generation
		}
	}
}

// commits reports whether a generation of a shard has a majority that may vote.
func (w *world) commits(l life) bool {
	most := func(voters []transport.ID) bool {
		n := 0
		for _, id := range voters {
			if p := w.byID[id]; p != nil && p.votes(w.now, l) {
				n++
			}
		}
		return len(voters) > 0 && n >= core.Majority(len(voters))
	}
	s := w.lines[l].shard
	return most(s.Voters) || most(s.Next)
}

// votes reports whether a process may vote in a generation of a shard, by its outputs.
func (p *proc) votes(now time.Duration, l life) bool {
	if !p.alive || now < p.paused || p.state.Table == nil || p.state.Fenced || another(p.state.Table, l.shard, l.generation) {
		return false
	}
	return !slices.ContainsFunc(p.cuts, func(c Cut) bool {
		return c.Shard == l.shard && c.Generation.Core == l.generation.Core && c.Generation.Number >= l.generation.Number
	})
}

// deciders returns how many of those that are bound in t can decide the version after it.
func (w *world) deciders(t *core.Table) (n int) {
	for _, id := range t.Bound() {
		if p := w.byID[id]; p != nil && p.alive && w.now >= p.paused && p.m.sure && p.m.acceptor.Serves(t.Stamp) == nil {
			n++
		}
	}
	return n
}

func (w *world) addrs() (all []string) {
	for a := range w.procs {
		all = append(all, a)
	}
	slices.Sort(all)
	return all
}

// serves reports whether all entries know one table, in which each has its seat, and none is fenced.
func (w *world) serves() bool {
	var one *core.Table
	for _, addr := range w.list {
		p := w.procs[addr]
		if p == nil || !p.alive || p.state.Table == nil || p.state.Fenced || w.now < p.paused {
			return false
		}
		if one == nil {
			one = p.state.Table
		}
		if p.state.Table.Stamp != one.Stamp || !slices.Contains(one.Bound(), p.id) || !slices.Equal(one.List(), w.list) {
			return false
		}
	}
	return true
}

// must fails the test, with what happened, unless ok.
func (w *world) must(ok bool, format string, args ...any) {
	w.t.Helper()
	if !ok || w.err != nil {
		w.t.Fatalf("%v, at %v\n%s\n%s", errors.Join(fmt.Errorf(format, args...), w.err), w.now, w.waits(), strings.Join(w.trace[max(0, len(w.trace)-w.last()):], "\n"))
	}
}

// last returns how many lines of what happened are worth printing: all, if it is of one world only.
func (w *world) last() int {
	if w.toldToo {
		return len(w.trace)
	}
	return 260
}

func (w *world) waits() (all string) {
	for _, addr := range w.addrs() {
		if p := w.procs[addr]; p.alive {
			all += fmt.Sprintf("%s: own %q, waits for %q, %v\n", addr, p.m.own, p.m.Waiting(), p.failed)
			for _, e := range p.m.book.entries {
				all += fmt.Sprintf("   %+v %+v\n", e, p.m.book.peers[e.node])
			}
		}
	}
	return all
}

func equal(t *testing.T, want, got any, what ...any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%v, want %v %v", got, want, fmt.Sprint(what...))
	}
}

func holds(t *testing.T, ok bool, what ...any) {
	t.Helper()
	if !ok {
		t.Fatal(what...)
	}
}

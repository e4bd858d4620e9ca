package founding

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// world is a small network of processes in virtual time, all of it drawn from a seed.
// Each process runs a Machine and, once it is a member, contacts the seeds, as a
// node does. Frames may be lost, doubled, and delayed past the end of their sender.
type world struct {
	rng    *rand.Rand
	now    time.Duration
	events eventHeap
	order  int
	trace  []string
	err    error // the first broken promise

	seeds   []string
	procs   []*proc                // the current one of each address
	byID    map[transport.ID]*proc // all that ever lived
	cut     map[[2]string]bool     // from, to: nothing gets through
	decided []decision             // what was ever founded, in order
	epochs  map[[2]uint64]Mesh     // by mesh ID and epoch
	healed  bool
	fates   fates
	tweak   func(i int, cfg *Config) // of one test
	dials   func(from *proc, addr string) (transport.Hello, error, bool)
	failed  []error
	apart   bool // two meshes are founded on purpose
}

type decision struct {
	mesh Mesh
	by   transport.ID
}

type proc struct {
	i      int
	id     transport.ID
	addr   string
	alive  bool
	up     map[transport.ID]bool
	m      *Machine
	mesh   *Mesh
	tickAt time.Duration
}

func (p *proc) String() string { return fmt.Sprintf("n%d#%x", p.i, uint64(p.id)&0xffff) }

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

func newWorld(seed uint64, seeds, others int, loopback bool) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), byID: map[transport.ID]*proc{},
		cut: map[[2]string]bool{}, epochs: map[[2]uint64]Mesh{},
	}
	for i := range seeds + others {
		addr := fmt.Sprintf("10.0.0.%d:7946", i+1)
		if loopback {
			addr = fmt.Sprintf("127.0.0.1:%d", 7001+i)
		}
		w.procs = append(w.procs, &proc{i: i, addr: addr})
		if i < seeds {
			w.seeds = append(w.seeds, addr)
		}
	}
	return w
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{w.now + d, w.order, do})
}

func (w *world) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(w.rng.Int64N(int64(d)))
}

// step runs one event and reports whether there was one before until.
func (w *world) step(until time.Duration) bool {
	if w.err != nil || len(w.events) == 0 || w.events[0].at > until {
		w.now = max(w.now, until)
		return false
	}
	e := heap.Pop(&w.events).(event)
	w.now = e.at
	e.do()
	return true
}

func (w *world) run(d time.Duration) {
	for until := w.now + d; w.step(until); {
	}
}

// runUntil runs until ok, for at most d.
func (w *world) runUntil(d time.Duration, ok func() bool) bool {
	for until := w.now + d; !ok(); {
		if !w.step(until) {
			return ok()
		}
	}
	return true
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9.3fs ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) broken(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		w.note("BROKEN: %v", w.err)
	}
}

// boot starts a new incarnation at address i, if none lives there.
func (w *world) boot(i int) *proc {
	if w.procs[i].alive {
		return w.procs[i]
	}
	p := &proc{
		i: i, id: transport.ID(w.rng.Uint64() | 1), addr: w.procs[i].addr, alive: true,
		up: map[transport.ID]bool{}, tickAt: env.Never,
	}
	w.procs[i] = p
	w.byID[p.id] = p
	cfg := Config{
		Self:  Member{ID: p.id, Name: fmt.Sprintf("n%d", i), Addr: p.addr},
		Seeds: w.seeds, Rand: w.rng.Uint64(),
		Wall:  time.UnixMilli(1_800_000_000_000).Add(time.Duration(i) * time.Hour).Add(w.now),
		Named: func(name string, except transport.ID) (Member, bool) { return w.named(p, name, except) },
	}
	if w.tweak != nil {
		w.tweak(i, &cfg)
	}
	p.m = New(cfg)
	w.note("%v starts", p)
	w.handle(p, p.m.Start(w.now, nil))
	return p
}

// named is what gossip might say: the last member of that name, dead or alive.
func (w *world) named(p *proc, name string, except transport.ID) (Member, bool) {
	for i := len(w.decided) - 1; i >= 0; i-- {
		q := w.byID[w.decided[i].by]
		if d := w.decided[i]; d.by != except && p.mesh != nil && d.mesh.MeshID == p.mesh.MeshID && fmt.Sprintf("n%d", q.i) == name {
			return Member{ID: q.id, Name: name, Addr: q.addr}, true
		}
	}
	return Member{}, false
}

func (w *world) crash(i int) {
	p := w.procs[i]
	if !p.alive {
		return
	}
	w.note("%v crashes", p)
	p.alive = false
	for _, q := range w.procs {
		if q.alive && q.up[p.id] {
			w.after(w.upTo(time.Second), func() { w.down(q, p) })
		}
	}
}

func (w *world) down(q, p *proc) {
	if q.alive && q.up[p.id] && (!p.alive || w.blocked(p, q)) {
		delete(q.up, p.id)
		w.handle(q, q.m.Down(w.now, p.id, nil))
	}
}

func (w *world) blocked(p, q *proc) bool {
	return w.cut[[2]string{p.addr, q.addr}] || w.cut[[2]string{q.addr, p.addr}]
}

// split cuts every connection, from one node to another, for which apart returns true.
func (w *world) split(apart func(from, to int) bool) {
	for i, p := range w.procs {
		for j, q := range w.procs {
			if i != j && apart(i, j) {
				w.cut[[2]string{p.addr, q.addr}] = true
			}
		}
	}
	for _, p := range w.procs {
		for _, q := range w.procs {
			if p.alive && q.alive && p.up[q.id] && w.blocked(p, q) {
				w.after(500*time.Millisecond+w.upTo(1500*time.Millisecond), func() { w.down(p, q) })
			}
		}
	}
}

func (w *world) heal() { clear(w.cut) }

func (w *world) delay() time.Duration {
	if w.rng.Float64() < w.fates.slow {
		return w.upTo(w.fates.late)
	}
	return time.Millisecond + w.upTo(10*time.Millisecond)
}

func (w *world) hello(p *proc) transport.Hello {
	h := transport.Hello{ID: p.id, Name: fmt.Sprintf("n%d", p.i), Addr: p.m.self.Addr, MeshName: p.m.cfg.Wants.MeshName}
	if p.mesh != nil {
		h.MeshID, h.MeshName = p.mesh.MeshID, p.mesh.Params.MeshName
	}
	return h
}

func (w *world) handle(p *proc, out []Output) {
	for _, o := range out {
		switch o := o.(type) {
		case Dial:
			w.after(w.delay(), func() { w.dial(p, o.Addr, true) })
		case Send:
			w.send(p, o)
		case Drop:
			w.broken("%v cannot read what %v sent: %v", p, o.Peer, o.Err)
		case Done:
			w.done(p, o.Mesh)
		case Failed:
			w.note("%v fails: %v", p, o.Err)
			w.failed = append(w.failed, o.Err)
			p.alive = false
			w.crashed(p)
		case Log:
			w.note("%v logs: %s %v", p, o.Text, o.Attrs)
		case Disband:
			w.note("%v disbands", p)
			p.mesh = nil
		}
	}
	if !p.alive {
		return
	}
	if at := p.m.Deadline(); at < p.tickAt || p.tickAt <= w.now {
		p.tickAt = max(at, w.now)
		if at < w.now {
			w.broken("%v wants to be called at %v", p, at)
		}
		if at != env.Never {
			w.after(at-w.now, func() {
				if p.alive && p.tickAt == at {
					p.tickAt = env.Never
					out := p.m.Tick(w.now, nil)
					if p.m.Deadline() <= w.now {
						w.broken("%v has not done what was due", p)
					}
					w.handle(p, out)
				}
			})
		}
	}
}

// crashed reports to the others that a process ended by itself, and has a supervisor start it again.
func (w *world) crashed(p *proc) {
	p.alive = true
	w.crash(p.i)
	if w.fates != (fates{}) {
		w.after(time.Second, func() { w.boot(p.i) })
	}
}

func (w *world) send(p *proc, o Send) {
	q := w.byID[o.To]
	if q == nil || !p.up[o.To] {
		return
	}
	copies := 1
	if w.rng.Float64() < w.fates.double {
		copies = 2
	}
	for range copies {
		if w.rng.Float64() < w.fates.loss {
			continue
		}
		w.after(w.delay(), func() {
			if q.alive && !w.cut[[2]string{p.addr, q.addr}] {
				if msg, err := decode(o.Body); err == nil && w.fates == (fates{}) {
					w.note("%v -> %v %T", p, q, msg)
				}
				w.handle(q, q.m.Message(w.now, p.id, o.Body, nil))
			}
		})
	}
}

// dial finds out which process answers at addr, and reports it to p's Machine if report.
func (w *world) dial(p *proc, addr string, report bool) {
	if !p.alive {
		return
	}
	tell := func(d time.Duration, h transport.Hello, err error) {
		w.after(d, func() {
			if p.alive && report {
				w.handle(p, p.m.Dialed(w.now, addr, h, err, nil))
			}
		})
	}
	if w.dials != nil {
		if h, err, ok := w.dials(p, addr); ok {
			tell(w.delay(), h, err)
			return
		}
	}
	i := slices.IndexFunc(w.procs, func(q *proc) bool { return q.addr == addr })
	switch {
	case i < 0:
		tell(time.Second, transport.Hello{}, errors.New("no route to host"))
		return
	case w.procs[i] == p:
		tell(w.delay(), w.hello(p), nil)
		return
	case w.blocked(p, w.procs[i]):
		tell(500*time.Millisecond+w.upTo(2*time.Second), transport.Hello{}, errors.New("i/o timeout"))
		return
	case !w.procs[i].alive:
		tell(w.delay(), transport.Hello{}, errors.New("connection refused"))
		return
	}
	q := w.procs[i]
	mine, theirs := w.hello(p), w.hello(q)
	if err := CheckHello(theirs, mine); err != nil {
		tell(w.delay(), transport.Hello{}, &transport.RefusedError{Peer: theirs, Reason: err.Error(), Remote: true})
		w.handle(q, q.m.Foreign(w.now, mine, nil))
		w.foreign(p, q)
		return
	}
	if !q.up[p.id] {
		q.up[p.id] = true
		w.handle(q, q.m.Up(w.now, mine, nil))
	}
	if !p.up[q.id] {
		p.up[q.id] = true
		w.handle(p, p.m.Up(w.now, theirs, nil))
	}
	tell(w.delay(), theirs, nil)
	if !q.alive || !p.alive {
		w.after(w.upTo(time.Second), func() { w.down(p, q) })
	}
}

// foreign does what an operator does when two meshes meet: it ends what is left of the older one.
func (w *world) foreign(p, q *proc) {
	if w.fates == (fates{}) || p.mesh == nil || q.mesh == nil {
		return
	}
	old := p
	if w.first(p.mesh.MeshID) > w.first(q.mesh.MeshID) {
		old = q
	}
	w.note("%v is in a mesh of the past", old)
	w.crash(old.i)
	w.after(time.Second, func() { w.boot(old.i) })
}

func (w *world) first(mesh uint64) int {
	return slices.IndexFunc(w.decided, func(d decision) bool { return d.mesh.MeshID == mesh })
}

// contact contacts every seed again and again, as a member's node does.
func (w *world) contact(p *proc) {
	if !p.alive || p.mesh == nil {
		return
	}
	for _, addr := range p.m.cfg.Seeds {
		if addr != p.addr {
			w.after(w.delay(), func() { w.dial(p, addr, false) })
		}
	}
	w.after(ContactEvery(w.seeds), func() { w.contact(p) })
}

// done checks the promises of the founding whenever a node joins.
func (w *world) done(p *proc, v Mesh) {
	w.note("%v is in %x/%d of %v", p, v.MeshID&0xffff, v.Epoch, v.Roster)
	if p.mesh != nil {
		w.broken("%v is done twice", p)
	}
	if v.MeshID == 0 || v.Founded == 0 || len(v.Roster) == 0 {
		w.broken("%v is in an impossible mesh: %+v", p, v)
	}
	key := [2]uint64{v.MeshID, v.Epoch}
	if known, ok := w.epochs[key]; ok && !reflect.DeepEqual(known, v) {
		w.broken("%v holds %+v, others %+v", p, v, known)
	}
	w.epochs[key] = v
	for _, d := range w.decided {
		switch {
		case d.mesh.MeshID != v.MeshID && w.apart:
		case d.mesh.MeshID != v.MeshID:
			older, newer := d.mesh, v
			if i := w.first(v.MeshID); i >= 0 && i < w.first(d.mesh.MeshID) {
				older, newer = v, d.mesh
			}
			for _, f := range older.Roster {
				if w.byID[f.ID].alive {
					w.broken("%v is in %x, while %v lives, a founder of %x", p, newer.MeshID, w.byID[f.ID], older.MeshID)
				}
			}
		case d.mesh.Epoch != v.Epoch && w.byID[d.by].alive:
			w.broken("%v is in epoch %d, while %v is in %d", p, v.Epoch, w.byID[d.by], d.mesh.Epoch)
		case d.mesh.Epoch < v.Epoch && (!v.Grace || v.Founded < d.mesh.Founded+1<<20):
			w.broken("epoch %d may grant tokens of epoch %d again", v.Epoch, d.mesh.Epoch)
		}
	}
	w.decided = append(w.decided, decision{mesh: v, by: p.id})
	p.mesh = &v
	w.contact(p)
	if w.rng.Float64() < w.fates.malice && v.founder(p.id) && !w.healed {
		w.betray(p)
	}
}

// settled reports whether every process lives and is in one mesh.
func (w *world) settled() bool {
	for _, p := range w.procs {
		if !p.alive || p.mesh == nil || p.mesh.MeshID != w.procs[0].mesh.MeshID || p.mesh.Epoch != w.procs[0].mesh.Epoch {
			return false
		}
	}
	return true
}

func (w *world) waiting() string {
	var b strings.Builder
	for _, p := range w.procs {
		switch {
		case !p.alive:
			fmt.Fprintf(&b, "\n%v is dead", p)
		case p.mesh == nil:
			fmt.Fprintf(&b, "\n%v: %s", p, p.m.Waiting())
		default:
			fmt.Fprintf(&b, "\n%v in %x/%d", p, p.mesh.MeshID&0xffff, p.mesh.Epoch)
		}
	}
	return b.String()
}

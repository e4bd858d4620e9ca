package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/transport"
)

// hall is the loop at which a node deals with other nodes as such: it finds or founds
// the mesh, hears who comes and goes, keeps connections, and draws the view that the
// lanes act on. All that it decides is a hint; only a shard's log decides who is a replica.
type hall struct {
	node *Node
	loop env.Loop
	rand *rand.Rand

	mu    sync.Mutex
	todo  []func(*hall)
	over  bool
	waits string
	shown []Member // what Members returns
	state Health

	now      time.Duration
	machine  *founding.Machine
	outputs  []founding.Output
	in       bool // part of a mesh
	ready    bool // Start has returned, or is about to
	leaving  bool
	ended    bool // ejected
	people   map[uint64]*person
	linked   map[uint64]transport.Hello // who is connected, known or not
	warned   bool                       // of another ring, once
	table    *ring.Table                // over names
	names    string
	stale    bool          // the view is to be drawn anew
	drawAt   time.Duration // and at this time at the latest
	contact  time.Duration // when the next address outside the mesh is dialled
	statusAt time.Duration
	reports  map[int]report // by lane, this node's own
	heard    map[uint64]heardStatus
	known    []known // by shard: see assess
	joinedAt time.Duration
}

// person is a node that this one knows of.
type person struct {
	env.Member
	state   env.MemberState
	since   time.Duration // of state
	leaving bool          // it said so itself
	proven  bool          // its address is answered by its next incarnation (P30)
	up      bool
}

// grace is for how long a node may be silent before its replicas are replaced.
const grace = 5 * time.Second

// For how long the hall remembers the gone: the silent, to look for them again; the proven
// dead, so that late gossip does not bring them back.
const (
	forgetAfter  = 24 * time.Hour
	forgetProven = 10 * time.Minute
)

// The kinds of control messages: the first byte of the body.
const (
	ctlFounding = iota + 1
	ctlStatus
	ctlLeaving
)

func newHall(n *Node) *hall {
	return &hall{
		node: n, people: make(map[uint64]*person), linked: make(map[uint64]transport.Hello), reports: make(map[int]report), heard: make(map[uint64]heardStatus),
		rand: rand.New(rand.NewPCG(n.env.Seed(), 0)),
	}
}

func (h *hall) start() {
	n := h.node
	h.machine = founding.New(founding.Config{
		Self:  h.self(),
		Seeds: n.cfg.Seeds,
		Wants: founding.Options{
			MeshName: n.cfg.MeshName, Shards: n.cfg.Shards, Replicas: n.cfg.Replicas,
			MaxTTL: n.cfg.MaxTTL, LeaseTTL: n.cfg.LeaseTTL,
		},
		Found: n.cfg.Found, Loopback: isLoopback(n.addr),
		Rand: n.env.Seed(), Wall: n.env.Wall(), Points: n.points,
		Named: h.named, Members: h.everybody,
	})
	// The loop exists only once there is something for it to run; what came before waits.
	h.mu.Lock()
	h.todo = append([]func(*hall){func(h *hall) { h.outputs = h.machine.Start(h.now, h.outputs) }}, h.todo...)
	h.loop = n.env.NewLoop("hall", h.run)
	h.mu.Unlock()
	h.loop.Wake()
}

func (h *hall) self() env.Member {
	n := h.node
	return env.Member{ID: transport.ID(n.id), Name: n.name, Addr: n.addr, Zone: n.cfg.Zone}
}

// post leaves something to do in the hall.
func (h *hall) post(do func(*hall)) {
	h.mu.Lock()
	loop := h.loop
	if !h.over {
		h.todo = append(h.todo, do)
	}
	h.mu.Unlock()
	if loop != nil {
		loop.Wake()
	}
}

func (h *hall) shut() {
	h.mu.Lock()
	h.over = true
	loop := h.loop
	h.mu.Unlock()
	if loop != nil {
		loop.Stop()
	}
}

func (h *hall) waitsFor() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waits
}

func (h *hall) members() []Member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.shown)
}

// run is one turn of the loop.
func (h *hall) run(now time.Duration) time.Duration {
	h.mu.Lock()
	todo, over := h.todo, h.over
	h.todo = nil
	h.mu.Unlock()
	if over {
		return env.Never
	}
	h.now = now
	for _, do := range todo {
		do(h)
	}
	h.carryOut()
	if now >= h.machine.Deadline() {
		h.outputs = h.machine.Tick(now, h.outputs)
		h.carryOut()
	}
	if h.ended {
		return env.Never
	}
	next := h.machine.Deadline()
	if h.in {
		h.seek()
		if h.stale || now >= h.drawAt {
			h.draw()
		}
		h.report()
		h.arrive()
		next = min(next, h.contact, h.drawAt, h.statusAt)
	}
	if !h.ready {
		waits := h.waiting()
		h.mu.Lock()
		h.waits = waits
		h.mu.Unlock()
	}
	return next
}

// waiting says what Start waits for.
func (h *hall) waiting() string {
	if !h.in {
		return h.machine.Waiting()
	}
	return "joined; " + h.missing()
}

// carryOut does what the founding machine wants done.
func (h *hall) carryOut() {
	n := h.node
	for len(h.outputs) > 0 {
		outputs := h.outputs
		h.outputs = nil
		for _, o := range outputs {
			switch o := o.(type) {
			case founding.Dial:
				n.net.Dial(o.Addr)
			case founding.Send:
				n.net.Send(o.To, transport.KindControl, transport.Normal, append([]byte{ctlFounding}, o.Body...))
			case founding.Drop:
				n.refuse(o.Peer, "message", o.Err)
			case founding.Log:
				n.log.LogAttrs(context.Background(), o.Level, o.Text, o.Attrs...)
			case founding.Done:
				h.enter(o)
			case founding.Failed:
				h.eject(fmt.Errorf("mesh: join: %w", o.Err))
			case founding.Disband:
				h.eject(fmt.Errorf("%w: %w: %s is at %s", ErrEjected, errDisband, o.By.Name, o.By.Addr))
			}
		}
	}
}

// enter: this node is part of a mesh now.
func (h *hall) enter(d founding.Done) {
	n := h.node
	n.mu.Lock()
	n.hello.MeshID, n.hello.MeshName = d.Mesh.MeshID, d.Mesh.Params.MeshName
	hello := n.hello
	n.mu.Unlock()
	n.net.Update(hello)
	mesh := d.Mesh
	if n.bugs.Has(bug.FoundersByView) {
		mesh.Roster = slices.DeleteFunc(slices.Clone(mesh.Roster), func(m env.Member) bool {
			_, up := h.linked[uint64(m.ID)]
			return !up && uint64(m.ID) != n.id
		})
	}
	n.found(mesh)
	h.in, h.stale, h.joinedAt = true, true, h.now
	h.contact, h.drawAt, h.statusAt = h.now, h.now, h.now
	all := d.Members
	if all == nil {
		all = d.Mesh.Roster
	}
	g, err := n.env.NewMembership(h.self(), n.net, func(e env.MemberEvent) {
		h.post(func(h *hall) { h.news(e) })
	})
	if err != nil {
		n.fail(fmt.Errorf("mesh: gossip: %w", err))
		return
	}
	n.gossip = g
	h.know(h.self(), env.Alive)
	var others []env.Member
	for _, m := range all {
		if uint64(m.ID) != n.id {
			h.know(m, env.Alive)
			others = append(others, m)
		}
	}
	if len(others) > 0 {
		g.Join(others)
	}
	for _, id := range slices.Sorted(maps.Keys(h.linked)) { // they were nobody's then
		h.meet(h.linked[id])
	}
}

// news is what gossip tells, true or not.
func (h *hall) news(e env.MemberEvent) {
	if uint64(e.Member.ID) != h.node.id {
		h.know(e.Member, e.State)
	}
}

// know notes what is said of a node.
func (h *hall) know(m env.Member, state env.MemberState) {
	p := h.people[uint64(m.ID)]
	if p == nil {
		_, up := h.linked[uint64(m.ID)]
		p = &person{Member: m, since: h.now, up: up}
		h.people[uint64(m.ID)] = p
		h.stale = true
	}
	if h.node.bugs.Has(bug.DeadByHearsay) && state == env.Alive {
		p.proven = false
	}
	if p.state == env.Left || p.proven {
		return // that is for ever
	}
	if state == env.Alive && m.Addr != "" {
		p.Addr = m.Addr
		if uint64(m.ID) != h.node.id {
			h.node.net.Connect(m.ID, m.Addr) // nothing new, if it is kept already
		}
	}
	if p.state != state {
		p.state, p.since, h.stale = state, h.now, true
		if state == env.Left {
			h.node.net.Disconnect(m.ID)
		}
	}
	if p.Name == h.node.name && p.Addr == h.node.addr && uint64(p.ID) != h.node.id {
		h.replaced(p) // it is this node that answers there now
	}
}

// replaced: another incarnation answers at p's address, which proves p dead (P30).
func (h *hall) replaced(p *person) {
	if p.proven {
		return
	}
	p.proven, p.since, h.stale = true, h.now, true
	h.node.net.Disconnect(p.ID)
	for _, l := range h.node.all {
		l.post(func(l *lane) { l.nodeGone(uint64(p.ID)) })
	}
}

// sorted returns everybody, in the order of their IDs.
func (h *hall) sorted() []*person {
	all := make([]*person, 0, len(h.people))
	for _, p := range h.people { // order-free: sorted below
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *person) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// named finds the member that bears a name.
func (h *hall) named(name string, except transport.ID) (env.Member, bool) {
	for _, p := range h.sorted() {
		if p.Name == name && p.ID != except && p.state == env.Alive && !p.proven && !p.leaving {
			return p.Member, true
		}
	}
	return env.Member{}, false
}

// everybody returns the members, for a joiner.
func (h *hall) everybody() []env.Member {
	var all []env.Member
	for _, p := range h.sorted() {
		if p.state == env.Alive && !p.proven {
			all = append(all, p.Member)
		}
	}
	return all
}

func (h *hall) dialed(addr string, peer transport.Hello, err error) {
	h.outputs = h.machine.Dialed(h.now, addr, peer, err, h.outputs)
	if err == nil {
		h.meet(peer)
	}
	var refused *transport.RefusedError
	if errors.As(err, &refused) {
		h.foreign(refused.Peer)
	}
}

func (h *hall) foreign(peer transport.Hello) {
	if h.machine != nil {
		h.outputs = h.machine.Foreign(h.now, peer, h.outputs)
	}
}

func (h *hall) up(peer transport.Hello) {
	h.outputs = h.machine.Up(h.now, peer, h.outputs)
	h.linked[uint64(peer.ID)] = peer
	if mine := h.node.hello.RingHash; peer.RingHash != mine && !h.warned {
		// Legal, since the ring is a hint: shards stay where they are (P29).
		h.warned = true
		h.node.log.Warn("another node computes another ring, so that leadership may not settle: run one version of the ring's libraries",
			"peer", peer.Name, "ring", fmt.Sprintf("%016x", peer.RingHash), "mine", fmt.Sprintf("%016x", mine))
	}
	if p := h.people[uint64(peer.ID)]; p != nil {
		p.up, h.stale = true, true
	}
	h.meet(peer)
	if h.leaving {
		h.sayLeaving(peer.ID)
	}
}

// meet tells gossip of somebody of ours who answers, and whom it does not believe to
// live: it gives the long lost up, and its rumours miss somebody now and then.
func (h *hall) meet(peer transport.Hello) {
	if !h.in || uint64(peer.ID) == h.node.id || peer.MeshID != h.node.mesh.MeshID || h.node.gossip == nil {
		return
	}
	if p := h.people[uint64(peer.ID)]; p == nil || p.state == env.Dead && !p.proven && !h.node.bugs.Has(bug.GossipUntold) {
		h.node.gossip.Join([]env.Member{{ID: peer.ID, Name: peer.Name, Addr: peer.Addr, Zone: peer.Zone}})
	}
}

func (h *hall) down(id transport.ID, cause transport.Cause) {
	h.outputs = h.machine.Down(h.now, id, h.outputs)
	delete(h.linked, uint64(id))
	if p := h.people[uint64(id)]; p != nil {
		p.up, h.stale = false, true
		h.assess()
		if cause == transport.Replaced {
			h.replaced(p)
		}
		if p.leaving && cause == transport.Goodbye {
			h.know(p.Member, env.Left)
		}
	}
}

// receive takes a control message.
func (h *hall) receive(from transport.ID, body []byte) {
	kind := byte(0)
	if len(body) > 0 {
		kind, body = body[0], body[1:]
	}
	switch kind {
	case ctlFounding:
		h.outputs = h.machine.Message(h.now, from, body, h.outputs)
	case ctlStatus:
		if err := h.hearStatus(uint64(from), body); err != nil {
			h.node.refuse(from, "status", err)
		}
	case ctlLeaving:
		if err := wire.NewReader(body).End(); err != nil {
			h.node.refuse(from, "message", err)
		} else if p := h.people[uint64(from)]; p != nil && !p.leaving {
			p.leaving, h.stale = true, true
		}
	default:
		h.node.refuse(from, "message", fmt.Errorf("%w: control message %d", wire.ErrMalformed, kind))
	}
}

// seek dials, one at a time, addresses at which somebody may be who is not in the mesh as
// this node sees it: seeds, and members that were lost. All members together try each
// address about once in founding.ContactEvery, so that halves of a healed network find
// each other and whoever starts is found.
func (h *hall) seek() {
	if h.now < h.contact {
		return
	}
	every := founding.ContactEvery(h.node.cfg.Seeds)
	alive := 0
	there := make(map[string]bool)
	var lost []string
	for _, p := range h.sorted() {
		switch {
		case uint64(p.ID) == h.node.id || p.state == env.Alive && p.up && !p.proven:
			alive++
			there[p.Addr] = true
		case p.state != env.Left && !p.proven && p.Addr != "":
			lost = append(lost, p.Addr)
		}
	}
	lost = append(lost, h.node.cfg.Seeds...)
	slices.Sort(lost)
	lost = slices.DeleteFunc(slices.Compact(lost), func(a string) bool { return there[a] })
	if len(lost) > 0 {
		h.node.net.Dial(lost[h.rand.IntN(len(lost))])
	}
	pause := every * time.Duration(max(alive, 1)) / time.Duration(max(len(lost), 1))
	pause = max(pause, every/4)
	h.contact = h.now + pause/2 + time.Duration(h.rand.Int64N(int64(pause)))
}

// liveness is what the view says of a node.
func (h *hall) liveness(p *person) (l placement.Liveness, until time.Duration) {
	switch {
	case uint64(p.ID) == h.node.id && h.leaving:
		return placement.Departed, env.Never
	case uint64(p.ID) == h.node.id:
		return placement.Present, env.Never
	case p.state == env.Left || p.leaving || p.proven:
		return placement.Departed, env.Never
	case p.state == env.Alive || p.up:
		return placement.Present, env.Never
	case h.now-p.since < grace:
		return placement.Suspect, p.since + grace
	case h.node.bugs.Has(bug.SilenceProves):
		return placement.Departed, env.Never
	}
	return placement.Silent, env.Never
}

// draw makes a new view and gives it to the lanes.
func (h *hall) draw() {
	h.stale, h.drawAt = false, env.Never
	n := h.node
	liveness, unknown := make(map[uint64]placement.Liveness), placement.Silent
	var all []replica.Peer
	// Who joined just now has not heard of everybody; later, whom it does not know is gone.
	if known := h.joinedAt + grace; h.now < known {
		unknown, h.drawAt = placement.Suspect, known
	}
	zones := make(map[string]string)
	bearers := make(map[string]*person) // by name
	latest := make(map[string]*person)  // of them, those that are wanted on the ring
	for _, p := range h.sorted() {
		if p.state != env.Alive && h.now-p.since > forgetAfter || p.proven && h.now-p.since > forgetProven {
			delete(h.people, uint64(p.ID))
			n.net.Disconnect(p.ID)
			continue
		}
		f, until := h.liveness(p)
		h.drawAt = min(h.drawAt, until)
		liveness[uint64(p.ID)] = f
		if !p.proven && p.state != env.Left {
			if o := bearers[p.Name]; o == nil || h.prefer(p, o) {
				bearers[p.Name] = p
			}
		} else if p.proven && !p.leaving && h.now-p.since < grace {
			// Its next incarnation answers already, and will be here in a moment: no
			// shard should make do with fewer voters for that.
			latest[p.Name] = p
			h.drawAt = min(h.drawAt, p.since+grace)
		}
	}
	shown := make([]Member, 0, len(bearers))
	for name, p := range bearers { // order-free: shown is sorted below
		shown = append(shown, Member{ID: p.ID, Name: name, Addr: p.Addr, Zone: p.Zone, State: p.state})
		if liveness[uint64(p.ID)] <= placement.Suspect {
			latest[name] = p
		}
	}
	for name, p := range latest { // order-free: sorted below
		all = append(all, replica.Peer{Node: uint64(p.ID), Name: name, Addr: p.Addr})
		zones[name] = p.Zone
	}
	slices.SortFunc(all, func(a, b replica.Peer) int { return cmp.Compare(a.Name, b.Name) })
	positions := make([]ring.Member, len(all))
	key := ""
	for i, m := range all {
		positions[i] = ring.Member{Name: m.Name, Zone: zones[m.Name]}
		key += m.Name + "\x00" + zones[m.Name] + "\x00"
	}
	if h.table == nil || key != h.names {
		h.table, h.names = ring.New(positions, n.params.Shards, n.params.Replicas), key
	}
	v := members.NewView(h.leaving, all, h.table).With(liveness, unknown)
	slices.SortFunc(shown, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	h.mu.Lock()
	h.shown = shown
	h.mu.Unlock()
	for _, l := range n.all {
		l.post(func(l *lane) { l.look(v) })
	}
}

// prefer reports whether p rather than o is the node that now bears their name. Gossip
// still speaks of a node that was killed when its next incarnation is here already.
func (h *hall) prefer(p, o *person) bool {
	is, was := h.standing(p), h.standing(o)
	if h.node.bugs.Has(bug.LatestBearsName) {
		is, was = 0, 0
	}
	return is > was || is == was && p.since > o.since
}

// standing is how much speaks for a node among those that bore its name.
func (h *hall) standing(p *person) int {
	switch f, _ := h.liveness(p); {
	case f != placement.Present:
		return -int(f)
	case uint64(p.ID) == h.node.id:
		return 3
	case p.up:
		return 2
	}
	return 1
}

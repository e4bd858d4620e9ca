package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// A small lock service, to test the simulator with: one server that never
// crashes, and clients with leases. It is correct, unless a bug is switched on.

const fakeTTL = 2 * time.Second

// fakeBugs make the service wrong.
type fakeBugs struct {
	jumpers     bool // the queue is a stack
	noDedup     bool // a repeated acquire queues again
	lateBelief  bool // the holder believes until its release is answered
	shortLease  bool // the server expires sessions too soon
	neverLost   bool // the client believes for ever
	sameToken   bool // tokens do not grow
	keepCancels bool // cancels are ignored
	stuck       bool // an expiry wakes nobody
}

const (
	fakeAcquire = iota
	fakeCancel
	fakeRelease
	fakeRenew
	fakeGranted
	fakeLocked
	fakeReleased
	fakeRenewed
	fakeCancelled
	fakeExpired
)

type fakeMsg struct {
	kind             uint64
	epoch, request   uint64
	token            uint64
	weight, capacity uint64
	key              string
	from             transport.ID
}

func (m fakeMsg) encode() []byte {
	var b []byte
	for _, v := range []uint64{m.kind, m.epoch, m.request, m.token, m.weight, m.capacity} {
		b = wire.AppendUint(b, v)
	}
	return wire.AppendString(b, m.key)
}

func fakeDecode(from transport.ID, b []byte) fakeMsg {
	r, m := wire.NewReader(b), fakeMsg{from: from}
	for _, v := range []*uint64{&m.kind, &m.epoch, &m.request, &m.token, &m.weight, &m.capacity} {
		*v = r.Uint(1 << 62)
	}
	m.key = r.String(1024)
	if r.End() != nil {
		panic("fake: malformed")
	}
	return m
}

// fakePort is the part that server and client share.
type fakePort struct {
	world env.Env
	id    transport.ID
	net   env.Network
	loop  env.Loop
	inbox []fakeMsg
	up    func(transport.Hello)
}

func (p *fakePort) open(ctx context.Context, bind string, run func(time.Duration) time.Duration) error {
	p.world = env.FromContext(ctx)
	p.id = transport.ID(p.world.Seed() | 1)
	p.loop = p.world.NewLoop("fake", run)
	cfg := transport.Config{Bind: bind, Hello: transport.Hello{Name: bind, ID: p.id}, Logger: slog.New(slog.DiscardHandler)}
	var err error
	p.net, err = p.world.Listen(cfg, p)
	return err
}

func (p *fakePort) send(to transport.ID, m fakeMsg) {
	p.net.Send(to, transport.KindShard, transport.Normal, m.encode())
}

func (p *fakePort) Dialed(string, transport.Hello, error) {}
func (p *fakePort) Down(transport.ID, transport.Cause)    {}
func (p *fakePort) Up(h transport.Hello) {
	if p.up != nil {
		p.up(h)
	}
}
func (p *fakePort) Receive(from transport.ID, _ transport.Kind, body []byte) {
	p.inbox = append(p.inbox, fakeDecode(from, body))
	p.loop.Wake()
}

type fakeSession struct {
	id       transport.ID
	epoch    uint64
	heard    time.Duration
	expired  bool
	finished map[uint64]fakeMsg // by request: the answer
}

type fakeEntry struct {
	session *fakeSession
	msg     fakeMsg
	token   uint64
}

type fakeKey struct {
	holders, queue []*fakeEntry
}

type fakeServer struct {
	fakePort
	bugs     fakeBugs
	revision uint64
	keys     map[string]*fakeKey
	names    []string
	sessions []*fakeSession
	observer env.Observer
}

func fakeServe(w *World, bugs fakeBugs) {
	w.Host("server").Boot("server", func(ctx context.Context) {
		s := &fakeServer{bugs: bugs, keys: make(map[string]*fakeKey), revision: uint64(env.FromContext(ctx).Wall().UnixMilli()) << 10}
		s.observer = env.FromContext(ctx).(env.Instrumented).Observer()
		if err := s.open(ctx, ":1", s.run); err != nil {
			panic(err)
		}
		s.loop.Wake()
	})
}

func (s *fakeServer) run(now time.Duration) time.Duration {
	for _, m := range s.inbox {
		s.step(now, m)
	}
	s.inbox = nil
	for _, x := range s.sessions {
		ttl := fakeTTL
		if s.bugs.shortLease {
			ttl /= 2
		}
		if !x.expired && now >= x.heard+ttl {
			x.expired = true
			for _, name := range s.names {
				k := s.keys[name]
				k.holders = dropEntries(k.holders, func(e *fakeEntry) bool { return e.session == x })
				k.queue = dropEntries(k.queue, func(e *fakeEntry) bool { return e.session == x })
				if !s.bugs.stuck {
					s.grant(name)
				}
			}
		}
	}
	return now + 50*time.Millisecond
}

func dropEntries(list []*fakeEntry, gone func(*fakeEntry) bool) (kept []*fakeEntry) {
	for _, e := range list {
		if !gone(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

func (s *fakeServer) session(m fakeMsg, now time.Duration) *fakeSession {
	for _, x := range s.sessions {
		if x.id == m.from && x.epoch == m.epoch {
			return x
		}
	}
	x := &fakeSession{id: m.from, epoch: m.epoch, finished: make(map[uint64]fakeMsg), heard: now}
	s.sessions = append(s.sessions, x)
	return x
}

func (s *fakeServer) step(now time.Duration, m fakeMsg) {
	x := s.session(m, now)
	if x.expired {
		s.send(m.from, fakeMsg{kind: fakeExpired, epoch: m.epoch})
		return
	}
	x.heard = now
	k := s.keys[m.key]
	if k == nil {
		k = &fakeKey{}
		s.keys[m.key] = k
		s.names = append(s.names, m.key)
	}
	s.revision++
	mine := func(e *fakeEntry) bool { return e.session == x && e.msg.request == m.request }
	switch m.kind {
	case fakeRenew:
		s.send(m.from, fakeMsg{kind: fakeRenewed, epoch: m.epoch, request: m.request})
	case fakeAcquire:
		if done, ok := x.finished[m.request]; ok && !s.bugs.noDedup {
			s.send(m.from, done)
			return
		}
		for _, e := range k.queue {
			if mine(e) && !s.bugs.noDedup {
				return
			}
		}
		e := &fakeEntry{session: x, msg: m}
		if m.token == 1 && (len(k.queue) > 0 || !k.fits(m)) { // try
			s.answer(x, fakeMsg{kind: fakeLocked, epoch: m.epoch, request: m.request})
			return
		}
		s.decided(shard.Entered, e)
		if s.bugs.jumpers {
			k.queue = append([]*fakeEntry{e}, k.queue...)
		} else {
			k.queue = append(k.queue, e)
		}
		s.grant(m.key)
	case fakeCancel:
		if !s.bugs.keepCancels {
			k.queue = dropEntries(k.queue, mine)
			k.holders = dropEntries(k.holders, mine)
			s.grant(m.key)
		}
		s.answer(x, fakeMsg{kind: fakeCancelled, epoch: m.epoch, request: m.request})
	case fakeRelease:
		k.holders = dropEntries(k.holders, func(e *fakeEntry) bool { return e.token == m.token && e.session == x })
		s.grant(m.key)
		s.send(m.from, fakeMsg{kind: fakeReleased, epoch: m.epoch, token: m.token, request: m.request})
	}
}

func (s *fakeServer) answer(x *fakeSession, m fakeMsg) {
	x.finished[m.request] = m
	s.send(x.id, m)
}

func (k *fakeKey) fits(m fakeMsg) bool {
	used := m.weight
	for _, e := range k.holders {
		used += e.msg.weight
	}
	return used <= m.capacity
}

func (s *fakeServer) grant(name string) {
	k := s.keys[name]
	for len(k.queue) > 0 && k.fits(k.queue[0].msg) {
		e := k.queue[0]
		k.queue = k.queue[1:]
		if s.bugs.sameToken {
			s.revision -= 2
		}
		s.revision++
		e.token = s.revision
		k.holders = append(k.holders, e)
		s.decided(shard.Admitted, e)
		s.answer(e.session, fakeMsg{kind: fakeGranted, epoch: e.msg.epoch, request: e.msg.request, token: e.token})
	}
}

func (s *fakeServer) decided(what shard.DecisionKind, e *fakeEntry) {
	s.observer.Observe(env.At{Node: s.id}, shard.Decision{
		Revision: s.revision, What: what, Key: e.msg.key,
		Session: shard.SessionID{Node: uint64(e.session.id), Number: e.session.epoch}, Number: e.msg.request, Token: e.token,
	})
}

// fakeClient is a Node.
type fakeClient struct {
	fakePort
	bugs     fakeBugs
	server   transport.ID
	epoch    uint64
	requests uint64
	renewal  uint64
	sent     map[uint64]time.Duration // renewals
	deadline time.Duration
	renewAt  time.Duration
	pending  []*fakeCall
	holds    []*fakeHold
}

type fakeCall struct {
	msg     fakeMsg
	parker  env.Parker
	again   time.Duration
	outcome *fakeMsg
}

type fakeHold struct {
	client *fakeClient
	key    string
	token  uint64
	epoch  uint64
	final  time.Duration // the deadline, once the epoch is over
	ctx    context.Context
	end    context.CancelCauseFunc
}

var (
	errFakeLost   = errors.New("fake: lost")
	errFakeLocked = errors.New("fake: locked")
)

func fakeJoin(bugs fakeBugs) func(context.Context, string) (Node, error) {
	return func(ctx context.Context, host string) (Node, error) {
		c := &fakeClient{bugs: bugs, epoch: 1, sent: make(map[uint64]time.Duration)}
		if err := c.open(ctx, ":2", c.run); err != nil {
			return nil, err
		}
		joined := c.world.NewParker()
		c.up = func(h transport.Hello) {
			if h.Addr == "server:1" {
				c.server = h.ID
				c.net.Connect(h.ID, h.Addr)
				joined.Unpark()
			}
		}
		for c.server == 0 {
			c.net.Dial("server:1")
			if joined.Park(ctx, c.world.Now()+time.Second) == env.ContextEnded {
				return nil, ctx.Err()
			}
		}
		c.loop.Wake()
		return c, nil
	}
}

func (c *fakeClient) run(now time.Duration) time.Duration {
	for _, m := range c.inbox {
		if m.epoch != c.epoch {
			continue
		}
		switch m.kind {
		case fakeExpired:
			c.expire()
			continue
		case fakeRenewed:
			if at, ok := c.sent[m.request]; ok {
				c.deadline = max(c.deadline, at+fakeTTL*95/100)
			}
			clear(c.sent)
			continue
		}
		for _, p := range c.pending {
			if p.msg.request == m.request && (m.kind != fakeGranted && m.kind != fakeLocked || p.msg.kind == fakeAcquire) {
				p.outcome = &m
				if p.parker != nil {
					p.parker.Unpark()
				}
			}
		}
	}
	c.inbox = nil
	if now >= c.deadline && len(c.holds) > 0 && !c.bugs.neverLost {
		c.expire()
	}
	kept := c.pending[:0]
	for _, p := range c.pending {
		if p.outcome != nil {
			continue
		}
		kept = append(kept, p)
		if now >= p.again {
			p.again = now + 200*time.Millisecond
			c.send(c.server, p.msg)
		}
	}
	c.pending = kept
	if now >= c.renewAt {
		c.renewal++
		c.sent[c.renewal] = now
		c.renewAt = now + fakeTTL/5
		c.send(c.server, fakeMsg{kind: fakeRenew, epoch: c.epoch, request: c.renewal})
	}
	return now + 20*time.Millisecond
}

// expire ends the session, and begins another.
func (c *fakeClient) expire() {
	c.epoch++
	for _, h := range c.holds {
		h.final = c.deadline
	}
	c.deadline = 0
	c.renewAt = 0
	clear(c.sent)
	if !c.bugs.neverLost {
		for _, h := range c.holds {
			h.end(errFakeLost)
		}
	}
	c.holds = nil
	for _, p := range c.pending {
		switch p.msg.kind {
		case fakeAcquire:
			p.msg.epoch = c.epoch
		default:
			p.outcome = &fakeMsg{kind: fakeExpired}
			if p.parker != nil {
				p.parker.Unpark()
			}
		}
	}
}

func (c *fakeClient) call(m fakeMsg) *fakeCall {
	c.requests++
	m.epoch, m.request = c.epoch, c.requests
	p := &fakeCall{msg: m, parker: c.world.NewParker()}
	c.pending = append(c.pending, p)
	c.loop.Wake()
	return p
}

func (c *fakeClient) acquire(ctx context.Context, key string, weight, capacity int64, try uint64) (Lock, error) {
	p := c.call(fakeMsg{kind: fakeAcquire, key: key, weight: uint64(weight), capacity: uint64(capacity), token: try})
	until := time.Duration(env.Never)
	for {
		wake := p.parker.Park(ctx, until)
		switch {
		case p.outcome != nil && p.outcome.kind == fakeLocked:
			return nil, errFakeLocked
		case p.outcome != nil && p.outcome.epoch != c.epoch: // granted in a session that is over
			p = c.call(fakeMsg{kind: fakeAcquire, key: key, weight: uint64(weight), capacity: uint64(capacity), token: try})
			until = env.Never
		case p.outcome != nil && (c.deadline > c.world.Now() || c.bugs.neverLost):
			h := &fakeHold{client: c, key: key, token: p.outcome.token, epoch: c.epoch}
			h.ctx, h.end = context.WithCancelCause(context.WithoutCancel(ctx))
			c.holds = append(c.holds, h)
			return h, nil
		case wake == env.ContextEnded:
			m := p.msg
			m.kind = fakeCancel
			p.outcome = &m
			c.pending = append(c.pending, &fakeCall{msg: m})
			c.loop.Wake()
			return nil, ctx.Err()
		case p.outcome != nil: // no hold before a renewal is confirmed
			until = c.world.Now() + 20*time.Millisecond
		}
	}
}

func (c *fakeClient) Lock(ctx context.Context, key string) (Lock, error) {
	return c.acquire(ctx, key, shard.Whole, shard.Whole, 0)
}
func (c *fakeClient) TryLock(ctx context.Context, key string) (Lock, error) {
	return c.acquire(ctx, key, shard.Whole, shard.Whole, 1)
}
func (c *fakeClient) RLock(ctx context.Context, key string) (Lock, error) {
	return c.acquire(ctx, key, 1, shard.Whole, 0)
}
func (c *fakeClient) Acquire(ctx context.Context, key string, n, capacity int64) (Lock, error) {
	return c.acquire(ctx, key, n, capacity, 0)
}

func (h *fakeHold) Token() uint64            { return h.token }
func (h *fakeHold) Context() context.Context { return h.ctx }
func (h *fakeHold) Deadline() time.Time {
	c := h.client
	if c.bugs.neverLost {
		return c.world.Wall().Add(time.Hour)
	}
	if c.epoch != h.epoch {
		return c.world.Wall().Add(h.final - c.world.Now())
	}
	return c.world.Wall().Add(c.deadline - c.world.Now())
}

func (h *fakeHold) Err() error {
	if h.ctx.Err() != nil || !h.client.world.Wall().Before(h.Deadline()) {
		return errFakeLost
	}
	return nil
}

func (h *fakeHold) Unlock(ctx context.Context) error {
	c := h.client
	if err := h.Err(); err != nil && !c.bugs.neverLost {
		return err
	}
	if !c.bugs.lateBelief {
		h.finish()
	}
	p := c.call(fakeMsg{kind: fakeRelease, key: h.key, token: h.token})
	for p.outcome == nil {
		if p.parker.Park(ctx, env.Never) == env.ContextEnded {
			h.finish()
			return ctx.Err() // it goes on being sent
		}
	}
	h.finish()
	if p.outcome.kind == fakeExpired {
		return errFakeLost
	}
	return nil
}

func (h *fakeHold) finish() {
	if h.ctx.Err() == nil {
		h.final = h.client.deadline
	}
	h.end(context.Canceled)
	for i, x := range h.client.holds {
		if x == h {
			h.client.holds = append(h.client.holds[:i], h.client.holds[i+1:]...)
			break
		}
	}
}

// fakeWorld is a world with a server and three clients, and lockers on those.
func fakeWorld(opts Options, bugs fakeBugs) (*World, *Lockers) {
	w := New(opts)
	fakeServe(w, bugs)
	var hosts []string
	for i := range 3 {
		name := fmt.Sprintf("c%d", i+1)
		w.Host(name)
		hosts = append(hosts, name)
	}
	return w, &Lockers{Hosts: hosts, Join: fakeJoin(bugs), TTL: fakeTTL}
}

// mayCrashClients spares the server, whose memory is the only copy.
func mayCrashClients(host string) bool { return host != "server" }

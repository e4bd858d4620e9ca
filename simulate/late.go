package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// late checks that nobody's key is kept for longer than the rule says of whom no leader hears
// any more (P5), through all changes of leaders. It hears when leaders serve, and from whom they
// take a sign of life, and computes how much silence the shard must know of since then:
//
//   - it grows with the clock of the leader that serves, and stands still while nobody serves. The
//     time in which the leader stood still (P10) does not count, nor that in which it waited for a
//     frame that the network had for longer than E;
//   - when a leader's time is over, its successor knows what was in the log. For the last 2E, as
//     long as a leader serves that no majority answers, that may be nothing new. What was logged
//     before is at most TTL/4 old, once half a TTL was reached, or E/2 if the leader handed
//     over; and counts for 1-2ρ of itself.
//
// Where it reaches the TTL and the leader goes on to serve, the key is free soon.
type late struct {
	world  *World
	shards map[shardName]*offices // looked up, never ranged over
	order  []*offices
}

// offices are what is known of one shard.
type offices struct {
	shard  int
	reigns []*reign
	lives  map[sessionName]life // looked up, never ranged over
	held   []requestHeld
}

type sessionName struct {
	owner   transport.ID
	session uint64
}

// life is the latest sign of life of a session.
type life struct {
	reign int // in which it was taken
	read  time.Duration
	ttl   time.Duration
}

type requestHeld struct {
	requestName
	key string
}

// reign is one leader's time in office.
type reign struct {
	leader   transport.ID
	process  *process
	lane     *loop
	from, to time.Duration // as read: see reign.reads
	over     bool
	heir     transport.ID // to whom it began to hand over
	bequest  time.Duration
}

// handedOver reports whether the reign ended since its leader handed over to its successor: raft
// gives up if that takes E.
func (r *reign) handedOver(successor transport.ID) bool {
	return r.heir == successor && r.to-r.bequest < electionTimeout && !r.process.dead
}

const (
	tick            = 50 * time.Millisecond
	stalledTick     = 5 * tick
	electionTimeout = 20 * tick
)

// reads returns how long the leader's lane has worked, by its own clock, since some time.
func (r *reign) reads() time.Duration {
	now := r.process.Now()
	if l := r.lane; l != nil {
		if now-l.ticked > stalledTick {
			now = l.ticked + tick
		}
		now -= l.stood
	}
	return now - r.process.host.behind.sum
}

// tardy is for how long a frame is on its way before those at its ends count as waiting for it:
// one that was lost and sent again may come as late.
const tardy = electionTimeout

// waits are times in which a host had to wait, in order.
type waits struct {
	all []wait
	sum time.Duration // of their lengths
}

type wait struct{ from, to time.Duration }

// add adds a wait that ends now.
func (w *waits) add(from, now time.Duration) {
	for n := len(w.all); n > 0 && w.all[n-1].to >= from; n-- {
		last := w.all[n-1]
		from = min(from, last.from)
		w.all, w.sum = w.all[:n-1], w.sum-(last.to-last.from)
	}
	w.all, w.sum = append(w.all, wait{from, now}), w.sum+now-from
}

// waited: a frame to or from the host was on its way from began until now.
func (h *Host) waited(began time.Duration) { h.behind.add(began+tardy, h.world.now) }

// waitsFor returns how much longer the host has waited if frames count that are still on
// their way.
func (h *Host) waitsFor() time.Duration {
	now := h.world.now
	all := waits{slices.Clone(h.behind.all), h.behind.sum}
	for _, f := range h.world.Net.flying() {
		if (f.from() == h || f.to() == h) && !f.held && f.began+tardy < now {
			all.add(f.began+tardy, now)
		}
	}
	return all.sum - h.behind.sum
}

func (l *late) of(shard shardName) *offices {
	s := l.shards[shard]
	if s == nil {
		s = &offices{shard: shard.shard, lives: make(map[sessionName]life)}
		l.shards[shard] = s
		l.order = append(l.order, s)
	}
	return s
}

// current returns the reign that goes on, or nil.
func (s *offices) current() *reign {
	if n := len(s.reigns); n > 0 && !s.reigns[n-1].over {
		return s.reigns[n-1]
	}
	return nil
}

func (s *offices) end() {
	if r := s.current(); r != nil {
		r.to, r.over = r.reads(), true
	}
}

func (l *late) served(shard shardName, v env.Served) {
	s := l.of(shard)
	if r := s.current(); v.Serving || r != nil && r.leader == v.Replica {
		s.end()
	}
	if v.Serving {
		r := &reign{leader: v.Replica, process: l.world.nodes[v.Replica], lane: l.world.lane}
		r.from = r.reads()
		s.reigns = append(s.reigns, r)
		for _, h := range s.held {
			l.judge(s, h)
		}
	}
}

func (l *late) handsOver(shard shardName, v env.Served, to transport.ID) {
	if r := l.of(shard).current(); r != nil && r.leader == v.Replica {
		r.heir, r.bequest = to, r.reads()
	}
}

func (l *late) heard(shard shardName, v env.Heard) {
	s := l.of(shard)
	if r := s.current(); r != nil && r.leader == v.Replica {
		s.lives[sessionName{v.Owner, v.Session}] = life{len(s.reigns) - 1, r.reads(), v.TTL}
	}
}

func (l *late) granted(shard shardName, key string, r requestName) {
	s := l.of(shard)
	s.held = append(s.held, requestHeld{r, key})
}

func (l *late) released(shard shardName, r requestName) {
	s := l.of(shard)
	for i, h := range s.held {
		if h.requestName == r {
			l.judge(s, h)
			last := len(s.held) - 1
			s.held[i] = s.held[last] // in no order: there may be thousands
			s.held = s.held[:last]
			return
		}
	}
}

// disturbed reports whether fault points are taken, and the network loses some messages for what
// they are: leaders of whom every other word is lost are late without a bound.
func (l *late) disturbed() bool { return l.world.climate.sites > 0 && !l.world.faultless }

// calm: all that is over from now on. All sessions count as heard now.
func (l *late) calm() {
	if l.world.climate.sites == 0 {
		return
	}
	for _, s := range l.order {
		for name, v := range s.lives { // order-free: each is treated alike
			if r := s.current(); r != nil {
				s.lives[name] = life{len(s.reigns) - 1, r.reads(), v.ttl}
			} else {
				delete(s.lives, name)
			}
		}
	}
}

// crashed ends the offices of a process.
func (l *late) crashed(p *process) {
	for _, s := range l.order {
		if r := s.current(); r != nil && r.process == p {
			s.end()
		}
	}
}

// all judges whatever is held now.
func (l *late) all() {
	for _, s := range l.order {
		for _, h := range s.held {
			l.judge(s, h)
		}
	}
}

// judge fails the run if a request holds its key for too long.
func (l *late) judge(s *offices, h requestHeld) {
	heard, is := s.lives[sessionName{h.owner, h.session}]
	if !is || l.disturbed() {
		return
	}
	over := l.over(s, heard)
	if r := s.current(); over > grace && r != nil {
		over -= r.process.host.waitsFor()
	}
	if over > grace {
		l.world.Fail(fmt.Errorf("G5 late: shard %d keeps %q for the node on %s, which is silent: its leaders know of that for %v, and its lease lasts %v",
			s.shard, h.key, l.world.hostOf(h.owner), heard.ttl+over, heard.ttl))
	}
}

// grace is how long a leader that serves may take to free a key when it knows of a whole TTL of
// silence. It asks a majority first, and may go on serving for 2E while none answers; a round
// without an answer is repeated after E, an append that was lost as late; and a connection that
// broke is dialled again within 2 s.
const grace = 6 * electionTimeout

// over returns for how long the shard has known by now that a lease is over, or less than
// nothing.
func (l *late) over(s *offices, since life) time.Duration {
	const unheard = 2 * electionTimeout
	var logged time.Duration
	worst := -since.ttl
	known := time.Duration(0)
	for i, r := range s.reigns[since.reign:] {
		from := r.from
		if i == 0 {
			from = since.read
		}
		if !r.over {
			return max(worst, known+r.reads()-from-since.ttl)
		}
		sure := known + max(0, r.to-from-unheard)
		worst = max(worst, sure-since.ttl)
		if next := since.reign + i + 1; next < len(s.reigns) && r.handedOver(s.reigns[next].leader) && r.bequest > from {
			logged = max(logged, known+r.bequest-from-electionTimeout/2)
		}
		if sure >= since.ttl/2 {
			logged = max(logged, sure-since.ttl/4)
		}
		known = logged - logged/50
	}
	return worst
}

package check

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// late checks that a session of which no leader hears any more keeps its keys no longer than the rule
// says (P5), through all changes of leaders. It hears when leaders serve, and when they take a sign of
// life from a session, and computes how much silence the shard must know of since then:
//
//   - it grows with the clock of the leader that serves, and stands still while none serves, or its node is fenced. The
//     time in which the leader stood still (P10) does not count, nor that in which it waited for a
//     frame that the network had for longer than E, or in which its links had no room;
//   - when a leader's time is over, its successor knows what was in the log. For the last 2E, as
//     long as a leader serves that no majority answers, that may be nothing new. What was logged
//     before is at most TTL/4 old, once half a TTL was reached, or E/2 if the leader handed
//     over; and counts for 1-2ρ of itself.
//
// Where it reaches the TTL and the leader goes on to serve, the key is free soon.
type late struct {
	world  World
	shards map[ShardName]*offices // looked up, never ranged over
	order  []*offices
}

// offices are what is known of one shard.
type offices struct {
	mesh        uint64
	shard       int
	leaderships []*leadership
	lives       map[shard.SessionID]life // looked up, never ranged over
	held        []requestHeld
	broken      []brokenHold
}

// life is the latest sign of life of a session.
type life struct {
	leadership int // in which it was taken
	read       time.Duration
	ttl        time.Duration
}

type requestHeld struct {
	requestName
	key string
}

// leadership is one leader's time in office.
type leadership struct {
	leader   transport.ID
	process  Process
	loop     Loop          // nil: it is over, or the world of a test has no loops
	from, to time.Duration // as read: see leadership.reads
	over     bool
	fenced   bool          // the node's replicas stand still
	halted   time.Duration // what was read when that began
	stood    time.Duration // for how long they stood still before, as the loop reads
	heir     transport.ID  // the node to which it began to hand over
	bequest  time.Duration
}

// handedOver reports whether the leadership ended since its leader handed over to its successor: raft
// gives up if that takes E.
func (r *leadership) handedOver(successor transport.ID) bool {
	return r.heir == successor && r.to-r.bequest < electionTimeout && !r.process.Dead()
}

// electionTimeout is E of the protocol.
const electionTimeout = time.Second

// reads returns how long the leader's replicas have worked, by its own clock, since some time.
func (r *leadership) reads() time.Duration {
	if r.fenced {
		return r.halted
	}
	return r.works() - r.stood
}

// works is the same of the shard loop, which works on while the replicas are fenced.
func (r *leadership) works() time.Duration {
	now := r.process.Now()
	if l := r.loop; l != nil {
		now = l.Works(now) - l.Stood()
	}
	return now - r.process.Waited()
}

func (l *late) of(name ShardName) *offices {
	s := l.shards[name]
	if s == nil {
		s = &offices{mesh: name.Mesh, shard: name.Shard, lives: make(map[shard.SessionID]life)}
		l.shards[name] = s
		l.order = append(l.order, s)
	}
	return s
}

// current returns the leadership that goes on, or nil.
func (s *offices) current() *leadership {
	if n := len(s.leaderships); n > 0 && !s.leaderships[n-1].over {
		return s.leaderships[n-1]
	}
	return nil
}

func (s *offices) end() {
	if r := s.current(); r != nil {
		r.to, r.over = r.reads(), true
		r.loop = nil // the whole node is behind it
	}
}

func (l *late) served(name ShardName, node transport.ID, v env.Served) {
	s := l.of(name)
	if r := s.current(); v.Serving || r != nil && r.leader == node {
		s.end()
	}
	if v.Serving {
		r := &leadership{leader: node, process: l.world.Process(node), loop: l.world.Loop()}
		r.from = r.reads()
		s.leaderships = append(s.leaderships, r)
		for _, h := range s.held {
			l.judge(s, h)
		}
	}
}

// fenced: the replicas of a node stand still from now on, or no longer.
func (l *late) fenced(node transport.ID, fenced bool) {
	for _, s := range l.order {
		r := s.current()
		switch {
		case r == nil || r.leader != node || r.fenced == fenced:
		case fenced:
			r.halted, r.fenced = r.reads(), true
		default:
			r.stood, r.fenced = r.works()-r.halted, false
		}
	}
}

func (l *late) handsOver(name ShardName, node transport.ID, h env.Handover) {
	if r := l.of(name).current(); r != nil && r.leader == node {
		r.heir, r.bequest = h.To, r.reads()
	}
}

func (l *late) heard(name ShardName, node transport.ID, v env.Heard) {
	s := l.of(name)
	if r := s.current(); r != nil && r.leader == node {
		s.lives[v.Session] = life{len(s.leaderships) - 1, r.reads(), v.TTL}
	}
}

func (l *late) granted(name ShardName, key string, r requestName) {
	s := l.of(name)
	s.held = append(s.held, requestHeld{r, key})
}

func (l *late) released(name ShardName, r requestName) {
	s := l.of(name)
	if i := slices.IndexFunc(s.held, func(h requestHeld) bool { return h.requestName == r }); i >= 0 {
		l.judge(s, s.held[i])
		last := len(s.held) - 1
		s.held[i] = s.held[last] // in no order: there may be thousands
		s.held = s.held[:last]
	}
}

// disturbed reports whether fault points are taken, and the network loses some messages for what
// they are: a leader that loses every other message is late without a bound.
func (l *late) disturbed() bool {
	_, still := l.world.Noisy()
	return still
}

// calm ends the disturbance. All sessions count as heard now, or when the next leader serves if none does now.
func (l *late) calm() {
	if ever, _ := l.world.Noisy(); !ever {
		return
	}
	for _, s := range l.order {
		now := life{leadership: len(s.leaderships), read: math.MinInt64} // the beginning of the next leadership
		if r := s.current(); r != nil {
			now = life{leadership: len(s.leaderships) - 1, read: r.reads()}
		}
		for id, v := range s.lives { // order-free: each is treated alike
			now.ttl = v.ttl
			s.lives[id] = now
		}
		for i := range s.broken {
			s.broken[i].leadership, s.broken[i].read = now.leadership, now.read
		}
	}
}

// crashed ends the offices of a process.
func (l *late) crashed(p Process) {
	for _, s := range l.order {
		if r := s.current(); r != nil && r.process == p {
			s.end()
		}
	}
}

// left ends the offices of a node in a mesh that gave way to another one there.
func (l *late) left(mesh uint64, node transport.ID) {
	for _, s := range l.order {
		if r := s.current(); r != nil && s.mesh == mesh && r.leader == node {
			s.end()
		}
	}
}

// begun: a shard has another generation. What the tables of the earlier ones knew is forgotten.
func (l *late) begun(now ShardName) {
	for name, s := range l.shards { // order-free: each is ended alone
		if now.follows(name) {
			s.held, s.broken = nil, nil
		}
	}
}

// all judges whatever is held now.
func (l *late) all() {
	for _, s := range l.order {
		for _, h := range s.held {
			l.judge(s, h)
		}
		for _, b := range s.broken {
			l.judgeBroken(s, b)
		}
	}
}

// judge fails the run if a request holds its key for too long.
func (l *late) judge(s *offices, h requestHeld) {
	heard, is := s.lives[h.session]
	if !is || l.disturbed() {
		return
	}
	over := l.known(s, heard)
	if r := s.current(); over > grace && r != nil {
		over -= r.process.StillWaits()
	}
	if over > grace {
		l.world.Fail(fmt.Errorf("G5 late: shard %d keeps %q for the node on %s, which is silent: its leaders know of that for %v, and its lease lasts %v",
			s.shard, h.key, HostOf(l.world, h.owner()), heard.ttl+over, heard.ttl))
	}
}

// grace is how long a leader that serves may take to free a key when it knows of a whole TTL of
// silence. It asks a majority first, and may go on serving for 2E while none answers; a round
// without an answer is repeated after E, an append that was lost as late; and a connection that
// broke is dialled again within 2 s.
const grace = 6 * electionTimeout

// known returns for how long the shard has known by now that a lease is over, or less than
// nothing.
func (l *late) known(s *offices, since life) time.Duration {
	const unheard = 2 * electionTimeout
	var logged time.Duration
	worst := -since.ttl
	known := time.Duration(0)
	for i, r := range s.leaderships[since.leadership:] {
		from := r.from
		if i == 0 {
			from = max(from, since.read)
		}
		if !r.over {
			return max(worst, known+r.reads()-from-since.ttl)
		}
		sure := known + max(0, r.to-from-unheard)
		worst = max(worst, sure-since.ttl)
		if next := since.leadership + i + 1; next < len(s.leaderships) && r.handedOver(s.leaderships[next].leader) && r.bequest > from {
			logged = max(logged, known+r.bequest-from-electionTimeout/2)
		}
		if sure >= since.ttl/2 {
			logged = max(logged, sure-since.ttl/4)
		}
		known = logged - logged/50
	}
	return worst
}

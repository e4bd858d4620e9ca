package replica

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// reign is what a replica knows only while it leads: what it is about to append, the
// sessions' leases, and the rounds that confirm it still leads.
type reign struct {
	serving bool
	began   time.Duration // when serving began
	base    time.Duration // table time then (P18)
	batch   []byte        // commands to be appended next
	batched []Dropped     // the clients' ones among them
	pieces  []piece       // the first parts of batch, each as long as an entry gets
	flying  bool          // an entry of this reign is appended and not applied yet

	leases   leases
	renewals []Renewal                // since the last round
	expiries []shard.SessionID        // leases that ran out since the last round
	rounds   map[uint64]*round        // ReadIndex rounds under way
	last     uint64                   // the number of the last round
	settled  time.Duration            // when a Settle was last proposed
	early    []shard.Event            // of the deliberate bug GrantBeforeCommit
	heard    map[uint64]time.Duration // replica ID -> when it last answered
	placing  placing
	seal     seal
	words    map[uint64]checksum // replica ID -> what it said last of its table (P41)
	checked  uint64              // the entry that the last Check of this reign is for
	doubted  uint64              // the entry after which two tables were last seen to differ
	told     int                 // how often those in Replica.gone heard of their end
	tellAt   time.Duration       // when they may hear of it again
}

// seal is how a leader learns that the others know who the replicas are now. A change of
// them is committed before its followers know that it is, and each counts votes by what
// it knows: if the leader were lost at that moment, the rest might wait for the vote of
// a replica that is gone for good. An entry that is appended after the change was applied
// tells of its commit, and who has confirmed the entry has heard that.
type seal struct {
	asked bool   // an entry is on its way into the log
	index uint64 // of that entry; zero: it is not there yet
}

// round is one ReadIndex and what it is to confirm (P2).
type round struct {
	begun    time.Duration
	renewals []Renewal
	expiries []shard.SessionID
}

// Renewal is a client's question whether its session lives. Ref comes back in the Answer.
// After is the last result that an answer has told it: see Table.Results. Abandoned are its
// commands that nobody waits for, and that have had no answer: Cancel, Release or Close (P12).
type Renewal struct {
	Session   shard.SessionID
	Ref       uint64
	After     uint64
	Abandoned []Abandoned
}

// Abandoned is a command in a renewal, with its wire form.
type Abandoned struct {
	Command shard.Command
	Raw     []byte
}

// Answer says what a confirmed leader knows of a session.
type Answer struct {
	Renewal
	Alive    bool
	Revision uint64        // it says nothing of later grants (P13)
	Results  []shard.Event // what the session was told and has not acknowledged, from behind After on
	More     bool          // there is more behind the last of them
}

// maxResults is how many results one answer repeats.
const maxResults = 64

// Renew takes a renewal. It returns ErrNotServing if this replica cannot answer it;
// otherwise an Answer follows, or none if a majority stays silent.
func (r *Replica) Renew(now time.Duration, q Renewal) error {
	r.now = now
	if !r.reign.serving {
		return ErrNotServing
	}
	orphans, bytes := r.orphans(q)
	if bytes > 0 && len(r.reign.batch)+bytes > maxHeld || !r.heardFrom(q.Session) {
		return nil // without room for them the session is not renewed (P12)
	}
	for _, a := range orphans {
		_ = r.Submit(r.now, a.Command, a.Raw) // it serves
	}
	q.Abandoned = nil
	r.reign.renewals = append(r.reign.renewals, q)
	r.dirty = true
	return nil
}

// orphans returns what a renewal names as abandoned and the table has not seen, and its
// length. A session without a record has none: it is answered "unknown", and that ends
// them all.
func (r *Replica) orphans(q Renewal) (unseen []Abandoned, bytes int) {
	if r.cfg.Bugs.Has(bug.OrphansUntaken) {
		return nil, 0
	}
	for _, a := range q.Abandoned {
		if id, number := shard.ClientOf(a.Command); id == q.Session && r.table.Expects(id, number) {
			unseen, bytes = append(unseen, a), bytes+len(a.Raw)
		}
	}
	return unseen, bytes
}

// heardFrom notes that a session spoke, and reports whether this leader still listens to it.
func (r *Replica) heardFrom(id shard.SessionID) bool {
	l := r.reign.leases.get(id)
	if l == nil {
		return true
	}
	if l.expiring {
		return false // from the append on, not from the commit (P4)
	}
	if l.hear(r.now); !l.fixed {
		r.heard(l)
	}
	if r.cfg.Bugs.Has(bug.HeardByName) {
		r.hearFellows(id)
	}
	return true
}

// heard tells those who watch of a sign of life.
func (r *Replica) heard(l *lease) {
	if r.cfg.Watch.Heard != nil {
		r.cfg.Watch.Heard(l.id, l.ttl)
	}
}

// served tells those who watch that this leader serves now, or serves no more.
func (r *Replica) served(serving bool) {
	if r.cfg.Watch.Served != nil {
		r.cfg.Watch.Served(serving)
	}
}

// Stepped tells the replica that the time of day has moved by d (deliberate bugs).
func (r *Replica) Stepped(d time.Duration) {
	if r.cfg.Bugs.Has(bug.TableTimeOfDay) {
		r.reign.base = max(r.reign.base+d, 0)
		return
	}
	if !r.reign.serving {
		return // it has no leases
	}
	for l := range r.reign.leases.all() {
		l.heard -= d
	}
	r.reign.leases.soon(r.now)
}

// hearFellows takes a session's word for those of all nodes of its name (a deliberate bug).
func (r *Replica) hearFellows(id shard.SessionID) {
	s, _ := r.table.Lease(id)
	for l := range r.reign.leases.all() {
		if o, known := r.table.Lease(l.id); known && o.Name == s.Name && !l.expiring {
			l.hear(r.now)
		}
	}
}

// piece is a part of the batch that will be one entry.
type piece struct{ bytes, clients int }

// gathered notes that a command was added to the batch: what is longer than an entry may
// be is cut here, between two commands, for no follower would take it.
func (g *reign) gathered(points *point.Points) {
	rest := piece{len(g.batch), len(g.batched)}
	for _, p := range g.pieces {
		rest.bytes, rest.clients = rest.bytes-p.bytes, rest.clients-p.clients
	}
	if rest.bytes >= maxBatch || points.Taken(point.SmallEntry) {
		g.pieces = append(g.pieces, rest)
	}
}

// propose appends the batch. While leadership moves it is held (P22). While the entry
// before it is on its way it gathers more: the log commits in order, so nothing is late
// by that, and one entry carries many commands.
func (r *Replica) propose() {
	g := &r.reign
	if g.serving && r.Joint() && !slices.Contains(r.conf.Voters, r.cfg.ID) {
		// It was elected while a change of voters was on its way, and ends with it. Who
		// then votes alone may need its vote to get there, and would not get it from a
		// replica whose log is longer.
		return
	}
	for len(g.batch) > 0 {
		p := piece{len(g.batch), len(g.batched)}
		if len(g.pieces) > 0 {
			p = g.pieces[0]
		} else if g.flying {
			return
		}
		data := wire.AppendUint(make([]byte, 0, p.bytes+12), entryVersion)
		data = wire.AppendUint(data, uint64(g.base+r.now-g.began))
		data = append(data, g.batch[:p.bytes]...)
		if r.cfg.Bugs.Has(bug.GrantBeforeCommit) {
			r.grantEarly(g.batch[:p.bytes])
		}
		if err := r.rn.Propose(data); err != nil {
			if !errors.Is(err, raft.ErrProposalDropped) {
				r.log.Warn("propose", "error", err)
			}
			return
		}
		g.flying = true
		r.entries++
		r.commands += uint64(p.clients)
		g.batch, g.batched = append(g.batch[:0], g.batch[p.bytes:]...), append(g.batched[:0], g.batched[p.clients:]...)
		if len(g.pieces) > 0 {
			g.pieces = g.pieces[1:]
		}
		g.seal.asked = true
	}
	if g.serving && !g.seal.asked && g.seal.index == 0 && !r.cfg.Points.Taken(point.LateSeal) {
		g.seal.asked = r.rn.Propose(nil) == nil // else at the next tick
	}
}

// sealed reports whether all voters that answer know who the replicas are, and a majority
// does, by the configuration before as well as by the one to come.
func (r *Replica) sealed() bool {
	index := r.reign.seal.index
	if index == 0 {
		return false
	}
	sealed := true
	known := make(map[uint64]bool)
	r.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		switch {
		case pr.Match >= index:
			known[id] = true
		case id != r.cfg.ID && r.mayVote(id) && r.answers(id):
			sealed = false
		}
	})
	knows := func(id uint64) bool { return known[id] }
	return sealed && majority(r.conf.Voters, knows) && majority(r.conf.VotersOutgoing, knows)
}

// majority reports whether more than half of voters are as is says. Of none, all are.
func majority(voters []uint64, is func(id uint64) bool) bool {
	n := 0
	for _, id := range voters {
		if is(id) {
			n++
		}
	}
	return len(voters) == 0 || n > len(voters)/2
}

// grantEarly answers what it expects to come of the batch (a deliberate bug).
func (r *Replica) grantEarly(batch []byte) {
	rd := wire.NewReader(batch)
	for rd.Len() > 0 {
		a, ok := shard.ReadCommand(rd).(shard.Acquire)
		if ok && !r.table.InUse(a.Key) && r.table.Has(a.Session) {
			r.reign.early = append(r.reign.early, shard.Granted{Session: a.Session, Number: a.Number, Token: r.table.Revision() + 2})
		}
	}
}

// readIndex begins a round for what came since the last one began.
func (r *Replica) readIndex() {
	g := &r.reign
	if len(g.renewals) == 0 && len(g.expiries) == 0 && !g.placing.rouse || !g.serving {
		return
	}
	if r.unasked() && len(g.expiries) == 0 && !g.placing.rouse {
		return // answered by redirect
	}
	g.last++
	g.rounds[g.last] = &round{r.now, g.renewals, g.expiries}
	g.renewals, g.expiries, g.placing.rouse = nil, nil, false
	ctx := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.term), g.last)
	r.rn.ReadIndex(ctx)
}

// confirmed ends a round: a majority had this leader after the round began.
func (r *Replica) confirmed(ctx []byte, out *Output) {
	if binary.BigEndian.Uint64(ctx) != r.term {
		return // another reign's (P2)
	}
	g := &r.reign
	number := binary.BigEndian.Uint64(ctx[8:])
	rd := g.rounds[number]
	if rd == nil || !g.serving {
		return
	}
	delete(g.rounds, number)
	for _, q := range rd.renewals {
		r.answer(q, out)
	}
	for _, id := range rd.expiries {
		if l := g.leases.get(id); l != nil {
			l.asked = 0
			if l.silence(r.now) >= l.ttl && !l.expiring {
				l.expiring = !r.cfg.Bugs.Has(bug.ExpireAtCommit)
				r.office(shard.Expire{Session: id, Term: r.term})
			}
		}
	}
}

// answer acknowledges a renewal, now that nothing stands against it; a silent session
// through the log only (P5). To one of a fixed end it means nothing, and undoes no silence (P7).
func (r *Replica) answer(q Renewal, out *Output) {
	l := r.reign.leases.get(q.Session)
	switch {
	case l != nil && l.expiring:
	case l != nil && !l.fixed && l.silent && !r.cfg.Bugs.Has(bug.SilenceForgotten) && !r.cfg.Bugs.Has(bug.ExpireAtCommit):
		l.awaiting = append(l.awaiting, q)
		if !l.recalled {
			l.recalled = true
			r.office(shard.Heard{Session: q.Session, Term: r.term})
		}
	default:
		r.reply(q, out)
	}
}

func (r *Replica) reply(q Renewal, out *Output) {
	most := maxResults
	if r.cfg.Points.Taken(point.FewResults) {
		most = 1
	}
	results, more := r.table.Results(q.Session, most, q.After)
	out.Answers = append(out.Answers, Answer{
		Renewal: q, Alive: r.table.Has(q.Session), Revision: r.table.Revision(), Results: results, More: more,
	})
}

// accede begins to serve: an entry of the own term is applied (P19). Every session
// starts afresh, but for the silence that was checkpointed (P5).
func (r *Replica) accede(out *Output) {
	g := &r.reign
	*g = reign{
		serving: true, began: r.now, base: r.table.Now(),
		leases: newLeases(), rounds: make(map[uint64]*round), heard: make(map[uint64]time.Duration),
		words: make(map[uint64]checksum),
	}
	for _, s := range r.table.Leases() {
		l := g.leases.open(s.Session, s.TTL, r.now)
		l.fixed = s.Fixed
		if s.Silent > 0 && !r.cfg.Bugs.Has(bug.LegacyIgnored) {
			l.silent, l.checkpoint = true, s.Silent
			l.before = time.Duration(float64(s.Silent) * (1 - 2*r.cfg.Rho))
		}
		if r.cfg.Bugs.Has(bug.FreshLeaderExpires) {
			l.before = max(l.before, s.TTL*3/4)
		}
	}
	out.Serving = true
	r.served(true)
	r.log.Debug("leads", "term", r.term, "revision", r.table.Revision())
}

// abdicate forgets the reign. What was not appended goes back to its clients.
func (r *Replica) abdicate(out *Output) {
	if !r.reign.serving {
		return
	}
	r.served(false)
	out.Dropped = append(out.Dropped, r.reign.batched...)
	r.reign = reign{}
}

// redirect hands out what deliberate bugs answered without asking anybody.
func (r *Replica) redirect(out *Output) {
	g := &r.reign
	out.Events = append(out.Events, g.early...)
	g.early = nil
	if r.unasked() {
		for _, q := range g.renewals {
			r.reply(q, out)
		}
		g.renewals = nil
	}
}

// unasked reports whether renewals are answered without asking anybody: deliberate bugs.
func (r *Replica) unasked() bool {
	return r.cfg.Bugs.Has(bug.UnconfirmedRenewal) || r.cfg.Bugs.Has(bug.ServeBeforeOwnTerm) && r.appliedTerm != r.term
}

// note keeps the leases in step with what the table just did.
func (r *Replica) note(events []shard.Event, out *Output) {
	g := &r.reign
	for _, e := range events {
		switch e := e.(type) {
		case shard.Opened:
			r.heard(g.leases.open(e.Session, e.TTL, r.now))
		case shard.Ended:
			g.leases.end(e.Session)
		case shard.Refused: // perhaps the claim; not a late copy of anything before it
			if l := g.leases.get(e.Session); l != nil && l.claim == e.Number {
				record, _ := r.table.Lease(e.Session)
				l.ttl = record.TTL
			}
		case shard.Fixed:
			if l := g.leases.get(e.Session); l != nil {
				l.fix(r.now, e.For)
				r.heard(l)
				g.leases.soon(r.now)
			}
		case shard.Reheard:
			if l := g.leases.get(e.Session); l != nil {
				l.silent, l.recalled, l.checkpoint, l.before = false, false, 0, 0
				for _, q := range l.awaiting {
					r.reply(q, out)
				}
				l.awaiting = nil
			}
		}
	}
}

// supervise is the leader's part of a tick, after which Ready is due in any case.
func (r *Replica) supervise() {
	g := &r.reign
	for n, rd := range g.rounds { // order-free: each is judged alone
		if r.now-rd.begun >= ElectionTimeout {
			delete(g.rounds, n)
		}
	}
	if r.now >= g.leases.next {
		r.review()
	}
	if due := r.table.Settles(); due != 0 && g.base+r.now-g.began >= due && (g.settled == 0 || r.now-g.settled >= ElectionTimeout) {
		g.settled = r.now
		r.office(shard.Settle{Term: r.term})
	}
	if len(r.former) > 0 && r.sealed() {
		r.former = nil
	}
	if r.role == raft.StateLeader {
		r.place()
	}
}

// review looks at every lease: who was silent for too long, who is to be checkpointed.
func (r *Replica) review() {
	g := &r.reign
	g.leases.next = never
	for l := range g.leases.all() {
		s := l.silence(r.now)
		switch due := l.nextCheckpoint(); {
		case l.expiring:
		case s >= l.ttl:
			if l.asked == 0 || r.now-l.asked >= ElectionTimeout {
				l.asked = r.now
				g.expiries = append(g.expiries, l.id)
			}
		case (s >= due || s >= due-l.ttl/4 && r.cfg.Points.Taken(point.EarlySilence)) && !l.recalled && !r.cfg.Bugs.Has(bug.SilenceForgotten):
			l.silent, l.checkpoint = true, s
			r.office(shard.Silent{Session: l.id, For: s, Term: r.term})
		}
		g.leases.next = min(g.leases.next, r.now+l.nextCheckpoint()-s, r.now+max(l.ttl-s, TickInterval))
	}
}

// bequeathed is how much silence a leader that hands over keeps to itself.
const bequeathed = ElectionTimeout / 2

// bequeath logs for how long those who hold or wait were unheard, before another one
// leads: it would count from nothing, and a dead holder live on (P5).
func (r *Replica) bequeath() {
	g := &r.reign
	if r.cfg.Bugs.Has(bug.SilenceForgotten) || r.cfg.Bugs.Has(bug.NothingBequeathed) {
		return
	}
	for l := range g.leases.all() {
		s := l.silence(r.now)
		unlogged := s
		if l.silent {
			unlogged = s - l.checkpoint
		}
		if record, _ := r.table.Lease(l.id); l.expiring || l.recalled || unlogged < bequeathed || !record.Busy {
			continue
		}
		l.silent, l.checkpoint = true, s
		r.office(shard.Silent{Session: l.id, For: s, Term: r.term})
	}
	g.flying = false // nothing is appended once the transfer has begun
	r.propose()
}

// excused returns by how much a stall of d moves the end of a timer that runs out when
// nothing was heard for length, and by now was not for silence: it is left a third of its
// length, or what it had before. The mailbox has been drained: what may still be unheard is
// what the network has brought and nobody has read yet, and who lives speaks again before a
// third is over.
func excused(d, silence, length time.Duration) time.Duration {
	return max(0, min(d, silence-2*length/3))
}

// stalled: this leader stood still for d.
func (r *Replica) stalled(d time.Duration) {
	g := &r.reign
	if !g.serving {
		return
	}
	for l := range g.leases.all() {
		switch {
		case r.cfg.Bugs.Has(bug.StallProlongsLeases):
			l.heard += d
		case r.cfg.Bugs.Has(bug.StallsAddUp):
			l.heard = min(l.heard+d, r.now)
		default:
			l.stalled(r.now, d)
		}
		l.asked = 0
	}
	for id, l := range g.placing.learning { // order-free: each is treated alike
		l.stalled(r.now, d)
		g.placing.learning[id] = l
	}
	// A round that began before the stall proves nothing after it (P10).
	for _, rd := range g.rounds { // order-free: each is treated alike
		rd.expiries = nil
	}
}

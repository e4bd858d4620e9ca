package replica

import (
	"errors"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

// leadership is what a replica knows only while it serves as the leader.
type leadership struct {
	serving    bool
	began      time.Duration // when serving began
	base       time.Duration // table time then (P18)
	settleAt   time.Duration // when a Settle was last proposed
	raiseAt    time.Duration // when one was that only raises the revision
	timeAt     time.Duration // when an entry with table time was last appended, or serving began
	seal       seal          // whether the others know which replicas there are
	leases     leases        // the sessions' clocks
	reads      reads         // what waits until a majority confirms the leader
	sure       int           // so many targets had come when the latest round began that a majority confirmed
	observers  observers     // of elections
	forgetAt   time.Duration // when to look for observers that are gone
	contacts   contacts      // when the others last answered
	learners   learners      // the learners' progress
	placing    placing       // the change of replicas that is under way
	bequest    bequest       // the hand-over that has begun
	offers     offers        // offers of leadership
	comparison comparison    // the voters' tables
	breaches   breaches      // broken grants
}

// tableTime returns the table's time.
func (g *leadership) tableTime(now time.Duration) time.Duration { return g.base + now - g.began }

// quietUntil returns when table time will be due, by the leader's clock: the same in its whole leadership.
func (g *leadership) quietUntil(due time.Duration) time.Duration {
	return max(g.began+due-g.base, 1)
}

// QuietUntil returns when a leader's table is due to grant, by this node's clock. It is zero if the
// table may grant, or if this replica does not serve: only a leader knows table time (P27).
func (r *Replica) QuietUntil() time.Duration {
	if due := r.table.Settles(); due != 0 && r.Serving() {
		return r.leading.quietUntil(due)
	}
	return 0
}

// Surpass tells the replica of a revision that clients know of. A quiet table goes on above it (P17).
func (r *Replica) Surpass(known uint64) { r.floor = max(r.floor, known) }

// Raise tells the replica that its table is to go on above a revision, at most 2^53 less a trillion: a later mesh gives
// way to this one (C10). A leader logs it.
func (r *Replica) Raise(above uint64) { r.above = max(r.above, above) }

// Calm tells the replica that its table need be quiet no longer, by an operator's word (C5). A leader logs that.
func (r *Replica) Calm() { r.calm = true }

// quietTimeEvery is how often a leader logs table time, at least, while the table is quiet (P27).
const quietTimeEvery = ElectionTimeout / 2

// timeDue reports whether an entry is due that carries nothing but table time, so that leaders that
// keep changing do not make the quiet time endless: each begins with the time that is logged.
func (g *leadership) timeDue(quiet bool, now time.Duration) bool {
	return quiet && now-g.timeAt >= quietTimeEvery
}

// again reports whether what was last tried then, zero if never, is to be tried now.
func again(last, now time.Duration) bool { return last == 0 || now-last >= ElectionTimeout }

// seal is how a leader learns that the others know which replicas there are. A change of
// replicas is committed before the followers know that it is, and each counts votes by what
// it knows: if the leader were lost at that moment, the rest might wait for the vote of
// a replica that is gone for good. An entry that is appended after the change was applied
// tells of its commit, and a follower that has confirmed the entry knows of it.
type seal struct {
	asked bool   // an entry is on its way into the log
	index uint64 // of that entry; zero: it is not there yet
}

// entry returns the entry, and whether it is in the log.
func (s *seal) entry() (index uint64, logged bool) { return s.index, s.index != 0 }

// wanted reports whether an entry is to be appended for it.
func (s *seal) wanted() bool { return !s.asked && s.index == 0 }

// appended notes the first entry that was appended since the change.
func (s *seal) appended(index uint64) {
	if s.index == 0 {
		s.index = index
	}
}

// Renewal is a client's question whether its session lives. Ref comes back in the Answer.
// After is the number before the first result that the client misses: see Table.Results. Abandoned
// are its commands that nobody waits for, and that have had no answer: Cancel, Release, End, Drop, Downgrade or Close (P12).
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
	Session  shard.SessionID
	Ref      uint64 // the Renewal's
	Alive    bool
	Revision uint64        // of the table; "unknown" says nothing of a record that was opened later (P13)
	Results  []shard.Event // what the session was told and has not acknowledged: see Table.Results
	More     bool          // there is more behind the last of them
	// Broken are the breaches of the session (P49). Of an Answer that nobody asked for, with Ref zero, nothing else counts.
	Broken []shard.Breach
}

// maxResults is how many results one answer repeats.
const maxResults = 64

// Submit takes a client's command, raw being its wire form. It returns ErrNotServing if this
// replica cannot take it. A nil result is no promise: the command is appended soon or comes back as
// Dropped, but it is discarded silently if its session is expiring, the batch is full, or the replica
// stops itself. A client that gets no answer retries.
func (r *Replica) Submit(now time.Duration, cmd shard.Command, raw []byte) error {
	r.now = now
	g := &r.leading
	if !g.serving {
		return ErrNotServing
	}
	id, number := shard.ClientOf(cmd)
	if !g.leases.hear(id, now) {
		return nil // expiring: no answer, as if it had come after (P4)
	}
	if r.batch.full() {
		return nil // nothing can be appended for now; its client asks again
	}
	if c, fixes := cmd.(shard.Fix); fixes && r.table.Expects(id, number) {
		g.leases.fixing(id, r.now, c.Hold, number)
	}
	r.batch.add(raw, Dropped{id, number})
	if r.batch.fillsEntry() {
		r.propose()
	}
	r.dirty = true
	return nil
}

// Renew takes a renewal. It returns ErrNotServing if this replica cannot answer it. Otherwise an
// Answer follows; but none does if a majority stays silent or leadership is lost, if the batch has
// no room for the abandoned commands, or if the session is expiring.
func (r *Replica) Renew(now time.Duration, q Renewal) error {
	r.now = now
	g := &r.leading
	if !g.serving {
		return ErrNotServing
	}
	abandoned, bytes := r.abandoned(q)
	if !r.batch.fits(bytes) || !g.leases.hear(q.Session, now) {
		return nil // without room for them the session is not renewed (P12)
	}
	for _, a := range abandoned {
		_ = r.Submit(r.now, a.Command, a.Raw) // it serves
	}
	q.Abandoned = nil
	g.reads.renewal(q)
	r.recall(q.Session) // beside the round: where links are slow, one after the other costs a short lease
	r.dirty = true
	return nil
}

// Query is a client's question who uses a resource. Ref comes back in the View.
type Query struct {
	Node  uint64 // the client's
	Ref   uint64
	Key   string
	After uint64 // the stamp of the last use that the client knows; zero: none
}

// View is what a confirmed leader answers to a Query.
type View struct {
	Node     uint64
	Ref      uint64
	Revision uint64
	Refs     []shard.Ref
	More     bool // there are more after the last of them
}

// maxRefs is how many uses one View has, at most.
const maxRefs = 256

// Query takes a question. It returns ErrNotServing if this replica cannot answer it. Otherwise a View follows; but
// none does if a majority stays silent or leadership is lost.
func (r *Replica) Query(now time.Duration, q Query) error {
	r.now = now
	if !r.leading.serving {
		return ErrNotServing
	}
	r.leading.reads.query(q)
	r.dirty = true
	return nil
}

// abandoned returns what a renewal names as abandoned and the table has not seen, and its
// length. A session without a record has none: it is answered "unknown", and that ends
// them all.
func (r *Replica) abandoned(q Renewal) (unseen []Abandoned, bytes int) {
	for _, a := range q.Abandoned {
		if id, number := shard.ClientOf(a.Command); id == q.Session && r.table.Expects(id, number) {
			unseen, bytes = append(unseen, a), bytes+len(a.Raw)
		}
	}
	return unseen, bytes
}

// appendOwn appends a command of the leader's own.
func (r *Replica) appendOwn(cmd shard.Command) {
	r.batch.addOwn(cmd)
	r.dirty = true
}

// logSilence appends for how long sessions were not heard.
func (r *Replica) logSilence(all []shard.Silent) {
	for _, s := range all {
		s.Term = r.term
		r.appendOwn(s)
	}
}

// recall appends that a session was heard again, if the log says that it was silent, and nothing is on its way that
// undoes that (P5).
func (r *Replica) recall(id shard.SessionID) {
	if r.leading.leases.recall(id) {
		r.appendOwn(shard.Silent{Session: id, For: 0, Term: r.term})
		r.batch.unblock() // behind the entry before it, the answer would take two round trips
	}
}

// propose appends the batch. While leadership moves it is held (P22).
func (r *Replica) propose() {
	g := &r.leading
	if !g.serving {
		return
	}
	if r.members.joint() && !slices.Contains(r.members.conf.Voters, r.cfg.ID) {
		// It was elected during a change of voters that takes its own vote. Those that stay may
		// need its vote to finish the change, and would not get it if its log were longer.
		return
	}
	for commands := r.batch.next(); len(commands) > 0; commands = r.batch.next() {
		if !r.proposeEntry(commands) {
			return
		}
		r.batch.appended()
	}
	if g.timeDue(r.table.Settles() != 0, r.now) && !r.proposeEntry(nil) {
		return
	}
	if !r.batch.pending() && g.seal.wanted() && !r.cfg.Points.Taken(point.LateSeal) && r.rn.Propose(nil) == nil {
		g.seal.asked = true // else at the next tick
	}
}

// proposeEntry appends an entry with table time and commands, of which there may be none.
func (r *Replica) proposeEntry(commands []byte) (appended bool) {
	g := &r.leading
	data := wire.AppendUint(make([]byte, 0, len(commands)+12), entryVersion)
	data = wire.AppendUint(data, uint64(g.tableTime(r.now)))
	data = append(data, commands...)
	if err := r.rn.Propose(data); err != nil {
		if !errors.Is(err, raft.ErrProposalDropped) {
			r.log.Warn("raft refused an entry for the log", "error", err)
		}
		return false
	}
	g.seal.asked, g.timeAt = true, r.now
	return true
}

// sealed reports whether a majority of the voters, in both halves of a joint configuration, knows
// which replicas there are, and so does every voter that answers.
func (r *Replica) sealed() bool {
	index, sealed := r.leading.seal.entry()
	if !sealed {
		return false
	}
	known := make(map[uint64]bool)
	r.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		switch {
		case pr.Match >= index:
			known[id] = true
		case id != r.cfg.ID && r.members.votes(id) && r.answers(id):
			sealed = false
		}
	})
	return sealed && r.members.agree(func(id uint64) bool { return known[id] })
}

// readIndex begins a round for what came since the last one began.
func (r *Replica) readIndex() {
	if !r.leading.serving {
		return
	}
	if ctx, begun := r.leading.reads.begin(r.now, r.term, r.targets); begun {
		r.rn.ReadIndex(ctx)
	}
}

// confirmed ends a round: a majority still followed this leader after the round began.
func (r *Replica) confirmed(ctx []byte, out *Output) {
	done := r.leading.reads.end(ctx, r.term)
	r.leading.sure = max(r.leading.sure, done.targets)
	for _, q := range done.renewals {
		if r.leading.leases.confirmed(q) {
			r.answer(q, out)
		} else {
			r.recall(q.Session) // it fell silent after its renewal had come
		}
	}
	for _, q := range done.queries {
		refs, more := r.table.Refs(q.Key, q.After, maxRefs)
		out.Views = append(out.Views, View{q.Node, q.Ref, r.table.Revision(), refs, more})
	}
	for _, q := range done.observes {
		r.observed(q, out)
	}
	r.inspected(done.inspects, out)
	for _, id := range done.expiries {
		if r.leading.leases.expire(id, r.now) {
			r.appendOwn(shard.Expire{Session: id, Term: r.term})
		}
	}
}

// answer answers a renewal with what the table knows.
func (r *Replica) answer(q Renewal, out *Output) {
	most := maxResults
	if r.cfg.Points.Taken(point.FewResults) {
		most = 1
	}
	results, more := r.table.Results(q.Session, most, q.After)
	out.Answers = append(out.Answers, Answer{
		Session: q.Session, Ref: q.Ref, Alive: r.table.Has(q.Session), Revision: r.table.Revision(), Results: results, More: more,
		Broken: r.table.Breaches(q.Session),
	})
}

// serve lets a leader serve, if it may by now: an entry of its own term is applied (P19).
func (r *Replica) serve(out *Output) {
	switch {
	case r.role != raft.StateLeader || r.leading.serving || r.applied.term != r.term:
	case r.cfg.Points.Taken(point.LateAccession):
		r.dirty = true // raft may have nothing more to say
	default:
		r.becomeLeader(out)
	}
}

// becomeLeader begins to serve.
func (r *Replica) becomeLeader(out *Output) {
	r.leading = leadership{
		serving: true, began: r.now, base: r.table.Now(), timeAt: r.now,
		leases: newLeases(r.cfg.Watch), reads: newReads(), contacts: newContacts(), observers: newObservers(r.table.Settles() != 0),
		learners: make(learners), comparison: comparison{words: make(map[uint64]checksum)}, breaches: newBreaches(),
	}
	r.leading.reads.sign = true // how late are the others? The owner may be one of them
	r.farewells.restart()
	for _, s := range r.table.Leases() {
		r.leading.leases.inherit(s, r.now, r.cfg.Rho)
	}
	r.inheritBreaches(out)
	out.Serving = true
	r.tell(env.Served{Serving: true})
	r.log.Debug("became leader", "term", r.term, "revision", r.table.Revision())
	r.logVanished(r.members.known()...) // as it has heard before it led
}

// stepDown ends a leadership. What was not appended goes back to its clients.
func (r *Replica) stepDown(out *Output) {
	if r.leading.serving {
		r.tell(env.Served{Serving: false})
		out.Dropped = append(out.Dropped, r.batch.reset()...)
		r.leading = leadership{}
	}
}

// note keeps the leases up to date with what the table just did.
func (r *Replica) note(events []shard.Event, out *Output) {
	ls := &r.leading.leases
	for _, e := range events {
		switch e.What {
		case shard.Opened:
			ls.open(e.Session, e.TTL, r.now)
		case shard.Ended:
			ls.end(e.Session)
		case shard.Refused:
			record, _ := r.table.Lease(e.Session)
			ls.refused(e.Session, e.Number, record.TTL)
		case shard.Fixed:
			ls.fix(e.Session, r.now, e.TTL)
		case shard.Breached:
			r.broken(shard.Breach{Key: e.Key, Token: e.Token}, e.Session, out)
		case shard.Led:
			r.leading.observers.changed(e.Key)
		case shard.Reheard:
			for _, q := range ls.reheard(e.Session) {
				r.answer(q, out)
			}
		}
	}
}

// supervise is the leader's part of a tick, after which Ready is due in any case.
func (r *Replica) supervise() {
	g := &r.leading
	g.reads.giveUp(r.now)
	if r.now >= g.forgetAt {
		g.forgetAt = r.now + forgetEvery
		g.observers.forget(r.now)
	}
	if g.leases.due(r.now) {
		r.review()
	}
	r.settle()
	if r.table.Revision() < r.above && again(g.raiseAt, r.now) {
		g.raiseAt = r.now
		r.appendOwn(shard.Settle{Term: r.term, Floor: r.above})
	}
	r.walk()
	if len(r.members.former) > 0 && r.sealed() {
		r.members.former = nil
	}
	r.place()
}

// settle appends that a quiet table may grant, once that is due, or an operator says so.
func (r *Replica) settle() {
	g, due := &r.leading, r.table.Settles()
	if due == 0 || !r.calm && g.tableTime(r.now) < due || !again(g.settleAt, r.now) {
		return
	}
	g.settleAt = r.now
	if r.calm {
		r.appendOwn(shard.Calm{Term: r.term, Floor: r.floor})
	} else {
		r.appendOwn(shard.Settle{Term: r.term, Floor: r.floor})
	}
}

// walk appends that the queue of a resource is to be gone on with, if it was too long for one step.
func (r *Replica) walk() {
	if key := r.table.Walks(); key != "" && !r.batch.pending() {
		r.appendOwn(shard.Walk{Key: key, Term: r.term})
	}
}

// review logs the silences that are due, and asks a majority about the leases that ran out.
func (r *Replica) review() {
	silent, over := r.leading.leases.review(r.now, r.cfg.Points.Taken(point.EarlySilence))
	r.leading.reads.expiry(over...)
	r.logSilence(silent)
}

// recordSilence logs for how long the sessions that hold or wait were silent, before another
// replica leads. Otherwise that would count from zero, and a dead holder live on (P5). It reports whether it
// logged any.
func (r *Replica) recordSilence() (logged bool) {
	busy := func(id shard.SessionID) bool {
		record, _ := r.table.Lease(id)
		return record.Busy
	}
	silent := r.leading.leases.handOver(r.now, busy)
	r.logSilence(silent)
	r.batch.unblock() // nothing is appended once the transfer has begun
	r.propose()
	return len(silent) > 0
}

// stalled: this leader stood still for d.
func (r *Replica) stalled(d time.Duration) {
	if g := &r.leading; g.serving {
		g.leases.stalled(r.now, d)
		g.learners.stalled(r.now, d)
		g.reads.stalled()
		g.contacts.stalled()
	}
}

package replica

import (
	"encoding/binary"
	"time"

	"github.com/lockmesh/mesh/shard"
)

// reads are what a leader may answer, or decide, only after a majority has confirmed that it still
// leads: renewals of sessions, queries, and the end of leases that ran out (P2). All that came since one
// round began share the next.
type reads struct {
	waiting round // for the next round
	sign    bool  // the next round asks the others for a sign of life
	rounds  map[uint64]*round
	last    uint64        // the number of the last round
	vain    time.Duration // when the first round began since one was confirmed; zero: none did
}

// lateAfter is for how long a leader tries in vain to be confirmed in time before it hands over.
const lateAfter = 4 * ElectionTimeout

// round is one ReadIndex and what it is to confirm.
type round struct {
	begun    time.Duration
	targets  int // so many targets had come when it was begun
	renewals []Renewal
	queries  []Query
	observes []Observe
	expiries []shard.SessionID // leases that ran out
	inspects []Inspect
}

func newReads() reads { return reads{rounds: make(map[uint64]*round)} }

// underWay reports whether a round is under way.
func (rs *reads) underWay() bool { return len(rs.rounds) > 0 }

// renewal has q answered after the next round.
func (rs *reads) renewal(q Renewal) { rs.waiting.renewals = append(rs.waiting.renewals, q) }

// query has q answered after the next round.
func (rs *reads) query(q Query) { rs.waiting.queries = append(rs.waiting.queries, q) }

// observe has q answered after the next round.
func (rs *reads) observe(q Observe) { rs.waiting.observes = append(rs.waiting.observes, q) }

// inspect has q answered after the next round.
func (rs *reads) inspect(q Inspect) { rs.waiting.inspects = append(rs.waiting.inspects, q) }

// expiry has the end of these leases decided after the next round.
func (rs *reads) expiry(ids ...shard.SessionID) {
	rs.waiting.expiries = append(rs.waiting.expiries, ids...)
}

// begin begins a round for what came since the last one began, if anything did. It returns the
// context for raft.
func (rs *reads) begin(now time.Duration, term uint64, targets int) (ctx []byte, begun bool) {
	w := &rs.waiting
	if len(w.renewals) == 0 && len(w.queries) == 0 && len(w.observes) == 0 && len(w.inspects) == 0 && len(w.expiries) == 0 && !rs.sign {
		return nil, false
	}
	if rs.last++; rs.vain == 0 {
		rs.vain = now
	}
	rs.rounds[rs.last] = &round{now, targets, w.renewals, w.queries, w.observes, w.expiries, w.inspects}
	*w, rs.sign = round{}, false
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, term), rs.last), true
}

// end ends the round with that context: a majority still followed this leader after it began. A
// round of another term, or one that was given up, confirms nothing (P2).
func (rs *reads) end(ctx []byte, term uint64) (done round) {
	number := binary.BigEndian.Uint64(ctx[8:])
	if rd := rs.rounds[number]; rd != nil && binary.BigEndian.Uint64(ctx) == term {
		delete(rs.rounds, number)
		rs.vain = 0
		done = *rd
	}
	return done
}

// late reports whether no round was confirmed in time for lateAfter, and some began: to a majority this leader
// is alive, but all that it says or hears is late.
func (rs *reads) late(now time.Duration) bool { return rs.vain != 0 && now-rs.vain >= lateAfter }

// giveUp drops rounds that no majority answered for an election timeout. Another one follows, so that it
// shows whether the next is answered in time.
func (rs *reads) giveUp(now time.Duration) {
	for n, rd := range rs.rounds { // order-free: each is judged alone
		if now-rd.begun >= ElectionTimeout {
			delete(rs.rounds, n)
			rs.sign = true
		}
	}
}

// stalled: the leader stood still. A round that began before proves no silence after it (P10), and nothing
// of how late the others are.
func (rs *reads) stalled() {
	rs.vain = 0
	for _, rd := range rs.rounds { // order-free: each is treated alike
		rd.expiries = nil
	}
}

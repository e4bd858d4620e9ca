package members

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Report is what a node tells of its replicas. With what the node has heard of others it is its
// status, which a msgpack library writes and reads: see wire.Marshal.
type Report struct {
	Led     []int   // shards whose leader serves here
	Rest    []int   // of them, those that have all replicas that they should, in step
	Follows []int   // shards whose leader is elsewhere, and is heard here: requests to it are relayed (P15)
	Voters  []Voter // the nodes that have a vote in any of all these, by ID
	Counted []Voter // in a status: the voters that the leaders of the shards in Follows have reported to this node
	Quiet   []Quiet // of Led: those that grant nothing yet (P27)
	Rival   Rival   // in a status for a client
}

// Rival is another node of the receiver's name that is connected with the sender; a Node of zero: there is none. Lives:
// the sender has heard from that node after it came to know the receiver.
type Rival struct {
	Node  uint64
	Addr  string
	Lives bool
}

// Quiet is a shard that grants nothing yet. Until is when it is expected to, by the clock of the node
// that keeps the report; in a status, how long that is from now.
type Quiet struct {
	Shard int
	Until time.Duration
}

// Voter is a node that has a vote in some shard, and its name.
type Voter struct {
	Node uint64
	Name string
}

// Limits of a status.
const (
	maxStatus = transport.MaxFrame // bytes
	maxVoters = 1 << 15
)

// Equal reports whether two reports of one node say the same, Counted and Rival apart, which only a status has.
func (r Report) Equal(o Report) bool {
	return slices.Equal(r.Led, o.Led) && slices.Equal(r.Rest, o.Rest) && slices.Equal(r.Follows, o.Follows) && slices.Equal(r.Voters, o.Voters) && slices.Equal(r.Quiet, o.Quiet)
}

// check returns what of a report is beyond its limits, in a mesh of so many shards.
func (r *Report) check(shards int) error {
	for _, list := range [][]int{r.Led, r.Rest, r.Follows} {
		for _, sh := range list {
			if sh < 0 || sh >= shards || len(list) > shards {
				return fmt.Errorf("%w: a status names an unknown shard", wire.ErrMalformed)
			}
		}
	}
	for _, q := range r.Quiet {
		if q.Shard < 0 || q.Shard >= shards || q.Until <= 0 || q.Until > shard.MaxDuration || len(r.Quiet) > shards {
			return fmt.Errorf("%w: a status names an invalid quiet shard", wire.ErrMalformed)
		}
	}
	if len(r.Rival.Addr) > shard.MaxName {
		return fmt.Errorf("%w: a status names an invalid node", wire.ErrMalformed)
	}
	for _, list := range [][]Voter{r.Voters, r.Counted} {
		for _, v := range list {
			if v.Node == 0 || len(v.Name) > shard.MaxName || len(list) > maxVoters {
				return fmt.Errorf("%w: a status names an invalid voter", wire.ErrMalformed)
			}
		}
	}
	return nil
}

// readStatus reads the status of a node in a mesh of so many shards.
func readStatus(body []byte, shards int) (r Report, err error) {
	if err := wire.Unmarshal(body, &r, maxStatus, max(shards, maxVoters)); err != nil {
		return Report{}, err
	}
	return r, r.check(shards)
}

// status is what another node has reported, and when that came.
type status struct {
	Report
	at time.Duration
}

// statusEvery is the time between two statuses that a node of the core sends to another one, if there are up to 50 of
// them. To a client it sends one when it has changed, or when the client asks, but none sooner than this after the one
// before.
const statusEvery = time.Second

// askEvery is the time between two statuses of a client, which ask for one; of one that is not ready yet, or leaves, it
// is statusEvery.
const askEvery = 5 * time.Second

// every returns the time between two statuses of this node.
func (m *Machine) every() time.Duration {
	switch {
	case m.core:
		return max(statusEvery, time.Duration(len(m.statuses))*20*time.Millisecond)
	case !m.ready || m.leaving:
		return statusEvery
	}
	return askEvery
}

// fresh returns for how long the status of another node counts.
func (m *Machine) fresh() time.Duration {
	if m.core {
		return 3 * m.every()
	}
	return 3 * askEvery
}

// Reported reports what this node's replicas are now, and in how many shards it is to vote and does not yet. Other
// nodes are told of it at the next Tick.
func (m *Machine) Reported(now time.Duration, r Report, lacks int, out []Output) []Output {
	return m.input(now, out, func() { m.own, m.lacks, m.statusAt = r, lacks, now })
}

// Status takes in the body of another node's SendStatus. It fails if that is malformed.
func (m *Machine) Status(now time.Duration, from transport.ID, body []byte, out []Output) ([]Output, error) {
	if !m.joined {
		return out, nil // the sender was faster, and sends it again
	}
	r, err := readStatus(body, m.mesh.Shards)
	if err != nil {
		return out, err
	}
	for i := range r.Quiet {
		r.Quiet[i].Until += now
	}
	return m.input(now, out, func() {
		if peer, connected := m.connected[from]; connected {
			peer.MeshID = m.mesh.ID // only members report, whatever the peer said before it was one
			m.connected[from] = peer
			m.introduce(peer)
		}
		switch o := m.members[from]; {
		case o == nil:
		case o.seated:
			m.reports(from, r)
		case m.core && o.connected:
			m.asks(o)
		}
	}), nil
}

// reports takes in the status of a node that has a seat.
func (m *Machine) reports(from transport.ID, r Report) {
	_, before := m.statuses[from]
	m.statuses[from] = status{r, m.now}
	m.assess()
	// assess has dropped it if its sender is not connected, or if this node's own status is long overdue.
	if _, counts := m.statuses[from]; counts && !before && m.core {
		m.emit(SendStatus{To: from, Body: m.status()}) // the peer is new here, and waits for it
	}
}

// asks: a client asks for this node's status.
func (m *Machine) asks(o *member) {
	first := o.heard == 0
	if o.heard = m.now; first || m.now >= o.told+statusEvery {
		r := m.report()
		r.Rival = m.rivalOf(o)
		m.tell(o, r)
		return
	}
	o.owed = true
	m.passAt = min(m.passAt, o.told+statusEvery)
}

// inform sends this node's status to the clients that are owed it: to all, once it has changed.
func (m *Machine) inform() {
	r := m.report()
	changed := !r.Equal(m.brief) || !slices.Equal(r.Counted, m.brief.Counted)
	if m.brief = r; !changed && m.now < m.passAt {
		return
	}
	m.passAt = env.Never
	all := m.peers()
	bear := make(map[string]int, len(all)) // how many bear a name
	bear[m.cfg.Self.Name]++
	for _, o := range all {
		bear[o.Name]++
	}
	for _, o := range all {
		if o.seated {
			continue
		}
		switch o.owed = o.owed || changed; {
		case !o.owed:
		case m.now < o.told+statusEvery:
			m.passAt = min(m.passAt, o.told+statusEvery)
		default:
			if r.Rival = (Rival{}); bear[o.Name] > 1 {
				r.Rival = m.rivalOf(o)
			}
			m.tell(o, r)
		}
	}
}

// tell sends a client a report.
func (m *Machine) tell(o *member, r Report) {
	o.told, o.owed = m.now, false
	m.emit(SendStatus{To: o.ID, Body: m.encode(r)})
}

// rivalOf returns another node of a client's name: a client cannot see the others.
func (m *Machine) rivalOf(o *member) Rival {
	if o.Name == m.cfg.Self.Name {
		return Rival{uint64(m.cfg.Self.ID), m.cfg.Self.Addr, true}
	}
	for _, p := range m.namesakes(o.Name, o.ID) {
		return Rival{uint64(p.ID), p.Addr, p.heard > o.since || m.statuses[p.ID].at > o.since}
	}
	return Rival{}
}

// ask sends a node of the core this client's status, for which that node sends its own.
func (m *Machine) ask(o *member) { m.emit(SendStatus{To: o.ID, Body: m.status()}) }

// sendStatus sends this node's status to all nodes of the core that are connected.
func (m *Machine) sendStatus() {
	m.statusAt = m.now + m.every()
	body := m.status()
	for _, o := range m.peers() {
		if !o.seated {
			continue
		}
		m.emit(SendStatus{To: o.ID, Body: body})
		if m.leaving {
			m.emit(SendLeaving{To: o.ID}) // the first may have been lost
		}
	}
	m.assess()
}

// status returns this node's status.
func (m *Machine) status() []byte { return m.encode(m.report()) }

// report returns this node's report, with what it has heard of leaders.
func (m *Machine) report() Report {
	r := m.own
	r.Follows, r.Counted = m.follows(r.Follows)
	return r
}

func (m *Machine) encode(r Report) []byte {
	r.Quiet = slices.Clone(r.Quiet)
	for i := range r.Quiet {
		r.Quiet[i].Until = max(r.Quiet[i].Until-m.now, time.Millisecond) // it is late
	}
	return wire.Marshal(r)
}

// follows returns those of the shards whose leaders have reported to this node, and the voters
// that these leaders count: only a leader knows which nodes some voter may count still (P30).
func (m *Machine) follows(shards []int) (heard []int, counted []Voter) {
	for _, id := range slices.Sorted(maps.Keys(m.statuses)) {
		s, leads := m.statuses[id], false
		for _, sh := range s.Led {
			if slices.Contains(shards, sh) && !slices.Contains(heard, sh) {
				heard, leads = append(heard, sh), true
			}
		}
		if leads {
			counted = append(counted, s.Voters...)
		}
	}
	slices.Sort(heard)
	slices.SortFunc(counted, func(a, b Voter) int { return cmp.Compare(a.Node, b.Node) })
	return heard, slices.Compact(counted)
}

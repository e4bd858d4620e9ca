package members

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Health is the state of the shards of the mesh, as far as a node has heard.
type Health struct {
	Settled         bool  // this node has been able to serve calls at some time: see package mesh
	Ready           bool  // it can now: every shard has a leader
	FullyReplicated bool  // NoMajority and UnderReplicated are empty, and every voter is connected
	NoMajority      []int // shards without a leader that this node has heard of
	UnderReplicated []int // the other shards that do not have, in step, as many voters as the core's list allows

	// Spare: every shard has a leader; and of each shard with a replica on this node all voters are in step; and of the
	// nodes that vote in any shard all are connected, and none leaves.
	Spare bool

	// QuietUntil is when the last quiet shard is expected to grant, by this node's clock; zero: none is
	// quiet (P27). What its leader last said of a shard counts, also when it has no leader any more.
	QuietUntil time.Duration
}

// shardState is what this node has heard of a shard.
type shardState struct {
	heard  bool // its leader serves, and reports to this node
	led    bool // heard; or a node that reports to this node hears the leader
	inStep bool // heard; and its leader reports all replicas that it should have, in step

	quiet time.Duration // heard: when the shard is expected to grant; zero: it may
}

// Health returns the state of the shards. The caller must not change its lists.
func (m *Machine) Health() Health { return m.health }

// assess makes Health of what the leaders last said, and forgets what they said too long ago.
func (m *Machine) assess() {
	// Every status that comes leads here: the slice is reused.
	m.shards = slices.Grow(m.shards[:0], m.mesh.Shards)[:m.mesh.Shards]
	clear(m.shards)
	own := m.own
	own.Follows = nil // whether these have leaders is to be heard from the leaders, or from other nodes
	m.count(own)
	lost := m.missesVoter(own)
	for id, s := range m.statuses { // order-free: sets are filled
		o := m.members[id]
		// The longer this node's own status is overdue, the older others' may be that arrived meanwhile.
		if o == nil || !o.connected || m.now-s.at > m.fresh()+m.statusAt-m.now {
			delete(m.statuses, id)
			continue
		}
		m.count(s.Report)
		lost = lost || m.missesVoter(s.Report)
	}
	health := Health{Settled: m.ready}
	for sh, s := range m.shards {
		switch {
		case !s.led:
			health.NoMajority = append(health.NoMajority, sh)
		case !s.inStep:
			health.UnderReplicated = append(health.UnderReplicated, sh)
		}
		if s.heard {
			m.quiet[sh] = s.quiet
		}
		health.QuietUntil = max(health.QuietUntil, m.quiet[sh])
	}
	health.Spare = m.spare(len(health.NoMajority) > 0 || lost)
	health.Ready = health.Settled && len(health.NoMajority) == 0
	health.FullyReplicated = len(health.NoMajority)+len(health.UnderReplicated) == 0 && !lost
	m.health = health
}

// spare returns Health.Spare, which it cannot be if something else is broken.
func (m *Machine) spare(broken bool) bool {
	leaves := func(v Voter) bool {
		o := m.members[transport.ID(v.Node)]
		return o != nil && o.leaving
	}
	behind := func(sh int) bool { return !m.shards[sh].inStep }
	if broken || m.leaving || slices.ContainsFunc(m.own.Led, behind) || slices.ContainsFunc(m.own.Follows, behind) {
		return false
	}
	return !m.anyReport(func(r Report) bool { return slices.ContainsFunc(r.Voters, leaves) })
}

// anyReport reports whether is holds for this node's report, or for one that another node sent.
func (m *Machine) anyReport(is func(r Report) bool) bool {
	if is(m.own) {
		return true
	}
	for _, s := range m.statuses { // order-free: any will do
		if is(s.Report) {
			return true
		}
	}
	return false
}

// count adds a report to what is known of the shards.
func (m *Machine) count(r Report) {
	for _, sh := range r.Led {
		m.shards[sh].led, m.shards[sh].heard = true, true
	}
	for _, sh := range r.Follows {
		m.shards[sh].led = true
	}
	for _, sh := range r.Rest {
		m.shards[sh].inStep = true
	}
	for _, q := range r.Quiet {
		// Two nodes may lead in their own eyes: the later end counts, whichever report comes first.
		m.shards[q.Shard].quiet = max(m.shards[q.Shard].quiet, q.Until)
	}
}

// missesVoter reports whether a voter is not connected. Its leader may not have noticed yet.
func (m *Machine) missesVoter(r Report) bool {
	return slices.ContainsFunc(r.Voters, func(v Voter) bool {
		o := m.members[transport.ID(v.Node)]
		return transport.ID(v.Node) != m.cfg.Self.ID && (o == nil || !o.connected)
	})
}

// predecessorVotes reports whether some shard still counts an earlier incarnation of this node
// as a voter (P30). A leader's own report is newer than what other nodes pass on: that is used
// only while some shard's leader does not report to this node.
func (m *Machine) predecessorVotes() bool {
	deaf := slices.ContainsFunc(m.shards, func(s shardState) bool { return !s.heard })
	earlier := func(v Voter) bool { return v.Name == m.cfg.Self.Name && transport.ID(v.Node) != m.cfg.Self.ID }
	return m.anyReport(func(r Report) bool {
		return slices.ContainsFunc(r.Voters, earlier) || deaf && slices.ContainsFunc(r.Counted, earlier)
	})
}

// arrive makes this node ready once it can serve: every shard has a leader that this node, or one that it hears, has
// heard of; this one votes where it should, and its predecessor nowhere; and no other node has its name.
func (m *Machine) arrive() {
	m.assess()
	rival, lives := m.rival()
	if rival != nil && lives && m.yields(rival.ID) {
		m.emit(NameTaken{By: *rival})
		return
	}
	if rival != nil || len(m.health.NoMajority) > 0 || m.lacks > 0 || m.predecessorVotes() {
		soon := 100 * time.Millisecond
		if !m.core {
			soon = statusEvery // no answer comes sooner
		}
		m.statusAt = min(m.statusAt, m.now+soon)
		return
	}
	m.ready, m.health.Settled, m.health.Ready = true, true, true
	m.emit(Ready{})
}

// rival returns another node of this one's name that this one is connected with, or that a node of the core is; or nil.
// It reports whether that one lives, as far as is known.
func (m *Machine) rival() (rival *env.Member, lives bool) {
	for _, o := range m.namesakes(m.cfg.Self.Name, m.cfg.Self.ID) {
		_, reports := m.statuses[o.ID]
		return &o.Member, reports || o.heard != 0
	}
	for _, id := range slices.Sorted(maps.Keys(m.statuses)) {
		if r := m.statuses[id].Rival; r.Node != 0 && transport.ID(r.Node) != m.cfg.Self.ID {
			if lives = r.Lives; rival == nil || lives {
				rival = &env.Member{ID: transport.ID(r.Node), Name: m.cfg.Self.Name, Addr: r.Addr}
			}
			if lives {
				break
			}
		}
	}
	return rival, lives
}

// namesakes returns the connected members of a name, except one. Those that are proven dead, as a predecessor at this
// node's address is, or leave, do not count.
func (m *Machine) namesakes(name string, except transport.ID) (all []*member) {
	for _, o := range m.members { // order-free: sorted below
		if o.Name == name && o.ID != except && o.ID != m.cfg.Self.ID && o.connected && !o.proven && !o.leaving {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *member) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// yields reports whether this node ends because of its rival. Of two that start together the one with the lower ID
// stays: it waits for the other one to end, which is not long.
func (m *Machine) yields(rival transport.ID) bool {
	patience := 2 * statusEvery
	if !m.core {
		patience = askEvery // what nodes of the core say of others is later
	}
	return rival < m.cfg.Self.ID || m.now >= m.joinedAt+patience
}

// Waiting says what a node that has joined waits for until it is ready.
func (m *Machine) Waiting() string {
	rival, _ := m.rival()
	switch missing := len(m.health.NoMajority); {
	case rival != nil:
		return "another node has this node's name"
	case missing > 0:
		return fmt.Sprintf("%d of %d shards have no leader that this node has heard of", missing, m.mesh.Shards)
	case m.lacks > 0:
		return fmt.Sprintf("%d shards do not count this node as a voter yet", m.lacks)
	case m.predecessorVotes():
		return "an earlier incarnation of this node is still a voter of some shards"
	}
	return "ready"
}

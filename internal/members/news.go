package members

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// leaderless is for how long shards have had no leader, and what was logged of that.
type leaderless struct {
	since  time.Duration // zero: all have one
	warned bool
}

// The states of a node of which a line is logged.
const (
	nodeJoined = "a node joined"
	nodeLeft   = "a node left, or is about to leave"
	nodeSilent = "a node is silent"
	nodeDied   = "a node died: another one answers at its address"
	nodeBack   = "a silent node is back"
)

// tellOf logs what has become of another node. Those that were there when this one joined are not news.
func (m *Machine) tellOf(o *member, l liveness) {
	was := o.said
	is := nodeJoined
	switch {
	case o.ID == m.cfg.Self.ID || l == doubted:
		return
	case o.state == env.Left || o.leaving:
		is = nodeLeft
	case o.proven:
		is = nodeDied
	case l == silent:
		is = nodeSilent
	case was == nodeSilent || was == nodeBack:
		is = nodeBack
	}
	o.said = is
	if is == was || was == "" && (is != nodeJoined || m.now < m.joinedAt+grace) {
		return
	}
	log := m.cfg.Logger.Info
	if is == nodeSilent || is == nodeDied {
		log = m.cfg.Logger.Warn
	}
	log(is, "name", o.Name, "addr", o.Addr, "id", o.ID.String())
}

// tellOfShards logs when shards have had no leader for the grace, and when all have one again.
func (m *Machine) tellOfShards() {
	switch without := m.health.NoMajority; {
	case !m.ready:
	case len(without) == 0:
		if m.leaderless.warned {
			m.cfg.Logger.Info("all shards have leaders again", "after", m.now-m.leaderless.since)
		}
		m.leaderless = leaderless{}
	case m.leaderless.since == 0:
		m.leaderless.since = m.now
	case !m.leaderless.warned && m.now-m.leaderless.since >= grace:
		m.leaderless.warned = true
		m.cfg.Logger.Warn("shards have no leader that this node has heard of: their keys cannot be locked",
			"count", len(without), "shards", slices.Clone(without[:min(len(without), 16)]))
	}
}

// tellOfQuiet logs when quiet time begins, as far as this node knows, and when it ends.
func (m *Machine) tellOfQuiet() {
	switch until := m.health.QuietUntil; {
	case until != 0 && m.quietSince == 0:
		m.quietSince = m.now
		m.cfg.Logger.Info("quiet time begins: no free key is granted until earlier leases are over", "for", max(until-m.now, 0).Round(time.Millisecond))
	case until == 0 && m.quietSince != 0:
		m.cfg.Logger.Info("quiet time is over: locks are granted", "after", (m.now - m.quietSince).Round(time.Millisecond))
		m.quietSince = 0
	}
}

package node

import (
	"cmp"
	"slices"

	"github.com/lockmesh/mesh/internal/members"
)

// report tells the membership loop what this node leads and follows, if that changed.
func (l *shardLoop) report() {
	var r members.Report
	for _, rep := range l.replicas {
		if l.core.fenced {
			break
		}
		if p, ok := rep.Leader(); rep.Serving() {
			r.Led = append(r.Led, rep.Shard())
			if rep.AtRest() && len(rep.Voters()) == l.voters() {
				r.Rest = append(r.Rest, rep.Shard())
			}
			if until := rep.QuietUntil(); until != 0 {
				r.Quiet = append(r.Quiet, members.Quiet{Shard: rep.Shard(), Until: until})
			}
		} else if ok && p.Node != l.node.id {
			r.Follows = append(r.Follows, rep.Shard())
		} else {
			continue
		}
		for _, p := range rep.Counted() {
			i, found := slices.BinarySearchFunc(r.Voters, p.Node, func(v members.Voter, node uint64) int { return cmp.Compare(v.Node, node) })
			if !found {
				r.Voters = slices.Insert(r.Voters, i, members.Voter{Node: p.Node, Name: p.Name})
			}
		}
	}
	lacks := 0
	if t := l.core.table; t != nil {
		if lacks = l.core.hosting.Lacks(); l.core.seat.Unseated() {
			lacks = len(t.Shards)
		}
	}
	if r.Equal(l.reported) && lacks == l.lacks {
		return
	}
	l.reported, l.lacks = r, lacks
	l.node.membership.post(func(m *membership) { m.carryOut(m.members.Reported(m.now, r, lacks, m.out)) })
}

// unreported is what shardLoop.lacks is before the node has reported in a mesh.
const unreported = -1

// voters returns how many voters each shard is to have, once every seat has a node.
func (l *shardLoop) voters() int {
	t := l.core.table
	return t.Params.Voters(len(t.Seats))
}

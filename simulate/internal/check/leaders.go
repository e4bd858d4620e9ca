package check

import (
	"fmt"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// leaders checks that a shard has at most one leader in each term: two would each grant the
// same keys.
type leaders struct {
	world World
	terms map[termName]transport.ID // looked up, never ranged over
	now   map[ShardName]leader      // the latest one
}

type leader struct {
	term uint64
	node transport.ID
}

type termName struct {
	ShardName
	term uint64
}

func (l *leaders) became(name ShardName, node transport.ID, b env.Became) {
	w := l.world
	w.Record(timeline.Moment{Kind: timeline.Role, Host: HostOf(w, node), Shard: name.Shard, Role: b.Role, Term: b.Term})
	if b.Role != "leader" {
		return
	}
	term := termName{name, b.Term}
	if first, ok := l.terms[term]; ok && first != node {
		w.Fail(fmt.Errorf("G1 leaders: in term %d, shard %d is led by the node on %s, and by the one on %s", b.Term, name.Shard, HostOf(w, first), HostOf(w, node)))
	}
	l.terms[term] = node
	if b.Term >= l.now[name].term {
		l.now[name] = leader{b.Term, node}
	}
}

// host returns where a shard's latest leader lives.
func (l *leaders) host(name ShardName) string { return HostOf(l.world, l.now[name].node) }

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
	now   map[ShardName]env.Became  // the latest leader
}

type termName struct {
	ShardName
	term uint64
}

func (l *leaders) became(shard ShardName, b env.Became) {
	w := l.world
	w.Record(timeline.Moment{Kind: timeline.Role, Host: HostOf(w, b.Replica), Shard: b.Shard, Role: b.Role, Term: b.Term})
	if b.Role != "leader" {
		return
	}
	name := termName{shard, b.Term}
	if first, ok := l.terms[name]; ok && first != b.Replica {
		w.Fail(fmt.Errorf("G1 leaders: in term %d, shard %d is led by the node on %s, and by the one on %s", b.Term, b.Shard, HostOf(w, first), HostOf(w, b.Replica)))
	}
	l.terms[name] = b.Replica
	if b.Term >= l.now[shard].Term {
		l.now[shard] = b
	}
}

// host returns where a shard's latest leader lives.
func (l *leaders) host(shard ShardName) string { return HostOf(l.world, l.now[shard].Replica) }

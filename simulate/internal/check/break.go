package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// What operators break (P49). A table breaks a grant only if an operator has called for that, and a holder is told that its grant
// is broken only if a table has broken it. That nobody else has the key before the holder has stopped is judged as for all holds:
// the holder's belief ends early, and nobody may believe in a grant that a table frees. A broken grant is free in time, even if its
// holder is silent and leaders change.

// Breaks implements env.Clients.
func (h clients) Breaks(_ transport.ID, key string, token uint64) {
	k := h.key(key)
	if k.breaks == nil {
		k.breaks = make(map[uint64]bool)
	}
	k.breaks[token] = true
}

// Broken implements env.Holder.
func (r *recorder) Broken() {
	x := r.living()
	if x == nil {
		return // its actor has not come back from its call yet
	}
	x.broken = true
	f, key := &r.history.inside.queue, strings.TrimSuffix(x.key.key, env.UsesOf(""))
	if _, broken := f.broken[tokenName{key, x.token}]; !broken {
		r.history.world.Fail(fmt.Errorf("P49 told: %v is told that it was broken, and no table has broken it", x))
	}
}

// brokenUp: a table has broken a grant.
func (f *fifo) brokenUp(name ShardName, k *keyQueue, r requestName, d shard.Decision) {
	if c := f.h.keys[d.Key]; c == nil || !c.breaks[d.Token] {
		f.world.Fail(fmt.Errorf("P49 break: shard %d breaks token %d of %q, and nobody has called for that", name.Shard, d.Token, d.Key))
	}
	f.broken[tokenName{d.Key, d.Token}] = f.world.Now()
	if !k.over {
		f.h.inside.late.broken(name, d)
	}
}

// mended: what was broken is free.
func (f *fifo) mended(name ShardName, d shard.Decision) {
	if _, broken := f.broken[tokenName{d.Key, d.Token}]; !broken {
		return
	}
	if c := f.h.keys[d.Key]; c != nil {
		c.freed = max(c.freed, f.world.Now())
	}
	f.h.inside.late.mended(name, d)
}

// brokenHold is a broken grant that is held.
type brokenHold struct {
	key        string
	token      uint64
	session    shard.SessionID
	leadership int // in which it was broken
	read       time.Duration
}

func (l *late) broken(name ShardName, d shard.Decision) {
	s := l.of(name)
	b := brokenHold{d.Key, d.Token, d.Session, len(s.leaderships), 0}
	if r := s.current(); r != nil {
		b.leadership, b.read = len(s.leaderships)-1, r.reads()
	}
	s.broken = append(s.broken, b)
}

func (l *late) mended(name ShardName, d shard.Decision) {
	s := l.of(name)
	for i, b := range s.broken {
		if b.key == d.Key && b.token == d.Token {
			l.judgeBroken(s, b)
			s.broken = append(s.broken[:i], s.broken[i+1:]...)
			return
		}
	}
}

// renamedBroken: a guest that has a broken grant is carried by another node now.
func (l *late) renamedBroken(name ShardName, d shard.Decision) {
	s := l.of(name)
	for i := range s.broken {
		if b := &s.broken[i]; b.key == d.Key && b.token == d.Token {
			b.session = d.Session
		}
	}
}

// judgeBroken fails the run if a leader has kept a broken grant for too long. A grant of fixed length lasts to its end.
func (l *late) judgeBroken(s *offices, b brokenHold) {
	r, life := s.current(), s.lives[b.session]
	if r == nil || life.ttl == 0 || l.disturbed() {
		return
	}
	from := r.from
	if len(s.leaderships)-1 == b.leadership {
		from = max(from, b.read)
	}
	if over := r.reads() - from - life.ttl - r.process.StillWaits(); over > grace {
		l.world.Fail(fmt.Errorf("P49 late: shard %d keeps %q with token %d, which is broken: its leader knows that for %v, and the lease lasts %v",
			s.shard, b.key, b.token, life.ttl+over, life.ttl))
	}
}

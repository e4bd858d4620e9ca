package simulate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate"
)

// Promise: G6, whoever extends a lock is answered when it is unlocked meanwhile.
// Method: two extend a lock of fixed length at once, so that one waits for the other; what
// they send is lost, and a third unlocks it. The second was never told.
func TestExtendsEndWithTheirLock(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		var l *mesh.Lock
		var err error
		s.on(s.ann, func(ctx context.Context, n *mesh.Node) { l, err = n.Lock(ctx, "k", mesh.MaxHold(s.ttl)) })
		s.must(err == nil, "ann locks: %v", err)
		s.rule(func(from, _ string, w word) simulate.Verdict {
			if _, claims := w.command.(shard.Claim); from == s.ann && claims {
				return simulate.Drop
			}
			return simulate.Pass
		})
		ended := 0
		for range 2 {
			s.Host(s.ann).Go("extends", func(ctx context.Context) {
				if err := l.Extend(ctx, s.ttl); errors.Is(err, mesh.ErrClosed) {
					ended++
				}
			})
		}
		s.sleep(s.draw(100*time.Millisecond, time.Second))
		s.on(s.ann, func(ctx context.Context, _ *mesh.Node) { err = l.Unlock(ctx) })
		s.must(err == nil, "ann unlocks: %v", err)
		s.within(s.ttl, "both are told", func() bool { return ended == 2 })
	}})
}

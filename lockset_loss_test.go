package mesh

import (
	"context"
	"errors"
	"testing"

	"github.com/lockmesh/mesh/simulate"
)

// Promise: P36: the loss of one lock ends the contexts of its set, with the cause ErrLost; the other locks stay held until Unlock.
func TestOneLossEndsTheSetsContext(t *testing.T) {
	alone(t, func(ctx context.Context, n *Node, _ *simulate.Host) {
		s, err := n.NewSession(ctx)
		if err != nil {
			t.Fatal(err)
		}
		a, err := n.Lock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Lock(ctx, "b") // of a session of its own, that can be lost alone
		if err != nil {
			t.Fatal(err)
		}
		set := &LockSet{locks: []*Lock{a, b}, base: ctx}
		held, derived := set.Context(), set.WithContext(ctx)
		if set.Err() != nil || held.Err() != nil || derived.Err() != nil {
			t.Errorf("before: %v, %v, %v", set.Err(), held.Err(), derived.Err())
		}
		s.Abandon()
		for name, got := range map[string]error{
			"the context": context.Cause(held), "a derived one": context.Cause(derived), "the set": set.Err(), "a later context": context.Cause(set.WithContext(ctx)),
		} {
			if got != ErrLost {
				t.Errorf("after one loss, %s: %v, want ErrLost", name, got)
			}
		}
		if a.Err() != nil {
			t.Errorf("after the loss of another one, a lock is %v", a.Err())
		}
		if err := set.Unlock(ctx); !errors.Is(err, ErrLost) || a.Err() != ErrClosed {
			t.Errorf("Unlock returns %v, and what was held is %v", err, a.Err())
		}
		if l, err := n.TryLock(ctx, "a"); err != nil {
			t.Errorf("the other key is held after all: %v", err)
		} else if err := l.Unlock(ctx); err != nil {
			t.Error(err)
		}
	})
}

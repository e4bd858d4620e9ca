package node

import (
	"context"
	"testing"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

func pulls(key string) client.Request {
	return client.Request{Key: key, Mode: client.Operates, Operation: &shard.Operation{Op: shard.Pull, User: "u", Alone: true}}
}

// serves answers each command as a shard would: a pull is granted with token 7, and has made a use with stamp 9 when it ends.
func (b *bench) serves(skips bool) {
	b.play = func(p parcel) {
		switch p.command().(type) {
		case shard.Begin:
			e := shard.Event{What: shard.Granted, Token: 7}
			if skips {
				e = shard.Event{What: shard.Skipped, Token: 8}
			}
			b.mail(nodeB, told(p, message.Reply{Event: e, Revision: 8}))
		case shard.End:
			b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Done, Token: 9}, Revision: 9}))
		case shard.Drop:
			b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 10}))
		}
	}
}

// Promise: P39: who pulls gets an operation or a use, and after the operation's end a use.
func TestOperate(t *testing.T) {
	b := newBench(t, Config{})
	s := b.node.Session()
	b.serves(false)
	op, skipped, _, err := s.Operate(t.Context(), pulls("k"))
	if err != nil || skipped || op.Token() != 7 || op.User() != "" {
		t.Fatalf("%v, %t, %v", op, skipped, err)
	}
	use, err := op.Finish(t.Context(), false)
	if err != nil || use == nil || use.Token() != 9 || use.User() != "u" || use.Err() != nil || op.Err() != fault.ErrClosed {
		t.Fatalf("its end: %v, %v", use, err)
	}
	b.serves(true)
	second, skipped, _, err := s.Operate(t.Context(), pulls("k"))
	if err != nil || !skipped || second.Token() != 8 {
		t.Fatalf("%v, %t, %v", second, skipped, err)
	}
	if err := second.Release(t.Context()); err != nil || use.Err() != nil {
		t.Errorf("one handle is released: %v; the other one: %v", err, use.Err())
	}
	if err := s.Drop(t.Context(), "k", "u"); err != nil || use.Err() != fault.ErrClosed {
		t.Errorf("dropped by name: %v; the handle: %v", err, use.Err())
	}
}

// Promise: G5, P1: the use of a pull whose caller runs only when it is over says so.
func TestAPullThatStoodStill(t *testing.T) {
	b := newBench(t, Config{})
	b.serves(false)
	op, _, _, err := b.node.Session().Operate(t.Context(), pulls("k"))
	if err != nil {
		t.Fatal(err)
	}
	b.late = benchTTL
	if use, err := op.Finish(t.Context(), false); err != nil || use == nil || use.Err() != fault.ErrLost {
		t.Errorf("%v, %v", use, err)
	}
}

// Promise: P39: who does not wait for the end of a pull has no use, unless the answer came as it gave up.
func TestWhoDoesNotWaitForAnEnd(t *testing.T) {
	for _, answered := range []bool{false, true} {
		b := newBench(t, Config{})
		b.serves(false)
		op, _, _, err := b.node.Session().Operate(t.Context(), pulls("k"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answer := b.play
		b.play = func(p parcel) {
			if _, ends := p.command().(shard.End); ends {
				if cancel(); answered {
					answer(p)
				}
			}
		}
		use, err := op.Finish(ctx, false)
		if want := map[bool]error{false: fault.ErrUnconfirmed}[answered]; err != want || (use != nil) != answered {
			t.Errorf("answered %t: %v, %v", answered, use, err)
		}
	}
}

// Promise: who asks who uses a resource hears so, or that nobody answers.
func TestRefs(t *testing.T) {
	b := newBench(t, Config{})
	s := b.node.Session()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Refs(ended, "k"); err != context.Canceled {
		t.Errorf("with a context that has ended: %v", err)
	}
	b.node.shards.shut()
	if _, err := s.Refs(t.Context(), "k"); err != fault.ErrClosed {
		t.Errorf("once the node has ended: %v", err)
	}
	if err := s.Drop(t.Context(), "k", "u"); err != fault.ErrClosed {
		t.Errorf("a drop, once the node has ended: %v", err)
	}
}

// Promise: P39: a pull whose use is released by name before its caller runs is asked for anew: the session lives.
func TestASkipThatIsReleasedByName(t *testing.T) {
	b := newBench(t, Config{})
	s := b.node.Session()
	asked := uint64(0)
	b.play = func(p parcel) {
		switch p.command().(type) {
		case shard.Begin:
			asked++
			b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Skipped, Token: 7 + asked}, Revision: 7 + asked}))
			if asked == 1 {
				b.node.shards.post(func(l *shardLoop) {
					l.admit(s.call(client.Drop, client.Request{Key: "k", Operation: &shard.Operation{User: "u"}}))
				})
			}
		case shard.Drop:
			b.mail(nodeB, told(p, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 10}))
		}
	}
	use, skipped, _, err := s.Operate(t.Context(), pulls("k"))
	if err != nil || !skipped || use.Err() != nil || use.Token() != 9 || asked != 2 {
		t.Errorf("%v, %t, %v; it was asked for %d times", use, skipped, err, asked)
	}
}

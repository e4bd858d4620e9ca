package node

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/realenv"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// blocking is a log handler that a user has not thought through.
type blocking struct {
	slog.Handler
	entered, free chan struct{}
}

func (b *blocking) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "block" {
		close(b.entered)
		<-b.free
	}
	return nil
}

func (b *blocking) Enabled(context.Context, slog.Level) bool { return true }
func (b *blocking) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *blocking) WithGroup(string) slog.Handler            { return b }

// Promise: G5, P1: a belief ends at its deadline, in the real world too, though the shard loop that
// serves it hangs in a log handler.
func TestABeliefEndsThoughTheShardLoopHangs(t *testing.T) {
	const ttl = time.Second
	handler := &blocking{entered: make(chan struct{}), free: make(chan struct{})}
	ctx := t.Context()
	n, err := ready(ctx, Config{
		Env: realenv.New(nil), Transport: transport.Config{Bind: "127.0.0.1:0"}, Name: "a", Shards: 1, Replicas: 1,
		LeaseTTL: ttl, MaxTTL: time.Minute, Found: true, Logger: slog.New(handler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	session, err := n.NewSession(ttl)
	if err != nil {
		t.Fatal(err)
	}
	var holds []*Hold
	for _, s := range []*Session{n.Session(), session} {
		h, _, err := s.Acquire(ctx, client.Request{Key: s.life.TTL.String() + string(rune('a'+len(holds)))})
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	told := make([]chan error, len(holds))
	for i, h := range holds {
		told[i] = make(chan error, 1)
		h.OnEnd(func(cause error) { told[i] <- cause })
	}
	for first := holds[0].belief.Deadline(); holds[0].belief.Deadline() == first; { // until it is renewed
		time.Sleep(time.Millisecond)
	}
	n.shards.post(func(l *shardLoop) { l.node.log.Warn("block") })
	<-handler.entered
	defer close(handler.free)

	end := time.Until(holds[0].Deadline())
	if end < ttl/3 {
		t.Fatalf("the lease ends in %v", end)
	}
	late := time.After(end + 2*time.Second) // this is not the machine's speed
	for i, h := range holds {
		select {
		case cause := <-told[i]:
			if left := h.belief.Deadline() - n.env.Now(); left > 0 {
				t.Errorf("hold %d ended %v before its deadline", i, left)
			}
			if cause != fault.ErrLost {
				t.Errorf("hold %d ended with %v", i, cause)
			}
		case <-late:
			t.Fatalf("hold %d has not ended", i)
		}
	}
	<-session.Done()
	if err := session.Err(); err != fault.ErrLost {
		t.Errorf("the session ended with %v", err)
	}
	if n.Stats().Losses != 2 {
		t.Errorf("%d losses are counted", n.Stats().Losses)
	}
}

// The watch keeps those whose deadline is ahead, wherever they are added, dropped and moved,
// and finds when to look next.
func TestWatch(t *testing.T) {
	w := newWatch(&Node{})
	wakes := 0
	w.loop = counted{&wakes}
	var holds []*Hold
	bs := newBeliefs()
	for i := range 6 {
		h := &Hold{belief: bs.fixed(uint64(i), time.Duration(10-i)*time.Second)}
		holds = append(holds, h)
		w.add(h)
	}
	if wakes != 6 {
		t.Errorf("%d wakes for six deadlines, each before the last", wakes)
	}
	w.drop(holds[1])
	w.drop(holds[1])
	w.drop(&Hold{})
	w.drop(holds[5])
	w.soon(bs.moves(holds[0], 7*time.Second))
	if wakes != 6 {
		t.Errorf("a deadline that is not the first wakes the loop")
	}
	look := func(now time.Duration, next time.Duration, want ...uint64) {
		t.Helper()
		over, got := w.look(now)
		var tokens []uint64
		for _, h := range over {
			tokens = append(tokens, h.Token())
		}
		slices.Sort(tokens)
		if got != next || !slices.Equal(tokens, want) {
			t.Errorf("at %v: %v are over, the next look is at %v, want %v and %v", now, tokens, got, want, next)
		}
	}
	look(5*time.Second, 6*time.Second) // dropped
	look(6*time.Second, 7*time.Second, 4)
	w.drop(holds[4])
	bs.moves(holds[3], 9*time.Second)
	look(7*time.Second-1, 7*time.Second)
	look(7*time.Second, 8*time.Second, 0)
	bs.moves(holds[2], 8500*time.Millisecond)
	look(9*time.Second, 9*time.Second+drainTime) // all stood still: the shard loop goes first
	bs.moves(holds[3], 20*time.Second)           // and one has had an answer
	look(9*time.Second+drainTime, 20*time.Second, 2)
	look(20*time.Second+replica.TickInterval, env.Never, 3) // not that late
	again := &Hold{belief: bs.fixed(6, 30*time.Second)}
	w.add(again)
	look(40*time.Second, 40*time.Second+drainTime) // all stood still once more
	look(40*time.Second+drainTime, env.Never, 6)
}

// Promise: G5, P7: of the end of a hold and an answer that extends it, both at its deadline, one
// takes effect and the other is told so.
func TestAnEndAndAnExtensionAtOnce(t *testing.T) {
	const deadline, extended = 10 * time.Second, time.Hour
	for _, answerFirst := range []bool{true, false} {
		n := &Node{env: still{}}
		n.watch = newWatch(n)
		n.watch.loop = counted{new(int)}
		bs := newBeliefs()
		h := &Hold{session: newSession(n, true, time.Second), node: n, belief: bs.fixed(7, deadline)}
		n.watch.add(h)
		extend := bs.asks(h, extended)
		bs.now = deadline
		over, _ := n.watch.look(deadline)
		if answerFirst {
			bs.answers()
		}
		n.watch.end(over, deadline)
		if !answerFirst {
			bs.answers()
		}
		if goesOn := extend.Err == nil; goesOn != answerFirst || h.Over() == answerFirst {
			t.Errorf("the answer first: %v. The Extend counts: %v, and the hold is over: %v", answerFirst, extend.Err == nil, h.Over())
		}
		want := map[bool]time.Duration{true: extended, false: env.Never}[answerFirst]
		if _, next := n.watch.look(deadline); next != want {
			t.Errorf("the answer first: %v. The watch looks again at %v, want %v", answerFirst, next, want)
		}
	}
}

// Promise: P9: a user's session ends with its hold also if the first who sees that is its holder.
func TestAHolderEndsItsSession(t *testing.T) {
	for _, tt := range []struct {
		name       string
		own, fixed bool
		want       error
	}{
		{"a user's session", false, false, fault.ErrLost},
		{"the node's own", true, false, nil},
		{"a hold of fixed length", false, true, nil},
	} {
		n := &Node{env: still{}, shards: &shardLoop{}}
		n.watch = newWatch(n)
		n.watch.loop = counted{new(int)}
		bs, w := newBeliefs(), still{} // in which it is one second past
		h := &Hold{session: newSession(n, tt.own, time.Second), node: n, belief: bs.fixed(7, w.Now())}
		if !tt.fixed {
			h.belief = bs.renewed(7, w.Now())
		}
		n.watch.add(h)
		if err := h.Err(); err != fault.ErrLost {
			t.Errorf("%s: the hold is over with %v", tt.name, err)
		}
		if err := h.session.Err(); err != tt.want {
			t.Errorf("%s ended with %v, want %v", tt.name, err, tt.want)
		}
	}
}

// beliefs makes beliefs whose deadlines a test moves: a client on a clock that stands still believes
// in each as long as the test says. Node b leads its shard.
type beliefs struct {
	client *client.Client
	now    time.Duration
	out    client.Output
}

func newBeliefs() *beliefs {
	b := &beliefs{client: client.New(client.Config{Node: nodeA, Shards: 1, Generation: benchGeneration, Rand: rand.New(rand.NewPCG(1, 2))})}
	b.step(client.Received{From: nodeB, Message: serves(benchTerm).Message})
	return b
}

func (b *beliefs) step(in client.Input) {
	b.client.Step(b.now, in, &b.out)
	for _, e := range b.out.Events {
		if e, ok := e.(client.End); ok {
			e.Hold.End(env.Never, e.Cause)
		}
	}
	b.out.Events = nil
}

// answers grants or confirms what the client has sent.
func (b *beliefs) answers(token ...uint64) {
	for sent := b.out.Sends; len(sent) > 0; sent = b.out.Sends {
		b.out.Sends = nil
		for _, s := range sent {
			p := parcel{letter: letter{0, s.Message}}
			m := told(p, message.Reply{Event: shard.Event{What: shard.Done}, Revision: 1})
			if _, locks := p.command().(shard.Acquire); locks {
				m = grant(p, token[0])
			}
			b.step(client.Received{From: nodeB, Message: m.Message})
		}
	}
}

// fixed and renewed make beliefs that last until a time: in a hold of fixed length, and in another one.
func (b *beliefs) fixed(token uint64, until time.Duration) *client.Hold {
	return b.locks(token, client.NewSession(true, time.Second), client.Request{Key: "k", MaxHold: until - b.now})
}

func (b *beliefs) renewed(token uint64, until time.Duration) *client.Hold {
	return b.locks(token, client.NewSession(true, until-b.now), client.Request{Key: "k"})
}

func (b *beliefs) locks(token uint64, s *client.Session, req client.Request) *client.Hold {
	c := &client.Call{Kind: client.Lock, Session: s, Request: req}
	b.step(client.Start{Call: c})
	b.answers(token)
	return c.Hold
}

// asks asks for another end of a hold of fixed length.
func (b *beliefs) asks(h *Hold, until time.Duration) *client.Call {
	c := &client.Call{Kind: client.Fix, Hold: h.belief, Length: until - b.now}
	b.step(client.Start{Call: c})
	return c
}

// moves makes a hold of fixed length end at another time, and returns that.
func (b *beliefs) moves(h *Hold, until time.Duration) time.Duration {
	b.asks(h, until)
	b.answers()
	return h.belief.Deadline()
}

type counted struct{ wakes *int }

func (c counted) Wake() { *c.wakes++ }
func (counted) Stop()   {}

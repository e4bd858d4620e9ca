package node

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/realenv"
	"github.com/lockmesh/mesh/internal/replica"
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

// Promise: G5, P1: a belief ends at its deadline, in the real world too, though the lane that
// serves it hangs in a log handler.
func TestABeliefEndsThoughItsLaneHangs(t *testing.T) {
	const ttl = time.Second
	handler := &blocking{entered: make(chan struct{}), free: make(chan struct{})}
	ctx := t.Context()
	n, err := Start(ctx, Config{
		Env: realenv.New(nil), Transport: transport.Config{Bind: "127.0.0.1:0"}, Name: "a", Shards: 1, Replicas: 1,
		LeaseTTL: ttl, MaxTTL: time.Minute, Logger: slog.New(handler),
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
		h, _, err := s.Acquire(ctx, Request{Key: s.ttl.String() + string(rune('a'+len(holds)))})
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
	for first := holds[0].deadline(); holds[0].deadline() == first; { // until it is renewed
		time.Sleep(time.Millisecond)
	}
	n.laneOf(0).post(func(l *lane) { l.log.Warn("block") })
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
			if left := h.deadline() - n.env.Now(); left > 0 {
				t.Errorf("hold %d ended %v before its deadline", i, left)
			}
			if cause != ErrLost {
				t.Errorf("hold %d ended with %v", i, cause)
			}
		case <-late:
			t.Fatalf("hold %d has not ended", i)
		}
	}
	<-session.Done()
	if err := session.Err(); err != ErrLost {
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
	for i := range 6 {
		h := &Hold{token: uint64(i), lane: &lane{node: &Node{watch: w}}}
		h.until.Store(int64(time.Duration(10-i) * time.Second))
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
	holds[0].shorten(7 * time.Second)
	if wakes != 6 {
		t.Errorf("a deadline that is not the first wakes the loop")
	}
	look := func(now time.Duration, next time.Duration, want ...uint64) {
		t.Helper()
		over, got := w.look(now)
		var tokens []uint64
		for _, h := range over {
			tokens = append(tokens, h.token)
		}
		slices.Sort(tokens)
		if got != next || !slices.Equal(tokens, want) {
			t.Errorf("at %v: %v are over, the next look is at %v, want %v and %v", now, tokens, got, want, next)
		}
	}
	look(5*time.Second, 6*time.Second) // dropped
	look(6*time.Second, 7*time.Second, 4)
	w.drop(holds[4])
	holds[3].extend(9 * time.Second)
	look(7*time.Second-1, 7*time.Second)
	look(7*time.Second, 8*time.Second, 0)
	holds[2].extend(8500 * time.Millisecond)
	look(9*time.Second, 9*time.Second+drained) // all stood still: the lanes go first
	holds[3].extend(20 * time.Second)          // and one has had an answer
	look(9*time.Second+drained, 20*time.Second, 2)
	look(20*time.Second+replica.TickInterval, env.Never, 3) // not that late
	again := &Hold{token: 6}
	again.until.Store(int64(30 * time.Second))
	w.add(again)
	look(40*time.Second, 40*time.Second+drained) // all stood still once more
	look(40*time.Second+drained, env.Never, 6)
}

// Promise: G5, P7: of the end of a hold and an answer that extends it, both at its deadline, one
// takes effect and the other is told so.
func TestAnEndAndAnExtensionAtOnce(t *testing.T) {
	const deadline, extended = 10 * time.Second, time.Hour
	for _, answerFirst := range []bool{true, false} {
		n := &Node{}
		n.watch = newWatch(n)
		n.watch.loop = counted{new(int)}
		h := &Hold{session: newSession(n, true, time.Second), lane: &lane{node: n, env: realenv.New(nil)}, fixed: true}
		h.until.Store(int64(deadline))
		n.watch.add(h)
		over, _ := n.watch.look(deadline)
		goesOn := answerFirst && h.prolong(extended)
		n.watch.end(over, deadline)
		if !answerFirst {
			goesOn = h.prolong(extended)
		}
		if goesOn != answerFirst || h.Over() == answerFirst {
			t.Errorf("the answer first: %v. The claim counts: %v, and the hold is over: %v", answerFirst, goesOn, h.Over())
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
		{"a user's session", false, false, ErrLost},
		{"the node's own", true, false, nil},
		{"a hold of fixed length", false, true, nil},
	} {
		n := &Node{}
		n.watch = newWatch(n)
		n.watch.loop = counted{new(int)}
		h := &Hold{session: newSession(n, tt.own, time.Second), lane: &lane{node: n, env: realenv.New(nil)}, fixed: tt.fixed}
		h.until.Store(int64(h.lane.env.Now()))
		n.watch.add(h)
		if err := h.Err(); err != ErrLost {
			t.Errorf("%s: the hold is over with %v", tt.name, err)
		}
		if err := h.session.Err(); err != tt.want {
			t.Errorf("%s ended with %v, want %v", tt.name, err, tt.want)
		}
	}
}

type counted struct{ wakes *int }

func (c counted) Wake() { *c.wakes++ }
func (counted) Stop()   {}

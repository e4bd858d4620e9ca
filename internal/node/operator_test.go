package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/operator"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// question is a question as a peer sends it.
func question(q operator.Question) []byte { return append([]byte{ctlAsk}, q.Encode()...) }

// answers returns the answers that the node has sent to a peer since the last call.
func (b *bench) answers(to uint64) (all []operator.Answer) {
	b.tb.Helper()
	for _, p := range b.take() {
		if p.to == to && p.control != nil && p.control[0] == ctlAnswer {
			a, err := operator.DecodeAnswer(p.control[1:])
			if err != nil {
				b.tb.Fatal(err)
			}
			all = append(all, a)
		}
	}
	return all
}

// A node works on a few questions that take time at once, and answers others that it is busy. What it is, it always tells.
func TestOperatorsQuestions(t *testing.T) {
	b := newBench(t, Config{}, nodeA, nodeB, nodeC)
	const asker = 99
	for i := range maxOperations + 1 {
		b.node.Receive(asker, transport.KindControl, question(operator.Question{Number: uint64(i + 1), Verb: operator.DeclareDead, Entry: "c:1", Wait: 20 * time.Second}))
	}
	b.node.Receive(asker, transport.KindControl, question(operator.Question{Number: 7, Verb: operator.Tell}))
	b.do(func(*shardLoop) {}) // the benches' own callers have not run yet
	var busy, told, refused int
	for _, a := range b.answers(asker) {
		switch {
		case errors.Is(a.Err(), operator.ErrBusy):
			busy++
		case a.Number == 7 && a.Err() == nil && a.Status.Core != nil && len(a.Status.Core.Seats) == 3 && a.Status.Core.Seats[0].Connected:
			told++
		case a.Fault != 0 && a.Status != nil: // the machine of the bench knows of no core
			refused++
		default:
			t.Errorf("answer %+v", a)
		}
	}
	if busy != 1 || told != 1 || refused != maxOperations {
		t.Errorf("busy %d times, told %d times, refused %d times", busy, told, refused)
	}
	b.do(func(l *shardLoop) {
		if l.operations != 0 {
			t.Errorf("%d questions are under way", l.operations)
		}
	})
	b.words = nil
	b.node.Receive(asker, transport.KindControl, []byte{ctlAsk, 0x90})
	if b.run(); !slices.Contains(b.words, "disconnect 99") {
		t.Errorf("after a malformed question: %q", b.words)
	}
}

// The log says what an operator asks for, in the words of that question.
func TestOperatorsQuestionsAreLogged(t *testing.T) {
	b := newBench(t, Config{}, nodeA, nodeB, nodeC)
	var log strings.Builder
	b.node.log = slog.New(slog.NewTextHandler(&log, nil))
	for i, tt := range []struct {
		q    operator.Question
		want string
	}{
		{operator.Question{Verb: operator.DeclareDead, Entry: "c:1"}, `msg="an operator declares a node dead" entry=c:1 peer=`},
		{operator.Question{Verb: operator.Change, Add: "d:1", Remove: "c:1"}, `msg="an operator asks for another list of the core" add=d:1 remove=c:1 peer=`},
	} {
		log.Reset()
		tt.q.Number, tt.q.Wait = uint64(i+1), time.Second
		b.node.Receive(99, transport.KindControl, question(tt.q))
		b.run()
		if lines := log.String(); strings.Count(lines, "an operator ") != 1 || !strings.Contains(lines, tt.want) {
			t.Errorf("logged %s, want %s", lines, tt.want)
		}
	}
}

// An operator's command may ask to add and to remove one entry. It would be removed.
func TestOneEntryToAddAndRemove(t *testing.T) {
	b := newBench(t, Config{}, nodeA, nodeB, nodeC)
	err := b.node.ChangeCore(t.Context(), "c:1", "c:1")
	if !errors.Is(err, fault.ErrInvalidOption) || !strings.Contains(err.Error(), `"c:1" is to be added and removed`) {
		t.Errorf("ChangeCore = %v", err)
	}
}

// A node answers before its mesh is founded, and who asks leaves no trace. Who is silent is named.
func TestAsk(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 1})
	defer w.Close()
	w.Host("a").Go("start", func(ctx context.Context) {
		e := env.FromContext(ctx)
		_, err := Start(Config{Env: e, Seeds: []string{"a:7300", "b:7300"}, MeshName: "blue", Name: "ann", Transport: transport.Config{Bind: ":7300"}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			w.Fail(err)
		}
	})
	ask := func(name, addr, mesh string) (a operator.Answer, failed error) {
		over := false
		w.Host("operator").Go(name, func(ctx context.Context) {
			within, cancel := simulate.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			a, _, failed = Ask(within, env.FromContext(ctx), transport.Config{Logger: slog.New(slog.DiscardHandler)}, mesh, addr, operator.Question{Verb: operator.Tell})
			over = true
		})
		if err := w.RunUntil(func() bool { return over }, time.Minute); err != nil {
			t.Fatal(err)
		}
		return a, failed
	}
	if err := w.Run(3 * time.Second); err != nil {
		t.Fatal(err)
	}
	a, err := ask("of any mesh", "a:7300", "")
	if err != nil || a.Err() != nil {
		t.Fatal(err, a.Err())
	}
	s := a.Status
	if s.Name != "ann" || s.Role != "core" || s.Phase != "waiting" || s.Entry != "a:7300" || s.Core != nil || len(s.Waiting) != 1 || s.Waiting[0].Entry != "b:7300" || s.Waiting[0].For < 2*time.Second {
		t.Errorf("status %+v", s)
	}
	if _, err := ask("of another mesh", "a:7300", "red"); err == nil || !strings.Contains(err.Error(), `for mesh "red"`) {
		t.Errorf("in the name of another mesh: %v", err)
	}
	w.Host("b") // it is there, and no process listens
	if _, err := ask("of nobody", "b:7300", ""); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("of nobody: %v", err)
	}
	w.Host("a").Pause()
	if _, err := ask("of a paused one", "a:7300", ""); err == nil {
		t.Error("a paused node answers")
	}
}

package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// event is one call about an election, as a checker sees it: it took effect at one moment between its begin and its end.
type event struct {
	what  string // leads, proclaims, may proclaim, ends, or asks
	token uint64
	word  int // the number of what it says, larger than those before; zero: nothing
}

// electoral is who leads, and with which word. Each ends once, for good.
type electoral struct {
	token uint64
	word  int
}

// electionModel is what an election may do, one call after another.
var electionModel = porcupine.Model{
	Init: func() any { return electoral{} },
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.(electoral), input.(event)
		mine := s.token == e.token
		switch e.what {
		case "leads":
			return s.token == 0, electoral{e.token, e.word}
		case "ends":
			return mine, electoral{}
		case "asks":
			return mine && s.word == e.word, s
		case "proclaims": // it, or a later one
			if mine {
				s.word = max(s.word, e.word)
			}
			return mine, s
		}
		if mine { // it may proclaim
			s.word = max(s.word, e.word)
		}
		return true, s
	},
	Equal: func(a, b any) bool { return a.(electoral) == b.(electoral) },
	DescribeOperation: func(input, _ any) string {
		return fmt.Sprintf("%+v", input)
	},
}

// Promise: G2, P46: calls of an election take effect one after another, each between its begin and its end: one leads at a time, and who asks hears
// of the leader at some moment of the question, with a word that it had then. So it is while nodes are cut off, and leaders change.
func TestElectionsAreLinearizable(t *testing.T) {
	words, lost, asked := 0, 0, 0
	for seed := range fewer[uint64](5, 60) {
		w := newTrial(t, simulate.Options{Seed: seed}, 3*time.Second, 5)
		random := rand.New(rand.NewPCG(seed, 1))
		var history []porcupine.Operation
		note := func(e event, begin, end time.Duration) {
			history = append(history, porcupine.Operation{ClientId: len(history), Input: e, Call: int64(begin), Return: int64(end)})
		}
		const ever = time.Duration(math.MaxInt64)
		known := make(map[uint64]bool)
		word, over, leader := 0, 0, ""
		var questions []porcupine.Operation
		hosts := []string{"a", "b", "c", "d", "e"}
		for _, host := range hosts {
			chance := rand.New(rand.NewPCG(seed, random.Uint64()))
			w.begin(host, func(ctx context.Context, n *mesh.Node) {
				for range 3 {
					_ = simulate.Sleep(ctx, time.Duration(chance.Int64N(int64(time.Second))))
					word++
					first, begin := word, w.Now()
					l, err := n.Election("boss").Campaign(ctx, fmt.Append(nil, first))
					if w.check(err); err != nil {
						break
					}
					known[l.Token()], leader = true, host
					note(event{"leads", l.Token(), first}, begin, w.Now())
					for range chance.IntN(5) {
						_ = simulate.Sleep(ctx, time.Duration(chance.Int64N(int64(2*time.Second)))>>chance.IntN(4))
						word++
						number, begin := word, w.Now()
						short, cancel := simulate.WithTimeout(ctx, time.Duration(1+chance.Int64N(int64(40*time.Millisecond))))
						err := l.Proclaim(short, fmt.Append(nil, number))
						cancel()
						if words++; err == nil {
							note(event{"proclaims", l.Token(), number}, begin, w.Now())
						} else {
							note(event{"may proclaim", l.Token(), number}, begin, ever)
						}
					}
					begin = w.Now()
					if l.Err() != nil {
						begin = 0 // its belief has ended before, and later than it began
						lost++
					}
					if err := l.Resign(ctx); err == nil {
						note(event{"ends", l.Token(), 0}, begin, w.Now())
					} else {
						note(event{"ends", l.Token(), 0}, begin, ever)
					}
				}
				over++
			})
			w.begin(host, func(ctx context.Context, n *mesh.Node) {
				for over < len(hosts) {
					_ = simulate.Sleep(ctx, time.Duration(chance.Int64N(int64(200*time.Millisecond))))
					begin := w.Now()
					s, err := n.Election("boss").Leader(ctx)
					e := event{what: "asks", token: s.Token}
					switch {
					case errors.Is(err, mesh.ErrNoLeader):
					case err != nil:
						continue
					default:
						_, err = fmt.Sscan(string(s.Value), &e.word)
						w.check(err)
					}
					questions = append(questions, porcupine.Operation{Input: e, Call: int64(begin), Return: int64(w.Now())})
				}
			})
		}
		for over < len(hosts) {
			host := hosts[random.IntN(len(hosts))]
			if leader != "" && random.IntN(2) == 0 {
				host = leader
			}
			w.Net.Isolate(host)
			w.pass(2*time.Second + time.Duration(random.Int64N(int64(4*time.Second))))
			w.Net.Heal()
			w.pass(time.Duration(random.Int64N(int64(time.Second))))
			if w.Now() > 10*time.Minute {
				t.Fatalf("seed %d: the calls do not end\n%v", seed, w.Timeline())
			}
		}
		for _, q := range questions {
			// A leadership that was granted in a lease that was lost by then has no caller.
			if e := q.Input.(event); e.token == 0 || known[e.token] {
				asked++
				q.ClientId = len(history)
				history = append(history, q)
			}
		}
		if result := porcupine.CheckOperationsTimeout(electionModel, history, 20*time.Second); result != porcupine.Ok {
			t.Errorf("seed %d: %d calls in no possible order: %v", seed, len(history), result)
		}
	}
	t.Logf("%d words, %d leaderships were lost, %d questions", words, lost, asked)
	if words < 20 || asked < 200 || *long && lost == 0 {
		t.Error("too little happened")
	}
}

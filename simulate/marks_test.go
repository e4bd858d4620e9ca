package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/transport"
)

// steps lets the table of a node's replica take commands, one in each entry, and the observer hear of it.
func (o observer) steps(node transport.ID, commands []shard.Command) {
	at := env.At{Node: node}
	t := shard.NewTable(shard.Founding{Check: true, Observe: func(d shard.Decision) { o.Observe(at, d) }})
	for i, cmd := range commands {
		told := t.Step(cmd, nil)
		o.Observe(at, env.Stepped{Index: uint64(i + 1), Command: cmd, Told: told})
	}
}

// TestMarksOfTables: what a table does is marked by what it is, and no other mark is met.
func TestMarksOfTables(t *testing.T) {
	ann, bob, eve := shard.SessionID{Node: 1, Number: 1}, shard.SessionID{Node: 2, Number: 1}, shard.SessionID{Node: 3, Number: 1}
	call := func(who shard.SessionID, number uint64) shard.Call { return shard.Call{Session: who, Number: number} }
	lock := func(who shard.SessionID, number uint64) shard.Acquire {
		return shard.Acquire{Call: call(who, number), TTL: time.Second, Key: "k", Weight: shard.Whole, Capacity: shard.Whole}
	}
	read := func(who shard.SessionID) shard.Acquire {
		a := lock(who, 1)
		a.Weight = 1
		return a
	}
	permits := func(who shard.SessionID, number uint64, weight int64) shard.Acquire {
		a := lock(who, number)
		a.Kind, a.Weight, a.Capacity = shard.Semaphore, weight, 5
		return a
	}
	try := func(a shard.Acquire) shard.Acquire { a.Try = true; return a }
	acked := func(a shard.Acquire, numbers ...uint64) shard.Acquire { a.Acked = numbers; return a }
	// A fresh table's revision is 0: each command raises it, and each grant.
	unlock := func(who shard.SessionID, number, token uint64) shard.Release {
		return shard.Release{Call: call(who, number), Key: "k", Token: token}
	}
	report := func(who shard.SessionID, number, token uint64) shard.Report {
		return shard.Report{
			Call: call(who, number), TTL: time.Second, Key: "k", Weight: shard.Whole, Capacity: shard.Whole,
			Earlier: shard.Earlier{Token: token, Known: token},
		}
	}
	fix := func(who shard.SessionID, number, token uint64) shard.Fix {
		return shard.Fix{Call: call(who, number), Key: "k", Token: token, Hold: time.Second}
	}
	cancel := func(who shard.SessionID, number, target uint64) shard.Cancel {
		return shard.Cancel{Call: call(who, number), TTL: time.Second, Target: target}
	}
	var crowd []shard.Command
	for i := range uint64(11) {
		crowd = append(crowd, lock(shard.SessionID{Node: 10 + i, Number: 1}, 1))
	}
	for _, tt := range []struct {
		name     string
		commands []shard.Command
		want     []mark
	}{
		{"locks and unlocks", []shard.Command{lock(ann, 1), lock(bob, 1), unlock(ann, 2, 2), unlock(bob, 2, 5)}, nil},
		{"an unlock again, before the next lock", []shard.Command{lock(ann, 1), unlock(ann, 2, 2), unlock(ann, 2, 2)}, nil},
		{"an unlock again", []shard.Command{lock(ann, 1), unlock(ann, 2, 2), lock(ann, 3), unlock(ann, 2, 2)}, []mark{lateUnlock}},
		{"a lock again", []shard.Command{lock(ann, 1), lock(ann, 1)}, []mark{repeatedGrant}},
		{"a lock again that waits", []shard.Command{lock(ann, 1), lock(bob, 1), lock(bob, 1)}, nil},
		{"what was acknowledged", []shard.Command{lock(ann, 1), unlock(ann, 2, 2), acked(lock(ann, 3), 1, 2), unlock(ann, 2, 2)}, []mark{staleCommand}},
		{"after the session's end", []shard.Command{lock(ann, 1), shard.Expire{Session: ann}, unlock(ann, 2, 2)}, []mark{ghostRefused}},
		{"a cancel that waits", []shard.Command{lock(ann, 1), lock(bob, 1), cancel(bob, 2, 1)}, nil},
		{"a cancel too late", []shard.Command{lock(ann, 1), cancel(ann, 2, 1)}, []mark{cancelAfterGrant}},
		{"a cancel too early", []shard.Command{cancel(ann, 2, 1), lock(ann, 1)}, []mark{cancelOvertakes, staleCommand}},
		{"a session ends that waits", []shard.Command{lock(ann, 1), lock(bob, 1), shard.Expire{Session: bob}}, []mark{lostWaiting}},
		{"a session ends for which others wait", []shard.Command{lock(ann, 1), lock(bob, 1), shard.Expire{Session: ann}}, []mark{lostHolding}},
		{"a session ends alone", []shard.Command{lock(ann, 1), shard.Expire{Session: ann}}, nil},
		{"a fixed end", []shard.Command{lock(ann, 1), fix(ann, 2, 2), shard.Expire{Session: ann}}, []mark{fixedEnd}},
		{"a fixed end that moves", []shard.Command{lock(ann, 1), fix(ann, 2, 2), fix(ann, 3, 2), shard.Close{Session: ann}}, []mark{extended}},
		{"a Fix too late", []shard.Command{lock(ann, 1), unlock(ann, 2, 2), fix(ann, 3, 2)}, []mark{lateFix}},
		{"ten wait", crowd[:11], []mark{deepQueue}},
		{"nine wait", crowd[:10], nil},
		{"readers", []shard.Command{lock(ann, 1), read(bob), read(eve), unlock(ann, 2, 2)}, []mark{readersTogether}},
		{"permits", []shard.Command{permits(ann, 1, 5), permits(bob, 1, 2), permits(eve, 1, 3), shard.Release{Call: call(ann, 2), Key: "k", Token: 2}}, []mark{permitsTogether}},
		{"a try that passes nobody", []shard.Command{permits(ann, 1, 3), permits(bob, 1, 4), try(permits(eve, 1, 2))}, []mark{tryPassesNobody}},
		{"a try that does not fit", []shard.Command{permits(ann, 1, 3), try(permits(eve, 1, 4))}, nil},
		{"silence", []shard.Command{lock(ann, 1), shard.Silent{Session: ann, For: 1}}, []mark{silenceLogged}},
		{"silence that ends", []shard.Command{lock(ann, 1), shard.Silent{Session: ann, For: 1}, shard.Silent{Session: ann}}, []mark{silenceLogged, heardLogged}},
		{"a settle", []shard.Command{shard.Settle{}}, []mark{settled}},
		{"an operator's word", []shard.Command{shard.Calm{}}, []mark{settled, appeased}},
		{"a report too late", []shard.Command{report(ann, 1, 7)}, []mark{lateReport}},
	} {
		w := New(Options{})
		o := w.observer()
		for replica := transport.ID(1); replica <= 2; replica++ { // the second one's word adds nothing
			o.steps(replica, tt.commands)
		}
		if err := w.Err(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got, want := o.marks.all(), names(tt.want); got != want {
			t.Errorf("%s: met %q, want %q", tt.name, got, want)
		}
		w.Close()
	}
}

// all names the marks that were met, and how often.
func (k *marks) all() string {
	var all []mark
	for m, n := range k.met {
		for range n {
			all = append(all, mark(m))
		}
	}
	return names(all)
}

func names(all []mark) string {
	all = slices.Clone(all)
	slices.Sort(all)
	var texts []string
	for _, m := range all {
		texts = append(texts, m.String())
	}
	return strings.Join(texts, "; ")
}

// TestMarksOfReplicas: so it is with what replicas and nodes tell.
func TestMarksOfReplicas(t *testing.T) {
	var w *World
	tell := func(node transport.ID, fact any) func(observer) {
		return func(o observer) { o.Observe(env.At{Node: node}, fact) }
	}
	became := func(node transport.ID, role string, term uint64) func(observer) {
		return tell(node, env.Became{Role: role, Term: term})
	}
	served := func(node transport.ID) func(observer) { return tell(node, env.Served{Serving: true}) }
	hands := func(from, to transport.ID) func(observer) { return tell(from, env.Handover{To: to}) }
	hosted := func(node transport.ID, id uint64) func(observer) { return tell(node, env.Hosted{ID: id}) }
	applied := func(node transport.ID, index uint64) func(observer) {
		return tell(node, env.Applied{Index: index, Digest: index})
	}
	step := func(index uint64, cmd shard.Command, told ...shard.Event) func(observer) {
		return tell(1, env.Stepped{Index: index, Command: cmd, Told: told})
	}
	// The voters, and those that were voters before, while the shard's replicas live on the first n nodes.
	configured := func(index uint64, n int, voters, outgoing []transport.ID) func(observer) {
		return func(o observer) {
			var all []env.Placed
			for i := range n {
				all = append(all, env.Placed{ID: uint64(i + 1), Node: transport.ID(i + 1)})
			}
			for _, p := range w.nodes[1].nodes {
				p.node.(*looked).replicas = []env.Replica{{Voters: voters, Outgoing: outgoing, Serving: true}}
			}
			o.Observe(env.At{Node: 1}, env.Configured{Index: index, Replicas: all})
			o.marks.settle()
		}
	}
	crash := func(host string) func(observer) { return func(observer) { w.Host(host).Crash() } }
	wait := func(d time.Duration) func(observer) { return func(observer) { _ = w.Run(d) } }
	ann := shard.SessionID{Node: 1, Number: 1}
	queued := func(session uint64) func(observer) {
		return func(o observer) {
			tell(1, shard.Decision{
				What: shard.Entered, Key: "k", Session: shard.SessionID{Node: 2, Number: session}, Number: 1,
				Revision: session, Weight: 1, Capacity: 1,
			})(o)
			step(session, shard.Acquire{})(o)
		}
	}
	// decides tells of a decision, and then of the command that led to it.
	decides := func(index uint64, cmd shard.Command, what shard.DecisionKind, token uint64) func(observer) {
		return func(o observer) {
			tell(1, shard.Decision{What: what, Key: "k", Session: ann, Number: token, Token: token, Revision: index, Weight: 1, Capacity: 9})(o)
			step(index, cmd)(o)
		}
	}
	resumes := func(index, token uint64) func(observer) { return decides(index, shard.Report{}, shard.Resumed, token) }
	finishes := func(index uint64, cmd shard.Command, token uint64) func(observer) {
		return decides(index, cmd, shard.Finished, token)
	}
	leads := func(node transport.ID, sh int, generation uint64) func(observer) {
		return func(o observer) {
			o.Observe(env.At{Node: node, Shard: sh, Generation: generation}, env.Became{Role: "leader", Term: 1})
		}
	}
	enters := func(host string, node transport.ID, mesh uint64, seats ...transport.ID) func(observer) {
		return func(o observer) {
			w.history.Meshes = 2
			n := &looked{}
			if p := w.nodes[node]; p != nil && !p.dead {
				n = p.nodes[0].node.(*looked)
			} else {
				w.Host(host).process.Inspect(node, n)
			}
			n.mesh, n.seats = mesh, seats
			o.Founded(node, mesh)
			o.marks.settle()
		}
	}
	again := func(host string) func(observer) {
		return func(observer) { w.Host(host).Crash(); w.Host(host).Restart() }
	}
	holds := func(host string) func(observer) {
		return func(observer) {
			(&story{w: w, holds: make(map[string]*tale)}).lock("x", host, check.Want{Key: "k", Weight: 1, Capacity: 9}, 7)
		}
	}
	asks := func(o observer) { o.marks.called(2, "k") }
	told := func(o observer) { o.marks.returned(2, "k") }
	ids := func(ids ...transport.ID) []transport.ID { return ids }
	type tells = []func(observer)
	for _, tt := range []struct {
		name string
		told tells
		want []mark
	}{
		{"one campaigns after the other", tells{became(1, "candidate", 3), became(1, "candidate", 4), became(2, "candidate", 5)}, nil},
		{"two campaign", tells{became(1, "candidate", 3), became(2, "candidate", 3)}, []mark{campaignsMeet}},
		{"a leader dies", tells{became(1, "leader", 3), crash("a"), became(2, "leader", 4)}, []mark{earlyWon}},
		{"a leader died long ago", tells{became(1, "leader", 3), crash("a"), wait(2 * time.Second), became(2, "leader", 4)}, nil},
		{"a leader hands over", tells{became(1, "leader", 3), hands(1, 2), became(2, "leader", 4), became(1, "leader", 5), became(2, "leader", 6)}, []mark{toldToLead}},
		{"another one leads", tells{became(1, "leader", 3), hands(1, 2), became(3, "leader", 4)}, nil},
		{"a silence is known", tells{
			step(1, shard.Acquire{}, shard.Event{What: shard.Opened, Session: ann}), step(2, shard.Silent{Session: ann, For: 1}), served(1),
		}, []mark{silenceLogged, legacySilence}},
		{"a silence is over", tells{
			step(1, shard.Acquire{}, shard.Event{What: shard.Opened, Session: ann}), step(2, shard.Silent{Session: ann, For: 1}),
			step(3, shard.Silent{Session: ann}, shard.Event{What: shard.Reheard, Session: ann}), served(1),
		}, []mark{silenceLogged, heardLogged}},
		{"a silent session ends", tells{
			step(1, shard.Acquire{}, shard.Event{What: shard.Opened, Session: ann}), step(2, shard.Silent{Session: ann, For: 1}),
			step(3, shard.Expire{Session: ann}, shard.Event{What: shard.Ended, Session: ann}), step(4, shard.Silent{Session: ann, For: 1}), served(1),
		}, []mark{silenceLogged, silenceLogged}},
		{"a learner gets a vote", tells{
			configured(5, 3, ids(1, 2), nil), configured(6, 3, ids(1, 3), ids(1, 2)), configured(7, 3, ids(1, 3), nil), configured(7, 3, ids(1, 3), nil),
		}, []mark{learnerPromoted, jointEntered, jointLeft}},
		{"a learner goes", tells{configured(5, 3, ids(1, 2), nil), configured(6, 2, ids(1, 2), nil)}, []mark{learnerRemoved}},
		{"a leader in the midst of a change", tells{configured(5, 3, ids(1, 3), ids(1, 2)), served(1), func(o observer) { o.marks.settle() }}, []mark{jointEntered, leaderInJoint}},
		{"one replica on a node", tells{hosted(1, 1), hosted(2, 2)}, nil},
		{"another one", tells{hosted(1, 1), hosted(1, 2)}, []mark{newcomerReplaces}},
		{"entries in order", tells{applied(1, 7), applied(1, 8), applied(2, 9), hosted(1, 1), applied(1, 20)}, nil},
		{"entries that a snapshot brings", tells{applied(1, 7), applied(1, 9)}, []mark{snapshotOverLog}},
		{"a leaver", tells{func(o observer) { o.Left(1, true) }}, []mark{handedOver}},
		{"a leaver in a hurry", tells{func(o observer) { w.ailed = true; o.Left(1, false) }}, []mark{handoverTimedOut}},
		{"a call asks again", tells{asks, queued(1), queued(2), told}, []mark{askedAnew}},
		{"a call, and the next one", tells{asks, queued(1), told, asks, queued(2), told}, nil},
		{"two calls", tells{asks, asks, queued(1), queued(2), told, told}, nil},
		{"a successor", tells{
			configured(5, 2, ids(1, 2), nil), crash("b"), func(observer) { w.Host("b").Restart() }, func(o observer) {
				p := w.Host("b").process
				p.Inspect(9, &looked{mesh: 1})
				o.Founded(9, 1)
				o.marks.settle()
			},
		}, []mark{predecessorVotes}},
		{"a hold from a report", tells{resumes(1, 7)}, []mark{resumedHold}},
		{"it is unlocked", tells{resumes(1, 7), finishes(2, shard.Release{}, 7)}, []mark{resumedHold, keptToken}},
		{"its session ends", tells{resumes(1, 7), finishes(2, shard.Expire{}, 7)}, []mark{resumedHold}},
		{"another hold is unlocked", tells{resumes(1, 7), finishes(2, shard.Release{}, 8)}, []mark{resumedHold}},
		{"a generation after the other", tells{leads(1, 0, 5), leads(2, 0, 6)}, []mark{generationBegun}},
		{"leaders of one generation", tells{leads(1, 0, 5), tell(2, env.Became{Role: "follower", Term: 1}), leads(1, 0, 5)}, nil},
		{"generations of two shards", tells{leads(1, 0, 5), leads(2, 1, 6)}, nil},
		{"a core", tells{enters("a", 1, 7, 1, 2, 3), enters("b", 2, 7, 1, 2, 3), enters("c", 3, 7, 1, 2, 3)}, nil},
		{"one of the core is away", tells{enters("a", 1, 7, 1, 2), enters("b", 2, 7, 1, 2), again("a"), enters("a", 4, 7, 4, 2)}, nil},
		{"one of the core after the other is away", tells{
			enters("a", 1, 7, 1, 2), enters("b", 2, 7, 1, 2), again("a"), enters("a", 4, 7, 4, 2),
			wait(time.Second), again("b"), wait(time.Second), enters("b", 5, 7, 4, 5),
		}, nil},
		{"one of the core is away twice", tells{
			enters("a", 1, 7, 1, 2), again("a"), enters("a", 4, 7, 4, 2), again("a"), enters("a", 5, 7, 5, 2),
		}, nil},
		{"two of the core are away", tells{
			enters("a", 1, 7, 1, 2), enters("b", 2, 7, 1, 2), again("a"), wait(time.Second), again("b"), wait(time.Second),
			enters("a", 4, 7, 4, 5), enters("b", 5, 7, 4, 5),
		}, []mark{awayTogether}},
		{"clients are away", tells{
			enters("a", 1, 7, 3), enters("b", 2, 7, 3), again("a"), again("b"), enters("a", 4, 7, 3), enters("b", 5, 7, 3),
		}, nil},
		{"a client follows", tells{enters("a", 1, 7, 3), enters("a", 1, 8, 3)}, []mark{followed}},
		{"another mesh, and nothing is held", tells{enters("a", 1, 7, 1), again("a"), enters("a", 4, 8, 4)}, nil},
		{"another mesh, and its maker held something", tells{enters("a", 1, 7, 1), holds("a"), again("a"), enters("a", 4, 8, 4)}, nil},
		{"another mesh, and a client holds something", tells{enters("a", 1, 7, 1), holds("b"), again("a"), enters("a", 4, 8, 4)}, []mark{foundedAgain}},
	} {
		w = New(Options{})
		for i := range 3 {
			w.Host(string(rune('a'+i))).process.Inspect(transport.ID(i+1), &looked{})
		}
		for _, tells := range tt.told {
			tells(w.observer())
		}
		if err := w.Err(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got, want := w.marks.all(), names(tt.want); got != want {
			t.Errorf("%s: met %q, want %q", tt.name, got, want)
		}
		w.Close()
	}
}

// What frames hold is marked where the world looks into them.
func TestMarksOfMessages(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	for _, name := range []string{"prevote refused", "prevote given", "pass on: granted k token 7", "you are removed", "leaving", "core: refused", "core: call", "refused lock k: locked"} {
		w.marks.message(w.Host("a"), name)
	}
	if got, want := w.marks.all(), names([]mark{preVoteRefused, answerForwarded, removedTold, leaverHeard, callRefused}); got != want {
		t.Errorf("met %q, want %q", got, want)
	}
}

func TestEveryMarkHasAName(t *testing.T) {
	seen := make(map[string]bool)
	for m, name := range markNames {
		if seen[name] || name == "" {
			t.Errorf("%d: its name is %q", m, name)
		}
		seen[name] = true
	}
}

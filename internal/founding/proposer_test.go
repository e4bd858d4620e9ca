package founding

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// P25: what a proposer sends, when, and what it makes of the answers.

var abe = []transport.ID{ann, bob, eve}

// sending is one message of a machine, and when it was sent.
type sending struct {
	at  time.Duration
	to  transport.ID
	msg message
}

// sendings returns what is sent among out, asks aside.
func sendings(t *testing.T, at time.Duration, out []Output) (all []sending) {
	t.Helper()
	for _, o := range out {
		if s, ok := o.(Send); ok {
			msg, err := decode(s.Body)
			if err != nil {
				t.Fatalf("it sends what cannot be read: %v", err)
			}
			if _, ok := msg.(ask); !ok {
				all = append(all, sending{at, s.To, msg})
			}
		}
	}
	return all
}

// play lets time pass from now to until, and returns what m sends meanwhile. No dial has an outcome.
func play(t *testing.T, m *Machine, now, until time.Duration) (all []sending) {
	t.Helper()
	for at := m.Deadline(); at <= until; at = m.Deadline() {
		at = max(at, now)
		all = append(all, sendings(t, at, m.Tick(at, nil))...)
		if now = at; m.Deadline() <= now {
			t.Fatalf("at %v it wants to be called at %v", now, m.Deadline())
		}
	}
	return all
}

// begun returns a founder that has begun its first ballot, and when.
func begun(t *testing.T, cfg Config) (*Machine, time.Duration) {
	t.Helper()
	m := founder(cfg)
	return m, next(t, m, 0).at
}

// next lets time pass until m begins a ballot.
func next(t *testing.T, m *Machine, now time.Duration) sending {
	t.Helper()
	for at := m.Deadline(); at < now+time.Minute; at = m.Deadline() {
		for _, s := range sendings(t, at, m.Tick(at, nil)) {
			if _, ok := s.msg.(prepare); ok {
				return s
			}
		}
		if m.Deadline() <= at {
			t.Fatalf("at %v it wants to be called at %v", at, m.Deadline())
		}
	}
	t.Fatalf("no ballot begins in a minute: %s", m.Waiting())
	return sending{}
}

// promises makes ann and eve promise b, and returns what m sends then.
func promises(t *testing.T, m *Machine, now time.Duration, b ballot) []sending {
	t.Helper()
	m.Message(now, ann, encode(promise{Ballot: b, Floor: 5}), nil)
	return sendings(t, now, m.Message(now, eve, encode(promise{Ballot: b, Floor: 5}), nil))
}

// The seeds begin in their order, so that the first one founds without a rival.
func TestWhenABallotBegins(t *testing.T) {
	for i, self := range abe {
		first, last := time.Hour, time.Duration(0)
		for r := range uint64(100) {
			cfg := Config{Rand: r, Self: Member{ID: self, Name: self.String(), Addr: trio[i]}, Seeds: trio}
			m := New(cfg)
			m.Start(0, nil)
			for j, id := range abe {
				h := transport.Hello{ID: id, Addr: trio[j]}
				if id != self {
					m.Up(0, h, nil)
				}
				m.Dialed(0, trio[j], h, nil, nil)
				if id != self {
					m.Message(0, id, encode(introduction(id.String(), trio[j])), nil)
				}
			}
			begun := next(t, m, 0)
			want := prepare{ballot{1, self}, trio, abe}
			if !reflect.DeepEqual(begun.msg, want) {
				t.Fatalf("it begins with %+v, want %+v", begun.msg, want)
			}
			first, last = min(first, begun.at), max(last, begun.at)
		}
		turn := Listen(trio) + time.Duration(i)*stagger
		if first < turn || last >= turn+stagger || last-first < stagger/2 {
			t.Errorf("the seed %d begins from %v to %v, want all over %v after %v", i, first, last, stagger, turn)
		}
	}
}

// A ballot is repeated to the voters that have not answered it, phase by phase, and each answer counts once.
func TestABallot(t *testing.T) {
	m, at := begun(t, Config{Wall: time.UnixMilli(2_000_000)})
	b := ballot{1, bob}
	phase1 := prepare{b, trio, abe}
	check := func(what string, got []sending, want ...sending) {
		t.Helper()
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: it sends %+v, want %+v", what, got, want)
		}
	}
	receive := func(from transport.ID, msg message) []sending {
		t.Helper()
		return sendings(t, at, m.Message(at, from, encode(msg), nil))
	}
	tick := func() []sending {
		t.Helper()
		at += resend
		return play(t, m, at-resend, at)
	}
	check("no voter has promised", tick(), sending{at, ann, phase1}, sending{at, eve, phase1})
	check("a stranger promises", receive(9, promise{Ballot: b}))
	check("a voter promises another ballot", receive(eve, promise{Ballot: ballot{2, bob}}))
	check("a voter accepts before a value is proposed", receive(eve, accepted{b}))
	check("ann accepts what is not proposed", receive(ann, accepted{b}))
	check("ann promises", receive(ann, promise{Ballot: b, Floor: 3_000_000}))
	check("ann promises again", receive(ann, promise{Ballot: b, Floor: 3_000_000}))
	check("eve has not promised", tick(), sending{at, eve, phase1})

	out := m.Message(at, eve, encode(promise{Ballot: b, Floor: 5}), nil)
	got := sendings(t, at, out)
	v := m.proposer.value
	want := Mesh{
		MeshID: v.MeshID, Epoch: 1, Founded: 3_000_000, Grace: true,
		Params: Params{MeshName: DefaultMeshName, Shards: DefaultShards, Replicas: DefaultReplicas, MaxTTL: DefaultMaxTTL, Rho: DefaultRho},
		Roster: []Member{
			{ID: ann, Name: "ann", Addr: trio[0], Zone: "of ann"},
			{ID: bob, Name: "bob", Addr: trio[1], Zone: "west"},
			{ID: eve, Name: "eve", Addr: trio[2], Zone: "of eve"},
		},
	}
	if v.MeshID == 0 || !reflect.DeepEqual(v, want) {
		t.Fatalf("it proposes %+v, want %+v", v, want)
	}
	phase2 := accept{b, v}
	check("all have promised", got, sending{at, ann, phase2}, sending{at, eve, phase2})
	check("eve promises again", receive(eve, promise{Ballot: b, Floor: 5}))
	check("a stranger accepts", receive(9, accepted{b}))
	check("no voter has accepted", tick(), sending{at, ann, phase2}, sending{at, eve, phase2})
	check("eve accepts", receive(eve, accepted{b}))
	check("eve accepts again", receive(eve, accepted{b}))
	check("a voter accepts another ballot", receive(ann, accepted{ballot{2, bob}}))
	check("ann has not accepted", tick(), sending{at, ann, phase2})
	if _, in := m.Mesh(); in {
		t.Fatal("the mesh is founded before all have accepted")
	}
	decided := decide{Ballot: b, Value: v}
	check("all have accepted", receive(ann, accepted{b}), sending{at, ann, decided}, sending{at, eve, decided})
	if got, in := m.Mesh(); !in || !reflect.DeepEqual(got, v) {
		t.Errorf("founded: %v, %+v", in, got)
	}
}

// A ballot that was given up does not go on, whatever arrives for it. The next one begins after a
// pause if there was a higher ballot, and else at once, except for its turn.
func TestABallotGivesWay(t *testing.T) {
	for _, tt := range []struct {
		name        string
		by          func(m *Machine, at time.Duration) (then time.Duration)
		from, until time.Duration // when the next ballot begins, after that
		ballot      ballot
		roster      []transport.ID
	}{
		{"to a higher ballot", func(m *Machine, at time.Duration) time.Duration {
			m.Message(at, eve, encode(prepare{ballot{7, eve}, trio, abe}), nil)
			return at
		}, time.Second + stagger, 2*time.Second + 2*stagger, ballot{8, bob}, abe},
		{"to a higher ballot that a voter has promised", func(m *Machine, at time.Duration) time.Duration {
			m.Message(at, ann, encode(nack{Ballot: ballot{1, bob}, Promised: ballot{5, eve}}), nil)
			return at
		}, stagger, 200*time.Millisecond + 2*stagger, ballot{6, bob}, abe},
		{"to a seed's next node", func(m *Machine, at time.Duration) time.Duration {
			m.Down(at, eve, nil)
			replace(m, at, 2, eve2, trio[2])
			m.Message(at+dialMax, eve2, encode(introduction("eve", trio[2])), nil)
			return at + dialMax
		}, dialMax + Listen(trio) + stagger, dialMax + Listen(trio) + 2*stagger, ballot{2, bob}, []transport.ID{ann, bob, eve2}},
		{"to a living mesh", func(m *Machine, at time.Duration) time.Duration {
			m.Up(at, transport.Hello{ID: 77, MeshID: 9, MeshName: "blue"}, nil)
			m.Down(at, 77, nil)
			return at
		}, meshMemory + stagger, meshMemory + 2*stagger, ballot{2, bob}, abe},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for r := range uint64(20) {
				m, at := begun(t, Config{Rand: r})
				old := ballot{1, bob}
				if r%2 == 0 {
					promises(t, m, at, old) // it gives way in phase two
				}
				then := tt.by(m, at)
				if got := promises(t, m, then, old); len(got) > 0 {
					t.Fatalf("it goes on with %+v", got)
				}
				m.Message(then, ann, encode(accepted{old}), nil)
				m.Message(then, eve, encode(accepted{old}), nil)
				if _, in := m.Mesh(); in {
					t.Fatal("it founded")
				}
				got := next(t, m, then)
				if want := (prepare{tt.ballot, trio, tt.roster}); !reflect.DeepEqual(got.msg, want) {
					t.Errorf("the next ballot is %+v, want %+v", got.msg, want)
				}
				if after := got.at - at; after < tt.from || after > tt.until {
					t.Errorf("it begins after %v, want %v to %v", after, tt.from, tt.until)
				}
				// Each of the others is asked once.
				rest := play(t, m, got.at, got.at+resend)
				if len(rest) != 2 {
					t.Errorf("it is repeated as %+v", rest)
				}
			}
		})
	}
}

// Proposers that meet one another wait for a longer time each time, up to 1.6 s.
func TestADuelOfProposers(t *testing.T) {
	longest := make([]time.Duration, 7)
	for r := range uint64(200) {
		m, at := begun(t, Config{Rand: r})
		for n := 1; n < len(longest); n++ {
			round := m.proposer.ballot.Round
			higher := nack{Ballot: ballot{round, bob}, Promised: ballot{round + 1, eve}, Why: "promised another"}
			if got := sendings(t, at, m.Message(at, ann, encode(higher), nil)); len(got) > 0 {
				t.Fatalf("it sends %+v at once", got)
			}
			got := next(t, m, at)
			if b := got.msg.(prepare).Ballot; b != (ballot{round + 2, bob}) {
				t.Fatalf("the next ballot is %v, want round %d", b, round+2)
			}
			longest[n] = max(longest[n], got.at-at)
			if least := got.at - at; least < stagger {
				t.Errorf("the next ballot begins after %v, before its turn", least)
			}
			at = got.at
		}
	}
	for n, got := range longest[1:] {
		bound := 100 * time.Millisecond << min(n+1, 4)
		if got > bound+2*stagger || got < bound*3/4+stagger {
			t.Errorf("after %d duels the next ballot begins after up to %v, want up to about %v", n+1, got, bound+2*stagger)
		}
	}
}

// A nack for now, or one that names no higher ballot, does not end a ballot. A nack carries the hint of
// a living mesh.
func TestANodeThatRefusesForNow(t *testing.T) {
	b := ballot{1, bob}
	m, at := begun(t, Config{})
	const hint = "10.0.0.9:1"
	out := m.Message(at, ann, encode(nack{Ballot: b, Why: "listens for a living mesh", Hint: hint}), nil)
	if !slices.Contains(dials(out), hint) {
		t.Errorf("the hint is not dialled: %v", out)
	}
	if want := "ann listens for a living mesh"; !strings.HasSuffix(m.Waiting(), want) {
		t.Errorf("it waits for %q, want %q", m.Waiting(), want)
	}
	m.Message(at, eve, encode(nack{Ballot: ballot{9, bob}, Promised: ballot{8, ann}, Why: "of another ballot"}), nil)
	m.Message(at, 9, encode(nack{Ballot: b, Promised: ballot{8, ann}, Why: "of a stranger"}), nil)
	if got := play(t, m, at, at+resend); len(got) != 2 || !reflect.DeepEqual(got[0].msg, prepare{b, trio, abe}) {
		t.Errorf("it goes on with %+v", got)
	}
	if promises(t, m, at+resend, b); strings.Contains(m.Waiting(), "listens") {
		t.Errorf("all have promised, and it still waits for %q", m.Waiting())
	}

	m, at = begun(t, Config{})
	m.Message(at, ann, encode(nack{Ballot: b, Why: "listens for a living mesh"}), nil)
	m.Message(at, eve, encode(nack{Ballot: b, Promised: ballot{1, eve}}), nil)
	if next(t, m, at); strings.Contains(m.Waiting(), "listens") {
		t.Errorf("the refusal of another ballot is reported: %q", m.Waiting())
	}
}

// A founder was replaced after it had accepted. The mesh stays the same, and its tokens begin above all
// that the dead founder may have granted.
func TestTheNextEpoch(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		m, at := begun(t, Config{Loopback: loopback})
		b := ballot{1, bob}
		old := value(4, bob, ann2, eve2)
		old.Grace = false
		m.Message(at, ann, encode(promise{Ballot: b, Floor: old.Founded + 9, At: ballot{1, ann}, Value: old}), nil)
		m.Message(at, eve, encode(promise{Ballot: b, Floor: 5}), nil)
		got, want := m.proposer.value, old
		want.Epoch, want.Founded, want.Grace = 5, old.Founded+9, true
		want.Roster = []Member{
			{ID: ann, Name: "ann", Addr: trio[0], Zone: "of ann"},
			{ID: bob, Name: "bob", Addr: trio[1], Zone: "west"},
			{ID: eve, Name: "eve", Addr: trio[2], Zone: "of eve"},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("it proposes %+v, want %+v", got, want)
		}
	}
}

// P29: a value that contradicts an option of the proposer is not proposed again.
func TestAProposerRefusesAValue(t *testing.T) {
	m, at := begun(t, Config{Wants: Options{Shards: 8}})
	b := ballot{1, bob}
	m.Message(at, ann, encode(promise{Ballot: b, Floor: 5, At: ballot{1, ann}, Value: value(1, abe...)}), nil)
	out := m.Message(at, eve, encode(promise{Ballot: b, Floor: 5}), nil)
	if err := failure(out); err == nil || !strings.Contains(err.Error(), "WithShards") || len(sendings(t, at, out)) > 0 {
		t.Errorf("it proposes what it cannot be part of: %v", out)
	}
}

// What delays a founding, and for how long.
func TestWhatHoldsAFoundingUp(t *testing.T) {
	const elsewhere = "10.9.9.9:1"
	tell := func(m *Machine, id transport.ID, name string, i int, wants Options) {
		a := introduction(name, trio[i])
		a.Wants = wants
		m.Message(0, id, encode(a), nil)
	}
	never := time.Hour
	for _, tt := range []struct {
		name   string
		before func(m *Machine)
		from   time.Duration // when the first ballot begins
	}{
		{"nothing", func(m *Machine) {}, Listen(trio) + stagger},
		{"a seed is not connected", func(m *Machine) { m.Down(0, eve, nil) }, never},
		{"a seed was not connected for a while", func(m *Machine) {
			m.Down(0, eve, nil)
			m.Tick(late, nil)
			m.Up(late, transport.Hello{ID: eve}, nil)
		}, late + stagger},
		{"a seed was not connected when its turn had nearly come", func(m *Machine) {
			m.Tick(Listen(trio), nil)
			m.Down(Listen(trio), eve, nil)
			m.Up(late, transport.Hello{ID: eve}, nil)
		}, late + stagger},
		{"a seed is new, and has not introduced itself", func(m *Machine) { m.Down(0, eve, nil); replace(m, 0, 2, eve2, trio[2]) }, never},
		{"a seed is new", func(m *Machine) {
			m.Down(0, eve, nil)
			replace(m, 0, 2, eve2, trio[2])
			m.Message(dialMax, eve2, encode(introduction("eve", trio[2])), nil)
		}, dialMax + Listen(trio) + stagger},
		{"a seed advertises an address that was not tried", func(m *Machine) {
			m.Down(0, eve, nil)
			replace(m, 0, 2, eve2, elsewhere)
			m.Message(dialMax, eve2, encode(introduction("eve", elsewhere)), nil)
		}, never},
		{"two connected nodes answer at a seed", func(m *Machine) {
			replace(m, 0, 2, eve2, trio[2])
			m.Message(dialMax, eve2, encode(introduction("eve", trio[2])), nil)
		}, never},
		{"two others have one name", func(m *Machine) { tell(m, eve, "ann", 2, Options{}) }, never},
		{"two others contradict each other", func(m *Machine) {
			tell(m, ann, "ann", 0, Options{Shards: 8})
			tell(m, eve, "eve", 2, Options{Shards: 16})
		}, never},
		{"a living mesh was met", func(m *Machine) {
			m.Up(0, transport.Hello{ID: 77, MeshID: 9}, nil)
			m.Down(0, 77, nil)
		}, meshMemory + stagger},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := founder(Config{})
			tt.before(m)
			got := play(t, m, 0, 2*late)
			if len(got) == 0 && tt.from == never && m.phase == searching {
				return
			}
			if len(got) == 0 || got[0].at < tt.from || got[0].at > tt.from+stagger {
				t.Errorf("its first messages are %.200s, want a ballot after %v", fmt.Sprint(got), tt.from)
			}
		})
	}
	t.Run("it is not listed", func(t *testing.T) {
		m := New(Config{Self: Member{ID: 9, Name: "joe", Addr: elsewhere}, Seeds: trio})
		m.Start(0, nil)
		for i, id := range abe {
			h := transport.Hello{ID: id, Addr: trio[i]}
			m.Up(0, h, nil)
			m.Dialed(0, trio[i], h, nil, nil)
			m.Message(0, id, encode(introduction(id.String(), trio[i])), nil)
		}
		if got := play(t, m, 0, late); len(got) > 0 {
			t.Errorf("it sends %+v", got)
		}
	})
}

// A proposer does not omit a founder of an accepted value that is still connected: it waits until the
// founder is gone, or answers at its seed again.
func TestAProposerLeavesNoConnectedFounderOut(t *testing.T) {
	m := founder(Config{})
	m.Message(late, ann, encode(prepare{ballot{2, ann}, trio, abe}), nil)
	m.Message(late, ann, encode(accept{ballot{2, ann}, value(1, abe...)}), nil)
	m.Down(late, ann, nil)
	replace(m, late, 0, ann2, trio[0])
	now := late + dialMax
	m.Message(now, ann2, encode(introduction("ann", trio[0])), nil)
	m.Up(now, transport.Hello{ID: ann}, nil) // it lives after all
	if got := play(t, m, now, now+10*time.Second); len(got) > 0 {
		t.Fatalf("it sends %+v", got)
	}
	now += 10 * time.Second
	m.Down(now, ann, nil)
	got := next(t, m, now)
	if want := (prepare{ballot{3, bob}, trio, []transport.ID{ann2, bob, eve}}); !reflect.DeepEqual(got.msg, want) || got.at > now+resend+2*stagger {
		t.Errorf("at %v, %v after it is gone: %+v, want %+v", got.at, got.at-now, got.msg, want)
	}
}

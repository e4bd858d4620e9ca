package founding

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

const (
	ann = transport.ID(1 + iota)
	bob // the acceptor
	eve
	ann2 // the next incarnations
	eve2
)

var trio = []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"} // of ann, bob and eve

const late = time.Minute // when bob has long listened

func of(ids ...transport.ID) []Member {
	var list []Member
	for _, id := range ids {
		list = append(list, Member{ID: id, Name: id.String()})
	}
	return list
}

func value(epoch uint64, ids ...transport.ID) Mesh {
	v := someMesh
	v.Epoch, v.Roster = epoch, of(ids...)
	return v
}

// listener returns bob, which is connected to ann and eve.
func listener(wants Options) *Machine { return listening(Config{Wants: wants}) }

// listening is listener with a whole configuration.
func listening(cfg Config) *Machine {
	cfg.Self, cfg.Seeds = Member{ID: bob, Name: "bob", Addr: trio[1], Zone: "west"}, trio
	m := New(cfg)
	m.Start(0, nil)
	m.Dialed(0, trio[1], transport.Hello{ID: bob}, nil, nil)
	for i, id := range []transport.ID{ann, bob, eve} {
		if id != bob {
			m.Up(0, transport.Hello{ID: id, Addr: trio[i]}, nil)
			m.Dialed(0, trio[i], transport.Hello{ID: id, Addr: trio[i]}, nil, nil)
		}
	}
	return m
}

// introduction is the answer in which the node at addr sends its card.
func introduction(name, addr string) answer {
	return answer{card: card{Name: name, Addr: addr, Zone: "of " + name, Seeds: trio}}
}

// founder is a listener to which ann and eve have introduced themselves: it founds once it has listened.
func founder(cfg Config) *Machine {
	m := listening(cfg)
	m.Message(0, ann, encode(introduction("ann", trio[0])), nil)
	m.Message(0, eve, encode(introduction("eve", trio[2])), nil)
	return m
}

// replace makes another node answer at the seed i, which is connected and has not introduced itself.
func replace(m *Machine, now time.Duration, i int, id transport.ID, addr string) {
	m.Dialed(now, trio[i], transport.Hello{}, errors.New("refused"), nil) // unless it is not dialled
	m.Tick(now+dialMax, nil)
	m.Up(now+dialMax, transport.Hello{ID: id, Addr: addr}, nil)
	m.Dialed(now+dialMax, trio[i], transport.Hello{ID: id, Addr: addr}, nil, nil)
}

// answers returns what m sends to id among out, asks and joins aside.
func answers(t *testing.T, out []Output, id transport.ID) []message {
	t.Helper()
	var list []message
	for _, o := range out {
		s, ok := o.(Send)
		if !ok || s.To != id {
			continue
		}
		msg, err := decode(s.Body)
		if err != nil {
			t.Fatal(err)
		}
		switch msg.(type) {
		case ask, join:
		default:
			list = append(list, msg)
		}
	}
	return list
}

func TestAcceptor(t *testing.T) {
	type in struct {
		from transport.ID
		msg  message
	}
	low, mid, high := ballot{1, ann}, ballot{2, ann}, ballot{3, eve}
	abe := []transport.ID{ann, bob, eve}
	begun := in{ann, prepare{mid, trio, abe}}
	first := in{ann, accept{mid, value(1, ann, bob, eve)}}
	for _, tt := range []struct {
		name  string
		given []in
		down  transport.ID // before the last input
		at    time.Duration
		when  in
		want  []message
	}{
		{name: "a ballot is promised", when: begun, want: []message{promise{Ballot: mid, Floor: 1}}},
		{name: "a promise is repeated", given: []in{begun}, when: begun, want: []message{promise{Ballot: mid, Floor: 1}}},
		{name: "a ballot is not promised with two rosters", given: []in{begun}, when: in{ann, prepare{mid, trio, []transport.ID{ann, bob, eve2}}}},
		{name: "a higher ballot is promised too", given: []in{begun}, when: in{eve, prepare{high, trio, abe}},
			want: []message{promise{Ballot: high, Floor: 1}}},
		{name: "a lower ballot is not promised", given: []in{begun}, when: in{ann, prepare{low, trio, abe}},
			want: []message{nack{Ballot: low, Promised: mid, Why: "promised another"}}},
		{name: "an acceptor does not promise while it listens", at: time.Second, when: begun,
			want: []message{nack{Ballot: mid, Why: "listens for a living mesh"}}},
		{name: "an acceptor does not promise while it knows of a living mesh", given: []in{{eve, living{ID: 9, Name: "m"}}}, when: begun,
			want: []message{nack{Ballot: mid, Why: "knows of a living mesh", Hint: trio[2]}}},
		{name: "a prepare with other seeds is ignored", when: in{ann, prepare{mid, trio[:2], abe[:2]}}},
		{name: "a roster without a node at a seed is ignored", when: in{ann, prepare{mid, trio, []transport.ID{ann, bob, 0}}}},
		{name: "a roster without the acceptor is ignored", when: in{ann, prepare{mid, trio, []transport.ID{ann, 9, eve}}}},
		{name: "a roster without the proposer is ignored", when: in{ann, prepare{mid, trio, []transport.ID{9, bob, eve}}}},
		{name: "a roster of more nodes than seeds is ignored", when: in{ann, prepare{mid, trio, append(slices.Clone(abe), 9)}}},
		{name: "a prepare for another node's ballot is ignored", when: in{eve, prepare{mid, trio, abe}}},

		{name: "the promised ballot is accepted", given: []in{begun}, when: first, want: []message{accepted{mid}}},
		{name: "a ballot that was not promised is not accepted", when: first,
			want: []message{nack{Ballot: mid, Why: "does not accept that any more"}}},
		{name: "a ballot below the promised one is not accepted", given: []in{begun, {eve, prepare{high, trio, abe}}}, when: first,
			want: []message{nack{Ballot: mid, Promised: high, Why: "does not accept that any more"}}},
		{name: "a value of other founders is not accepted", given: []in{begun}, when: in{ann, accept{mid, value(1, ann, bob)}}},
		{name: "an accept for another node's ballot is ignored", given: []in{begun}, when: in{eve, accept{mid, value(1, ann, bob, eve)}}},
		{name: "no value is accepted once a living mesh is known", given: []in{begun, {eve, living{ID: 1, Name: "m"}}}, when: first,
			want: []message{nack{Ballot: mid, Promised: mid, Why: "does not accept that any more", Hint: trio[2]}}},
		{name: "what was accepted is confirmed again, whatever is known by now", given: []in{begun, first, {eve, living{ID: 1, Name: "m"}}},
			when: first, want: []message{accepted{mid}}},
		{name: "what was accepted is reported", given: []in{begun, first}, when: in{eve, prepare{high, trio, abe}},
			want: []message{promise{Ballot: high, Floor: someMesh.Founded + 1<<20, At: mid, Value: value(1, ann, bob, eve)}}},
		{name: "a roster must not omit a founder that is still connected", given: []in{begun, first},
			when: in{eve, prepare{high, trio, []transport.ID{ann2, bob, eve}}},
			want: []message{nack{Ballot: high, Promised: mid, Why: "is still connected to 0000000000000001"}}},
		{name: "a roster may omit a founder that is gone", given: []in{begun, first}, down: ann,
			when: in{eve, prepare{high, trio, []transport.ID{ann2, bob, eve}}},
			want: []message{promise{Ballot: high, Floor: someMesh.Founded + 1<<20, At: mid, Value: value(1, ann, bob, eve)}}},

		{name: "a decision is believed", given: []in{begun, first}, when: in{ann, decide{Ballot: mid, Value: value(1, ann, bob, eve)}},
			want: []message{known{someMesh.MeshID, 1}}},
		{name: "a decision that may be older than a promise is not believed", given: []in{begun, first, {eve, prepare{high, trio, abe}}},
			when: in{ann, decide{Ballot: mid, Value: value(1, ann, bob, eve)}}},
		{name: "nor is one that answers a question from before the promise", given: []in{begun, first, {eve, prepare{high, trio, abe}}},
			when: in{ann, decide{Seq: 1, Ballot: mid, Value: value(1, ann, bob, eve)}}},
		{name: "one that answers a later question is believed", given: []in{begun, first, {eve, prepare{high, trio, abe}}},
			when: in{ann, decide{Seq: 99, Ballot: mid, Value: value(1, ann, bob, eve)}},
			want: []message{known{someMesh.MeshID, 1}}},
		{name: "a decision of other founders is not believed", when: in{ann, decide{Ballot: mid, Value: value(1, ann, eve)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := listener(Options{})
			at := tt.at
			if at == 0 {
				at = late
			}
			for _, g := range tt.given {
				m.Message(at, g.from, encode(g.msg), nil)
			}
			if tt.down != 0 {
				m.Down(at, tt.down, nil)
			}
			got := answers(t, m.Message(at, tt.when.from, encode(tt.when.msg), nil), tt.when.from)
			for i := range got {
				if p, ok := got[i].(promise); ok && p.At == (ballot{}) {
					p.Floor = 1
					got[i] = p
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("after %+v: %+v is answered with %+v, want %+v", tt.given, tt.when, got, tt.want)
			}
		})
	}
}

func TestAcceptorRefusesOptions(t *testing.T) {
	m := listener(Options{Shards: 8})
	mid := ballot{2, ann}
	m.Message(late, ann, encode(prepare{mid, trio, []transport.ID{ann, bob, eve}}), nil)
	out := m.Message(late, ann, encode(accept{mid, value(1, ann, bob, eve)}), nil)
	if f, ok := out[len(out)-1].(Failed); !ok || !errors.Is(f.Err, fault.ErrInvalidOption) {
		t.Errorf("a value that contradicts an option is answered with %v", out)
	}
}

// A node that has accepted a value joins no other mesh, unless a seed shows that the value is void.
func TestAcceptorJoinsNoOtherMesh(t *testing.T) {
	const stranger = transport.ID(77)
	joins := func(out []Output, id transport.ID) bool {
		return slices.ContainsFunc(out, func(o Output) bool {
			s, ok := o.(Send)
			if !ok || s.To != id {
				return false
			}
			msg, _ := decode(s.Body)
			_, ok = msg.(join)
			return ok
		})
	}
	m := listener(Options{})
	mid := ballot{2, ann}
	m.Message(late, ann, encode(prepare{mid, trio, []transport.ID{ann, bob, eve}}), nil)
	m.Message(late, ann, encode(accept{mid, value(1, ann, bob, eve)}), nil)
	other := transport.Hello{ID: stranger, MeshID: 9, MeshName: "blue", Addr: "10.0.0.7:1"}
	if joins(m.Up(late, other, nil), stranger) {
		t.Error("it joins a stranger's mesh")
	}
	if joins(m.Message(late, stranger, encode(living{ID: 9, Name: "blue"}), nil), stranger) {
		t.Error("it joins a stranger's mesh later")
	}
	if !joins(m.Message(late, eve, encode(living{ID: 9, Name: "blue"}), nil), eve) {
		t.Error("it does not follow a seed")
	}
	same := listener(Options{})
	same.Message(late, ann, encode(prepare{mid, trio, []transport.ID{ann, bob, eve}}), nil)
	same.Message(late, ann, encode(accept{mid, value(1, ann, bob, eve)}), nil)
	other.MeshID = someMesh.MeshID
	if !joins(same.Up(late, other, nil), stranger) {
		t.Error("it does not follow a member of the mesh that it accepted")
	}
}

// A promise says that its acceptor knows of no decision, and a proposer may rely on that. So after a
// promise an answer counts only if its question was asked after the promise, not just before it.
func TestAnAnswerIsAsOldAsItsQuestion(t *testing.T) {
	mid, high := ballot{2, ann}, ballot{3, eve}
	abe := []transport.ID{ann, bob, eve}
	decided := value(1, ann, bob, eve)
	for _, tt := range []struct {
		name string
		asks int // so many after the promise
		last int // which of all of them is answered, from the last one on
		want bool
	}{
		{"the last question before the promise", 0, 0, false},
		{"the one before that", 0, 1, false},
		{"the last before the promise, while a later one is under way", 1, 1, false},
		{"the first question after it", 1, 0, true},
		{"the first one while a later one is under way", 2, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := listener(Options{})
			m.Message(late, ann, encode(prepare{mid, trio, abe}), nil)
			m.Message(late, ann, encode(accept{mid, decided}), nil)
			m.ask(ann)
			m.ask(ann)
			m.Message(late, eve, encode(prepare{high, trio, abe}), nil)
			for range tt.asks {
				m.ask(ann)
			}
			m.Message(late, ann, encode(decide{Seq: m.seq - uint64(tt.last), Ballot: mid, Value: decided}), nil)
			if _, got := m.Mesh(); got != tt.want {
				t.Errorf("it takes the decision over: %v, want %v", got, tt.want)
			}
		})
	}
}

// In whichever order promises arrive, a proposer adopts the value accepted at the highest ballot.
func TestAProposerAdoptsTheHighest(t *testing.T) {
	ballots := []ballot{{}, {1, ann}, {2, ann}, {2, bob}, {2, eve}, {3, ann}}
	abe := []transport.ID{ann, bob, eve}
	mine := ballot{4, bob}
	accepts := func(at ballot) promise {
		p := promise{Ballot: mine, Floor: 1, At: at}
		if i := slices.Index(ballots, at); i > 0 {
			p.Value = value(uint64(i), abe...) // the later, the larger
		}
		return p
	}
	for _, own := range ballots {
		for _, anns := range ballots {
			for _, eves := range ballots {
				highest := max(slices.Index(ballots, own), slices.Index(ballots, anns), slices.Index(ballots, eves))
				if highest == 0 {
					continue // it makes a value of its own
				}
				m := listener(Options{})
				m.promiseBallot(mine, abe)
				m.proposer = proposer{
					running: true, ballot: mine, roster: abe, own: accepts(own), next: env.Never,
					voters: []voter{{id: ann}, {id: eve}},
				}
				m.Message(late, eve, encode(accepts(eves)), nil)
				out := m.Message(late, ann, encode(accepts(anns)), nil)
				want := []message{accept{mine, value(uint64(highest), abe...)}}
				if got := answers(t, out, eve); !reflect.DeepEqual(got, want) {
					t.Errorf("of %v, %v and %v it proposes %+v", own, anns, eves, got)
				}
			}
		}
	}
}

// The reasons for which an acceptor refuses to promise, and what ends them.
func TestWhatHoldsAPromiseBack(t *testing.T) {
	const elsewhere = "10.9.9.9:1"
	moved := func(m *Machine, i int, id transport.ID, name string) {
		replace(m, late, i, id, elsewhere)
		if name != "" {
			m.Message(late, id, encode(introduction(name, elsewhere)), nil)
		}
	}
	contested, unreached := "finds two nodes at "+trio[0], "cannot reach "+elsewhere+" at the advertised address"
	for _, tt := range []struct {
		name   string
		before func(m *Machine)
		roster []transport.ID
		why    string // none: it promises
	}{
		{"two connected nodes answer at a seed", func(m *Machine) { moved(m, 0, ann2, "") }, []transport.ID{ann2, bob, eve}, contested},
		{"one of the two is gone", func(m *Machine) { moved(m, 0, ann2, ""); m.Down(late, ann, nil) }, []transport.ID{ann2, bob, eve}, ""},
		{"the other one is gone, and the first is back", func(m *Machine) {
			moved(m, 0, ann2, "")
			m.Down(late, ann2, nil)
			replace(m, late+dialMax, 0, ann, trio[0])
		}, []transport.ID{ann, bob, eve}, ""},
		{"a founder advertises an address that was not tried", func(m *Machine) { moved(m, 2, eve2, "eve"); m.Down(late, eve, nil) },
			[]transport.ID{ann, bob, eve2}, unreached},
		{"a founder answers where it says", func(m *Machine) {
			moved(m, 2, eve2, "eve")
			m.Down(late, eve, nil)
			m.Dialed(late+dialMax, trio[2], transport.Hello{ID: eve2, Addr: elsewhere}, nil, nil)
			m.Tick(late+2*dialMax, nil)
			m.Dialed(late+2*dialMax, elsewhere, transport.Hello{ID: eve2, Addr: elsewhere}, nil, nil)
		}, []transport.ID{ann, bob, eve2}, ""},
		{"a founder has not introduced itself", func(m *Machine) { moved(m, 2, eve2, ""); m.Down(late, eve, nil) }, []transport.ID{ann, bob, eve2}, ""},
		{"one has not introduced itself, and another is elsewhere", func(m *Machine) {
			moved(m, 0, ann2, "")
			moved(m, 2, eve2, "eve")
			m.Down(late, ann, nil)
			m.Down(late, eve, nil)
		}, []transport.ID{ann2, bob, eve2}, unreached},
		{"a node that is elsewhere is not a founder", func(m *Machine) { moved(m, 2, eve2, "eve"); m.Down(late, eve, nil) },
			[]transport.ID{ann, bob, eve}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := listener(Options{})
			tt.before(m)
			at, b := late+3*dialMax, ballot{3, tt.roster[0]}
			got := answers(t, m.Message(at, b.ID, encode(prepare{b, trio, tt.roster}), nil), b.ID)
			if len(got) != 1 {
				t.Fatalf("it answers with %+v", got)
			}
			if p, ok := got[0].(promise); ok != (tt.why == "") || ok && p.Ballot != b {
				t.Errorf("it answers with %+v, want a promise: %v", got[0], tt.why == "")
			}
			if n, ok := got[0].(nack); ok && n.Why != tt.why {
				t.Errorf("it refuses since it %s, want %q", n.Why, tt.why)
			}
		})
	}
}

// A decision that arrives unasked may be older than a promise. Its sender, if connected, is asked, and
// answers with what still holds.
func TestAnOldDecisionIsAskedAbout(t *testing.T) {
	abe := []transport.ID{ann, bob, eve}
	for _, tt := range []struct {
		name string
		seq  uint64
		down bool
		want int
	}{
		{"the decision comes unasked", 0, false, 1},
		{"it answers an older question", 1, false, 0},
		{"the decision comes from a node that is gone", 0, true, 0},
	} {
		m := listener(Options{})
		m.Message(late, eve, encode(prepare{ballot{3, eve}, trio, abe}), nil)
		if tt.down {
			m.Down(late, ann, nil)
		}
		last, got := m.seq, 0
		for _, o := range m.Message(late, ann, encode(decide{Seq: tt.seq, Ballot: ballot{2, ann}, Value: value(1, abe...)}), nil) {
			if s, ok := o.(Send); ok && s.To == ann {
				if msg, _ := decode(s.Body); msg.(ask).Seq != last+1 {
					t.Errorf("%s: it sends %+v, want question %d", tt.name, msg, last+1)
				}
				got++
			}
		}
		if got != tt.want {
			t.Errorf("%s: %d questions, want %d", tt.name, got, tt.want)
		}
	}
}

// P17: the founding time that an acceptor allows is above its clock, above every token that it knows
// of, and above every token that the mesh it accepted first may have granted since.
func TestTheFoundingTimeThatIsAllowed(t *testing.T) {
	const start, wall = 7 * time.Second, 1_000_000
	abe := []transport.ID{ann, bob, eve}
	other := value(1, abe...)
	other.MeshID = 5
	low := func(v Mesh) Mesh { v.Founded = 3 * wall; return v }
	type accepts struct {
		at    time.Duration
		value Mesh
	}
	for _, tt := range []struct {
		name  string
		wall  int64
		floor uint64
		given []accepts
		want  uint64 // 20 s after late
	}{
		{"a clock", wall, 0, nil, wall + uint64((late + 20*time.Second - start).Milliseconds())},
		{"a clock before 1970", -wall, 0, nil, 1},
		{"a token", wall, 5 * wall, nil, 5 * wall},
		{"more than there is", wall, 1 << 62, nil, maxFounded},
		{"a value", wall, 0, []accepts{{late, low(value(1, abe...))}}, 3*wall + 40_000 + 1<<20},
		{"a value and another epoch of it", wall, 0, []accepts{{late, low(value(1, abe...))}, {late + 10*time.Second, low(value(2, abe...))}}, 3*wall + 40_000 + 1<<20},
		{"a value, and then another mesh", wall, 0, []accepts{{late, low(value(1, abe...))}, {late + 10*time.Second, low(other)}}, 3*wall + 20_000 + 1<<20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := New(Config{Self: Member{ID: bob, Name: "bob", Addr: trio[1]}, Seeds: trio, Wall: time.UnixMilli(tt.wall), Floor: tt.floor})
			m.Start(start, nil)
			b := ballot{1, ann}
			for _, g := range tt.given {
				b.Round++
				m.Message(g.at, ann, encode(prepare{b, trio, abe}), nil)
				m.Message(g.at, ann, encode(accept{b, g.value}), nil)
			}
			b.Round++
			got := answers(t, m.Message(late+20*time.Second, ann, encode(prepare{b, trio, abe}), nil), ann)
			if len(got) != 1 || got[0].(promise).Floor != tt.want {
				t.Errorf("it promises %+v, want the floor %d", got, tt.want)
			}
		})
	}
}

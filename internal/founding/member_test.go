package founding

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// A member, nodes that look for a mesh, and joiners.

// What a member answers. Eve may not know of the mesh yet: she knows when she says so of this mesh,
// but not when she says so of another one.
func TestWhatAMemberAnswers(t *testing.T) {
	v := joinable(t).mesh
	decided, at := ballot{1, ann}, late+informEvery/2
	epoch, foreign := v, v
	epoch.Epoch++
	foreign.MeshID++
	card := card{Name: "jo", Addr: "10.0.0.50:1"}
	for _, tt := range []struct {
		name     string
		from     transport.ID
		msg      message
		want     []message
		informed bool
	}{
		{"a founder asks", eve, ask{Seq: 5}, []message{decide{5, decided, v}}, false},
		{"another node asks", joiner, ask{Seq: 5}, []message{living{5, v.MeshID, "blue"}}, false},
		{"a founder begins a ballot", eve, prepare{ballot{9, eve}, trio, abe}, []message{decide{0, decided, v}}, false},
		{"another node begins one", joiner, prepare{ballot{9, joiner}, trio, abe}, []message{living{0, v.MeshID, "blue"}}, false},
		{"a founder proposes", eve, accept{ballot{9, eve}, v}, []message{decide{0, decided, v}}, false},
		{"another node proposes", joiner, accept{ballot{9, joiner}, v}, []message{living{0, v.MeshID, "blue"}}, false},
		{"a founder knows of the decision", eve, decide{0, decided, v}, []message{known{v.MeshID, v.Epoch}}, true},
		{"a founder knows of another epoch", eve, decide{0, decided, epoch}, nil, false},
		{"a founder knows of another mesh", eve, decide{0, decided, foreign}, nil, false},
		{"a founder is in the mesh", eve, known{v.MeshID, v.Epoch}, nil, true},
		{"a founder is in another epoch", eve, known{v.MeshID, v.Epoch + 1}, nil, false},
		{"a founder is in another mesh", eve, known{v.MeshID + 1, v.Epoch}, nil, false},
		{"a founder wants to join", eve, join{card}, []message{decide{0, decided, v}}, false},
		{"a promise comes late", eve, promise{Ballot: ballot{9, bob}}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := joinable(t)
			out := m.Message(at, tt.from, encode(tt.msg), nil)
			if got := answers(t, out, tt.from); !reflect.DeepEqual(got, tt.want) || len(dials(out)) > 0 {
				t.Errorf("it answers with %+v, want %+v", got, tt.want)
			}
			if informed := len(m.uninformed) == 0; informed != tt.informed {
				t.Errorf("eve knows of the mesh: %v, want %v", informed, tt.informed)
			}
			d, ok := tt.msg.(decide)
			wrong := ok && (d.Value.MeshID != v.MeshID || d.Value.Epoch != v.Epoch)
			if alarmed := slices.ContainsFunc(out, func(o Output) bool { _, ok := o.(Log); return ok }); alarmed != wrong {
				t.Errorf("it says that there are two meshes: %v, want %v", alarmed, wrong)
			}
		})
	}
	t.Run("what cannot be read", func(t *testing.T) {
		out := joinable(t).Message(at, eve, []byte{0xc1}, nil)
		if want := []Output{Drop{Peer: eve, Err: out[0].(Drop).Err}}; !reflect.DeepEqual(out, want) || out[0].(Drop).Err == nil {
			t.Errorf("it answers with %v, want %v", out, want)
		}
	})
}

// A founder that may not know of the mesh is informed when it connects and every second, until it
// knows. It is dialled for half a minute; after that it is informed only while it is connected.
func TestAFounderIsTold(t *testing.T) {
	m := joinable(t)
	decided := sending{0, eve, decide{0, ballot{1, ann}, m.mesh}}
	informs := func(out []Output) int {
		n := 0
		for _, s := range sendings(t, 0, out) {
			if reflect.DeepEqual(s, decided) {
				n++
			}
		}
		return n
	}
	check := func(what string, out []Output, tells, looks int) {
		t.Helper()
		if got := len(dials(out)); informs(out) != tells || got != looks || len(sendings(t, 0, out)) != tells {
			t.Errorf("%s: it informs %d times, and dials %d times: %v", what, informs(out), got, out)
		}
	}
	refuse := func(now time.Duration) { m.Dialed(now, trio[2], transport.Hello{}, errors.New("refused"), nil) }
	now := late + informEvery/2
	refuse(now)
	check("not yet", m.Tick(now, nil), 0, 0)
	check("another node connects", m.Up(now, transport.Hello{ID: 9}, nil), 0, 0)
	if out := m.Up(now, transport.Hello{ID: 10, MeshID: m.mesh.MeshID, MeshName: "blue"}, nil); len(out) > 0 {
		t.Errorf("a member connects, and it does %v", out)
	}
	m.Down(now, eve, nil)
	now = late + informEvery
	check("it is gone", m.Tick(now, nil), 0, 1)
	refuse(now)
	now += informEvery / 2
	check("it connects", m.Up(now, transport.Hello{ID: eve}, nil), 1, 1)
	refuse(now)
	if m.Deadline() != now+informEvery {
		t.Errorf("it wants to be called at %v, want %v", m.Deadline(), now+informEvery)
	}
	now = late + informFor + informEvery
	check("its time is over", m.Tick(now, nil), 1, 0)
	check("the next time", m.Tick(now+informEvery, nil), 1, 0)
	if got := m.Deadline(); got != now+2*informEvery {
		t.Errorf("it wants to be called at %v, want %v", got, now+2*informEvery)
	}
	m.Down(now+informEvery, eve, nil)
	if got := m.Deadline(); got != env.Never {
		t.Errorf("all are informed, and it wants to be called at %v", got)
	}

	// A founder without an address is informed, and not dialled.
	m = listener(Options{})
	out := m.Message(late, ann, encode(decide{Ballot: ballot{1, ann}, Value: value(1, abe...)}), nil)
	if got := dials(out); slices.Contains(got, "") {
		t.Errorf("it dials %q", got)
	}
}

// A founder is dead if another node, which is not this one, answers at its address.
func TestAFounderWasReplaced(t *testing.T) {
	for _, tt := range []struct {
		name     string
		addr     string
		peer     transport.Hello
		err      error
		informed bool
	}{
		{"its successor answers", trio[2], transport.Hello{ID: eve2}, nil, true},
		{"it answers", trio[2], transport.Hello{ID: eve}, nil, false},
		{"this node answers", trio[2], transport.Hello{ID: bob}, nil, false},
		{"this node answers, as an error", trio[2], transport.Hello{ID: bob}, transport.ErrSelf, false},
		{"no answer", trio[2], transport.Hello{}, errors.New("refused"), false},
		{"another founder's successor answers", trio[0], transport.Hello{ID: ann2}, nil, false},
	} {
		m := joinable(t)
		m.join(late, joiner, card{}) // has nothing to do with it
		m.dial(late, tt.addr)
		m.Dialed(late, tt.addr, tt.peer, tt.err, nil)
		if informed := len(m.uninformed) == 0; informed != tt.informed {
			t.Errorf("%s: eve need not be informed: %v, want %v", tt.name, informed, tt.informed)
		}
	}
}

// P30, P31: which joiners are let in. The joiner is jo, at her address; each step is a dial's outcome.
func TestAdmission(t *testing.T) {
	const addr, rivals = "10.0.0.50:1", "10.0.0.60:1"
	rival := Member{ID: 60, Name: "jo", Addr: rivals}
	self := transport.Hello{ID: joiner, Name: "jo", Addr: addr}
	no := errors.New("refused")
	type step struct {
		addr string
		peer transport.Hello
		err  error
	}
	home := step{addr, self, nil}
	for _, tt := range []struct {
		name  string
		as    string // her name; "" stands for jo
		named Member // the member that gossip names
		given func(m *Machine)
		steps []step
		dials []string // all of them
		want  string   // welcome, a refusal, or nothing
	}{
		{name: "she answers", steps: []step{home}, dials: []string{addr}, want: "welcome"},
		{name: "no answer", steps: []step{{addr, transport.Hello{}, no}}, dials: []string{addr},
			want: `mesh: not reachable at the advertised address: node "jo" at 10.0.0.50:1: refused`},
		{name: "another node answers", steps: []step{{addr, transport.Hello{ID: 9, Name: "joe"}, nil}}, dials: []string{addr},
			want: `mesh: not reachable at the advertised address: node "jo" at 10.0.0.50:1: node "joe" (0000000000000009) answers there, not 0000000000000032`},
		{name: "another node was dialled", steps: []step{{"10.0.0.1:1", self, nil}}, dials: []string{addr}},
		{name: "she is called as this node is", as: "bob", steps: []step{home}, dials: []string{addr},
			want: `mesh: name taken by a living node: "bob", by the node at 10.0.0.2:1`},
		{name: "a member has her name", named: rival, steps: []step{home}, dials: []string{addr, rivals}},
		{name: "and answers", named: rival, steps: []step{home, {rivals, transport.Hello{ID: 60}, nil}}, dials: []string{addr, rivals},
			want: `mesh: name taken by a living node: "jo", by the node at 10.0.0.60:1`},
		{name: "and does not answer", named: rival, steps: []step{home, {rivals, transport.Hello{}, no}}, dials: []string{addr, rivals}, want: "welcome"},
		{name: "and refuses", named: rival, steps: []step{home, {rivals, transport.Hello{ID: 60}, no}}, dials: []string{addr, rivals}, want: "welcome"},
		{name: "and another node answers there", named: rival, steps: []step{home, {rivals, transport.Hello{ID: 9}, nil}}, dials: []string{addr, rivals}, want: "welcome"},
		{name: "and she answers again", named: rival, steps: []step{home, {addr, self, nil}}, dials: []string{addr, rivals}},
		{name: "she was let in, and another node answers there then", steps: []step{home, {addr, transport.Hello{ID: 9}, nil}}, dials: []string{addr}, want: "welcome"},
		{name: "she was let in, and the other one answers then", named: rival, steps: []step{home, {rivals, transport.Hello{}, no}, {rivals, transport.Hello{ID: 60}, nil}},
			dials: []string{addr, rivals}, want: "welcome"},
		{name: "the member with her name was at her address", named: Member{ID: 60, Name: "jo", Addr: addr}, steps: []step{home}, dials: []string{addr}, want: "welcome"},
		{name: "gossip names this node", named: Member{ID: bob, Name: "jo", Addr: addr}, steps: []step{home}, dials: []string{addr},
			want: `mesh: name taken by a living node: "jo", by the node at 10.0.0.50:1`},
		{name: "a node of her name was let in just now", given: func(m *Machine) {
			m.Message(late, 60, encode(join{card{Name: "jo", Addr: rivals}}), nil)
			m.Dialed(late, rivals, transport.Hello{ID: 60}, nil, nil)
		}, steps: []step{home, {rivals, transport.Hello{ID: 60}, nil}}, dials: []string{addr, rivals},
			want: `mesh: name taken by a living node: "jo", by the node at 10.0.0.60:1`},
		{name: "a node of her name asks, too", given: func(m *Machine) {
			m.Message(late, 60, encode(join{card{Name: "jo", Addr: rivals}}), nil)
		}, steps: []step{home}, dials: []string{addr}, want: "welcome"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := joinable(t)
			m.informed(eve)
			m.cfg.Named = func(name string, except transport.ID) (Member, bool) {
				return tt.named, tt.named.ID != 0 && except == joiner && name == "jo"
			}
			if tt.given != nil {
				tt.given(m)
			}
			name := "jo"
			if tt.as != "" {
				name = tt.as
			}
			ask := encode(join{card{Name: name, Addr: addr}})
			now := late + time.Second
			out := m.Message(now, joiner, ask, nil)
			if got := m.Message(now, joiner, ask, nil); len(got) > 0 {
				t.Errorf("asked again, it does %v", got)
			}
			for _, s := range tt.steps {
				now += time.Second
				m.dial(now, s.addr) // for another need
				out = append(out, m.Dialed(now, s.addr, s.peer, s.err, nil)...)
			}
			looks := slices.DeleteFunc(dials(out), func(a string) bool { return a != addr && a != rivals })
			slices.Sort(looks) // some are repeated for another need
			if looks = slices.Compact(looks); !slices.Equal(looks, tt.dials) {
				t.Errorf("it dials %v, want %v", looks, tt.dials)
			}
			got := ""
			for _, msg := range answers(t, out, joiner) {
				switch msg := msg.(type) {
				case welcome:
					got += "welcome"
				case refuse:
					got += msg.Text
				}
			}
			if got != tt.want {
				t.Errorf("it answers with %q, want %q", got, tt.want)
			}
			// A node that was turned down may ask again at once; one that was let in is let in again.
			if tt.want == "" {
				return
			}
			for len(m.dials) > 0 {
				m.Dialed(now, m.dials[0].addr, transport.Hello{}, no, nil)
			}
			out = m.Message(now, joiner, ask, nil)
			in := tt.want == "welcome"
			if slices.Contains(dials(out), addr) == in || len(answers(t, out, joiner)) == 1 != in {
				t.Errorf("asked again, it does %v", out)
			}
		})
	}
}

// A welcome has the members, as many as a message may carry; without gossip, the founders. A client,
// and no other node, is let in without a check.
func TestAWelcome(t *testing.T) {
	many := make([]Member, maxMembers+1)
	for i := range many {
		many[i] = Member{ID: transport.ID(i + 1), Name: fmt.Sprint(i)}
	}
	for _, tt := range []struct {
		members func() []Member
		want    func(v Mesh) []Member
	}{
		{nil, func(v Mesh) []Member { return v.Roster }},
		{func() []Member { return many[:2] }, func(Mesh) []Member { return many[:2] }},
		{func() []Member { return many }, func(Mesh) []Member { return many[:maxMembers] }},
	} {
		m := joinable(t)
		m.informed(eve)
		m.cfg.Members = tt.members
		out := m.Message(late, joiner, encode(join{card{Name: "bob"}}), nil)
		got := answers(t, out, joiner)
		if want := (welcome{m.mesh, tt.want(m.mesh)}); len(got) != 1 || !reflect.DeepEqual(got[0], want) || len(dials(out)) > 0 {
			t.Errorf("a client gets %+v, want %+v", out, want)
		}
	}
}

// A refused node gets the reason as a kind and as a text, and nothing else is done for it.
func TestARefusal(t *testing.T) {
	long := strings.Repeat("x", maxString)
	longs := make([]string, maxSeeds)
	for i := range longs {
		longs[i] = long
	}
	for _, tt := range []struct {
		name string
		card card
		busy bool
		want refusal
		says string
	}{
		{"a mesh of another name", card{Name: "jo", Addr: "jo:1", Wants: Options{MeshName: "red"}}, false, refusedForeign,
			`mesh: foreign mesh: node "jo" asks for the mesh name "red", mesh "blue" has "blue"`},
		{"other shards", card{Name: "jo", Addr: "jo:1", Wants: Options{Shards: 8}}, false, refusedOption,
			`mesh: invalid option: node "jo" asks for WithShards 8, mesh "blue" has 64`},
		{"a founder is not informed yet", card{Name: "jo", Addr: "jo:1"}, true, refusedForNow,
			`the founder "0000000000000003" at 10.0.0.3:1 does not know of the mesh yet`},
		{"a client, and a founder is not informed yet", card{Name: "jo"}, true, refusedForNow,
			`the founder "0000000000000003" at 10.0.0.3:1 does not know of the mesh yet`},
		{"a text that is too long", card{Name: strings.Repeat("\x01", maxString), Addr: "jo:1", Wants: Options{MeshName: strings.Repeat("\x01", maxString)}}, false, refusedForeign,
			fmt.Sprintf(`mesh: foreign mesh: node %q asks for the mesh name`, strings.Repeat("\x01", maxString))[:maxText]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := joinable(t)
			if !tt.busy {
				m.informed(eve)
			}
			got := sendings(t, late, m.Message(late, joiner, encode(join{tt.card}), nil))
			if want := []sending{{late, joiner, refuse{tt.want, tt.says}}}; !reflect.DeepEqual(got, want) {
				t.Errorf("it answers with %+v, want %+v", got, want)
			}
			if len(m.admissions) > 0 {
				t.Errorf("it goes on with %+v", m.admissions)
			}
		})
	}
}

// If a member has the joiner's name, it is dialled after the joiner was. The outcome of an older dial
// does not count, each step has its own deadline, and Deadline is the earliest of them.
func TestTheTimesOfALookForARival(t *testing.T) {
	const addr, rivals = "10.0.0.50:1", "10.0.0.60:1"
	m := joinable(t)
	m.informed(eve)
	m.cfg.Named = func(string, transport.ID) (Member, bool) { return Member{ID: 60, Name: "jo", Addr: rivals}, true }
	m.dial(late, rivals) // a dial for another joiner is under way
	m.Message(late+1, joiner, encode(join{card{Name: "jo", Addr: addr}}), nil)
	if got := m.Deadline(); got != late+1+admitIn {
		t.Errorf("it wants to be called at %v, want %v", got, late+1+admitIn)
	}
	m.Message(late+2, 51, encode(join{card{Name: "zoe", Addr: "10.0.0.51:1"}}), nil)
	if got := m.Deadline(); got != late+1+admitIn {
		t.Errorf("with two joiners it wants to be called at %v, want %v", got, late+1+admitIn)
	}
	out := m.Dialed(late+3, addr, transport.Hello{ID: joiner}, nil, nil)
	if len(out) > 0 {
		t.Errorf("the joiner is there, and it gives %v", out)
	}
	out = m.Dialed(late+4, rivals, transport.Hello{ID: 60}, nil, nil)
	if !reflect.DeepEqual(out, []Output{Dial{rivals}}) {
		t.Errorf("an older look at the rival brings %v, want another look", out)
	}
	m.Dialed(late+4, "10.0.0.51:1", transport.Hello{}, errors.New("refused"), nil)
	if got := m.Deadline(); got != late+3+admitIn {
		t.Errorf("it wants to be called at %v, want %v", got, late+3+admitIn)
	}
	if got := m.Tick(late+3+admitIn-1, nil); len(got) > 0 {
		t.Errorf("before the rival's time is over it gives %v", got)
	}
	got := answers(t, m.Tick(late+3+admitIn, nil), joiner)
	if want := []message{welcome{m.mesh, m.mesh.Roster}}; !reflect.DeepEqual(got, want) {
		t.Errorf("when the rival's time is over it answers with %+v", got)
	}
}

// A dial that began before a node asked to be let in shows nothing about that node.
func TestALookFromBefore(t *testing.T) {
	const addr = "10.0.0.50:1"
	m := joinable(t)
	m.informed(eve)
	m.dial(late, addr)
	m.Message(late+1, joiner, encode(join{card{Name: "jo", Addr: addr}}), nil)
	out := m.Dialed(late+2, addr, transport.Hello{ID: 9}, nil, nil)
	if !reflect.DeepEqual(out, []Output{Dial{addr}}) {
		t.Errorf("a look from before brings %v, want another look", out)
	}
	if got := answers(t, m.Dialed(late+3, addr, transport.Hello{ID: joiner}, nil, nil), joiner); len(got) != 1 {
		t.Errorf("she answers, and gets %+v", got)
	}
}

// P28: a mesh of one gives way, once, to a mesh that lists its address. Other meshes do not.
func TestAMeshOfOneGivesWay(t *testing.T) {
	peer := transport.Hello{ID: stranger, Name: "someone", Addr: "10.0.0.77:1", MeshID: 1, MeshName: "blue"}
	client := func(m *Machine) { m.Message(late, joiner+1, encode(join{card{Name: "zoe"}}), nil) }
	node := func(m *Machine) {
		m.Message(late, joiner, encode(join{card{Name: "jo", Addr: "10.0.0.50:1"}}), nil)
		m.Dialed(late, "10.0.0.50:1", transport.Hello{ID: joiner}, nil, nil)
	}
	with := func(change func(h *transport.Hello)) transport.Hello {
		h := peer
		change(&h)
		return h
	}
	for _, tt := range []struct {
		name  string
		wants string
		given func(m *Machine)
		peer  transport.Hello
		want  bool
	}{
		{"a member of another mesh", "", nil, peer, true},
		{"a member of the mesh that was asked for", "blue", nil, peer, true},
		{"a member of a mesh that was not asked for", "red", nil, peer, false},
		{"a node that looks for a mesh", "", nil, with(func(h *transport.Hello) { h.MeshID = 0 }), false},
		{"a client", "", nil, with(func(h *transport.Hello) { h.Addr = "" }), false},
		{"a client was let in", "", client, peer, true},
		{"a node was let in", "", node, peer, false},
		{"a node was let in, and then a client", "", func(m *Machine) { node(m); client(m) }, peer, false},
		{"a second one", "", func(m *Machine) { m.Foreign(late, peer, nil) }, peer, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := New(Config{Self: Member{ID: bob, Name: "bob", Addr: trio[1]}, Found: true, Wants: Options{MeshName: tt.wants}})
			m.Start(0, nil)
			if tt.given != nil {
				tt.given(m)
			}
			var got []Output
			for _, o := range m.Foreign(late, tt.peer, nil) {
				if _, ok := o.(Log); !ok {
					got = append(got, o)
				}
			}
			var want []Output
			if tt.want {
				want = []Output{Disband{tt.peer}}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("it does %+v, want %+v", got, want)
			}
			if tt.want && (m.Deadline() != env.Never || len(m.Message(late, joiner, encode(ask{Seq: 1}), nil)) > 0) {
				t.Error("it goes on after its end")
			}
		})
	}
	t.Run("the mesh itself", func(t *testing.T) {
		m := New(Config{Self: Member{ID: bob, Name: "bob", Addr: trio[1]}, Found: true})
		m.Start(0, nil)
		if out := m.Foreign(late, with(func(h *transport.Hello) { h.MeshID = m.mesh.MeshID }), nil); len(out) > 0 {
			t.Errorf("it does %v", out)
		}
	})
	t.Run("a mesh that seeds founded", func(t *testing.T) {
		if out := joinable(t).Foreign(late, peer, nil); len(out) > 0 {
			t.Errorf("it does %v", out)
		}
	})
	t.Run("a node that looks for a mesh itself", func(t *testing.T) {
		if out := listener(Options{}).Foreign(dialMin-1, peer, nil); len(out) > 0 {
			t.Errorf("it does %v", out)
		}
	})
}

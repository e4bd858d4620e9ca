package founding

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// A node that looks for a mesh: the nodes that it dials and asks, and how it handles their answers.

const stranger = transport.ID(77)

// strange returns the hello of a stranger: a member of mesh 1, in which no seed is.
func strange(id transport.ID) transport.Hello {
	return transport.Hello{ID: id, MeshID: 1, MeshName: "blue", Addr: fmt.Sprintf("10.0.0.%d:1", id)}
}

// The outputs of an input come after those that out had before.
func TestOutputsAreAppended(t *testing.T) {
	m := listener(Options{})
	before := []Output{Dial{"before"}}
	if out := m.Tick(late, before); len(out) != 1+len(trio) || out[0] != before[0] {
		t.Errorf("it gives %v", out)
	}
}

// A seed that advertises another address is dialled there as well, until it has answered there (P31).
func TestWhereASeedIsDialled(t *testing.T) {
	const elsewhere = "10.9.9.9:1"
	const vague = `node "eve" of 10.0.0.3:1 does not answer at the address 10.9.9.9:1 that it advertises`
	h := transport.Hello{ID: eve2, Addr: elsewhere}
	at := func(addr string, peer transport.Hello, err error) func(*Machine) {
		return func(m *Machine) { m.Dialed(late+2*dialMax, addr, peer, err, nil) }
	}
	for _, tt := range []struct {
		name  string
		tells string // of itself, as its address; none: nothing
		then  func(m *Machine)
		want  bool // it is dialled there
	}{
		{"it has not introduced itself", "", nil, false},
		{"it has sent another address", elsewhere, nil, true},
		{"it has sent no address", "no", nil, false},
		{"it answers there", elsewhere, at(elsewhere, h, nil), false},
		{"another node answers there", elsewhere, at(elsewhere, transport.Hello{ID: 9, Addr: elsewhere}, nil), true},
		{"no node answers there", elsewhere, at(elsewhere, transport.Hello{}, errors.New("refused")), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := listener(Options{})
			m.Down(late, eve, nil)
			replace(m, late, 2, eve2, elsewhere)
			if a := introduction("eve", tt.tells); tt.tells != "" {
				a.Addr = strings.TrimSuffix(tt.tells, "no")
				m.Message(late+dialMax, eve2, encode(a), nil)
			}
			if tt.then != nil {
				m.Tick(late+2*dialMax, nil)
				tt.then(m)
				m.Dialed(late+2*dialMax, trio[2], h, nil, nil)
			}
			got := dials(m.Tick(late+3*dialMax, nil))
			slices.Sort(got)
			want := []string{trio[2]}
			if tt.want {
				want = append(want, elsewhere)
			}
			got = slices.DeleteFunc(got, func(s string) bool { return s == trio[0] || s == trio[1] })
			if !slices.Equal(got, want) {
				t.Errorf("it dials %v, want %v", got, want)
			}
			if strings.Contains(m.Waiting(), vague) != tt.want {
				t.Errorf("it waits for %q", m.Waiting())
			}
		})
	}
}

// What was known of a node that answered at a seed does not count for the next node there.
func TestTheNextNodeAtASeed(t *testing.T) {
	const old, elsewhere = "10.8.8.8:1", "10.9.9.9:1"
	m := listener(Options{})
	m.Down(late, eve, nil)
	replace(m, late, 2, eve2, old)
	m.Message(late+dialMax, eve2, encode(introduction("eve", old)), nil)
	m.Down(late+dialMax, eve2, nil)
	if got := dials(m.Tick(late+3*dialMax, nil)); !slices.Contains(got, old) {
		t.Fatalf("it dials %v", got)
	}
	// Another one answers at the seed, and then at the old one's address, too: that is not its own.
	m.Up(late+3*dialMax, transport.Hello{ID: 9, Addr: elsewhere}, nil)
	m.Dialed(late+3*dialMax, trio[2], transport.Hello{ID: 9, Addr: elsewhere}, nil, nil)
	m.Dialed(late+3*dialMax, old, transport.Hello{ID: 9, Addr: elsewhere}, nil, nil)
	m.Message(late+3*dialMax, 9, encode(introduction("joe", elsewhere)), nil)
	if got, want := m.Waiting(), `node "joe" of 10.0.0.3:1 does not answer at the address 10.9.9.9:1`; !strings.Contains(got, want) {
		t.Errorf("it waits for %q, want %q", got, want)
	}

	// The mesh that the old one was in is not known any more, but other meshes are.
	m = listener(Options{})
	m.Message(late, eve, encode(living{ID: 1, Name: "blue"}), nil)
	m.Up(late, strange(stranger), nil)
	m.Down(late, eve, nil)
	m.Down(late, stranger, nil)
	replace(m, late, 2, eve2, trio[2])
	var left []transport.ID
	for _, target := range m.targets {
		left = append(left, target.id)
	}
	if !slices.Equal(left, []transport.ID{stranger}) {
		t.Errorf("it knows of the mesh from %v, want from the stranger alone", left)
	}
}

// Seeds, and addresses where a mesh was met, are dialled again after a while: one that is drawn, and
// shorter on loopback.
func TestThePaceOfDials(t *testing.T) {
	for _, tt := range []struct {
		seeds    []string
		from, to time.Duration
	}{
		{trio, dialMin, dialMax},
		{[]string{"127.0.0.1:1", "localhost:2", "[::1]:3"}, dialMin / 6, dialMax / 6},
	} {
		m := New(Config{Self: Member{ID: bob, Name: "bob", Addr: "10.0.0.9:1"}, Seeds: tt.seeds})
		begun := map[string]time.Duration{}
		first, last := time.Hour, time.Duration(0)
		note := func(now time.Duration, out []Output) {
			for _, addr := range dials(out) {
				if before, ok := begun[addr]; ok {
					first, last = min(first, now-before), max(last, now-before)
				}
				begun[addr] = now
				if out := m.Dialed(now, addr, transport.Hello{}, errors.New("refused"), nil); len(out) > 0 {
					t.Fatalf("it dials again at once: %v", out)
				}
			}
		}
		note(0, m.Start(0, nil))
		note(0, m.Up(0, strange(stranger), nil))
		note(0, m.Down(0, stranger, nil))
		for now := m.Deadline(); now < late; now = m.Deadline() {
			if note(now, m.Tick(now, nil)); m.Deadline() <= now {
				t.Fatalf("at %v it wants to be called at %v", now, m.Deadline())
			}
		}
		if begun[strange(stranger).Addr] == 0 {
			t.Error("the stranger is not dialled")
		}
		spread := tt.to - tt.from
		if first < tt.from || first > tt.from+spread/4 || last > tt.to || last < tt.to-spread/4 {
			t.Errorf("%v: dialled every %v to %v, want %v to %v", tt.seeds, first, last, tt.from, tt.to)
		}
	}
}

// There is one attempt at an address at a time. A need for a later one is met when the first has
// ended. The outcome of a dial that was not asked for is ignored.
func TestOneDialOfAnAddressAtATime(t *testing.T) {
	m := listener(Options{})
	hint := encode(answer{Hint: trio[0], card: introduction("eve", trio[2]).card})
	if got := dials(m.Tick(late, nil)); len(got) != 3 {
		t.Fatalf("it dials %v", got)
	}
	if got := dials(m.Message(late, eve, hint, nil)); len(got) > 0 {
		t.Errorf("it dials %v, which it does already", got)
	}
	if got := dials(m.Dialed(late+1, trio[0], transport.Hello{}, errors.New("refused"), nil)); !slices.Equal(got, trio[:1]) {
		t.Errorf("it dials %v then, want the first seed", got)
	}
	m = listener(Options{})
	if out := m.Dialed(dialMin-1, trio[0], transport.Hello{ID: 9, MeshID: 1, MeshName: "blue"}, nil, nil); len(out) > 0 || m.living() {
		t.Errorf("a dial that was not asked for brings %v", out)
	}
}

// An ask is answered with this node's card, and the address at which it met a living mesh.
func TestAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(m *Machine)
		hint   string
	}{
		{"no mesh was met", nil, ""},
		{"a member of a mesh is connected", func(m *Machine) { m.Up(late, strange(stranger), nil) }, strange(stranger).Addr},
		{"a member of a mesh was connected", func(m *Machine) {
			m.Up(late, strange(stranger), nil)
			m.Down(late, stranger, nil)
		}, ""},
		{"the mesh is of no use to one that has accepted another", func(m *Machine) {
			m.Message(late, ann, encode(prepare{ballot{2, ann}, trio, abe}), nil)
			m.Message(late, ann, encode(accept{ballot{2, ann}, value(1, abe...)}), nil)
			m.Up(late, strange(stranger), nil)
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := listener(Options{Shards: 64})
			if tt.before != nil {
				tt.before(m)
			}
			got := answers(t, m.Message(late, eve, encode(ask{Seq: 5, card: introduction("eve", trio[2]).card}), nil), eve)
			want := answer{Seq: 5, Hint: tt.hint, card: card{Name: "bob", Addr: trio[1], Zone: "west", Seeds: trio, Wants: Options{Shards: 64}}}
			if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
				t.Errorf("it answers with %+v, want %+v", got, want)
			}
			if strings.Contains(m.Waiting(), trio[2]+" has not introduced") {
				t.Errorf("eve's card is not stored: %q", m.Waiting())
			}
		})
	}
}

// Each time that a node answers at a seed it is asked, under a new number.
func TestQuestionsHaveNumbers(t *testing.T) {
	m := listener(Options{})
	for i := range uint64(3) {
		at := late + time.Duration(i)*dialMax
		m.Tick(at, nil)
		before := m.seq
		for _, o := range m.Dialed(at, trio[2], transport.Hello{ID: eve, Addr: trio[2]}, nil, nil) {
			if s, ok := o.(Send); ok {
				msg, _ := decode(s.Body)
				if a, ok := msg.(ask); !ok || a.Seq != before+1 || s.To != eve || !reflect.DeepEqual(a.card, m.card) {
					t.Errorf("it sends %+v to %v, want question %d", msg, s.To, before+1)
				}
			}
		}
		if m.seq != before+1 {
			t.Errorf("%d questions", m.seq-before)
		}
	}
}

// A hint is dialled at once. The node that answers there counts if it is in a mesh. A repeated hint
// adds no second target, and an empty one adds none.
func TestAHintIsFollowed(t *testing.T) {
	hint := func(addr string) []byte { return encode(answer{Hint: addr, card: introduction("eve", trio[2]).card}) }
	const addr = "10.0.0.77:1"
	for _, tt := range []struct {
		name string
		peer transport.Hello
		err  error
		want bool // a mesh is known
	}{
		{"a member answers", strange(stranger), nil, true},
		{"no node answers", transport.Hello{}, errors.New("refused"), false},
		{"a node answers that looks for a mesh itself", transport.Hello{ID: stranger, Addr: addr}, nil, false},
		{"a member answers, and refuses", strange(stranger), errors.New("refused"), false},
		{"this node answers", transport.Hello{ID: bob, MeshID: 1}, transport.ErrSelf, false},
	} {
		m := listener(Options{})
		if got := dials(m.Message(dialMin-1, eve, hint(addr), nil)); !slices.Equal(got, []string{addr}) {
			t.Errorf("%s: a hint has %v dialled", tt.name, got)
		}
		m.Message(dialMin-1, eve, hint(addr), nil)
		m.Message(dialMin-1, eve, hint(""), nil)
		if len(m.targets) != 1 {
			t.Errorf("%s: one hint leads to %+v", tt.name, m.targets)
		}
		m.Dialed(dialMin-1, addr, tt.peer, tt.err, nil)
		if m.living() != tt.want {
			t.Errorf("%s: a mesh is known: %v", tt.name, m.living())
		}
		if tt.want && m.targets[1] != (target{id: stranger, addr: addr, mesh: 1, name: "blue", seen: dialMin - 1, next: m.targets[1].next}) {
			t.Errorf("%s: it met %+v", tt.name, m.targets[1])
		}
	}
}

// A connected member is not dialled, nor is one without an address. Each member is one target.
func TestAMemberIsDialledWhileItIsNotConnected(t *testing.T) {
	m := listener(Options{})
	m.Up(late, strange(stranger), nil)
	m.Message(late, stranger, encode(living{ID: 1, Name: "blue"}), nil)
	m.Message(late, 78, encode(living{ID: 1, Name: "blue"}), nil) // it is said to be nowhere
	if len(m.targets) != 2 {
		t.Errorf("two members are known as %+v", m.targets)
	}
	addr := strange(stranger).Addr
	for _, down := range []bool{false, true} {
		now := late + dialMax
		got := dials(m.Tick(now, nil))
		if down {
			got = dials(m.Down(now, stranger, nil))
		}
		if slices.Contains(got, addr) != down || slices.Contains(got, "") {
			t.Errorf("connected: %v; it dials %q", !down, got)
		}
		if m.Deadline() <= now {
			t.Errorf("connected: %v; at %v it wants to be called at %v", !down, now, m.Deadline())
		}
	}
	// Once, until that has an outcome; and it is forgotten after its time all the same.
	play(t, m, late+dialMax, late+meshMemory)
	if m.living() || m.Waiting() == "" {
		t.Errorf("it still knows of %+v", m.targets)
	}
}

// P29: a mesh whose name is not the one asked for does not count, and at a seed it is an error.
func TestAMeshOfAnotherName(t *testing.T) {
	for _, tt := range []struct {
		wants, name  string
		seed         bool
		living, fail bool
	}{
		{"", "blue", false, true, false},
		{"blue", "blue", true, true, false},
		{"blue", "", false, true, false}, // not known yet
		{"red", "blue", false, false, false},
		{"red", "blue", true, false, true},
	} {
		from := stranger
		if tt.seed {
			from = eve
		}
		meetings := map[string]func(m *Machine) []Output{
			"it connects": func(m *Machine) []Output {
				return m.Up(dialMin-1, transport.Hello{ID: from, MeshID: 1, MeshName: tt.name, Addr: "10.0.0.77:1"}, nil)
			},
			"it tells": func(m *Machine) []Output {
				return m.Message(dialMin-1, from, encode(living{ID: 1, Name: tt.name}), nil)
			},
			"it answers at a hint": func(m *Machine) []Output {
				m.Message(dialMin-1, ann, encode(answer{Hint: "10.0.0.77:1", card: introduction("ann", trio[0]).card}), nil)
				return m.Dialed(dialMin-1, "10.0.0.77:1", transport.Hello{ID: from, MeshID: 1, MeshName: tt.name}, nil, nil)
			},
		}
		if tt.seed {
			meetings["it answers at the seed"] = func(m *Machine) []Output {
				m.Tick(dialMax, nil)
				return m.Dialed(dialMax, trio[2], transport.Hello{ID: eve, MeshID: 1, MeshName: tt.name, Addr: trio[2]}, nil, nil)
			}
		}
		for how, meeting := range meetings {
			m := listener(Options{MeshName: tt.wants})
			err := failure(meeting(m))
			if m.living() != tt.living || errors.Is(err, fault.ErrForeignMesh) != tt.fail {
				t.Errorf("%+v, %s: a mesh is known: %v, %v", tt, how, m.living(), err)
			}
			if tt.fail && !strings.Contains(err.Error(), `node "bob" asks for the mesh name "red", the seed 10.0.0.3:1 is in mesh "blue"`) {
				t.Errorf("%+v, %s: %v", tt, how, err)
			}
			if tt.living && m.targets[len(m.targets)-1].seed != tt.seed {
				t.Errorf("%+v, %s: it is taken for a seed: %v", tt, how, !tt.seed)
			}
		}
	}
}

// A seed that refuses this node as one of another mesh is an error, with this node's own text.
func TestASeedOfAnotherMesh(t *testing.T) {
	m := listener(Options{MeshName: "red"})
	m.Tick(late, nil)
	m.Message(late, eve, encode(answer{Hint: trio[0], card: introduction("eve", trio[2]).card}), nil) // to be dialled again
	refused := &transport.RefusedError{Peer: transport.Hello{ID: eve, Name: "eve", Addr: trio[2], MeshName: "blue"}, Reason: "no", Remote: true}
	err := failure(m.Dialed(late, trio[2], transport.Hello{}, refused, nil))
	if want := `node "bob" is for mesh "red", node "eve" at 10.0.0.3:1 for mesh "blue"`; !errors.Is(err, fault.ErrForeignMesh) || !strings.Contains(err.Error(), want) {
		t.Errorf("it fails with %v, want %s", err, want)
	}
	if out := m.Dialed(2*late, trio[0], transport.Hello{}, errors.New("refused"), nil); len(out) > 0 {
		t.Errorf("after its end it gives %v", out)
	}
}

// Founders that contradict each other fail as soon as one of them learns of it. Nodes that need not
// agree do not fail.
func TestFoundersMustAgree(t *testing.T) {
	other := introduction("eve", trio[2])
	other.Seeds = append(slices.Clone(trio), "10.0.0.9:1")
	longer := introduction("eve", trio[2])
	longer.Wants.LeaseTTL = time.Minute
	namesake := introduction("bob", trio[2])
	both := namesake
	both.Wants.MaxTTL = time.Hour
	hear := func(a answer) func(m *Machine) []Output {
		return func(m *Machine) []Output { return m.Message(late, eve, encode(a), nil) }
	}
	for _, tt := range []struct {
		name string
		do   func(m *Machine) []Output
		want error
		says string
	}{
		{"the seeds differ", hear(other), fault.ErrInvalidOption,
			`founders must list the same seeds: node "bob" lists ["10.0.0.1:1" "10.0.0.2:1" "10.0.0.3:1"], node "eve" at 10.0.0.3:1 lists ["10.0.0.1:1" "10.0.0.2:1" "10.0.0.3:1" "10.0.0.9:1"]`},
		{"a lease of the other is longer than this node allows", hear(longer), fault.ErrInvalidOption,
			`node "eve" asks for WithLeaseTTL 1m0s, node "bob" WithMaxTTL 7s`},
		{"the names are the same", hear(namesake), fault.ErrNameTaken, `"bob", by the founder at 10.0.0.3:1`},
		{"the names are the same, and options differ", hear(both), fault.ErrInvalidOption, "WithMaxTTL"},
		{"the other is in a mesh", func(m *Machine) []Output {
			m.Message(late, eve, encode(living{ID: 1, Name: "blue"}), nil)
			return hear(other)(m)
		}, nil, ""},
		{"a third one is in a mesh", func(m *Machine) []Output {
			m.Up(late, strange(stranger), nil)
			return hear(other)(m)
		}, fault.ErrInvalidOption, "the same seeds"},
		{"the other is not connected", func(m *Machine) []Output {
			m.Down(late, eve, nil)
			return hear(other)(m)
		}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := listener(Options{MaxTTL: 7 * time.Second})
			out := tt.do(m)
			err := failure(out)
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it fails with %v, want %v: %s", err, tt.want, tt.says)
			}
			if n := len(out); err != nil && failure(out[n-1:]) == nil {
				t.Errorf("it goes on after its end: %v", out)
			}
		})
	}
}

// P28, P29: what Start founds or refuses, and nothing else.
func TestAStartWithoutSeeds(t *testing.T) {
	self := Member{ID: bob, Name: "bob", Addr: "10.0.0.2:1", Zone: "west"}
	wants := Options{MeshName: "blue", Shards: 8, Replicas: 1, MaxTTL: time.Minute, LeaseTTL: time.Second}
	m := New(Config{Self: self, Found: true, Wants: wants, Wall: time.UnixMilli(5000), Floor: 7000})
	out := m.Start(late, nil)
	done, ok := out[len(out)-1].(Done)
	v := done.Mesh
	want := Mesh{
		MeshID: v.MeshID, Epoch: 1, Founded: 7000, Grace: true, Roster: []Member{self},
		Params: Params{MeshName: "blue", Shards: 8, Replicas: 1, MaxTTL: time.Minute, Rho: DefaultRho},
	}
	if !ok || v.MeshID == 0 || !reflect.DeepEqual(v, want) || done.Members != nil || m.Deadline() <= late {
		t.Errorf("it founds %+v, want %+v", v, want)
	}
	for name, cfg := range map[string]Config{
		"a client":                        {Self: Member{ID: bob, Name: "bob"}, Found: true, Loopback: true},
		"a node that may not found alone": {Self: self},
		"a name that is too long":         {Self: Member{ID: bob, Name: strings.Repeat("x", maxString+1), Addr: "a:1"}, Found: true},
	} {
		if out := New(cfg).Start(0, nil); len(out) != 1 || failure(out) == nil {
			t.Errorf("%s: %v", name, out)
		}
	}
}

// Seeds are compared as a set, and the caller's list stays as it is.
func TestTheOrderOfSeedsDoesNotMatter(t *testing.T) {
	list := []string{trio[2], trio[0], trio[1], trio[0]}
	m := New(Config{Self: Member{ID: bob, Name: "bob", Addr: trio[1]}, Seeds: list})
	if got := dials(m.Start(0, nil)); !slices.Equal(got, trio) {
		t.Errorf("it dials %v", got)
	}
	if !slices.Equal(list, []string{trio[2], trio[0], trio[1], trio[0]}) {
		t.Errorf("the caller's list is %v", list)
	}
}

// A founder listens from its own start on.
func TestListeningBeginsAtTheStart(t *testing.T) {
	m := New(Config{Self: Member{ID: bob, Name: "bob", Addr: trio[1]}, Seeds: trio})
	m.Start(late, nil)
	begin := encode(prepare{ballot{2, ann}, trio, abe})
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{Listen(trio) - 1, "founding.nack"}, {Listen(trio), "founding.promise"}} {
		got := answers(t, m.Message(late+tt.after, ann, begin, nil), ann)
		if len(got) != 1 || fmt.Sprintf("%T", got[0]) != tt.want {
			t.Errorf("%v after its start it answers with %+v, want a %s", tt.after, got, tt.want)
		}
	}
}

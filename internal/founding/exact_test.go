package founding

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// The cases in which two ballots, counts or moments are exactly equal: random worlds hardly ever meet
// them.

const joiner = transport.ID(50)

// joinable is bob as a member since late, when he heard of the mesh from ann: eve may not
// know of it.
func joinable(t *testing.T) *Machine {
	t.Helper()
	v := value(1, ann, bob, eve)
	for i := range v.Roster {
		v.Roster[i].Addr = trio[i]
	}
	m := listener(Options{})
	m.Message(late, ann, encode(decide{Ballot: ballot{1, ann}, Value: v}), nil)
	if _, in := m.Mesh(); !in || !slices.Equal(m.uninformed, []transport.ID{eve}) {
		t.Fatalf("bob does not know of the mesh, or not that eve may not know: %v", m.uninformed)
	}
	return m
}

func dials(out []Output) (addrs []string) {
	for _, o := range out {
		if d, ok := o.(Dial); ok {
			addrs = append(addrs, d.Addr)
		}
	}
	return addrs
}

func failure(out []Output) error {
	for _, o := range out {
		if f, ok := o.(Failed); ok {
			return f.Err
		}
	}
	return nil
}

func TestTheOrderOfBallots(t *testing.T) {
	for _, tt := range []struct {
		b, c ballot
		less bool
	}{
		{ballot{}, ballot{}, false},
		{ballot{2, ann}, ballot{2, ann}, false},
		{ballot{2, ann}, ballot{2, bob}, true},
		{ballot{2, bob}, ballot{2, ann}, false},
		{ballot{1, bob}, ballot{2, ann}, true},
		{ballot{2, ann}, ballot{1, bob}, false},
		{ballot{}, ballot{1, ann}, true},
	} {
		if got := tt.b.less(tt.c); got != tt.less {
			t.Errorf("%v is less than %v: %v, want %v", tt.b, tt.c, got, tt.less)
		}
	}
}

// Of two ballots of one round, that of the larger ID is the higher one, for every node.
func TestBallotsOfOneRound(t *testing.T) {
	roster := []transport.ID{ann, bob, eve}
	low, high := ballot{2, ann}, ballot{2, eve}
	for _, tt := range []struct {
		name          string
		first, second ballot
		want          message
	}{
		{"the larger ID comes second", low, high, promise{Ballot: high}},
		{"the larger ID comes first", high, low, nack{Ballot: low, Promised: high, Why: "promised another"}},
	} {
		m := listener(Options{})
		m.Message(late, tt.first.ID, encode(prepare{tt.first, trio, roster}), nil)
		got := answers(t, m.Message(late, tt.second.ID, encode(prepare{tt.second, trio, roster}), nil), tt.second.ID)
		if p, ok := got[0].(promise); ok {
			p.Floor = 0
			got[0] = p
		}
		if len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(tt.want) {
			t.Errorf("%s: answered with %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// A founder listens for exactly the time that Listen returns.
func TestTheEndOfListening(t *testing.T) {
	for _, tt := range []struct {
		at   time.Duration
		want string
	}{
		{Listen(trio) - 1, "founding.nack"},
		{Listen(trio), "founding.promise"},
	} {
		m := listener(Options{})
		got := answers(t, m.Message(tt.at, ann, encode(prepare{ballot{2, ann}, trio, []transport.ID{ann, bob, eve}}), nil), ann)
		if len(got) != 1 || fmt.Sprintf("%T", got[0]) != tt.want {
			t.Errorf("at %v a ballot is answered with %+v, want a %s", tt.at, got, tt.want)
		}
	}
}

// The first question after a promise is later than the promise.
func TestTheFirstQuestionAfterAPromise(t *testing.T) {
	for _, tt := range []struct {
		later uint64
		in    bool
	}{{0, false}, {1, true}} {
		m := listener(Options{})
		asked := m.seq
		m.Message(late, eve, encode(prepare{ballot{3, eve}, trio, []transport.ID{ann, bob, eve}}), nil)
		m.Message(late, ann, encode(decide{Seq: asked + tt.later, Ballot: ballot{2, ann}, Value: value(1, ann, bob, eve)}), nil)
		if _, in := m.Mesh(); in != tt.in {
			t.Errorf("a decision that answers question %d after a promise is believed: %v, want %v", tt.later, in, tt.in)
		}
	}
}

// A joiner asks one member until its patience ends, twice a second, and then the next one.
func TestTheEndOfAJoinersPatience(t *testing.T) {
	m := listener(Options{})
	asked := make(map[time.Duration][]transport.ID)
	note := func(now time.Duration, out []Output) {
		for _, o := range out {
			if s, ok := o.(Send); ok {
				if msg, _ := decode(s.Body); fmt.Sprintf("%T", msg) == "founding.join" {
					asked[now-late] = append(asked[now-late], s.To)
				}
			}
		}
	}
	for _, id := range []transport.ID{77, 78} {
		note(late, m.Up(late, transport.Hello{ID: id, MeshID: 9, MeshName: "blue", Addr: fmt.Sprintf("10.0.0.%d:1", id)}, nil))
	}
	for now := late; now < late+2*joinPatience; {
		now = m.Deadline()
		note(now, m.Tick(now, nil))
		if m.Deadline() <= now {
			t.Fatalf("at %v the machine has not done what was due", now)
		}
	}
	for at := time.Duration(0); at < 2*joinPatience; at += joinEvery {
		want := transport.ID(77)
		if at >= joinPatience {
			want = 78
		}
		if !slices.Equal(asked[at], []transport.ID{want}) {
			t.Errorf("after %v it asks %v, want %v", at, asked[at], want)
		}
	}
}

func TestTheLastRefusal(t *testing.T) {
	m := listener(Options{})
	m.Up(late, transport.Hello{ID: 77, MeshID: 9, MeshName: "blue", Addr: "10.0.0.7:1"}, nil)
	for n := 1; n <= maxRefusals; n++ {
		err := failure(m.Message(late, 77, encode(refuse{Why: refusedUnreachable, Text: "no"}), nil))
		if last := n == maxRefusals; last != errors.Is(err, fault.ErrUnreachable) {
			t.Errorf("after refusal %d of %d: %v", n, maxRefusals, err)
		}
	}
}

// Each option may be as large as its limit.
func TestStartTakesWhatIsAllowed(t *testing.T) {
	many := make([]string, maxSeeds)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	longest := strings.Repeat("x", maxString)
	for _, cfg := range []Config{
		{Seeds: many},
		{Self: Member{Name: longest, Addr: longest, Zone: longest}, Seeds: []string{longest}, Wants: Options{MeshName: longest}},
		{Seeds: []string{"a:1"}, Wall: time.UnixMilli(maxFounded)},
	} {
		if err := failure(New(cfg).Start(0, nil)); err != nil {
			t.Errorf("Start = %v", err)
		}
	}
	if err := failure(New(Config{Seeds: []string{"a:1"}, Wall: time.UnixMilli(maxFounded + 1)}).Start(0, nil)); !errors.Is(err, fault.ErrInvalidOption) {
		t.Errorf("a clock that is a millisecond too fast: %v", err)
	}
	if err := (Options{LeaseTTL: time.Minute}).Fits("n", Params{MaxTTL: time.Minute}); err != nil {
		t.Errorf("a lease as long as the longest: %v", err)
	}
	if err := (Options{LeaseTTL: time.Minute + 1}).Fits("n", Params{MaxTTL: time.Minute}); !errors.Is(err, fault.ErrInvalidOption) {
		t.Errorf("a lease longer than the longest: %v", err)
	}
}

// A founder that may not know of the mesh is informed and dialled, and keeps others out, until
// its time is over and no longer.
func TestTheEndOfTelling(t *testing.T) {
	joins := func(m *Machine, now time.Duration) string {
		got := answers(t, m.Message(now, joiner, encode(join{card{Name: "jo"}}), nil), joiner)
		if len(got) != 1 {
			t.Fatalf("at %v a joiner is answered with %+v", now, got)
		}
		return fmt.Sprintf("%T", got[0])
	}
	m := joinable(t)
	if got := joins(m, late+informFor-1); got != "founding.refuse" {
		t.Errorf("before the end a joiner gets a %s", got)
	}
	if got := joins(m, late+informFor); got != "founding.welcome" {
		t.Errorf("at the end a joiner gets a %s", got)
	}

	m = joinable(t)
	m.Down(late, eve, nil)
	looked := 0
	for now := m.Deadline(); now != env.Never; now = m.Deadline() {
		m.Dialed(now-1, trio[2], transport.Hello{}, errors.New("refused"), nil)
		if looked += len(dials(m.Tick(now, nil))); now >= late+informFor || m.Deadline() <= now {
			t.Fatalf("it is looked for at %v, and next at %v", now, m.Deadline())
		}
	}
	if want := int(informFor/informEvery) - 1; looked != want {
		t.Errorf("a founder that does not answer is looked for %d times more, want %d", looked, want)
	}
	m.Dialed(late+informFor-1, trio[2], transport.Hello{}, errors.New("refused"), nil)
	m.nextInform = late + informFor
	if got := dials(m.Tick(late+informFor, nil)); len(got) > 0 {
		t.Errorf("at the end %v is dialled", got)
	}
}

// A dial that began at the moment at which this founder became a member shows a successor.
func TestAFounderThatWasReplacedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		since    time.Duration // less the moment at which the dial began
		informed bool
	}{{0, true}, {1, false}} {
		m := joinable(t)
		m.since += tt.since
		m.Dialed(late+1, trio[2], transport.Hello{ID: eve2, Addr: trio[2]}, nil, nil)
		if informed := len(m.uninformed) == 0; informed != tt.informed {
			t.Errorf("a successor that was dialled %v before this founder was one counts: %v, want %v", tt.since, informed, tt.informed)
		}
	}
}

// A joiner is let in, refused and forgotten at its times, and not before.
func TestTheTimesOfAnAdmission(t *testing.T) {
	const addr = "10.0.0.50:1"
	ask := encode(join{card{Name: "jo", Addr: addr}})
	begin := func() *Machine {
		m := joinable(t)
		m.informed(eve)
		if got := dials(m.Message(late, joiner, ask, nil)); !slices.Equal(got, []string{addr}) {
			t.Fatalf("a joiner has %v dialled", got)
		}
		return m
	}
	m := begin()
	if got := answers(t, m.Tick(late+admitIn-1, nil), joiner); len(got) > 0 {
		t.Errorf("before its time is over it gets %+v", got)
	}
	if got := answers(t, m.Tick(late+admitIn, nil), joiner); len(got) != 1 || got[0].(refuse).Why != refusedUnreachable {
		t.Errorf("when its time is over it gets %+v", got)
	}

	m = begin()
	if got := answers(t, m.Dialed(late, addr, transport.Hello{ID: joiner, Addr: addr}, nil, nil), joiner); len(got) != 1 {
		t.Fatalf("it answers, and gets %+v", got)
	}
	m.Tick(late+admitMemory-1, nil)
	if out := m.Message(late+admitMemory-1, joiner, ask, nil); len(dials(out)) > 0 || len(answers(t, out, joiner)) != 1 {
		t.Errorf("a node that was let in a moment ago is not let in again: %v", out)
	}
	if got := answers(t, m.Tick(late+admitMemory, nil), joiner); len(got) > 0 {
		t.Errorf("a node that was let in long ago gets %+v", got)
	}
	if got := dials(m.Message(late+admitMemory, joiner, ask, nil)); len(got) != 1 {
		t.Errorf("for a node that was let in long ago, %v is dialled", got)
	}
}

func TestTheLastPlaceForAJoiner(t *testing.T) {
	m := joinable(t)
	m.informed(eve)
	for i := range transport.ID(maxAdmissions) {
		out := m.Message(late, joiner+i, encode(join{card{Name: fmt.Sprint(i), Addr: fmt.Sprint(i)}}), nil)
		if len(dials(out)) != 1 {
			t.Fatalf("joiner %d of %d: %v", i+1, maxAdmissions, out)
		}
	}
	out := m.Message(late, 7777, encode(join{card{Name: "jo", Addr: "jo:1"}}), nil)
	if got := answers(t, out, 7777); len(out) != 1 || !strings.Contains(got[0].(refuse).Text, "too many") {
		t.Errorf("for one more it does %v", out)
	}
}

// A mesh that fell silent counts as living for meshMemory, and is dialled until then.
func TestTheEndOfALivingMesh(t *testing.T) {
	const addr = "10.0.0.7:1"
	m := listener(Options{})
	m.Up(late, transport.Hello{ID: 77, MeshID: 9, MeshName: "blue", Addr: addr}, nil)
	m.Down(late, 77, nil)
	retry := m.targets[0].next
	if got := dials(m.Tick(retry-1, nil)); slices.Contains(got, addr) {
		t.Error("its member is dialled too soon")
	}
	if got := dials(m.Tick(retry, nil)); !slices.Contains(got, addr) {
		t.Error("its member is not dialled when it is time")
	}
	if m.Tick(late+meshMemory-1, nil); !m.living() {
		t.Error("it is forgotten too soon")
	}
	if m.Tick(late+meshMemory, nil); m.living() {
		t.Error("it is not forgotten when it is time")
	}
}

// Seeds are dialled again when it is time.
func TestWhatIsDueIsDone(t *testing.T) {
	m := New(Config{Self: Member{ID: bob, Name: "bob", Addr: trio[1]}, Seeds: trio})
	dialled := dials(m.Start(0, nil))
	for now := time.Duration(0); len(dialled) < 200; now = m.Deadline() {
		out := m.Tick(now, nil)
		for _, addr := range dialled {
			m.Dialed(now, addr, transport.Hello{}, errors.New("refused"), nil)
		}
		if dialled = append(dialled, dials(out)...); m.Deadline() <= now || m.Deadline() == env.Never {
			t.Fatalf("at %v the machine has not done what was due, and wants to be called at %v", now, m.Deadline())
		}
	}
}

// The first seed in the list is followed, too.
func TestTheFirstSeedIsFollowed(t *testing.T) {
	m := listener(Options{})
	m.Message(late, eve, encode(prepare{ballot{2, eve}, trio, []transport.ID{ann, bob, eve}}), nil)
	m.Message(late, eve, encode(accept{ballot{2, eve}, value(1, ann, bob, eve)}), nil)
	m.Message(late, ann, encode(living{ID: 9, Name: "blue"}), nil)
	if m.joining.member != ann {
		t.Errorf("a seed is in a mesh, and %v is asked to be let in", m.joining.member)
	}
}

func TestTheLastTarget(t *testing.T) {
	longest := strings.Repeat("x", maxString)
	m := listener(Options{})
	m.Up(late, transport.Hello{ID: 77, MeshID: 9, Addr: longest}, nil)
	m.Up(late, transport.Hello{ID: 78, MeshID: 9, Addr: longest + "x"}, nil)
	if m.targets[0].addr != longest || m.targets[1].addr != "" {
		t.Error("an address as long as it may be is not kept, or one that is longer")
	}
	for i := range transport.ID(2 * maxTargets) {
		m.Up(late, transport.Hello{ID: 100 + i, MeshID: 9, Addr: fmt.Sprint(i)}, nil)
	}
	met := len(m.targets)
	m = listener(Options{})
	for i := range 2 * maxTargets {
		m.Message(late, ann, encode(answer{Hint: fmt.Sprint("h", i), card: card{Name: "ann", Seeds: trio}}), nil)
	}
	if met != maxTargets || len(m.targets) != maxTargets {
		t.Errorf("%d targets were met, and %d heard of; want %d of each", met, len(m.targets), maxTargets)
	}
}

// If every seed has answered, none is missing.
func TestWaitingForNoSeed(t *testing.T) {
	m := listener(Options{})
	for i, id := range []transport.ID{ann, bob, eve} {
		m.Message(0, id, encode(answer{card: card{Name: fmt.Sprint(id), Addr: trio[i], Seeds: trio}}), nil)
	}
	want := "3 of 3 seeds answered; listening for a living mesh before founding one"
	if got := m.Waiting(); got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
}

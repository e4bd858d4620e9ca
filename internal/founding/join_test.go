package founding

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// A joiner, and the members that it asks to let it in.

// joins returns the members that out asks to let this node in, and checks the card.
func joins(t *testing.T, m *Machine, out []Output) (ids []transport.ID) {
	t.Helper()
	for _, s := range sendings(t, 0, out) {
		if j, ok := s.msg.(join); ok {
			if !reflect.DeepEqual(j.card, m.card) {
				t.Errorf("it sends the card %+v", j.card)
			}
			ids = append(ids, s.to)
		}
	}
	return ids
}

// joining at most twice a second, a joiner goes from one member to the next when one is gone, or
// could not reach it. A member that answers is asked again for as long as it answers.
func TestTheMemberThatAJoinerAsks(t *testing.T) {
	const other = stranger + 1
	type event struct {
		at time.Duration // after late
		do func(m *Machine, now time.Duration) []Output
	}
	down := func(id transport.ID) func(m *Machine, now time.Duration) []Output {
		return func(m *Machine, now time.Duration) []Output { return m.Down(now, id, nil) }
	}
	says := func(id transport.ID, why refusal) func(m *Machine, now time.Duration) []Output {
		return func(m *Machine, now time.Duration) []Output {
			return m.Message(now, id, encode(refuse{Why: why, Text: "no"}), nil)
		}
	}
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		events []event
		until  time.Duration
		want   string // the members that it asks, and when
	}{
		{"nothing happens", nil, joinEvery, "77 after 0s, 77 after 500ms"},
		{"the member goes", []event{{100 * ms, down(stranger)}}, joinEvery, "77 after 0s, 78 after 500ms"},
		{"the member goes after a while", []event{{600 * ms, down(stranger)}}, 2 * joinEvery, "77 after 0s, 77 after 500ms, 78 after 1s"},
		{"all members go", []event{{100 * ms, down(stranger)}, {100 * ms, down(other)}}, time.Second, "77 after 0s"},
		{"all members go, and one comes back", []event{{100 * ms, down(stranger)}, {100 * ms, down(other)}, {800 * ms, func(m *Machine, now time.Duration) []Output {
			return m.Up(now, strange(other), nil)
		}}}, time.Second, "77 after 0s, 78 after 800ms"},
		{"the member cannot reach this node", []event{{200 * ms, says(stranger, refusedUnreachable)}}, time.Second, "77 after 0s, 78 after 700ms"},
		{"another one says that it cannot", []event{{200 * ms, says(other, refusedUnreachable)}}, joinEvery, "77 after 0s, 77 after 500ms"},
		{"the member lets no node in for now", []event{{200 * ms, says(stranger, refusedForNow)}}, time.Second, "77 after 0s, 77 after 700ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := listener(Options{})
			got := ""
			note := func(at time.Duration, out []Output) {
				for _, id := range joins(t, m, out) {
					if got != "" {
						got += ", "
					}
					got += fmt.Sprintf("%d after %v", uint64(id), at-late)
				}
			}
			note(late, m.Up(late, strange(stranger), nil))
			note(late, m.Up(late, strange(other), nil))
			pass := func(until time.Duration) {
				for at := m.Deadline(); at <= until; at = m.Deadline() {
					if note(at, m.Tick(at, nil)); m.Deadline() <= at {
						t.Fatalf("at %v it wants to be called at %v", at, m.Deadline())
					}
				}
			}
			for _, e := range tt.events {
				pass(late + e.at)
				note(late+e.at, e.do(m, late+e.at))
			}
			pass(late + tt.until)
			if got != tt.want {
				t.Errorf("it asks %s; want %s", got, tt.want)
			}
		})
	}
	t.Run("the member always answers", func(t *testing.T) {
		m := listener(Options{})
		m.Up(late, strange(stranger), nil)
		m.Up(late, strange(other), nil)
		for now := late; now < late+2*joinPatience; now += joinEvery {
			for _, id := range joins(t, m, m.Tick(now, nil)) {
				if id != stranger {
					t.Errorf("after %v it asks %v", now-late, id)
				}
			}
			says(stranger, refusedForNow)(m, now)
		}
	})
	t.Run("a seed is a member", func(t *testing.T) {
		m := listener(Options{})
		m.Message(late, eve, encode(living{ID: 1, Name: "blue"}), nil)
		m.Up(late, strange(stranger), nil)
		for now := late; now < late+2*joinPatience; now = m.Deadline() {
			for _, id := range joins(t, m, m.Tick(now, nil)) {
				if id != eve {
					t.Errorf("after %v it asks %v", now-late, id)
				}
			}
		}
	})
	t.Run("the seeds are in two meshes", func(t *testing.T) {
		m := listener(Options{})
		m.Message(late, eve, encode(living{ID: 1, Name: "blue"}), nil)
		out := m.Message(late+joinEvery, ann, encode(living{ID: 2, Name: "blue"}), nil)
		if err := failure(out); !errors.Is(err, fault.ErrForeignMesh) || len(joins(t, m, out)) > 0 {
			t.Errorf("it does %v", out)
		}
	})
}

// A node that no member reaches fails at the third refusal in a row, also by several members.
func TestRefusalsOfSeveralMembers(t *testing.T) {
	m := listener(Options{})
	m.Up(late, strange(stranger), nil)
	m.Up(late, strange(stranger+1), nil)
	no := encode(refuse{Why: refusedUnreachable, Text: "no"})
	m.Message(late, stranger, no, nil)
	m.Down(late, m.joining.member, nil)
	for n := 2; n <= maxRefusals; n++ {
		err := failure(m.Message(late, m.joining.member, no, nil))
		if last := n == maxRefusals; errors.Is(err, fault.ErrUnreachable) != last {
			t.Errorf("after refusal %d of %d: %v", n, maxRefusals, err)
		}
	}
}

// What the member that was asked answers ends the search; what others answer does not count.
func TestTheAnswerToAJoiner(t *testing.T) {
	v := value(1, ann, eve)
	members := []Member{{ID: stranger, Name: "someone", Addr: "10.0.0.77:1", Zone: "z"}}
	for _, tt := range []struct {
		name string
		from transport.ID
		msg  message
		done bool
		want error
	}{
		{"a welcome", stranger, welcome{v, members}, true, nil},
		{"a welcome from another node", eve, welcome{v, members}, false, nil},
		{"a welcome to a founder, which must learn of the decision", stranger, welcome{value(1, ann, bob, eve), members}, false, nil},
		{"a welcome to a mesh of other shards", stranger, welcome{func() Mesh { o := v; o.Params.Shards = 8; return o }(), members}, false, fault.ErrInvalidOption},
		{"a welcome to a mesh of another name", stranger, welcome{func() Mesh { o := v; o.Params.MeshName = "red"; return o }(), members}, false, fault.ErrForeignMesh},
		{"a refusal of the mesh name", stranger, refuse{refusedForeign, "no"}, false, fault.ErrForeignMesh},
		{"a refusal of an option", stranger, refuse{refusedOption, "no"}, false, fault.ErrInvalidOption},
		{"a refusal of the name", stranger, refuse{refusedName, "no"}, false, fault.ErrNameTaken},
		{"a refusal of the name from another node", eve, refuse{refusedName, "no"}, false, nil},
		{"a refusal for now", stranger, refuse{refusedForNow, "no"}, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := listener(Options{Shards: 64, MeshName: "blue"})
			m.Up(late, strange(stranger), nil)
			out := m.Message(late+joinEvery-1, tt.from, encode(tt.msg), nil)
			var done []Done
			for _, o := range out {
				if d, ok := o.(Done); ok {
					done = append(done, d)
				}
			}
			if _, in := m.Mesh(); in != tt.done || len(done) > 1 || len(done) == 1 != tt.done {
				t.Errorf("it is in: %v, and gives %v", in, out)
			}
			if tt.done && (!reflect.DeepEqual(done[0], Done{Mesh: v, Members: members})) {
				t.Errorf("it is in %+v", done[0])
			}
			err := failure(out)
			if !errors.Is(err, tt.want) || err == nil != (tt.want == nil) {
				t.Errorf("it fails with %v, want %v", err, tt.want)
			}
			if r, ok := tt.msg.(refuse); ok && err != nil && err.Error() != r.Text {
				t.Errorf("it fails with %q, want the member's words", err)
			}
			if err != nil && len(m.Tick(2*late, nil))+len(joins(t, m, out)) > 0 {
				t.Error("it goes on after its end")
			}
		})
	}
}

// A founder of the mesh in a welcome waits for the decision.
func TestOutputsOfADecision(t *testing.T) {
	m := listener(Options{})
	out := m.Message(late, ann, encode(decide{Ballot: ballot{1, ann}, Value: value(1, abe...)}), nil)
	i := slices.IndexFunc(out, func(o Output) bool { _, ok := o.(Done); return ok })
	if i < 0 || !reflect.DeepEqual(out[i], Done{Mesh: value(1, abe...)}) {
		t.Errorf("it gives %+v, want a Done without members", out)
	}
}

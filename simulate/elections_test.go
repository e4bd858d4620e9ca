package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/transport"
)

// leads wants to lead an election.
var leads = check.Want{Key: "k", Weight: 1, Capacity: 1, Leads: true}

// says is a leader with a value; with token zero there is none.
func says(token, sequence uint64, value string) env.Elected {
	return env.Elected{Token: token, Sequence: sequence, Value: value}
}

// asks lets a caller on host b ask who leads.
func (s *story) asks() (answered func(env.Elected)) {
	return s.w.Host("b").process.Clients().Asks(8, "k")
}

// observes lets a caller on host b observe the election, which knows for 2 s what was confirmed.
func (s *story) observes() env.Watcher {
	return s.w.Host("b").process.Clients().Observes(8, "k", 2*time.Second)
}

// P46: what callers and observers are told of an election, as the checkers see it.
func TestWhatIsToldOfElections(t *testing.T) {
	nobody, unknown := env.Elected{}, env.Elected{Unknown: true}
	for _, tt := range []struct {
		name  string
		story func(s *story)
		want  string
	}{
		{"an answer names the leader", func(s *story) {
			s.lock("x", "a", leads, 7)
			s.asks()(says(7, 0, "v"))
		}, ""},
		{"the question is older than the leader", func(s *story) {
			answered := s.asks()
			s.lock("x", "a", leads, 7)
			answered(nobody)
		}, ""},
		{"nobody leads, says the answer, and somebody does", func(s *story) {
			s.lock("x", "a", leads, 7)
			s.asks()(nobody)
		}, "P46 leader"},
		{"the leader resigns meanwhile", func(s *story) {
			s.lock("x", "a", leads, 7)
			answered := s.asks()
			s.unlock("x")
			answered(nobody)
		}, ""},
		{"nobody knows", func(s *story) {
			s.lock("x", "a", leads, 7)
			s.asks()(unknown)
		}, ""},
		{"a key that is locked has no leader", func(s *story) {
			s.lock("x", "a", check.Want{Key: "k", Weight: 1, Capacity: 1}, 7)
			s.asks()(nobody)
		}, ""},
		{"an answer names a leader of before", func(s *story) {
			s.lock("x", "a", leads, 7)
			s.unlock("x")
			s.lock("y", "a", leads, 9)
			s.unlock("y")
			s.asks()(says(7, 0, "v"))
		}, "P46 leader"},
		{"an answer has a value of before", func(s *story) {
			s.lock("x", "a", leads, 7)
			s.of("x").Proclaimed(2)
			s.asks()(says(7, 1, "v"))
		}, "P46 leader"},
		{"the question is older than the value", func(s *story) {
			s.lock("x", "a", leads, 7)
			answered := s.asks()
			s.of("x").Proclaimed(2)
			answered(says(7, 1, "v"))
		}, ""},
		{"a value is not the one that others were told", func(s *story) {
			s.asks()(says(7, 1, "v"))
			s.observes().Told(says(7, 1, "w"))
		}, "P46 value"},

		{"an observer is told of leaders and values in their order", func(s *story) {
			o := s.observes()
			for _, e := range []env.Elected{nobody, says(7, 0, "v"), says(7, 2, "w"), unknown, nobody, says(9, 1, "x")} {
				o.Told(e)
			}
		}, ""},
		{"an observer is told of a leader of before", func(s *story) {
			o := s.observes()
			o.Told(says(9, 0, "v"))
			o.Told(says(7, 1, "w"))
		}, "P46 back"},
		{"an observer is told of a value of before", func(s *story) {
			o := s.observes()
			o.Told(says(7, 2, "v"))
			o.Told(nobody)
			o.Told(says(7, 1, "w"))
		}, "P46 back"},
		{"an observer is told of what was so a second ago", func(s *story) {
			o := s.observes()
			s.lock("x", "a", leads, 7)
			s.pass(time.Second)
			o.Told(nobody)
		}, ""},
		{"an observer is told of what was so longer than a TTL ago", func(s *story) {
			o := s.observes()
			s.lock("x", "a", leads, 7)
			s.pass(3 * time.Second)
			o.Told(nobody)
		}, "P46 stale"},
		{"an observer is told of nothing new", func(s *story) {
			s.observes().Told(nobody)
			s.lock("x", "a", leads, 7)
			s.pass(5 * time.Second)
			s.unlock("x")
		}, "P46 missed"},
		{"an observer is told of nothing", func(s *story) {
			s.observes()
			s.lock("x", "a", leads, 7)
			s.pass(5 * time.Second)
			s.unlock("x")
		}, "P46 missed"},
		{"an observer is told that nobody knows", func(s *story) {
			s.observes().Told(unknown)
			s.lock("x", "a", leads, 7)
			s.pass(5 * time.Second)
			s.unlock("x")
		}, ""},
		{"a leader does not lead for long", func(s *story) {
			s.observes().Told(nobody)
			s.lock("x", "a", leads, 7)
			s.pass(2 * time.Second)
			s.unlock("x")
		}, ""},
		{"an observer looks no more", func(s *story) {
			o := s.observes()
			o.Told(nobody)
			o.Over()
			s.lock("x", "a", leads, 7)
			s.pass(5 * time.Second)
			s.unlock("x")
			o.Told(says(7, 0, "v"))
			o.Told(says(6, 0, "v"))
		}, ""},
		{"an observer stands still", func(s *story) {
			s.observes().Told(nobody)
			s.lock("x", "a", leads, 7)
			s.w.Host("b").Pause()
			s.pass(5 * time.Second)
			s.unlock("x")
		}, ""},
	} {
		s := &story{w: New(Options{}), holds: make(map[string]*tale)}
		s.w.Host("a")
		s.w.Host("b")
		s.pass(time.Second)
		tt.story(s)
		if err := s.w.Err(); (err != nil) != (tt.want != "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		s.w.Close()
	}
}

// TestWordsOfAnotherMesh: a leader that only observers have heard of, as its own call never returned, may have its token again in the next
// mesh, if no clock of that is past it. (Seed 490030274, hostile.)
func TestWordsOfAnotherMesh(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ahead time.Duration // of the clock of the next mesh, of the first leader's token
		want  string
	}{
		{"a clock that is behind", time.Second, ""},
		{"a clock that is past it", -time.Second, "P46 value"},
	} {
		s := &story{w: New(Options{}), holds: make(map[string]*tale)}
		s.w.history.Meshes = 2
		a, b := s.w.Host("a").process, s.w.Host("b").process
		a.Inspect(1, &looked{mesh: 7, seats: []transport.ID{1}})
		s.w.observer().Founded(1, 7)
		token := uint64(b.Wall().Add(tt.ahead).UnixMilli()) << 10
		s.asks()(says(token, 0, "v"))
		b.Inspect(2, &looked{mesh: 8, seats: []transport.ID{2}})
		s.w.observer().Founded(2, 8)
		_ = s.w.Run(time.Second)
		s.asks()(says(token, 0, "w"))
		if err := s.w.Err(); (err != nil) != (tt.want != "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		s.w.Close()
	}
}

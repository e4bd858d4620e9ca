package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate/internal/check"
)

// A scenario that lets time pass and returns is judged like one that asks for it: its
// history as a whole, but that calls may be under way.
func TestPlayAsksForTheVerdict(t *testing.T) {
	for _, tt := range []struct {
		name string
		tell func(s *story)
		want string
	}{
		{"nothing happens", func(*story) {}, ""},
		{"a hold goes on, and a call", func(s *story) {
			s.lock("1", "a", check.Exclusive("k"), 1)
			s.call("2", "b", check.Exclusive("k"))
		}, ""},
		{"a hold ends before its deadline", func(s *story) {
			s.lock("1", "a", check.Exclusive("k"), 1)
			s.pass(time.Second)
			s.lost("1")
		}, "G5 lease"},
		{"a try is refused that could have been granted", func(s *story) {
			s.call("1", "a", check.Exclusive("k"))
			s.pass(time.Second)
			s.refused("1")
		}, "G1, G2"},
	} {
		for _, finish := range []bool{false, true} {
			o := Play(Options{}, func(w *World) error {
				w.Host("a")
				w.Host("b")
				tt.tell(&story{w: w, holds: make(map[string]*tale)})
				err := w.Run(time.Second)
				if finish {
					_ = w.History().Finish()
				}
				return err
			})
			want := tt.want
			if finish && strings.HasSuffix(tt.name, "and a call") {
				want = "G6"
			}
			if want == "" && o.Err != nil || want != "" && (o.Err == nil || !strings.HasPrefix(o.Err.Error(), want)) {
				t.Errorf("%s (Finish: %v): %v, want %q", tt.name, finish, o.Err, want)
			}
		}
	}
}

package story

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// TestAPanicEndsTheRun: a replica that panics fails the run at that moment, and whoever reads
// of the failure, wherever it is told, reads what the panic said.
func TestAPanicEndsTheRun(t *testing.T) {
	s := read(t, filepath.Join("testdata", "rules", "P23-late-frames.txt"))
	run := s.Play(simulate.Options{Seed: 1, Bugs: []string{"MisdirectedFrames"}, Timeline: true})
	failure, ok := errors.AsType[*simulate.Failure](run.Err)
	if !ok {
		t.Fatalf("the run says %v", run.Err)
	}
	const said = "panic: tocommit(" // raft's own words
	if text := failure.Err.Error(); !strings.HasPrefix(text, "P23 stopped: ") || !strings.Contains(text, said) {
		t.Errorf("the failure is %v, want raft's panic", failure.Err)
	}
	if !strings.Contains(failure.Timeline, said) {
		t.Errorf("the excerpt does not say why:\n%s", failure.Timeline)
	}
	var last, role *timeline.Moment
	for i := range run.Timeline.Moments {
		switch m := &run.Timeline.Moments[i]; {
		case m.Kind == timeline.Failure:
			last = m
		case m.Kind == timeline.Role && m.Role == "none":
			role = m
		}
	}
	if last == nil || role == nil || last.At != role.At || !strings.Contains(last.Text, said) {
		t.Errorf("the replica stopped at %+v, and the run failed at %+v", role, last)
	}
	page := filepath.Join(t.TempDir(), "run.html")
	f, err := os.Create(page)
	if err == nil {
		err = errors.Join(run.Timeline.WriteHTML(f), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), said) {
		t.Errorf("the page does not say why (%v)", err)
	}
}

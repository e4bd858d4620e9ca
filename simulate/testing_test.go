package simulate

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheLineThatRepeatsATest(t *testing.T) {
	c := Case{Seed: 7, Set: map[string]int64{"*": Least}}
	for _, tt := range []struct{ test, want string }{
		{"TestX", `LOCKMESH_SIMULATE='seed=7 set=*=least' go test -count 1 -run '^TestX$' shop`},
		{"TestX/a.b", `LOCKMESH_SIMULATE='seed=7 set=*=least' go test -count 1 -run '^TestX$/^a\.b$' shop`},
		{"TestX/it's", `LOCKMESH_SIMULATE='seed=7 set=*=least' go test -count 1 -run '^TestX$/^it'\''s$' shop`},
	} {
		if got := testLine(tt.test, "shop")(c); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.test, got, tt.want)
		}
	}
	const here = "github.com/lockmesh/mesh/simulate"
	if got := testPackage(t.Name()); got != here {
		t.Errorf("this test is in %s, not %s", here, got)
	}
	t.Run("sub", func(t *testing.T) {
		if got := testPackage(t.Name()); got != here {
			t.Errorf("this subtest is in %s, not %s", here, got)
		}
	})
	if got := testPackage("TestElsewhere"); got != "." {
		t.Errorf("a test that does not run is in %s", got)
	}
}

// With KeepGoing, each way in which seeds failed is told of.
func TestTestTellsOfEveryFailure(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(Environment, "")
	r := &silent{T: t}
	Test(r, Search{Seeds: 9, KeepGoing: true, Play: func(w *World) error {
		switch w.Seed() {
		case 3, 4:
			return fails(3, 4)(w)
		case 5:
			panic("oh no")
		}
		return nil
	}})
	for _, want := range []string{"broken: seed 3", "1 more seed", "1 seed: panic: oh no", "seed=5"} {
		if !strings.Contains(r.said, want) {
			t.Errorf("no %q in\n%s", want, r.said)
		}
	}
}

// silent is a test that fails without anybody being sorry.
type silent struct {
	*testing.T
	said string
}

func (s *silent) Fatalf(format string, args ...any) { s.said = fmt.Sprintf(format, args...) }

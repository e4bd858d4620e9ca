package simulate_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
)

// TestDeliberateBugsAreCaught leaves one rule of the protocol out at a time, and
// demands that random worlds show it to those who watch the clients. Rules whose
// loss shows only in rare schedules have scenarios of their own, with the core.
func TestDeliberateBugsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("many worlds")
	}
	const worlds = 60
	for _, tt := range []struct {
		name string
		bug  bug.Set
	}{
		{"LeaseFromArrival", bug.LeaseFromArrival},
		{"OfficeWithoutTerm", bug.OfficeWithoutTerm},
		{"FreshLeaderExpires", bug.FreshLeaderExpires},
		{"GrantExtendsLease", bug.GrantExtendsLease},
		{"LateBelief", bug.LateBelief},
		{"NoDedup", bug.NoDedup},
		{"GhostSessions", bug.GhostSessions},
		{"CancelForgotten", bug.CancelForgotten},
		{"ReleaseByKey", bug.ReleaseByKey},
		{"QueueJumpers", bug.QueueJumpers},
		{"TokenFromCounter", bug.TokenFromCounter},
		{"GrantBeforeCommit", bug.GrantBeforeCommit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := uint64(1); seed <= worlds; seed++ {
				if _, err := runSeed(seed, tt.bug, 40*time.Second, "TestDeliberateBugsAreCaught"); err != nil {
					t.Logf("seed %d: %s", seed, strings.SplitN(err.Error(), "\n", 2)[0])
					return
				}
			}
			t.Errorf("not noticed in %d worlds", worlds)
		})
	}
}

// traces runs a few worlds of real nodes, and returns the hashes of their traces.
func traces(t *testing.T) (hashes []string) {
	for seed := uint64(1); seed <= 3; seed++ {
		f, err := runSeed(seed, 0, 15*time.Second, t.Name())
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, fmt.Sprintf("trace %x\n", f.world.Hash()))
	}
	return hashes
}

func TestRealNodesAreDeterministic(t *testing.T) {
	const env = "SIMULATE_PRINT_NODES"
	here := traces(t)
	if os.Getenv(env) != "" {
		fmt.Print(strings.Join(here, ""))
		return
	}
	before := runtime.GOMAXPROCS(1)
	again := traces(t)
	runtime.GOMAXPROCS(before)
	if !slices.Equal(here, again) {
		t.Errorf("the same seeds had the traces %q, and then %q", here, again)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRealNodesAreDeterministic$")
	cmd.Env = append(os.Environ(), env+"=1", "GOMAXPROCS=2", "GOGC=5")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := strings.Join(here, ""); !strings.HasPrefix(string(out), want) {
		t.Errorf("another process had the traces\n%sand this one\n%s", out, want)
	}
}

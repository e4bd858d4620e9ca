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
)

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

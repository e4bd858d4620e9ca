package simulate_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/search"
)

// printTraces makes this test print the traces of the sample, for another process.
const printTraces = "SIMULATE_PRINT_TRACES"

// sample is what the matrix plays: a storm of the roughest profile, and a script; with -long, more of both.
// TestHashes has all twenty worlds, in whatever build it runs; with -short, every third of them.
func sample(tb testing.TB) (some []exercise) {
	names := []string{"hostile, six nodes", "a crash and a restart"}
	if *simulate.LongFlag {
		names = append(names, "flaky, six nodes", "wan, six nodes", "a partition", "clocks that drift and jump", "broken connections")
	}
	for _, name := range names {
		some = append(some, named(tb, name))
	}
	return some
}

func named(tb testing.TB, name string) exercise {
	all := exercises()
	i := slices.IndexFunc(all, func(e exercise) bool { return e.name == name })
	if i < 0 {
		tb.Fatalf("there is no %q", name)
	}
	return all[i]
}

func sampleTraces(tb testing.TB) (lines []string) {
	for _, e := range sample(tb) {
		lines = append(lines, "trace "+e.hash(tb))
	}
	return lines
}

// TestOneSeedOneTrace: nothing but the seed decides what happens in a world of real
// nodes; not the scheduler, the garbage collector, the word size, another process, the
// source of secure random numbers, or that the run is looked at.
//
// The race detector is one more column of the matrix: TestHashes compares the traces of
// its build with those of all others.
func TestOneSeedOneTrace(t *testing.T) {
	here := sampleTraces(t)
	if os.Getenv(printTraces) != "" {
		fmt.Println(strings.Join(here, "\n"))
		return
	}
	same := func(t *testing.T, there []string) {
		t.Helper()
		for i := range here {
			if here[i] != at(there, i) {
				t.Errorf("the trace was\n\t%s\nand is\n\t%s", here[i], at(there, i))
			}
		}
	}
	// inside plays the sample in this process.
	inside := func(name string, change func(t *testing.T, opts *simulate.Options) (undo func())) {
		t.Run(name, func(t *testing.T) {
			for i, e := range sample(t) {
				opts := e.opts
				undo := change(t, &opts)
				line := "trace " + exercise{e.name, opts, e.script}.hash(t)
				if line != here[i] {
					t.Errorf("the trace was\n\t%s\nand is\n\t%s\n%v", here[i], line, search.Diverge(e.opts, opts, e.play))
				}
				undo()
			}
		})
	}
	nothing := func() {}
	inside("again", func(*testing.T, *simulate.Options) func() { return nothing })
	for _, n := range []int{1, 8} {
		inside(fmt.Sprintf("on %d processors", n), func(*testing.T, *simulate.Options) func() {
			before := runtime.GOMAXPROCS(n)
			return func() { runtime.GOMAXPROCS(before) }
		})
	}
	inside("with a timeline", func(_ *testing.T, opts *simulate.Options) func() { opts.Timeline = true; return nothing })
	inside("with other secure random numbers", func(t *testing.T, _ *simulate.Options) func() {
		cryptotest.SetGlobalRandom(t, 1)
		return nothing
	})
	t.Run("in another process", func(t *testing.T) { same(t, tracesOf(t, os.Args[0], "GOMAXPROCS=1")) })
	t.Run("in another process that collects garbage all the time", func(t *testing.T) {
		same(t, tracesOf(t, os.Args[0], "GOGC=1", "GOMAXPROCS=4"))
	})
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" && *simulate.LongFlag {
		t.Run("with words of 32 bits", func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "simulate.test")
			build := exec.Command("go", "test", "-c", "-o", binary, ".")
			build.Env = append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", build, err, out)
			}
			same(t, tracesOf(t, binary))
		})
	}
}

// tracesOf runs the sample in a process of its own.
func tracesOf(t *testing.T, binary string, env ...string) (lines []string) {
	t.Helper()
	cmd := exec.Command(binary, "-test.run=^TestOneSeedOneTrace$", fmt.Sprint("-long=", *simulate.LongFlag))
	cmd.Env = append(append(os.Environ(), printTraces+"=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "trace ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// leaky adds a leak to a world: now and then a frame is late by some microseconds, and
// it is not the seed that says by how many.
func leaky(e exercise, micros func() int) func(w *simulate.World) error {
	return func(w *simulate.World) error {
		frames := 0
		w.Net.Rule(func(simulate.Frame) simulate.Verdict {
			if frames++; frames%100 == 0 {
				return simulate.Verdict(time.Duration(1+micros()) * time.Microsecond)
			}
			return simulate.Pass
		})
		return e.play(w)
	}
}

// A check of traces that does not notice a leak would prove nothing.
func TestTracesNoticeLeaks(t *testing.T) {
	simulate.Long(t)
	e := named(t, "flaky, six nodes")
	hash := func(play func(w *simulate.World) error) uint64 {
		o := simulate.Play(e.opts, play)
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		return o.Hash
	}
	t.Run("the order of a map", func(t *testing.T) {
		some := make(map[int]bool)
		for i := range 8 {
			some[i] = true
		}
		play := leaky(e, func() int {
			for i := range some {
				return i
			}
			return 0
		})
		var hashes []uint64
		for range 3 {
			hashes = append(hashes, hash(play))
		}
		if slices.Sort(hashes); len(slices.Compact(hashes)) < 2 {
			t.Error("three runs have one trace")
		}
		d := search.Diverge(e.opts, e.opts, play)
		if d == nil || d.First.Number == 0 || d.First.Number != d.Common.Number+1 || d.First.Hash == d.Second.Hash {
			t.Fatalf("Diverge says %v", d)
		}
		t.Log(d)
	})
	t.Run("secure random numbers", func(t *testing.T) {
		play := leaky(e, func() int {
			var b [1]byte
			_, _ = rand.Read(b[:]) // never fails
			return int(b[0])
		})
		var first [3]uint64
		for stream := range first {
			cryptotest.SetGlobalRandom(t, uint64(stream))
			first[stream] = hash(play)
			cryptotest.SetGlobalRandom(t, uint64(stream))
			if again := hash(play); again != first[stream] {
				t.Errorf("stream %d: the leak is not the only one", stream)
			}
		}
		if first[0] == first[1] && first[1] == first[2] {
			t.Error("three streams give one trace")
		}
	})
	t.Run("none", func(t *testing.T) {
		play := leaky(e, func() int { return 5 })
		if d := search.Diverge(e.opts, e.opts, play); d != nil {
			t.Error(d)
		}
	})
}

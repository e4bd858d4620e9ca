package simulate_test

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
)

// The traces of twenty worlds, as they are with this code. Whatever changes what
// happens in a world changes them: another draw, another message, another event loop.
//
//	go test ./simulate -run '^TestHashes$' -update
//
// rewrites the file. A commit that does so says "trace changed" and why, for a seed that
// failed before it is not the same world after it.

var updateFlag = flag.Bool("update", false, "rewrite testdata/hashes.txt, and say in the commit why the traces changed")

const hashesFile = "testdata/hashes.txt"

// exercise is a world with a name: a drill, either with its own storm or with a script.
type exercise struct {
	name   string
	opts   simulate.Options
	script func(w *simulate.World) // of faults; it schedules what is to come later
}

// exercises returns twenty worlds that have little in common: storms of each profile,
// and one for each kind of fault.
func exercises() []exercise {
	var all []exercise
	sized := func(hosts, shards, storm int64) map[string]int64 {
		return map[string]int64{"hosts": hosts, "shards": shards, "storm-s": storm, "lockers": 2, "keys": 3, "faults": 0, "calls": 0}
	}
	for i, p := range simulate.Profiles() {
		seed := uint64(i + 1)
		small, large := sized(3, 2, 8), sized(6, 8, 12)
		small["core"], large["core"] = 0, int64(i%2)
		all = append(all,
			exercise{name: string(p) + ", three nodes", opts: simulate.Options{Seed: seed, Profile: p, Set: small}},
			exercise{name: string(p) + ", six nodes", opts: simulate.Options{Seed: seed << 32, Profile: p, Set: large}},
		)
	}
	link := simulate.Link{Latency: 300 * time.Microsecond, Jitter: 200 * time.Microsecond}
	for i, s := range []struct {
		name   string
		script func(w *simulate.World, later func(time.Duration, func()))
	}{
		{"a crash and a restart", func(w *simulate.World, later func(time.Duration, func())) {
			w.Host("a").Crash()
			later(4*time.Second, func() { w.Host("a").Restart() })
		}},
		{"a power cut", func(w *simulate.World, later func(time.Duration, func())) {
			w.Host("b").PowerOff()
			later(7*time.Second, func() { w.Host("b").Restart() })
		}},
		{"a partition", func(w *simulate.World, later func(time.Duration, func())) {
			w.Net.Partition([]string{"a", "b"}, []string{"c", "d", "e"})
			later(6*time.Second, w.Net.Heal)
		}},
		{"a cut one way", func(w *simulate.World, later func(time.Duration, func())) {
			w.Net.PartitionOneWay([]string{"a"}, []string{"b", "c"})
			later(5*time.Second, w.Net.Heal)
		}},
		{"a pause", func(w *simulate.World, later func(time.Duration, func())) {
			w.Host("c").Pause()
			later(5*time.Second, func() { w.Host("c").Resume() })
		}},
		{"clocks that drift and jump", func(w *simulate.World, later func(time.Duration, func())) {
			w.Host("a").Clock.SetRate(9_000)
			w.Host("b").Clock.SetRate(-9_000)
			later(2*time.Second, func() { w.Host("c").Clock.Step(time.Hour) })
			later(4*time.Second, func() { w.Host("c").Clock.Step(-2 * time.Hour) })
		}},
		{"lies of gossip", func(w *simulate.World, later func(time.Duration, func())) {
			w.Host("a").LieDead("b")
			later(3*time.Second, func() { w.Host("c").LieDead("a") })
		}},
		{"a slow machine", func(w *simulate.World, later func(time.Duration, func())) {
			w.Host("b").Slow(500)
			later(6*time.Second, func() { w.Host("b").Slow(1) })
		}},
		{"bad links", func(w *simulate.World, later func(time.Duration, func())) {
			bad := link
			bad.Loss, bad.Duplicate, bad.Reorder = 30_000, 30_000, 100_000
			w.Net.SetLinks(bad)
			later(8*time.Second, func() { w.Net.SetLinks(link) })
		}},
		{"broken connections", func(w *simulate.World, later func(time.Duration, func())) {
			for i := range 10 {
				later(time.Duration(i)*500*time.Millisecond, func() { w.Net.Reset("a", string(rune('b'+i%4))) })
			}
		}},
	} {
		all = append(all, exercise{
			name: s.name,
			opts: simulate.Options{Seed: uint64(100 + i), Link: link, ClockRate: 1000, ClockOffset: time.Minute, Set: sized(5, 4, 5)},
			script: func(w *simulate.World) {
				s.script(w, func(d time.Duration, fn func()) { w.At(w.Now()+d, fn) })
			},
		})
	}
	return all
}

// play is the exercise as a scenario.
func (e exercise) play(w *simulate.World) error {
	d := drill.New(w)
	if e.script == nil {
		return d.Run()
	}
	d.Lockers.Start(w)
	if err := w.Run(10 * time.Second); err != nil {
		return err
	}
	e.script(w)
	if err := w.Run(10 * time.Second); err != nil {
		return err
	}
	w.HealAll()
	return d.Lockers.Settle()
}

// hash plays the exercise, and returns its line of the file.
func (e exercise) hash(tb testing.TB) string {
	tb.Helper()
	o := simulate.Play(e.opts, e.play)
	if o.Err != nil {
		tb.Fatalf("%s: %v", e.name, o.Err)
	}
	return fmt.Sprintf("%016x %7d events  %s", o.Hash, o.Events, e.name)
}

const hashesHeader = `# The traces of twenty worlds: see hashes_test.go. On every machine, and in every build,
# they are these. Who changes this file explains it in the commit: "trace changed", and why.
`

func TestHashes(t *testing.T) {
	var lines, want []string
	if !*updateFlag {
		want = readHashes(t)
	}
	seen := make(map[string]string)
	for i, e := range exercises() {
		if testing.Short() && !*updateFlag && i%3 != 0 { // CI's race step is -short: worlds are slow there
			lines = append(lines, at(want, i))
			continue
		}
		line := e.hash(t)
		hash, _, _ := strings.Cut(line, " ")
		if other := seen[hash]; other != "" {
			t.Errorf("%q and %q have one trace", other, e.name)
		}
		seen[hash] = e.name
		lines = append(lines, line)
	}
	if len(lines) != 20 {
		t.Errorf("%d worlds", len(lines))
	}
	if *updateFlag {
		if err := os.MkdirAll(filepath.Dir(hashesFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(hashesFile, []byte(hashesHeader+strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for i := range max(len(lines), len(want)) {
		was, is := at(want, i), at(lines, i)
		if was != is {
			t.Errorf("trace changed:\n\twas %s\n\tis  %s", cmp.Or(was, "not there"), cmp.Or(is, "not there"))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// readHashes returns the lines of the file, without its comments.
func readHashes(tb testing.TB) (lines []string) {
	file, err := os.Open(hashesFile)
	if err != nil {
		tb.Fatalf("%v\nmake it: go test ./simulate -run '^TestHashes$' -update", err)
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	for s.Scan() {
		if line := s.Text(); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if err := s.Err(); err != nil {
		tb.Fatal(err)
	}
	return lines
}

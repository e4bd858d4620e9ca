package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate/search"
	"github.com/lockmesh/mesh/simulate/timeline"
)

var long = flag.Bool("long", false, "test what takes many seconds, too: CI does")

// TestMain lets the garbage grow as the command does.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	m.Run()
}

// lockmesh runs the command.
func lockmesh(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var o, e strings.Builder
	code = run(t.Context(), args, console{out: &o, err: &e})
	return code, o.String(), e.String()
}

// small are the sizes of a world that is played in no time, and passes.
const small = "hosts=3,shards=1,lockers=1,keys=1,calls=0,storm-s=5,faults=0,guests=0,core=0"

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{nil, exitUsage, "", "usage: lockmesh <command>"},
		{[]string{"help"}, exitOK, "usage: lockmesh <command>", ""},
		{[]string{"-h"}, exitOK, "simulate", ""},
		{[]string{"simulat"}, exitUsage, "", `no command "simulat"`},
		{[]string{"simulate", "-help"}, exitOK, "-keep-going", ""},
		{[]string{"simulate", "-list"}, exitOK, "LeaseFromArrival", ""},
		{[]string{"simulate", "-list"}, exitOK, "\n  QueueJumpers\n", ""},
	} {
		code, out, err := lockmesh(t, tt.args...)
		if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(err, tt.err) || (tt.out == "") != (out == "") || (tt.err == "") != (err == "") {
			t.Errorf("lockmesh %q: code %d\n%s\n%s\nwant %+v", tt.args, code, out, err, tt)
		}
	}
}

// What makes no sense is refused before anything is played or written.
func TestBadFlags(t *testing.T) {
	page := filepath.Join(t.TempDir(), "run.html")
	for _, tt := range []struct{ args, want string }{
		{"-colour red", "-colour"},
		{"more", `"more"`},
		{"-seed -1", "-1"},
		{"-seed", "-seed"},
		{"-seeds 0", "-seeds"},
		{"-seeds many", "-seeds"},
		{"-for 0s", "-for"},
		{"-for -1s", "-for"},
		{"-for soon", "-for"},
		{"-shrink-for 0s", "-shrink-for"},
		{"-workers 0", "-workers"},
		{"-profile stormy", "stormy"},
		{"-profile lan,", `""`},
		{"-bug Heisenbug", "-list"},
		{"-set hosts", "hosts"},
		{"-set hots=3", "hots"},
		{"-set hosts=50", "[3, 40]"},
		{"-set site-*=60 -profile hostile", "site-"},
		{"-only crash", "crash"},
		{"-only flood/1", "flood"},
		{"-variant x", "x"},
		{"-until never -seed 1", "never"},
		{"-until -5s -seed 1", "-5s"},
		{"-until 0 -seed 1", "-until 0"},
		{"-until 5s -seeds 2", "one seed"},
		{"-until 5s -for 3s", "-for"},
		{"-until 5s -seed 1 -marks", "-marks"},
		{"-until 5s -seed 1 -shrink", "-shrink"},
		{"-profile all,lan", "all"},
		{"-profile lan,wan,lan", "twice"},
		{"-log " + page, "both"},
		{"-story /no/such/file", "-story"},
		{"-log /no/such/directory/run.log", "no such directory"},
		{"-log /", "is a directory"},
		{"-replay /no/such/file", "no such file"},
		{"-shrink=maybe", "maybe"},
	} {
		code, out, err := lockmesh(t, append([]string{"simulate", "-timeline", page}, strings.Fields(tt.args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(err, tt.want) || !strings.Contains(err, "-help") {
			t.Errorf("%s: code %d\n%s\n%s\nwant an error that names %s", tt.args, code, out, err, tt.want)
		}
		if said := strings.TrimPrefix(err, "lockmesh simulate: "); strings.Contains(said, "simulate: ") || strings.Contains(said, "search: ") {
			t.Errorf("%s: the message names a package: %s", tt.args, err)
		}
		if _, err := os.Stat(page); err == nil {
			t.Fatalf("%s: a page was written", tt.args)
		}
	}
}

func TestSimulatePasses(t *testing.T) {
	code, out, err := lockmesh(t, "simulate", "-profile", "calm", "-seeds", "3", "-set", small)
	if code != exitOK || !strings.Contains(out, "3 seeds from 1 on, calm") || !strings.Contains(out, "no failure") {
		t.Errorf("code %d\n%s\n%s", code, out, err)
	}
	dir := t.TempDir()
	page, log := filepath.Join(dir, "run.html"), filepath.Join(dir, "run.log")
	code, out, err = lockmesh(t, "simulate", "-profile", "calm", "-seed", "5", "-set", small, "-timeline", page, "-log", log, "-text")
	if code != exitOK || !strings.Contains(out, "1 seed from 5 on") || !strings.Contains(out, "a/locker1") {
		t.Errorf("code %d\n%s\n%s", code, out, err)
	}
	if info, err := os.Stat(page); err != nil || info.Size() < 1000 {
		t.Errorf("the page: %v", err)
	}
	// The log knows how it came about, and one flag more is no matter.
	code, again, err := lockmesh(t, "simulate", "-replay", log, "-seed", "5")
	first, rest, _ := strings.Cut(out, " simulated in")
	events := regexp.MustCompile(`[0-9,]+ events`).FindString(rest)
	if code != exitOK || !strings.HasPrefix(again, first) || !strings.Contains(again, events) {
		t.Errorf("of the log: code %d\n%s\n%s", code, again, err)
	}
	if code, _, err := lockmesh(t, "simulate", "-replay", page); code != exitUsage || !strings.Contains(err, "line 1") {
		t.Errorf("what is no log: code %d, %s", code, err)
	}
	if code, out, _ := lockmesh(t, "simulate", "-profile", "calm", "-seed", "5", "-set", small, "-only", "crash/99"); code != exitOK || !strings.Contains(out, "no storm had a fault of -only crash/99") {
		t.Errorf("faults that there are not: code %d\n%s", code, out)
	}
	if code, _, err := lockmesh(t, "simulate", "-seed", "5", "-set", small, "-text", "-log", dir); code != exitUsage || !strings.Contains(err, dir) {
		t.Errorf("a file that is a directory: code %d, %s", code, err)
	}
}

func TestSimulateMarks(t *testing.T) {
	code, out, _ := lockmesh(t, "simulate", "-profile", "calm", "-seeds", "1", "-set", small, "-marks")
	if code != exitFailed || !strings.Contains(out, "these did not come about in any world") {
		t.Errorf("one calm world met every mark: code %d\n%s", code, out)
	}
}

func TestSimulateUntil(t *testing.T) {
	args := []string{"simulate", "-profile", "calm", "-seed", "3", "-set", small + ",founders=1,declarations=0,cold-starts=0", "-until"}
	code, out, err := lockmesh(t, append(args, "2.5s")...)
	if code != exitOK || !strings.HasPrefix(out, "at 2.5s, after ") || !strings.Contains(out, "hosts: 3") || !strings.Contains(out, "shards: 1\n\t0: ") {
		t.Errorf("code %d\n%s\n%s", code, out, err)
	}
	code, out, err = lockmesh(t, append(args, "777")...)
	if code != exitOK || !strings.Contains(out, "after 777 events") {
		t.Errorf("code %d\n%s\n%s", code, out, err)
	}
	if code, out, _ := lockmesh(t, append(args, "9h")...); code != exitOK || !strings.Contains(out, "the run ended at") {
		t.Errorf("code %d\n%s", code, out)
	}
}

func TestSimulateIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, err strings.Builder
	if code := run(ctx, []string{"simulate", "-for", "1h"}, console{out: &out, err: &err}); code != exitInterrupted || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("code %d\n%s\n%s", code, out.String(), err.String())
	}
}

// childArgs is the variable that makes TestInterruptedCommand the command with these arguments.
const childArgs = "LOCKMESH_TEST_ARGS"

// A signal ends the command at once, while it searches and while it shrinks: it says what it
// has, and leaves no file that is not whole.
func TestInterruptedCommand(t *testing.T) {
	if args := os.Getenv(childArgs); args != "" {
		os.Args = append([]string{"lockmesh"}, strings.Fields(args)...)
		main()
	}
	for _, tt := range []struct {
		args   string
		begun  string // on the terminal: then the signal comes
		signal os.Signal
		code   int
		want   []string
	}{
		{"-keep-going -for 1h", " failed: ", os.Interrupt, exitFailed, []string{"\ninterrupted\nunder way: seed ", ": lockmesh simulate -seed ", "\nFAILED, ", "\nrepeat: lockmesh simulate -seed "}},
		{"-shrink-for 1h", "making it smaller", syscall.SIGTERM, exitFailed, []string{"\nFAILED, ", "\nrepeat: lockmesh simulate -seed ", ", and interrupted: "}},
	} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestInterruptedCommand$")
		cmd.Env = append(os.Environ(), childArgs+"=simulate -profile hostile -bug LateBelief "+tt.args+" -timeline "+filepath.Join(dir, "run.html"))
		var out strings.Builder
		cmd.Stdout = &out
		ready, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(ready)
		begun := false
		for !begun && lines.Scan() { // a slow machine says before how its search gets on
			begun = strings.Contains(lines.Text(), tt.begun)
		}
		if !begun {
			_ = cmd.Process.Kill()
			t.Fatalf("%s: it never said %q: %v", tt.args, tt.begun, lines.Err())
		}
		_ = cmd.Process.Signal(tt.signal)
		late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }) // the machine may be busy
		_, _ = io.Copy(io.Discard, ready)
		err = cmd.Wait()
		if !late.Stop() || cmd.ProcessState.ExitCode() != tt.code {
			t.Errorf("%s: it ended with %v\n%s", tt.args, err, out.String())
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", tt.args, want, out.String())
			}
		}
		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("%s: it leaves %v", tt.args, files)
		}
	}
}

// With one seed under way it says how that stands, and nothing is written.
func TestSimulateUntilIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	page := filepath.Join(t.TempDir(), "run.html")
	var out, err strings.Builder
	code := run(ctx, []string{"simulate", "-profile", "calm", "-seed", "3", "-set", small, "-until", "20s", "-timeline", page}, console{out: &out, err: &err})
	if _, missing := os.Stat(page); code != exitInterrupted || missing == nil || !strings.HasPrefix(out.String(), "at 0s, after 0 events") || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("code %d, the page: %v\n%s\n%s", code, missing, out.String(), err.String())
	}
}

// With -keep-going a failure is reported at once: a night may end before its search does.
func TestSimulateTellsOfAFailureAtOnce(t *testing.T) {
	if !*long {
		t.Skip("it builds a mutant twice, which takes many seconds: see -long")
	}
	for _, goOn := range []bool{true, false} {
		code, out, errs := lockmesh(t, "simulate", "-profile", "flaky", "-bug", "GrantBeforeCommit", "-seeds", "5", "-shrink=false", fmt.Sprint("-keep-going=", goOn))
		want := 0
		if goOn {
			want = strings.Count(out, "FAILED, ") // once for each way in which it failed
		}
		if got := strings.Count(errs, "\nrepeat: lockmesh simulate"); code != exitFailed || got != want || goOn && want == 0 {
			t.Errorf("going on is %v: code %d, told of %d failures before the end, want %d\n%s\n%s", goOn, code, got, want, out, errs)
		}
	}
}

// What fails is named by lines that repeat it, also for a story.
func TestSimulateNamesWhatFailsAlike(t *testing.T) {
	file := filepath.Join(t.TempDir(), "k.txt")
	if err := os.WriteFile(file, []byte("mesh owner heir third; clients ann\n\nann locks k\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, errs := lockmesh(t, "simulate", "-story", file, "-seeds", "3", "-keep-going", "-workers", "1")
	for _, want := range []string{"\nlikewise: lockmesh simulate -seed 2 -story " + file, "\nlikewise: lockmesh simulate -seed 3 -story " + file} {
		if !strings.Contains(out, want) {
			t.Errorf("no word of %q\n%s", want, out)
		}
	}
	if want := "\nrepeat: lockmesh simulate -seed 1 -story " + file; !strings.Contains(errs, want) && !strings.HasPrefix(errs, want[1:]) {
		t.Errorf("told without %q\n%s", want, errs)
	}
}

// What a story's resource had to refuse is told of, if it was nothing.
func TestSimulateTellsOfFences(t *testing.T) {
	const mesh = "mesh owner heir third; clients ann\n----\nfounded; owner leads\n\n"
	for text, want := range map[string]int{
		"ann locks k\nann writes to disk under k\nann unlocks k\n----\nann holds k\ndisk takes the write of ann\nann has unlocked k\n": 1,
		"ann locks k\nann unlocks k\n----\nann holds k\nann has unlocked k\n":                                                          0,
	} {
		file := filepath.Join(t.TempDir(), "k.txt")
		if err := os.WriteFile(file, []byte(mesh+text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := lockmesh(t, "simulate", "-story", file, "-seeds", "3")
		if got := strings.Count(out, "\nregister \"disk\" refused none of 3 writes: "); code != exitOK || got != want {
			t.Errorf("%s: code %d, told %d times, want %d\n%s\n%s", text, code, got, want, out, errs)
		}
	}
}

// A rule that is left out is noticed, made small, and comes again with the line printed.
func TestSimulateFindsABug(t *testing.T) {
	if !*long {
		t.Skip("it builds a mutant twice, which takes many seconds: see -long")
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "run.log")
	code, out, errs := lockmesh(t, "simulate", "-profile", "flaky", "-bug", "GrantBeforeCommit", "-seeds", "300", "-log", log, "-mermaid")
	if !regexp.MustCompile(`\n +[0-9.]+s  -              FAILURE: `).MatchString(out) {
		t.Errorf("nothing is told of how it came to that\n%s", out)
	}
	line := regexp.MustCompile(`repeat: lockmesh (.*)\n`).FindStringSubmatch(out)
	if code != exitFailed || line == nil || !strings.Contains(out, "shrunk in") || !strings.Contains(out, "sequenceDiagram") {
		t.Fatalf("code %d\n%s\n%s", code, out, errs)
	}
	message := regexp.MustCompile(`FAILED, [0-9]+ seeds?: (.*)\n`).FindStringSubmatch(out)
	code, again, errs := lockmesh(t, strings.Fields(strings.ReplaceAll(line[1], "'", ""))...)
	if code != exitFailed || !strings.Contains(again, message[1]) {
		t.Errorf("the line repeats something else: code %d\n%s\n%s\nnot\n%s", code, again, errs, out)
	}
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if account, err := timeline.Read(f); err != nil || !strings.HasSuffix(account.Repeat, line[1]) {
		t.Errorf("the log: %v", err)
	}
}

func TestMeter(t *testing.T) {
	play := func(terminal bool) string {
		var b strings.Builder
		m := newMeter(console{err: &b, terminal: terminal}, 2000, time.Hour)
		for i := range 100 {
			m.tell(search.Progress{Seeds: 11 * i, Simulated: 1e11, Elapsed: m.every / 4 * time.Duration(i)})
		}
		m.close()
		return b.String()
	}
	lines := play(false)
	if n := strings.Count(lines, "\n"); n != 24 || strings.Contains(lines, "\r") {
		t.Errorf("%d lines:\n%s", n, lines)
	}
	line := play(true)
	for _, shown := range strings.Split(line, "\r") {
		if len(shown) > columns {
			t.Errorf("%q is too long for a terminal", shown)
		}
	}
	if strings.Contains(line, "\n") || strings.Count(line, "\r") != 26 || !strings.HasSuffix(line, "\r") {
		t.Errorf("%q", line)
	}
	if !strings.Contains(lines, "1,089 of 2,000 seeds") && !strings.Contains(lines, "1,056 of 2,000 seeds") {
		t.Errorf("no numbers in\n%s", lines)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %q", n, got)
		}
	}
}

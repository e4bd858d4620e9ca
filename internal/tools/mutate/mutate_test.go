package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/tools/load"
)

// mutantsOf returns the mutants of a source file without imports.
func mutantsOf(t *testing.T, src string) []*mutant {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "code.go")
	if err := os.WriteFile(name, []byte(src), 0o666); err != nil {
		t.Fatal(err)
	}
	p := &load.Package{Path: "code", Dir: dir, Fset: token.NewFileSet()}
	file, err := p.Parse(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Files = []*ast.File{file}
	if p.Types, p.Info, err = p.Check(p.Files); err != nil {
		t.Fatal(err)
	}
	all, err := mutants(dir, []*load.Package{p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOperators(t *testing.T) {
	tests := []struct {
		name, src string
		want      []string
	}{
		{"comparisons include or exclude equality, or are inverted", "func f(a, b int) (bool, bool, bool) { return a < b, a >= b, a != b }", []string{
			"compare: a < b → a <= b", "compare: a >= b → a > b", "compare: a != b → a == b",
		}},
		{"operands of a condition are dropped or negated", "func f(a, b, c bool) bool { return a && !b || c }", []string{
			"part: a && !b || c → c", "negate: a && !b → !(a && !b)", "part: a && !b || c → a && !b", "negate: c → !(c)",
			"part: a && !b → !b", "negate: a → !(a)", "part: a && !b → a", "negate: !b → b",
		}},
		{"three operands are dropped one at a time", "func f(a, b int, c bool) bool { return a == 7 && (b == a) && c }", []string{
			"part: a == 7 && (b == a) && c → (b == a) && c", "part: a == 7 && (b == a) && c → a == 7 && c",
			"part: a == 7 && (b == a) && c → a == 7 && (b == a)", "negate: c → !(c)",
			"compare: a == 7 → a != 7", "one: a == 7 → a == 8", "compare: b == a → b != a",
		}},
		{"a whole condition is negated", "func g() bool\nfunc f() { for g() { if !g() { break } } }", []string{
			"negate: g() → !(g())", "negate: !g() → g()", "drop: break → (nothing)",
		}},
		{"statements are dropped, except declarations and the final return", `
			func g(int) int
			func f(a int) int {
				b := g(a)
				if a > b { g(b); return a }
				b = a
				b--
				return b
			}`, []string{
			"compare: a > b → a >= b", "drop: g(b) → (nothing)", "drop: return a → (nothing)",
			"drop: b = a → (nothing)", "drop: b-- → (nothing)", "sign: b-- → b++",
		}},
		{"one more, and one less", "func f(a int, s []int) []int { return s[a+1 : len(s)-2] }", []string{
			"sign: a+1 → a-1", "one: a+1 → a", "sign: len(s)-2 → len(s)+2", "one: len(s)-2 → len(s)-3",
		}},
		{"settings and capacities stay", "const k = 3\nfunc f(a uint64) ([]uint64, uint64) { return make([]uint64, 0, 8), a<<4 | 0xff }", []string{
			"one: make([]uint64, 0, 8) → make([]uint64, 1, 8)",
		}},
		{"sums", "func f(a int, s string) (int, string) { a += 5; s += s; return a, s + s }", []string{
			"drop: a += 5 → (nothing)", "sign: a += 5 → a -= 5", "one: a += 5 → a += 6", "drop: s += s → (nothing)",
		}},
		{"min and max", "func f(a, b int) int { return min(a, b) }", []string{"minmax: min(a, b) → max(a, b)"}},
		{"arguments of the same type are swapped", `
			type pair struct { a, b int }
			func g(a, b int, c string) pair { return pair{b, a} }
			func f(a, b int) { g(a, b, ""); g(a, a, "") }`, []string{
			"swap: pair{b, a} → pair{a, b}",
			`drop: g(a, b, "") → (nothing)`, `swap: g(a, b, "") → g(b, a, "")`, `drop: g(a, a, "") → (nothing)`,
		}},
		{"a field of a literal is left out", "type Point struct { X, Y int }\nfunc f(a int) *Point { return &Point{X: a, Y: a} }", []string{
			"forget: Point{… X: a …} → Point{…}", "forget: Point{… Y: a …} → Point{…}",
		}},
		{"one of several is not assigned", "type Point struct { X, Y int }\nfunc (p *Point) set(x, y int) { p.X, p.Y = x, y }", []string{
			"drop: p.X, p.Y = x, y → (nothing)",
			"forget: p.X, p.Y = x, y → _, p.Y = x, y", "forget: p.X, p.Y = x, y → p.X, _ = x, y",
		}},
		{"a zero is encoded", `
			func appendInt(b []byte, v int) []byte { return append(b, byte(v)) }
			func f(b []byte, v int) []byte { return appendInt(appendInt(b, v), 3) }`, []string{
			"forget: appendInt(b, v) → appendInt(b, 0)",
			"one: appendInt(appendInt(b, v), 3) → appendInt(appendInt(b, v), 4)",
		}},
		{"values that are never read may be wrong", "func f(a int) { n := 0; n += a; _ = a }", nil},
		{"constants", "func f() bool { return true }", []string{"negate: return true → return false"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, m := range mutantsOf(t, "package code\n"+tt.src) {
				got = append(got, fmt.Sprintf("%s: %s", m.op, m.change()))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("mutants of %s:\n%s\nwant\n%s", tt.src, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func loadLeft(t *testing.T) []*load.Package {
	t.Helper()
	packages, err := load.Packages("testdata/left", []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// In package testdata/left, a comment on each line says which operators apply there.
func TestWhatCannotMatterIsLeftAlone(t *testing.T) {
	packages := loadLeft(t)
	left := []exception{{"*", regexp.MustCompile(`^machine\.(String|excepted)$`), "for this test"}}
	all, err := mutants(packages[0].Dir, packages, left)
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile("testdata/left/left.go")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[int][]string)
	for _, m := range all {
		got[m.line] = append(got[m.line], string(m.op))
	}
	for i, line := range strings.Split(string(src), "\n") {
		_, want, _ := strings.Cut(line, "// want ")
		slices.Sort(got[i+1])
		if ops := strings.Join(got[i+1], " "); ops != want {
			t.Errorf("line %d, %s: mutants %q, want %q", i+1, strings.TrimSpace(line), ops, want)
		}
	}
}

func TestAnExceptionThatNothingNeedsIsAnError(t *testing.T) {
	packages := loadLeft(t)
	left := []exception{{"*", regexp.MustCompile(`^machine\.nowhere$`), "for this test"}}
	if _, err := mutants(packages[0].Dir, packages, left); err == nil {
		t.Error("an exception for a function that does not exist is accepted")
	}
}

func TestEveryTellerExists(t *testing.T) {
	var paths []string
	for _, target := range mutated {
		paths = append(paths, path(target.pkg))
	}
	packages, err := load.Packages("../../..", paths)
	if err != nil {
		t.Fatal(err)
	}
	exist := make(map[string]bool)
	for _, p := range packages {
		for _, fn := range functions(p) {
			exist[nameOf(p, fn)] = true
		}
	}
	for _, name := range tellers {
		if !exist[name] || !mute.MatchString(name) {
			t.Errorf("%s exists: %v; it is mute: %v", name, exist[name], mute.MatchString(name))
		}
	}
}

func TestEveryExceptionHasAReason(t *testing.T) {
	for _, e := range exceptions {
		if e.why == "" {
			t.Errorf("%+v has no reason", e)
		}
	}
}

func ids(all []*mutant) (ids []string) {
	for _, m := range all {
		ids = append(ids, m.id)
	}
	return ids
}

func TestNamesSurviveWhenLinesMove(t *testing.T) {
	const f = "func (t *T) f(a, b int) bool { return a < b || b < a || a < b }\n"
	before := ids(mutantsOf(t, "package code\ntype T int\n"+f))
	after := ids(mutantsOf(t, "package code\n\n// T is a number.\ntype T int\n\nfunc g() bool { return 1 < 2 }\n\n"+strings.ReplaceAll(f, "||", "||\n\t")))
	if !slices.Equal(before, after) {
		t.Errorf("names before: %q\nafter: %q", before, after)
	}
	if sorted := slices.Sorted(slices.Values(before)); len(slices.Compact(sorted)) != len(before) || len(before) == 0 {
		t.Errorf("names are not unique: %q", before)
	}
	changed := ids(mutantsOf(t, "package code\ntype T int\n"+strings.Replace(f, "b < a", "b > a", 1)))
	gone := slices.DeleteFunc(slices.Clone(before), func(id string) bool { return slices.Contains(changed, id) })
	if len(gone) == 0 || len(gone) == len(before) {
		t.Errorf("after a change of one comparison, names gone: %q of %q, want some", gone, before)
	}
}

func TestAMutantIsTheFileWithOneChange(t *testing.T) {
	const src = "package code\n\nfunc f(a int) int {\n\tb := 1\n\tif a > 2 {\n\t\ta = b\n\t}\n\treturn a\n}\n"
	for _, m := range mutantsOf(t, src) {
		if m.op != drop {
			continue
		}
		got, err := m.source()
		if want := strings.Replace(src, "a = b", "", 1); err != nil || string(got) != want {
			t.Errorf("%v is\n%s, %v, want\n%s", m, got, err, want)
		}
		if m.compiles() {
			t.Errorf("%v compiles, although b is not used in it", m)
		}
		return
	}
	t.Error("no statement was dropped")
}

func TestASampleIsDrawnFromAllGroupsAlike(t *testing.T) {
	var src strings.Builder
	src.WriteString("package code\nfunc g(int)\n")
	for i := range 30 { // 120 mutants: 60 compare, 30 one, 30 drop
		fmt.Fprintf(&src, "func f%d(a, b int) bool { g(a); return a < b == (a > %d) }\n", i, i)
	}
	var all []*mutant
	for _, m := range mutantsOf(t, src.String()) {
		if m.op != compare || !strings.Contains(m.was, "==") {
			all = append(all, m)
		}
	}
	anything := func(*mutant) bool { return true }
	tally := func(drawn []*mutant) map[operator]int {
		n := make(map[operator]int)
		for _, m := range drawn {
			n[m.op]++
		}
		return n
	}

	drawn := sample(all, 12, 1, anything)
	if n := tally(drawn); n[compare] != 6 || n[one] != 3 || n[drop] != 3 {
		t.Errorf("a tenth of 60, 30, 30 is %v", n)
	}
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	if again := sample(reversed, 12, 1, anything); !slices.Equal(ids(again), ids(drawn)) {
		t.Errorf("the same seed draws %q and %q", ids(drawn), ids(again))
	}
	if other := sample(all, 12, 2, anything); slices.Equal(ids(other), ids(drawn)) {
		t.Errorf("two seeds draw %q", ids(drawn))
	}

	// A mutant that does not compile is replaced by one of its group, or else of another.
	bad := drawn[0]
	drawn = sample(all, 12, 1, func(m *mutant) bool { return m != bad })
	if slices.Contains(drawn, bad) || tally(drawn)[compare] != 6 || tally(drawn)[one] != 3 || tally(drawn)[drop] != 3 {
		t.Errorf("without %v: %v", bad, ids(drawn))
	}
	drawn = sample(all, 12, 1, func(m *mutant) bool { return m.op == compare })
	if len(drawn) != 12 || tally(drawn)[compare] != 12 {
		t.Errorf("where only comparisons compile, it draws %v", ids(drawn))
	}
	if drawn = sample(all, 1000, 1, anything); len(drawn) != len(all) {
		t.Errorf("drew %d of %d", len(drawn), len(all))
	}
	if drawn = sample(nil, 3, 1, anything); len(drawn) != 0 {
		t.Errorf("drew %d of none", len(drawn))
	}
}

func TestEquivalents(t *testing.T) {
	all := mutantsOf(t, "package code\nfunc f(a, b int) bool { return a < b }")
	m := all[0]
	entry := m.id + "\n\t" + m.change() + "\n\tThey are never equal,\n\tas g sees to.\n"
	reasons, err := explained("# A remark.\n\n"+entry, all)
	if err != nil || len(reasons) != 1 || reasons[m.id] != "They are never equal, as g sees to." {
		t.Errorf("reasons %v, %v", reasons, err)
	}
	for _, wrong := range []struct{ name, text, want string }{
		{"stale", strings.Replace(entry, ":compare:", ":compare:0", 1), "no longer exists"},
		{"another change", strings.Replace(entry, "<=", ">=", 1), "another change"},
		{"no reason", m.id + "\n\t" + m.change() + "\n", "no reason"},
		{"twice", entry + entry, "duplicate"},
		{"no name", "\t" + entry, "without an entry"},
	} {
		if _, err := explained(wrong.text, all); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%s: error %v, want one with %q", wrong.name, err, wrong.want)
		}
	}
	if _, err := parseEquivalents(equivalents); err != nil {
		t.Error(err)
	}
}

func TestResultsAreReadBack(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.txt")
	first := result{survived, "", "", 40 * time.Second, 30 * time.Second, "shard.Table.f:compare:0000", "shard/table.go:7: a < b → a <= b"}
	other := result{killed, "seeds", "two\tholders\nof one key", 1500 * time.Millisecond, time.Second, "core.f:drop:0001", "internal/node/x.go:9: f() → (nothing)"}
	second := first
	second.verdict, second.stage, second.detail = killed, "stories", "partition: two holders"
	if err := os.WriteFile(name, []byte(first.line()+other.line()+second.line()+"killed\tsee"), 0o666); err != nil {
		t.Fatal(err)
	}
	other.detail = "two holders of one key"
	got, err := readResults(name)
	if want := []result{other, second}; err != nil || !slices.Equal(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	if got, err := readResults(name + "x"); err != nil || got != nil {
		t.Errorf("no file: %v, %v", got, err)
	}
}

func TestTheSummaryCountsWhatCanBeNoticed(t *testing.T) {
	var out bytes.Buffer
	summarize(&out, []result{
		{verdict: killed, stage: "seeds", id: "shard.f:compare:1"},
		{verdict: killed, stage: "stories", detail: byTime, id: "shard.f:drop:2"},
		{verdict: killed, stage: "seeds", id: "core.f:drop:3"},
		{verdict: survived, id: "core.f:drop:4", place: "core.go:4: here"},
		{verdict: excused, id: "core.f:drop:5"},
		{verdict: undecided, id: "core.f:drop:6"},
		{verdict: unbuilt, id: "core.f:drop:7"},
	})
	for _, want := range []string{
		"6 mutants: 3 killed, 1 survived, 1 equivalent, 1 undecided", "3 of 4, 75.0 %",
		"      2  seeds\n      1  (of all, by their time)\n      1  stories\n",
		"core              1        1          1         1  50.0 %",
		"compare           1        0          0         0  100.0 %",
		"survivors:\n  core.f:drop:4 core.go:4: here\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, out.String())
		}
	}
}

func TestStagesEndWithTheFirstThatNotices(t *testing.T) {
	m := mutantsOf(t, "package code\nfunc f(a, b int) bool { return a < b }")[0]
	says := func(name, found string, err error) stage {
		return stage{name, func(context.Context, *place) (string, error) { return found, err }}
	}
	waits := stage{"c", func(ctx context.Context, _ *place) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}}
	never := stage{"never", func(context.Context, *place) (string, error) {
		t.Error("a stage was run against a mutant that was already noticed")
		return "", nil
	}}
	tests := []struct {
		name   string
		stages []stage
		want   result
	}{
		{"nothing notices", []stage{says("a", "", nil), says("b", "", nil)}, result{verdict: survived}},
		{"the second notices", []stage{says("a", "", nil), says("b", "TestX", nil), never}, result{verdict: killed, stage: "b", detail: "TestX"}},
		{"it cannot be built", []stage{says("a", "", errUnbuilt), never}, result{verdict: unbuilt, stage: "a", detail: errUnbuilt.Error()}},
		{"its time is over", []stage{says("a", "", nil), waits, never}, result{verdict: undecided, stage: "c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{cap: 100 * time.Millisecond}
			got, err := b.judge(t.Context(), m, tt.stages)
			tt.want.id, tt.want.place, tt.want.took, tt.want.cpu = m.id, "code.go:2: a < b → a <= b", got.took, got.cpu
			if err != nil || got != tt.want {
				t.Errorf("%+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
	broken := errors.New("no disk")
	if _, err := (&bench{cap: time.Minute}).judge(t.Context(), m, []stage{says("a", "", broken)}); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

// The outcome of a command tells whether it passed, failed or hung.
func TestCommandsAreBounded(t *testing.T) {
	p, err := (&bench{workers: 1}).newPlace(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	much := spent{time.Minute, time.Minute}
	tests := []struct {
		script string
		limit  spent
		want   string
	}{
		{"true", much, ""},
		{"exec sleep 60", spent{50 * time.Millisecond, time.Minute}, byTime},
		{"echo; echo '    --- FAIL: TestX/y (0.1s)'; echo 'panic: no'; exit 1", much, "TestX/y"},
		{"echo 'panic: no'; exit 2", much, "no"},
		{"exit 3", much, "exit status 3"},
	}
	if runtime.GOOS == "linux" && !testing.Short() {
		tests = append(tests, tests[0])
		tests[len(tests)-1].script, tests[len(tests)-1].limit.cpu, tests[len(tests)-1].want = "while :; do :; done", time.Second, byTime
	}
	for _, tt := range tests {
		if found, err := noticed(p.command(t.Context(), tt.limit, ".", "sh", "-c", tt.script)); err != nil || found != tt.want {
			t.Errorf("%s: noticed %q, %v, want %q", tt.script, found, err, tt.want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := noticed(p.command(over, much, ".", "sh", "-c", "exec sleep 60")); err == nil {
		t.Errorf("an interrupted command: noticed %q, want an error", found)
	}
}

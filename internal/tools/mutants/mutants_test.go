package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/tools/proc"
)

const tiny = "testdata/tiny"

func TestMain(m *testing.M) {
	// Commands in the tiny module must not use the workspace or the flags of this one.
	os.Setenv("GOWORK", "off")
	os.Setenv("GOFLAGS", "")
	os.Exit(m.Run())
}

// settingsOf returns settings for a test module.
func settingsOf(dir string) *settings {
	return &settings{dir: dir, match: everyName, cap: time.Minute, workers: 2}
}

// The mutants of the tiny module change functions of every kind.
func TestMutantsAreNoticed(t *testing.T) {
	t.Parallel()
	s := settingsOf(tiny)
	s.results = filepath.Join(t.TempDir(), "results")
	var out strings.Builder
	code, err := s.main(t.Context(), nil, &out)
	if code != exitOK || err != nil {
		t.Fatalf("code %d, %v\n%s", code, err, out.String())
	}
	text, err := os.ReadFile(s.results)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 6 {
			t.Fatalf("a line of results: %q", line)
		}
		got = append(got, fmt.Sprint(f[0], ", ", f[2], ", ", f[3], ": ", f[5]))
	}
	slices.Sort(got)
	want := []string{
		"Astray, box TestLine, noticed: wrong at line 61",
		"Bottomless, box TestBox, noticed: 3 items, want 2",
		"Bottomless, box TestSeeds, noticed: seed 3: 5 items",
		"Bottomless, shelf TestShelf, noticed: Put(2) = true",
		"Early, box TestStart, noticed: Start is 64",
		"Lazy, box TestSeeds, noticed: seed 3: 0 items",
		"Lazy, shelf TestShelf, noticed: Put(0) = false",
		"Leaky, box TestBox, noticed: Put into a full box = 2, <nil>",
		"Remembering, box TestPair, noticed: the sum of a pair is 11",
		"Short, box TestSum/of_three, noticed: the sum is 3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("results\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// copyTiny copies the tiny module without its patches.
func copyTiny(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	patches := filepath.Join(dir, patchesIn)
	if err := os.RemoveAll(patches); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(patches, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// edit replaces a text that occurs once in a file.
type edit struct{ file, old, new string }

const boxFile = "box/box.go"

// writePatch writes a patch that makes the edits, each in another file.
func writePatch(t *testing.T, dir, name, header string, edits ...edit) {
	t.Helper()
	text := header + "\n\n"
	for _, e := range edits {
		was, err := os.ReadFile(filepath.Join(dir, e.file))
		if err != nil || strings.Count(string(was), e.old) != 1 {
			t.Fatalf("%s: %q occurs %d times, want 1 (%v)", e.file, e.old, strings.Count(string(was), e.old), err)
		}
		text += fmt.Sprintf("diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n@@ -1,1 +1,1 @@\n", e.file, e.file, e.file, e.file)
		for line := range strings.Lines(string(was)) {
			text += "-" + line
		}
		for line := range strings.Lines(strings.Replace(string(was), e.old, e.new, 1)) {
			text += "+" + line
		}
	}
	if err := os.WriteFile(filepath.Join(dir, patchesIn, name+".patch"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func header(watchers string) string { return "Rule: P1\nLeaves out: Something.\n" + watchers }

var bottomless = edit{boxFile, "len(b.items) >= b.limit", "len(b.items) < 0"}

// A problem with a mutant, its watcher or its patch is a failure, and the output names it.
func TestFailures(t *testing.T) {
	t.Parallel()
	dir := copyTiny(t)
	write := func(name, watchers string, e edit) {
		t.Helper()
		writePatch(t, dir, name, header(watchers), e)
	}
	write("Good", "Noticed: box TestBox 3 items", bottomless)
	write("Unnoticed", "Noticed: box TestStart Start is", bottomless)
	write("Otherwise", "Noticed: box TestBox 4 items", bottomless)
	write("Absent", "Noticed: box TestBoxes 3 items", bottomless)
	write("AbsentSeeds", "Noticed: box TestBoxes 3 items\nSeeds: 5", bottomless)
	write("Anyway", "Noticed: box TestUnsound unsound\nArgs: -sound=false", bottomless)
	write("Seedless", "Noticed: box TestBox 3 items\nSeeds: 5", bottomless)
	write("TooFew", "Noticed: box TestSeeds 5 items\nSeeds: 2", bottomless)
	write("Stale", "Noticed: box TestBox 3 items", bottomless)
	stale := filepath.Join(dir, patchesIn, "Stale.patch")
	text, err := os.ReadFile(stale)
	if err == nil {
		err = os.WriteFile(stale, []byte(strings.Replace(string(text), "-package box", "-package bag", 1)), 0o666)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, patchesIn, "Bare.patch"), nil, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	verdicts(t, settingsOf(dir), map[string]string{
		"Good": "noticed", "Unnoticed": "NOT NOTICED", "Otherwise": "OTHER TEXT", "Absent": "NO SUCH TEST", "AbsentSeeds": "NO SUCH TEST",
		"Anyway": "FAILS ANYWAY", "Seedless": "OTHER TEXT", "TooFew": "NOT NOTICED", "Stale": "BROKEN", "Bare": "BROKEN",
	}, "3 items, want 2", "patch does not apply", "it has no diff")
}

// A mutant that does not compile does not affect the others, and one that hangs is killed.
func TestMutantsThatCannotRun(t *testing.T) {
	t.Parallel()
	dir := copyTiny(t)
	writePatch(t, dir, "Slow", header("Noticed: box TestSlow slow"), edit{boxFile, "return 2 * n", "return 3 * n"})
	writePatch(t, dir, "Unbuilt", header("Noticed: box TestBox 3 items"), edit{boxFile, "return 2 * n", "return thrice * n"})
	s := settingsOf(dir)
	s.cap = 2 * time.Second
	verdicts(t, s, map[string]string{"Slow": "HANGS", "Unbuilt": "BROKEN"}, "box.go:21: undefined: thrice", "after 2s")
}

// verdicts runs the tool, which must fail with these verdicts and print all of texts.
func verdicts(t *testing.T, s *settings, want map[string]string, texts ...string) {
	t.Helper()
	s.results = filepath.Join(t.TempDir(), "results")
	var out strings.Builder
	if code, err := s.main(t.Context(), nil, &out); code != exitFailed || err != nil {
		t.Fatalf("code %d, %v\n%s", code, err, out.String())
	}
	text, err := os.ReadFile(s.results)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, "\t")
		got[f[0]] = f[3]
	}
	if !maps.Equal(got, want) {
		t.Errorf("verdicts %v, want %v\n%s", got, want, out.String())
	}
	for _, want := range texts {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

// Changes that cannot be compiled beside the correct code are refused.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := copyTiny(t)
	tr, err := openTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	inBox := func(old, new string) []edit { return []edit{{boxFile, old, new}} }
	for _, tt := range []struct {
		name  string
		edits []edit
		want  string
	}{
		{"a signature", inBox("func double(n int) int", "func double(n, _ int) int"), "the signature of double"},
		{"a result's name", inBox("Len() int {", "Len() (n int) {"), "the signature of Box.Len"},
		{"a parameter without a name", inBox("func unnamed(int) int { return 1 }", "func unnamed(int) int { return 2 }"), "unnamed has a parameter without a name"},
		{"a receiver without a name", inBox("nameless() int { return unnamed(1) }", "nameless() int { return unnamed(2) }"), "Box.nameless has a receiver without a name"},
		{"a removed function", inBox("func (Box[T]) nameless() int { return unnamed(1) }", ""), "removes Box.nameless"},
		{"a function init", inBox("func init() { Start++ }", "func init() { Start-- }"), "function init"},
		{"one more function init", inBox("func init() { Start++ }", "func init() { Start++ }\nfunc init() { Start++ }"), "function init"},
		{"a variable's value", inBox("double(21)", "double(22)"), "the declaration of Start"},
		{"a new variable", inBox("const (", "var more int\n\nconst ("), "adds or changes the variable more"},
		{"a new variable without a name", inBox("const (", "var _ = double(3)\n\nconst ("), "adds or changes the variable _ = "},
		{"a constant", inBox("= iota", "= iota + 1"), "the declaration of first, second"},
		{"a constant in a group", inBox("\tsecond\n", "\tsecond\n\tthird\n"), "changes the declaration of first, second"},
		{"a type", inBox("\tlimit int\n", "\tlimit int64\n"), "the type Box"},
		{"a removed field", inBox("pair struct{ a, b int }", "pair struct{ a int }"), "the type pair"},
		{"a struct becomes another type", inBox("pair struct{ a, b int }", "pair []int"), "the type pair"},
		{"a type parameter", inBox("type Box[T any]", "type Box[T comparable]"), "the type Box"},
		{"an exported method", inBox("func init()", "func (p pair) String() string { return \"\" }\n\nfunc init()"), "adds the exported method pair.String"},
		{"only a comment", inBox("// Len is of a value.", "// Len is."), "changes no function"},
		{"only a field", inBox("pair struct{ a, b int }", "pair struct{ a, b, c int }"), "changes no function"},
		{"a package's name", inBox("package box\n", "package bag\n"), "the package clause"},
		{"a syntax error", inBox("func init()", "func func init()"), "expected 'IDENT'"},
		{"a test", []edit{{"box/box_test.go", "want 2", "want 3"}}, "box/box_test.go is a test file"},
		{"another file", []edit{{"go.mod", "go 1.26", "go 1.25"}}, "go.mod is not a Go file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			writePatch(t, dir, "Refused", header("Noticed: box TestBox x"), tt.edits...)
			patches, wrong, err := readPatches(filepath.Join(dir, patchesIn), regexp.MustCompile("^Refused$"))
			if err != nil || len(wrong) > 0 || len(patches) != 1 {
				t.Fatalf("%v, %v", wrong, err)
			}
			if _, err := tr.load(patches[0]); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
		})
	}
	for name, diff := range map[string]string{
		"a new file":     "diff --git a/box/new.go b/box/new.go\nnew file mode 100644\n--- /dev/null\n+++ b/box/new.go\n@@ -0,0 +1,1 @@\n+package box\n",
		"a removed file": "diff --git a/shelf/shelf.go b/shelf/shelf.go\ndeleted file mode 100644\n--- a/shelf/shelf.go\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-package shelf\n",
		"a renamed file": "diff --git a/box/box.go b/box/bag.go\nsimilarity index 100%\nrename from box/box.go\nrename to box/bag.go\n",
		"a foreign file": "diff --git a/../x.go b/../x.go\n--- a/../x.go\n+++ b/../x.go\n@@ -1,1 +1,1 @@\n-package box\n+package bag\n",
	} {
		file := filepath.Join(dir, patchesIn, "Refused.patch")
		if err := os.WriteFile(file, []byte(diff), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.load(&patch{name: "Refused", file: file}); err == nil ||
			!strings.Contains(err.Error(), "adds, removes or renames") && !strings.Contains(err.Error(), "../x.go") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Mutants that add the same name, or change the same function, collide.
func TestMutantsThatCollide(t *testing.T) {
	t.Parallel()
	dir := copyTiny(t)
	tr, err := openTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	load := func(name string, e edit) *mutant {
		t.Helper()
		writePatch(t, dir, name, header("Noticed: box TestBox x"), e)
		m, err := tr.load(&patch{name: name, file: filepath.Join(dir, patchesIn, name+".patch")})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	twice := edit{boxFile, "{ return 2 * n }", "{ return helper(n) }\n\nfunc helper(n int) int { return n }"}
	constant := edit{boxFile, "{ return len(b.items) }", "{ return helper }\n\nconst helper = 3"}
	field := edit{boxFile, "a, b int }\n\nfunc (p pair) sum() int { return p.a", "a, b, c int }\n\nfunc (p pair) sum() int { return p.c"}
	imports := func(spec string) edit {
		return edit{boxFile, "\"errors\"\n\t\"runtime\"\n)\n\n// Box is generic.\ntype Box[T any] struct {\n\titems []T\n\tlimit int\n}\n\n// ErrFull is an error.\nvar ErrFull = errors.New(\"full\")\n\n// Start is computed before any test runs.\nvar Start = double(21)\n\nfunc double(n int) int { return 2 * n }",
			spec + "\n\t\"errors\"\n\t\"runtime\"\n)\n\n// Box is generic.\ntype Box[T any] struct {\n\titems []T\n\tlimit int\n}\n\n// ErrFull is an error.\nvar ErrFull = errors.New(\"full\")\n\n// Start is computed before any test runs.\nvar Start = double(21)\n\nfunc double(n int) int { return rand.Int() }"}
	}
	for _, tt := range []struct {
		a, b edit
		want string
	}{
		{twice, twice, "A and B both add box:helper"},
		{twice, constant, "A and B both add box:helper"},
		{field, field, "A and B both add box:pair.c"},
		{imports(`"math/rand"`), imports(`"math/rand/v2"`), ""}, // it is taken to be named v2: only the compiler notices
		{imports(`"math/rand"`), imports(`rand "math/rand/v2"`), "rand is the name of two imports"},
		{imports(`"math/rand"`), imports(`"math/rand"`), ""},
		{bottomless, bottomless, ""},
	} {
		_, err := weave(tr.dir, tr.module, []*mutant{load("A", tt.a), load("B", tt.b)})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v and %v: error %v, want %q", tt.a, tt.b, err, tt.want)
		}
	}
	a, b, c := load("A", bottomless), load("B", bottomless), load("C", twice)
	if err := together([]*mutant{a, b}); err == nil || !strings.Contains(err.Error(), "A and B both change box:Box.Put") {
		t.Errorf("two mutants of one function: %v", err)
	}
	if err := together([]*mutant{a, c}); err != nil {
		t.Errorf("two mutants of two functions: %v", err)
	}

	// A woven program refuses such mutants too, and names that are not compiled in.
	overlay, err := tr.overlay([]*mutant{a, b, c})
	if err != nil {
		t.Fatal(err)
	}
	file, err := tr.testBinary(t.Context(), overlay, "box")
	if err != nil {
		t.Fatal(err)
	}
	for on, want := range map[string]string{
		"":      "ok",
		"A+C":   "3 items, want 2",
		"B":     "3 items, want 2",
		"A+B":   "A and B both change box:Box.Put",
		"A+D+C": `this program was built without the mutant "D"`,
	} {
		r, err := proc.Run(t.Context(), proc.Command{Dir: dir, Args: []string{file, "-test.run=^TestBox$"}, Env: append(os.Environ(), environment+"="+on), Wall: time.Minute})
		if passed := err == nil; passed != (want == "ok") || !passed && !strings.Contains(r.Output, want) {
			t.Errorf("with %q: %v\n%s\nwant %q", on, err, r.Output, want)
		}
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		with, command string
		code          int
		want          string
	}{
		{"Bottomless", "go test -count=1 -run ^TestBox$ ./box", 1, ""},
		{"Short", "go test -count=1 -run ^TestBox$ ./box", 0, ""},
		{"Short+Early", "go test -count=1 -run ^TestBox$ ./box", 0, ""},
		{"Short+Early", "go test -count=1 -run ^TestStart$ ./box", 1, ""},
		{"Bottomless+Leaky", "go test ./box", exitUsage, "Bottomless and Leaky both change box:Box.Put"},
		{"Heisenbug", "go test ./box", exitUsage, `no mutant "Heisenbug"`},
		{"../tiny", "go test ./box", exitUsage, `no mutant "../tiny"`},
		{"Short", "", exitUsage, "needs a command"},
		{"Short", "/no/such/command", exitUsage, "no such file"},
		{"", "go test ./box", exitUsage, "unexpected argument"},
	} {
		s := settingsOf(tiny)
		s.with = tt.with
		code, err := s.main(t.Context(), strings.Fields(tt.command), os.Stderr)
		if code != tt.code || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("-with %s %s: code %d, error %v, want %d and %q", tt.with, tt.command, code, err, tt.code, tt.want)
		}
	}
}

// Any three consecutive thirds contain each mutant once.
func TestThirds(t *testing.T) {
	var all []*mutant
	for i := range 8 {
		all = append(all, &mutant{patch: &patch{name: fmt.Sprint("M", i)}})
	}
	count := make(map[string]int)
	for third := 100; third < 103; third++ {
		for _, m := range (&settings{third: third}).thirdOf(all) {
			count[m.name]++
		}
	}
	for _, m := range all {
		if count[m.name] != 1 {
			t.Errorf("%s is in %d thirds", m.name, count[m.name])
		}
	}
	if n := len((&settings{}).thirdOf(all)); n != len(all) {
		t.Errorf("%d mutants without -third", n)
	}
}

func TestNothingMatches(t *testing.T) {
	s := settingsOf(tiny)
	s.match = regexp.MustCompile("^Heisenbug$")
	if code, err := s.main(t.Context(), nil, os.Stderr); code != exitUsage || err == nil {
		t.Errorf("no match: code %d, %v", code, err)
	}
	s = settingsOf(t.TempDir())
	if code, err := s.main(t.Context(), nil, os.Stderr); code != exitUsage || err == nil {
		t.Errorf("outside a module: code %d, %v", code, err)
	}
}

// An interrupted tool prints no verdict.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if code, err := settingsOf(tiny).main(ctx, nil, &out); code != exitUsage || err == nil || out.Len() > 0 {
		t.Errorf("code %d, %v\n%s", code, err, out.String())
	}
}

// The lines of a mutant's function are numbered like the original's.
func TestLines(t *testing.T) {
	const was = "package p\n\nfunc f(n int) int {\n\tn++\n\tn--\n\treturn n\n}\n"
	for is, want := range map[string]string{
		"package p\n\nfunc f(n int) int {\n\tn += 2\n\tn--\n\treturn n\n}\n": `
//line f.go:3
func f__M(n int) int {
	n += 2
	n--
	return n
}
`,
		"package p\n\n\n\nfunc f(n int) int {\n\treturn n\n}\n": `
//line f.go:3
func f__M(n int) int {
//line f.go:6
	return n
}
`,
		"package p\n\nfunc f(n int) int {\n\t_ = `\n\treturn n\n}\n`\n\treturn n\n}\n": `
//line f.go:3
func f__M(n int) int {
	_ = ` + "`\n\treturn n\n}\n`" + `
//line f.go:6
	return n
}
`,
		"package p\n\nfunc f(n int) int {\n\treturn len(`\n\treturn n\n}`) }\n": `
//line f.go:3
func f__M(n int) int {
	return len(` + "`\n\treturn n\n}`" + `) }
`,
	} {
		dir := t.TempDir()
		parse := func(name, text string) *source {
			t.Helper()
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			s, err := parseSource("f.go", file)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		c, err := compare("M", parse("was", was), parse("is", is))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.copied("f.go", "f"); got != want {
			t.Errorf("the copy of\n%sis\n%s\nwant\n%s", is, got, want)
		}
	}
}

// A program that is built without this tool has no mutants: the library does not import
// package mutant, which is a single file without imports.
func TestTheProductHasNoMutants(t *testing.T) {
	deps, err := exec.Command("go", "list", "-deps", "../../..").Output()
	if text := string(deps); err != nil || !strings.Contains(text, "/mesh/shard\n") || strings.Contains(text, "/mesh/internal/mutant\n") {
		t.Errorf("the library imports %s, %v", text, err)
	}
	out, err := exec.Command("go", "list", "-f", "{{.Imports}} {{.GoFiles}}", "../../mutant").Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != "[] [mutant.go]" {
		t.Errorf("package mutant: imports and files are %s, %v, want one file that imports nothing", got, err)
	}
}

package simulate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/search"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// biller is a user's code: on each machine, it sends this month's bills, if no other has
// yet. That takes a while, and a lock is there so that no two machines do it.
type biller struct {
	ledger  *simulate.Register // refuses a token lower than one that it has seen
	sent    map[int]int
	careful bool
}

func (b *biller) work(ctx context.Context, node *mesh.Node) error {
	l, err := node.Lock(ctx, "bills")
	if err != nil {
		return err
	}
	defer func() { _ = l.Unlock(ctx) }()
	month := int(simulate.Now(ctx) / (10 * time.Second)) // they are short here
	if !b.ledger.Write(l.Token()) || b.sent[month] > 0 {
		return nil
	}
	_ = simulate.Sleep(ctx, 5*time.Second)
	// The bug: what comes too late is not kept out, as the token would do.
	if b.careful && !b.ledger.Write(l.Token()) {
		return nil
	}
	b.sent[month]++
	simulate.WorldOf(ctx).Always("bills are sent once", b.sent[month] == 1, "%d times in month %d", b.sent[month], month)
	return nil
}

// testBilling is the whole test of that: machines, a storm, and what must never be.
func testBilling(t search.T, careful bool, first uint64) {
	search.Test(t, search.Plan{
		Options: simulate.Options{Profile: simulate.LAN, Seed: first},
		Seeds:   100,
		Play: func(w *simulate.World) error {
			b := &biller{ledger: w.Register("ledger"), sent: make(map[int]int), careful: careful}
			for i := range w.Pick("hosts", 3, 5) {
				w.Host(fmt.Sprint("app-", i)).Boot("billing", func(ctx context.Context) {
					node, err := mesh.JoinContext(ctx, []string{"app-0", "app-1", "app-2"}, mesh.WithLeaseTTL(3*time.Second), mesh.WithMaxTTL(3*time.Second), mesh.WithLogger(simulate.Logger(ctx)))
					for err == nil && simulate.Sleep(ctx, time.Second) == nil {
						err = b.work(ctx, node)
					}
				})
			}
			w.Chaos(simulate.ChaosOptions{For: 30 * time.Second})
			return w.Run(time.Minute)
		},
	})
}

// recorder is a test whose failure is recorded, and fails nothing.
type recorder struct {
	*testing.T
	fatal, logged string
}

func (r *recorder) Fatalf(format string, args ...any) { r.fatal = fmt.Sprintf(format, args...) }
func (r *recorder) Logf(format string, args ...any)   { r.logged = fmt.Sprintf(format, args...) }

// A user's test finds a bug of the user's, and shows it small.
func TestTestFindsABugOfItsUsers(t *testing.T) {
	simulate.Long(t)
	t.Setenv("TMPDIR", t.TempDir())
	failing := &recorder{T: t}
	testBilling(failing, false, 6) // in the world of seed 5 it takes a dozen faults
	message := failing.fatal
	if !strings.HasPrefix(message, `always "bills are sent once": 2 times in month `) {
		t.Fatalf("not found: %q, %q", message, failing.logged)
	}
	t.Logf("\n%s", message)

	shrunk := regexp.MustCompile(`faults \d+ -> (\d+)`).FindStringSubmatch(message)
	if shrunk == nil || len(shrunk[1]) > 1 || shrunk[1] > "2" {
		t.Errorf("not small: %q", shrunk)
	}
	if !strings.Contains(message, "app-1") || !strings.Contains(message, "FAILURE") {
		t.Error("the message does not show what happened")
	}

	page := regexp.MustCompile(`open (.*run\.html)`).FindStringSubmatch(message)
	if page == nil {
		t.Fatal("no page")
	}
	if text, err := os.ReadFile(page[1]); err != nil || !strings.Contains(string(text), "bills are sent once") {
		t.Errorf("the page: %v, %d bytes", err, len(text))
	}
	log, err := os.Open(filepath.Join(filepath.Dir(page[1]), "run.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	account, err := timeline.Read(log)
	if err != nil {
		t.Fatal(err)
	}

	line := regexp.MustCompile(`repeat: LOCKMESH_SIMULATE='(.*)' go test -count 1 -run '\^TestTestFindsABugOfItsUsers\$' github.com/lockmesh/mesh/simulate\n`).FindStringSubmatch(message)
	if line == nil {
		t.Fatal("no line that repeats it")
	}
	if !strings.Contains(account.Repeat, line[1]) {
		t.Errorf("the log's line is %q", account.Repeat)
	}
	t.Setenv(search.Environment, line[1])
	again := &recorder{T: t}
	testBilling(again, false, 6)
	if first, _, _ := strings.Cut(message, "shrunk in"); !strings.HasPrefix(again.fatal, first) {
		t.Errorf("the line repeats\n%s\nand not\n%s", again.fatal, first)
	}

	t.Setenv(search.Environment, "seeds=20")
	passing := &recorder{T: t}
	testBilling(passing, true, 0)
	if passing.fatal != "" || !strings.HasPrefix(passing.logged, "20 seeds from 0 on") {
		t.Errorf("without the bug: %q, %q", passing.fatal, passing.logged)
	}
}

func TestTestTakesItsEnvironment(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	quiet := search.Plan{
		Play:     func(w *simulate.World) error { w.Pick("size", 1, 9); return w.Run(time.Second) },
		Profiles: []simulate.Profile{simulate.Calm, simulate.LAN},
	}
	usual := "100 seeds from 0 on, 1m40s simulated"
	if testing.Short() {
		usual = "10 seeds from 0 on, 10s simulated"
	}
	for _, tt := range []struct{ words, fatal, logged string }{
		{"", "", usual},
		{"seeds=7", "", "7 seeds from 0 on"},
		{"seeds=1", "", "1 seed from 0 on"},
		{"seed=50 seeds=7", "", "7 seeds from 50 on"},
		{"seed=50 for=1ns", "", "0 seeds from 50 on"},
		{"seed=51", "", "seed=51 profile=lan passes"},
		{"seed=51 profile=hostile", "", "seed=51 profile=hostile passes"},
		{"seed=51 set=size=3", "", "seed=51 profile=lan set=size=3 passes"},
		{"seed=51 set=size=30", "not in [1, 9]", ""},
		{"seed=51 set=seize=3", `"seize"`, ""},
		{"seeds=0", "seeds=0", ""},
		{"for=soon", "for=soon", ""},
		{"seed", "seed", ""},
		{"profile=none", `no profile "none"`, ""},
		{"only=crash", "crash", ""},
		{"weather=fine", "weather", ""},
	} {
		t.Setenv(search.Environment, tt.words)
		r := &recorder{T: t}
		search.Test(r, quiet)
		if (r.fatal == "") != (tt.fatal == "") || !strings.Contains(r.fatal, tt.fatal) || !strings.HasPrefix(r.logged, tt.logged) {
			t.Errorf("%q: %q, %q, want %q, %q", tt.words, r.fatal, r.logged, tt.fatal, tt.logged)
		}
	}
}

func TestTestOfABadSearch(t *testing.T) {
	r := &recorder{T: t}
	if search.Test(r, search.Plan{}); !strings.Contains(r.fatal, "Play") {
		t.Errorf("no scenario: %q", r.fatal)
	}
}

// The guide says of each fault what it looks like in production: every verb that the
// package comment lists is there. And each has an example in its own comment.
func TestTheGuideKnowsEveryVerb(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	_, list, _ := strings.Cut(string(doc), "# Faults and proofs")
	list, _, _ = strings.Cut(list, "A verb that names")
	verbs := 0
	for _, word := range regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`).FindAllString(list, -1) {
		if !isVerb(word) {
			continue
		}
		verbs++
		if !strings.Contains(string(guide), "`"+word+"`") {
			t.Errorf("GUIDE.md does not explain %s", word)
		}
		if example := regexp.MustCompile(`\n//\t.*\n((//.*)\n)*func \(\w \*\w+\) ` + word + `\(`); !example.MatchString(code.String()) {
			t.Errorf("the comment of %s has no example", word)
		}
	}
	if verbs < 20 {
		t.Errorf("%d verbs in doc.go", verbs)
	}
}

// isVerb reports whether a word is a method that makes something happen.
func isVerb(word string) bool {
	if word == "At" || word == "Go" || word == "Run" || word == "Host" {
		return false
	}
	for _, t := range []reflect.Type{reflect.TypeFor[*simulate.World](), reflect.TypeFor[*simulate.Net](), reflect.TypeFor[*simulate.Host](), reflect.TypeFor[*simulate.Clock]()} {
		if _, is := t.MethodByName(word); is {
			return true
		}
	}
	return false
}

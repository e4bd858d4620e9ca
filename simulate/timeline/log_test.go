package timeline

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
)

func written(t testing.TB, tl *Timeline) string {
	t.Helper()
	var b strings.Builder
	if err := tl.WriteLog(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReadGivesBackWhatWasWritten(t *testing.T) {
	extreme := &Timeline{Title: "</script>\n", Seed: math.MaxUint64, Hosts: []string{"a", "ü \x00"}, Duration: math.MaxInt64, Moments: []Moment{
		{ID: 1, Kind: Called, Host: "a", Shard: 0, Key: "\xff\x00"},
		{ID: 2, Kind: Held, Host: "a", Begin: 1, Cause: 1, Shard: 0, Key: "\xff\x00", Token: math.MaxUint64, Term: math.MaxUint64, At: math.MaxInt64},
		{ID: 3, Kind: Note, Host: Lab, Shard: -1, Key: "plain", Text: "\u2028\"\n</script>", At: math.MaxInt64},
	}}
	for _, want := range []*Timeline{{}, account(), extreme} {
		log := written(t, want)
		got, err := Read(strings.NewReader(log))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Read = %+v, %v, want %+v", got, err, want)
			continue
		}
		if again := written(t, got); again != log {
			t.Errorf("written again:\n%s\nwant\n%s", again, log)
		}
	}
}

func TestTheLogIsOneLineForEachMoment(t *testing.T) {
	lines := strings.Split(written(t, account()), "\n")
	if len(lines) != 17 || lines[16] != "" { // the header, 15 moments, and nothing
		t.Fatalf("%d lines", len(lines)-1)
	}
	for i, want := range map[int]string{
		0: `{"timeline":1,"title":"seed 1","repeat":"go test -seed 1","seed":1,"duration":9000000000,"hosts":["a","b"],"moments":15}`,
		9: `{"id":9,"cause":8,"at":15000000,"kind":"held","host":"b","actor":"w","begin":3,"token":7,"shard":2,"key":"k"}`,
	} {
		if lines[i] != want {
			t.Errorf("line %d: %s\nwant    %s", i+1, lines[i], want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := written(t, account())
	line := strings.SplitAfter(good, "\n")
	replaced := func(old, with string) string { return strings.Replace(good, old, with, 1) }
	for _, tt := range []struct{ name, log, want string }{
		{"nothing", "", "line 1: unexpected EOF"},
		{"a version to come", replaced(`"timeline":1`, `"timeline":2`), "version 2 is not known"},
		{"a version to come with other fields", `{"timeline":2,"color":"red"}` + "\n", "version 2 is not known"},
		{"no version", replaced(`"timeline":1,`, ""), "version 0 is not known"},
		{"something else", "hello\n", "line 1: invalid character"},
		{"an unknown field", replaced(`"title"`, `"titel"`), `line 1: json: unknown field "titel"`},
		{"an unknown field of a moment", replaced(`"term":3`, `"terms":3`), `line 3: json: unknown field "terms"`},
		{"an unknown kind", replaced(`"kind":"up"`, `"kind":"upp"`), `line 2: "upp" is no kind`},
		{"a number of the wrong size", replaced(`"token":7`, `"token":-7`), "line 10: json: cannot unmarshal"},
		{"a shard below zero", replaced(`"shard":2`, `"shard":-1`), "line 3: shard -1"},
		{"an end too early", strings.Join(line[:10], ""), "line 11: unexpected EOF"},
		{"a half line", good[:len(good)-5], "line 16: unexpected EOF"},
		{"a line too many", good + line[15], "line 17: there should be no more"},
		{"an empty line", strings.Join(line[:4], "") + "\n" + strings.Join(line[4:], ""), "line 5: empty"},
		{"two moments in a line", replaced("}\n{\"id\":3", "}{\"id\":3"), "line 3: something follows"},
		{"a line that is too long", line[0] + `{"text":"` + strings.Repeat("x", maxLogLine) + "\"}\n", "line 2: longer than 1048576 bytes"},
		{"a line that ends nowhere", strings.Repeat(" ", 3*maxLogLine), "line 1: longer than 1048576 bytes"},
		{"bytes that are no text", replaced(`"request"`, "\"\xff\""), "line 5: not UTF-8"},
		{"a raw key that is text", replaced(`"key":"k"`, `"rawKey":"aw=="`), "line 4: a rawKey is for keys"},
		{"a raw key beside a key", replaced(`"key":"k"`, `"key":"k","rawKey":"/w=="`), "line 4: a rawKey is for keys"},
		{"fewer than no moments", replaced(`"moments":15`, `"moments":-1`), "line 1: -1 moments"},
		{"a cause that is later", replaced(`"cause":3`, `"cause":4`), "moment 4 (sent): its cause is moment 4"},
		{"null", replaced(line[2], "null\n"), "moment 2 has ID 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(tt.log))
			if got != nil || err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "timeline: ") {
				t.Errorf("Read = %v, %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}

func TestReadReportsTheReadersError(t *testing.T) {
	broken := errors.New("broken")
	for _, before := range []int{0, 200} {
		r := io.MultiReader(strings.NewReader(written(t, account())[:before]), &failing{broken})
		if _, err := Read(r); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: Read = %v", before, err)
		}
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error)  { return 0, f.err }
func (f *failing) Write([]byte) (int, error) { return 0, f.err }

func TestWriteLogWritesNothingThatReadRefuses(t *testing.T) {
	long := account()
	long.Moments[14].Text = strings.Repeat("x", maxLogLine)
	if err := long.WriteLog(io.Discard); err == nil || !strings.Contains(err.Error(), "moment 15: its line has") {
		t.Errorf("a long text: %v", err)
	}
	broken := account()
	broken.Moments[3].Cause = 4
	var b bytes.Buffer
	if err := broken.WriteLog(&b); err == nil || b.Len() > 0 {
		t.Errorf("a broken account: %v, and %d bytes", err, b.Len())
	}
}

// Every form tells its caller that the disk is full.
func TestWritersReportErrors(t *testing.T) {
	tl, full := account(), errors.New("disk full")
	for name, write := range map[string]func(io.Writer) error{
		"text": tl.WriteText, "log": tl.WriteLog, "HTML": tl.WriteHTML,
		"Mermaid": func(w io.Writer) error { return tl.WriteMermaid(w, 9, 5) },
	} {
		if err := write(&failing{full}); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRead reads anything. What Read takes is good, and can be written and read again.
func FuzzRead(f *testing.F) {
	log := written(f, account())
	f.Add([]byte(log))
	f.Add([]byte(log[:300]))
	f.Add([]byte(`{"timeline":1,"title":"","repeat":"","seed":0,"duration":0,"hosts":null,"moments":0}`))
	f.Add([]byte(`{"timeline":1,"hosts":["a"],"moments":1}` + "\n" + `{"id":1,"kind":"held","host":"a","rawKey":"/w=="}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tl, err := Read(bytes.NewReader(b))
		if err != nil {
			if tl != nil {
				t.Fatalf("a timeline beside the error %v", err)
			}
			return
		}
		if err := tl.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := Read(strings.NewReader(written(t, tl)))
		if err != nil || !reflect.DeepEqual(again, tl) {
			t.Fatalf("read again: %+v, %v, want %+v", again, err, tl)
		}
		if err := tl.WriteText(io.Discard); err != nil {
			t.Fatal(err)
		}
		if err := tl.WriteHTML(io.Discard); err != nil {
			t.Fatal(err)
		}
		if len(tl.Moments) > 0 {
			if err := tl.WriteMermaid(io.Discard, len(tl.Moments), 20); err != nil {
				t.Fatal(err)
			}
		}
	})
}

package timeline

import (
	"regexp"
	"strings"
	"testing"
)

func TestWriteMermaid(t *testing.T) {
	var b strings.Builder
	if err := account().WriteMermaid(&b, 8, 3); err != nil {
		t.Fatal(err)
	}
	want := `sequenceDiagram
    participant p0 as a
    participant p1 as b
    Note over p0,p1: seed 1
    Note over p0,p1: go test #45;seed 1
    Note over p1: 0.010000s asks for #34;k#34;#44; lock
    p1->>p0: 0.012000s request
    rect rgb(255, 236, 179)
    p0->>p1: 0.015000s granted 7
    end
`
	if b.String() != want {
		t.Errorf("WriteMermaid wrote\n%s\nwant\n%s", b.String(), want)
	}
}

func TestTheNeighbourhoodIsOfCauses(t *testing.T) {
	tl := account()
	for _, tt := range []struct {
		around, n int
		want      []int
	}{
		{8, 1, []int{8}},
		{8, 3, []int{3, 5, 8}},
		{8, 99, []int{3, 5, 8, 9, 13, 15}},
		{5, 4, []int{3, 5, 6, 7}}, // its answer is on its way
		{5, 5, []int{3, 5, 6, 8, 9}},
		{4, 3, []int{3, 4, 5}}, // asked for, the sending is there
		{1, 9, []int{1}},
	} {
		got := tl.neighbourhood(tt.around, tt.n)
		if len(got) != len(tt.want) {
			t.Errorf("neighbourhood(%d, %d) = %v, want %v", tt.around, tt.n, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("neighbourhood(%d, %d) = %v, want %v", tt.around, tt.n, got, tt.want)
				break
			}
		}
	}
}

func TestWriteMermaidRefuses(t *testing.T) {
	broken := account()
	broken.Moments[0].ID = 7
	for _, tt := range []struct {
		name      string
		tl        *Timeline
		around, n int
	}{{"no such moment", account(), 16, 5}, {"moment 0", account(), 0, 5}, {"no moments", account(), 3, 0}, {"a broken account", broken, 3, 5}} {
		var b strings.Builder
		if err := tt.tl.WriteMermaid(&b, tt.around, tt.n); err == nil || b.Len() > 0 {
			t.Errorf("%s: %v, wrote %q", tt.name, err, b.String())
		}
	}
}

// diagramLine is all that a diagram may have in a line. In texts, Mermaid's own signs
// are written as references.
var diagramLine = regexp.MustCompile(`^(sequenceDiagram|    (participant p\d+ as TEXT|Note over p\d+(,p\d+)?: TEXT|p\d+(->>|-x|-\))p\d+: TEXT|rect rgb\(255, 236, 179\)|end))$`)

var diagramText = regexp.MustCompile(`^([A-Za-z0-9 ._/]|#\d+;)+$`)

func TestNoTextBreaksADiagram(t *testing.T) {
	for _, text := range []string{
		"end", "END of it", "a;b\nparticipant x", "%%{init: {}}%%", "#35;", "a: b->>c: d", "</script>", "{}[]()\"'`|~", "", " ", "\xff\u202e\u2028\x00", "ü 世 🙂",
		strings.Repeat("long ", 100), "wrap:", "loop x", "activate p0", "$$x$$",
	} {
		tl := &Timeline{Title: text, Repeat: text, Hosts: []string{"a" + strings.ToValidUTF8(text, "?"), "end"}, Moments: []Moment{
			{ID: 1, Kind: Sent, Host: "end", Peer: "end", Text: text},
			{ID: 2, Kind: Lost, Host: "end", Peer: "end", Frame: 1, Text: text},
			{ID: 3, Cause: 2, Kind: Held, Host: "end", Key: text, Actor: text},
			{ID: 4, Cause: 3, Kind: Note, Host: "end", Text: text},
			{ID: 5, Cause: 4, Kind: Failure, Host: Lab, Text: text},
		}}
		tl.Moments[0].Peer = tl.Hosts[0]
		var b strings.Builder
		if err := tl.WriteMermaid(&b, 3, 10); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		for _, line := range lines {
			shape := line
			if before, after, ok := cutText(line); ok {
				if !diagramText.MatchString(after) || strings.TrimSpace(after) == "" || regexp.MustCompile(`(?i)\bend\b`).MatchString(after) {
					t.Errorf("%q: the text of %q is not safe", text, line)
				}
				shape = before + "TEXT"
			}
			if !diagramLine.MatchString(shape) {
				t.Errorf("%q: %q is no line of a diagram", text, line)
			}
		}
	}
}

func cutText(line string) (before, after string, ok bool) {
	for _, sep := range []string{": ", " as "} {
		if i := strings.Index(line, sep); i >= 0 {
			return line[:i+len(sep)], line[i+len(sep):], true
		}
	}
	return line, "", false
}

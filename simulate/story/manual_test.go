package story

import (
	"os"
	"strings"
	"testing"
)

// TestTheManualIsComplete: every form of a sentence and of a condition, and every kind of
// message, stands in the package's documentation, as it is in the code.
func TestTheManualIsComplete(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]bool)
	words := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		lines[line] = true
		if rest, ok := strings.CutPrefix(line, "//\t"); ok {
			for _, word := range strings.Split(strings.TrimSuffix(rest, ","), ", ") {
				words[word] = true
			}
		}
	}
	want := []string{meshForm, options}
	for _, f := range sentences() {
		want = append(want, strings.Replace(f.text, options, "[…]", 1))
	}
	for _, s := range conditions() {
		want = append(want, s.text)
	}
	for _, form := range append(want, "{messages} are sent", "at most {n} {messages} are sent") {
		if !lines["//\t"+form] {
			t.Errorf("doc.go lacks the line\n\t%s", form)
		}
	}
	for _, v := range vocabulary {
		if !words[v.name] {
			t.Errorf("doc.go lacks the messages %q", v.name)
		}
	}
}

package story

import (
	"os"
	"strings"
	"testing"
)

// TestTheManualIsComplete: every form of a sentence and of a condition, and every kind of
// message, stands in the manual, as it is in the code.
func TestTheManualIsComplete(t *testing.T) {
	text, err := os.ReadFile("MANUAL.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]bool)
	words := make(map[string]bool)
	fenced := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "```text" || line == "```" {
			fenced = line != "```"
		}
		if !fenced {
			continue
		}
		lines[line] = true
		for word := range strings.SplitSeq(strings.TrimSuffix(line, ","), ", ") {
			words[word] = true
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
		if !lines[form] {
			t.Errorf("MANUAL.md lacks the line\n\t%s", form)
		}
	}
	for _, v := range vocabulary {
		if !words[v.name] {
			t.Errorf("MANUAL.md lacks the messages %q", v.name)
		}
	}
}

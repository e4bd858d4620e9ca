package shell

import (
	"slices"
	"testing"
)

func TestQuoted(t *testing.T) {
	words := []string{"simulate", "*=least", "a b", "it's", "", `\`, "'"}
	for name, quoted := range map[string]func(string) string{"Quote": Quote, "Word": Word} {
		var line string
		for _, w := range words {
			line += " " + quoted(w)
		}
		if got := Split(line); !slices.Equal(got, words) {
			t.Errorf("%s: %s is read as %q, not %q", name, line, got, words)
		}
	}
	if q, w := Quote("simulate"), Word("simulate"); q != "'simulate'" || w != "simulate" {
		t.Errorf("a plain word is %s and %s", q, w)
	}
}

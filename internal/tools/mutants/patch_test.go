package main

import (
	"reflect"
	"strings"
	"testing"
)

const diff = "diff --git a/a.go b/a.go\n--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-a\n+b\n"

func TestParsePatch(t *testing.T) {
	got, err := parsePatch("QueueJumpers", []byte(`Rule: P16, G3
Leaves out: who came: earlier.

Noticed: shard TestTable/a_case after [0]: Step
Args: -test.short -x 3
Args: -y
Noticed: . TestAll G3
Seeds: 100
`+diff+"Rule: P4\n"))
	want := &patch{
		name: "QueueJumpers", rule: "P16, G3", leaves: "who came: earlier.",
		watchers: []watcher{
			{pkg: "shard", test: "TestTable/a_case", message: "after [0]: Step", args: []string{"-test.short", "-x", "3", "-y"}},
			{pkg: ".", test: "TestAll", message: "G3", seeds: 100},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestBadPatches(t *testing.T) {
	const rule, leaves, by = "Rule: P1\n", "Leaves out: x.\n", "Noticed: shard TestX x\n"
	for _, name := range []string{"none", "C8", "P16, G3, C8"} {
		if p, err := parsePatch("Bug", []byte("Rule: "+name+"\n"+leaves+by+diff)); err != nil || p.rule != name {
			t.Errorf("rule %q: %+v, %v", name, p, err)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"", "no diff"},
		{rule + leaves + by, "no diff"},
		{diff, "no line Rule"},
		{rule + by + diff, "Leaves out"},
		{rule + leaves + diff, "Noticed"},
		{rule + rule + diff, "second line Rule"},
		{"Rule: 5\n" + diff, `"5"`},
		{"Rule: D5\n" + diff, `"D5"`},
		{"Rule:\n" + diff, `""`},
		{leaves + leaves + diff, "one sentence"},
		{"Leaves out:\n" + diff, "one sentence"},
		{"Leaves: x\n" + diff, `"Leaves"`},
		{"\nhello\n" + diff, "line 2: not of the form"},
		{"Noticed: shard TestX\n" + diff, "the beginning of its message"},
		{"Noticed: shard FuzzX x\n" + diff, "the beginning of its message"},
		{"Noticed: ./shard TestX x\n" + diff, "relative to the module"},
		{"Noticed: /shard TestX x\n" + diff, "relative to the module"},
		{"Noticed: ../shard TestX x\n" + diff, "relative to the module"},
		{"Seeds: 3\n" + by + diff, "follow the line Noticed"},
		{"Args: -x\n" + by + diff, "follow the line Noticed"},
		{by + "Args:\n" + diff, "no arguments"},
		{by + "Seeds: 0\n" + diff, `"0"`},
		{by + "Seeds: 3\nSeeds: 3\n" + diff, "second line Seeds"},
		{by + "Seeds: many\n" + diff, `"many"`},
	} {
		if p, err := parsePatch("Bug", []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %+v, %v, want an error that says %s", tt.text, p, err, tt.want)
		}
	}
	for _, name := range []string{"", "bug", "A_B", "A+B", "Ä", "A/B"} {
		if _, err := parsePatch(name, []byte(rule+leaves+by+diff)); err == nil {
			t.Errorf("the name %q is accepted", name)
		}
	}
}

func TestExpects(t *testing.T) {
	for _, tt := range []struct {
		want, message string
		yes           bool
	}{
		{"G1", "G1 exclusion: at 3s", true},
		{"G1", "seen: G1", false},
		{"* is in *, while", "n1 is in 7f, while n1 lives", true},
		{"* is in *, while", "n1 is in 7f", false},
		{"a*b", "ab", true},
		{"a*b", "ba", false},
		{"*", "", true},
		{"aXb*Xb", "aXb", false},
	} {
		if got := (watcher{message: tt.want}).expects(tt.message); got != tt.yes {
			t.Errorf("%q expects %q: %v, want %v", tt.want, tt.message, got, tt.yes)
		}
	}
}

// A patch that parses has all that a mutant needs.
func FuzzParsePatch(f *testing.F) {
	f.Add("Rule: P1\nLeaves out: x.\nNoticed: shard TestX x\nSeeds: 3\nArgs: -x\n" + diff)
	f.Add("Noticed: . TestX\tx\n\n" + diff)
	f.Add("Rule")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePatch("Bug", []byte(text))
		if err != nil {
			return
		}
		if p.rule == "" || p.leaves == "" || len(p.watchers) == 0 || !strings.Contains(text, "diff --git ") {
			t.Errorf("%q is read as %+v", text, p)
		}
		for _, w := range p.watchers {
			if w.pkg == "" || w.test == "" || w.message == "" || w.seeds < 0 || strings.ContainsAny(w.message, "\n") || !w.expects(w.message) {
				t.Errorf("%q is read with %+v", text, w)
			}
		}
	})
}

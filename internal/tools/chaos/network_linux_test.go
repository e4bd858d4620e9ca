package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A direction is lost while at least one fault cuts it, and the others are not.
func TestCuts(t *testing.T) {
	n, err := newNetwork(names(3))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(n.close)
	loses := func(from string) string {
		var to []string
		out, err := exec.Command("ip", "-n", n.namespace(from), "neigh", "show").Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, nobody) {
				to = append(to, strings.Fields(line)[0])
			}
		}
		slices.Sort(to) // the kernel's order is that of a hash table, which is another one after each boot
		return strings.Join(to, " ")
	}
	for _, step := range []struct {
		from, to []string
		by       int
		n1, n2   string // what these two lose
	}{
		{names(1), names(3)[1:], 1, "10.77.0.2 10.77.0.3", ""},
		{names(1), names(2)[1:], 1, "10.77.0.2 10.77.0.3", ""},
		{names(2)[1:], names(1), 1, "10.77.0.2 10.77.0.3", "10.77.0.1"},
		{names(1), names(3)[1:], -1, "10.77.0.2", "10.77.0.1"},
		{names(1), names(2)[1:], -1, "", "10.77.0.1"},
		{names(2)[1:], names(1), -1, "", ""},
	} {
		if err := n.cut(step.from, step.to, step.by); err != nil {
			t.Fatal(err)
		}
		if n1, n2 := loses("n1"), loses("n2"); n1 != step.n1 || n2 != step.n2 {
			t.Errorf("after %+v: n1 loses %q, n2 %q", step, n1, n2)
		}
	}
	n.close()
	if out, _ := exec.Command("ip", "netns", "list").Output(); strings.Contains(string(out), n.prefix) {
		t.Errorf("it is still there: %s", out)
	}
}

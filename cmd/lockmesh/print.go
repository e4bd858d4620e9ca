package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockmesh/mesh/internal/operator"
)

func printStatus(w io.Writer, s *operator.Status) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("node", "%s, %s", s.Name, s.ID)
	if s.Entry != "" {
		line("entry", "%s", s.Entry)
	}
	line("role", "%s", s.Role)
	line("phase", "%s", s.Phase)
	if s.Core != nil {
		line("mesh", "%s, %s", s.Core.Name, s.Core.Mesh)
	}
	line("list", "%s", strings.Join(s.List, " "))
	line("settled", "%s", yes(s.Settled))
	line("ready", "%s", yes(s.Ready))
	line("safe to stop", "%s", yes(s.SafeToStop))
	line("state directory", "%s", yes(s.StateDir))
	if s.Core != nil {
		line("shards", "%d, of which %d have no leader, %d lack replicas", s.Core.Shards, len(s.NoMajority), len(s.UnderReplicated))
	}
	if s.Quiet > 0 {
		line("quiet", "for another %v", s.Quiet.Round(time.Millisecond))
	}
	if s.Why != "" {
		line("waits for", "%s", s.Why)
	}
	for _, a := range s.Waiting {
		line("  "+a.Entry, "for %v by now: %s", a.For.Round(time.Second), a.Why)
	}
	t.Flush()
}

func printCore(w io.Writer, c *operator.Core) {
	fmt.Fprintf(w, "mesh %s, %s: %d shards with %d voters each\n", c.Name, c.Mesh, c.Shards, c.Voters)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "entry\tnode\tid\tstate")
	for _, s := range c.Seats {
		state := "connected"
		switch {
		case s.Vacant():
			state = "vacant: its node is silent"
		case s.ID == "":
			state = "no node has come yet"
		case s.Ended:
			state = "declared dead"
		case !s.Connected:
			state = "not connected"
		}
		if list := strings.Join(s.List, " "); s.ID != "" && list != strings.Join(c.Entries(), " ") {
			state += fmt.Sprintf(", has the list [%s]", list)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Entry, s.Name, s.ID, state)
	}
	t.Flush()
	if len(c.Ordered) > 0 {
		fmt.Fprintf(w, "an operator changes the list to [%s]\n", strings.Join(c.Ordered, " "))
	}
	if c.Unfinished != "" {
		fmt.Fprintf(w, "the next change of the list waits: %s\n", c.Unfinished)
	}
}

// printDeclared says what came of the word that the node at an entry is dead: nothing, if no node had the seat, or another one has
// it by now.
func printDeclared(w io.Writer, c *operator.Core, entry string) {
	i := slices.Index(c.Entries(), entry)
	switch {
	case i < 0:
		fmt.Fprintf(w, "the core has no entry %s any more\n", entry)
	case c.Seats[i].ID == "":
		fmt.Fprintf(w, "no node has the seat of %s: there is nothing to declare\n", entry)
	case c.Seats[i].Ended:
		fmt.Fprintf(w, "the core takes the node at %s for dead\n", entry)
	default:
		fmt.Fprintf(w, "another node has the seat of %s by now\n", entry)
	}
}

func printFindings(w io.Writer, s *operator.Status, found []operator.Finding) {
	for _, f := range found {
		mark := "problem"
		if !f.Problem {
			mark = "note"
		}
		fmt.Fprintf(w, "%s: %s\n", mark, f.What)
		if f.Do != "" {
			fmt.Fprintf(w, "  to do: %s\n", f.Do)
		}
	}
	if len(found) == 0 || !found[0].Problem {
		fmt.Fprintf(w, "the core is whole: %s\n", strings.Join(s.Core.Entries(), " "))
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/simulate"
)

// writeList writes what there is to choose from.
func (s *settings) writeList(w io.Writer) {
	fmt.Fprintf(w, "profiles (-profile): %s\n", list(simulate.Profiles()))
	for _, p := range s.search.Profiles {
		fmt.Fprintf(w, "\nparameters of %s worlds (-set):\n", p)
		for _, q := range draws(p, nil).Parameters {
			if !strings.HasPrefix(q.Name, "site-") && !strings.HasPrefix(q.Name, "net-") {
				fmt.Fprintf(w, "  %-22s %d to %d\n", q.Name, q.Least, q.Most)
			}
		}
	}
	fmt.Fprintf(w, "\nkinds of faults (-only kind/number):\n")
	for _, name := range simulate.FaultKinds() {
		fmt.Fprintf(w, "  %s\n", name)
	}
	fmt.Fprintf(w, "\nfault points in the code that hostile worlds turn on (-set site-<name>-percent=<0 to 50>, site-*=0 for none):\n")
	for _, p := range point.Sites() {
		fmt.Fprintf(w, "  %s\n", p)
	}
	fmt.Fprintf(w, "\nkinds of messages that hostile worlds lose or double (-set net-lose-<kind>-percent=<0 to 50>, net-double-<kind>-percent, net-*=0 for none):\n")
	for _, q := range draws(simulate.Hostile, nil).Parameters {
		if kind, ok := strings.CutPrefix(q.Name, "net-lose-"); ok {
			fmt.Fprintf(w, "  %s\n", strings.TrimSuffix(kind, "-percent"))
		}
	}
	fmt.Fprintf(w, "\nrare situations that -marks demands:\n")
	for _, p := range draws(simulate.Calm, nil).Properties {
		if p.Kind == simulate.Mark {
			fmt.Fprintf(w, "  %s\n", p.Name)
		}
	}
	fmt.Fprintf(w, "\ndeliberate bugs (-bug):\n")
	names := mutantNames()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		fmt.Fprintf(w, "  %s\n", name)
	}
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// print writes the verdict as a table.
func (v *verdict) print(out io.Writer, faults map[string]int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	table := func(what string, counts map[string]int) {
		sum := 0
		for _, n := range counts {
			sum += n
		}
		fmt.Fprintf(w, "%s\t%d\n", what, sum)
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(w, "  %s\t%d\n", name, counts[name])
		}
	}
	table("faults", faults)
	fmt.Fprintf(w, "grants\t%d\n", v.grants)
	fmt.Fprintf(w, "writes under exclusive locks\t%d\n", v.writes)
	fmt.Fprintf(w, "late writes that the tokens fence\t%d\n", v.fenced)
	fmt.Fprintf(w, "holds of fixed length that came to their end\t%d\n", v.overs)
	table("lost locks, by what explains them", v.losses)
	table("failed calls", v.errors)
	fmt.Fprintf(w, "longest wait for a key that nobody believed in\t%v\t%s\n", v.wait, v.waited)
	byKind := make(map[string]int)
	for _, x := range v.violations {
		byKind[x.kind]++
	}
	table("violations", byKind)
}

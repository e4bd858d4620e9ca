package main

import (
	"fmt"
	"text/tabwriter"
)

// columns are what the lines of the table say.
const columns = "row\tlocks kept\tqueues in order\tshards\tfree key granted after\tlongest pause\t"

func (d *verdict) summary() string {
	if len(d.errs) > 0 {
		return fmt.Sprintf("failed: %v", d.errs[0])
	}
	return "as promised"
}

// print writes the lines of a row: those of its checks are below its own, if they have names.
func (d *verdict) print(table *tabwriter.Writer, name string) {
	fmt.Fprintf(table, "%s\t%d of %d\t%d of %d\t", name, d.kept, d.held, d.inOrder, d.queues)
	for i, l := range d.lines {
		if i > 0 || l.name != "" {
			fmt.Fprintf(table, "\t\t\t\n  %s\t\t\t", l.name)
		}
		fmt.Fprintf(table, "%d\t%v\t%v\t", l.shards, round(l.opened), round(l.pause))
	}
	fmt.Fprintln(table)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is something that happens to the core of a mesh, while its clients hold locks.
type row struct {
	name           string
	core, replicas int
	play           func(context.Context, *stage) error
}

// The rows. Nobody helps the mesh in any of them.
var rows = []row{
	{"two of three killed, restarted at once", 3, 3, killTwo},
	{"two of five killed, restarted at once; 3 replicas", 5, 3, killTwoOfFive},
	{"two of five killed, restarted at once; 5 replicas", 5, 5, killTwoOfFive},
	{"the whole core killed, restarted 2 s later", 3, 3, killCore},
	{"a rolling restart of three, with a kill in each roll", 3, 3, roll},
	{"one of three gone for good, replaced after 10 s", 3, 3, loseOne},
	{"one of three gone, another killed and restarted", 3, 3, loseOneAndKill},
}

// runRows plays the rows whose names contain a text, and prints a table of what they have shown.
func runRows(only string, verbose bool) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	began, table := time.Now(), tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, columns)
	var failed []error
	played := 0
	for _, r := range rows {
		if !strings.Contains(r.name, only) {
			continue
		}
		d := r.run(ctx, verbose)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		played++
		fmt.Printf("%6.1fs  %s: %s\n", time.Since(began).Seconds(), r.name, d.summary())
		d.print(table, r.name)
		for _, err := range d.errs {
			failed = append(failed, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	fmt.Println()
	table.Flush()
	fmt.Println("\nTimes are those of the worst shard. They count from the kill, or from the restart if that came later.")
	if played == 0 {
		return fmt.Errorf("no row has %q in its name", only)
	}
	return errors.Join(failed...)
}

// run plays a row with a mesh of its own.
func (r row) run(ctx context.Context, verbose bool) *verdict {
	g, err := newStage(ctx, crew{core: r.core, clients: 3, replicas: r.replicas}, verbose)
	if err != nil {
		d := &verdict{}
		d.fail("the fleet does not start: %w", err)
		return d
	}
	defer g.close()
	if err = r.play(ctx, g); err == nil {
		err = g.finish(ctx)
	}
	d := g.judge()
	if err != nil {
		d.errs = slices.Insert(d.errs, 0, err)
		return d
	}
	if err := g.stopAll(ctx); err != nil {
		d.fail("%w", err)
	}
	return d
}

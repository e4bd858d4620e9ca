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
	name string
	crew crew
	keep bool // the members have state directories
	play func(context.Context, *stage) error
}

// The rows. Nobody helps the mesh in any of them, except an operator where the list changes.
var rows = []row{
	{"two of three killed, restarted at once", crew{core: 3, clients: 3, replicas: 3}, false, killTwo},
	{"two of five killed, restarted at once; 3 replicas", crew{core: 5, clients: 3, replicas: 3}, false, killTwoOfFive},
	{"two of five killed, restarted at once; 5 replicas", crew{core: 5, clients: 3, replicas: 5}, false, killTwoOfFive},
	{"the whole core killed, restarted 2 s later; 50 clients", crew{core: 3, clients: 50, replicas: 3}, false, killCore},
	{"one seed of eight processes restarted, five times", crew{core: 3, clients: 5, replicas: 3}, false, restartSeed},
	{"a rolling restart of three, with a kill in each roll", crew{core: 3, clients: 3, replicas: 3}, false, roll},
	{"three of five restarted while two are stopped for 4 s", crew{core: 5, clients: 3, replicas: 3}, false, restartWhileStopped},
	{"the core restarted while clients are stopped for 4 s", crew{core: 3, clients: 4, replicas: 3}, false, restartWhileClientsStop},
	{"the fleet restarted with shorter leases", crew{core: 3, clients: 4, idle: 2, replicas: 3}, true, restartShorter},
	{"one of three gone for good, replaced after 10 s", crew{core: 3, clients: 3, replicas: 3}, false, loseOne},
	{"one of three gone, another killed and restarted", crew{core: 3, clients: 3, replicas: 3}, false, loseOneAndKill},
	{"one of three gone for good, replaced live", crew{core: 3, clients: 3, replicas: 3}, true, replaceLive},
	{"one of three gone for good, replaced by restarts", crew{core: 3, clients: 3, replicas: 3}, false, replaceByRestarts},
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
	fmt.Println("\nTimes are those of the worst shard. They count from the kill; or from the restart, if that came seconds later; or from when stopped")
	fmt.Println("processes, without which nothing is granted, go on; or from when a process begins to leave.")
	if played == 0 {
		return fmt.Errorf("no row has %q in its name", only)
	}
	return errors.Join(failed...)
}

// run plays a row with a mesh of its own.
func (r row) run(ctx context.Context, verbose bool) *verdict {
	d := &verdict{}
	if r.keep {
		dir, err := os.MkdirTemp("", "fleet")
		if err != nil {
			d.fail("%w", err)
			return d
		}
		defer os.RemoveAll(dir)
		r.crew.state = dir
	}
	g, err := newStage(ctx, r.crew, verbose)
	if err != nil {
		d.fail("the fleet does not start: %w", err)
		return d
	}
	defer g.close()
	if err = r.play(ctx, g); err == nil {
		err = g.finish(ctx)
	}
	d = g.judge()
	if err != nil {
		d.errs = slices.Insert(d.errs, 0, err)
		return d
	}
	if err := g.stopAll(ctx); err != nil {
		d.fail("%w", err)
	}
	return d
}

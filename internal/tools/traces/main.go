// Command traces writes the trace hashes of many simulated worlds, one a line: 2,000 drills over
// all profiles, and every story. A change of structure leaves all of them as they were:
//
//	go run ./internal/tools/traces -against HEAD~1
//
// plays the same worlds at that commit, in a work tree of its own, and lists each line that
// differs. The lines of each commit are kept in the user's cache directory. The command covers more than
// TestHashes, which plays twenty worlds, and takes a minute or two. Run it in the module's root. The exit status is 1 if a line
// differs, and 2 if the command fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	equal, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "traces:", err)
		os.Exit(2)
	case !equal:
		os.Exit(1)
	}
}

// run carries the command out. It returns false if traces differ.
func run(ctx context.Context, args []string, out io.Writer) (equal bool, err error) {
	flags := flag.NewFlagSet("traces", flag.ContinueOnError)
	seeds := flags.Int("seeds", 2000, "the number of drills; 0: only the stories")
	against := flags.String("against", "", "the commit whose traces these must equal")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if flags.NArg() > 0 || *seeds < 0 {
		return false, fmt.Errorf("usage: traces [-seeds N] [-against COMMIT]")
	}
	if *against == "" {
		lines, err := play(ctx, *seeds)
		if err != nil {
			return false, err
		}
		_, err = fmt.Fprintln(out, strings.Join(lines, "\n"))
		return true, err
	}
	was, err := tracesOf(ctx, *against, *seeds)
	if err != nil {
		return false, err
	}
	is, err := play(ctx, *seeds)
	if err != nil {
		return false, err
	}
	different := compare(was, is)
	for i, d := range different {
		if i == shown {
			fmt.Fprintf(out, "and %d more\n", len(different)-shown)
			break
		}
		fmt.Fprintln(out, d)
	}
	fmt.Fprintf(out, "%d traces, %d differ from %s\n", len(is), len(different), *against)
	return len(different) == 0, nil
}

// shown is how many differences are listed.
const shown = 20

// Command lockmesh holds tools for meshes.
//
//	go run github.com/lockmesh/mesh/cmd/lockmesh simulate -seeds 1000
//
// "lockmesh help" lists them.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1   // a failure was found, or a file could not be written
	exitUsage       = 2   // nothing was done
	exitInterrupted = 130 // by a signal, with nothing found so far
)

// console is where a command writes.
type console struct {
	out, err io.Writer
	terminal bool // err is a terminal
}

// collectAt is the GOGC of this command, unless the environment says another: worlds make
// much garbage and are small, and rarer collections make them a third faster.
const collectAt = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process
	os.Exit(run(ctx, os.Args[1:], console{os.Stdout, os.Stderr, isTerminal(os.Stderr)}))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func run(ctx context.Context, args []string, c console) int {
	return dispatch(ctx, "lockmesh", usage, args, c, map[string]command{
		"simulate": runSimulate, "serve": runServe, "status": runStatus, "core": runCore, "locks": runLocks, "refs": runRefs,
	})
}

// command is one of several: it gets the arguments behind its name.
type command func(ctx context.Context, args []string, c console) int

// dispatch calls the command that the first argument names.
func dispatch(ctx context.Context, group string, explain func(io.Writer), args []string, c console, commands map[string]command) int {
	if len(args) == 0 {
		explain(c.err)
		return exitUsage
	}
	switch name, args := args[0], args[1:]; name {
	case "help", "-h", "-help", "--help":
		explain(c.out)
		return exitOK
	default:
		if do := commands[name]; do != nil {
			return do(ctx, args, c)
		}
		fmt.Fprintf(c.err, "%s: no command %q\n", group, name)
		explain(c.err)
		return exitUsage
	}
}

// explain prints a usage, with the flags.
func explain(w io.Writer, usage string, f *flag.FlagSet) {
	fmt.Fprint(w, usage)
	f.SetOutput(w)
	f.PrintDefaults()
}

func usage(w io.Writer) {
	fmt.Fprint(w, `usage: lockmesh <command> [flags]

  serve      run a node that serves locks and resources over HTTP
  status     show the state of a node
  core       show, check and change the core of a mesh
  locks      show who holds which keys, and take a key from its holder
  refs       show who uses a resource, and end a use
  simulate   play a mesh in simulated worlds, look for seeds that fail, and repeat them

lockmesh <command> -help lists the flags.
`)
}

// Command lockmesh holds tools for meshes.
//
//	go run github.com/lockmesh/mesh/cmd/lockmesh simulate -seeds 1000
//
// "lockmesh help" lists them.
package main

import (
	"context"
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
	if len(args) == 0 {
		usage(c.err)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(c.out)
		return exitOK
	case "simulate":
		return runSimulate(ctx, args[1:], c)
	case "serve":
		return runServe(ctx, args[1:], c)
	case "status":
		return runStatus(ctx, args[1:], c)
	case "core":
		return runCore(ctx, args[1:], c)
	case "locks":
		return runLocks(ctx, args[1:], c)
	case "refs":
		return runRefs(ctx, args[1:], c)
	}
	fmt.Fprintf(c.err, "lockmesh: no command %q\n", args[0])
	usage(c.err)
	return exitUsage
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

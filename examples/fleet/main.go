// Fleet runs a mesh of several processes on this machine, kills one of them with SIGKILL
// again and again, and proves that nothing went wrong.
//
//	go run ./examples/fleet
//	go run ./examples/fleet -duration 60s -nodes 7
//
// The program starts copies of itself. Each is a node of the mesh, with workers that
// append to one shared file under one lock. The file is guarded by the lock's token and
// by nothing else; see journal.go, which is what to read first. Whenever the mesh's health
// says that every shard is fully replicated, one process is killed, and started again at
// once under its name and address. Each kill is printed, with the time until the next
// grant anywhere. At the end the file is audited: every append that was acknowledged is in
// it exactly once, and tokens only grew. The program exits with 1 if not, or if the mesh
// took so long to recover that there were fewer than six kills in 30 seconds.
//
// A process that dies with the lock, or in its queue, holds up the others until its lease
// of two seconds is over: nobody can know that it is dead, and has stopped writing. That
// is most of the worst gap.
//
//	go run ./examples/fleet -measure
//
// measures instead how fast a mesh recovers: the node that leads a free key's shard is
// killed thirty times, each time while a client on another node locks and unlocks the key.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

const (
	key   = "journal"       // what guards the file
	lease = 2 * time.Second // how long a lock outlives its process
)

func main() {
	var (
		nodes    = flag.Int("nodes", 5, "how many `processes` to run, at least 3")
		duration = flag.Duration("duration", 30*time.Second, "how long to kill")
		measure  = flag.Bool("measure", false, "measure the time to the next grant after kills of a key's leader")
		kills    = flag.Int("kills", 30, "how many kills to measure")
		verbose  = flag.Bool("v", false, "show what the nodes log")
		member   memberFlags
	)
	member.define()
	flag.Parse()

	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("what is %q?", flag.Arg(0))
	case member.name != "":
		err = runMember(member, *verbose)
	case *nodes < 3:
		err = fmt.Errorf("-nodes is %d, want at least 3: of fewer, none may fail", *nodes)
	case *measure:
		err = runMeasure(*nodes, *kills, *verbose)
	default:
		err = runFleet(*nodes, *duration, *verbose)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

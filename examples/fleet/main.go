// Fleet runs a mesh of several processes on this machine, kills one of them with SIGKILL
// again and again, and checks that no promise of the mesh is broken.
//
//	go run ./examples/fleet
//	go run ./examples/fleet -duration 60s -nodes 7
//
// The program starts copies of itself. Each is a node of the mesh, with workers that
// append to one shared file under one lock. The file is guarded by the lock's tokens and
// by nothing else: see journal.go, which is the file to read first. Whenever the mesh
// reports that every shard is fully replicated, one process is killed, and restarted at
// once with the same name and address. The program prints each kill, with the time until
// the next grant on any node. At the end it audits the file: every acknowledged append is
// there exactly once, and tokens only grew. The exit status is 1 if the audit fails, or if
// the mesh recovered so slowly that there were fewer than six kills in 30 seconds.
//
// If the killed process holds the lock or waits for it, the others wait until its lease of
// two seconds ends: no node can know that it is dead and has stopped writing. Most of the
// longest time without a grant is such a wait.
//
//	go run ./examples/fleet -measure
//
// measures how fast a mesh recovers. It kills the node that leads the shard of a free key,
// thirty times, each time while a client on another node locks and unlocks the key.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

const (
	key   = "journal"       // its lock guards the file
	lease = 2 * time.Second // how long a lock outlives its process
)

func main() {
	var (
		nodes    = flag.Int("nodes", 5, "how many `processes` to run, at least 3")
		duration = flag.Duration("duration", 30*time.Second, "how long to go on killing")
		measure  = flag.Bool("measure", false, "measure the time to the next grant after kills of a key's leader")
		kills    = flag.Int("kills", 30, "how many kills to measure")
		verbose  = flag.Bool("v", false, "print the logs of the nodes")
		member   memberFlags
	)
	member.define()
	flag.Parse()

	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case member.name != "":
		err = runMember(member, *verbose)
	case *nodes < 3:
		err = fmt.Errorf("-nodes is %d, want at least 3: a smaller mesh cannot survive a kill", *nodes)
	case *kills < 1:
		err = fmt.Errorf("-kills is %d, want at least 1", *kills)
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

// Fleet runs a mesh of several processes on this machine, kills them with SIGKILL again and again, first one
// at a time, then two of the core together, then the whole core, and checks that no promise of the mesh is broken.
//
//	go run ./examples/fleet
//	go run ./examples/fleet -duration 60s -nodes 7
//
// The program starts copies of itself. The first three are the core: their addresses are the list that all are
// started with. The others are at no entry of it, and so clients. Each has workers that append to one shared file
// under one lock. The file is guarded by the lock's tokens and by nothing else: see journal.go, which is the file
// to read first. Each client also holds a lock of its own all the time.
//
// Whenever the mesh reports that every shard is fully replicated, one process is killed, and restarted at
// once with the same name and address. The program prints each kill, with the time until
// the next grant on any node. After that, two processes of the core are killed together and restarted, and then
// all three. The clients must not lose the locks that they hold. After either of these two kills, keys that are free wait for a quiet
// time of about ten seconds: after the second one only because clients live on.
// At the end the program audits the file: every acknowledged append is
// there exactly once, and tokens only grew. The exit status is 1 if the audit fails, if a client lost its lock, or if
// the mesh recovered so slowly that there were fewer than six kills in 30 seconds.
//
// If a killed process holds the lock or waits for it, the others wait until its lease of
// two seconds ends: no node can know that it is dead and has stopped writing. While one process
// is killed at a time, most of the longest time without a grant is such a wait. The longest time
// that the program prints at the end is one of the quiet times.
//
//	go run ./examples/fleet -measure
//
// measures how fast a mesh recovers. It kills the process that leads the shard of a free key,
// thirty times, each time while another process locks and unlocks the key.
//
//	go run ./examples/fleet -rows
//
// plays what may happen to a core, one row after the other: two of three killed together, two of five, the whole core, orderly
// restarts, a rolling restart with kills, processes that are stopped meanwhile, shorter leases, a machine that is gone for good and is
// replaced. Each row has a new mesh, with clients that hold 50 locks with leases of ten seconds, wait in queues, and lock free
// keys of every shard. For each row the program prints what the holders kept, whether the queues kept their order, and how long free keys
// could not be locked. The exit status is 1 if a row fails: see row.go for the rows, and verdict.go for what is asked of them. All of them take
// about six minutes, and need a machine that is not busy, since most of what is asked is a time; -rows -row TEXT plays some.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

const (
	key       = "journal"        // its lock guards the file
	core      = 3                // how many processes are at an entry of the list; all others are clients
	replicas  = 3                // of each shard
	lease     = 2 * time.Second  // how long the journal's lock outlives its process
	longLease = 10 * time.Second // how long a client's own lock does
)

func main() {
	var (
		nodes    = flag.Int("nodes", 5, "how many `processes` to run, at least 3: three are the core, the others clients")
		duration = flag.Duration("duration", 30*time.Second, "how long to go on killing")
		measure  = flag.Bool("measure", false, "measure the time to the next grant after kills of a key's leader")
		kills    = flag.Int("kills", 30, "how many kills to measure")
		rows     = flag.Bool("rows", false, "play the rows of failures, and print what they cost")
		only     = flag.String("row", "", "with -rows: play only those with this `text` in their name")
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
	case *nodes < core:
		err = fmt.Errorf("-nodes is %d, want at least %d: a smaller core cannot survive a kill", *nodes, core)
	case *kills < 1:
		err = fmt.Errorf("-kills is %d, want at least 1", *kills)
	case *rows:
		err = runRows(*only, *verbose)
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

// Chaos runs a mesh of real processes, each in a network namespace of its own, and does to them what happens to
// machines: it kills and stops them, cuts their connections in both directions or in one, makes links narrow, and
// restarts them in an orderly way, one or all of them, also with another list. Meanwhile they lock and unlock keys,
// and a judge outside compares what they write down.
//
//	go run ./internal/tools/chaos                     # 2 minutes; needs Linux, root, and ip (iproute2)
//	go run ./internal/tools/chaos -duration 30m -seed 7
//	go run ./internal/tools/chaos -rows               # fixed situations, one after the other: see row_linux.go
//	go run ./internal/tools/chaos -judge DIR/journal  # what a journal of an earlier run shows
//
// The program starts copies of itself. They append records to one file, the journal: each call, each grant, each
// check that a lock is still held, with the write that follows it, and each end of a hold, with times of the machine's one clock.
// The file judge.go defines what a violation is: read it first. The seed decides the faults (see plan.go), but not how the
// processes are scheduled, so a run cannot be repeated exactly.
//
// Between faults, about half of the time, the program waits until the mesh is well again: every process sees each
// shard fully replicated, and locks every key. If that takes longer than the quiet time, the leases and 15 s
// together, it is a violation, and the run ends.
//
// All processes, and the bridge between them, are in network namespaces that the program makes and deletes. Inside, addresses
// are those of 10.77.0.0/24. If a run is killed, the next run deletes what it left behind.
//
// The exit status is 1 if there is a violation; then the journal and the logs of all processes are kept. Where
// namespaces cannot be made, the program says so, and the exit status is 0; with -require it is 1.
package main

import (
	"errors"
	"fmt"
	"os"
)

// judgeFile prints what a journal shows.
func judgeFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in, v := &journal{file: file}, newJudge()
	faults := make(map[string]int)
	if err := in.read(func(r record) {
		if v.origin == 0 {
			v.origin = r.from
		}
		if r.kind == fault {
			faults[r.key]++
		}
		v.see(r)
	}); err != nil {
		return err
	}
	v.finish()
	v.print(os.Stdout, faults)
	for _, x := range v.violations {
		fmt.Printf("VIOLATION: %s: %s: %s\n", v.clock(x.at), x.kind, x.text)
	}
	if len(v.violations) > 0 {
		return errors.New("a promise is broken")
	}
	return nil
}

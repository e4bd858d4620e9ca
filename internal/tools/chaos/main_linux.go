package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"
)

func main() {
	// The kernel kills the processes when the thread that started them ends (see launch): it must be the main one.
	runtime.LockOSThread()
	var (
		set     settings
		require = flag.Bool("require", false, "fail where no network namespaces can be made")
		file    = flag.String("judge", "", "judge the journal of an earlier run in this `file`, and run nothing")
	)
	set.member.define()
	flag.DurationVar(&set.duration, "duration", 2*time.Minute, "how long to go on with faults")
	flag.Uint64Var(&set.member.seed, "seed", 0, "decides which faults are drawn; 0: taken from the time")
	flag.IntVar(&set.core, "core", 0, "how many entries the list has, 3 to 7; 0: 3 or 5, by the seed")
	flag.IntVar(&set.clients, "clients", 3, "how many processes are clients, 2 to 20")
	flag.StringVar(&set.dir, "dir", "", "keep journal and logs in this `directory`, also if nothing is violated")
	rows := flag.Bool("rows", false, "play fixed situations, one after the other, instead of random faults")
	flag.StringVar(&set.row, "row", "", "with -rows: play only those with this `text` in their name")
	flag.Parse()
	err := begin(set, *file, *rows)
	switch {
	case err == nil:
	case errors.Is(err, errNotRun) && !*require:
		fmt.Println("chaos was", err)
	default:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// begin checks what the command line says, and does it.
func begin(set settings, file string, rows bool) error {
	if set.member.seed == 0 {
		set.member.seed = uint64(time.Now().Unix())
	}
	if set.core == 0 {
		set.core = []int{3, 3, 5}[rand.New(rand.NewPCG(set.member.seed, 1)).IntN(3)]
	}
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case set.member.name != "":
		return runMember(set.member)
	case file != "":
		return judgeFile(file)
	case set.core < 3 || set.core > 7:
		return fmt.Errorf("-core is %d, want 3 to 7", set.core)
	case set.clients < 2 || set.clients > 20:
		return fmt.Errorf("-clients is %d, want 2 to 20", set.clients)
	case set.member.maxTTL < time.Second || set.member.maxTTL > time.Minute:
		return fmt.Errorf("-max-ttl is %v, want 1s to 1m", set.member.maxTTL)
	}
	if rows {
		return runRows(set)
	}
	return runChaos(set)
}

// Command sansio checks that the sans-I/O packages stay what they claim to be:
// functions of their input.
//
// In them there is no goroutine, channel, mutex, clock, global randomness, file or
// network, and no output depends on the order of a map. The packages of this
// module that they import are pure as well, but for the types of transport. In the packages of the simulator
// that rules.go lists the seed decides everything: they depend on no order of a map, no clock, no goroutine, no
// global randomness. Run it from anywhere in the module:
//
//	go run ./internal/tools/sansio
//
// A range over a map whose order cannot matter says why, on its line or the one
// above:
//
//	// order-free: the loop only counts
//
// All other exceptions are listed in rules.go, each with a reason. An exception or a
// remark that nothing needs is reported, too. The exit status is 0 if all is clean, 1 if there are findings, and 2 if the tool fails.
package main

import (
	"fmt"
	"os"
)

func main() {
	findings, files, err := check(".", module, pure, seeded, leaves, exceptions)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sansio:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		fmt.Printf("sansio: %d findings in %d files\n", len(findings), files)
		os.Exit(1)
	}
	fmt.Printf("sansio: %d packages, %d files: clean\n", len(pure)+len(seeded), files)
}

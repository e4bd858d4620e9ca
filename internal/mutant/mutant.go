// Package mutant tells which deliberate bugs a program was built with and has switched on.
//
// A program has none. A deliberate bug is a patch in simulate/mutants, and
// internal/tools/mutants compiles it beside the correct code, in an overlay of the go
// command. The overlay replaces this file by one whose Active names what the environment
// switches on. So the product carries nothing of its bugs, and nothing can switch one on
// in a program that was built in the usual way.
package mutant

// Active returns the names of the deliberate bugs that are switched on, sorted.
func Active() []string { return nil }

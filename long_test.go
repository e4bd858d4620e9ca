package mesh_test

import "flag"

var long = flag.Bool("long", false, "play all worlds, also of tests that take many seconds: CI does")

// fewer returns the second value with -long, and else the first, for fewer worlds.
func fewer[V any](some, all V) V {
	if *long {
		return all
	}
	return some
}

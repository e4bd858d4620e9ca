package simulate

import "flag"

// Flags of the tests that draw worlds.
var (
	SeedFlag  = flag.Uint64("seed", 0, "the first seed of TestFreshSeeds; the only seed of the other tests")
	SeedsFlag = flag.Int("seeds", 20, "how many seeds TestFreshSeeds runs")
)

package simulate

import "time"

// RandomOptions draws a rough world from a seed: links that lose, double and
// reorder frames, or do not; clocks apart by up to one percent in rate and an
// hour in the time of day; gossip that is slow, loses news and lies.
func RandomOptions(seed uint64) Options {
	var draws uint64
	s := newStream(seed, profileStream, &draws)
	rough := func(most int64) int64 {
		if s.below(2) == 0 {
			return 0
		}
		return s.below(most)
	}
	return Options{
		Seed: seed,
		Link: Link{
			Latency:   s.between(50*time.Microsecond, 5*time.Millisecond),
			Jitter:    s.between(0, 5*time.Millisecond),
			Loss:      rough(20_000),
			Duplicate: rough(20_000),
			Reorder:   rough(50_000),
		},
		Gossip: Gossip{
			Lateness: s.between(50*time.Millisecond, 3*time.Second),
			Lost:     rough(200_000),
			Lies:     rough(20_000),
		},
		ClockRate:   s.below(10_001),
		ClockOffset: s.between(0, time.Hour),
	}
}

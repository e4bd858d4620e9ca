package simulate

import (
	"math/bits"
	"math/rand/v2"
	"time"
)

// stream is one concern's source of chance. Each concern, and each host, has its
// own, so that a new draw in one place does not shift the others.
type stream struct {
	pcg   rand.PCG
	draws *uint64 // of all streams of the world, for the trace
}

// The concerns. Hosts come after them.
const (
	latencyStream uint64 = iota + 1
	lossStream
	_ // of a concern that is no more: the others keep their numbers
	gossipStream
	chaosStream
	dialStream
	profileStream
	userStream
	clockStream
	parameterStream
	siteStream
	sieveStream
	hostStream uint64 = 1 << 32
)

// steady reports whether all variants of a world have a concern in common: what its
// parameters are, how its clocks go, and what its storms do.
func steady(concern uint64) bool {
	return concern>>56 == parameterStream || concern>>48 == chaosStream || concern>>40 == clockStream || concern>>8 == profileStream
}

func newStream(seed, concern uint64, draws *uint64) *stream {
	s := &stream{draws: draws}
	s.pcg.Seed(mix(seed), mix(seed^mix(concern)))
	return s
}

// mix is the finalizer of splitmix64: one to one, and every bit of x moves about
// half of those of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Uint64 makes a stream a rand.Source.
func (s *stream) Uint64() uint64 {
	*s.draws++
	return s.pcg.Uint64()
}

// below returns a number in [0, n), or 0 for n < 1.
func (s *stream) below(n int64) int64 {
	if n < 1 {
		return 0
	}
	hi, _ := bits.Mul64(s.Uint64(), uint64(n))
	return int64(hi)
}

// between returns a duration in [lo, hi].
func (s *stream) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(s.below(int64(hi-lo)+1))
}

// shuffle returns the numbers below n in random order.
func (s *stream) shuffle(n int) []int {
	all := make([]int, n)
	for i := range all {
		j := int(s.below(int64(i + 1)))
		all[i] = all[j]
		all[j] = i
	}
	return all
}

// chance is true ppm times in a million. It draws nothing for a certainty.
func (s *stream) chance(ppm int64) bool {
	return ppm > 0 && (ppm >= million || s.below(million) < ppm)
}

// exponential returns a duration that is exponential enough, with about the mean
// given, in integers only: a geometric number of halvings, and a fraction of one.
func (s *stream) exponential(mean time.Duration) time.Duration {
	if mean <= 0 {
		return 0
	}
	r := s.Uint64()
	halvings := time.Duration(bits.LeadingZeros64(r | 1<<20))
	fraction := time.Duration(r & (1<<10 - 1))
	return mean*halvings*7/10 + mean*fraction*7/10>>10
}

// heavyTail returns a duration with about the mean given, in integers only. How often it
// is beyond x falls with x to the power of three halves. Mostly it is a third to two thirds of the mean;
// in one of a thousand draws it is more than thirty times the mean; and it is 630 times the mean at most.
func (s *stream) heavyTail(mean time.Duration) time.Duration {
	if mean <= 0 {
		return 0
	}
	r := s.Uint64()
	// Each octave is chosen 2^1.5 times less often than the one before: 181/512 of it.
	octaves := 0
	for x := r; octaves < 10 && x&511 < 181; octaves++ {
		if x >>= 9; octaves == 6 {
			x = s.Uint64()
		}
	}
	least := mean * 4 / 13 << octaves
	return least + scale(least, int64(r>>44), 1<<20)
}

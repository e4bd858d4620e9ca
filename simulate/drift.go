package simulate

import (
	"fmt"
	"time"
)

// The bounds of SetRate and its like. The mesh's promises hold for clocks that are
// wrong by 10,000 millionths at most, whichever way they are.
const (
	slowestClock = -million / 2
	fastestClock = million
)

// Clock is what a host's clocks can be made to do: its monotonic one, and its time of day.
type Clock struct{ host *Host }

func checkRate(verb string, ppm, most int64) {
	if ppm < slowestClock || ppm > most {
		panic(fmt.Sprintf("simulate: %s: %d ppm is not in [%d, %d]", verb, ppm, slowestClock, most))
	}
}

// SetRate makes a host's clocks gain ppm millionths (or lose, if it is negative)
// from now on, from -500,000 to 1,000,000. The mesh's promises hold within its bound on rates: 10,000 ppm.
//
//	w.Host("a").Clock.SetRate(-10_000) // 1 % slow
func (c *Clock) SetRate(ppm int64) {
	checkRate("SetRate", ppm, fastestClock)
	h := c.host
	h.exists()
	h.skewed("clock of %s gains %d ppm", h.name, ppm)
	h.steady()
	h.drift(ppm)
}

// Step moves a host's time of day by d. Its monotonic clock stays.
//
//	w.Host("a").Clock.Step(-time.Hour)
func (c *Clock) Step(d time.Duration) {
	h := c.host
	h.exists()
	w := h.world
	w.struck(h.name, "time of day of %s steps by %v", h.name, d)
	w.backwards = w.backwards || d < 0
	h.clock.offset += d
}

// Wave makes a host's clocks gain and lose in turn, up to ppm millionths, in waves
// of the period given, as a clock does that is steered too hard, or that feels day and
// night. It goes on until SetRate.
//
//	w.Host("a").Clock.Wave(10_000, time.Minute)
func (c *Clock) Wave(ppm int64, period time.Duration) {
	checkRate("Wave", ppm, -slowestClock) // it goes both ways
	if period < minWave {
		panic(fmt.Sprintf("simulate: Wave: a period of %v is shorter than %v", period, minWave))
	}
	h := c.host
	h.exists()
	h.skewed("clock of %s waves by %d ppm every %v", h.name, ppm, period)
	// A triangle of eight pieces.
	eighths := [8]int64{0, 1, 2, 1, 0, -1, -2, -1}
	piece := 0
	h.wander(func() time.Duration {
		h.drift(ppm * eighths[piece%8] / 2)
		piece++
		return period / 8
	})
}

const minWave = 100 * time.Millisecond

// Noise makes a host's clocks gain another rate in [-ppm, ppm] every now and then,
// several times a second, as they do on a virtual machine. It goes on until SetRate.
//
//	w.Host("a").Clock.Noise(10_000)
func (c *Clock) Noise(ppm int64) {
	checkRate("Noise", ppm, -slowestClock) // it goes both ways
	h := c.host
	h.exists()
	h.skewed("clock of %s gains up to %d ppm more or less", h.name, ppm)
	ppm = max(ppm, -ppm)
	h.wander(func() time.Duration {
		h.drift(h.sched.below(2*ppm+1) - ppm)
		return 10*time.Millisecond + h.sched.exponential(200*time.Millisecond)
	})
}

// skewed records how a host's clocks err from now on, and no more as before.
func (h *Host) skewed(format string, args ...any) {
	w := h.world
	w.ended(h.skew, h.name, "")
	h.skew = w.fault(h.name, format, args...)
}

// drift changes the rate of a host's clocks.
func (h *Host) drift(ppm int64) {
	if ppm != h.clock.rate {
		h.clock.setRate(h.world.now, ppm)
		h.reclock()
	}
}

// wander calls step now, and again whenever the time has passed that it returned.
func (h *Host) wander(step func() time.Duration) {
	h.steady()
	w := h.world
	var again func()
	again = func() {
		d := step()
		h.wandering = w.after(d, nil, again)
	}
	again()
}

// steady ends a wave or noise.
func (h *Host) steady() {
	if h.wandering != nil {
		h.world.cancel(h.wandering)
		h.wandering = nil
	}
}

package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Profile says from what the seed draws a world: its links, its clocks, its gossip,
// and what storms do in it. Every world of a profile differs: each parameter is drawn
// for itself, and each world lacks some kinds of faults (swarm testing: Groce et al.,
// ISSTA 2012).
type Profile string

// The profiles, from the gentlest on.
const (
	// Calm is a good day, in one rack or in sites far apart: nodes leave, and come back, and
	// others join, but no fault ever befalls them, and no lock is lost.
	Calm Profile = "calm"
	// LAN is one site: processes crash and stall, machines lose power, connections
	// break, and once in a while a switch does.
	LAN Profile = "lan"
	// WAN is several sites, tens of milliseconds apart, with cuts between them.
	WAN Profile = "wan"
	// Flaky has links that lose, double and reorder frames, clocks that are apart by
	// the promised bound, gossip that lies, and every kind of fault.
	Flaky Profile = "flaky"
	// Hostile is Flaky with faults that come thick and fast, with a network that loses and
	// doubles some kinds of messages again and again, and with the fault points in the
	// library's own code turned on.
	Hostile Profile = "hostile"
)

// Profiles returns all profiles.
func Profiles() []Profile { return []Profile{Calm, LAN, WAN, Flaky, Hostile} }

// ParseProfile returns the profile of that name.
func ParseProfile(name string) (Profile, error) {
	if p := Profile(name); slices.Contains(Profiles(), p) {
		return p, nil
	}
	var names []string
	for _, p := range Profiles() {
		names = append(names, string(p))
	}
	return "", fmt.Errorf("simulate: no profile %q: there are %s", name, strings.Join(names, ", "))
}

// climate is a profile in numbers.
type climate struct {
	latency, jitter, lateness span // of links, and of news
	loss, duplicate, reorder  int64
	lost, lies                int64
	rate                      int64
	offset                    time.Duration
	// often is how often storms do what they do, in percent of the usual; a kind that
	// is not named has that of "".
	often  map[string]int64
	shapes int64 // how many of the shapes the jitter of links may have
	narrow int64 // how many times less than 100 MB per second links may carry
	sites  int64 // percent of the fault points in the code that a world turns on
	sieve  int64 // percent of the kinds of messages that its network loses, or doubles, for what they are
}

type span struct{ least, most time.Duration }

func (p Profile) climate() climate {
	switch p {
	case Calm:
		return climate{latency: span{50 * time.Microsecond, 80 * ms}, jitter: span{0, 10 * ms}, lateness: span{50 * ms, 500 * ms},
			shapes: 3, often: map[string]int64{"leave": 200, "join": 100}}
	case LAN:
		return climate{
			latency: span{50 * time.Microsecond, ms}, jitter: span{0, 2 * ms}, lateness: span{50 * ms, 500 * ms},
			rate: 200, offset: time.Second, shapes: 3,
			often: map[string]int64{
				"crash": 100, "power-off": 50, "pause": 100, "reset": 100, "slow": 50, "isolate": 50, "partition": 30, "clock-step": 30,
				"leave": 100, "join": 50, "crash-again": 50, "crash-leader": 100, "pause-leader": 50, "stall": 50, "tail": 30, "late-news": 30,
				"clock-noise": 30, "aimed": 100, "outlast": 30, "pause-all": 50, "isolate-all": 30, "crash-all": 100,
			},
		}
	case WAN:
		return climate{
			latency: span{5 * ms, 60 * ms}, jitter: span{0, 20 * ms}, lateness: span{200 * ms, 2 * time.Second},
			rate: 1000, offset: time.Minute, shapes: 4, narrow: 99,
			often: map[string]int64{
				"partition": 100, "one-way": 50, "pair": 100, "isolate": 50, "reset": 100, "crash": 50, "power-off": 30, "pause": 50, "slow": 30, "lie": 30,
				"squeeze": 100, "tail": 100, "swizzle": 50, "cut-leader": 100, "late-news": 50, "leave": 50, "join": 50, "crash-leader": 50, "hold": 30,
				"clock-wave": 50, "aimed": 100, "outlast": 100, "pause-all": 30, "isolate-all": 50,
			},
		}
	case Flaky, Hostile:
		c := climate{
			latency: span{50 * time.Microsecond, 5 * ms}, jitter: span{0, 5 * ms}, lateness: span{50 * ms, 3 * time.Second},
			loss: 20_000, duplicate: 20_000, reorder: 50_000, lost: 200_000, lies: 20_000,
			rate: 10_000, offset: time.Hour, shapes: 4, narrow: 99,
			often: map[string]int64{"": 100},
		}
		if p == Hostile {
			c.often, c.sites, c.sieve = map[string]int64{"": 250}, 25, 15
		}
		return c
	}
	panic(fmt.Sprintf("simulate: no profile %q", string(p)))
}

// oftenness returns how often a kind of fault comes, in percent of the usual.
func (c *climate) oftenness(kind string) int64 {
	if percent, ok := c.often[kind]; ok {
		return percent
	}
	return c.often[""]
}

// draw makes the world's options what its profile and its seed say.
func (w *World) draw() {
	if w.opts.Profile == "" {
		w.climate = climate{often: map[string]int64{"": 100}}
		return
	}
	w.climate = w.opts.Profile.climate()
	c := &w.climate
	micros := func(name string, s span) time.Duration {
		return time.Duration(w.Pick(name, int64(s.least/time.Microsecond), int64(s.most/time.Microsecond))) * time.Microsecond
	}
	w.opts.Link = Link{
		Latency:   micros("link-latency-us", c.latency),
		Jitter:    micros("link-jitter-us", c.jitter),
		Loss:      w.rough("link-loss-ppm", c.loss),
		Duplicate: w.rough("link-duplicate-ppm", c.duplicate),
		Reorder:   w.rough("link-reorder-ppm", c.reorder),
		Shape:     [...]Shape{Fixed, Uniform, Exponential, HeavyTail}[w.Pick("link-shape", 0, c.shapes-1)],
	}
	if narrow := w.rough("link-narrow", c.narrow); narrow > 0 {
		w.opts.Link.Bandwidth = 100_000_000 / (1 + narrow)
		w.opts.Link.Queue = 4 << 20
	}
	w.opts.Gossip = Gossip{
		Lateness: micros("gossip-lateness-us", c.lateness),
		Lost:     w.rough("gossip-lost-ppm", c.lost),
		Lies:     w.rough("gossip-lies-ppm", c.lies),
	}
	w.opts.ClockRate = w.Pick("clock-rate-ppm", 0, c.rate)
	w.opts.ClockOffset = time.Duration(w.Pick("clock-offset-ms", 0, int64(c.offset/ms))) * ms
}

const ms = time.Millisecond

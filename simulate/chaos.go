package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// ChaosOptions say what [World.Chaos] may do.
type ChaosOptions struct {
	// For is how long faults go on, unless Least or a fault of the kind "outlast" makes the storm longer. At its
	// end everything is healed, with HealAll, unless Unhealed is set.
	For time.Duration
	// Least is how many faults there shall be at least: a storm that had fewer after For
	// goes on, and lasts ten times For at most, all in all. A storm whose profile and seed allow no kind of fault ends after For.
	// With Options.Only, the storm instead goes on until each of the named faults was drawn, within the same bound.
	Least int
	// MayCrash reports whether the process on a host may be ended now, with all that it
	// remembers. The default is [Host.MaySpare]: no shard may lose a majority.
	MayCrash func(host string) bool
	// MayCrashAll reports whether all processes may be ended now, at once, to start again within
	// d: no lock survives that, and the mesh that is founded then is another one. The default is never.
	MayCrashAll func(d time.Duration) bool
	// Longest is the longest lease that there may be. A fault of the kind "outlast" is a cut that is longer
	// than every timer of the mesh, and longer than Longest. Default: 10 s.
	Longest time.Duration
	// Without lists the kinds of faults that shall not happen: see [FaultKinds].
	Without []string
	// Join starts a host that is new. The storm calls it when a host is to join; nil: none joins.
	Join func(host string)
	// Unhealed leaves the faults that last as they are at the end of the storm: the caller then calls HealAll, HealCore or
	// HealSomeCore.
	Unhealed bool
}

// Chaos is a storm of faults: which kinds, how often and for how long is drawn
// from the seed, differently for each world. What it draws does not depend on what
// happens, so that a storm can be repeated without some of its faults: see
// Options.Only. Aimed faults are drawn beforehand, too, and then wait for an important message or a rare situation: they
// strike right after it, if it ever comes.
type Chaos struct {
	world   *World
	opts    ChaosOptions
	until   time.Duration
	kinds   []*kind
	faults  []Fault
	waiting map[string]bool // of Options.Only: not drawn yet
	last    time.Duration   // when the last fault ends that must be seen to its end
	blows   bool            // it has some kind of fault
	over    bool
	hosts   []*Host // that faults may strike: those that were there at its beginning
	joined  int64
}

// Fault is one fault of a storm.
type Fault struct {
	Name    string        // its kind, and its number among those of its kind: "crash/3"
	At, For time.Duration // when it was drawn, in true time, and how long it lasts; zero: a moment, or without end. An aimed fault waits from At on
	// Happened is false if the fault could not happen: its host was down already, no majority would
	// have been left, or the message that it was aimed at never came.
	Happened bool
}

// Chaos begins a storm of faults, as the world's profile has it. Without a profile it may have every
// kind of fault; but each world lacks about a third of the kinds, which the seed draws. The storm strikes
// the hosts that exist, and ends by itself, with HealAll unless Unhealed is set. It panics if there is no host yet, if the world has
// had a storm, if For, Least or Longest is negative, and if Without has a name that no kind of fault has.
//
//	storm := w.Chaos(simulate.ChaosOptions{For: time.Minute})
//	err := w.Run(time.Minute + 30*time.Second)
//	fmt.Println(storm.Total(), "faults")
func (w *World) Chaos(opts ChaosOptions) *Chaos {
	if opts.For < 0 || opts.Least < 0 {
		panic(fmt.Sprintf("simulate: Chaos: %d faults or more in %v: neither may be negative", opts.Least, opts.For))
	}
	if opts.Longest < 0 {
		panic(fmt.Sprintf("simulate: Chaos: Longest is %v, which is negative", opts.Longest))
	}
	switch {
	case len(w.Hosts()) == 0:
		panic("simulate: Chaos: there is no host in this world yet")
	case w.storm != nil:
		panic("simulate: Chaos: this world has had its storm")
	}
	opts.Longest = cmp.Or(opts.Longest, 10*time.Second)
	c := &Chaos{world: w, opts: opts, until: w.now + opts.For, kinds: faultKinds(), hosts: w.Hosts()}
	checkKinds(opts.Without)
	w.faultless = false
	w.Net.expose()
	w.storm = c
	if w.opts.Only != nil {
		c.waiting = make(map[string]bool)
		for _, name := range w.opts.Only {
			c.waiting[name] = true
		}
	}
	for i, k := range c.kinds {
		// The 1 was once the number of the storm; without it every world's faults would be others.
		k.times = w.stream(chaosStream<<48 | 1<<40 | uint64(i)<<32)
		k.mean = k.mean/4 + k.times.exponential(k.mean)
		if k.times.chance(million/3) || !c.may(k) {
			continue // swarm: each world lacks some kinds
		}
		k.mean = k.mean * 100 / time.Duration(w.climate.oftenness(k.name))
		c.blows = true
		c.next(k, uint64(i))
	}
	w.after(opts.For, nil, c.subside)
	return c
}

// may reports whether the storm may have faults of a kind at all.
func (c *Chaos) may(k *kind) bool {
	return c.world.climate.oftenness(k.name) > 0 && !slices.Contains(c.opts.Without, k.name)
}

// subside ends the storm, if it had enough faults.
func (c *Chaos) subside() {
	enough := c.Total() >= c.opts.Least || !c.blows
	if c.waiting != nil {
		enough = len(c.waiting) == 0
	}
	now := c.world.now
	if !enough && now < c.until+9*c.opts.For || now < c.last {
		c.world.after(c.opts.For/4, nil, c.subside)
		return
	}
	c.Stop()
}

// next schedules the next fault of a kind.
func (c *Chaos) next(k *kind, index uint64) {
	w := c.world
	w.after(time.Millisecond+k.times.exponential(k.mean), nil, func() {
		if c.over {
			return
		}
		k.drawn++
		f := Fault{Name: fmt.Sprintf("%s/%d", k.name, k.drawn), At: w.now}
		s := w.stream(chaosStream<<48 | 1<<40 | index<<32 | k.drawn)
		if f.For = lengthOf(s, k.most); k.long {
			f.For += timers + c.opts.Longest
		}
		if c.waiting == nil || c.waiting[f.Name] {
			if delete(c.waiting, f.Name); c.waiting != nil && w.now > c.until {
				c.last = max(c.last, w.now+f.For)
			}
			f.Happened = k.begin(c, s, f.For)
			c.faults = append(c.faults, f)
		}
		c.next(k, index)
	})
}

// lengthOf draws how long a fault lasts: as often some milliseconds as some seconds.
func lengthOf(s *stream, most time.Duration) time.Duration {
	if most == 0 {
		return 0
	}
	most >>= s.below(8)
	return s.between(most/2, most)
}

// Stop ends the storm, and heals everything unless ChaosOptions.Unhealed is set.
func (c *Chaos) Stop() {
	if !c.over {
		c.over = true
		c.world.Net.aims = nil
		if !c.opts.Unhealed {
			c.world.HealAll()
		}
	}
}

// Over reports whether the storm has ended.
func (c *Chaos) Over() bool { return c.over }

// Faults returns the storm's faults so far, also those that could not happen.
func (c *Chaos) Faults() []Fault { return c.faults[:len(c.faults):len(c.faults)] }

// Total is the number of faults that happened.
func (c *Chaos) Total() (n int) {
	for _, f := range c.faults {
		if f.Happened {
			n++
		}
	}
	return n
}

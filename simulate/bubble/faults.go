package bubble

import (
	"slices"
	"time"
)

// Link is what the way between two hosts is like. It is a TCP connection: while a
// connection lasts its bytes arrive once, in order, and those sent into a cut
// arrive after it.
type Link struct {
	Latency time.Duration // the least; zero means 200 µs
	Jitter  time.Duration // the mean of what comes on top, exponential
}

// path is the way from one host to another, in that direction.
type path struct {
	link *Link
	cut  bool
}

func (b *Bubble) grow() {
	n := len(b.hosts)
	for len(b.paths) < n {
		b.paths = append(b.paths, nil)
	}
	for i := range b.paths {
		for len(b.paths[i]) < n {
			b.paths[i] = append(b.paths[i], &path{link: b.link})
		}
	}
}

func (b *Bubble) path(from, to string) *path {
	return b.paths[b.host(from).index][b.host(to).index]
}

// open tells whether anything gets from one host to another.
func (b *Bubble) open(from, to *Host) bool {
	return !from.dark && !to.dark && !b.paths[from.index][to.index].cut
}

// flows is open for what is sent now: nothing leaves a paused host.
func (b *Bubble) flows(from, to *Host) bool { return b.open(from, to) && !from.paused }

func (b *Bubble) latency(from, to *Host) time.Duration {
	if from == to {
		return 20 * time.Microsecond
	}
	l := b.paths[from.index][to.index].link
	d := l.Latency
	if d == 0 {
		d = 200 * time.Microsecond
	}
	if l.Jitter > 0 {
		// In integers: a geometric number of halvings, and a fraction of one.
		v := b.gate.chance.Uint64()
		for ; v&1 == 1; v >>= 1 {
			d += l.Jitter * 7 / 10
		}
		d += l.Jitter * time.Duration(v>>1&1023) * 7 / 10 / 1024
	}
	return d
}

// Partition splits the hosts into groups that hear nothing of each other. Hosts
// that no group names are one more group, and those made later in none. It comes on
// top of other cuts; Heal ends them all.
//
//	b.Partition([]string{"a"}, []string{"b", "c"})
func (b *Bubble) Partition(groups ...[]string) {
	group := make([]int, len(b.hosts))
	for i, g := range groups {
		for _, name := range g {
			group[b.host(name).index] = i + 1
		}
	}
	b.act(func() {
		for i, from := range group {
			for j, to := range group {
				if from != to {
					b.paths[i][j].cut = true
				}
			}
		}
	})
}

// PartitionOneWay lets nothing through from the hosts of one list to those of the
// other, while the way back stays as it is.
func (b *Bubble) PartitionOneWay(from, to []string) {
	var cut []*path
	for _, x := range from {
		for _, y := range to {
			if x != y {
				cut = append(cut, b.path(x, y))
			}
		}
	}
	b.act(func() {
		for _, p := range cut {
			p.cut = true
		}
	})
}

// Isolate cuts a host off from all others.
func (b *Bubble) Isolate(host string) { b.Partition([]string{host}) }

// Heal ends all cuts.
func (b *Bubble) Heal() {
	b.act(func() {
		for _, p := range slices.Concat(b.paths...) {
			p.cut = false
		}
		b.refresh()
	})
}

// Reachable tells whether bytes get from one host to another.
func (b *Bubble) Reachable(from, to string) bool { return b.open(b.host(from), b.host(to)) }

// SetLink changes what the links between two hosts are like, both ways.
func (b *Bubble) SetLink(x, y string, l Link) {
	there, back := b.path(x, y), b.path(y, x)
	b.act(func() { there.link, back.link = &l, &l })
}

// SetLinks changes what all links are like.
func (b *Bubble) SetLinks(l Link) {
	b.act(func() {
		*b.link = l
		for _, p := range slices.Concat(b.paths...) {
			p.link = b.link
		}
	})
}

// Crash ends the process on a host: its contexts end, its connections are reset,
// and dialling it is refused until Restart. Its goroutines can do nothing to other
// hosts any more, but live until they heed their contexts.
func (b *Bubble) Crash(host string) {
	h := b.host(host)
	b.act(func() {
		h.paused = false
		if h.process != nil {
			h.process.kill(errCrashed)
		}
	})
}

// PowerOff ends the process on a host, and the machine with it: nobody tells the
// others, and nothing answers them, until Restart.
func (b *Bubble) PowerOff(host string) {
	h := b.host(host)
	b.act(func() {
		h.dark, h.paused = true, false
		if h.process != nil {
			h.process.kill(errCrashed)
		}
	})
}

// Restart starts the next incarnation of a host that is down, and the goroutines
// that Boot gave it.
func (b *Bubble) Restart(host string) {
	h := b.host(host)
	b.act(func() {
		if h.process != nil {
			return
		}
		h.dark = false
		h.start()
		for _, boot := range h.boots {
			h.process.bear(boot.name, boot.fn, make(chan struct{}))
		}
		b.refresh()
	})
}

// Pause holds up, until Resume, all that arrives at a host or leaves it, and whoever
// of its goroutines waits for a turn. A goroutine that waits in any other way, by a
// timer of its own for example, goes on, and Go starts new ones: the runtime has no
// means to stop them.
func (b *Bubble) Pause(host string) {
	h := b.host(host)
	b.act(func() { h.paused = h.process != nil })
}

// Resume lets what was held up happen now, in the order in which it was due.
func (b *Bubble) Resume(host string) {
	h := b.host(host)
	b.act(func() {
		late := h.late
		h.paused, h.late = false, nil
		for i, ev := range late {
			b.gate.at(b.gate.now()+time.Duration(i), ev)
		}
		b.refresh()
	})
}

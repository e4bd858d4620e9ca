package bubble

import "time"

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
	cuts int
}

// cut is one fault's set of severed directions.
type cut struct{ pairs [][2]int }

func (b *Bubble) grow() {
	n := len(b.hosts)
	for len(b.paths) < n {
		b.paths = append(b.paths, nil)
	}
	for i := range b.paths {
		for len(b.paths[i]) < n {
			b.paths[i] = append(b.paths[i], path{link: b.link})
		}
	}
}

// open tells whether anything gets from one host to another.
func (b *Bubble) open(from, to *Host) bool {
	return !from.dark && !to.dark && b.paths[from.index][to.index].cuts == 0
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

func (b *Bubble) sever(pairs [][2]int) {
	for _, p := range pairs {
		b.paths[p[0]][p[1]].cuts++
	}
	b.cuts = append(b.cuts, &cut{pairs})
}

// Partition splits the hosts into groups that hear nothing of each other. Hosts
// that no group names are one more group. It comes on top of other cuts; Heal ends
// them all.
//
//	b.Partition([]string{"a"}, []string{"b", "c"})
func (b *Bubble) Partition(groups ...[]string) {
	b.act(func() {
		group := make([]int, len(b.hosts))
		for i, g := range groups {
			for _, name := range g {
				group[b.host(name).index] = i + 1
			}
		}
		var pairs [][2]int
		for i := 1; i < len(group); i++ {
			for j := 1; j < len(group); j++ {
				if group[i] != group[j] {
					pairs = append(pairs, [2]int{i, j})
				}
			}
		}
		b.sever(pairs)
	})
}

// PartitionOneWay lets nothing through from the hosts of one list to those of the
// other, while the way back stays as it is.
func (b *Bubble) PartitionOneWay(from, to []string) {
	b.act(func() {
		var pairs [][2]int
		for _, x := range from {
			for _, y := range to {
				if x != y {
					pairs = append(pairs, [2]int{b.host(x).index, b.host(y).index})
				}
			}
		}
		b.sever(pairs)
	})
}

// Isolate cuts a host off from all others.
func (b *Bubble) Isolate(host string) { b.Partition([]string{host}) }

// Heal ends all cuts.
func (b *Bubble) Heal() {
	b.act(func() {
		for _, c := range b.cuts {
			for _, p := range c.pairs {
				b.paths[p[0]][p[1]].cuts--
			}
		}
		b.cuts = nil
		b.refresh()
	})
}

// Reachable tells whether bytes get from one host to another.
func (b *Bubble) Reachable(from, to string) bool { return b.open(b.host(from), b.host(to)) }

// SetLink changes what the links between two hosts are like, both ways.
func (b *Bubble) SetLink(x, y string, l Link) {
	b.act(func() {
		i, j := b.host(x).index, b.host(y).index
		b.paths[i][j].link, b.paths[j][i].link = &l, &l
	})
}

// SetLinks changes what all links are like.
func (b *Bubble) SetLinks(l Link) {
	b.act(func() {
		*b.link = l
		for i := range b.paths {
			for j := range b.paths[i] {
				b.paths[i][j].link = b.link
			}
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
// timer of its own for example, goes on: the runtime has no means to stop it.
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

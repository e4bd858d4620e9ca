package simulate

import (
	"strings"
	"time"
)

// Link is what the way from one host to another is like. With Loss, Duplicate and
// Reorder all zero it is a TCP connection: while it lasts, frames of one class
// arrive once, in order, and those sent into a short cut arrive after it. With any
// of them it is harsher than any real one.
type Link struct {
	Latency   time.Duration // the least; zero means 200 µs
	Jitter    time.Duration // the mean of what comes on top, roughly exponential
	Loss      int64         // of a million frames
	Duplicate int64         // of a million frames
	Reorder   int64         // of a million frames, which are late by up to some milliseconds
	Bandwidth int64         // bytes per second; zero means no limit
}

func (l Link) harsh() bool { return l.Loss > 0 || l.Duplicate > 0 || l.Reorder > 0 }

// path is the way from one host to another, in that direction.
type path struct {
	link *Link
	cuts int // faults that cut it
}

// grow makes room for n hosts.
func (n *network) grow(hosts int) {
	for i := range n.paths {
		for len(n.paths[i]) < hosts {
			n.paths[i] = append(n.paths[i], path{link: n.link})
		}
	}
	for len(n.paths) < hosts {
		row := make([]path, hosts)
		for i := range row {
			row[i].link = n.link
		}
		n.paths = append(n.paths, row)
	}
}

// open tells whether anything gets from one host to another.
func (n *network) open(from, to *Host) bool {
	return from == to && !from.dark || n.paths[from.index][to.index].cuts == 0 && !from.dark && !to.dark
}

// latency draws how long size bytes take.
func (n *network) latency(from, to *Host, size int) time.Duration {
	l := n.paths[from.index][to.index].link
	d := l.Latency
	if d == 0 {
		d = 200 * time.Microsecond
	}
	if from == to {
		d = 20 * time.Microsecond
	}
	d += n.delays.exponential(l.Jitter)
	if l.Bandwidth > 0 {
		d += time.Duration(int64(size) * int64(time.Second) / l.Bandwidth)
	}
	return d
}

// cut is one fault's set of severed directions.
type cut struct {
	pairs [][2]int
	over  bool
	fault int // the moment at which it began
}

// sever cuts the directions given.
func (n *network) sever(pairs [][2]int, fault int) *cut {
	c := &cut{pairs: pairs, fault: fault}
	for _, p := range pairs {
		n.paths[p[0]][p[1]].cuts++
	}
	n.cuts = append(n.cuts, c)
	n.refresh()
	return c
}

// mend ends one cut.
func (n *network) mend(c *cut) {
	if c.over {
		return
	}
	c.over = true
	n.world.ended(c.fault, lab, "the partition ends")
	for _, p := range c.pairs {
		n.paths[p[0]][p[1]].cuts--
	}
	for i := range n.cuts {
		if n.cuts[i] == c {
			n.cuts = append(n.cuts[:i], n.cuts[i+1:]...)
			break
		}
	}
	n.refresh()
}

// Partition splits the hosts into groups that hear nothing of each other. Hosts
// that no group names are one more group. It comes on top of other cuts; Heal
// ends them all.
//
//	w.Partition([]string{"a"}, []string{"b", "c"})
func (w *World) Partition(groups ...[]string) { w.partition(groups...) }

func (w *World) partition(groups ...[]string) *cut {
	group := make([]int, len(w.hosts))
	var names []string
	for i, g := range groups {
		for _, name := range g {
			group[w.named(name).index] = i + 1
		}
		names = append(names, strings.Join(g, " "))
	}
	fault := w.fault(lab, "partition %s", strings.Join(names, " | "))
	var pairs [][2]int
	for i := 1; i < len(w.hosts); i++ {
		for j := 1; j < len(w.hosts); j++ {
			if group[i] != group[j] {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	return w.net.sever(pairs, fault)
}

// PartitionOneWay lets nothing through from the hosts of one list to those of the
// other, while the way back stays as it is.
func (w *World) PartitionOneWay(from, to []string) { w.partitionOneWay(from, to) }

func (w *World) partitionOneWay(from, to []string) *cut {
	fault := w.fault(lab, "partition one way: %s -> %s", strings.Join(from, " "), strings.Join(to, " "))
	var pairs [][2]int
	for _, a := range from {
		for _, b := range to {
			if a != b {
				pairs = append(pairs, [2]int{w.named(a).index, w.named(b).index})
			}
		}
	}
	return w.net.sever(pairs, fault)
}

// Isolate cuts a host off from all others.
func (w *World) Isolate(host string) { w.partition([]string{host}) }

// Heal ends all cuts.
func (w *World) Heal() {
	for len(w.net.cuts) > 0 {
		w.net.mend(w.net.cuts[0])
	}
}

// Reachable tells whether frames get from one host to another.
func (w *World) Reachable(from, to string) bool { return w.net.open(w.named(from), w.named(to)) }

// SetLink changes what the links between two hosts are like, both ways.
func (w *World) SetLink(a, b string, l Link) {
	i, j := w.named(a).index, w.named(b).index
	w.net.paths[i][j].link, w.net.paths[j][i].link = &l, &l
}

// SetLinks changes what all links are like.
func (w *World) SetLinks(l Link) {
	*w.net.link = l
	for i := range w.net.paths {
		for j := range w.net.paths[i] {
			w.net.paths[i][j].link = w.net.link
		}
	}
}

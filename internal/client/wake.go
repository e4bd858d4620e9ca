package client

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// A Tick comes to those leases alone for which something is due: there may be thousands, of as many guests.

// wake is the time at which a Tick is to come to a lease. It counts if the lease has not been woken since, nor is due earlier.
type wake struct {
	at    time.Duration
	lease *lease
}

// wakes is a heap, the earliest first.
type wakes []wake

func (w wakes) Len() int { return len(w) }
func (w wakes) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(w[i].at, w[j].at), cmp.Compare(w[i].lease.id.Number, w[j].lease.id.Number)) < 0
}
func (w wakes) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *wakes) Push(x any)   { *w = append(*w, x.(wake)) }
func (w *wakes) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last] = wake{}
	*w = (*w)[:last]
	return x
}

// wakeAt sees to it that a Tick comes to the lease at a time.
func (l *lease) wakeAt(t time.Duration) {
	if t < l.due {
		l.due = t
		heap.Push(&l.client.wakes, wake{t, l})
	}
}

// tickLeases does what is due for the leases.
func (c *Client) tickLeases() {
	var due []*lease
	for len(c.wakes) > 0 && c.wakes[0].at <= c.now {
		if w := heap.Pop(&c.wakes).(wake); w.lease.due == w.at {
			w.lease.due = env.Never
			due = append(due, w.lease)
		}
	}
	for _, l := range due {
		if l.kept() {
			l.tick()
		}
	}
}

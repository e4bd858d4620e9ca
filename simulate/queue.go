package simulate

import "time"

// eventKind says what an event does when its time comes. The order is part of
// the trace: append only.
type eventKind uint8

const (
	callEvent    eventKind = iota + 1 // run fn
	loopEvent                         // run a loop
	actorEvent                        // resume an actor
	contextEvent                      // a context's deadline
	frameEvent                        // a frame arrives
	silenceEvent                      // one end of a connection has heard nothing for too long
)

// An event is something that will happen. Loops, actors and contexts each own
// one and move it about; frames are taken from a free list.
type event struct {
	kind  eventKind
	at    time.Duration // true time
	seq   uint64        // order among equals
	slot  int           // index in the heap, or one of the constants below
	due   int           // the latest moment that brought it about; 0: none is known
	owner *process      // happens only while this one lives and is not paused; nil: always

	fn      func()
	loop    *loop
	actor   *actor
	context *simContext
	frame   *frame
	conn    *conn
	side    int
}

const (
	idle     = -1 // not scheduled
	deferred = -2 // due, and waiting for its paused host to go on
)

// entry keeps the order's keys beside the pointer, so that comparing does not
// follow it.
type entry struct {
	at  time.Duration
	seq uint64
	ev  *event
}

func (a entry) before(b entry) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// queue is a heap of events with four children per node, ordered by (at, seq).
type queue struct {
	heap []entry
}

func (q *queue) push(ev *event) {
	q.heap = append(q.heap, entry{})
	q.up(len(q.heap)-1, entry{ev.at, ev.seq, ev})
}

// fix restores the order after ev.at and ev.seq changed.
func (q *queue) fix(ev *event) {
	e := entry{ev.at, ev.seq, ev}
	if i := ev.slot; i > 0 && e.before(q.heap[(i-1)/4]) {
		q.up(i, e)
	} else {
		q.down(i, e)
	}
}

func (q *queue) pop() *event {
	ev := q.heap[0].ev
	q.remove(ev)
	return ev
}

func (q *queue) remove(ev *event) {
	i, last := ev.slot, len(q.heap)-1
	ev.slot = idle
	moved := q.heap[last]
	q.heap[last] = entry{}
	q.heap = q.heap[:last]
	if i == last {
		return
	}
	if i > 0 && moved.before(q.heap[(i-1)/4]) {
		q.up(i, moved)
	} else {
		q.down(i, moved)
	}
}

func (q *queue) up(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(q.heap[parent]) {
			break
		}
		q.put(i, q.heap[parent])
		i = parent
	}
	q.put(i, e)
}

func (q *queue) down(i int, e entry) {
	for {
		first := 4*i + 1
		if first >= len(q.heap) {
			break
		}
		best := first
		for c := first + 1; c < min(first+4, len(q.heap)); c++ {
			if q.heap[c].before(q.heap[best]) {
				best = c
			}
		}
		if !q.heap[best].before(e) {
			break
		}
		q.put(i, q.heap[best])
		i = best
	}
	q.put(i, e)
}

func (q *queue) put(i int, e entry) {
	q.heap[i] = e
	e.ev.slot = i
}

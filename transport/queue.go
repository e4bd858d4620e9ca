package transport

import "sync"

// The limits of each of a connection's two queues. What waits longer than a
// round trip waits because the peer or the path is slow, and then it is better
// that the sender knows: 4096 frames are about 10 ms of the smallest frames at
// full speed, and 8 MiB hold what is on its way of eight snapshots while they
// bound what one stuck peer can cost.
const (
	maxQueuedFrames = 4096
	maxQueuedBytes  = 8 << 20
)

// batchBytes is when a batch is full. It bounds how long an urgent frame waits for
// normal ones that were taken before it; more per system call gains little.
const batchBytes = 64 << 10

// outgoing is a frame on its way out.
type outgoing struct {
	kind Kind
	body []byte
}

// queue holds what one connection has to send: two FIFOs, urgent frames first.
// Any goroutine may push; one takes.
type queue struct {
	mu     sync.Mutex
	more   sync.Cond
	fifos  [2]fifo // by Class
	idle   bool    // the taker waits
	closed bool    // nothing more comes in
	last   bool    // a goodbye is to follow what is left
}

// fifo is a queue in a slice, reused from the start when it runs empty.
type fifo struct {
	frames []outgoing
	head   int
	bytes  int
}

func (q *queue) init() { q.more.L = &q.mu }

// push adds a frame, unless the queue of its class is full or closed.
func (q *queue) push(class Class, f outgoing) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := &q.fifos[class]
	if q.closed || len(l.frames)-l.head >= maxQueuedFrames || l.bytes+len(f.body) > maxQueuedBytes {
		return false
	}
	if l.head > 0 && len(l.frames) == cap(l.frames) {
		n := copy(l.frames, l.frames[l.head:])
		clear(l.frames[n:])
		l.frames, l.head = l.frames[:n], 0
	}
	l.frames = append(l.frames, f)
	l.bytes += len(f.body)
	if q.idle {
		q.idle = false
		q.more.Signal()
	}
	return true
}

// take appends the next batch to batch, and waits only if there is nothing at
// all. It returns false when nothing will come any more.
func (q *queue) take(batch []outgoing) ([]outgoing, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.empty() && !q.closed {
		q.idle = true
		q.more.Wait()
	}
	room := batchBytes
	for i := range q.fifos {
		batch = q.fifos[i].take(batch, &room)
	}
	if q.last && q.empty() {
		q.last = false
		batch = append(batch, outgoing{kind: kindGoodbye})
	}
	return batch, len(batch) > 0
}

func (q *queue) empty() bool {
	return q.fifos[Urgent].head == len(q.fifos[Urgent].frames) && q.fifos[Normal].head == len(q.fifos[Normal].frames)
}

// take moves frames to batch while there is room. The last one may exceed it.
func (l *fifo) take(batch []outgoing, room *int) []outgoing {
	for ; l.head < len(l.frames) && *room > 0; l.head++ {
		f := &l.frames[l.head]
		*room -= frameOverhead + len(f.body)
		l.bytes -= len(f.body)
		batch = append(batch, *f)
		*f = outgoing{}
	}
	if l.head == len(l.frames) {
		l.frames, l.head = l.frames[:0], 0
	}
	return batch
}

// finish lets no more in, and has a goodbye follow what is there.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed, q.last = true, true
		q.wakeLocked()
	}
}

// close drops everything.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.last = true, false
	q.fifos = [2]fifo{}
	q.wakeLocked()
}

func (q *queue) wakeLocked() {
	q.idle = false
	q.more.Signal()
}

package transport

import "sync"

// The limits of each of a connection's two queues. A frame that waits longer than a
// round trip waits because the peer or the path is slow, and then Send should fail, so
// that its caller knows. 4096 frames are about 10 ms of the smallest frames at full
// speed. 8 MiB hold what eight snapshots have in flight, and bound the memory that one
// stuck peer can cost.
const (
	maxQueuedFrames = 4096
	maxQueuedBytes  = 8 << 20
)

// batchBytes is the size from which a batch is full. It bounds how long an urgent frame
// waits for normal ones that were taken before it; larger system calls gain little.
const batchBytes = 64 << 10

// outgoing is a frame on its way out.
type outgoing struct {
	kind Kind
	body []byte
}

// queue holds the frames that one connection has to send: two FIFOs, urgent frames
// first. Any goroutine may push; only the writer takes.
type queue struct {
	mu     sync.Mutex
	more   sync.Cond
	fifos  [2]fifo // by Class
	closed bool    // push adds no more
	last   bool    // a goodbye is to follow the frames that are left
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
	if q.closed || l.len() >= maxQueuedFrames || l.bytes+len(f.body) > maxQueuedBytes {
		return false
	}
	if l.head > 0 && len(l.frames) == cap(l.frames) {
		n := copy(l.frames, l.frames[l.head:])
		clear(l.frames[n:])
		l.frames, l.head = l.frames[:n], 0
	}
	l.frames = append(l.frames, f)
	l.bytes += len(f.body)
	q.more.Signal()
	return true
}

// take removes the next batch from the queue and appends it to batch. It waits only
// while the queue is empty, and returns false once it is empty and closed.
func (q *queue) take(batch []outgoing) ([]outgoing, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.empty() && !q.closed {
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

func (q *queue) empty() bool { return q.fifos[Urgent].len() == 0 && q.fifos[Normal].len() == 0 }

func (l *fifo) len() int { return len(l.frames) - l.head }

// take moves frames to batch while there is room. The last one may exceed the room.
func (l *fifo) take(batch []outgoing, room *int) []outgoing {
	for ; l.head < len(l.frames) && *room > 0; l.head++ {
		f := &l.frames[l.head]
		*room -= frameOverhead + len(f.body)
		l.bytes -= len(f.body)
		batch = append(batch, *f)
		*f = outgoing{}
	}
	if l.len() == 0 {
		l.frames, l.head = l.frames[:0], 0
	}
	return batch
}

// finish closes the queue to new frames, and adds a goodbye behind those in it.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed, q.last = true, true
		q.more.Signal()
	}
}

// close closes the queue and drops its frames.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.last = true, false
	q.fifos = [2]fifo{}
	q.more.Signal()
}

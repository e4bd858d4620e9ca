package transport

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// readBuffer is how many bytes one read from a socket returns at most: dozens of typical
// frames. Only the rest of a frame that is larger is read straight into its body, in reads that
// may return more.
const readBuffer = 32 << 10

// openingBuffer takes the place of readBuffer in a handshake. It is small, since most handshakes end with the pair keeping the connection
// that it already has.
const openingBuffer = 1 << 10

// writeBuffer gathers frames for one system call. A body that does not fit fills the buffer;
// if the rest is larger than the buffer, it is written without being copied.
const writeBuffer = 32 << 10

// conn is one connection. Its peer's goroutine reads from it, and a goroutine of
// its own writes to it.
type conn struct {
	t       *Transport
	raw     net.Conn // the socket
	stream  net.Conn // raw, or TLS over it
	in      *bufio.Reader
	theirs  Hello
	dialled bool    // by this end
	attempt uint64  // the dialler's number for the connection
	verdict verdict // the other end's last one in the handshake

	epoch uint64 // assigned by the deciding end; see tiebreak.go
	began time.Time
	out   queue

	why      atomic.Pointer[error] // why the connection has ended; nil: it has not
	written  chan struct{}         // closed when the writer has ended
	muted    atomic.Bool           // no more frames are delivered
	readLock sync.Mutex            // held by the goroutine that reads

	// For the pulse.
	reading  atomic.Bool // a read from the socket is under way
	didRead  atomic.Bool // bytes were read since the last pulse
	writing  atomic.Bool // the write of a batch is under way
	didWrite atomic.Bool // bytes were written since the last pulse
	silent   int         // consecutive pulses without a byte read; used by the pulse only
	stuck    int         // consecutive pulses within one batch; used by the pulse only
}

func (t *Transport) newConn(raw net.Conn, dialled bool) *conn {
	c := &conn{
		t: t, raw: raw, stream: raw, dialled: dialled,
		written: make(chan struct{}),
	}
	c.out.init()
	c.in = bufio.NewReaderSize(c, openingBuffer)
	if !t.conns.enter(c) {
		c.close(errClosed)
	}
	return c
}

// Read reads from the stream for c.in, and records for the pulse that it does.
func (c *conn) Read(b []byte) (int, error) {
	c.reading.Store(true)
	n, err := c.stream.Read(b)
	if n > 0 {
		c.didRead.Store(true)
	}
	c.reading.Store(false)
	return n, err
}

// receive delivers frames until the connection ends, and returns the reason.
func (c *conn) receive(h Handler) error {
	c.readLock.Lock()
	defer c.readLock.Unlock()
	early, _ := c.in.Peek(c.in.Buffered()) // came with the handshake
	c.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(early), c), readBuffer)
	id := c.theirs.ID
	for {
		if c.muted.Load() {
			return errLeaving
		}
		kind, body, err := readFrame(c.in, MaxFrame)
		switch {
		case err != nil:
			return err
		case kind < kindReserved:
			if c.muted.Load() {
				return errLeaving
			}
			h.Receive(id, kind, body)
		case kind == kindGoodbye:
			return errGoodbye
		}
		// Pings need no answer. Other kinds in this range belong to later versions.
	}
}

// write sends the queued frames until the connection ends.
func (c *conn) write() {
	defer close(c.written)
	w := bufio.NewWriterSize(c.stream, writeBuffer)
	var batch []outgoing
	var header []byte
	for {
		var ok bool
		if batch, ok = c.out.take(batch[:0]); !ok {
			return
		}
		c.writing.Store(true)
		for _, f := range batch {
			header = appendFrameHeader(header[:0], f.kind, f.body)
			w.Write(header)
			w.Write(f.body)
		}
		err := w.Flush() // or the first error of Write
		c.writing.Store(false)
		if err != nil {
			// The reader then finds the socket closed, unless it fails first.
			c.shut(err)
			return
		}
		clear(batch)
		c.didWrite.Store(true)
	}
}

// shut ends the connection without a goodbye.
func (c *conn) shut(why error) {
	c.t.conns.leave(c)
	c.close(why)
}

// close is shut for a connection that Close has taken.
func (c *conn) close(why error) {
	c.why.CompareAndSwap(nil, &why)
	c.out.close()
	c.raw.Close()
}

// afterEnd calls fn on a goroutine of its own once ctx has ended, unless stop is called first: stop
// reports that. It waits for fn if it came too late, so that no goroutine outlives Close.
func afterEnd(ctx context.Context, fn func()) (stop func() bool) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		fn()
	})
	return sync.OnceValue(func() bool {
		if cancel() {
			return true
		}
		<-done
		return false
	})
}

// ended reports whether shut or Close ended the connection.
func (c *conn) ended() bool { return c.why.Load() != nil }

// cause returns why the connection ended, which it has: the first reason counts.
func (c *conn) cause() error { return *c.why.Load() }

// leave starts to end the connection with a goodbye; linger completes it.
func (c *conn) leave() {
	c.muted.Store(true)
	c.t.conns.leave(c) // Close must not cut the goodbye short
	now := time.Now()
	c.raw.SetWriteDeadline(now.Add(c.t.timing.leave))
	c.raw.SetReadDeadline(now) // wakes the reader
	c.out.finish()
}

// linger waits until the goodbye has been sent, and then for the peer to close: closing
// a socket with unread bytes resets the connection, which may discard data in flight.
func (c *conn) linger() {
	t := c.t
	stop := afterEnd(t.ctx, func() { c.raw.SetDeadline(time.Now().Add(t.timing.grace)) })
	defer stop()
	defer c.shut(errLeaving)
	<-c.written
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	c.readLock.Lock()
	defer c.readLock.Unlock()
	c.raw.SetReadDeadline(time.Now().Add(t.timing.leave))
	if t.ctx.Err() == nil {
		io.Copy(io.Discard, c.raw)
	}
}

// beat checks the connection at each pulse: it shuts a silent or stuck one, and pings
// on an idle one.
func (c *conn) beat() {
	switch {
	case c.didRead.Swap(false), !c.reading.Load():
		c.silent = 0 // a reader that is busy elsewhere is not the peer's fault
	default:
		c.silent++
	}
	wrote, writing := c.didWrite.Swap(false), c.writing.Load()
	switch {
	case wrote || !writing:
		c.stuck = 0
	default:
		c.stuck++
	}
	switch {
	case c.silent >= c.t.timing.silence:
		c.shut(errSilent)
	case c.stuck >= c.t.timing.stuck:
		c.shut(errStuck)
	case !wrote && !writing:
		c.out.push(Urgent, outgoing{kind: kindPing})
	}
}

package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// readBuffer is how much one read from a socket may bring: dozens of usual
// frames. A larger frame is read straight into its body.
const readBuffer = 32 << 10

// copyLimit is the size up to which a body is copied into the write buffer.
// Beyond, an entry of writev costs less than the copy.
const copyLimit = 8 << 10

// conn is one connection. Its peer's goroutine reads, a goroutine of its own
// writes.
type conn struct {
	t       *Transport
	raw     net.Conn // the socket
	stream  net.Conn // raw, or TLS over it
	in      *bufio.Reader
	theirs  Hello
	dialled bool    // by us
	attempt uint64  // the dialler's number for it
	claim   verdict // what the other end said last in the handshake

	epoch uint64 // given by the end that decides; see settle.go
	began time.Time
	out   queue

	announced chan struct{} // closed when Up was reported, by this connection or an earlier one
	over      chan struct{} // closed by shut
	written   chan struct{} // closed when the writer has ended
	once      sync.Once
	err       error       // why shut was called; read after over
	muted     atomic.Bool // deliver nothing any more
	readLock  sync.Mutex  // who reads

	// For the pulse.
	reading atomic.Bool // in a system call
	heard   atomic.Bool // something was read
	writing atomic.Bool // in a system call
	wrote   atomic.Bool // something was written
	silent  int         // pulses; the pulse's own, like stuck
	stuck   int
}

func (t *Transport) newConn(raw net.Conn, dialled bool) *conn {
	c := &conn{
		t: t, raw: raw, stream: raw, dialled: dialled,
		announced: make(chan struct{}), over: make(chan struct{}), written: make(chan struct{}),
	}
	c.out.init()
	c.in = bufio.NewReaderSize(c, readBuffer)
	return c
}

// Read reads from the stream for c.in, and lets the pulse see that.
func (c *conn) Read(b []byte) (int, error) {
	c.reading.Store(true)
	n, err := c.stream.Read(b)
	if n > 0 {
		c.heard.Store(true)
	}
	c.reading.Store(false)
	return n, err
}

// receive delivers frames until the connection ends, and says why it did.
func (c *conn) receive(h Handler) error {
	c.readLock.Lock()
	defer c.readLock.Unlock()
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
		// Pings need no answer; what else may come in this range belongs to
		// versions to come.
	}
}

// write sends what is queued until the connection ends.
func (c *conn) write() {
	defer close(c.written)
	small := copyLimit
	if c.stream != c.raw {
		small = batchBytes // TLS copies anyway, and writes each piece on its own
	}
	var (
		batch  []outgoing
		buf    []byte
		pieces [][]byte
		vector net.Buffers
	)
	for {
		var ok bool
		if batch, ok = c.out.take(batch[:0]); !ok {
			return
		}
		buf, pieces = buf[:0], pieces[:0]
		start := 0
		for i, f := range batch {
			buf = appendFrameHeader(buf, f.kind, f.body)
			if len(f.body) <= small {
				buf = append(buf, f.body...)
			} else {
				// If buf grows later, this piece keeps its old and unchanged array.
				pieces = append(pieces, buf[start:len(buf):len(buf)], f.body)
				start = len(buf)
			}
			batch[i] = outgoing{}
		}
		c.writing.Store(true)
		var err error
		if len(pieces) == 0 {
			_, err = c.stream.Write(buf)
		} else {
			if start < len(buf) {
				pieces = append(pieces, buf[start:])
			}
			vector = pieces
			_, err = vector.WriteTo(c.stream)
			clear(pieces)
		}
		c.writing.Store(false)
		if err != nil {
			// The reader finds the socket closed, unless it has news of its own.
			c.shut(err)
			return
		}
		c.wrote.Store(true)
	}
}

// shut ends the connection without a word.
func (c *conn) shut(why error) {
	c.once.Do(func() {
		c.err = why
		close(c.over)
		c.out.close()
		c.raw.Close()
		c.t.sockets.remove(c.raw)
	})
}

// ended tells whether shut was called.
func (c *conn) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// leave begins to end the connection with a goodbye, which linger completes.
func (c *conn) leave() {
	c.muted.Store(true)
	// Close may not cut a goodbye short, so it does not close this socket.
	c.t.sockets.remove(c.raw)
	now := time.Now()
	c.raw.SetWriteDeadline(now.Add(c.t.timing.leave))
	c.raw.SetReadDeadline(now) // wakes the reader
	c.out.finish()
}

// linger waits until the goodbye has gone out, and for the peer to close, since a
// socket that is closed with bytes unread resets the connection and may destroy
// what is on its way.
func (c *conn) linger() {
	t := c.t
	stop := context.AfterFunc(t.ctx, func() { c.raw.SetDeadline(time.Now().Add(t.timing.grace)) })
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

// beat is the pulse's look at the connection.
func (c *conn) beat() {
	switch {
	case c.heard.Swap(false), !c.reading.Load():
		c.silent = 0 // if the reader is busy elsewhere, that is not the peer's fault
	default:
		c.silent++
	}
	wrote, writing := c.wrote.Swap(false), c.writing.Load()
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

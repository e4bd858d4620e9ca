package gossip

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// window is the number of bytes of a stream that one end may send before the other has
// read them. It is a constant, so it needs no handshake.
const window = 64 << 10

var errGap = errors.New("gossip: a stream has lost frames")

// stream is a net.Conn whose bytes travel in frames. The frames keep their order while
// the connection below lasts. If that is replaced some may be missing; the offsets show
// it, and the stream breaks.
type stream struct {
	mux *mux
	key streamKey

	mu       sync.Mutex
	change   sync.Cond // something below has changed
	in       []byte    // received, not read yet
	received uint64    // bytes in total
	granted  uint64    // the offset up to which the other end may send
	sent     uint64    // bytes in total
	allowed  uint64    // the offset up to which this end may send
	eof      bool      // the other end has closed
	err      error     // why this end has ended; nil: it has not

	readBy, writeBy deadline
}

// deadline wakes the waiting goroutines when it has passed.
type deadline struct {
	at    time.Time // zero: none
	timer *time.Timer
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) set(at time.Time, wake func()) {
	d.stop()
	d.at = at
	if !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), wake)
	}
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

var _ net.Conn = (*stream)(nil)

func newStream(m *mux, key streamKey) *stream {
	s := &stream{mux: m, key: key, granted: window, allowed: window}
	s.change.L = &s.mu
	return s
}

func (s *stream) send(f frame) bool {
	f.Stream, f.Opener = s.key.number, s.key.ours
	return s.mux.send(s.key.peer, f)
}

// receive processes a frame of this stream.
func (s *stream) receive(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.eof {
		return
	}
	switch f.Kind {
	case frameData:
		if f.Offset != s.received || s.received+uint64(len(f.Data)) > s.granted {
			s.send(frame{Kind: frameClose})
			s.end(errGap)
			return
		}
		s.in = append(s.in, f.Data...)
		s.received += uint64(len(f.Data))
	case frameWindow:
		s.allowed = max(s.allowed, min(f.Offset, s.sent+window))
	case frameClose:
		s.eof = true
		s.mux.forget(s.key)
	}
	s.change.Broadcast()
}

// end is called with the lock held.
func (s *stream) end(err error) {
	if s.err == nil {
		s.err = err
		s.readBy.stop()
		s.writeBy.stop()
		s.mux.forget(s.key)
		s.change.Broadcast()
	}
}

// fail ends the stream without informing the other end.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(err)
}

// Read implements net.Conn.
func (s *stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.err != nil:
			return 0, s.err
		case s.readBy.over():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case len(s.in) > 0:
			n := copy(b, s.in)
			s.in = s.in[n:]
			s.grant()
			return n, nil
		case s.eof:
			return 0, io.EOF
		}
		s.change.Wait()
	}
}

// grant lets the other end send more once half of the window was read.
func (s *stream) grant() {
	if next := s.received - uint64(len(s.in)) + window; !s.eof && next >= s.granted+window/2 {
		s.granted = next
		s.send(frame{Kind: frameWindow, Offset: next})
	}
}

// Write implements net.Conn. Only one goroutine may write.
func (s *stream) Write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.err != nil:
			return n, s.err
		case s.eof:
			return n, io.ErrClosedPipe
		case s.writeBy.over():
			return n, os.ErrDeadlineExceeded
		case n == len(b):
			return n, nil
		case s.sent < s.allowed:
			part := b[n:min(len(b), n+min(maxData, int(s.allowed-s.sent)))]
			if !s.send(frame{Kind: frameData, Offset: s.sent, Data: part}) {
				s.end(net.ErrClosed)
				return n, s.err
			}
			s.sent += uint64(len(part))
			n += len(part)
			continue
		}
		s.change.Wait()
	}
}

// Close implements net.Conn. Bytes written before still arrive.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.eof {
		s.send(frame{Kind: frameClose})
	}
	s.end(net.ErrClosed)
	return nil
}

// LocalAddr implements net.Conn.
func (s *stream) LocalAddr() net.Addr { return address(s.mux.self) }

// RemoteAddr implements net.Conn.
func (s *stream) RemoteAddr() net.Addr { return address(s.key.peer) }

// SetDeadline implements net.Conn.
func (s *stream) SetDeadline(t time.Time) error { return s.setDeadlines(t, &s.readBy, &s.writeBy) }

// SetReadDeadline implements net.Conn.
func (s *stream) SetReadDeadline(t time.Time) error { return s.setDeadlines(t, &s.readBy) }

// SetWriteDeadline implements net.Conn.
func (s *stream) SetWriteDeadline(t time.Time) error { return s.setDeadlines(t, &s.writeBy) }

func (s *stream) setDeadlines(t time.Time, which ...*deadline) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	for _, d := range which {
		d.set(t, s.wake)
	}
	s.change.Broadcast()
	return nil
}

func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change.Broadcast()
}

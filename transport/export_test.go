package transport

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// For the tests in package transport_test.

// ListenFast is Listen with short times, for tests that wait for them to pass.
func ListenFast(cfg Config, h Handler) (*Transport, error) {
	t := defaultTiming()
	t.probe = 500 * time.Millisecond
	t.pulse = 100 * time.Millisecond
	t.stuck = 1000
	t.maxWait = 200 * time.Millisecond
	return listen(cfg, h, t)
}

// ListenPatient is Listen with a longer limit for a redial, so that no peer counts as
// lost on a machine that is busy with other work.
func ListenPatient(cfg Config, h Handler) (*Transport, error) {
	t := defaultTiming()
	t.dial = 20 * time.Second
	t.handshake = 20 * time.Second
	t.probe = 20 * time.Second
	t.silence = 30
	return listen(cfg, h, t)
}

// BoundAddr is the address at which t listens; Addr may differ.
func (t *Transport) BoundAddr() string {
	if t.listener == nil {
		return ""
	}
	return t.listener.Addr().String()
}

// CountedSockets are TCP sockets, which count those that are open.
type CountedSockets struct {
	tcp
	open   atomic.Int64
	writes atomic.Pointer[atomic.Int64] // to the sockets that are opened now
}

// CountWrites begins to count the writes to sockets that are opened from now on.
func (s *CountedSockets) CountWrites() (count *atomic.Int64) {
	count = new(atomic.Int64)
	s.writes.Store(count)
	return count
}

// Count returns how many sockets are open, those in a handshake included.
func (s *CountedSockets) Count() int { return int(s.open.Load()) }

// Listen implements Sockets.
func (s *CountedSockets) Listen(addr string) (net.Listener, error) {
	l, err := s.tcp.Listen(addr)
	if err != nil {
		return nil, err
	}
	return countedListener{l, s}, nil
}

// Dial implements Sockets.
func (s *CountedSockets) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return s.count(s.tcp.Dial(ctx, addr))
}

func (s *CountedSockets) count(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &countedConn{TCPConn: c.(*net.TCPConn), writes: s.writes.Load(), closed: sync.OnceFunc(func() { s.open.Add(-1) })}, nil
}

type countedListener struct {
	net.Listener
	sockets *CountedSockets
}

func (l countedListener) Accept() (net.Conn, error) { return l.sockets.count(l.Listener.Accept()) }

type countedConn struct {
	*net.TCPConn
	writes *atomic.Int64
	closed func()
}

func (c *countedConn) Write(b []byte) (int, error) {
	if c.writes != nil {
		c.writes.Add(1)
	}
	return c.TCPConn.Write(b)
}

func (c *countedConn) Close() error {
	c.closed()
	return c.TCPConn.Close()
}

// Peers counts the peers that have a goroutine.
func (t *Transport) Peers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.peers)
}

// RawOpening returns what a node with this Hello sends first when it dials.
func RawOpening(h Hello) []byte { return appendOpening(nil, greeting{Hello: h, Attempt: 1}) }

// RawFrame returns a frame, even one that Send would refuse.
func RawFrame(kind Kind, body []byte) []byte { return appendFrame(nil, kind, body) }

// RawVerdict returns a verdict of the deciding dialler, for its first connection.
func RawVerdict(epoch uint64) []byte {
	return RawFrame(kindVerdict, appendVerdict(nil, verdict{Judgement: welcome, Epoch: epoch}))
}

// RawDial connects to addr by hand, as the deciding end: its ID must be the smaller one.
func RawDial(addr string, h Hello) (net.Conn, error) {
	nc, err := RawGreet(addr, h)
	if err == nil {
		_, err = nc.Write(RawVerdict(1))
	}
	return nc, err
}

// RawGreet does what RawDial does, up to the decision.
func RawGreet(addr string, h Hello) (net.Conn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(nc)
	if _, err = nc.Write(RawOpening(h)); err == nil {
		if _, err = readOpening(r); err == nil {
			var v verdict
			if v, err = readVerdict(r); err == nil && v.Judgement != welcome {
				err = fmt.Errorf("refused: %s", v.Reason)
			}
		}
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// RawAnswer answers a dial by hand, as the deciding end, which says that its current connection with the dialler has this
// epoch. It returns whether the dialler then reports, instead of hanging up.
func RawAnswer(nc net.Conn, h Hello, epoch uint64) (reports bool, err error) {
	r := bufio.NewReader(nc)
	if _, err = readOpening(r); err != nil {
		return false, err
	}
	b := appendOpening(nil, greeting{Hello: h})
	if _, err = nc.Write(append(b, RawVerdict(epoch)...)); err != nil {
		return false, err
	}
	if _, err = readVerdict(r); isCut(err) {
		return false, nil
	}
	return err == nil, err
}

// RawFollow performs a handshake by hand, as the following end: its ID must be the larger
// one. attempt is the dial's number; epoch, number and awaited are the fields of its report,
// where awaited are numbers of its own dials. It returns the decision: an epoch, or zero for
// a duplicate.
func RawFollow(addr string, h Hello, attempt, epoch, number uint64, awaited ...uint64) (net.Conn, uint64, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, 0, err
	}
	r := bufio.NewReader(nc)
	report := verdict{Judgement: welcome, Epoch: epoch, Number: number}
	for _, a := range awaited {
		report.Awaited = append(report.Awaited, dial{a, true})
	}
	var v verdict
	if _, err = nc.Write(appendOpening(nil, greeting{Hello: h, Attempt: attempt})); err == nil {
		if _, err = readOpening(r); err == nil {
			if v, err = readVerdict(r); err == nil && v.Judgement == welcome {
				if _, err = nc.Write(RawFrame(kindVerdict, appendVerdict(nil, report))); err == nil {
					v, err = readVerdict(r)
				}
			}
		}
	}
	switch {
	case err == nil && v.Judgement == welcome && v.Epoch > 0:
		return nc, v.Epoch, nil
	case err == nil && v.Judgement != duplicate:
		err = fmt.Errorf("refused: %s", v.Reason)
	}
	nc.Close()
	return nil, 0, err
}

package mesh_test

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/realenv"
)

// BenchmarkLAN measures Lock and LockAll where the network sets the limit, and not, as on loopback, the processors that
// three nodes share: what one machine sends to another arrives 0.25 ms later. A fan-out is a frame to two peers, and both
// answers.
//
//	go test -run '^$' -bench LAN .
func BenchmarkLAN(b *testing.B) {
	const oneWay = 250 * time.Microsecond
	b.Run("FanOut", func(b *testing.B) {
		f := newFanOut(b, 1, newLAN(b, oneWay))
		var took []time.Duration
		for b.Loop() {
			start := time.Now()
			f.round(0)
			took = append(took, time.Since(start))
		}
		reportTimes(b, took)
	})
	over := env.With(context.Background(), realenv.Over(newLAN(b, oneWay), realenv.New(nil).Now, nil))
	nodes := fleetIn(b, over, 3, mesh.WithShards(4))
	remote := remoteKey(b, nodes[0])
	b.Run("Lock", func(b *testing.B) { takes(b, nodes[0].Lock, remote) })
	b.Run("LockAll", func(b *testing.B) { takes(b, nodes[0].LockAll, tenKeys()) })
}

// lan is TCP over loopback on which everything arrives later, by a fixed time. It implements transport.Sockets.
type lan struct {
	oneWay time.Duration
	queue  chan parcel // in the order in which they are due
}

// parcel is what one Write has sent, or the end of what a connection sends.
type parcel struct {
	conn  *net.TCPConn
	bytes []byte
	last  func() error // nil: bytes
	due   time.Time
}

func newLAN(b *testing.B, oneWay time.Duration) *lan {
	n := &lan{oneWay: oneWay, queue: make(chan parcel, 1<<16)}
	var wg sync.WaitGroup
	wg.Go(n.deliver)
	b.Cleanup(func() { // after the nodes have ended
		close(n.queue)
		wg.Wait()
	})
	return n
}

// deliver sends what is due. It sleeps in the kernel: a timer of Go may be a millisecond late in a process that is idle.
func (n *lan) deliver() {
	runtime.LockOSThread() // which ends with this goroutine
	for p := range n.queue {
		if d := time.Until(p.due); d > 0 {
			left := syscall.NsecToTimespec(d.Nanoseconds())
			_ = syscall.Nanosleep(&left, nil) // interrupted: a little early
		}
		if p.last != nil {
			_ = p.last()
			continue
		}
		_, _ = p.conn.Write(p.bytes) // an error is the reader's to find
	}
}

// Listen implements transport.Sockets.
func (n *lan) Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return lanListener{l, n}, nil
}

// Dial implements transport.Sockets.
func (n *lan) Dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return lanConn{c.(*net.TCPConn), n}, nil
}

type lanListener struct {
	net.Listener
	lan *lan
}

// Accept implements net.Listener.
func (l lanListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return lanConn{c.(*net.TCPConn), l.lan}, nil
}

// lanConn is one end of a connection.
type lanConn struct {
	*net.TCPConn
	lan *lan
}

// Write implements net.Conn.
func (c lanConn) Write(b []byte) (int, error) {
	c.lan.queue <- parcel{conn: c.TCPConn, bytes: bytes.Clone(b), due: time.Now().Add(c.lan.oneWay)}
	return len(b), nil
}

// CloseWrite ends what this end sends, after all that it has written.
func (c lanConn) CloseWrite() error { return c.end(c.TCPConn.CloseWrite) }

// Close implements net.Conn. What was written before arrives.
func (c lanConn) Close() error {
	_ = c.SetReadDeadline(time.Unix(1, 0)) // a Read under way ends now
	return c.end(c.TCPConn.Close)
}

func (c lanConn) end(how func() error) error {
	c.lan.queue <- parcel{last: how, due: time.Now().Add(c.lan.oneWay)}
	return nil
}

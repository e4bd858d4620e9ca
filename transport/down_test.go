package transport_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/mesh/transport"
)

func TestAPeerThatIsGoneRefuses(t *testing.T) {
	t.Parallel() // it waits for real time
	for _, tt := range []struct {
		name   string
		dialed bool // the surviving node dialled
		kept   bool // Connect keeps the connection there
		cause  transport.Cause
	}{
		{"the survivor dialled", true, false, transport.Refused},
		{"the survivor was dialled, and keeps it", false, true, transport.Refused},
		{"the survivor was dialled", false, false, transport.Lost}, // nobody dials a client (C1)
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := start(t, 1), start(t, 2)
			if tt.cause == transport.Lost {
				a = startWith(t, transport.ListenFast, 1)
			}
			if tt.dialed {
				a.Dial(b.Addr())
			} else {
				b.Dial(a.Addr())
			}
			if tt.kept {
				a.awaitUp(b.id)
				a.Connect(b.id, b.Addr())
			}
			a.awaitUp(b.id)
			b.awaitUp(a.id)
			begin := time.Now()
			b.Close()
			if cause := a.awaitDown(b.id); cause != tt.cause {
				t.Errorf("cause %d, want %d", cause, tt.cause)
			}
			t.Logf("known after %v", time.Since(begin))
			if b.count(downs) != 0 {
				t.Error("Down at the closed end")
			}
			a.Disconnect(b.id)
			eventually(t, "the peer is forgotten", func() bool { return a.Peers() == 0 && a.open.Count() == 0 })
		})
	}
}

func TestDisconnectSaysGoodbye(t *testing.T) {
	a, b := pair(t)
	for range 100 {
		if !a.Send(b.id, transport.KindShard, transport.Normal, []byte("before")) {
			t.Fatal("Send = false")
		}
	}
	a.Send(b.id, transport.KindShard, transport.Normal, []byte("last"))
	a.Disconnect(b.id)
	if a.Send(b.id, transport.KindShard, transport.Normal, nil) {
		t.Error("Send after Disconnect = true")
	}
	b.awaitFrame("last") // the queued frames arrive
	if cause := b.awaitDown(a.id); cause != transport.Goodbye {
		t.Errorf("cause %d, want Goodbye", cause)
	}
	eventually(t, "nothing is left", func() bool { return a.open.Count()+b.open.Count()+a.Peers()+b.Peers() == 0 })
	if cause := a.awaitDown(b.id); cause != transport.Disconnected || a.count(downs) != 1 {
		t.Errorf("cause %d at this end, %d times Down, want Disconnected once", cause, a.count(downs))
	}
	// And again.
	a.Connect(b.id, b.Addr())
	deliver(a, b, "again")
	if a.count(ups) != 2 || b.count(ups) != 2 {
		t.Errorf("%d and %d times Up, want 2", a.count(ups), b.count(ups))
	}
}

func TestGoodbyesGoOutBeforeClose(t *testing.T) {
	a, b := pair(t)
	a.Disconnect(b.id)
	a.Close()
	if cause := b.awaitDown(a.id); cause != transport.Goodbye {
		t.Errorf("cause %d, want Goodbye", cause)
	}
}

func TestConnectOutlivesARefusal(t *testing.T) {
	a, b := pair(t)
	addr := b.Addr()
	b.Close()
	if cause := a.awaitDown(b.id); cause != transport.Refused {
		t.Errorf("cause %d, want Refused", cause)
	}
	// Here the same ID comes back, which no real node does.
	b = start(t, 2, bindTo(addr))
	b.awaitUp(a.id)
	eventually(t, "up again", func() bool { return a.count(ups) == 2 })
}

func TestABrokenConnectionComesBackWithoutADown(t *testing.T) {
	t.Parallel() // it waits for real time
	pa, pb := startProxy(t, "127.0.0.1:0"), startProxy(t, "127.0.0.1:0")
	a, b := start(t, 1, advertise(pa.addr())), start(t, 2, advertise(pb.addr()))
	pa.aim(a.bound)
	pb.aim(b.bound)
	a.Dial(pb.addr())
	a.awaitUp(b.id)
	b.awaitUp(a.id)
	for round := range 4 {
		pa.cut() // the connection runs over one of the proxies
		pb.cut()
		deliver(a, b, fmt.Sprint("there ", round))
		deliver(b, a, fmt.Sprint("back ", round))
	}
	if n := a.count(downs) + b.count(downs); n != 0 {
		t.Errorf("%d times Down", n)
	}
}

func TestANewIncarnationReplacesTheOld(t *testing.T) {
	pb := startProxy(t, "127.0.0.1:0")
	a := start(t, 1)
	b := start(t, 2, advertise(pb.addr()))
	b2 := start(t, 3, advertise(pb.addr()))
	pb.aim(b.bound)
	a.Connect(b.id, pb.addr())
	a.awaitUp(b.id)
	pb.aim(b2.bound)
	b.Close()
	pb.cut()
	if cause := a.awaitDown(b.id); cause != transport.Replaced {
		t.Errorf("cause %d, want Replaced", cause)
	}
	a.awaitUp(b2.id) // the connection with the new incarnation is kept
	deliver(a, b2, "hello")
}

func TestConnectToAnAddressOfAnotherNode(t *testing.T) {
	a, b := startWith(t, transport.ListenFast, 1), start(t, 2)
	a.Connect(77, b.Addr())
	if cause := a.awaitDown(77); cause != transport.Replaced {
		t.Errorf("cause %d, want Replaced", cause)
	}
	a.awaitUp(b.id)
	a.Connect(78, a.Addr())
	if cause := a.awaitDown(78); cause != transport.Replaced {
		t.Errorf("cause %d, want Replaced by this node itself", cause)
	}
	// A node with the wanted ID starts at last.
	c := start(t, 77)
	a.Connect(c.id, c.Addr())
	a.awaitUp(c.id)
	if n := a.count(func(e event) bool { return e.what == "down" && e.peer == 77 }); n != 1 {
		t.Errorf("%d times Down, want once", n)
	}
}

func TestARefusedIncarnationReplacesToo(t *testing.T) {
	pb := startProxy(t, "127.0.0.1:0")
	a := start(t, 1)
	b := start(t, 2, advertise(pb.addr()))
	b2 := start(t, 3, advertise(pb.addr()), refuseAll("not yours"))
	pb.aim(b.bound)
	a.Connect(b.id, pb.addr())
	a.awaitUp(b.id)
	pb.aim(b2.bound)
	b.Close()
	pb.cut()
	if cause := a.awaitDown(b.id); cause != transport.Replaced {
		t.Errorf("cause %d, want Replaced", cause)
	}
}

func TestAPeerThatDoesNotAnswerIsLost(t *testing.T) {
	t.Parallel() // it waits for real time
	pa, pb := startProxy(t, "127.0.0.1:0"), startProxy(t, "127.0.0.1:0")
	for _, tt := range []struct {
		name string
		cut  func()
	}{
		{"its connection breaks", func() { pa.freeze(); pb.freeze(); pa.cut(); pb.cut() }},
		{"its connection falls silent", func() { pa.freeze(); pb.freeze() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pa, pb = startProxy(t, "127.0.0.1:0"), startProxy(t, "127.0.0.1:0")
			a := startWith(t, transport.ListenFast, 1, advertise(pa.addr()))
			b := startWith(t, transport.ListenFast, 2, advertise(pb.addr()))
			pa.aim(a.bound)
			pb.aim(b.bound)
			a.Connect(b.id, pb.addr())
			a.awaitUp(b.id)
			b.awaitUp(a.id)
			tt.cut()
			if cause := a.awaitDown(b.id); cause != transport.Lost {
				t.Errorf("cause %d, want Lost", cause)
			}
			if cause := b.awaitDown(a.id); cause != transport.Lost {
				t.Errorf("cause %d at the other end, want Lost", cause)
			}
			eventually(t, "the other end forgets", func() bool { return b.Peers() == 0 })
			if a.Peers() != 1 {
				t.Error("the peer that Connect keeps is forgotten")
			}
		})
	}
}

// A listener that accepts a connection and drops it belongs to a process about to end.
func TestADyingListenerRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := start(t, 5)
	h := hello(4)
	h.Addr = l.Addr().String()
	nc, err := transport.RawDial(a.Addr(), h)
	if err != nil {
		t.Fatal(err)
	}
	a.awaitUp(4)
	a.Connect(4, h.Addr)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 {
			if c, err := l.Accept(); err == nil {
				c.Close()
			}
		}
		l.Close()
	}()
	nc.Close()
	if cause := a.awaitDown(4); cause != transport.Refused {
		t.Errorf("cause %d, want Refused", cause)
	}
	<-done
}

// A caller of Disconnect may not know yet of an Up that is just being reported: it still
// gets a Down.
func TestDisconnectDuringUp(t *testing.T) {
	b := start(t, 2)
	reported, proceed := make(chan struct{}), make(chan struct{})
	a := start(t, 1, hook(func(e event) {
		if e.what == "up" {
			close(reported)
			<-proceed
		}
	}))
	a.Connect(b.id, b.Addr())
	<-reported
	a.Disconnect(b.id)
	close(proceed)
	if cause := a.awaitDown(b.id); cause != transport.Disconnected {
		t.Errorf("cause %d, want Disconnected", cause)
	}
	eventually(t, "the peer is forgotten", func() bool { return a.Peers() == 0 && a.open.Count() == 0 })
}

func TestDisconnectDuringARedial(t *testing.T) {
	pb := startProxy(t, "127.0.0.1:0")
	a := start(t, 1)
	b := start(t, 2, advertise(pb.addr()))
	pb.aim(b.bound)
	a.Connect(b.id, pb.addr())
	a.awaitUp(b.id)
	pb.freeze()
	b.Close()
	pb.cut() // a's redial meets silence
	eventually(t, "the connection is gone", func() bool { return !a.Send(b.id, transport.KindShard, transport.Normal, nil) })
	a.Disconnect(b.id)
	eventually(t, "the peer is forgotten", func() bool { return a.Peers() == 0 && a.open.Count() == 0 })
	if cause := a.awaitDown(b.id); cause != transport.Disconnected || a.count(downs) != 1 {
		t.Errorf("cause %d, %d times Down, want Disconnected once", cause, a.count(downs))
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	others := goleak.IgnoreCurrent()
	for range 20 {
		a, b, c := start(t, 1), start(t, 2), start(t, 3)
		quiet, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		a.Connect(b.id, b.Addr())
		a.awaitUp(b.id)
		// Close meets every state: up, dialling, backing off, leaving, in a handshake.
		b.Connect(c.id, c.Addr())
		c.Connect(a.id, a.Addr())
		a.Connect(9, quiet.Addr().String())
		a.Dial(quiet.Addr().String())
		raw, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			a.Send(b.id, transport.KindShard, transport.Normal, make([]byte, 1000))
			b.Send(a.id, transport.KindShard, transport.Normal, make([]byte, 1000))
		}
		b.Disconnect(a.id)
		a.Close()
		b.Close()
		c.Close()
		a.Close() // again
		a.Connect(b.id, b.Addr())
		a.Dial(b.Addr())
		a.Disconnect(b.id)
		if a.Send(b.id, transport.KindShard, transport.Normal, nil) {
			t.Error("Send after Close = true")
		}
		raw.Close()
		quiet.Close()
	}
	goleak.VerifyNone(t, others)
}

// pipes are sockets in memory. Of those that are dialled, the first call of Close returns when free is
// closed, long after the connection has ended.
type pipes struct {
	queue chan net.Conn
	free  chan struct{}
	calls atomic.Int64 // of Close
}

func (p *pipes) Listen(string) (net.Listener, error) { return p, nil }

func (p *pipes) Dial(ctx context.Context, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.queue <- there:
		return &slowConn{here, p}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.queue; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) Close() error {
	close(p.queue)
	return nil
}

type slowConn struct {
	net.Conn
	sockets *pipes
}

func (c *slowConn) Close() error {
	first := c.sockets.calls.Add(1) == 1
	err := c.Conn.Close()
	if first {
		<-c.sockets.free
	}
	return err
}

func TestCloseWaitsForTheSockets(t *testing.T) {
	for name, connect := range map[string]func(a *node, p *pipes){
		"of a connection": func(a *node, p *pipes) {
			b := start(a.t, 2, bindTo("127.0.0.1:1"), over(p))
			a.Connect(b.id, b.Addr())
			a.awaitUp(b.id)
		},
		"of a handshake": func(a *node, p *pipes) {
			a.Dial("127.0.0.1:1")
			<-p.queue // nobody answers
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // of several goroutines that close a socket, any may be the first
				synctest.Test(t, func(t *testing.T) {
					p := &pipes{queue: make(chan net.Conn), free: make(chan struct{})}
					a := start(t, 1, bindTo(""), over(p))
					connect(a, p)
					synctest.Wait()
					var closed atomic.Bool
					go func() {
						a.Close()
						closed.Store(true)
					}()
					synctest.Wait()
					if p.calls.Load() == 0 {
						t.Error("Close does not close the socket")
					}
					if closed.Load() {
						t.Error("Close has returned while the socket was being closed")
					}
					close(p.free)
					synctest.Wait()
					if !closed.Load() {
						t.Error("Close does not return")
					}
				})
			}
		})
	}
}

package transport_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

func foreign(mesh string) setting {
	return func(c *transport.Config, _ *node) {
		c.Hello.MeshName = mesh
		c.Accept = func(h transport.Hello) error {
			if h.MeshName != mesh {
				return errors.New("this is mesh " + mesh + ", not " + h.MeshName)
			}
			return nil
		}
	}
}

func TestForeignMeshesRefuseEachOther(t *testing.T) {
	open := func(c *transport.Config, _ *node) { c.Hello.MeshName = "green" }
	for _, tt := range []struct {
		name           string
		dialler, other setting
		remote         bool
		reason         string
	}{
		{"the accepting end refuses", open, foreign("blue"), true, "this is mesh blue, not green"},
		{"the dialler refuses", foreign("blue"), open, false, "this is mesh blue, not green"},
		{"both do", foreign("green"), foreign("blue"), true, "this is mesh blue, not green"},
	} {
		for _, ids := range [][2]transport.ID{{1, 2}, {2, 1}} {
			t.Run(tt.name, func(t *testing.T) {
				a, b := start(t, ids[0], tt.dialler), start(t, ids[1], tt.other)
				a.Dial(b.Addr())
				e := a.awaitDialed(b.Addr())
				var refusal *transport.RefusedError
				if !errors.As(e.err, &refusal) || refusal.Remote != tt.remote || refusal.Reason != tt.reason || refusal.Peer.ID != b.id || e.hello.ID != b.id {
					t.Fatalf("%s, %+v", e, refusal)
				}
				eventually(t, "nothing is left", func() bool { return a.open.Count()+b.open.Count()+a.Peers()+b.Peers() == 0 })
				eventually(t, "the reason is logged", func() bool { return b.logged(tt.reason) })
				if a.count(ups)+b.count(ups) != 0 {
					t.Error("Up in spite of the refusal")
				}
			})
		}
	}
}

func TestConnectBacksOffFromARefusal(t *testing.T) {
	a, b := startWith(t, transport.ListenFast, 1), start(t, 2, refuseAll("not today"))
	a.Connect(b.id, b.Addr())
	eventually(t, "several tries", func() bool { return strings.Count(b.logText(), "not today") >= 3 })
	if a.count(downs)+a.count(ups) != 0 {
		t.Error("events of a connection that never was")
	}
	a.Disconnect(b.id)
	eventually(t, "the peer is forgotten", func() bool { return a.Peers() == 0 })
}

func TestNodesWithoutACommonVersionRefuseEachOther(t *testing.T) {
	versions := func(low, high uint32) setting {
		return func(c *transport.Config, _ *node) { c.Hello.MinVersion, c.Hello.MaxVersion = low, high }
	}
	for _, tt := range []struct {
		a, b [2]uint32
		ok   bool
	}{
		{[2]uint32{1, 2}, [2]uint32{3, 4}, false},
		{[2]uint32{3, 4}, [2]uint32{1, 2}, false},
		{[2]uint32{1, 2}, [2]uint32{2, 3}, true},
	} {
		a, b := start(t, 1, versions(tt.a[0], tt.a[1])), start(t, 2, versions(tt.b[0], tt.b[1]))
		a.Dial(b.Addr())
		e := a.awaitDialed(b.Addr())
		if tt.ok != (e.err == nil) || e.err != nil && !strings.Contains(e.err.Error(), "no common wire version") {
			t.Errorf("versions %v and %v: %v", tt.a, tt.b, e.err)
		}
	}
}

// A connection that is not from a node is closed at once, and the reason is logged.
func TestConnectionsOfOtherProgramsAreClosed(t *testing.T) {
	good := hello(1)
	zero := hello(0)
	backwards := hello(1)
	backwards.MinVersion = 5
	opening := transport.RawOpening(good)
	change := func(b []byte, at int, c byte) string {
		b = append([]byte(nil), b...)
		b[at] = c
		return string(b)
	}
	for _, tt := range []struct{ name, send, log string }{
		{"an HTTP client", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP client"},
		{"an HTTP/2 client", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP/2 client"},
		{"a Redis client", "PING\r\n", "a Redis client"},
		{"a TLS client", "\x16\x03\x01\x02\x00\x01\x00", "a TLS client"},
		{"an SSH client", "SSH-2.0-OpenSSH\r\n", "an SSH program"},
		{"noise", "\x00\xff\x00", "an unknown protocol that begins with"},
		{"one that begins like a node", "LOCKSMITH", "an unknown protocol that begins with"},
		{"another handshake version", change(opening, 7, 9), "handshake version 9"},
		{"a hello with a wrong CRC", change(opening, 20, 'x'), "CRC"},
		{"a hello that is too long", "LOCKMSH\x01\x00\x10\x00\x00....p", "bytes, want at most"},
		{"a hello without a kind", "LOCKMSH\x01\x00\x00\x00\x00....p", "no kind"},
		{"a hello of another kind", "LOCKMSH\x01" + string(transport.RawFrame(3, []byte("abc"))), "want a hello"},
		{"a hello that is empty", "LOCKMSH\x01" + string(transport.RawFrame(0x70, nil)), "too short"},
		{"a hello that is no array", "LOCKMSH\x01" + string(transport.RawFrame(0x70, []byte{0x80, 1, 2})), "not an array"},
		{"a zero ID", string(transport.RawOpening(zero)), "the node ID is zero"},
		{"a lowest version above the highest", string(transport.RawOpening(backwards)), "is above the highest"},
		{"a frame instead of a verdict", string(opening) + string(transport.RawFrame(0, []byte("early"))), "want a verdict"},
		{"a malformed verdict", string(opening) + string(transport.RawFrame(0x71, []byte("x"))), "malformed verdict"},
		{"a decision without an epoch", string(opening) + string(transport.RawVerdict(0)), "without an epoch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := start(t, 2)
			nc, err := net.Dial("tcp", n.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := io.WriteString(nc, tt.send); err != nil {
				t.Fatal(err)
			}
			nc.SetDeadline(time.Now().Add(patience))
			if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("it was not closed")
			}
			eventually(t, "the reason is logged", func() bool { return n.logged(tt.log) })
			if n.Peers() != 0 || n.count(ups) != 0 {
				t.Error("it became a peer")
			}
		})
	}
}

func TestMalformedFramesCloseTheConnection(t *testing.T) {
	t.Parallel() // it waits for real time
	frame := transport.RawFrame(1, []byte("body"))
	bad := append([]byte(nil), frame...)
	bad[10] ^= 1
	for _, tt := range []struct{ name, send, log string }{
		{"a wrong CRC", string(bad), "CRC"},
		{"a length of zero", "\x00\x00\x00\x00....p", "no kind"},
		{"a length of more than 1 MiB", "\x00\x10\x00\x02....p", "bytes, want at most"},
		{"a length of 4 GiB", "\xff\xff\xff\xff....p", "bytes, want at most"},
		{"a kind above 127", string(transport.RawFrame(0x80, nil)), "kind 0x80"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := start(t, 2)
			nc, err := transport.RawDial(n.Addr(), hello(1))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			n.awaitUp(1)
			io.WriteString(nc, string(frame)+tt.send+string(frame))
			n.awaitFrame("body")
			if cause := n.awaitDown(1); cause != transport.Lost {
				t.Errorf("cause %d, want Lost", cause)
			}
			if !n.logged(tt.log) {
				t.Errorf("the log does not say %q: %s", tt.log, n.logText())
			}
			if got := n.count(func(e event) bool { return e.what == "receive" }); got != 1 {
				t.Errorf("%d frames were delivered, want the first only", got)
			}
		})
	}
}

// A peer of a later version may send new kinds of the range reserved for the transport.
func TestReservedKindsAreIgnored(t *testing.T) {
	n := start(t, 2)
	nc, err := transport.RawDial(n.Addr(), hello(1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.Write(transport.RawFrame(0x7d, []byte("new")))
	nc.Write(transport.RawFrame(1, []byte("known")))
	n.awaitFrame("known")
}

func TestDialOfAnotherProgram(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{"an HTTP server", "HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server"},
		{"a Redis server", "-ERR unknown command\r\n", "a Redis server"},
		{"one that hangs up", "", "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if c, err := l.Accept(); err == nil {
					c.Read(make([]byte, 4096))
					io.WriteString(c, tt.answer)
					c.Close()
				}
			}()
			defer func() { l.Close(); <-done }()
			a := start(t, 1)
			a.Dial(l.Addr().String())
			e := a.awaitDialed(l.Addr().String())
			if e.err == nil || !strings.Contains(e.err.Error(), tt.want) || !strings.Contains(e.err.Error(), l.Addr().String()) {
				t.Errorf("Dialed with %v, want %q and the address", e.err, tt.want)
			}
		})
	}
}

// Many connections that send nothing do not keep a node from connecting.
func TestSilentConnectionsDoNotKeepNodesOut(t *testing.T) {
	b := start(t, 2)
	var crowd []net.Conn
	for range 200 {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd = append(crowd, c)
	}
	crowd[0].SetDeadline(time.Now().Add(patience))
	if _, err := crowd[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading from the oldest: %v, want it closed", err)
	}
	eventually(t, "a limited crowd", func() bool { return b.open.Count() <= 128 })
	eventually(t, "the reason is logged", func() bool { return b.logged("too many connections") })
	a := start(t, 1)
	a.Connect(b.id, b.Addr())
	deliver(a, b, "through")
}

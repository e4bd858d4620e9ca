package meshtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// wire is a connection between two hosts, and from the first one to itself.
type wire struct {
	*network
	a, b         *host
	atA, atB     net.Conn
	selfA, selfB net.Conn
}

func newWire(t *testing.T) *wire {
	w := &wire{network: newNetwork()}
	t.Cleanup(w.close)
	hosts := make([]*host, 2)
	listeners := make([]net.Listener, 2)
	for i := range hosts {
		var err error
		if hosts[i], err = w.newHost("", true); err != nil {
			t.Fatal(err)
		}
		if listeners[i], err = hosts[i].Listen(anyPort); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listeners[i].Close() })
	}
	w.a, w.b = hosts[0], hosts[1]
	pair := func(from, to *host, l net.Listener) (net.Conn, net.Conn) {
		one, err := from.Dial(t.Context(), to.addr)
		if err != nil {
			t.Fatal(err)
		}
		other, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { one.Close(); other.Close() })
		return one, other
	}
	w.atA, w.atB = pair(w.a, w.b, listeners[1])
	w.selfA, w.selfB = pair(w.a, w.a, listeners[0])
	return w
}

// send writes in the background; the test reads what arrives.
func send(c net.Conn, text string) { go c.Write([]byte(text)) }

// arrives fails unless a text is read within some time.
func arrives(t *testing.T, c net.Conn, text string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("read %q, %v, want %q", got, err, text)
	}
}

// silent fails if anything is read, or the end, for a moment.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Read = %d, %v, want no answer", n, err)
	}
}

func TestACutHoldsBackBothDirectionsUntilItIsHealed(t *testing.T) {
	for _, cut := range []string{"the host that dialled", "the host that was dialled", "both"} {
		t.Run(cut, func(t *testing.T) {
			w := newWire(t)
			send(w.atA, "before")
			arrives(t, w.atB, "before")
			if cut != "the host that was dialled" {
				w.a.isolate()
			}
			if cut != "the host that dialled" {
				w.b.isolate()
			}
			send(w.atA, "there")
			send(w.atB, "back")
			silent(t, w.atA)
			silent(t, w.atB)
			send(w.selfA, "self")
			arrives(t, w.selfB, "self")
			w.heal()
			arrives(t, w.atA, "back")
			arrives(t, w.atB, "there")
		})
	}
}

// What a Read has taken from the system when the host is cut off arrives once, after the cut.
func TestAReadUnderWayIsCut(t *testing.T) {
	w := newWire(t)
	got := make(chan string)
	go func() {
		b := make([]byte, 3)
		n, _ := io.ReadFull(w.atB, b)
		got <- string(b[:n])
	}()
	w.b.isolate()
	if _, err := w.atA.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-got:
		t.Fatalf("read %q across the cut", text)
	case <-time.After(30 * time.Millisecond):
	}
	w.heal()
	if text := <-got; text != "abc" {
		t.Errorf("read %q, want abc", text)
	}
}

func TestAnEndDoesNotPassACut(t *testing.T) {
	w := newWire(t)
	w.a.isolate()
	if err := w.atA.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.atA.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close = %v", err)
	}
	silent(t, w.atB)
	w.heal()
	w.atB.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := w.atB.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read after the cut = %v, want the end", err)
	}
}

// Close ends what waits in the connection's calls, and a deadline does.
func TestACallThatACutHoldsUpEnds(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(c net.Conn)
		want error
	}{
		{"by Close", func(c net.Conn) { c.Close() }, net.ErrClosed},
		{"by a deadline that comes later", func(c net.Conn) { c.SetDeadline(time.Now()) }, os.ErrDeadlineExceeded},
	} {
		t.Run(end.name, func(t *testing.T) {
			w := newWire(t)
			errs := make(chan error, 2)
			go func() {
				_, err := w.atA.Read(make([]byte, 1)) // begins before the cut, or after
				errs <- err
			}()
			w.a.isolate()
			go func() {
				_, err := w.atA.Write([]byte("x"))
				errs <- err
			}()
			end.do(w.atA)
			for range 2 {
				if err := <-errs; !errors.Is(err, end.want) {
					t.Errorf("got %v, want %v", err, end.want)
				}
			}
		})
	}
}

func TestADial(t *testing.T) {
	short := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(t.Context(), 30*time.Millisecond)
	}
	for _, tt := range []struct {
		name string
		set  func(w *wire)
		to   func(w *wire) string
		want error // nil: it succeeds
	}{
		{"of a host that is down is refused", func(w *wire) { w.b.listener.Close() }, func(w *wire) string { return w.b.addr }, syscall.ECONNREFUSED},
		{"of a host that is cut off gets no answer", func(w *wire) { w.b.isolate() }, func(w *wire) string { return w.b.addr }, context.DeadlineExceeded},
		{"of one that is cut off and down gets none either", func(w *wire) { w.b.listener.Close(); w.b.isolate() }, func(w *wire) string { return w.b.addr }, context.DeadlineExceeded},
		{"by a host that is cut off gets none", func(w *wire) { w.a.isolate() }, func(w *wire) string { return w.b.addr }, context.DeadlineExceeded},
		{"by a host that is cut off reaches itself", func(w *wire) { w.a.isolate() }, func(w *wire) string { return w.a.addr }, nil},
		{"of an address outside is that of the system", func(*wire) {}, func(*wire) string { return "127.0.0.1:1" }, syscall.ECONNREFUSED},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWire(t)
			tt.set(w)
			ctx, cancel := short()
			defer cancel()
			c, err := w.a.Dial(ctx, tt.to(w))
			if !errors.Is(err, tt.want) {
				t.Errorf("Dial = %v, want %v", err, tt.want)
			}
			if err == nil {
				c.Close()
			}
		})
	}
}

func TestADialGoesOnWhenACutIsHealed(t *testing.T) {
	w := newWire(t)
	w.b.isolate()
	done := make(chan error)
	go func() {
		c, err := w.a.Dial(t.Context(), w.b.addr)
		if err == nil {
			c.Close()
		}
		done <- err
	}()
	w.heal()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A dialler outside the fleet finds the port of a killed node kept, and nothing behind it.
func TestThePortOfANodeThatIsDownIsKept(t *testing.T) {
	w := newWire(t)
	w.b.listener.Close()
	c, err := net.Dial("tcp", w.b.addr)
	if err == nil {
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a dial and a read end with %v, want a reset", err)
	}
	if _, err := w.b.Listen(w.b.addr); err != nil {
		t.Errorf("Listen again = %v", err)
	}
	if _, err := w.b.Listen(w.b.addr); err == nil {
		t.Error("two listeners at one port")
	}
	if _, err := w.b.Listen("127.0.0.1:7300"); err == nil {
		t.Error("a listener at a port that the system did not choose")
	}
}

package bubble_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate/bubble"
)

// pair is a bubble with a connection from host a to host b, port 80.
type pair struct {
	*testing.T
	*bubble.Bubble
	a, b net.Conn
	l    net.Listener
}

// connected calls f in a bubble with a pair.
func connected(t *testing.T, f func(p *pair)) {
	t.Helper()
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		p := &pair{T: t, Bubble: b}
		<-b.Host("b").Go("listen", func(ctx context.Context) {
			var err error
			if p.l, err = bubble.Listen(ctx, ":80"); err != nil {
				t.Error(err)
			}
		})
		dialled := b.Host("a").Go("dial", func(ctx context.Context) {
			var err error
			if p.a, err = bubble.Dial(ctx, "b:80"); err != nil {
				t.Error(err)
			}
		})
		var err error
		if p.b, err = p.l.Accept(); err != nil {
			t.Fatal(err)
		}
		<-dialled
		f(p)
	})
}

// on calls f as a goroutine of a host, and waits for it.
func on(b *bubble.Bubble, host string, f func(ctx context.Context)) {
	<-b.Host(host).Go("", f)
}

// reads fails unless c reads exactly what is wanted, after a time.
func (p *pair) reads(c net.Conn, want string, after time.Duration) {
	p.Helper()
	start := p.Now()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		p.Errorf("read %q, %v, want %q", b, err, want)
	}
	if took := p.Now() - start; took < after || took > after+time.Millisecond {
		p.Errorf("read %q after %v, want %v", want, took, after)
	}
}

// fails fails unless reading from c ends with an error.
func (p *pair) fails(c net.Conn, want error, after time.Duration) {
	p.Helper()
	start := p.Now()
	if n, err := c.Read(make([]byte, 10)); n != 0 || !errors.Is(err, want) {
		p.Errorf("Read = %d, %v, want %v", n, err, want)
	}
	if took := p.Now() - start; took < after || took > after+time.Millisecond {
		p.Errorf("Read took %v, want %v", took, after)
	}
}

func TestBytesArriveInOrderAfterTheLatency(t *testing.T) {
	connected(t, func(p *pair) {
		if got := p.b.RemoteAddr().String(); got != p.a.LocalAddr().String() || !strings.HasPrefix(got, "a:") {
			t.Errorf("b is connected with %s", got)
		}
		if p.a.RemoteAddr().String() != "b:80" || p.l.Addr().Network() != "tcp" {
			t.Errorf("a is connected with %s", p.a.RemoteAddr())
		}
		fmt.Fprint(p.a, "one ")
		fmt.Fprint(p.a, "two")
		p.reads(p.b, "one two", 200*time.Microsecond)
		p.SetLink("a", "b", bubble.Link{Latency: 50 * time.Millisecond})
		fmt.Fprint(p.b, "three")
		p.reads(p.a, "three", 50*time.Millisecond)
		p.SetLinks(bubble.Link{Latency: time.Millisecond, Jitter: 20 * time.Millisecond})
		want := ""
		for i := range 100 {
			fmt.Fprint(p.a, i, " ")
			want += fmt.Sprint(i, " ")
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(p.b, got); err != nil || string(got) != want {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestDialling(t *testing.T) {
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		b.Host("b")
		on(b, "a", func(ctx context.Context) {
			for addr, want := range map[string]string{"b:80": "connection refused", "nobody:80": "no such host", "b": "missing port"} {
				if c, err := bubble.Dial(ctx, addr); c != nil || err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Dial(%s) = %v, %v, want %q", addr, c, err, want)
				}
			}
		})
		b.Isolate("b")
		on(b, "a", func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			_, err := bubble.Dial(ctx, "b:80")
			if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() || b.Now() < 3*time.Second {
				t.Errorf("at %v Dial = %v, want a timeout", b.Now(), err)
			}
		})
		dialled := b.Host("a").Go("", func(ctx context.Context) {
			if _, err := bubble.Dial(ctx, "b:80"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("Dial over a cut that ends = %v, want ECONNREFUSED", err)
			}
		})
		b.Sleep(10 * time.Second)
		b.Heal()
		<-dialled // it was repeated
	})
}

func TestListening(t *testing.T) {
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		on(b, "a", func(ctx context.Context) {
			l, err := bubble.Listen(ctx, "0.0.0.0:0")
			if err != nil || l.Addr().String() != "a:40001" {
				t.Fatalf("Listen = %v, %v", l, err)
			}
			for addr, want := range map[string]error{"a:40001": syscall.EADDRINUSE, "b:80": syscall.EADDRNOTAVAIL} {
				if l, err := bubble.Listen(ctx, addr); l != nil || !errors.Is(err, want) {
					t.Errorf("Listen(%s) = %v, %v, want %v", addr, l, err, want)
				}
			}
			c, err := bubble.Dial(ctx, "localhost:40001") // nobody accepts it
			if err != nil {
				t.Fatal(err)
			}
			bubble.Sleep(ctx, time.Second)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept after Close = %v", err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("Read of a connection that nobody accepted = %v, want ECONNRESET", err)
			}
			if _, err := bubble.Listen(ctx, ":40001"); err != nil {
				t.Errorf("Listen where somebody did: %v", err)
			}
		})
		<-b.Go("", func(ctx context.Context) {
			if _, err := bubble.Dial(ctx, "a:1"); err == nil {
				t.Error("a goroutine without a host has dialled")
			}
		})
	})
}

func TestCuts(t *testing.T) {
	connected(t, func(p *pair) {
		p.PartitionOneWay([]string{"a"}, []string{"b"})
		if p.Reachable("a", "b") || !p.Reachable("b", "a") {
			t.Error("the wrong way is cut")
		}
		fmt.Fprint(p.b, "back")
		p.reads(p.a, "back", 200*time.Microsecond)
		fmt.Fprint(p.a, "there")
		p.Sleep(time.Second)
		p.Partition([]string{"a"})
		fmt.Fprint(p.a, " and more")
		p.Go("", func(ctx context.Context) {
			bubble.Sleep(ctx, 5*time.Second)
			p.Heal()
		})
		p.reads(p.b, "there and more", 5*time.Second+200*time.Microsecond)
	})
}

// What a cut has held up comes before what was on its way when the cut ended.
func TestBytesStayInOrderThroughACut(t *testing.T) {
	connected(t, func(p *pair) {
		p.SetLink("a", "b", bubble.Link{Latency: 50 * time.Millisecond})
		p.Isolate("a")
		for _, word := range []string{"one ", "two ", "three"} {
			fmt.Fprint(p.a, word)
			p.Sleep(30 * time.Millisecond)
		}
		p.Heal() // at 90 ms: the last two are on their way
		p.reads(p.b, "one two three", 50*time.Millisecond)
		p.b.SetReadDeadline(time.Now().Add(time.Second))
		p.fails(p.b, os.ErrDeadlineExceeded, time.Second)
	})
}

// A system goes on sending for a process that is gone, and a machine that is gone does not.
func TestWhatACloserSaidOutlivesIt(t *testing.T) {
	for _, lost := range []bool{false, true} {
		connected(t, func(p *pair) {
			p.Isolate("a")
			fmt.Fprint(p.a, "last words")
			p.Sleep(time.Second)
			p.a.Close()
			if lost {
				p.PowerOff("a")
				p.Restart("a")
			} else {
				p.Crash("a")
			}
			p.Sleep(time.Second)
			p.Heal()
			if !lost {
				p.reads(p.b, "last words", 200*time.Microsecond)
				p.fails(p.b, io.EOF, 0)
				return
			}
			p.b.SetReadDeadline(time.Now().Add(time.Second))
			p.fails(p.b, os.ErrDeadlineExceeded, time.Second)
		})
	}
}

func TestACutHidesThatBytesWereRead(t *testing.T) {
	connected(t, func(p *pair) {
		n, err := p.a.Write(make([]byte, 256<<10)) // as much as goes unread
		if n != 256<<10 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		p.Sleep(time.Second)
		p.PartitionOneWay([]string{"b"}, []string{"a"})
		io.CopyN(io.Discard, p.b, int64(n))
		p.a.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := p.a.Write([]byte("x")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write = %d, %v during the cut, want a timeout", n, err)
		}
		p.a.SetWriteDeadline(time.Time{})
		p.Heal()
		if n, err := p.a.Write([]byte("x")); n != 1 || err != nil {
			t.Errorf("Write = %d, %v after the cut", n, err)
		}
	})
}

func TestTheEndsOfAConnection(t *testing.T) {
	tests := []struct {
		name string
		end  func(p *pair)
		want error
	}{
		{"Close", func(p *pair) { p.b.Close() }, io.EOF},
		{"CloseWrite", func(p *pair) { p.b.(interface{ CloseWrite() error }).CloseWrite() }, io.EOF},
		{"Close with bytes unread", func(p *pair) {
			fmt.Fprint(p.a, "x")
			p.Sleep(time.Second)
			p.b.Close()
		}, syscall.ECONNRESET},
		{"a crash", func(p *pair) { p.Crash("b") }, syscall.ECONNRESET},
		{"a crash, restarted", func(p *pair) { p.Crash("b"); p.Restart("b") }, syscall.ECONNRESET},
		{"its own Close", func(p *pair) { p.a.Close() }, net.ErrClosed},
		{"its own crash", func(p *pair) { p.Crash("a") }, net.ErrClosed},
		{"a deadline", func(p *pair) { p.a.SetReadDeadline(time.Now()) }, os.ErrDeadlineExceeded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			connected(t, func(p *pair) {
				fmt.Fprint(p.b, "last words")
				p.Sleep(time.Millisecond)
				if tt.want != net.ErrClosed {
					p.reads(p.a, "last words", 0)
				}
				p.Go("", func(ctx context.Context) { tt.end(p) })
				if _, err := io.Copy(io.Discard, p.a); tt.want == io.EOF && err != nil || tt.want != io.EOF && !errors.Is(err, tt.want) {
					t.Errorf("the end is %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestALostMachineSaysNothing(t *testing.T) {
	connected(t, func(p *pair) {
		p.PowerOff("b")
		fmt.Fprint(p.a, "hello?")
		p.a.SetReadDeadline(time.Now().Add(time.Minute))
		p.fails(p.a, os.ErrDeadlineExceeded, time.Minute)
		p.a.SetReadDeadline(time.Time{})
		p.Restart("b")
		p.fails(p.a, syscall.ECONNRESET, 400*time.Microsecond) // what was sent is sent again
		if _, err := fmt.Fprint(p.a, "x"); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write = %v, want EPIPE", err)
		}
	})
}

func TestAWriterWaitsForTheReader(t *testing.T) {
	connected(t, func(p *pair) {
		p.a.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := p.a.Write(make([]byte, 1<<20))
		if n == 0 || n == 1<<20 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write = %d, %v, want a part", n, err)
		}
		p.a.SetWriteDeadline(time.Time{})
		p.Go("", func(ctx context.Context) {
			bubble.Sleep(ctx, time.Second)
			io.CopyN(io.Discard, p.b, 3<<20)
		})
		if n, err := p.a.Write(make([]byte, 2<<20)); n != 2<<20 || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	})
}

func TestPauseHoldsUpTheNetwork(t *testing.T) {
	connected(t, func(p *pair) {
		woke := time.Duration(0)
		slept := p.Host("b").Go("", func(ctx context.Context) {
			bubble.Sleep(ctx, time.Second)
			woke = p.Now()
		})
		start := p.Now()
		p.Pause("b")
		fmt.Fprint(p.a, "to")
		fmt.Fprint(p.b, "from")
		p.a.SetReadDeadline(time.Now().Add(10 * time.Second))
		p.fails(p.a, os.ErrDeadlineExceeded, 10*time.Second)
		p.a.SetReadDeadline(time.Time{})
		p.Resume("b")
		p.reads(p.a, "from", 200*time.Microsecond)
		p.reads(p.b, "to", 0)
		<-slept
		if woke-start < 10*time.Second {
			t.Errorf("a goroutine of the paused host went on after %v", woke-start)
		}
	})
}

func TestNobodyDialsDuringAPause(t *testing.T) {
	const latency = 50 * time.Millisecond
	for _, tt := range []struct {
		paused string
		after  time.Duration // of the dialling
	}{{"a", 0}, {"b", 0}, {"a", latency * 3 / 2}} { // the last while the answer is on its way
		bubble.Test(t, 1, func(b *bubble.Bubble) {
			b.SetLinks(bubble.Link{Latency: latency})
			on(b, "b", func(ctx context.Context) {
				if _, err := bubble.Listen(ctx, ":80"); err != nil {
					t.Error(err)
				}
			})
			at := time.Duration(0)
			dialled := b.Host("a").Go("", func(ctx context.Context) {
				if _, err := bubble.Dial(ctx, "b:80"); err != nil {
					t.Error(err)
				}
				at = b.Now()
			})
			b.Sleep(tt.after)
			b.Pause(tt.paused)
			b.Sleep(10 * time.Second)
			resumed := b.Now()
			b.Resume(tt.paused)
			<-dialled
			if at < resumed {
				t.Errorf("%s is paused %v after the dialling, and that ends at %v", tt.paused, tt.after, at)
			}
		})
	}
}

func TestWhatWasGivenUpDoesNotHappen(t *testing.T) {
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		b.Host("a")
		b.Pause("a")
		on(b, "a", func(ctx context.Context) {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := bubble.Listen(short, ":80"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Listen during a pause = %v, want DeadlineExceeded", err)
			}
			b.Resume("a")
			if _, err := bubble.Listen(ctx, ":80"); err != nil {
				t.Errorf("Listen after one that was given up: %v", err)
			}
		})
	})
}

func TestCrashAndRestart(t *testing.T) {
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		starts, ends := 0, 0
		h := b.Host("a")
		h.Boot("service", func(ctx context.Context) {
			starts++
			if _, err := bubble.Listen(ctx, ":80"); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			ends++
			if err := bubble.Sleep(ctx, time.Second); err == nil || err != context.Cause(ctx) {
				t.Errorf("Sleep after the crash = %v", err)
			}
			if _, err := bubble.Dial(ctx, "a:80"); err == nil {
				t.Error("dialled after the crash")
			}
		})
		b.Sleep(time.Second)
		b.Crash("a")
		b.Crash("a")
		<-h.Go("", func(context.Context) { t.Error("a goroutine on a host that is down") })
		b.Sleep(time.Second)
		b.Restart("a")
		b.Restart("a")
		b.Sleep(time.Second)
		if starts != 2 || ends != 1 || h.Incarnation() != 2 || h.Name() != "a" {
			t.Errorf("%d starts, %d ends, incarnation %d", starts, ends, h.Incarnation())
		}
	})
}

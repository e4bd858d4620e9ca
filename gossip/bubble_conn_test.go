package gossip_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The bubble's connections behave as those of TCP do, on which the tests of this package build.
func TestTheBubblesConnections(t *testing.T) {
	for _, tt := range []struct {
		name string
		// Here is the end of host a, there that of host b.
		play func(t *testing.T, b *bubble, here, there net.Conn)
	}{
		{"bytes take the latency", func(t *testing.T, b *bubble, here, there net.Conn) {
			sent := b.Now()
			writes(t, here, "hello")
			reads(t, there, "hello")
			if took := b.Now() - sent; took != toAnother {
				t.Errorf("they took %v, want %v", took, toAnother)
			}
		}},
		{"bytes sent into a cut arrive after it, in order", func(t *testing.T, b *bubble, here, there net.Conn) {
			b.Partition([]string{"a"})
			for _, text := range []string{"one ", "two ", "three"} {
				writes(t, here, text)
				silent(t, there)
			}
			b.Heal()
			reads(t, there, "one two three")
		}},
		{"a cut of one way leaves the other open", func(t *testing.T, b *bubble, here, there net.Conn) {
			b.PartitionOneWay([]string{"a"}, []string{"b"})
			writes(t, there, "back")
			reads(t, here, "back")
			writes(t, here, "forth")
			silent(t, there)
		}},
		{"a pause holds bytes up", func(t *testing.T, b *bubble, here, there net.Conn) {
			b.Pause("b")
			writes(t, here, "hello")
			silent(t, there)
			b.Resume("b")
			reads(t, there, "hello")
		}},
		{"CloseWrite is the end of one way", func(t *testing.T, b *bubble, here, there net.Conn) {
			writes(t, here, "last words")
			if err := here.(*side).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			reads(t, there, "last words")
			fails(t, there, io.EOF)
			writes(t, there, "answer")
			reads(t, here, "answer")
			if _, err := here.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("a write after CloseWrite: %v, want %v", err, syscall.EPIPE)
			}
		}},
		{"a crash resets", func(t *testing.T, b *bubble, here, there net.Conn) {
			b.Crash("a")
			fails(t, there, syscall.ECONNRESET)
			if _, err := there.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("a write after a reset: %v, want %v", err, syscall.EPIPE)
			}
		}},
		{"a reset is lost in a cut, and sent again for the next bytes", func(t *testing.T, b *bubble, here, there net.Conn) {
			b.Partition([]string{"a"})
			b.Crash("a")
			silent(t, there)
			b.Heal()
			silent(t, there)
			writes(t, there, "is anybody there?")
			fails(t, there, syscall.ECONNRESET)
		}},
		{"a deadline passes", func(t *testing.T, b *bubble, here, there net.Conn) {
			begun := b.Now()
			_ = here.SetDeadline(time.Now().Add(5 * time.Second))
			if n, err := here.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || b.Now()-begun != 5*time.Second {
				t.Errorf("Read = %d, %v, after %v", n, err, b.Now()-begun)
			}
			if _, err := here.Write([]byte("late")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a write after its deadline: %v", err)
			}
			_ = here.SetDeadline(time.Time{})
			writes(t, here, "in time again")
			reads(t, there, "in time again")
		}},
		{"a closed port refuses", func(t *testing.T, b *bubble, here, there net.Conn) {
			conn, err := b.hosts["a"].process.Dial(context.Background(), "b:2")
			if conn != nil || !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("Dial = %v, %v, want %v", conn, err, syscall.ECONNREFUSED)
			}
		}},
		{"a cut does not answer a dial", func(t *testing.T, b *bubble, here, there net.Conn) {
			b.Partition([]string{"a"})
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			conn, err := b.hosts["a"].process.Dial(ctx, "b:1")
			if conn != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Dial = %v, %v, want %v", conn, err, context.DeadlineExceeded)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, 1, func(b *bubble) {
				l, err := b.host("b").process.Listen("b:1")
				if err != nil {
					t.Fatal(err)
				}
				here, err := b.host("a").process.Dial(context.Background(), "b:1")
				if err != nil {
					t.Fatal(err)
				}
				there, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				tt.play(t, b, here, there)
			})
		})
	}
}

func writes(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
		t.Errorf("Write(%q) = %d, %v", text, n, err)
	}
}

// reads demands that text arrives within a minute.
func reads(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Errorf("read %q, %v, want %q", got[:n], err, text)
	}
	_ = c.SetReadDeadline(time.Time{})
}

// silent demands that nothing arrives within a minute.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	fails(t, c, os.ErrDeadlineExceeded)
}

// fails demands that a read fails with an error within a minute, which may be that the minute is over.
func fails(t *testing.T, c net.Conn, want error) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	got := make([]byte, 100)
	if n, err := c.Read(got); n > 0 || !errors.Is(err, want) {
		t.Errorf("read %q, %v, want %v", strings.TrimRight(string(got[:n]), "\x00"), err, want)
	}
}

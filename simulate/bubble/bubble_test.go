package bubble_test

import (
	"context"
	"fmt"
	"io"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate/bubble"
)

func TestEcho(t *testing.T) {
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		b.Host("a").Go("server", func(ctx context.Context) {
			l, err := bubble.Listen(ctx, ":80")
			if err != nil {
				t.Error(err)
				return
			}
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			io.Copy(c, c)
			c.Close()
		})
		heard := ""
		<-b.Host("b").Go("client", func(ctx context.Context) {
			bubble.Sleep(ctx, time.Second)
			c, err := bubble.Dial(ctx, "a:80")
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			fmt.Fprint(c, "hello")
			p := make([]byte, 5)
			io.ReadFull(c, p)
			heard = string(p)
		})
		if want := time.Second + 800*time.Microsecond; heard != "hello" || b.Now() < want || b.Now() > want+time.Microsecond {
			t.Errorf("heard %q at %v", heard, b.Now())
		}
		if b.Events() == 0 || b.Hash() == 0 {
			t.Error("nothing has passed the gate")
		}
	})
}

func TestGoroutinesHaveLabels(t *testing.T) {
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		<-b.Host("a").Go("worker", func(ctx context.Context) {
			host, _ := pprof.Label(ctx, "host")
			if name, _ := pprof.Label(ctx, "goroutine"); host != "a" || name != "worker" {
				t.Errorf("goroutine %q of host %q, want worker of a", name, host)
			}
		})
	})
}

// A test that fails or ends early leaves nothing behind, whatever goes on in it.
func TestTheEndEndsAll(t *testing.T) {
	ended := 0
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		for _, name := range []string{"a", "b"} {
			b.Host(name).Go("", func(ctx context.Context) {
				defer func() { ended++ }()
				for bubble.Sleep(ctx, time.Second) == nil {
				}
			})
		}
		b.Go("", func(ctx context.Context) {
			<-ctx.Done()
			ended++
		})
		b.Sleep(10 * time.Second)
		b.Pause("a")
	})
	if ended != 3 {
		t.Errorf("%d goroutines have ended, want 3", ended)
	}
}

// Whatever goes on after the end starts nothing any more.
func TestNothingStartsAfterTheEnd(t *testing.T) {
	forever := func(ctx context.Context) { <-ctx.Done() }
	bubble.Test(t, 1, func(b *bubble.Bubble) {
		b.Host("a").Boot("", forever)
		b.Go("", func(ctx context.Context) {
			<-ctx.Done()
			b.Crash("a")
			b.Restart("a")
			<-b.Host("b").Go("", forever)
			<-bubble.Go(ctx, "", forever)
		})
		b.Sleep(time.Second)
	})
}

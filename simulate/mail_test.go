package simulate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

func ExampleSend() {
	w := simulate.New(simulate.Options{})
	defer w.Close()
	w.Host("bank").Boot("server", func(ctx context.Context) {
		for m, err := simulate.Receive(ctx, "payments"); err == nil; m, err = simulate.Receive(ctx, "payments") {
			simulate.Send(ctx, m.From, "answers", []byte("paid "+string(m.Body)))
		}
	})
	w.Host("shop").Go("client", func(ctx context.Context) {
		for range 2 {
			simulate.Send(ctx, "bank", "payments", []byte("17"))
			patience, cancel := simulate.WithTimeout(ctx, time.Second)
			m, err := simulate.Receive(patience, "answers")
			cancel()
			fmt.Printf("%s %v\n", m.Body, err)
			w.Net.Partition([]string{"shop"}, []string{"bank"})
		}
	})
	fmt.Println(w.Run(time.Minute))
	// Output:
	// paid 17 <nil>
	//  context deadline exceeded
	// <nil>
}

// post is a world in which a sends 1, 2, … to b, one every second.
func post(t *testing.T, link simulate.Link) (w *simulate.World, got *[]string) {
	w = simulate.New(simulate.Options{Seed: 1, Link: link, Timeline: true})
	t.Cleanup(w.Close)
	got = new([]string)
	w.Host("b").Boot("receiver", func(ctx context.Context) {
		for m, err := simulate.Receive(ctx, "p"); err == nil; m, err = simulate.Receive(ctx, "p") {
			*got = append(*got, m.From+string(m.Body))
		}
	})
	w.Host("a").Go("sender", func(ctx context.Context) {
		for i := 1; simulate.Sleep(ctx, time.Second) == nil; i++ {
			simulate.Send(ctx, "b", "p", fmt.Append(nil, i))
		}
	})
	return w, got
}

// run runs the world up to a second, in which nothing is on its way.
func runTo(t *testing.T, w *simulate.World, second int) {
	t.Helper()
	if err := w.Run(time.Duration(second)*time.Second + time.Second/2 - w.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestMessagesMeetFaults(t *testing.T) {
	w, got := post(t, simulate.Link{})
	want := func(second int, all string) {
		t.Helper()
		runTo(t, w, second)
		if s := strings.Join(*got, " "); s != all {
			t.Errorf("after %d s b has %q, want %q", second, s, all)
		}
		*got = nil
	}
	want(2, "a1 a2")
	w.Net.PartitionOneWay([]string{"a"}, []string{"b"})
	want(3, "")
	w.Net.Heal()
	want(4, "a4")
	w.Net.Hold("a", "b")
	want(6, "")
	if f := w.Net.InFlight(); len(f) != 2 || !slices.Equal(f[0].Messages(), []string{"p 5"}) || !f[0].Kept {
		t.Errorf("in flight: %v", f)
	}
	w.Net.Release("a", "b")
	want(7, "a5 a6 a7")
	stop := w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
		switch {
		case f.Says("p 8"):
			return simulate.Drop
		case f.From == "a" && f.Says("p 9"):
			return simulate.Twice
		}
		return simulate.Pass
	})
	want(9, "a9 a9")
	stop()
	w.Host("b").Pause()
	want(10, "")
	w.Host("b").Resume()
	want(11, "a10 a11")
	w.Host("b").Crash()
	want(12, "")
	w.Host("b").Restart()
	want(13, "a13")
	w.Host("b").PowerOff()
	want(14, "")
	w.HealAll()
	want(15, "a15")
	var text strings.Builder
	if err := w.Timeline().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"a              -> b p 1\n", "b              <- a p 1\n", "b              lost from a p 3: cut\n", "lost from a p 8: rule", "lost from a p 12: down"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("no %q in the timeline", line)
		}
	}
}

func TestMessagesOnBadLinks(t *testing.T) {
	w, got := post(t, simulate.Link{Latency: 5 * time.Millisecond, Loss: 200_000, Duplicate: 200_000})
	runTo(t, w, 1000)
	n := len(*got)
	*got = slices.Compact(*got)
	if once := len(*got); once < 750 || once > 850 || n-once < 100 || n-once > 220 {
		t.Errorf("of 1000 messages, 20 %% lost and 20 %% doubled, %d came, %d of them twice", once, n-once)
	}
}

// What is sent while the queue of a narrow link is full is lost. A frame of any size is taken in before that.
func TestMessagesOnANarrowLink(t *testing.T) {
	w := simulate.New(simulate.Options{Timeline: true, Link: simulate.Link{Bandwidth: 1000, Queue: 3500}})
	defer w.Close()
	came := 0
	w.Host("b").Go("receiver", func(ctx context.Context) {
		for _, err := simulate.Receive(ctx, "p"); err == nil; _, err = simulate.Receive(ctx, "p") {
			came++
		}
	})
	w.Host("a").Go("sender", func(ctx context.Context) {
		for range 10 {
			simulate.Send(ctx, "b", "p", make([]byte, 998))
		}
	})
	if err := w.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := w.Timeline().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if full := strings.Count(text.String(), ": full\n"); came != 4 || full != 6 {
		t.Errorf("of ten messages of 1,000 bytes, %d came and %d were lost, want 4 and 6", came, full)
	}
}

// Messages wait for a receiver, up to a limit; receivers wait for messages, in turns.
func TestMessagesWait(t *testing.T) {
	w := simulate.New(simulate.Options{})
	defer w.Close()
	const most, more = 4096, 10
	var served []string
	count := 0
	w.Host("a").Go("a", func(ctx context.Context) {
		for i := range most + more {
			simulate.Send(ctx, "a", "p", fmt.Append(nil, i))
			_ = simulate.Sleep(ctx, time.Millisecond)
		}
		_ = simulate.Sleep(ctx, time.Second)
		for {
			now, cancel := simulate.WithTimeout(ctx, time.Second)
			m, err := simulate.Receive(now, "p")
			cancel()
			if err != nil {
				break
			}
			if string(m.Body) != fmt.Sprint(count) {
				t.Errorf("message %d says %s", count, m.Body)
			}
			count++
		}
		for i := range 3 {
			simulate.Go(ctx, "receiver", func(ctx context.Context) {
				_ = simulate.Sleep(ctx, time.Duration(i)*time.Second)
				for m, err := simulate.Receive(ctx, "q"); err == nil; m, err = simulate.Receive(ctx, "q") {
					served = append(served, fmt.Sprint(i, string(m.Body)))
				}
			})
		}
		_ = simulate.Sleep(ctx, time.Minute)
		for _, text := range []string{"a", "b", "c", "d"} {
			simulate.Send(ctx, "a", "q", []byte(text))
			_ = simulate.Sleep(ctx, time.Second)
		}
	})
	if err := w.Run(time.Hour); err != nil {
		t.Fatal(err)
	}
	if count != most {
		t.Errorf("%d messages were kept, want %d", count, most)
	}
	if want := []string{"0a", "1b", "2c", "0d"}; !slices.Equal(served, want) {
		t.Errorf("served: %v, want %v", served, want)
	}
}

func TestWrongMessages(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		do         func(ctx context.Context)
	}{
		{"no such host", `no host "b"`, func(ctx context.Context) { simulate.Send(ctx, "b", "p", nil) }},
		{"no port", `"" is not the name of a port`, func(ctx context.Context) { simulate.Send(ctx, "a", "", nil) }},
		{"a zero byte", `"p\x00" is not the name of a port`, func(ctx context.Context) { simulate.Send(ctx, "a", "p\x00", nil) }},
		{"too long", `of 2097152 bytes`, func(ctx context.Context) { simulate.Send(ctx, "a", "p", make([]byte, 2<<20)) }},
		{"no actor's context", `Send needs the context of an actor`, func(context.Context) { simulate.Send(context.Background(), "a", "p", nil) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := simulate.New(simulate.Options{})
			defer w.Close()
			w.Host("a").Go("a", tt.do)
			if err := w.Run(time.Second); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	w := simulate.New(simulate.Options{})
	defer w.Close()
	w.Host("a")
	w.Go("lab", func(ctx context.Context) { simulate.Send(ctx, "a", "p", nil) })
	if err := w.Run(time.Second); err == nil || !strings.Contains(err.Error(), "use Host.Go") {
		t.Errorf("a message of nobody: %v", err)
	}
}

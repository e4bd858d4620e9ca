package bubble_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate/bubble"
)

// busy is a world whose goroutines use all that Go has: servers with a goroutine per
// connection and a pool of workers behind channels, clients with time limits, and
// faults meanwhile.
func busy(t *testing.T, b *bubble.Bubble) (answers []string) {
	names := []string{"a", "b", "c"}
	for _, name := range names {
		b.Host(name).Boot("server", func(ctx context.Context) { serve(t, ctx) })
	}
	for i := range 6 {
		b.Host(fmt.Sprint("client", i%2)).Go("client", func(ctx context.Context) {
			for n := range 20 {
				to := names[bubble.Chance(ctx, len(names))]
				answer := ask(ctx, to+":80", fmt.Sprint(i, " ", n))
				if bubble.Sleep(ctx, time.Duration(10+bubble.Chance(ctx, 50))*time.Millisecond) != nil {
					return
				}
				answers = append(answers, answer) // only one goroutine at a time is here
			}
		})
	}
	b.Go("faults", func(ctx context.Context) {
		for _, fault := range []func(){
			func() { b.Partition([]string{"a", "client0"}, []string{"b", "c", "client1"}) },
			b.Heal,
			func() { b.Crash("b") },
			func() { b.Restart("b") },
			func() { b.Pause("c") },
			func() { b.Resume("c") },
			func() { b.PartitionOneWay([]string{"client1"}, []string{"a"}) },
			func() { b.SetLinks(bubble.Link{Latency: time.Millisecond, Jitter: 3 * time.Millisecond}) },
			b.Heal,
			func() { b.PowerOff("a") },
			func() { b.Restart("a") },
		} {
			bubble.Sleep(ctx, 200*time.Millisecond)
			fault()
		}
	})
	b.Sleep(30 * time.Second)
	return answers
}

func serve(t *testing.T, ctx context.Context) {
	l, err := bubble.Listen(ctx, ":80")
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return
	}
	work := make(chan func())
	defer close(work)
	for range 3 {
		go func() {
			for do := range work {
				do()
			}
		}()
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		bubble.Go(ctx, "connection", func(ctx context.Context) {
			defer c.Close()
			lines := bufio.NewScanner(c)
			for lines.Scan() {
				answered := make(chan string, 1)
				select {
				case work <- func() { answered <- "did " + lines.Text() }:
				case <-ctx.Done():
					return
				}
				if bubble.Sleep(ctx, 3*time.Millisecond) != nil {
					return
				}
				fmt.Fprintln(c, <-answered)
			}
		})
	}
}

func ask(ctx context.Context, addr, question string) string {
	ctx, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	c, err := bubble.Dial(ctx, addr)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	limit, _ := ctx.Deadline()
	c.SetDeadline(limit)
	fmt.Fprintln(c, question)
	answer, err := bufio.NewReader(c).ReadString('\n')
	return fmt.Sprint(answer, err)
}

// trace is the hash of a busy world, and what its clients heard.
func trace(t *testing.T, seed uint64) (hash uint64, heard string) {
	bubble.Test(t, seed, func(b *bubble.Bubble) {
		heard = strings.Join(busy(t, b), "\n")
		hash = b.Hash()
	})
	return hash, heard
}

func TestSameSeedSameRun(t *testing.T) {
	hash, heard := trace(t, 1)
	for _, want := range []string{"did", "refused", "timeout", "deadline"} {
		if !strings.Contains(heard, want) {
			t.Errorf("nobody heard %q in\n%s", want, heard)
		}
	}
	for run := range 20 {
		before := runtime.GOMAXPROCS(1 + run%2)
		again, other := trace(t, 1)
		runtime.GOMAXPROCS(before)
		if again != hash || other != heard {
			t.Fatalf("run %d has the hash %x, and not %x; heard alike: %t", run, again, hash, other == heard)
		}
	}
}

func TestOtherSeedsOtherRuns(t *testing.T) {
	seen := make(map[uint64]uint64)
	for seed := range uint64(20) {
		hash, _ := trace(t, seed)
		if other, ok := seen[hash]; ok {
			t.Errorf("seeds %d and %d have the hash %x", seed, other, hash)
		}
		seen[hash] = seed
	}
}

func TestSameRunInAnotherProcess(t *testing.T) {
	const env = "BUBBLE_PRINT_TRACE"
	hash, _ := trace(t, 3)
	here := fmt.Sprintf("trace %x\n", hash)
	if os.Getenv(env) != "" {
		fmt.Print(here)
		return
	}
	for _, procs := range []string{"1", "2"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSameRunInAnotherProcess$")
		cmd.Env = append(os.Environ(), env+"=1", "GOMAXPROCS="+procs, "GOGC=5")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if !strings.HasPrefix(string(out), here) {
			t.Errorf("another process with GOMAXPROCS=%s says %q, and this one %q", procs, out, here)
		}
	}
}

// A hash that does not notice what the gate prevents would prove nothing.
func TestWithoutTheGateRunsDiffer(t *testing.T) {
	if n := runtime.GOMAXPROCS(0); n == 1 { // then Go's scheduler has little choice
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	}
	hashes := make(map[uint64]bool)
	const most = 2000 // on a busy machine the scheduler may take turns for long
	for run := 0; run < most && len(hashes) < 2; run++ {
		bubble.Ajar(t, 1, func(b *bubble.Bubble) {
			var all sync.WaitGroup
			for i := range 50 {
				all.Add(1)
				b.Host("a").Go("", func(ctx context.Context) {
					defer all.Done()
					for range i % 7 {
						bubble.Sleep(ctx, time.Millisecond)
					}
				})
			}
			all.Wait()
			hashes[b.Hash()] = true
		})
	}
	if len(hashes) < 2 {
		t.Errorf("%d runs without the gate have one hash", most)
	}
}

// A goroutine that shares memory with another one, and waits by Sleep, needs no lock.
func TestSleepersTakeTurns(t *testing.T) {
	orders := make(map[string]bool)
	for seed := range uint64(10) {
		var first []int
		for range 2 {
			var order []int
			bubble.Test(t, seed, func(b *bubble.Bubble) {
				for i := range 8 {
					b.Go("", func(ctx context.Context) {
						bubble.Sleep(ctx, time.Second)
						order = append(order, i)
					})
				}
				b.Sleep(2 * time.Second)
			})
			if first == nil {
				first = order
			}
			if len(order) != 8 || !slices.Equal(order, first) {
				t.Errorf("seed %d: woken in the order %v, and then %v", seed, first, order)
			}
		}
		orders[fmt.Sprint(first)] = true
	}
	if len(orders) < 5 {
		t.Errorf("ten seeds, and only the orders %v", orders)
	}
}

package simulate_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

func Example() {
	w := simulate.New(simulate.Options{Seed: 7, Timeline: true})
	defer w.Close()
	w.Host("a").Go("worker", func(ctx context.Context) {
		for i := 1; simulate.Sleep(ctx, time.Minute) == nil; i++ {
			simulate.Logf(ctx, "round %d", i)
		}
	})
	w.At(150*time.Second, func() { w.Host("a").Crash() })
	if err := w.Run(24 * time.Hour); err != nil {
		fmt.Println(err)
	}
	_ = w.Timeline().WriteText(os.Stdout)
	// Output:
	//    0.000000s  a              up
	//   60.000019s  a/worker       round 1
	//  120.000032s  a/worker       round 2
	//  150.000000s  a              crash a
}

func ExampleWithTimeout() {
	w := simulate.New(simulate.Options{})
	defer w.Close()
	w.Host("a").Go("main", func(ctx context.Context) {
		short, cancel := simulate.WithTimeout(ctx, time.Second)
		defer cancel()
		fmt.Println(simulate.Sleep(short, time.Hour))
		fmt.Println(simulate.Now(ctx).Round(time.Millisecond))
	})
	fmt.Println(w.Run(time.Minute))
	// Output:
	// context deadline exceeded
	// 1s
	// <nil>
}

func ExampleWait() {
	w := simulate.New(simulate.Options{})
	defer w.Close()
	w.Host("a").Go("main", func(ctx context.Context) {
		done := simulate.Go(ctx, "helper", func(ctx context.Context) {
			_ = simulate.Sleep(ctx, 3*time.Second)
		})
		fmt.Println(simulate.Wait(ctx, done), simulate.Now(ctx).Round(time.Millisecond))
	})
	fmt.Println(w.Run(time.Minute))
	// Output:
	// <nil> 3s
	// <nil>
}

func ExampleWorld_Chaos() {
	w := simulate.New(simulate.Options{Seed: 11, Profile: simulate.Flaky})
	defer w.Close()
	for _, name := range []string{"a", "b", "c"} {
		w.Host(name)
	}
	storm := w.Chaos(simulate.ChaosOptions{For: time.Minute, Without: []string{"crash", "power-off"}})
	fmt.Println(w.Run(2*time.Minute), storm.Over(), storm.Total() > 10, w.Net.Reaches("a", "b"))
	// Output: <nil> true true true
}

func ExampleWorld_Register() {
	w := simulate.New(simulate.Options{})
	defer w.Close()
	disk := w.Register("disk")
	fmt.Println(disk.Write(41), disk.Write(42), disk.Write(41), disk.Refused)
	// Output: true true false 1
}

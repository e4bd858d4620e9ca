package simulate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

func TestProperties(t *testing.T) {
	for _, tt := range []struct {
		name string
		tell func(w *simulate.World)
		want string // how the failure begins; empty: there is none
		last simulate.Property
	}{
		{"always true", func(w *simulate.World) { w.Always("p", true, "not so") }, "", simulate.Property{Name: "p", Kind: simulate.Always, Asked: 1, Met: 1}},
		{"not always true", func(w *simulate.World) {
			w.Always("p", true, "not so")
			w.Always("p", false, "%d apples", 3)
		}, `always "p": 3 apples`, simulate.Property{Name: "p", Kind: simulate.Always, Asked: 2, Met: 1}},
		{"sometimes true", func(w *simulate.World) {
			w.Sometimes("p", false)
			w.Sometimes("p", true)
		}, "", simulate.Property{Name: "p", Kind: simulate.Sometimes, Asked: 2, Met: 1}},
		{"never true", func(w *simulate.World) { w.Sometimes("p", false) }, "", simulate.Property{Name: "p", Kind: simulate.Sometimes, Asked: 1}},
		{"expected, and not reached", func(w *simulate.World) { w.Expect("p") }, "", simulate.Property{Name: "p", Kind: simulate.Expected}},
		{"expected, and reached", func(w *simulate.World) {
			w.Expect("p")
			w.Sometimes("p", true)
			w.Expect("p")
		}, "", simulate.Property{Name: "p", Kind: simulate.Sometimes, Asked: 1, Met: 1}},
		{"two meanings", func(w *simulate.World) {
			w.Sometimes("p", true)
			w.Always("p", true, "")
		}, "simulate: property", simulate.Property{Name: "p", Kind: simulate.Sometimes, Asked: 2, Met: 2}},
	} {
		w := simulate.New(simulate.Options{Timeline: true})
		tt.tell(w)
		all := w.Properties()
		if all[0] != tt.last {
			t.Errorf("%s: %+v, want %+v", tt.name, all[0], tt.last)
		}
		mark := all[len(all)-1]
		if !all[0].Wanted() || mark.Kind != simulate.Mark || mark.Wanted() {
			t.Errorf("%s: %+v", tt.name, all)
		}
		err := w.Run(time.Second)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		w.Close()
	}
}

// A counter that two actors raise without a lock: each claim is made where the code
// knows it, and a world that breaks one fails with the line that repeats it.
func ExampleWorld_Always() {
	w := simulate.New(simulate.Options{Seed: 7})
	defer w.Close()
	counter, want := 0, 0
	raise := func(ctx context.Context) {
		seen := counter
		_ = simulate.Sleep(ctx, time.Millisecond) // the work
		w.Sometimes("somebody else was at work", counter != seen)
		counter = seen + 1
		want++
		w.Always("nothing is lost", counter == want, "the counter is %d, and should be %d", counter, want)
	}
	w.Host("a").Go("worker", raise)
	w.Host("b").Go("worker", raise)
	err := w.Run(time.Second)
	fmt.Println(strings.SplitN(err.Error(), "\n", 2)[0])
	for _, p := range w.Properties() {
		if p.Kind != simulate.Mark {
			fmt.Println(p)
		}
	}
	// Output:
	// always "nothing is lost": the counter is 1, and should be 2
	// sometimes "somebody else was at work": met 1 of 2 times
	// always "nothing is lost": met 1 of 2 times
}

// Code that is given nothing but its context finds its world there.
func ExampleWorldOf() {
	w := simulate.New(simulate.Options{})
	defer w.Close()
	w.Expect("nobody came by")
	w.Host("a").Go("worker", func(ctx context.Context) { simulate.WorldOf(ctx).Sometimes("the worker worked", true) })
	_ = w.Run(time.Second)
	for _, p := range w.Properties()[:2] {
		fmt.Println(p.Kind, p.Name, p.Met)
	}
	// Output:
	// expected nobody came by 0
	// sometimes the worker worked 1
}

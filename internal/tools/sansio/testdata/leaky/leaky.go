// Package leaky does everything that a sans-I/O package must not do, each once.
// What a line ought to be reported for stands at its end.
package leaky

import (
	"context"
	crypto "crypto/rand" // want randomness
	"fmt"
	"log" // want io
	"log/slog"
	"maps"
	old "math/rand" // want randomness
	"math/rand/v2"
	"net"
	"net/http" // want io
	"os"       // want io
	"os/exec"  // want io
	"reflect"
	"runtime/debug" // want io
	"slices"
	"sync"        // want sync
	"sync/atomic" // want sync
	clock "time"

	"github.com/lockmesh/mesh/internal/tools/sansio/testdata/helper" // want import
)

type leak struct {
	mu    sync.Mutex
	count atomic.Int64
	ch    chan int // want channel
	keys  map[string]int
	conn  net.Conn // want io
	http  http.Handler
}

type alias = map[string]int

func (l *leak) threads() {
	go l.clocks() // want goroutine
	select {      // want select
	case v := <-l.ch: // want wait
		_ = v
	default:
	}
	l.ch <- 1        // want wait
	<-l.ch           // want wait
	for range l.ch { // want wait
	}
	close(l.ch)                                  // want channel
	reflect.ValueOf(l.ch).Send(reflect.Value{})  // want wait
	context.AfterFunc(context.Background(), nil) // want goroutine
}

func (l *leak) clocks() {
	_ = clock.Now()               // want clock
	clock.Sleep(helper.Number)    // want clock
	_ = clock.After(1)            // want clock
	_ = clock.Tick(1)             // want clock
	_ = clock.NewTimer(1)         // want clock
	_ = clock.NewTicker(1)        // want clock
	clock.AfterFunc(1, nil)       // want clock
	_ = clock.Since(clock.Time{}) // want clock
	_ = clock.Until(clock.Time{}) // want clock
	now := clock.Now              // want clock
	_ = now
	_, _ = context.WithTimeout(context.Background(), 1)             // want clock
	_, _ = context.WithDeadline(context.Background(), clock.Time{}) // want clock
}

func (l *leak) dice() {
	_ = rand.IntN(6)                   // want randomness
	rand.Shuffle(1, func(int, int) {}) // want randomness
	_ = rand.N[int]                    // want randomness
	_ = old.Int()
	_, _ = crypto.Read(nil)
}

func (l *leak) orders() (names []string) {
	for name := range l.keys { // want map order
		names = append(names, name)
	}
	for name := range alias(l.keys) { // want map order
		names = append(names, name)
	}
	for name := range maps.Keys(l.keys) { // want map order
		names = append(names, name)
	}
	names = slices.Collect(maps.Keys(l.keys)) // want map order
	for range maps.All(l.keys) {              // want map order
	}
	iter := reflect.ValueOf(l.keys).MapRange() // want map order
	_ = iter
	for range l.keys { /* want map order */ // order-free:
	}
	for range l.keys { // order-free: speaks of this line,
		for range l.keys { // want map order
		}
	}
	// order-free: nothing here, want unused
	return names
}

type either interface{ ~map[string]int }

func generic[M either](m M) {
	for range m { // want map order
	}
}

func (l *leak) outputs() {
	fmt.Println(os.Args) // want io
	slog.Info("")        // want io
	log.Print(exec.ErrDot)
	debug.FreeOSMemory()
	_, _ = net.Dial("", "")         // want io
	_, _ = net.LookupHost("")       // want io
	_ = net.DefaultResolver         // want io
	_, _, _ = net.SplitHostPort("") // may be used
}

var _ = generic[alias]

// Package clean does all that a sans-I/O package may do.
package clean

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/tools/sansio/testdata/helper"
)

type table struct {
	keys map[string]int
	rand *rand.Rand
	now  time.Duration
}

func newTable(seed uint64) *table {
	return &table{keys: make(map[string]int), rand: rand.New(rand.NewPCG(seed, helper.Number))}
}

func (t *table) count() (n int) {
	for range t.keys { // order-free: only counts
		n++
	}
	// order-free: a sum is the same
	// in any order
	for _, v := range t.keys {
		n += v
	}
	return n
}

func (t *table) names() []string {
	return slices.Sorted(maps.Keys(t.keys))
}

func (t *table) drop() {
	// order-free: the condition looks at one element
	maps.DeleteFunc(t.keys, func(_ string, v int) bool { return v == 0 })
	for i, name := range t.names() {
		delete(t.keys, strings.Repeat(name, i))
	}
	maps.Copy(t.keys, maps.Clone(t.keys))
	clear(t.keys)
}

func (t *table) step(now time.Duration) error {
	if jitter := t.rand.Int64N(int64(time.Second)); now > t.now+time.Duration(jitter) {
		return fmt.Errorf("late: %w", errors.ErrUnsupported)
	}
	t.now = now
	return context.Cause(context.Background())
}

// Now is not the time: a method of our own may have any name.
func (t *table) Now() time.Duration { return t.now }

// close shadows the builtin.
func run(t *table, close func(time.Duration)) { close(t.Now()) }

var _, _ = newTable, run

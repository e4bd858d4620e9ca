// Package box has functions of every kind that a mutant may change.
package box

import (
	"errors"
	"runtime"
)

// Box is generic.
type Box[T any] struct {
	items []T
	limit int
}

// ErrFull is an error.
var ErrFull = errors.New("full")

// Start is computed before any test runs.
var Start = double(21)

func double(n int) int { return 2 * n }

// New has a type parameter that no argument tells.
func New[T any](limit int) *Box[T] {
	return &Box[T]{limit: limit}
}

// Put has named results, of which a deferred function changes one.
func (b *Box[T]) Put(item T) (n int, err error) {
	defer func() {
		if err != nil {
			n = -1
		}
	}()
	if len(b.items) >= b.limit {
		return len(b.items), ErrFull
	}
	b.items = append(b.items, item)
	return len(b.items), nil
}

// Fill is variadic, and has no result.
func (b *Box[T]) Fill(items ...T) {
	for _, item := range items {
		if _, err := b.Put(item); err != nil {
			break
		}
	}
}

// Len is of a value.
func (b Box[T]) Len() int { return len(b.items) }

// Line returns the line that it ends on.
func Line(n int) (line int, right bool) {
	right = true
	if n < 0 {
		right = n == 0
	}
	// The lines behind here keep their numbers.
	_, _, line, _ = runtime.Caller(0)
	text := `of these
lines`
	return line, right && text != ""
}

// Sum is recursive.
func Sum(numbers ...int) int {
	if len(numbers) == 0 {
		return 0
	}
	return numbers[0] + Sum(numbers[1:]...)
}

func unnamed(int) int { return 1 }

func (Box[T]) nameless() int { return unnamed(1) }

func init() { Start++ }

const (
	first = iota
	second
)

type pair struct{ a, b int }

func (p pair) sum() int { return p.a + p.b + first + second }

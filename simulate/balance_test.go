package simulate

import (
	"slices"
	"testing"
)

// Dials of a balanced address go to all of the others, which need not exist, until that ends.
func TestBalance(t *testing.T) {
	w := New(Options{Seed: 1})
	defer w.Close()
	a, b, c := w.Host("a"), w.Host("b"), w.Host("c")
	reached := func(addr string) (all []string) {
		for range 100 {
			_, where, err := w.Net.resolve(c, addr)
			if err != nil {
				where = err.Error()
			}
			if !slices.Contains(all, where) {
				all = append(all, where)
			}
		}
		slices.Sort(all)
		return all
	}
	want := func(addr string, want ...string) {
		t.Helper()
		if got := reached(addr); !slices.Equal(got, want) {
			t.Errorf("%s leads to %v, want %v", addr, got, want)
		}
	}
	w.Net.Balance("lb:1", a.Name()+":2", b.Name()+":3")
	w.Net.Balance("a:1", "nowhere:1", "localhost:9")
	want("lb:1", "a:2", "b:3")
	want("a:1", "c:9", "lookup nowhere: no such host")
	want("a:2", "a:2")
	w.Net.Balance("a:1")
	want("a:1", "a:1")
	for _, to := range [][]string{{"lb"}, {"lb:1", "a"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Balance(%q): no panic", to)
				}
			}()
			w.Net.Balance(to[0], to[1:]...)
		}()
	}
}

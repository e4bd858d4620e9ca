package shelf

import "testing"

func TestShelf(t *testing.T) {
	s := &Shelf{}
	s.Add(1)
	s.Add(1)
	for item := range 3 {
		if got, want := s.Put(item), item < 2; got != want {
			t.Fatalf("Put(%d) = %v", item, got)
		}
	}
}

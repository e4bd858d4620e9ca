// Package shelf has boxes.
package shelf

import "example.com/tiny/box"

// Shelf is a row of boxes.
type Shelf struct{ boxes []*box.Box[int] }

// Add adds a box for n items.
func (s *Shelf) Add(n int) { s.boxes = append(s.boxes, box.New[int](n)) }

// Put puts an item into the first box with room.
func (s *Shelf) Put(item int) bool {
	for _, b := range s.boxes {
		if _, err := b.Put(item); err == nil {
			return true
		}
	}
	return false
}

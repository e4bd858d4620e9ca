package shard

import "slices"

// list is a doubly linked list whose links lie in its elements, so that an element
// is removed from the middle of a long queue in one step and without a search.
// The zero list is empty. It may change during a walk, but the current element
// must not be removed until next has been called on it.
type list[T any] struct {
	head, tail *place[T]
	len        int
}

// place is what an element embeds. It is in one list at a time.
type place[T any] struct {
	value      T
	prev, succ *place[T]
}

// push appends v, whose place is p.
func (l *list[T]) push(v T, p *place[T]) {
	p.value, p.prev, p.succ = v, l.tail, nil
	if l.tail == nil {
		l.head = p
	} else {
		l.tail.succ = p
	}
	l.tail = p
	l.len++
}

func (l *list[T]) remove(p *place[T]) {
	if p.prev == nil {
		l.head = p.succ
	} else {
		p.prev.succ = p.succ
	}
	if p.succ == nil {
		l.tail = p.prev
	} else {
		p.succ.prev = p.prev
	}
	p.prev, p.succ = nil, nil
	l.len--
}

// sort orders the list. Equal elements stay in their order.
func (l *list[T]) sort(compare func(a, b T) int) {
	all := make([]*place[T], 0, l.len)
	for p := l.head; p != nil; p = p.succ {
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b *place[T]) int { return compare(a.value, b.value) })
	*l = list[T]{}
	for _, p := range all {
		l.push(p.value, p)
	}
}

// first returns the oldest element, or T's zero value.
func (l *list[T]) first() (v T) {
	if l.head != nil {
		v = l.head.value
	}
	return v
}

// next returns the element after p's, or T's zero value.
func (p *place[T]) next() (v T) {
	if p.succ != nil {
		v = p.succ.value
	}
	return v
}

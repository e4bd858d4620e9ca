package client

import (
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
)

// Promise: G5, P8: the belief in a hold ends once, and the first cause counts. Whoever looks at the clock ends it only if its
// deadline has passed.
func TestABeliefEndsOnce(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	if h.End(h.Deadline()-1, fault.ErrLost) || h.Err() != nil {
		t.Errorf("before its deadline: %v", h.Err())
	}
	if !h.End(h.Deadline(), fault.ErrClosed) || h.Err() != fault.ErrClosed {
		t.Errorf("at its deadline: %v", h.Err())
	}
	if h.End(h.Deadline()+time.Second, fault.ErrLost) || h.Err() != fault.ErrClosed {
		t.Errorf("ended again: %v", h.Err())
	}
}

// Promise: P9: a session ends once, and the first cause counts.
func TestASessionEndsOnce(t *testing.T) {
	s, cause := NewSession(false, time.Second), errors.New("first")
	if s.Err() != nil || !s.End(cause) || s.End(fault.ErrLost) || s.Err() != cause {
		t.Errorf("it ended with %v", s.Err())
	}
}

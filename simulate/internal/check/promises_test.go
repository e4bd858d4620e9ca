package check

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// still is a world in which nothing happens, and idle a process in it.
type still struct {
	World
	err error
}

func (*still) Now() time.Duration                          { return 0 }
func (*still) Actor() Actor                                { return nil }
func (*still) Record(timeline.Moment) int                  { return 0 }
func (*still) Bound() time.Duration                        { return 0 }
func (*still) Watch(<-chan struct{}, func()) (stop func()) { return func() {} }
func (s *still) Fail(err error)                            { s.err = err }

type idle struct{ Process }

func (idle) Host() string                      { return "a" }
func (idle) Now() time.Duration                { return 0 }
func (idle) Wall() time.Time                   { return time.Time{} }
func (idle) Truth(time.Duration) time.Duration { return 0 }
func (idle) Dead() bool                        { return false }

// held is a hold that lasts.
type held struct{ token uint64 }

func (h held) Token() uint64          { return h.token }
func (held) Context() context.Context { return context.Background() }
func (held) Deadline() time.Time      { return time.Unix(0, 0) }

// A resource that has seen a later token of a holder which excludes all others refuses one that is late.
func TestALateGrantMeetsTheFence(t *testing.T) {
	w := &still{}
	h := New(w)
	x := h.Call(idle{}, Permits("k", 1, 2)).Returned(held{5}, nil)
	if w.err != nil {
		t.Fatal(w.err)
	}
	x.key.exclusive = 7 // as if the resource had seen it
	if x.Use(); w.err == nil || !strings.Contains(w.err.Error(), "fence") {
		t.Errorf("the run fails with %v", w.err)
	}
}

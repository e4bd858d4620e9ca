package meshtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/meshtest"
)

// The adapter of the Example, as any program has it.
var _ meshtest.Locker = NodeLocker{}

func nothing(context.Context) error { return nil }

func TestAFakeServesFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f meshtest.Fake
		var order []string
		var all sync.WaitGroup
		for _, name := range []string{"ann", "bob", "eve", "joe"} {
			all.Go(func() {
				err := f.Do(t.Context(), "k", func(context.Context) error {
					order = append(order, name)
					time.Sleep(time.Second)
					return nil
				})
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			synctest.Wait() // it holds the key, or waits
		}
		if err := f.Do(t.Context(), "another key", nothing); err != nil {
			t.Error(err)
		}
		all.Wait()
		if want := []string{"ann", "bob", "eve", "joe"}; !slices.Equal(order, want) {
			t.Errorf("served %q, want %q", order, want)
		}
	})
}

// A call whose context ends while it waits keeps no place: not in the middle of the queue, and not at its head.
func TestACancelledCallOfAFakeKeepsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f meshtest.Fake
		release := make(chan struct{})
		hold := func(ctx context.Context) error {
			<-release
			return nil
		}
		errs := make([]error, 4)
		var all sync.WaitGroup
		for i, patience := range []time.Duration{time.Hour, time.Second, time.Second, time.Hour} {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				errs[i] = f.Do(ctx, "k", hold)
			})
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		close(release)
		all.Wait()
		for i, want := range []error{nil, context.DeadlineExceeded, context.DeadlineExceeded, nil} {
			if !errors.Is(errs[i], want) {
				t.Errorf("call %d = %v, want %v", i, errs[i], want)
			}
		}
	})
}

// Lose ends the holder's context, and the key goes on though the function has not returned.
func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f meshtest.Fake
		if f.Lose("k") {
			t.Error("Lose of a free key = true")
		}
		failed := errors.New("failed")
		results := map[string]error{"returns nil": nil, "returns an error": failed, "returns the cause": nil, "panics": nil}
		for _, what := range []string{"returns nil", "returns an error", "returns the cause", "panics"} {
			done, told := make(chan error), make(chan struct{})
			go func() {
				defer func() {
					if recover() != nil {
						done <- mesh.ErrLost
					}
				}()
				done <- f.Do(t.Context(), "k", func(ctx context.Context) error {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), mesh.ErrLost) {
						t.Errorf("the cause is %v, want ErrLost", context.Cause(ctx))
					}
					<-told
					switch what {
					case "returns the cause":
						return context.Cause(ctx)
					case "panics":
						panic("boom")
					}
					return results[what]
				})
			}()
			synctest.Wait()
			next := make(chan error)
			go func() { next <- f.Do(t.Context(), "k", nothing) }()
			synctest.Wait()
			if !f.Lose("k") {
				t.Error("Lose of a held key = false")
			}
			if err := <-next; err != nil {
				t.Errorf("the next one = %v", err)
			}
			if f.Lose("k") {
				t.Error("Lose takes a key from nobody")
			}
			close(told)
			err := <-done
			if !errors.Is(err, mesh.ErrLost) || results[what] != nil && !errors.Is(err, results[what]) {
				t.Errorf("Do of a function that %s = %v", what, err)
			}
			if n := strings.Count(err.Error(), mesh.ErrLost.Error()); n != 1 {
				t.Errorf("%q says %d times that the lock was lost", err, n)
			}
		}
	})
}

func TestAFakeGoesOnAfterAPanic(t *testing.T) {
	var f meshtest.Fake
	func() {
		defer func() { recover() }()
		_ = f.Do(t.Context(), "k", func(context.Context) error { panic("boom") })
	}()
	if err := f.Do(t.Context(), "k", nothing); err != nil {
		t.Error(err)
	}
}

// A context that outlives its hold has ended, and no longer counts as one that holds the key.
func TestTheContextOfAFakeEndsWithTheHold(t *testing.T) {
	var f meshtest.Fake
	var kept context.Context
	if err := f.Do(t.Context(), "k", func(ctx context.Context) error { kept = ctx; return ctx.Err() }); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(context.Cause(kept), context.Canceled) {
		t.Errorf("the cause is %v, want Canceled", context.Cause(kept))
	}
	if err := f.Do(context.WithoutCancel(kept), "k", nothing); err != nil {
		t.Errorf("Do with the values of a hold that is over = %v", err)
	}
}

func TestAFakeExcludes(t *testing.T) {
	var f meshtest.Fake
	var inside atomic.Int32
	var all sync.WaitGroup
	served := 0
	for range 8 {
		all.Go(func() {
			for i := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 0 {
					go cancel()
				}
				err := f.Do(ctx, "k", func(context.Context) error {
					if inside.Add(1) != 1 {
						t.Error("two hold the key")
					}
					served++ // the race detector looks
					inside.Add(-1)
					return nil
				})
				if cancel(); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if served < 8*400 {
		t.Errorf("served %d times", served)
	}
}

// A Fake and a node answer alike, so that what a unit test shows holds for the mesh.
func TestAFakeAnswersAsANodeDoes(t *testing.T) {
	failed := errors.New("failed")
	ended, end := context.WithCancel(t.Context())
	end()
	var none context.Context
	lockers := map[string]meshtest.Locker{"fake": new(meshtest.Fake), "node": meshtest.LockerOf(meshtest.Fleet(t, 1).Node(0))}
	for _, tt := range []struct {
		name string
		do   func(l meshtest.Locker) error
		want []error // all of them; none: nil
	}{
		{"a call", func(l meshtest.Locker) error { return l.Do(t.Context(), "k", nothing) }, nil},
		{"the longest key", func(l meshtest.Locker) error { return l.Do(t.Context(), strings.Repeat("k", 1024), nothing) }, nil},
		{"a function that fails", func(l meshtest.Locker) error {
			return l.Do(t.Context(), "k", func(context.Context) error { return failed })
		}, []error{failed}},
		{"no function", func(l meshtest.Locker) error { return l.Do(t.Context(), "k", nil) }, []error{mesh.ErrInvalidOption}},
		{"no context", func(l meshtest.Locker) error { return l.Do(none, "k", nothing) }, []error{mesh.ErrInvalidOption}},
		{"no key", func(l meshtest.Locker) error { return l.Do(t.Context(), "", nothing) }, []error{mesh.ErrInvalidKey}},
		{"a key that is too long", func(l meshtest.Locker) error { return l.Do(t.Context(), strings.Repeat("k", 1025), nothing) }, []error{mesh.ErrInvalidKey}},
		{"a context that has ended", func(l meshtest.Locker) error { return l.Do(ended, "k", nothing) }, []error{context.Canceled}},
		{"a wait that is cut short", func(l meshtest.Locker) error {
			return l.Do(t.Context(), "k", func(context.Context) error {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				return l.Do(ctx, "k", nothing)
			})
		}, []error{context.DeadlineExceeded}},
		{"a context that holds the key", func(l meshtest.Locker) error {
			return l.Do(t.Context(), "k", func(ctx context.Context) error { return l.Do(ctx, "k", nothing) })
		}, []error{mesh.ErrSelfDeadlock}},
		{"one that holds it below another key", func(l meshtest.Locker) error {
			return l.Do(t.Context(), "k", func(ctx context.Context) error {
				return l.Do(ctx, "other", func(ctx context.Context) error { return l.Do(ctx, "k", nothing) })
			})
		}, []error{mesh.ErrSelfDeadlock}},
		{"a context that ends during the work", func(l meshtest.Locker) error {
			ctx, cancel := context.WithCancel(t.Context())
			return l.Do(ctx, "k", func(ctx context.Context) error {
				cancel()
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}, []error{context.Canceled}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, l := range lockers {
				err := tt.do(l)
				if (err == nil) != (tt.want == nil) {
					t.Errorf("%s: %v, want %v", name, err, tt.want)
				}
				for _, want := range tt.want {
					if !errors.Is(err, want) {
						t.Errorf("%s: %v, want %v", name, err, want)
					}
				}
			}
		})
	}
}

// LockerOf passes options on; a lock that is lost shows as with a Fake.
func TestALockerOfANodeLoses(t *testing.T) {
	l := meshtest.LockerOf(meshtest.Fleet(t, 1).Node(0), mesh.MaxHold(100*time.Millisecond))
	err := l.Do(within(t), "k", func(ctx context.Context) error {
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), mesh.ErrLost) {
			t.Errorf("the cause is %v, want ErrLost", context.Cause(ctx))
		}
		return nil
	})
	if !errors.Is(err, mesh.ErrLost) {
		t.Errorf("Do = %v, want ErrLost", err)
	}
}

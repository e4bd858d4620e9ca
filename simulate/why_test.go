package simulate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/story"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// told plays a story, and returns its timeline.
func told(t *testing.T, text string) *timeline.Timeline {
	t.Helper()
	s, err := story.Parse("told", []byte("# Promise: None.\n# Method:  As it says.\n\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	run := s.Play(simulate.Options{Seed: 1, Timeline: true})
	if run.Err != nil {
		t.Fatal(run.Err)
	}
	if err := run.Timeline.Check(); err != nil {
		t.Fatal(err)
	}
	return run.Timeline
}

// last returns the last moment of a kind on a host that is about key.
func last(t *testing.T, tl *timeline.Timeline, kind timeline.Kind, host, key string) *timeline.Moment {
	t.Helper()
	for _, m := range slices.Backward(tl.Moments) {
		if m.Kind == kind && m.Host == host && m.Key == key {
			return tl.Moment(m.ID)
		}
	}
	t.Fatalf("no moment is %v of %q on %s", kind, key, host)
	return nil
}

// chain puts what led to a moment into words, from the latest moment that begins with from
// on.
func chain(tl *timeline.Timeline, m *timeline.Moment, from string) (words []string) {
	for _, id := range tl.Chain(m.ID) {
		c := tl.Moment(id)
		text := c.Kind.String() + " " + c.Text
		if c.Kind == timeline.Arrived {
			text = "arrived " + tl.Moment(c.Frame).Text
		}
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, from) {
			words = nil
		}
		words = append(words, text)
	}
	return words
}

func TestWhatLedToAHold(t *testing.T) {
	tl := told(t, `mesh owner heir third; clients ann bob
----
founded; owner leads

ann locks k
----
ann holds k
`)
	got := chain(tl, last(t, tl, timeline.Held, "ann", "k"), "called")
	want := []string{
		"called lock", "sent lock k", "arrived lock k", "sent append 1", "arrived append 1",
		"sent appended", "arrived appended", "sent granted k", "arrived granted k", "held lock",
	}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A frame is due to the call that it is sent for. When the clock repeats it, no reason is known.
func TestWhatLedToARetry(t *testing.T) {
	tl := told(t, `mesh owner heir third; clients ann bob
----
founded; owner leads

ann locks k
drop unlock requests of k from ann to owner, 2 times
ann unlocks k
----
ann holds k
ann has unlocked k
`)
	unlocked, sent := last(t, tl, timeline.Unlocked, "ann", "k"), 0
	for _, m := range tl.Moments {
		if m.Kind == timeline.Sent && m.Host == "ann" && strings.HasPrefix(m.Text, "unlock k") {
			want := 0
			if sent++; sent == 1 {
				want = unlocked.ID
			}
			if m.Cause != want {
				t.Errorf("unlock request %d is due to moment %d, want %d", sent, m.Cause, want)
			}
		}
	}
	if sent != 3 {
		t.Errorf("%d unlock requests, want 3", sent)
	}
}

// What arrives together is worked on together, and its effects are due to what arrived last.
func TestWhatLedToABatch(t *testing.T) {
	tl := told(t, `mesh owner; clients ann; replicas 1
----
founded; owner leads

owner locks k
owner locks j
owner locks i
pause owner
ann asks for k
pass 50ms
ann asks for j
pass 50ms
ann asks for i
pass 50ms
resume owner
until 1 wait for i, within 1s
`+"----\nowner holds k\nowner holds j\nowner holds i\n")
	at := make(map[time.Duration]bool)
	led := make(map[int]bool)
	for _, key := range []string{"k", "j", "i"} {
		var depth *timeline.Moment
		for i := range tl.Moments {
			if m := &tl.Moments[i]; m.Kind == timeline.Depth && m.Key == key && m.Depth == 1 {
				depth = m
			}
		}
		at[depth.At], led[depth.Cause] = true, true
		cause := tl.Moment(depth.Cause)
		if cause.Kind != timeline.Arrived || !strings.HasPrefix(tl.Moment(cause.Frame).Text, "lock ") {
			t.Errorf("that somebody waits for %q is due to %v %q", key, cause.Kind, cause.Text)
		}
	}
	if len(at) > 1 || len(led) > 1 {
		t.Errorf("no batch, or several reasons: %v, %v", at, led)
	}
}

func TestWhatLedToALoss(t *testing.T) {
	tl := told(t, `mesh owner heir third; clients ann bob
----
founded; owner leads

ann locks k
pause ann
pass 6s
resume ann
pass 1s
ann must have lost k
----
ann holds k
`)
	got := chain(tl, last(t, tl, timeline.HoldEnded, "ann", "k"), "fault")
	if want := []string{"fault pause ann", "ended resume ann", "resumed", "hold ended"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// An actor that asks again, with nothing in hand, begins anew; one that holds something does not.
func TestWhatLedToACall(t *testing.T) {
	w := simulate.New(simulate.Options{Seed: 1, Timeline: true})
	defer w.Close()
	w.Host("a").Go("worker", func(ctx context.Context) {
		node, err := mesh.JoinContext(ctx, nil, mesh.WithBind(":7400"), mesh.WithFound())
		if err != nil {
			t.Error(err)
			return
		}
		for range 2 {
			outer, err := node.Lock(ctx, "outer")
			if err != nil {
				t.Error(err)
				return
			}
			inner, err := node.Lock(ctx, "inner")
			if err != nil {
				t.Error(err)
				return
			}
			_ = inner.Unlock(ctx)
			_ = outer.Unlock(ctx)
			_ = simulate.Sleep(ctx, time.Second)
		}
	})
	if err := w.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	outer, inner := 0, 0
	tl := w.Timeline()
	for _, m := range tl.Moments {
		led := tl.Moment(m.Cause)
		switch {
		case m.Kind != timeline.Called:
		case m.Key == "outer":
			if outer++; outer == 2 && led != nil {
				t.Errorf("the second task is due to moment %d, %v %q", led.ID, led.Kind, led.Key)
			}
		default:
			if inner++; led == nil || led.Kind != timeline.Held || led.Key != "outer" {
				t.Errorf("the call for the inner lock is due to moment %d", m.Cause)
			}
		}
	}
	if outer != 2 || inner != 2 {
		t.Errorf("%d and %d calls, want 2 of each", outer, inner)
	}
}

// branches demands that an account is a tree: what is only seen, said or sent in an event
// brings nothing else about, and a storm's faults not each other.
func branches(t *testing.T, tl *timeline.Timeline) {
	t.Helper()
	for _, m := range tl.Moments {
		cause := tl.Moment(m.Cause)
		if cause == nil {
			continue
		}
		wrong := false
		switch cause.Kind {
		case timeline.Sent:
			wrong = m.Frame != cause.ID
		case timeline.Lost, timeline.Depth, timeline.Site, timeline.Note, timeline.HoldEnded:
			wrong = true
		case timeline.Fault, timeline.Struck:
			wrong = m.Kind == timeline.Fault || m.Kind == timeline.Struck
		}
		if wrong {
			t.Fatalf("seed %d: moment %d, %v %q, is due to moment %d, %v %q", tl.Seed, m.ID, m.Kind, m.Text, cause.ID, cause.Kind, cause.Text)
		}
	}
}

package mesh_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
)

// Promise: wrong input to a latch or a barrier is an error, and nothing is sent.
func TestWrongLatchesAndBarriers(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	long := strings.Repeat("x", 1025)
	for name, tt := range map[string]struct {
		l    *mesh.Latch
		want error
	}{
		"an empty name":       {n.Latch("", 1), mesh.ErrInvalidKey},
		"a long name":         {n.Latch(long, 1), mesh.ErrInvalidKey},
		"nobody":              {n.Latch("l", 0), mesh.ErrInvalidOption},
		"fewer":               {n.Latch("l", -1), mesh.ErrInvalidOption},
		"too many":            {n.Latch("l", 1025), mesh.ErrInvalidOption},
		"a nil option":        {n.Latch("l", 1, nil), mesh.ErrInvalidOption},
		"open for no time":    {n.Latch("l", 1, mesh.OpenFor(0)), mesh.ErrInvalidOption},
		"open for less":       {n.Latch("l", 1, mesh.OpenFor(-time.Hour)), mesh.ErrInvalidOption},
		"open for ages":       {n.Latch("l", 1, mesh.OpenFor(366*24*time.Hour)), mesh.ErrInvalidOption},
		"the first wrong one": {n.Latch("", 0, nil), mesh.ErrInvalidKey},
		"a nil Latch":         {nil, mesh.ErrClosed},
		"a zero Latch":        {&mesh.Latch{}, mesh.ErrClosed},
		"a zero Session's":    {(&mesh.Session{}).Latch("l", 1), mesh.ErrClosed},
		"a nil Session's":     {(*mesh.Session)(nil).Latch("l", 1), mesh.ErrClosed},
	} {
		if err := tt.l.Arrive(ctx, "ann"); !errors.Is(err, tt.want) {
			t.Errorf("%s: Arrive returns %v, want %v", name, err, tt.want)
		}
		if err := tt.l.Wait(ctx); !errors.Is(err, tt.want) {
			t.Errorf("%s: Wait returns %v, want %v", name, err, tt.want)
		}
	}
	l := n.Latch("l", 1)
	for _, who := range []string{"", long[:256]} {
		if err := l.Arrive(ctx, who); !errors.Is(err, mesh.ErrInvalidOption) {
			t.Errorf("an arrival of %d bytes: %v", len(who), err)
		}
	}
	for name, tt := range map[string]struct {
		b    *mesh.Barrier
		want error
	}{
		"an empty name":    {n.Barrier("", 1), mesh.ErrInvalidKey},
		"a long name":      {n.Barrier(long, 1), mesh.ErrInvalidKey},
		"nobody":           {n.Barrier("b", 0), mesh.ErrInvalidOption},
		"fewer":            {n.Barrier("b", -1), mesh.ErrInvalidOption},
		"too many":         {n.Barrier("b", 1025), mesh.ErrInvalidOption},
		"a nil Barrier":    {nil, mesh.ErrClosed},
		"a zero Barrier":   {&mesh.Barrier{}, mesh.ErrClosed},
		"a zero Session's": {(&mesh.Session{}).Barrier("b", 1), mesh.ErrClosed},
		"a nil Session's":  {(*mesh.Session)(nil).Barrier("b", 1), mesh.ErrClosed},
	} {
		if p, err := tt.b.Enter(ctx); p != nil || !errors.Is(err, tt.want) {
			t.Errorf("%s: Enter returns %v, %v, want %v", name, p, err, tt.want)
		}
	}
	//lint:ignore SA1012 that is what is tried
	_, enterErr := n.Barrier("b", 1).Enter(nil) //nolint:staticcheck
	//lint:ignore SA1012 that is what is tried
	for _, err := range []error{l.Arrive(nil, "ann"), l.Wait(nil), enterErr} { //nolint:staticcheck
		if !errors.Is(err, mesh.ErrInvalidOption) {
			t.Errorf("no context: %v", err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, enterErr = n.Barrier("b", 1).Enter(ended)
	for _, err := range []error{l.Arrive(ended, "ann"), l.Wait(ended), enterErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
	}
	for _, p := range []*mesh.Passage{nil, {}} {
		if p.Token() != 0 || p.Context().Err() == nil || p.Err() != mesh.ErrClosed || p.Leave(ctx) != mesh.ErrClosed {
			t.Errorf("%+v", p)
		}
		select {
		case <-p.Lost():
			t.Error("a zero passage is lost")
		default:
		}
	}
}

// Promise: P38: a key is a latch, a barrier, or something else, of one size.
func TestLatchAndBarrierAlone(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	l := n.Latch("l", 2)
	for _, who := range []string{"ann", "ann"} {
		if err := l.Arrive(ctx, who); err != nil {
			t.Error(err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	var wait *mesh.WaitError
	if err := l.Wait(short); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &wait) || !wait.Queued {
		t.Errorf("one name has come, and the latch lets through: %v", err)
	}
	for _, err := range []error{n.Latch("l", 3).Wait(ctx), n.Latch("l", 3).Arrive(ctx, "bob")} {
		if !errors.Is(err, mesh.ErrCapacityMismatch) {
			t.Errorf("a latch of another size: %v", err)
		}
	}
	if _, err := n.Barrier("l", 2).Enter(ctx); !errors.Is(err, mesh.ErrCapacityMismatch) {
		t.Errorf("a latch is entered: %v", err)
	}
	if err := errors.Join(l.Arrive(ctx, "bob"), l.Wait(ctx), l.Arrive(ctx, "eve"), l.Wait(ctx)); err != nil {
		t.Errorf("two have come: %v", err)
	}
	if _, err := n.Lock(ctx, "l"); !errors.Is(err, mesh.ErrCapacityMismatch) {
		t.Errorf("an open latch is locked: %v", err)
	}

	b := n.Barrier("b", 1)
	p, err := b.Enter(ctx)
	if err != nil || p.Token() == 0 || p.Err() != nil || p.Context().Err() != nil {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := b.Enter(p.Context()); !errors.Is(err, mesh.ErrSelfDeadlock) {
		t.Errorf("entered from inside: %v", err)
	}
	if _, err := n.Barrier("b", 2).Enter(p.Context()); !errors.Is(err, mesh.ErrCapacityMismatch) {
		t.Errorf("entered from inside, as another one: %v", err)
	}
	if _, err := n.Lock(p.Context(), "b"); !errors.Is(err, mesh.ErrCapacityMismatch) {
		t.Errorf("locked from inside: %v", err)
	}
	if _, err := n.Acquire(ctx, "b", 1, 1); !errors.Is(err, mesh.ErrCapacityMismatch) {
		t.Errorf("a barrier is a semaphore: %v", err)
	}
	if err := p.Leave(p.Context()); err != nil || p.Err() != mesh.ErrClosed || p.Context().Err() == nil {
		t.Errorf("left with %v: %v", err, p.Err())
	}
	q, err := b.Enter(ctx)
	if err != nil || q.Token() <= p.Token() {
		t.Fatalf("the next round: %d after %d, %v", q.Token(), p.Token(), err)
	}
}

package lockhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/lockhttp"
)

func (f *fleet) guest(name string, first int) *lockhttp.Client {
	c := &lockhttp.Client{NodeID: name, RetryInterval: 50 * time.Millisecond, PollInterval: 500 * time.Millisecond}
	for i := range f.servers {
		c.Servers = append(c.Servers, f.servers[(first+i)%len(f.servers)].URL)
	}
	return c
}

func TestClient(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	ann, bob := f.guest("ann", 0), f.guest("bob", 1)
	pull := lockhttp.Request{Type: "pull", ResourceID: "image"}
	failure := errors.New("no network")
	if ran, err := ann.Do(t.Context(), pull, func(context.Context, lockhttp.State) error { return failure }); !ran || !errors.Is(err, failure) {
		t.Errorf("ann's pull: %v, %v", ran, err)
	}
	began := make(chan bool)
	go func() {
		ran, err := ann.Do(t.Context(), pull, func(ctx context.Context, s lockhttp.State) error {
			close(began)
			time.Sleep(lease * 3 / 2) // for which the lease must be renewed
			return ctx.Err()
		})
		if !ran || err != nil {
			t.Errorf("ann's second pull: %v, %v", ran, err)
		}
	}()
	<-began
	if ran, err := bob.Do(t.Context(), pull, nil); ran || err != nil {
		t.Errorf("bob's pull: %v, %v", ran, err)
	}
	users, err := bob.Refs(t.Context(), "image")
	if err != nil || len(users) != 2 {
		t.Errorf("the users: %v, %v", users, err)
	}
	var used *lockhttp.Error
	if _, err := bob.Do(t.Context(), lockhttp.Request{Type: "delete", ResourceID: "image"}, nil); !errors.As(err, &used) || used.Code != lockhttp.CodeInUse || len(used.Users) != 2 {
		t.Errorf("bob's delete: %v", err)
	}
	if err := errors.Join(ann.Release(t.Context(), "image", ""), bob.Release(t.Context(), "image", "")); err != nil {
		t.Error(err)
	}
}

// A server is killed while a guest holds a lock: the guest goes on with another one.
func TestAClientChangesItsServer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5)
	ann, bob := f.guest("ann", 3), f.guest("bob", 0)
	lock := lockhttp.Request{Type: "lock", ResourceID: "k"}
	waits := make(chan error)
	_, err := ann.Do(t.Context(), lock, func(ctx context.Context, s lockhttp.State) error {
		go func() {
			_, err := bob.Do(t.Context(), lock, func(_ context.Context, next lockhttp.State) error {
				if next.Token <= s.Token {
					t.Errorf("token %d after %d", next.Token, s.Token)
				}
				return nil
			})
			waits <- err
		}()
		f.servers[3].CloseClientConnections()
		f.servers[3].Close()
		_ = f.nodes[3].Close()
		time.Sleep(2 * lease)
		return ctx.Err()
	})
	if err != nil {
		t.Errorf("ann: %v", err)
	}
	if err := <-waits; err != nil {
		t.Errorf("bob: %v", err)
	}
}

func TestAClientGivesUp(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer down.Close()
	c := &lockhttp.Client{Servers: []string{down.URL}, NodeID: "ann", MaxRetries: 2, RetryInterval: time.Millisecond}
	_, err := c.Ask(t.Context(), lockhttp.Request{Type: "lock", ResourceID: "k"})
	if err == nil || !strings.Contains(err.Error(), "POST /lock: retried 2 times: ") || asked.Load() != 3 {
		t.Errorf("after %d requests: %v", asked.Load(), err)
	}
	c.MaxRetries = -1
	if _, err := c.Look(t.Context(), lockhttp.Request{Type: "lock", ResourceID: "k"}); err == nil || !strings.Contains(err.Error(), "retried 0 times") {
		t.Error(err)
	}
	if _, err := (&lockhttp.Client{NodeID: "ann"}).Renew(t.Context()); err == nil {
		t.Error("a client without servers")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c.MaxRetries = 1 << 20
	if _, err := c.Ask(ctx, lockhttp.Request{Type: "lock", ResourceID: "k"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Who does not wait any more leaves the queue.
func TestAClientLeavesTheQueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ann, bob, cid := f.guest("ann", 0), f.guest("bob", 0), f.guest("cid", 0)
	lock := lockhttp.Request{Type: "lock", ResourceID: "k"}
	_, err := ann.Do(t.Context(), lock, func(ctx context.Context, s lockhttp.State) error {
		within, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if _, err := bob.Wait(within, lock); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("bob: %v", err)
		}
		s, err := cid.Ask(ctx, lock)
		if s.State != "waiting" || s.Ahead != 0 {
			t.Errorf("cid: %+v, %v", s, err)
		}
		return cid.Leave(ctx, lock)
	})
	if err != nil {
		t.Error(err)
	}
}

package lockhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/mesh/lockhttp"
)

// renewals counts the renewals that servers have answered.
type renewals struct{ answered chan struct{} }

// RoundTrip implements http.RoundTripper.
func (r renewals) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusOK && req.URL.Path == "/renew" {
		r.answered <- struct{}{}
	}
	return res, err
}

// outlasts waits for renewals until the lease would have ended without them. Its error says why ctx did not last.
func (r renewals) outlasts(ctx context.Context) error {
	for began := time.Now(); time.Since(began) <= lease; {
		select {
		case <-r.answered:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return ctx.Err()
}

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
	renewed := renewals{make(chan struct{}, 100)}
	ann.HTTP = &http.Client{Transport: renewed}
	pull := lockhttp.Request{Type: "pull", ResourceID: "image"}
	failure := errors.New("no network")
	if ran, err := ann.Do(t.Context(), pull, func(context.Context, lockhttp.State) error { return failure }); !ran || !errors.Is(err, failure) {
		t.Errorf("ann's pull: %v, %v", ran, err)
	}
	began := make(chan bool)
	go func() {
		ran, err := ann.Do(t.Context(), pull, func(ctx context.Context, s lockhttp.State) error {
			close(began)
			return renewed.outlasts(ctx)
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
	renewed := renewals{make(chan struct{}, 100)}
	ann.HTTP = &http.Client{Transport: renewed}
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
		f.Kill(3)
		return renewed.outlasts(ctx)
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

// A caller that gives up its wait leaves the queue.
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

// A Wait that comes to nothing keeps no place in the queue: what is granted later would be held by no caller, for as long as
// the guest renews its lease for something else.
func TestAWaitThatFailsLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := false
		c := &lockhttp.Client{Servers: []string{"http://server"}, NodeID: "ann", MaxRetries: 1}
		c.HTTP = &http.Client{Transport: answers(func(r *http.Request) (string, error) {
			switch r.Method {
			case "POST":
				return `{"state":"waiting","lease_ms":3000}`, nil
			case "DELETE":
				left = true
				return `{"state":"none","lease_ms":3000}`, nil
			}
			return "", errors.New("it does not answer")
		})}
		if s, err := c.Wait(t.Context(), lockhttp.Request{Type: "lock", ResourceID: "k"}); err == nil || !left {
			t.Errorf("%+v, %v; it has left the queue: %v", s, err, left)
		}
	})
}

// A server may put its answer off for as long as a question asks, beside what a try may take: such a question is not cut off.
func TestAQuestionThatWaitsForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &lockhttp.Client{Servers: []string{"http://server"}, NodeID: "ann", MaxRetries: -1, RequestTimeout: 5 * time.Second, PollInterval: 20 * time.Second}
		c.HTTP = &http.Client{Transport: answers(func(r *http.Request) (string, error) {
			answer, put := `{"state":"waiting","lease_ms":90000}`, 7*time.Second // of r.WaitMS
			if r.Method == "GET" {
				answer, put = `{"state":"running","acquired":true,"token":7,"lease_ms":90000}`, 24*time.Second
			}
			select {
			case <-time.After(put):
				return answer, nil
			case <-r.Context().Done():
				return "", r.Context().Err()
			}
		})}
		s, err := c.Wait(t.Context(), lockhttp.Request{Type: "lock", ResourceID: "k", WaitMS: 3000})
		if err != nil || s.Token != 7 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// What comes without a lease is held for no time: its function is not called, and it is given back.
func TestAClientIsToldNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &lockhttp.Client{Servers: []string{"http://server"}, NodeID: "ann"}
		ended := false
		c.HTTP = &http.Client{Transport: answers(func(r *http.Request) (string, error) {
			if body, _ := io.ReadAll(r.Body); r.URL.Path == "/unlock" {
				ended = strings.Contains(string(body), `"token":7`) // without it, a late copy would end what comes afterwards
				return `{"state":"done"}`, nil
			}
			return `{"state":"running","acquired":true,"token":7}`, nil
		})}
		ran, err := c.Do(t.Context(), lockhttp.Request{Type: "lock", ResourceID: "k"}, func(context.Context, lockhttp.State) error { return nil })
		if ran || !ended || !errors.Is(err, lockhttp.ErrLeaseEnded) {
			t.Errorf("%v, %v; ended %v", ran, err, ended)
		}
	})
}

// A server says of one lock that it is lost: none, another state, or another token. All of the guest's functions stop, whichever of them
// has asked.
func TestAClientHearsOfALoss(t *testing.T) {
	for _, lost := range []string{`{"state":"none"}`, `{"state":"done","token":7}`, `{"state":"running","acquired":true,"token":9}`} {
		synctest.Test(t, func(t *testing.T) {
			c := &lockhttp.Client{Servers: []string{"http://server"}, NodeID: "ann"}
			c.HTTP = &http.Client{Transport: answers(func(r *http.Request) (string, error) {
				body, _ := io.ReadAll(r.Body)
				if r.URL.Path != "/renew" {
					return `{"state":"running","acquired":true,"token":7,"lease_ms":3000}`, nil
				}
				var q struct{ Locks []lockhttp.Request }
				_ = json.Unmarshal(body, &q)
				var states []string
				for _, l := range q.Locks {
					state := `{"state":"running","acquired":true,"token":7}`
					if l.ResourceID == "b" {
						state = lost
					}
					states = append(states, state)
				}
				return `{"lease_ms":3000,"locks":[` + strings.Join(states, ",") + `]}`, nil
			})}
			do := func(key string) {
				began := time.Now()
				_, err := c.Do(t.Context(), lockhttp.Request{Type: "lock", ResourceID: key}, func(ctx context.Context, _ lockhttp.State) error {
					select {
					case <-ctx.Done():
					case <-time.After(time.Minute): // it hears of nothing
					}
					return context.Cause(ctx)
				})
				if took := time.Since(began); !errors.Is(err, lockhttp.ErrLeaseEnded) || took > 2*time.Second {
					t.Errorf("%s: b is lost, and the function of %s ends after %v: %v", lost, key, took, err)
				}
			}
			var done sync.WaitGroup
			done.Go(func() { do("a") })
			time.Sleep(500 * time.Millisecond)
			do("b")
			done.Wait()
		})
	}
}

// A renewal is repeated, at the next server, while the guest gets something else. It names what the guest holds by then; an answer about less
// extends nothing.
func TestARenewalNamesWhatIsHeldByThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &lockhttp.Client{Servers: []string{"http://a", "http://b"}, NodeID: "ann", RetryInterval: 100 * time.Millisecond}
		c.HTTP = &http.Client{Transport: answers(func(r *http.Request) (string, error) {
			body, _ := io.ReadAll(r.Body)
			switch {
			case r.URL.Path == "/lock":
				return `{"state":"running","acquired":true,"token":7,"lease_ms":3000}`, nil
			case r.URL.Path != "/renew":
				return `{"state":"done"}`, nil
			case r.URL.Host == "a":
				time.Sleep(500 * time.Millisecond)
				return "", errors.New("it is killed")
			case !strings.Contains(string(body), `"k2"`):
				t.Errorf("the other server hears %s, and the guest holds k2 as well", body)
			}
			time.Sleep(200 * time.Millisecond)
			return `{"lease_ms":30000,"locks":[]}`, nil
		})}
		ask := func(key string) {
			_, err := c.Ask(t.Context(), lockhttp.Request{Type: "lock", ResourceID: key})
			if err != nil {
				t.Error(err)
			}
		}
		ask("k1")
		var renewing sync.WaitGroup
		renewing.Go(func() { _, _ = c.Renew(t.Context()) })
		time.Sleep(300 * time.Millisecond)
		ask("k2") // while a has the renewal
		time.Sleep(400 * time.Millisecond)
		ask("k3") // while b has it
		began := time.Now()
		renewing.Wait()
		_, _ = c.Do(t.Context(), lockhttp.Request{Type: "lock", ResourceID: "k3"}, func(ctx context.Context, _ lockhttp.State) error {
			return nil
		})
		if left := lockhttp.LeaseLeft(c); left > 3*time.Second {
			t.Errorf("an answer that is not about k3 has extended it: %v are left, %v after", left, time.Since(began))
		}
	})
}

// A caller gives up its wait. Its server has answered all the time, so the guest stays there: a move costs a message to every shard.
func TestACallerThatGivesUpDoesNotMoveTheGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &lockhttp.Client{Servers: []string{"http://a", "http://b"}, NodeID: "ann"}
		c.HTTP = &http.Client{Transport: answers(func(r *http.Request) (string, error) {
			if r.URL.Host != "a" {
				t.Errorf("%s %s goes to the other server", r.Method, r.URL)
			}
			if r.Method == "GET" {
				<-r.Context().Done()
				return "", r.Context().Err()
			}
			return `{"state":"waiting","lease_ms":3000}`, nil
		})}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := c.Wait(ctx, lockhttp.Request{Type: "lock", ResourceID: "k"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// answers plays servers, within a bubble of testing/synctest.
type answers func(*http.Request) (string, error)

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := a(req)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

// Promise: P1: no server answers renewals, and the function's context ends with the lease.
func TestAContextEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &lockhttp.Client{Servers: []string{"http://server"}, NodeID: "ann", MaxRetries: -1}
		c.HTTP = &http.Client{Transport: answers(func(r *http.Request) (string, error) {
			if r.URL.Path == "/lock" {
				return `{"state":"running","acquired":true,"token":7,"lease_ms":1000}`, nil
			}
			<-r.Context().Done()
			return "", r.Context().Err()
		})}
		began := time.Now()
		ran, err := c.Do(t.Context(), lockhttp.Request{Type: "lock", ResourceID: "k"}, func(ctx context.Context, _ lockhttp.State) error {
			<-ctx.Done()
			if took := time.Since(began); took != time.Second {
				t.Errorf("it ends after %v", took)
			}
			return context.Cause(ctx)
		})
		if !ran || !errors.Is(err, lockhttp.ErrLeaseEnded) {
			t.Errorf("%v, %v", ran, err)
		}
	})
}

// Promise: P1: an answer took as long as the lease that it tells of. What it grants is not used.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &lockhttp.Client{Servers: []string{"http://server"}, NodeID: "ann"}
		c.HTTP = &http.Client{Transport: answers(func(r *http.Request) (string, error) {
			time.Sleep(200 * time.Millisecond)
			return `{"state":"running","acquired":true,"token":7,"lease_ms":200}`, nil
		})}
		ran, err := c.Do(t.Context(), lockhttp.Request{Type: "lock", ResourceID: "k"}, func(context.Context, lockhttp.State) error {
			t.Error("the function runs")
			return nil
		})
		if ran || !errors.Is(err, lockhttp.ErrLeaseEnded) {
			t.Errorf("%v, %v", ran, err)
		}
	})
}

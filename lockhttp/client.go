package lockhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Client is a guest: it uses locks and resources over HTTP, as a process in another language would. Set its fields before the first
// call. Its methods may be called by several goroutines at once.
//
// It begins with the first of its servers, and goes on to the next one when a server does not answer, or says that it cannot serve. A call is
// repeated after an error of the network, and after an answer of status 503; it has no effect twice. If that does not help, its error says how
// often it was retried. An answer that is no success is returned as an *[Error], for errors.As.
type Client struct {
	Servers []string     // the base URLs of servers, at least one: "http://10.0.0.1:7380"
	NodeID  string       // the guest's name, 1 to 255 bytes, unlike those of all other guests
	HTTP    *http.Client // nil: http.DefaultClient

	RequestTimeout time.Duration // of one try, beside the time for which its answer may be put off (wait_ms); zero: 10 s
	MaxRetries     int           // of one call; zero: 8; negative: none
	RetryInterval  time.Duration // between two tries; zero: 250 ms
	PollInterval   time.Duration // of Wait and Do: the wait_ms of one question; zero: 1 s

	mu     sync.Mutex
	server int                // the index of the one that is used
	until  time.Time          // of the lease
	held   map[string]Request // what the guest holds, with its tokens
	got    int                // how often it has got something
	ended  chan struct{}      // closed when the lease has ended; nil: it has not begun
	timer  *time.Timer        // ends it
}

// ErrLeaseEnded: the guest's lease has ended, and what it held is lost; or a server has said that some of it is lost. Then the contexts of
// all functions that Do runs for the guest end.
var ErrLeaseEnded = errors.New("lockhttp: the lease has ended")

// Ask makes a request, unless it is made already, and tells what has become of it. The server puts the answer off for
// r.WaitMS at most; if that is zero, for 100 ms, or for 3 s with r.Try.
func (c *Client) Ask(ctx context.Context, r Request) (State, error) {
	var s State
	err := c.call(ctx, exchange{
		method: http.MethodPost, path: "/lock", body: c.mine(r), into: &s, good: func() { c.note(r, s) }, waits: time.Duration(r.WaitMS) * time.Millisecond,
	})
	return s, err
}

// Look tells what has become of a request.
func (c *Client) Look(ctx context.Context, r Request) (State, error) {
	return c.look(ctx, r, 0)
}

func (c *Client) look(ctx context.Context, r Request, wait time.Duration) (State, error) {
	q := c.named(r)
	if wait > 0 {
		q.Set("wait_ms", strconv.FormatInt(milliseconds(wait), 10))
	}
	var s State
	err := c.call(ctx, exchange{method: http.MethodGet, path: "/lock?" + q.Encode(), into: &s, good: func() { c.note(r, s) }, waits: wait})
	return s, err
}

// Wait makes a request, and waits until it is held, is to be carried out, or is done. If ctx ends first, or no server answers, Wait takes the
// request out of the queue, for RequestTimeout at most. If that fails, the request ends with the lease.
func (c *Client) Wait(ctx context.Context, r Request) (State, error) {
	s, err := c.Ask(ctx, r)
	for err == nil && s.State == "waiting" {
		s, err = c.look(ctx, r, orElse(c.PollInterval, time.Second))
	}
	if err == nil && s.State == "none" {
		err = ErrLeaseEnded // its place in the queue has ended with it
	}
	if e := (*Error)(nil); err != nil && !errors.Is(err, ErrLeaseEnded) && (!errors.As(err, &e) || e.Status == http.StatusServiceUnavailable) {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), orElse(c.RequestTimeout, usualTimeout))
		defer cancel()
		if left := c.Leave(leaving, r); left != nil {
			var e *Error
			if errors.As(left, &e) && e.Code == CodeRunning {
				_, _ = c.End(leaving, r, true)
			}
		}
	}
	return s, err
}

// End gives a lock back, or says that an operation has succeeded or failed. For locks and permits, failed means nothing. The client forgets
// r before it sends anything, and names it in no renewal any more.
func (c *Client) End(ctx context.Context, r Request, failed bool) (State, error) {
	q := c.mine(r)
	q.Failed = failed && (r.Type == "pull" || r.Type == "update" || r.Type == "delete")
	q.Try, q.WaitMS = false, 0
	c.drop(r) // its holder stops before the request is sent
	var s State
	err := c.call(ctx, exchange{method: http.MethodPost, path: "/unlock", body: q, into: &s})
	return s, err
}

// Leave takes a request out of its queue. An [Error] with CodeRunning: the request does not wait any more, but is held or to be carried out.
func (c *Client) Leave(ctx context.Context, r Request) error {
	q := c.named(r)
	return c.call(ctx, exchange{method: http.MethodDelete, path: "/lock?" + q.Encode(), into: &State{}})
}

// Renew renews the lease, and names all that the guest holds: so a server that knows nothing of it learns it. ErrLeaseEnded: the guest has
// lost something of it. If an operator has broken something, the Renewal's Broken names it: give that back by End; until then there is
// no lease.
func (c *Client) Renew(ctx context.Context) (Renewal, error) {
	var a Renewal
	var named []Request
	err := c.repeat(ctx, exchange{method: http.MethodPost, path: "/renew", into: &a}, func() ([]byte, func() bool, error) {
		var isAll func() bool
		named, isAll = c.holds()
		raw, err := json.Marshal(renewing{NodeID: c.NodeID, Locks: named})
		return raw, isAll, err
	})
	if err != nil {
		return a, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range a.Locks[:min(len(a.Locks), len(named))] {
		is := s.Acquired && s.Token == named[i].Token || a.LeaseMS == 0 && s.State != "none" // else it was given back meanwhile, or is lost
		if held, had := c.held[named[i].id()]; !is && had && held.Token == named[i].Token {
			c.loses(held)
			err = ErrLeaseEnded
		}
	}
	return a, err
}

// holds returns what the guest holds, and a function that reports whether it holds nothing else still.
func (c *Client) holds() (all []Request, isAll func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all = make([]Request, 0, len(c.held))
	for _, r := range c.held { // order-free: each is looked after alone
		r.Try, r.WaitMS = false, 0
		all = append(all, r)
	}
	got := c.got
	return all, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.got == got
	}
}

// loses: the guest does not hold what r asked for any more. It may hold the rest, but nothing says which function counts on what: all stop. The
// caller holds the mutex.
func (c *Client) loses(r Request) {
	delete(c.held, r.id())
	if c.timer != nil && c.timer.Stop() {
		close(c.ended)
	}
	c.ended, c.timer, c.until = nil, nil, time.Time{}
}

// Release ends the use of a resource by a user: "" is the guest itself.
func (c *Client) Release(ctx context.Context, resourceID, user string) error {
	return c.call(ctx, exchange{method: http.MethodPost, path: "/release", body: Request{NodeID: c.NodeID, ResourceID: resourceID, User: user}, into: &State{}})
}

// Refs returns the users of a resource.
func (c *Client) Refs(ctx context.Context, resourceID string) ([]Ref, error) {
	var a Refs
	err := c.call(ctx, exchange{method: http.MethodGet, path: "/refs?" + url.Values{"resource_id": {resourceID}}.Encode(), into: &a})
	return a.Users, err
}

// Do waits for a request as Wait does, calls fn if it is held or is to be carried out, and ends it: with success, if fn returns nil. Meanwhile
// Do renews the lease. Fn's context is derived from ctx, and also ends when the lease does, with the [context.Cause] ErrLeaseEnded. Ran is false
// if fn was not called: with a nil error, because the operation was done already. Else Do returns fn's error, joined with that of End.
func (c *Client) Do(ctx context.Context, r Request, fn func(context.Context, State) error) (ran bool, err error) {
	s, err := c.Wait(ctx, r)
	if err != nil || !s.Acquired {
		return false, err
	}
	work, stop := context.WithCancelCause(ctx)
	until, over := c.lease()
	var kept sync.WaitGroup
	kept.Go(func() { stop(c.keep(work)) })
	kept.Go(func() { // also while a renewal is under way
		select {
		case <-over:
			stop(ErrLeaseEnded)
		case <-work.Done():
		}
	})
	r.Token = s.Token // a late copy of its End ends nothing that comes after it
	failure := errors.New("lockhttp: the function panicked")
	defer func() {
		stop(nil)
		kept.Wait()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), orElse(c.RequestTimeout, usualTimeout))
		defer cancel()
		_, ended := c.End(ending, r, failure != nil)
		err = errors.Join(failure, ended)
	}()
	if !time.Now().Before(until) { // the answer took as long as the lease
		failure = ErrLeaseEnded
		return false, nil
	}
	failure = fn(work, s)
	return true, nil
}

// lease returns until when the lease lasts, and a channel that is closed when it has ended.
func (c *Client) lease() (until time.Time, ended <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until, c.ended
}

// keep renews the lease until ctx ends, or until a server says that the lease has ended: then it returns that.
func (c *Client) keep(ctx context.Context) error {
	for {
		until, _ := c.lease()
		left := time.Until(until)
		if !pause(ctx, left/3) {
			return ctx.Err()
		}
		within, cancel := context.WithTimeout(ctx, max(left/2, 50*time.Millisecond))
		_, err := c.Renew(within)
		cancel()
		if errors.Is(err, ErrLeaseEnded) {
			return err
		}
	}
}

// named returns the parameters that name a request.
func (c *Client) named(r Request) url.Values {
	q := url.Values{"node_id": {c.NodeID}, "type": {r.Type}, "resource_id": {r.ResourceID}}
	if r.RequestID != "" {
		q.Set("request_id", r.RequestID)
	}
	if r.Type == "semaphore" {
		q.Set("n", strconv.FormatInt(r.N, 10))
		q.Set("capacity", strconv.FormatInt(r.Capacity, 10))
	}
	return q
}

// mine makes a request one of this guest.
func (c *Client) mine(r Request) Request {
	r.NodeID = c.NodeID
	return r
}

func (r *Request) id() string { return r.Type + "\x00" + r.ResourceID + "\x00" + r.RequestID }

// note remembers what the guest holds. An answer without a lease may come from a server that does not know of it.
func (c *Client) note(r Request, s State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, had := c.held[r.id()]
	if another := s.Acquired && held.Token != s.Token; had && (another || !s.Acquired && s.LeaseMS > 0) {
		c.loses(held)
	}
	if s.Acquired && held.Token != s.Token {
		if c.held == nil {
			c.held = make(map[string]Request)
		}
		r.NodeID, r.Token = c.NodeID, s.Token
		c.held[r.id()] = r
		c.got++
	}
}

func (c *Client) drop(r Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, r.id())
}

// renewed notes that the lease lasts for so long from the sending of a request on.
func (c *Client) renewed(sent time.Time, lease time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := sent.Add(lease)
	if lease <= 0 || c.ended != nil && until.Before(c.until) {
		return
	}
	if c.timer != nil && !c.timer.Stop() {
		c.ended = nil // it had ended
	}
	if c.ended == nil {
		c.ended = make(chan struct{})
	}
	ended := c.ended
	c.until, c.timer = until, time.AfterFunc(time.Until(until), func() { close(ended) })
}

const usualTimeout = 10 * time.Second

func orElse(d, usual time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return usual
}

// exchange is a request to a server, and what comes of its answer.
type exchange struct {
	method, path string
	body         any           // nil: none
	waits        time.Duration // for how long the answer may be put off
	into         any           // for an answer of success
	good         func()        // called after that; may be nil
}

// call makes a request until it is answered.
func (c *Client) call(ctx context.Context, x exchange) error {
	var raw []byte
	if x.body != nil {
		var err error
		if raw, err = json.Marshal(x.body); err != nil {
			return err
		}
	}
	return c.repeat(ctx, x, func() ([]byte, func() bool, error) { return raw, nil, nil })
}

// repeat is call with a body that is made for each try. The lease of an answer counts only if the body's function, if there is one, says that the
// answer is about all that the guest holds by then.
func (c *Client) repeat(ctx context.Context, x exchange, body func() (raw []byte, isAll func() bool, err error)) error {
	switch {
	case ctx == nil:
		return errors.New("lockhttp: the context is nil")
	case len(c.Servers) == 0:
		return errors.New("lockhttp: the client has no servers")
	}
	retries := c.MaxRetries
	if retries == 0 {
		retries = 8
	}
	name, _, _ := strings.Cut(x.path, "?")
	for tries := 0; ; tries++ {
		raw, isAll, err := body()
		if err != nil {
			return err
		}
		if err = c.try(ctx, x, raw, isAll); err == nil {
			if x.good != nil {
				x.good()
			}
			return nil
		}
		var e *Error
		if errors.As(err, &e) && e.Status != http.StatusServiceUnavailable {
			return err
		}
		if tries < retries && pause(ctx, orElse(c.RetryInterval, 250*time.Millisecond)) {
			continue
		}
		return fmt.Errorf("lockhttp: %s %s: retried %d times: %w", x.method, name, tries, errors.Join(ctx.Err(), err))
	}
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// try makes a request to the server that is used. If it does not answer, or not with a result, the next one is used.
func (c *Client) try(ctx context.Context, x exchange, body []byte, isAll func() bool) (err error) {
	c.mu.Lock()
	server := c.server % len(c.Servers)
	c.mu.Unlock()
	caller := ctx
	next := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.server == server && caller.Err() == nil { // else it is not the server's fault
			c.server = (server + 1) % len(c.Servers)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, orElse(c.RequestTimeout, usualTimeout)+x.waits)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, x.method, strings.TrimSuffix(c.Servers[server], "/")+x.path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	h := c.HTTP
	if h == nil {
		h = http.DefaultClient
	}
	sent := time.Now()
	res, err := h.Do(req)
	if err != nil {
		next()
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 8*maxBody))
	if err != nil {
		next()
		return err
	}
	var lease struct {
		MS int64 `json:"lease_ms"`
	}
	if res.StatusCode == http.StatusOK {
		if err = json.Unmarshal(raw, x.into); err == nil {
			err = json.Unmarshal(raw, &lease)
		}
	} else {
		e := &Error{Status: res.StatusCode}
		if json.Unmarshal(raw, e) != nil || e.Code == "" {
			e.Code, e.Message = strconv.Itoa(res.StatusCode), "no answer of lockhttp"
		}
		if lease.MS, err = e.LeaseMS, e; e.Status == http.StatusServiceUnavailable && e.Code != CodeMoved {
			next()
		}
	}
	if isAll == nil || isAll() {
		c.renewed(sent, time.Duration(lease.MS)*time.Millisecond)
	}
	return err
}

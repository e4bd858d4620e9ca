package mesh

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/simulate"
)

const testMaxTTL = time.Minute

func testBound() time.Duration { return testMaxTTL }

// alone plays a test in virtual time: on a host, by whose node there is a mesh of one.
func alone(t *testing.T, play func(ctx context.Context, n *Node, host *simulate.Host)) {
	t.Helper()
	w := simulate.New(simulate.Options{Seed: 1})
	defer w.Close()
	host := w.Host("a")
	done := host.Go("test", func(ctx context.Context) {
		n, err := JoinContext(ctx, nil, quiet(WithMaxTTL(testMaxTTL))...)
		if err != nil {
			t.Fatal(err)
		}
		play(ctx, n, host)
	})
	if err := w.RunUntil(func() bool { return closed(done) }, time.Hour); err != nil {
		t.Fatal(err)
	}
}

// refuser notes what a session asks for, and refuses it.
type refuser struct {
	requests []client.Request
	info     client.WaitInfo
	err      error
}

// newRefused returns a session without a node, all of whose requests are refused.
func newRefused() (*Session, *refuser) {
	r := &refuser{err: ErrLocked}
	acquire := func(_ context.Context, req client.Request) (*node.Hold, *client.WaitInfo, error) {
		r.requests = append(r.requests, req)
		return nil, &r.info, r.err
	}
	return &Session{inner: new(node.Session), acquire: acquire, config: &sessionConfig{maxTTL: testBound, shards: 16}}, r // key "a" is in shard 11
}

// page collects log lines from any goroutine.
type page struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.String()
}

package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/realenv"
	"github.com/lockmesh/mesh/transport"
)

// Promise: P23: a frame goes to the shard loop; one of another mesh is dropped, and one that is none ends the connection.
func TestFramesOfItsMeshAlone(t *testing.T) {
	frame := func(mesh uint64) []byte {
		return message.Append(message.AppendHeader(nil, mesh), 0, serves(1).Message)
	}
	b := newBench(t, Config{Shards: 3})
	for _, tt := range []struct {
		name  string
		frame []byte
		taken bool // by the shard loop
		ends  bool // the connection with its sender
	}{
		{"of its mesh", frame(77), true, false},
		{"of its mesh, with half a message", frame(77)[:len(frame(77))-1], true, true},
		{"of another mesh", frame(78), false, false},
		{"empty", nil, false, true},
		{"half a number", message.AppendHeader(nil, 1<<40)[:2], false, true},
	} {
		b.words = nil
		b.node.Receive(nodeB, transport.KindShard, tt.frame)
		in, _ := b.node.shards.box.drain(nil)
		taken := len(in) == 1
		if taken != tt.taken || slices.Contains(b.words, "disconnect 2") != (tt.ends && !taken) {
			t.Errorf("a frame %s: taken: %t; the connection: %v", tt.name, taken, b.words)
		}
		for _, do := range in {
			b.do(do)
		}
		if ends := slices.Contains(b.words, "disconnect 2"); ends != tt.ends {
			t.Errorf("a frame %s: the connection with its sender ends: %t", tt.name, ends)
		}
	}
	b.node.mesh.Store(nil)
	b.words = nil
	b.log.Reset()
	b.node.Receive(nodeB, transport.KindShard, frame(77))
	if b.run(); len(b.words) > 0 || b.log.Len() > 0 {
		t.Errorf("before the mesh is known: %v, %s", b.words, b.log.String())
	}
}

// Promise: G7: a node that is closed says so, everywhere and at once, says nothing to anybody, and nothing of it runs on.
func TestClose(t *testing.T) {
	b := start(t, Config{})
	n := b.node
	s, err := n.NewSession(benchTTL)
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := n.Session().Acquire(t.Context(), client.Request{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	waits := b.asks(s, client.Request{Key: "k"})
	if b.pass(time.Second); isOver(waits) {
		t.Fatal(waits.Err)
	}
	var left error
	b.at(b.now+time.Millisecond, func() { n.Close(); left = n.Leave(t.Context()) })
	if _, _, err := s.Acquire(t.Context(), client.Request{Key: "k"}); err != fault.ErrClosed {
		t.Errorf("who waits is told %v", err)
	}
	if err := n.Close(); err != nil || left != nil {
		t.Errorf("Close again: %v; Leave: %v", err, left)
	}
	select {
	case <-n.Done():
	default:
		t.Error("it is not done")
	}
	if n.Err() != fault.ErrClosed || n.Mesh() != 0 || s.Err() != fault.ErrClosed || n.Session().Err() != fault.ErrClosed || h.Err() != fault.ErrLost || !isOver(waits) || waits.Err != fault.ErrClosed {
		t.Errorf("the node: %v; sessions: %v, %v; the hold: %v; who waits: %v", n.Err(), s.Err(), n.Session().Err(), h.Err(), waits.Err)
	}
	if _, err := n.NewSession(benchTTL); err != fault.ErrClosed {
		t.Errorf("a new session: %v", err)
	}
	if err := n.WaitHealthy(t.Context()); err != fault.ErrClosed {
		t.Errorf("WaitHealthy: %v", err)
	}
	for _, l := range b.loops {
		if !l.over && l.name != "" {
			t.Errorf("the loop %q runs on", l.name)
		}
	}
	if b.expects(); !slices.Equal(b.words, []string{"close", "gossip closes"}) {
		t.Errorf("it asks for %v", b.words)
	}
}

// A node's log says which node it is: several may live in one process.
func TestTheLogNamesTheNode(t *testing.T) {
	b := start(t, Config{})
	b.node.Receive(nodeB, transport.KindControl, []byte{0})
	if b.run(); !strings.Contains(b.log.String(), " node=a ") {
		t.Errorf("logged: %s", b.log.String())
	}
}

// A peer may send something malformed as soon as the port is open, before Listen has returned. The connection with it ends then, too.
func TestMalformedWhileItStarts(t *testing.T) {
	b := &bench{tb: t, now: time.Minute}
	cfg := Config{Env: overheard{b}, Name: "a", Found: true, Shards: 1, Logger: slog.New(slog.NewTextHandler(&b.log, nil))}
	if _, err := ready(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"disconnect 2", "disconnect 3"} {
		if !slices.Contains(b.words, want) {
			t.Errorf("it asks for %v, not to %s", b.words, want)
		}
	}
	if !strings.Contains(b.log.String(), `msg="a malformed frame" node=a from=`) {
		t.Errorf("logged: %s", b.log.String())
	}
}

// overheard is a bench in which peers send something malformed while Listen has not returned.
type overheard struct{ *bench }

func (o overheard) Listen(cfg transport.Config, h transport.Handler) (env.Network, error) {
	h.Receive(nodeB, transport.KindShard, nil)
	h.Receive(nodeC, transport.KindControl, []byte{ctlAsk, 0x90})
	return o.bench.Listen(cfg, h)
}

// A context that has ended says so, before the node has begun to wait for anything.
func TestStartWithAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := ready(ctx, Config{Env: &bench{tb: t}, Name: "a", Shards: 1, Logger: slog.New(slog.DiscardHandler)})
	if want := "mesh: not founded, or not joined yet: context canceled, the node is still looking for its mesh"; !errors.Is(err, context.Canceled) || err.Error() != want {
		t.Errorf("WaitReady: %v, want %s", err, want)
	}
}

// A node whose gossip cannot start has not started, whoever connects meanwhile.
func TestStartWithoutGossip(t *testing.T) {
	b := &bench{tb: t, deaf: true}
	hello := transport.Hello{ID: nodeB, Name: "b", Addr: "b:1"}
	_, err := ready(t.Context(), Config{Env: meeting{b, func() {
		hello.MeshID = b.node.mesh.Load().id
		b.node.Up(hello)
	}}, Name: "a", Found: true, Shards: 1, Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, errDeaf) {
		t.Errorf("Start: %v", err)
	}
}

// meeting is a bench in which something happens when gossip is to start.
type meeting struct {
	*bench
	f func()
}

func (m meeting) NewMembership(self env.Member, net env.Network, events func(env.MemberEvent)) (env.Membership, error) {
	m.f()
	return m.bench.NewMembership(self, net, events)
}

// Waiters whose contexts end while the node becomes ready leave those alone that are woken.
func TestWaitersComeAndGo(t *testing.T) {
	took := time.Duration(0) // the last node, until it was ready
	for range 12 {
		began := time.Now()
		n, err := Start(Config{
			Env: realenv.New(nil), Transport: transport.Config{Bind: "127.0.0.1:0"}, Name: "a", Found: true, Shards: 1, Replicas: 1,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), took+time.Duration(i-500)*10*time.Microsecond)
				defer cancel()
				if err := n.WaitReady(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("WaitReady: %v", err)
				}
			})
		}
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		took = time.Since(began)
		wg.Wait()
		_ = n.Close()
	}
}

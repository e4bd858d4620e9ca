package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lockmesh/mesh/transport"
)

func TestFramesOfOneClassArriveInOrderAndWhole(t *testing.T) {
	a, b := pair(t)
	for _, size := range []int{0, 1, 8 << 10, 8<<10 + 1, 64 << 10, transport.MaxFrame} {
		body := bytes.Repeat([]byte{byte(size)}, size)
		if !a.Send(b.id, transport.KindGossip, transport.Normal, body) {
			t.Fatalf("Send of %d bytes = false", size)
		}
		e := b.await("frame", func(e event) bool {
			return e.what == "receive" && e.kind == transport.KindGossip && len(e.body) == size
		})
		if e.body != string(body) || e.kind != transport.KindGossip || e.peer != a.id {
			t.Errorf("%d bytes arrived as %s", size, e)
		}
	}
	if a.Send(b.id, transport.KindShard, transport.Normal, make([]byte, transport.MaxFrame+1)) {
		t.Error("Send of more than MaxFrame bytes = true")
	}
	if a.Send(b.id, 0x7f, transport.Normal, nil) {
		t.Error("Send of a reserved kind = true")
	}
	if a.Send(99, transport.KindShard, transport.Normal, nil) {
		t.Error("Send to an unknown node = true")
	}
	const frames = 3000
	for i := range frames {
		for _, n := range []struct{ from, to *node }{{a, b}, {b, a}} {
			if !n.from.Send(n.to.id, transport.KindShard, transport.Normal, fmt.Append(nil, i)) {
				t.Fatalf("Send %d = false", i)
			}
		}
	}
	for _, n := range []*node{a, b} {
		n.awaitFrame(fmt.Sprint(frames - 1))
		next := 0
		for _, e := range n.snapshot() {
			if e.what == "receive" && e.kind == transport.KindShard && e.body != "up" {
				if e.body != fmt.Sprint(next) {
					t.Fatalf("frame %q, want %d", e.body, next)
				}
				next++
			}
		}
	}
}

func TestDialReportsTheNodeThatAnswers(t *testing.T) {
	a, b := start(t, 1), start(t, 2)
	for _, n := range []struct{ from, to *node }{{a, b}, {b, a}} {
		n.from.Dial(n.to.Addr())
		e := n.from.awaitDialed(n.to.Addr())
		if e.err != nil || e.hello.ID != n.to.id || e.hello.Addr != n.to.Addr() || e.hello.Name != hello(n.to.id).Name {
			t.Errorf("%s, %+v", e, e.hello)
		}
		n.from.awaitUp(n.to.id)
	}
	// A third dial finds the existing connection, and keeps it.
	a.Dial(b.Addr())
	a.await("second dialed", func(e event) bool { return a.count(func(e event) bool { return e.what == "dialed" }) == 2 })
	deliver(a, b, "there")
	deliver(b, a, "back")
	eventually(t, "one connection", func() bool { return a.open.Count() == 1 && b.open.Count() == 1 })
	if n := a.count(ups) + b.count(ups); n != 2 {
		t.Errorf("%d times Up, want 2", n)
	}
}

func TestDialReportsWhyNoNodeAnswers(t *testing.T) {
	a, b := start(t, 1), start(t, 2)
	b.Close()
	a.Dial(b.Addr())
	if e := a.awaitDialed(b.Addr()); !errors.Is(e.err, syscall.ECONNREFUSED) || e.hello.ID != 0 {
		t.Errorf("%s, want connection refused", e)
	}
	a.Dial("nonsense")
	if e := a.awaitDialed("nonsense"); e.err == nil || !strings.Contains(e.err.Error(), "nonsense") {
		t.Errorf("%s, want an error with the address", e)
	}
}

func TestDialOfOwnAddressIsRecognised(t *testing.T) {
	a := start(t, 1)
	a.Dial(a.Addr())
	if e := a.awaitDialed(a.Addr()); e.err != transport.ErrSelf || e.hello.ID != a.id {
		t.Errorf("%s, want ErrSelf and the own Hello", e)
	}
	eventually(t, "no connection", func() bool { return a.open.Count() == 0 && a.Peers() == 0 })
	a.Connect(a.id, a.Addr()) // ignored
	if a.Peers() != 0 {
		t.Error("connected to itself")
	}
}

func TestANodeWithoutAPortDialsOnly(t *testing.T) {
	t.Parallel() // it waits for real time
	server := start(t, 1)
	client := start(t, 2, bindTo(""))
	if client.Addr() != "" {
		t.Errorf("Addr() = %q", client.Addr())
	}
	client.Dial(server.Addr())
	client.awaitUp(server.id)
	server.awaitUp(client.id)
	deliver(client, server, "ask")
	deliver(server, client, "answer")
	client.Close()
	if cause := server.awaitDown(client.id); cause != transport.Lost {
		t.Errorf("cause %d, want Lost: there is no address to dial", cause)
	}
	eventually(t, "the peer is forgotten", func() bool { return server.Peers() == 0 })
}

func TestUpdateChangesLaterHandshakes(t *testing.T) {
	a, b := start(t, 1), start(t, 2)
	h := hello(99)
	h.MeshID, h.Zone = 7, "z"
	b.Update(h)
	long := h
	long.Name = strings.Repeat("x", 1000)
	b.Update(long)
	if !b.logged("Update ignored") {
		t.Error("the Hello that is too long is not logged")
	}
	a.Dial(b.Addr())
	if e := a.awaitDialed(b.Addr()); e.hello.MeshID != 7 || e.hello.Zone != "z" || e.hello.ID != b.id || e.hello.Addr != b.Addr() {
		t.Errorf("%+v", e.hello)
	}
}

// The nodes of every pair dial each other at once, and send as soon as they can.
func TestSimultaneousDialsMakeOneConnection(t *testing.T) {
	const nodes, frames = 12, 20
	for round := range 3 {
		var all []*node
		var ready, goes sync.WaitGroup
		var refusals atomic.Int64
		for i := range nodes {
			n := start(t, transport.ID(i+1))
			n.hook = func(e event) {
				if e.what == "up" {
					for k := range frames {
						if !n.Send(e.peer, transport.KindShard, transport.Normal, fmt.Append(nil, k)) {
							refusals.Add(1)
						}
					}
				}
			}
			all = append(all, n)
		}
		goes.Add(1)
		for _, n := range all {
			ready.Go(func() {
				goes.Wait()
				for _, m := range all {
					if n != m {
						n.Connect(m.id, m.Addr())
						if (n.id+m.id)%3 == 0 {
							n.Dial(m.Addr())
						}
					}
				}
			})
		}
		goes.Done()
		ready.Wait()
		for _, n := range all {
			for _, m := range all {
				if n != m {
					n.await(fmt.Sprintf("last frame of %s", m.id), func(e event) bool {
						return e.what == "receive" && e.peer == m.id && e.body == fmt.Sprint(frames-1)
					})
				}
			}
		}
		for _, n := range all {
			eventually(t, "one connection per pair", func() bool { return n.open.Count() == nodes-1 })
			if got := n.count(downs); got != 0 {
				t.Errorf("round %d: %d times Down", round, got)
			}
			if got := n.count(func(e event) bool { return e.what == "receive" }); got != frames*(nodes-1) {
				t.Errorf("round %d: node %s has %d frames, want %d", round, n.id, got, frames*(nodes-1))
			}
		}
		if n := refusals.Load(); n != 0 {
			t.Errorf("round %d: Send refused %d times", round, n)
		}
		for _, n := range all {
			n.Close()
		}
	}
}

// The handler's methods may call back.
func TestCallsFromWithinCallbacks(t *testing.T) {
	b, c := start(t, 2), start(t, 3)
	var a *node
	var ready sync.WaitGroup
	ready.Add(1)
	a = start(t, 1, hook(func(e event) {
		ready.Wait()
		switch {
		case e.what == "up" && e.peer == b.id:
			a.Send(b.id, transport.KindShard, transport.Urgent, []byte("from up"))
			a.Dial(c.Addr())
			a.Connect(c.id, c.Addr())
			a.Update(hello(1))
		case e.what == "dialed":
			a.Send(c.id, transport.KindShard, transport.Urgent, []byte("from dialed"))
		case e.what == "receive":
			a.Disconnect(e.peer)
		}
	}))
	ready.Done()
	a.Connect(b.id, b.Addr())
	b.awaitFrame("from up")
	c.awaitFrame("from dialed")
	b.Send(a.id, transport.KindShard, transport.Normal, []byte("leave me"))
	if cause := b.awaitDown(a.id); cause != transport.Goodbye {
		t.Errorf("cause %d, want Goodbye", cause)
	}
	if cause := a.awaitDown(b.id); cause != transport.Disconnected {
		t.Errorf("cause %d at this end, want Disconnected", cause)
	}
}

func TestAFullQueueRefusesAndUrgentFramesOvertake(t *testing.T) {
	release := make(chan struct{})
	var once sync.Once
	b := start(t, 2, hook(func(e event) {
		if e.what == "receive" {
			<-release
		}
	}))
	t.Cleanup(func() { once.Do(func() { close(release) }) })
	a := start(t, 1)
	a.Connect(b.id, b.Addr())
	a.awaitUp(b.id)
	body := bytes.Repeat([]byte("n"), 64<<10)
	sent := 0
	// This fills the queue, and the kernel's buffers at both ends.
	for refusals := 0; refusals < 100; {
		if a.Send(b.id, transport.KindShard, transport.Normal, body) {
			sent, refusals = sent+1, 0
		} else {
			refusals++
			if sent < 128 {
				t.Fatalf("refused after %d frames", sent)
			}
		}
		if sent > 4096 {
			t.Fatal("256 MiB, and the queue is not full")
		}
	}
	if !a.Send(b.id, transport.KindShard, transport.Urgent, []byte("urgent")) {
		t.Fatal("Send of an urgent frame = false, though only the normal queue is full")
	}
	if !a.Send(b.id, transport.KindShard, transport.Urgent, nil) {
		t.Fatal("Send of a second urgent frame = false")
	}
	once.Do(func() { close(release) })
	b.await("all frames", func(event) bool {
		return b.count(func(e event) bool { return e.what == "receive" }) >= sent+2
	})
	behind := -1
	for _, e := range b.snapshot() {
		if e.what == "receive" && e.body == "urgent" {
			behind = 0
		} else if behind >= 0 {
			behind++
		}
	}
	if behind < 100 { // nearly all of the queue's 127
		t.Errorf("the urgent frame overtook %d frames", behind)
	}
}

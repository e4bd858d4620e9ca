package transport_test

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// decider is the deciding end of several connections of a pair, driven by the test.
type decider struct {
	t *testing.T
	n *node // the following end
}

func (d decider) greet() net.Conn {
	d.t.Helper()
	nc, err := transport.RawGreet(d.n.Addr(), hello(1))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { nc.Close() })
	return nc
}

func (d decider) decide(nc net.Conn, epoch uint64) {
	d.t.Helper()
	if _, err := nc.Write(transport.RawVerdict(epoch)); err != nil {
		d.t.Fatal(err)
	}
}

// uses checks that the other end receives frames of a connection.
func (d decider) uses(nc net.Conn, body string) {
	d.t.Helper()
	nc.Write(transport.RawFrame(transport.KindShard, []byte(body)))
	d.n.awaitFrame(body)
}

// drops checks that the other end closes a connection.
func (d decider) drops(nc net.Conn) {
	d.t.Helper()
	nc.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
		d.t.Error("a second connection of the pair stays open")
	}
}

// Of two connections with a decision, the following end uses the one with the larger epoch, in
// whichever order the decisions arrive.
func TestTheNewerDecisionCounts(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second uint64
		winner        int // 1: the connection whose decision arrives first
	}{
		{"a newer one replaces an older one", 1, 2, 2},
		{"an older one arrives late", 2, 1, 1},
		{"an epoch arrives twice", 2, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := decider{t, start(t, 2)}
			a, b := d.greet(), d.greet() // the dials cross
			d.decide(a, tt.first)
			d.uses(a, "a")
			d.decide(b, tt.second)
			if tt.winner == 2 {
				d.uses(b, "b")
				d.drops(a)
			} else {
				d.drops(b)
				d.uses(a, "still a")
			}
			if n := d.n.count(ups); n != 1 || d.n.count(downs) != 0 {
				t.Errorf("%d times Up, %d times Down, want one connection without a break", n, d.n.count(downs))
			}
		})
	}
}

// An epoch counts only while its connection lasts. An older decision that arrives later is about a
// connection that the deciding end has closed, so it does no harm; and a later epoch may be
// smaller than one that is over.
func TestAnEpochEndsWithItsConnection(t *testing.T) {
	t.Parallel() // it waits for real time
	d := decider{t, start(t, 2)}
	d.n.Connect(1, "") // so that the peer is kept while there is no connection
	old, huge := d.greet(), d.greet()
	d.decide(huge, math.MaxUint64)
	d.uses(huge, "huge")
	huge.Close()
	d.n.awaitDown(1)
	d.decide(old, 1)
	d.uses(old, "old")
	next := d.greet()
	d.decide(next, 2)
	d.uses(next, "next")
	d.drops(old)
}

// A following end that dials to see which node answers hangs up if both ends have the same connection. If the deciding
// end has none, or another one, there is a new one.
func TestWhoFollowsSeesThatBothHaveTheConnection(t *testing.T) {
	d := decider{t, start(t, 2)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		name  string
		epoch uint64 // of the deciding end's current connection
		same  bool
	}{
		{"the deciding end has none", 0, false},
		{"both have the one of before", 1, true},
		{"the deciding end has another one", 4, false},
	} {
		d.n.Dial(l.Addr().String())
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		reports, err := transport.RawAnswer(nc, hello(1), tt.epoch)
		if err != nil || reports == tt.same {
			t.Fatalf("%s: the dialler reports: %t, error %v", tt.name, reports, err)
		}
		if reports {
			d.decide(nc, tt.epoch+1)
			d.uses(nc, tt.name)
		}
	}
}

// Of a dial between nodes that are connected each end writes once.
func TestADialOfWhoIsConnectedIsShort(t *testing.T) {
	var sockets [2]transport.CountedSockets
	a, b := start(t, 1, over(&sockets[0])), start(t, 2, over(&sockets[1]))
	a.Connect(b.id, b.Addr())
	a.awaitUp(b.id)
	b.awaitUp(a.id)
	for _, pair := range [][2]*node{{a, b}, {b, a}} {
		counts := [...]*atomic.Int64{sockets[0].CountWrites(), sockets[1].CountWrites()}
		pair[0].Dial(pair[1].Addr())
		if e := pair[0].awaitDialed(pair[1].Addr()); e.err != nil || e.hello.ID != pair[1].id {
			t.Errorf("node %d dials: node %d, error %v", pair[0].id, e.hello.ID, e.err)
		}
		for i, count := range counts {
			if n := count.Load(); n != 1 {
				t.Errorf("node %d dials: node %d writes %d times", pair[0].id, i+1, n)
			}
		}
	}
}

// An impostor that connects under another node's ID, with any epoch, does not keep that node out
// once its connection has ended.
func TestAnImpostorsEpochDoesNotKeepTheNodeOut(t *testing.T) {
	a, b := pair(t)
	b.Connect(a.id, a.Addr())
	d := decider{t, b}
	impostor := d.greet()
	d.decide(impostor, math.MaxUint64)
	d.uses(impostor, "in the name of a")
	impostor.Close()
	deliver(a, b, "again a")
	deliver(b, a, "again b")
}

// The deciding end keeps a connection that the following end has, or is about to have, and
// replaces one that only the deciding end has.
func TestReportsDecideWhichConnectionIsKept(t *testing.T) {
	const first = 4 // the number of the report for the current connection
	for _, tt := range []struct {
		name    string
		epoch   func(older, current uint64) uint64 // in the report
		number  uint64
		awaited []uint64
		kept    bool
	}{
		{"it has the current one", func(_, current uint64) uint64 { return current }, first + 1, nil, true},
		{"it has none", func(uint64, uint64) uint64 { return 0 }, first + 1, nil, false},
		{"it has an older one", func(older, _ uint64) uint64 { return older }, first + 1, nil, false},
		{"it awaits the decision on the current one", func(uint64, uint64) uint64 { return 0 }, first + 1, []uint64{9, 2}, true},
		{"it awaits the decision on another one", func(uint64, uint64) uint64 { return 0 }, first + 1, []uint64{9}, false},
		{"the report is older than the current one", func(uint64, uint64) uint64 { return 0 }, first - 1, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := start(t, 1)
			follow := func(attempt, epoch, number uint64, awaited ...uint64) (net.Conn, uint64) {
				t.Helper()
				nc, epoch, err := transport.RawFollow(n.Addr(), hello(2), attempt, epoch, number, awaited...)
				if err != nil {
					t.Fatal(err)
				}
				if nc != nil {
					t.Cleanup(func() { nc.Close() })
				}
				return nc, epoch
			}
			_, older := follow(1, 0, 1)
			current, epoch := follow(2, 0, first)
			if older == 0 || epoch <= older {
				t.Fatalf("epochs %d and %d", older, epoch)
			}
			next, newer := follow(3, tt.epoch(older, epoch), tt.number, tt.awaited...)
			if kept := next == nil; kept != tt.kept || !kept && newer <= epoch {
				t.Fatalf("the connection is kept: %t, its epoch is %d, and that of the next %d", kept, epoch, newer)
			}
			if d := (decider{t, n}); tt.kept {
				d.uses(current, "still")
			} else {
				d.uses(next, "next")
				d.drops(current)
			}
		})
	}
}

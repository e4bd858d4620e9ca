package transport_test

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// decider is the deciding end of several connections of a pair, by hand.
type decider struct {
	t *testing.T
	n *node // the other end, which follows
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

// uses demands that frames get through a connection.
func (d decider) uses(nc net.Conn, body string) {
	d.t.Helper()
	nc.Write(transport.RawFrame(transport.KindShard, []byte(body)))
	d.n.awaitFrame(body)
}

// drops demands that the other end closes a connection.
func (d decider) drops(nc net.Conn) {
	d.t.Helper()
	nc.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
		d.t.Error("a connection that is not the pair's is kept")
	}
}

// Of two connections that were decided on, the end that follows uses the one with the larger
// epoch, in whichever order it hears of them.
func TestTheNewerDecisionCounts(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second uint64
		winner        int // 1: the first that it hears of
	}{
		{"a newer one takes the place of an older one", 1, 2, 2},
		{"an older one comes late", 2, 1, 1},
		{"an epoch comes twice", 2, 2, 1},
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

// An epoch counts as long as its connection. The older decision that comes after it is of a
// connection that the deciding end has closed: it does no harm, and no newer one needs to be
// larger than what was once said.
func TestAnEpochEndsWithItsConnection(t *testing.T) {
	d := decider{t, start(t, 2)}
	d.n.Connect(1, "") // remembered, also while there is no connection
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

// Whoever shook hands in the name of another node, and with whatever epoch, does not keep that
// one out once it is gone.
func TestAStrangersEpochShutsNobodyOut(t *testing.T) {
	a, b := pair(t)
	b.Connect(a.id, a.Addr())
	d := decider{t, b}
	stranger := d.greet()
	d.decide(stranger, math.MaxUint64)
	d.uses(stranger, "in the name of a")
	stranger.Close()
	deliver(a, b, "again a")
	deliver(b, a, "again b")
}

// The end that decides keeps a connection that the other end knows, or is about to know, and
// replaces one in which it alone believes.
func TestWhatTheOtherEndClaims(t *testing.T) {
	const first = 4 // the number of what it said when it dialled for the first time
	for _, tt := range []struct {
		name    string
		epoch   func(older, has uint64) uint64 // that it claims to have
		number  uint64
		awaited []uint64
		kept    bool
	}{
		{"it knows that one", func(_, has uint64) uint64 { return has }, first + 1, nil, true},
		{"it has none", func(uint64, uint64) uint64 { return 0 }, first + 1, nil, false},
		{"it has an older one", func(older, _ uint64) uint64 { return older }, first + 1, nil, false},
		{"it waits for that one's decision", func(uint64, uint64) uint64 { return 0 }, first + 1, []uint64{9, 2}, true},
		{"it waits for another one's", func(uint64, uint64) uint64 { return 0 }, first + 1, []uint64{9}, false},
		{"it said so before it dialled for that one", func(uint64, uint64) uint64 { return 0 }, first - 1, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := start(t, 1)
			claim := func(attempt, epoch, number uint64, awaited ...uint64) (net.Conn, uint64) {
				t.Helper()
				nc, epoch, err := transport.RawClaim(n.Addr(), hello(2), attempt, epoch, number, awaited...)
				if err != nil {
					t.Fatal(err)
				}
				if nc != nil {
					t.Cleanup(func() { nc.Close() })
				}
				return nc, epoch
			}
			_, older := claim(1, 0, 1)
			has, epoch := claim(2, 0, first)
			if older == 0 || epoch <= older {
				t.Fatalf("epochs %d and %d", older, epoch)
			}
			next, newer := claim(3, tt.epoch(older, epoch), tt.number, tt.awaited...)
			if kept := next == nil; kept != tt.kept || !kept && newer <= epoch {
				t.Fatalf("the connection is kept: %t, its epoch is %d, and that of the next %d", kept, epoch, newer)
			}
			if d := (decider{t, n}); tt.kept {
				d.uses(has, "still")
			} else {
				d.uses(next, "next")
				d.drops(has)
			}
		})
	}
}

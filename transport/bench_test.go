package transport_test

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// benchNode is a node without the checks of type node, which would be measured too.
type benchNode struct {
	*transport.Transport
	ups     chan transport.ID
	dialed  chan transport.Hello
	receive func(from transport.ID, kind transport.Kind, body []byte)
}

func (n *benchNode) Dialed(_ string, h transport.Hello, _ error)         { n.dialed <- h }
func (n *benchNode) Up(h transport.Hello)                                { n.ups <- h.ID }
func (n *benchNode) Down(transport.ID, transport.Cause)                  {}
func (n *benchNode) Receive(id transport.ID, k transport.Kind, b []byte) { n.receive(id, k, b) }

// startBench starts node 1 and some peers of it, which call receive for every frame.
func startBench(b *testing.B, peers int, receive func(peer *benchNode, from transport.ID, body []byte)) (*benchNode, []*benchNode) {
	b.Helper()
	begin := func(id transport.ID) *benchNode {
		n := &benchNode{ups: make(chan transport.ID, peers), dialed: make(chan transport.Hello, 1)}
		n.receive = func(from transport.ID, _ transport.Kind, body []byte) { receive(n, from, body) }
		var err error
		n.Transport, err = transport.Listen(transport.Config{Bind: "127.0.0.1:0", Hello: hello(id), Logger: slog.New(slog.DiscardHandler)}, n)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(n.Close)
		return n
	}
	one := begin(1)
	var others []*benchNode
	for i := range peers {
		n := begin(transport.ID(i + 2))
		one.Connect(transport.ID(i+2), n.Addr())
		<-one.ups
		<-n.ups
		others = append(others, n)
	}
	return one, others
}

// One node sends a frame to two peers and waits until both have echoed it: the
// path of a commit by a leader with two followers, without their work.
func BenchmarkFanOut(b *testing.B) {
	one, others := startBench(b, 2, func(n *benchNode, from transport.ID, body []byte) {
		n.Send(from, transport.KindShard, transport.Urgent, body)
	})
	echoes := make(chan struct{}, len(others))
	one.receive = func(transport.ID, transport.Kind, []byte) { echoes <- struct{}{} }
	body := make([]byte, 128)
	times := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		for i := range others {
			one.Send(transport.ID(i+2), transport.KindShard, transport.Urgent, body)
		}
		for range others {
			<-echoes
		}
		if len(times) < cap(times) {
			times = append(times, time.Since(begin))
		}
	}
	slices.Sort(times)
	at := func(q float64) float64 {
		return float64(times[int(q*float64(len(times)-1))].Nanoseconds()) / 1e3
	}
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
}

// One node sends frames as fast as the queue accepts them.
func BenchmarkThroughput(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"128B", 128}, {"4KiB", 4 << 10}, {"256KiB", 256 << 10}} {
		b.Run(size.name, func(b *testing.B) {
			var got atomic.Int64
			all := make(chan struct{}, 1)
			var want atomic.Int64
			one, _ := startBench(b, 1, func(*benchNode, transport.ID, []byte) {
				if got.Add(1) == want.Load() {
					all <- struct{}{}
				}
			})
			body := make([]byte, size.bytes)
			want.Store(int64(b.N))
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				for !one.Send(2, transport.KindShard, transport.Normal, body) {
					time.Sleep(20 * time.Microsecond) // the queue is full
				}
			}
			<-all
		})
	}
}

// A node dials another one, with which it is connected, to learn which node answers: what an entry of the core costs
// every second.
func BenchmarkDial(b *testing.B) {
	for _, one := range []struct {
		name     string
		from, to transport.ID
	}{{"ByWhoDecides", 1, 2}, {"ByWhoFollows", 2, 1}} {
		b.Run(one.name, func(b *testing.B) {
			first, others := startBench(b, 1, nil)
			from, to := first, others[0]
			if one.from > one.to {
				from, to = to, from
			}
			b.ReportAllocs()
			for b.Loop() {
				from.Dial(to.Addr())
				if h := <-from.dialed; h.ID != one.to {
					b.Fatal("answered: ", h.ID)
				}
			}
		})
	}
}

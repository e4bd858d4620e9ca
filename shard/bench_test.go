package shard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockmesh/mesh/internal/wire"
)

func BenchmarkTable(b *testing.B) {
	// One lock and its release, by a session that acknowledges its results.
	b.Run("uncontended", func(b *testing.B) {
		b.ReportAllocs()
		table := NewTable(Founding{})
		a := lock("ann", 0, "orders/42")
		r := Release{Call: a.Call, Key: a.Key}
		acks := make([]uint64, 1)
		var out []Event
		for b.Loop() {
			a.Number, a.Acked = r.Number+1, nil
			if r.Number > 0 {
				acks[0], a.Acked = r.Number, acks
			}
			out = table.Step(a, out[:0])
			acks[0] = a.Number
			r.Number, r.Acked, r.Token = a.Number+1, acks, out[len(out)-1].Token
			out = table.Step(r, out[:0])
		}
	})
	// One release, and the request that takes the last place in the queue again.
	b.Run("16 waiters", func(b *testing.B) {
		b.ReportAllocs()
		table := NewTable(Founding{})
		type client struct {
			next uint64
			acks []uint64
		}
		clients := make(map[SessionID]*client)
		stamp := func(id SessionID, c *client) Call {
			c.next++
			return Call{Session: id, Number: c.next, Acked: c.acks}
		}
		ask := func(id SessionID, c *client) Acquire {
			return Acquire{Call: stamp(id, c), TTL: ttl, Name: "node", Key: "orders/42", Weight: Whole, Capacity: Whole}
		}
		var out []Event
		var holder Event
		for n := range uint64(17) {
			id, c := SessionID{1, n + 1}, &client{acks: make([]uint64, 0, 2)}
			clients[id] = c
			out = table.Step(ask(id, c), out[:0])
			if g := out[len(out)-1]; g.What == Granted {
				holder = g
			}
		}
		for b.Loop() {
			id := holder.Session
			c := clients[id]
			c.acks = append(c.acks[:0], holder.Number)
			out = table.Step(Release{Call: stamp(id, c), Key: "orders/42", Token: holder.Token}, out[:0])
			c.acks = append(c.acks[:0], c.next)
			holder = out[len(out)-1]
			out = table.Step(ask(id, c), out[:0])
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	var cmd Command = Acquire{
		Call: Call{Session: SessionID{0x123456789abcdef, 3}, Number: 1234, Since: 1_790_000_000_000 << 10, Acked: []uint64{1232, 1233}},
		TTL:  ttl, Name: "10.0.0.7:7946", Key: "orders/42", Weight: Whole, Capacity: Whole,
	}
	b.Run("AppendCommand", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = AppendCommand(buf[:0], cmd)
		}
		b.SetBytes(int64(len(buf)))
	})
	b.Run("ReadCommand", func(b *testing.B) {
		b.ReportAllocs()
		buf := AppendCommand(nil, cmd)
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			r := wire.NewReader(buf)
			if ReadCommand(r); r.End() != nil {
				b.Fatal(r.Err())
			}
		}
	})
}

// The cost per request among thousands: it must not grow with their number.
func BenchmarkThousands(b *testing.B) {
	readers := func(n int) (*Table, []Event) {
		table := NewTable(Founding{})
		table.Step(lock("bob", 1, "k"), nil)
		for i := range uint64(n) {
			a := lock("ann", i+1, "k")
			a.Weight = 1
			table.Step(a, nil)
		}
		return table, table.Step(release("bob", 2, "k", 2), nil)
	}
	for _, n := range []int{1000, 4000, 16000, 64000} {
		b.Run(fmt.Sprint("readers let in, ", n), func(b *testing.B) {
			for b.Loop() {
				readers(n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/reader")
		})
	}
	for _, n := range []int{1000, 4000, 16000} {
		table, _ := readers(n)
		b.Run(fmt.Sprint("results told, ", n), func(b *testing.B) {
			for b.Loop() {
				after, told := uint64(0), 0
				for more := true; more; {
					var page []Event
					page, more = table.Results(id("ann"), 64, after)
					told += len(page)
					after = page[len(page)-1].Number
				}
				if told != n {
					b.Fatalf("%d of %d results are told", told, n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/result")
		})
	}
	for _, n := range []int{1000, 4000, 16000} {
		table := NewTable(Founding{})
		for i := range uint64(n) {
			a := lock("ann", i+1, "k")
			a.Value = make([]byte, MaxValue)
			table.Step(a, nil)
		}
		image := imageOf(table)
		b.Run(fmt.Sprint("waiters restored, ", n), func(b *testing.B) {
			for b.Loop() {
				rs := NewRestore(Founding{})
				for chunk := range slices.Chunk(image, 16<<10) {
					if err := rs.Add(chunk); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := rs.Table(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/waiter")
		})
	}
}

package shard

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/wire"
)

func BenchmarkTable(b *testing.B) {
	// One lock and its release, by a session that acknowledges what it was told.
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
			r.Number, r.Acked, r.Token = a.Number+1, acks, out[len(out)-1].(Granted).Token
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
		var holder Granted
		for n := range uint64(17) {
			id, c := SessionID{1, n + 1}, &client{acks: make([]uint64, 0, 2)}
			clients[id] = c
			out = table.Step(ask(id, c), out[:0])
			if g, ok := out[len(out)-1].(Granted); ok {
				holder = g
			}
		}
		for b.Loop() {
			id := holder.Session
			c := clients[id]
			c.acks = append(c.acks[:0], holder.Number)
			out = table.Step(Release{Call: stamp(id, c), Key: "orders/42", Token: holder.Token}, out[:0])
			c.acks = append(c.acks[:0], c.next)
			holder = out[len(out)-1].(Granted)
			out = table.Step(ask(id, c), out[:0])
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	cmd := Acquire{
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

// BenchmarkReadAppends reads the appends of one frame, as a follower does: one op is all of
// the frame. Their entries are kept, as a log keeps them, until the next frame is read.
func BenchmarkReadAppends(b *testing.B) {
	for _, c := range []struct {
		name                  string
		shards, entries, size int
	}{
		{"one entry of 150 B", 1, 1, 150},
		{"8 shards, one of 450 B each", 8, 1, 450},
		{"16 shards, one of 600 B each", 16, 1, 600},
		{"one entry of 128 KiB", 1, 1, 128 << 10},
		{"1,000 entries of 150 B", 1, 1000, 150},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			sent := appendsOf(c.shards, c.entries, c.size)
			b.SetBytes(int64(len(sent)))
			kept := make([][]*raftpb.Entry, c.shards)
			for b.Loop() {
				r := wire.NewReader(slices.Clone(sent)) // as it comes from the network
				for i := range kept {
					kept[i] = ReadFrame(r).Message.Entries
				}
				if r.End() != nil || len(kept[c.shards-1]) != c.entries {
					b.Fatal(r.Err())
				}
			}
		})
	}
}

// BenchmarkReplicas is the life of one shard: three replicas, their ticks and heartbeats,
// every message in its wire form and without delay, and five locks and unlocks a second.
// One op is one second of it, on one core; sim/real is that second by the real time.
func BenchmarkReplicas(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b.ReportAllocs()
	w, leader := led(b)
	a := Acquire{
		Call: Call{Session: SessionID{7, 1}, Since: 1 << 20}, TTL: ttl, Name: "node", Key: "k", Weight: Whole, Capacity: Whole,
	}
	r := Release{Key: a.Key}
	submit := func(cmd Command) {
		if err := leader.Submit(w.now, cmd, AppendCommand(nil, cmd)); err != nil {
			b.Fatal(err)
		}
	}
	const perSecond = int(time.Second / TickInterval)
	granted := 0
	for b.Loop() {
		for tick := range perSecond {
			switch tick % 4 {
			case 0:
				a.Number, a.Acked = r.Number+1, []uint64{r.Number}
				if r.Number == 0 {
					a.Acked = nil
				}
				submit(a)
			case 2:
				r.Call = a.Call
				r.Number, r.Acked = a.Number+1, []uint64{a.Number}
				submit(r)
			}
			w.settle(b)
			for _, e := range w.events {
				if g, ok := e.(Granted); ok {
					r.Token = g.Token
					granted++
				}
			}
			w.events = w.events[:0]
			w.now += TickInterval
			for _, o := range w.replicas {
				o.Tick(w.now, tick%HeartbeatTicks == 0)
			}
		}
	}
	if granted < b.N*perSecond/4 {
		b.Fatalf("%d grants in %d seconds", granted, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sim/real")
}

// What thousands cost, for each of them: it must not grow with their number.
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
					page, more = table.Results(id("ann"), maxResults, after)
					told += len(page)
					after = page[len(page)-1].(Granted).Number
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
				for chunk := range slices.Chunk(image, chunkBytes) {
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

package replica

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

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
					kept[i] = readFrame(r).Message.Entries
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
	a := shard.Acquire{
		Call: shard.Call{Session: shard.SessionID{Node: 7, Number: 1}, Since: 1 << 20}, TTL: ttl, Name: "node", Key: "k", Weight: shard.Whole, Capacity: shard.Whole,
	}
	r := shard.Release{Key: a.Key}
	submit := func(cmd shard.Command) {
		if err := leader.Submit(w.now, cmd, shard.AppendCommand(nil, cmd)); err != nil {
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
			for _, g := range w.events {
				if g.What == shard.Granted {
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

package mesh_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/transport"
)

// The benchmarks run three nodes in one process. So they report the cost of a lock for the
// whole fleet: leader, followers and client together. Run all of them at once, and compare
// with BenchmarkFanOut of the same run:
//
//	go test -run '^$' -bench . -benchmem -cpu 2 .

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs op in concurrent workers, b.N times in all, and reports processor time and
// latencies.
func measure(b *testing.B, workers int, op func(worker int)) {
	b.Helper()
	took := make([][]time.Duration, workers)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	for w := range workers {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				start := time.Now()
				op(w)
				took[w] = append(took[w], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
	reportTimes(b, slices.Concat(took...))
}

// listed returns n entries of a list: addresses of loopback whose ports are free.
func listed(b *testing.B, n int) (list []string) {
	b.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list
}

// fleetOf starts a healthy mesh of n nodes on loopback.
func fleetOf(b *testing.B, n int, opts ...mesh.Option) []*mesh.Node {
	b.Helper()
	return fleetIn(b, context.Background(), n, opts...)
}

// fleetIn starts a healthy mesh of n nodes in the environment of a context.
func fleetIn(b *testing.B, env context.Context, n int, opts ...mesh.Option) []*mesh.Node {
	b.Helper()
	var nodes []*mesh.Node
	list := listed(b, n)
	for i, addr := range list {
		node, err := mesh.StartContext(env, list, append([]mesh.Option{
			mesh.WithName(fmt.Sprint("n", i)), mesh.WithBind(addr),
			mesh.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		}, opts...)...)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { node.Close() })
		nodes = append(nodes, node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, node := range nodes {
		if err := errors.Join(node.WaitReady(ctx), node.WaitHealthy(ctx)); err != nil {
			b.Fatal(err)
		}
	}
	return nodes
}

func pair(b *testing.B, node *mesh.Node, key string) {
	ctx := context.Background()
	l, err := node.Lock(ctx, key)
	if err != nil {
		b.Error(err)
		return
	}
	if err := l.Unlock(ctx); err != nil {
		b.Error(err)
	}
}

// BenchmarkIdle reports the processor time that three nodes at rest take in a second. The end of a lock of a second tells when
// that is over; the lock itself costs less than a hundredth of it.
//
//	go test -run '^$' -bench Idle -benchtime 20x .
func BenchmarkIdle(b *testing.B) {
	nodes := fleetOf(b, 3)
	wait := func(key string, d time.Duration) {
		l, err := nodes[0].Lock(context.Background(), key, mesh.MaxHold(d))
		if err != nil {
			b.Fatal(err)
		}
		<-l.Context().Done()
	}
	wait("while leaders move", 2*time.Second)
	b.ResetTimer()
	before := cpu()
	for i := range b.N {
		wait(fmt.Sprint(i), time.Second)
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/b.Elapsed().Seconds(), "cpu-µs/s")
}

// BenchmarkPair measures Lock and Unlock by workers that are spread over three nodes.
func BenchmarkPair(b *testing.B) {
	for _, shards := range []int{8, 16, 32, 64} {
		for _, workers := range []int{1, 16, 128} {
			for _, keys := range []string{"own", "random"} {
				b.Run(fmt.Sprintf("shards=%d/workers=%d/keys=%s", shards, workers, keys), func(b *testing.B) {
					nodes := fleetOf(b, 3, mesh.WithShards(shards))
					before := total(nodes)
					measure(b, workers, func(w int) {
						key := fmt.Sprint("own/", w)
						if keys == "random" {
							key = fmt.Sprint("random/", rand.IntN(10_000))
						}
						pair(b, nodes[w%3], key)
					})
					reportBatch(b, before, total(nodes))
				})
			}
		}
	}
}

// BenchmarkHandOver measures sixteen workers that contend for one key: one op is one hand-over.
func BenchmarkHandOver(b *testing.B) {
	nodes := fleetOf(b, 3)
	measure(b, 16, func(w int) { pair(b, nodes[w%3], "the one") })
}

// BenchmarkLock measures Lock alone, by one worker on a node that does not lead the key's shard.
func BenchmarkLock(b *testing.B) {
	nodes := fleetOf(b, 3)
	takes(b, nodes[0].Lock, remoteKey(b, nodes[0]))
}

// takes measures take, which takes a lock or a set of locks. Each op gives back what it took, which does not count.
func takes[W any, H interface{ Unlock(context.Context) error }](b *testing.B, take func(context.Context, W, ...mesh.LockOption) (H, error), what W) {
	ctx := context.Background()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		held, err := take(ctx, what)
		took = append(took, time.Since(start))
		if err != nil {
			b.Fatal(err)
		}
		if err := held.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
	reportTimes(b, took)
}

// reportTimes reports the median and the 99th percentile.
func reportTimes(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
}

// remoteKey returns a key whose shard node does not lead.
func remoteKey(b *testing.B, node *mesh.Node) string {
	ctx := context.Background()
	// Leadership moves to the ring's owners shortly after the mesh is healthy.
	for i := range 1000 {
		if i%100 == 99 {
			time.Sleep(100 * time.Millisecond)
		}
		key := fmt.Sprint("remote/", i)
		held, err := node.Lock(ctx, key)
		if err != nil {
			b.Fatal(err)
		}
		_, err = node.TryLock(ctx, key)
		var w *mesh.WaitError
		remote := false
		if errors.As(err, &w) {
			remote = w.Leader != "" && w.Leader != node.Name()
		}
		if err := held.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
		if remote {
			return key
		}
	}
	b.Fatal("this node leads every shard")
	return ""
}

func total(nodes []*mesh.Node) (s mesh.Stats) {
	for _, n := range nodes {
		st := n.Stats()
		s.Entries += st.Entries
		s.Commands += st.Commands
	}
	return s
}

// reportBatch reports how many commands went into one log entry. Both counters are updated together, once a
// tick: a run that is shorter than that has none.
func reportBatch(b *testing.B, before, after mesh.Stats) {
	if n := after.Entries - before.Entries; n > 0 {
		b.ReportMetric(float64(after.Commands-before.Commands)/float64(n), "batch")
	}
}

// BenchmarkLockAll takes and gives back ten keys in four shards, from a node that leads some of these. The latencies are those of LockAll.
func BenchmarkLockAll(b *testing.B) {
	nodes := fleetOf(b, 3, mesh.WithShards(4))
	before := total(nodes)
	takes(b, nodes[0].LockAll, tenKeys())
	reportBatch(b, before, total(nodes))
}

// tenKeys returns ten keys, some in each of four shards.
func tenKeys() (keys []string) {
	for i := range 10 {
		keys = append(keys, fmt.Sprint("account/", i))
	}
	return keys
}

// BenchmarkFanOut measures the limit that the network sets: a node sends a frame to two peers
// over the same kind of connections and waits for both answers, twice, as Lock and Unlock must.
func BenchmarkFanOut(b *testing.B) {
	for _, workers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			f := newFanOut(b, workers, nil)
			measure(b, workers, func(w int) {
				f.round(w)
				f.round(w)
			})
		})
	}
}

type fanOut struct {
	center  *echo
	peers   []transport.ID
	waiting []chan struct{}
}

// echo is a node that sends every frame back, or counts the answers.
type echo struct {
	t    *transport.Transport
	up   chan struct{}
	hear func(body []byte)
}

func (e *echo) Dialed(string, transport.Hello, error) {}
func (e *echo) Up(transport.Hello)                    { e.up <- struct{}{} }
func (e *echo) Down(transport.ID, transport.Cause)    {}
func (e *echo) Receive(from transport.ID, _ transport.Kind, body []byte) {
	if e.hear != nil {
		e.hear(body)
		return
	}
	e.t.Send(from, transport.KindShard, transport.Normal, body)
}

// newFanOut connects three nodes over sockets, or over TCP.
func newFanOut(b *testing.B, workers int, sockets transport.Sockets) *fanOut {
	f := &fanOut{}
	for range workers {
		f.waiting = append(f.waiting, make(chan struct{}, 2))
	}
	var all []*echo
	for i := range 3 {
		e := &echo{up: make(chan struct{}, 8)}
		t, err := transport.Listen(transport.Config{
			Bind: "127.0.0.1:0", Sockets: sockets, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Hello: transport.Hello{Name: fmt.Sprint(i), ID: transport.ID(i + 1), MinVersion: 1, MaxVersion: 1},
		}, e)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(t.Close)
		e.t = t
		all = append(all, e)
	}
	f.center = all[0]
	f.center.hear = func(body []byte) { f.waiting[binary.BigEndian.Uint64(body)] <- struct{}{} }
	for i, e := range all[1:] {
		f.center.t.Connect(transport.ID(i+2), e.t.Addr())
		f.peers = append(f.peers, transport.ID(i+2))
		<-f.center.up
	}
	return f
}

func (f *fanOut) round(w int) {
	for _, p := range f.peers {
		body := binary.BigEndian.AppendUint64(make([]byte, 0, 100), uint64(w))
		f.center.t.Send(p, transport.KindShard, transport.Normal, body[:100])
	}
	for range f.peers {
		<-f.waiting[w]
	}
}

// BenchmarkKeysUsedOnce locks each key once and never again. It reports how much heap is in
// use after all keys are released, while the sessions are still open:
//
//	go test -run '^$' -bench KeysUsedOnce -benchtime 1000000x .
func BenchmarkKeysUsedOnce(b *testing.B) {
	nodes := fleetOf(b, 3)
	for i := range 1000 { // so that sessions, routes and connections exist
		pair(b, nodes[i%3], fmt.Sprint("warm/", i))
	}
	before := heap()
	var next atomic.Int64
	measure(b, 128, func(w int) { pair(b, nodes[w%3], fmt.Sprint("once/", next.Add(1))) })
	b.ReportMetric(float64(heap()-before)/1024, "heap-KiB")
}

// heap returns how much heap is in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

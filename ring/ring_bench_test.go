package ring_test

import (
	"fmt"
	"testing"

	"github.com/lockmesh/mesh/ring"
)

func BenchmarkNew(b *testing.B) {
	for _, size := range []struct{ members, shards int }{{3, 64}, {10, 64}, {100, 64}, {270, 271}, {1000, 271}} {
		b.Run(fmt.Sprintf("members=%d/shards=%d", size.members, size.shards), func(b *testing.B) {
			members := named(size.members)
			b.ReportAllocs()
			for b.Loop() {
				ring.New(members, size.shards, 3)
			}
		})
	}
}

func BenchmarkShard(b *testing.B) {
	for b.Loop() {
		ring.Shard("orders/2026/42", 64)
	}
}

func BenchmarkReplicas(b *testing.B) {
	t := ring.New(named(100), 64, 3)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		t.Replicas(i % 64)
	}
}

package simulate

import (
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/transport"
)

// TestObservers tells what hears the replicas what is right, and what is wrong.
func TestObservers(t *testing.T) {
	leads := func(replica transport.ID, shard int, generation, term uint64) func(*observer) {
		return func(o *observer) {
			o.Became(seam.Became{Shard: shard, Generation: generation, Replica: replica, Term: term, Role: "leader"})
		}
	}
	follows := func(o *observer) { o.Became(seam.Became{Replica: 2, Generation: 1, Term: 3, Role: "follower"}) }
	applied := func(replica transport.ID, shard int, index, digest uint64) func(*observer) {
		return func(o *observer) {
			o.Applied(seam.Applied{Shard: shard, Generation: 1, Replica: replica, Index: index, Digest: digest})
		}
	}
	type told = []func(*observer)
	for _, tt := range []struct {
		name string
		told told
		want string
	}{
		{"a leader in each term", told{leads(1, 0, 1, 3), follows, leads(2, 0, 1, 4), leads(1, 0, 1, 5)}, ""},
		{"one leader of each shard", told{leads(1, 0, 1, 3), leads(2, 1, 1, 3)}, ""},
		{"one leader in each generation", told{leads(1, 0, 1, 3), leads(2, 0, 2, 3)}, ""},
		{"two leaders in one term", told{leads(1, 0, 1, 3), leads(2, 0, 1, 3)}, "G1 leaders"},
		{"like tables", told{applied(1, 0, 7, 70), applied(1, 0, 8, 80), applied(2, 0, 7, 70), applied(2, 0, 8, 80)}, ""},
		{"one table that went its own way", told{applied(1, 0, 7, 70), applied(1, 0, 8, 80), applied(2, 0, 7, 70), applied(2, 0, 8, 81)}, "G1 replicas"},
		{"who waits for nothing new is told", told{func(o *observer) { o.Applied(seam.Applied{Generation: 1, Replica: 1, Index: 7, Unasked: 1}) }}, "G3 wake"},
		{"two shards", told{applied(1, 0, 7, 70), applied(2, 1, 7, 71)}, ""},
		{"far behind", told{applied(1, 0, 7, 70), applied(1, 0, 7+1024, 71), applied(2, 0, 7, 72)}, ""},
	} {
		w := New(Options{})
		for _, tell := range tt.told {
			tell(&w.history.inside)
		}
		if err := w.Err(); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		w.Close()
	}
}

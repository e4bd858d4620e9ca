package simulate

import (
	"context"
	"flag"
	"testing"
	"time"
	"weak"

	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/simulate/internal/check"
)

// Flags of the tests that draw worlds.
var (
	SeedFlag  = flag.Uint64("seed", 0, "the first seed of TestFreshSeeds; the only seed of the other tests")
	SeedsFlag = flag.Int("seeds", 5, "how many seeds TestFreshSeeds runs; TestEveryMarkIsMet runs at least 10")
	LongFlag  = flag.Bool("long", false, "play all worlds, also of tests that take half a minute: CI does")
)

// Long skips a test of many seconds, unless all are to be played.
func Long(t *testing.T) {
	t.Helper()
	if !*LongFlag {
		t.Skip("it takes many seconds: see -long")
	}
}

// WallOf returns the true time at which a host's clocks show t.
func (w *World) WallOf(host string, t time.Time) time.Duration {
	p := w.named(host).process
	return p.host.clock.truth(p.Now() + t.Sub(p.Wall()) - p.base)
}

// Storm returns the world's storm, if it has one.
func (w *World) Storm() *Chaos { return w.storm }

// Events returns how many events have happened.
func (w *World) Events() uint64 { return w.trace.events }

// Properties returns what the world has to say of each property.
func (w *World) Properties() []Property { return w.properties() }

// Taken returns how often a fault point was taken.
func (w *World) Taken(s point.Site) uint64 { return w.taken[s] }

// SieveKinds returns the kinds of messages that a network may lose or double for what they are.
func SieveKinds() (all []string) {
	for _, k := range sieveKinds {
		all = append(all, k.name)
	}
	return all
}

// Sifted returns how many frames were lost or doubled for a kind of message in them.
func (w *World) Sifted(kind string) uint64 {
	for _, k := range sieveKinds {
		if x := w.Net.sieve.kinds[k.messages[0]]; k.name == kind && x != nil {
			return x.taken
		}
	}
	return 0
}

// Core returns the hosts that had to work in the end of Run; nil if all had to.
func (l *Lockers) Core() []string { return l.core }

// CorruptTable makes the table on a host differ from those of the shard's other replicas. Until
// its replica has stopped, which stopped tells, no checker compares it.
func (w *World) CorruptTable(host string, shard int) (stopped func() bool) {
	n := w.named(host).process.nodes[0]
	w.struck(host, "the table of shard %d on %s is corrupted", shard, host)
	stopped = w.history.checks.Observer().Corrupted(n.id, shard)
	n.node.Corrupt(shard)
	return stopped
}

// NodeLives returns a function that reports whether memory still holds what a node on the host runs.
func (w *World) NodeLives(host string) func() bool {
	l := weak.Make(w.named(host).process.loops[0])
	return func() bool { return l.Value() != nil }
}

// Parked returns the actors that wait for an answer of a node.
func (w *World) Parked() []string { return judged{w}.Parked() }

// Report records that the actor of ctx is about to ask for something.
func (w *World) Report(ctx context.Context, want check.Want) *check.Call {
	return w.history.checks.Call(processOf(ctx, "Report"), want)
}

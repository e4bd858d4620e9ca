package simulate_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
	"github.com/lockmesh/mesh/simulate/search"
)

// points sums up what worlds say of the points in the library's code.
type points struct {
	mu    sync.Mutex
	sites map[point.Site]uint64
	names []string // of the marks
	marks map[string]uint64
	in    map[string]int // worlds that met it
}

func newPoints() *points {
	return &points{sites: make(map[point.Site]uint64), marks: make(map[string]uint64), in: make(map[string]int)}
}

// play is a drill whose points are counted.
func (p *points) play(w *simulate.World) error {
	err := drill.Play(w)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range point.Sites() {
		p.sites[s] += w.Taken(s)
	}
	p.names = p.names[:0]
	for _, q := range w.Properties() {
		if q.Kind != simulate.Mark {
			continue
		}
		p.names = append(p.names, q.Name)
		if p.marks[q.Name] += q.Met; q.Met > 0 {
			p.in[q.Name]++
		}
	}
	return err
}

// String lists all of them, the rarest first.
func (p *points) String() string {
	var b strings.Builder
	sites, marks := point.Sites(), slices.Clone(p.names)
	slices.SortStableFunc(sites, func(x, y point.Site) int { return cmp.Compare(p.sites[x], p.sites[y]) })
	slices.SortStableFunc(marks, func(x, y string) int { return cmp.Compare(p.in[x], p.in[y]) })
	for _, s := range sites {
		fmt.Fprintf(&b, "%9d times taken: %v\n", p.sites[s], s)
	}
	for _, m := range marks {
		fmt.Fprintf(&b, "%9d times, in %d worlds: %v\n", p.marks[m], p.in[m], m)
	}
	return b.String()
}

// seldom is the seed to begin with where most worlds do not come by, so that only few are played: in those of the seeds
// before it there is nothing to see. If traces change, another seed saves as much.
var seldom = map[string]uint64{"small-window": 9, "small-chunks": 22, "hosts": 9, "received": 22, "chunks": 22, "fences": 31}

// beginning returns the first seed to play for a fault point, or a kind of message.
func beginning(of string) uint64 {
	if *simulate.SeedFlag != 0 {
		return *simulate.SeedFlag
	}
	return max(seldom[of], 1)
}

// TestEachSite: wherever a fault point is, drills come by it; and a mesh that takes one of
// them every second time keeps what it promises, in the time that it has for that.
func TestEachSite(t *testing.T) {
	least, most := 1, 100
	if *simulate.LongFlag {
		least = 2
	}
	for _, s := range point.Sites() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			p := newPoints()
			worlds := 0
			for seed := beginning(s.String()); worlds < least || p.sites[s] == 0 && worlds < most; seed++ {
				worlds++
				search := search.Plan{Play: p.play, Options: simulate.Options{
					Seed: seed, Profile: simulate.Hostile,
					Set: map[string]int64{"site-" + s.String() + "-percent": 50},
				}}
				if o := search.Replay(search.Case(seed), false); o.Err != nil {
					t.Fatalf("%v\n%v", o.Err, o.Case)
				}
			}
			if p.sites[s] == 0 {
				t.Errorf("%d worlds never came by", worlds)
			}
			t.Logf("taken %d times in %d worlds", p.sites[s], worlds)
		})
	}
}

// TestEachKindOfMessage: drills send each kind of message; and a mesh whose network loses every
// second frame with one of them, and doubles every second one of the others, keeps what it
// promises, in the time that it has for that.
func TestEachKindOfMessage(t *testing.T) {
	for _, kind := range simulate.SieveKinds() {
		t.Run(kind, func(t *testing.T) {
			set := map[string]int64{"net-lose-" + kind + "-percent": 50, "net-double-" + kind + "-percent": 50}
			switch kind {
			case "fences":
				set["hosts"], set["founders"] = 6, 5 // the core outlives the voters of a shard
			case "removals":
				set["hosts"], set["founders"], set["list-changes"] = 7, 6, 8 // votes go from nodes that live
			}
			t.Parallel()
			worlds, sifted := 0, uint64(0)
			for seed := beginning(kind); worlds < 1 || sifted == 0 && worlds < 100; seed++ {
				worlds++
				search := search.Plan{
					Play: func(w *simulate.World) error {
						defer func() { sifted += w.Sifted(kind) }()
						return drill.Play(w)
					},
					Options: simulate.Options{Seed: seed, Profile: simulate.Hostile, Set: set},
				}
				if o := search.Replay(search.Case(seed), false); o.Err != nil {
					t.Fatalf("%v\n%v", o.Err, o.Case)
				}
			}
			if sifted == 0 {
				t.Errorf("none in %d worlds", worlds)
			}
			t.Logf("%d frames in %d worlds", sifted, worlds)
		})
	}
}

// A fault point that is off leaves no trace, whether its chance was drawn or not: with one point
// less in the code, the worlds are the same in which it is off. So it is with the sieve.
func TestAFaultPointThatIsOffLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		opts := simulate.Options{Seed: seed, Profile: simulate.Hostile, Set: map[string]int64{"storm-s": 5}}
		first := simulate.Play(opts, drill.Play)
		for _, p := range first.Parameters {
			if (strings.HasPrefix(p.Name, "site-") || strings.HasPrefix(p.Name, "net-")) && p.Value == 0 {
				opts.Set[p.Name] = 0
			}
		}
		if second := simulate.Play(opts, drill.Play); len(opts.Set) < 2 || second.Hash != first.Hash {
			t.Errorf("seed %d: with %d fault points not drawn, the hash is %x, and was %x", seed, len(opts.Set)-1, second.Hash, first.Hash)
		}
	}
}

// A voter that is alone has nobody whose messages remind it of what it put off.
func TestALateAccessionOfASingleVoter(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		o := simulate.Play(simulate.Options{Seed: seed, Profile: simulate.Hostile, Only: []string{}, Set: map[string]int64{
			"*": simulate.Least, "founders": 1, "site-late-accession-percent": 50,
		}}, drill.Play)
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
}

// enough is how many worlds must meet every mark and take every site; of fewer, only most
// is asked.
const enough = 2000

// TestEveryMarkIsMet: hostile drills come to all the rare situations that they are for.
//
//	go test ./simulate -run '^TestEveryMarkIsMet$' -seeds 2000 -v
func TestEveryMarkIsMet(t *testing.T) {
	t.Parallel()
	p := newPoints()
	report, err := search.Plan{
		Play: p.play, Options: simulate.Options{Seed: max(*simulate.SeedFlag, 1), Profile: simulate.Hostile},
		Seeds: max(*simulate.SeedsFlag, 10), KeepGoing: true,
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Errorf("%d seeds, the first: %v\n%v", f.Seeds, f.First.Err, f.First.Case)
	}
	met, taken := 0, 0
	for _, m := range p.names {
		if p.marks[m] > 0 {
			met++
		} else if report.Seeds >= enough {
			t.Errorf("never: %v", m)
		}
	}
	for _, s := range point.Sites() {
		if p.sites[s] > 0 {
			taken++
		} else if report.Seeds >= enough {
			t.Errorf("never taken: %v", s)
		}
	}
	if met < len(p.names)/2 || taken < len(point.Sites())/2 {
		t.Errorf("only %d of %d marks were met, and %d of %d sites taken", met, len(p.names), taken, len(point.Sites()))
	}
	t.Logf("%d worlds, %v of virtual time in %v, %d events, %d of %d marks, %d of %d sites\n%v", report.Seeds, report.Simulated,
		report.Elapsed, report.Events, met, len(p.names), taken, len(point.Sites()), p)
}

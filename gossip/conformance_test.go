package gossip_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate"
)

// The simulator has a model of this package's gossip. Here both play the same scripts,
// over connections with the same latency. Memberlist plays in a bubble's virtual time,
// several times, since it uses a random source that cannot be seeded; the model plays
// more often, since it is cheap. Three things are compared:
//
//   - the news that each node received of each other one, as a story ("dead alive"):
//     the share of the pairs with each story.
//   - the times at which the first and the last node received some news.
//   - which members each node counts as alive in the end.
//
// If the outcome of a script is certain, both must reach it. All else must be as alike
// as chance allows: means may differ by deviation standard errors plus slack, and
// distributions by the distance that chance exceeds once in ten million times. The slack
// is for what the scripts do not control: the order of memberlist's goroutines within an
// instant.
var runs = flag.Int("runs", 0, "how often memberlist plays each script with five nodes; with more, less often, as CI does with 12. Default: 4, and not with 16 nodes")

const (
	modelRuns  = 8 // times as often
	deviation  = 5 // standard errors of the difference of two means
	slack      = 50 * time.Millisecond
	shareSlack = 0.02
)

// These follow from the settings, for up to ten nodes.
const (
	probeInterval  = 400 * time.Millisecond
	gossipInterval = 200 * time.Millisecond
	leastDeath     = probeInterval + 3*probeInterval - 5*time.Millisecond // a failed probe, and a shared suspicion
	quick          = 5 * time.Millisecond                                 // a few times a frame's latency
)

// script is a story for n nodes.
type script struct {
	name  string
	sizes []int
	play  func(s *stage, n int)
	bands map[string]band   // of its figures
	want  map[string]string // the story of nearly all pairs of two roles
}

// band bounds a figure: by the smallest value of any run, and by the largest mean in the
// long run.
type band struct{ least, mean time.Duration }

// tally holds the results of many runs of a script.
type tally struct {
	runs    int
	shares  map[string]map[int]float64 // by roles and story, in which run
	figures map[string][]float64       // in seconds
}

func newTally() *tally {
	return &tally{shares: make(map[string]map[int]float64), figures: make(map[string][]float64)}
}

var stateNames = map[env.MemberState]string{env.Alive: "alive", env.Dead: "dead", env.Left: "left"}

// roles has the role of each node in a script.
type roles map[string]string

func parts(all []string, few int) roles {
	r := make(roles)
	for i, name := range all {
		r[name] = "many"
		if i < few {
			r[name] = "few"
		}
	}
	return r
}

// stories records the news that each node received of each other one.
func (s *stage) stories(news []heard, part roles) {
	heard := make(map[string]string)
	for _, h := range news {
		heard[h.by+h.of] += " " + stateNames[h.state]
	}
	count, pairs := make(map[string]int), make(map[string]int)
	for by := range part {
		for of := range part {
			if by != of && part[by] != "" {
				key := part[by] + " of " + part[of]
				pairs[key]++
				count[key+":"+heard[by+of]]++
			}
		}
	}
	for story, n := range count {
		key, _, _ := strings.Cut(story, ":")
		s.share(story, float64(n)/float64(pairs[key]))
	}
}

func (s *stage) share(what string, part float64) {
	if s.tally.shares[what] == nil {
		s.tally.shares[what] = make(map[int]float64)
	}
	s.tally.shares[what][s.tally.runs] = part
}

// views records in how many pairs the one rightly counts the other as alive.
func (s *stage) views(all []string) {
	lives := make(map[string]bool)
	for _, h := range s.since(0) {
		lives[h.by+h.of] = h.state == env.Alive
	}
	right := 0
	for _, by := range all {
		for _, of := range all {
			if lives[by+of] {
				right++
			}
		}
	}
	s.share("believed alive in the end:", float64(right)/float64(len(all)*(len(all)-1)))
}

func (s *stage) figure(name string, seconds float64) {
	s.tally.figures[name] = append(s.tally.figures[name], seconds)
}

// times records when the first and the last of some news came.
func (s *stage) times(what string, from time.Duration, news []heard, that func(heard) bool) {
	var times []float64
	for _, h := range news {
		if that(h) {
			times = append(times, (h.at - from).Seconds())
		}
	}
	if len(times) == 0 {
		s.t.Errorf("%s: no such news in %v", what, news)
		return
	}
	s.figure(what+", first", slices.Min(times))
	s.figure(what+", last", slices.Max(times))
}

func is(state env.MemberState) func(heard) bool {
	return func(h heard) bool { return h.state == state }
}

var scripts = []script{
	{
		"found", []int{5, 16},
		func(s *stage, n int) {
			all := names(n)
			s.start(all...)
			from := s.Now()
			for _, name := range all[1:] {
				s.join(name, all[0])
			}
			s.wait(40 * time.Second)
			s.times("known", from, s.since(from), is(env.Alive))
			s.stories(s.since(from), parts(all, 1))
		},
		map[string]band{"known, first": {0, quick}, "known, last": {0, 5 * time.Second}},
		map[string]string{"many of many": "alive", "few of many": "alive", "many of few": "alive"},
	},
	{
		"join", []int{5, 16},
		func(s *stage, n int) {
			all := s.meet(n - 1)
			s.start("new")
			from := s.Now()
			s.join("new", all[1])
			s.wait(40 * time.Second)
			s.times("known", from, s.since(from), func(h heard) bool { return h.of == "new" })
			s.times("knows", from, s.since(from), func(h heard) bool { return h.by == "new" })
			part := parts(all, 0)
			part["new"] = "new"
			s.stories(s.since(from), part)
		},
		map[string]band{
			"known, first": {0, quick}, "known, last": {0, 4 * time.Second},
			"knows, first": {0, quick}, "knows, last": {0, quick},
		},
		map[string]string{"many of new": "alive", "new of many": "alive", "many of many": ""},
	},
	{
		"crash", []int{3, 5, 9, 16},
		func(s *stage, n int) {
			all := s.meet(n)
			from := s.Now()
			s.crash(all[0])
			s.wait(30 * time.Second)
			s.times("dead", from, s.since(from), is(env.Dead))
			part := parts(all, 1)
			s.stories(s.since(from), part)
		},
		map[string]band{"dead, first": {leastDeath, 2600 * time.Millisecond}, "dead, last": {leastDeath, 3400 * time.Millisecond}},
		map[string]string{"many of few": "dead", "many of many": ""},
	},
	{
		"leave", []int{5, 16},
		func(s *stage, n int) {
			all := s.meet(n)
			from := s.Now()
			s.player(all[0]).gossip.Leave()
			s.wait(50 * time.Millisecond)
			s.crash(all[0])
			s.wait(time.Minute)
			s.times("left", from, s.since(from), is(env.Left))
			s.stories(s.since(from), parts(all, 1))
		},
		map[string]band{"left, first": {0, quick}, "left, last": {0, quick}},
		map[string]string{"many of few": "left", "many of many": ""},
	},
	{
		"leave by rumour", []int{5, 16},
		func(s *stage, n int) {
			all := s.meet(n)
			s.PartitionOneWay(all[:1], all[1:2])
			from := s.Now()
			s.player(all[0]).gossip.Leave()
			s.wait(time.Minute)
			s.times("left", from, s.since(from), func(h heard) bool { return h.by == all[1] && h.state == env.Left })
			s.stories(s.since(from), parts(all, 1))
		},
		map[string]band{"left, first": {0, 4 * time.Second}, "left, last": {0, 4 * time.Second}},
		map[string]string{"many of few": "left", "many of many": ""},
	},
	{
		"cut of a second", []int{5, 16},
		func(s *stage, n int) {
			all := s.meet(n)
			from := s.Now()
			s.Partition(all[:2])
			s.wait(time.Second)
			s.Heal()
			s.wait(40 * time.Second)
			s.stories(s.since(from), parts(all, 2))
		},
		nil,
		map[string]string{"many of few": "", "few of many": "", "many of many": "", "few of few": ""},
	},
	{
		"cut of three seconds", []int{5, 9},
		func(s *stage, n int) {
			all := s.meet(n)
			from := s.Now()
			s.Partition(all[:1])
			s.wait(3 * time.Second)
			s.Heal()
			s.wait(10 * time.Second)
			s.join(all[0], all[1:]...)
			s.wait(40 * time.Second)
			s.stories(s.since(from), parts(all, 1))
			s.views(all)
		},
		nil, nil,
	},
	{"cut of twelve seconds", []int{5, 9, 16}, partition(12 * time.Second), cutBands(gossipInterval), cutStories},
	{"cut of a minute", []int{5, 9}, partition(time.Minute), cutBands(quick), cutStories},
	{
		"cut between two", []int{5, 9},
		func(s *stage, n int) {
			all := s.meet(n)
			from := s.Now()
			s.PartitionOneWay(all[:1], all[1:2])
			s.PartitionOneWay(all[1:2], all[:1])
			s.wait(40 * time.Second)
			s.stories(s.since(from), parts(all, 2))
		},
		nil,
		map[string]string{"many of few": "", "few of many": "", "many of many": "", "few of few": ""},
	},
	{
		"deaf", []int{5, 9},
		func(s *stage, n int) {
			all := s.meet(n)
			from := s.Now()
			s.PartitionOneWay(all[1:], all[:1])
			s.wait(20 * time.Second)
			s.stories(s.since(from), parts(all, 1))
			s.Heal()
			s.wait(10 * time.Second)
			s.join(all[0], all[1:]...)
			s.wait(40 * time.Second)
			s.views(all)
		},
		nil, nil,
	},
	{
		"pause of half a second", []int{5, 16},
		func(s *stage, n int) {
			all := s.meet(n)
			from := s.Now()
			s.Pause(all[0])
			s.wait(500 * time.Millisecond)
			s.Resume(all[0])
			s.wait(30 * time.Second)
			s.stories(s.since(from), parts(all, 1))
		},
		nil,
		map[string]string{"many of few": "", "few of many": "", "many of many": ""},
	},
	{
		"pause of fifteen seconds", []int{5, 9},
		func(s *stage, n int) {
			all := s.meet(n)
			from := s.Now()
			s.Pause(all[0])
			s.wait(15 * time.Second)
			// The paused node's own news are not compared: a bubble cannot stop memberlist's
			// goroutines, but the simulator stops its nodes.
			others := slices.DeleteFunc(s.since(from), func(h heard) bool { return h.by == all[0] })
			s.times("dead", from, others, is(env.Dead))
			s.stories(others, parts(all, 1))
			s.Resume(all[0])
			s.wait(10 * time.Second)
			for _, name := range all[1:] {
				s.join(name, all[0])
			}
			s.join(all[0], all[1:]...)
			s.wait(40 * time.Second)
			s.views(all)
		},
		map[string]band{"dead, first": {leastDeath, 2600 * time.Millisecond}, "dead, last": {leastDeath, 3400 * time.Millisecond}},
		map[string]string{"many of few": "dead", "many of many": ""},
	},
}

// cutBands returns the bands of a cut. A dead member that is still remembered must refute its
// death before it counts as alive.
func cutBands(first time.Duration) map[string]band {
	return map[string]band{
		"dead, first":  {leastDeath, 2200 * time.Millisecond},
		"dead, last":   {leastDeath, 9 * time.Second},
		"alive, first": {0, first},
		"alive, last":  {0, 8 * time.Second},
	}
}

var cutStories = map[string]string{"many of few": "dead alive", "few of many": "dead alive", "many of many": ""}

// partition cuts two nodes off from the others, and after the cut joins the sides again.
func partition(d time.Duration) func(s *stage, n int) {
	return func(s *stage, n int) {
		all := s.meet(n)
		from := s.Now()
		s.Partition(all[:2])
		s.wait(d)
		part := parts(all, 2)
		across := func(state env.MemberState) func(heard) bool {
			return func(h heard) bool { return part[h.by] != part[h.of] && h.state == state }
		}
		s.times("dead", from, s.since(from), across(env.Dead))
		s.Heal()
		s.wait(10 * time.Second) // connections come back
		again := s.Now()
		s.join(all[0], all[n-1])
		s.wait(40 * time.Second)
		s.times("alive", again, s.since(again), across(env.Alive))
		s.stories(s.since(from), part)
		s.views(all)
	}
}

func TestTheModelIsLikeMemberlist(t *testing.T) {
	var tables []*strings.Builder
	often, largest := *runs, 16
	if often == 0 {
		often, largest = 4, 9
	}
	for _, sc := range scripts {
		for _, n := range sc.sizes {
			if n > largest {
				continue
			}
			table := &strings.Builder{}
			tables = append(tables, table)
			t.Run(fmt.Sprintf("%s/%d", sc.name, n), func(t *testing.T) {
				t.Parallel()
				times := max(often*5/n, 3)
				actual, model := newTally(), newTally()
				for seed := range uint64(times) {
					inBubble(t, seed, func(b *bubble) { sc.run(t, bubbled{b}, n, seed, actual) })
				}
				for seed := range uint64(times * modelRuns) {
					w := simulate.New(simulate.Options{Seed: seed})
					sc.run(t, simulated{w, t}, n, seed, model)
					w.Close()
				}
				sc.compare(t, n, actual, model, table)
			})
		}
	}
	t.Cleanup(func() {
		out := fmt.Sprintf("%-24s %2s  %-36s %26s  %26s\n", "script", "n", "figure (s) or share (%)", "memberlist: least mean most", "model: least mean most")
		for _, table := range tables {
			out += table.String()
		}
		t.Logf("\n%s", out)
	})
}

func (sc script) run(t *testing.T, l lab, n int, seed uint64, to *tally) {
	sc.play(&stage{lab: l, t: t, rand: rand.New(rand.NewPCG(seed, 1)), tally: to}, n)
	to.runs++
}

func (sc script) compare(t *testing.T, n int, actual, model *tally, table *strings.Builder) {
	alike := func(name string, a, b []float64, slack, unit float64) (x, y summary) {
		x, y = summarise(a), summarise(b)
		fmt.Fprintf(table, "%-24s %2d  %-36s %26s  %26s\n", sc.name, n, name, x.format(unit), y.format(unit))
		all := summarise(slices.Concat(a, b))
		may := slack + deviation*math.Sqrt(all.variance*(1/float64(len(a))+1/float64(len(b))))
		if math.Abs(x.mean-y.mean) > may {
			t.Errorf("%s: the mean is %.3f with memberlist and %.3f with the model, which is more than %.3f apart", name, x.mean, y.mean, may)
		}
		if d, may := distance(a, b, slack); d > may {
			t.Errorf("%s: the distributions are %.2f apart, more than %.2f", name, d, may)
		}
		return x, y
	}
	for _, name := range slices.Sorted(maps.Keys(actual.figures)) {
		x, y := alike(name, actual.figures[name], model.figures[name], slack.Seconds(), 1)
		in, known := sc.bands[name]
		if !known {
			t.Errorf("%s has no band", name)
		}
		if least, most := min(x.least, y.least), max(x.surely(), y.surely()); least < in.least.Seconds() || most > in.mean.Seconds() {
			t.Errorf("%s: %.3f to surely %.3f in the mean, want %v to %v", name, least, most, in.least, in.mean)
		}
	}
	shares := maps.Clone(actual.shares)
	maps.Copy(shares, model.shares)
	for _, what := range slices.Sorted(maps.Keys(shares)) {
		x, y := alike(what, actual.share(what), model.share(what), shareSlack, 100)
		who, story, _ := strings.Cut(what, ":")
		if want, certain := sc.want[who]; certain && want == strings.TrimSpace(story) && min(x.perhaps(), y.perhaps()) < 0.9 {
			t.Errorf("%q: of %.2f of all pairs with memberlist and %.2f with the model, want nearly all", what, x.mean, y.mean)
		}
		if who == "believed alive in the end" && min(x.mean, y.mean) < 0.97 {
			t.Errorf("%.3f of all pairs with memberlist and %.3f with the model are believed alive in the end, want all", x.mean, y.mean)
		}
	}
	for who, story := range sc.want {
		what := strings.TrimSpace(who + ": " + story)
		if actual.shares[what] == nil || model.shares[what] == nil {
			t.Errorf("no pair has the story %q", what)
		}
	}
}

// share returns the share of what in each run.
func (ta *tally) share(what string) []float64 {
	all := make([]float64, ta.runs)
	for run, part := range ta.shares[what] {
		all[run] = part
	}
	return all
}

// summary describes the values of a figure in many runs.
type summary struct {
	runs                        int
	least, mean, most, variance float64
}

// surely is a lower bound for the mean of endlessly many runs.
func (s summary) surely() float64 {
	return s.mean - deviation*math.Sqrt(s.variance/float64(s.runs))
}

// perhaps is an upper bound for it. In a short test, 1 of 9 pairs says little about 100.
func (s summary) perhaps() float64 {
	return s.mean + deviation*math.Sqrt(s.variance/float64(s.runs))
}

func summarise(values []float64) summary {
	s := summary{runs: len(values), least: slices.Min(values), most: slices.Max(values)}
	for _, v := range values {
		s.mean += v / float64(len(values))
	}
	for _, v := range values {
		s.variance += (v - s.mean) * (v - s.mean) / float64(len(values)-1)
	}
	return s
}

func (s summary) format(unit float64) string {
	return fmt.Sprintf("%8.3f %8.3f %8.3f", s.least*unit, s.mean*unit, s.most*unit)
}

// distance returns the Kolmogorov-Smirnov distance between two samples, and the distance
// that two samples of one distribution exceed once in ten million times. Values within
// slack count as equal.
func distance(a, b []float64, slack float64) (d, may float64) {
	below := func(values []float64, v float64) float64 {
		n := 0
		for _, w := range values {
			if w <= v {
				n++
			}
		}
		return float64(n) / float64(len(values))
	}
	for _, v := range slices.Concat(a, b) {
		d = max(d, below(a, v)-below(b, v+slack), below(b, v)-below(a, v+slack))
	}
	n, m := float64(len(a)), float64(len(b))
	return d, math.Sqrt(-math.Log(1e-7/2) / 2 * (n + m) / (n * m))
}

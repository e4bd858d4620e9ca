package simulate_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// aimed is how the timeline tells of an aimed fault that strikes.
var aimed = regexp.MustCompile(`^aimed/\d+: after (.*) from (.*) to (.*), (.*)$`)

// words are what the timeline calls the messages that faults are aimed at.
var words = map[string][]string{
	"a renewal":                     {"renewal"},
	"a Fix":                         {"fix "},
	"a grant":                       {"granted "},
	"a change of replicas":          {"with a change of replicas"},
	"the beginning of a snapshot":   {"snapshot chunk 0"},
	"a word of handing over":        {"will you lead", "I will lead", "campaign now"},
	"a fence":                       {"core: fence"},
	"a version of the core's table": {"core: write"},
	"a roll call's proposal":        {"core: propose"},
}

// An aimed fault strikes right after a message of the kind that it waits for, and befalls those
// between whom that was sent.
func TestAimedFaultsHitWhatTheyAreAimedAt(t *testing.T) {
	simulate.Long(t)
	hit, blows, rare := make(map[string]int), make(map[string]int), 0
	for seed := uint64(1); seed <= 20; seed++ {
		o := simulate.Play(simulate.Options{
			Seed: seed, Profile: []simulate.Profile{simulate.LAN, simulate.Hostile}[seed%2], Timeline: true,
			Set: map[string]int64{"hosts": 5, "founders": 5, "shards": 4, "lockers": 1, "guests": 1, "guest-fixed": 9, "guest-pause-ms": 200, "errands": 0, "storm-s": 20},
		}, drill.Play)
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		moments := o.Timeline.Moments
		for i, m := range moments {
			if strings.HasPrefix(m.Text, "aimed/") && strings.Contains(m.Text, "; the receiver is ") {
				rare++
			}
			parts := aimed.FindStringSubmatch(m.Text)
			if parts == nil {
				continue
			}
			what, from, to, blow := parts[1], parts[2], parts[3], parts[4]
			hit[what]++
			blows[blow]++
			if blow == "the answer is lost" { // which may be long after the message
				lost := func(m timeline.Moment) bool { return m.Kind == timeline.Lost && m.Text == "rule" }
				if next := moments[i+1]; !lost(next) || next.Peer+next.Host != from+to && next.Peer+next.Host != to+from {
					t.Errorf("seed %d: %q, and then %+v", seed, m.Text, next)
				}
				continue
			}
			const longest = 100 * time.Millisecond // for which an aim waits here
			sent := slices.ContainsFunc(moments[:i], func(s timeline.Moment) bool {
				return s.Kind == timeline.Sent && s.Host == from && s.Peer == to && m.At-s.At <= longest &&
					slices.ContainsFunc(words[what], func(word string) bool { return strings.Contains(s.Text, word) })
			})
			if !sent {
				t.Errorf("seed %d: at %v, %q, and there was none", seed, m.At, m.Text)
			}
			befallen := to
			if strings.HasPrefix(blow, "the sender") {
				befallen = from
			}
			if !slices.ContainsFunc(moments[:i], func(f timeline.Moment) bool {
				return f.At == m.At && f.Kind == timeline.Fault && strings.Contains(f.Text, befallen)
			}) {
				t.Errorf("seed %d: at %v, %q, and nothing befell %s", seed, m.At, m.Text, befallen)
			}
		}
	}
	t.Log(hit, blows, rare)
	if rare < 3 {
		t.Errorf("%d faults struck after a rare situation", rare)
	}
	for what := range words {
		if hit[what] == 0 {
			t.Errorf("no fault struck after %s", what)
		}
	}
	if len(blows) < 11 {
		t.Errorf("only %d ways to strike came about: %v", len(blows), blows)
	}
}

// A cut that outlasts everything does, also when the storm was to end before: the storm goes on.
func TestACutOutlastsAllThatIsTimed(t *testing.T) {
	happened := 0
	for seed := uint64(1); seed <= 40; seed++ {
		w := simulate.New(simulate.Options{Seed: seed, Profile: simulate.Hostile, Set: map[string]int64{
			"hosts": 3, "shards": 1, "lockers": 1, "guests": 0, "errands": 0, "storm-s": 5, "calls": 0, "faults": 0,
		}})
		defer w.Close()
		if err := drill.Play(w); err != nil {
			t.Fatal(err)
		}
		for _, f := range w.Storm().Faults() {
			if !strings.HasPrefix(f.Name, "outlast/") || !f.Happened {
				continue
			}
			happened++
			if f.For < 48*time.Second || w.Now() < f.At+f.For { // gossip's memory is 30 s, and the lease 3 s
				t.Errorf("seed %d: %+v, and the world ends at %v", seed, f, w.Now())
			}
		}
	}
	if happened < 2 {
		t.Errorf("%d cuts outlasted all", happened)
	}
}

// oneKey is a small fleet with one key. What is promised beyond the end of all is judged in it: the
// mutants NoFreshGrace and TokensFromZero leave that out.
var oneKey = map[string]int64{"hosts": 3, "shards": 1, "lockers": 3, "keys": 1, "guests": 0, "errands": 0, "storm-s": 20}

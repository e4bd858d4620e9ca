package timeline

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

// story makes a timeline of short words, a millisecond apart: "a lock k" asks on host a
// for k, "a read k" and "a 2/3 k" too, "a unlock k" and "a lost k" end a's last hold of
// k; "a down", "a pause" and so on; "fail k", "broken".
func story(t *testing.T, words ...string) *Timeline {
	t.Helper()
	tl := &Timeline{Hosts: []string{"a", "b", "c"}}
	last := make(map[string]int)
	for _, w := range words {
		m := Moment{ID: len(tl.Moments) + 1, Host: w[:1], Shard: -1, At: time.Duration(len(tl.Moments)) * time.Millisecond}
		var verb, key string
		n, _ := fmt.Sscan(w[1:], &verb, &key)
		m.Key = key
		kinds := map[string]Kind{"down": Down, "up": Up, "pause": Paused, "resume": Resumed, "unlock": Unlocked, "lost": HoldEnded}
		switch {
		case w == "broken":
			m.Host, m.Kind, m.Text = Lab, Property, `always "order" is broken`
		case w[:4] == "fail":
			m.Host, m.Kind, m.Key = Lab, Failure, w[5:]
		case kinds[verb] != 0:
			m.Kind = kinds[verb]
			if n == 2 {
				m.Begin = last[m.Host+key]
			}
		default:
			var weight, capacity int
			m.Kind, m.Text = Called, verb
			if n, _ := fmt.Sscanf(verb, "%d/%d", &weight, &capacity); n == 2 {
				m.Text = fmt.Sprintf("%d of %d", weight, capacity)
			}
			tl.Moments = append(tl.Moments, m)
			m = Moment{ID: m.ID + 1, Host: m.Host, Shard: -1, At: m.At, Kind: Held, Key: key, Begin: m.ID, Token: uint64(m.ID + 1)}
			last[m.Host+key] = m.ID
		}
		tl.Moments = append(tl.Moments, m)
	}
	if err := tl.Check(); err != nil {
		t.Fatal(err)
	}
	return tl
}

func TestOverlaps(t *testing.T) {
	for _, tt := range []struct {
		name  string
		story []string
		want  []overlap
	}{
		{"one after another", []string{"a lock k", "a unlock k", "b lock k", "b lost k", "c lock k"}, nil},
		{"two locks", []string{"a lock k", "b lock k", "a unlock k"}, []overlap{{[]int{2, 4}, 4, 5}}},
		{"two locks, to the end", []string{"a lock k", "b lock k"}, []overlap{{[]int{2, 4}, 4, 0}}},
		{"three locks are one overlap", []string{"a lock k", "b lock k", "c lock k", "a lost k", "b lost k"}, []overlap{{[]int{2, 4, 6}, 4, 8}}},
		{"different keys", []string{"a lock k", "b lock l"}, nil},
		{"readers", []string{"a read k", "b read k"}, nil},
		{"a reader and a lock", []string{"a read k", "b lock k", "b unlock k"}, []overlap{{[]int{2, 4}, 4, 5}}},
		{"parts that fit", []string{"a 2/3 k", "b 1/3 k"}, nil},
		{"parts that do not", []string{"a 2/3 k", "b 1/3 k", "c 1/3 k"}, []overlap{{[]int{2, 4, 6}, 6, 0}}},
		{"a dead holder holds nothing", []string{"a lock k", "a down", "b lock k"}, nil},
		{"nor does it after its return", []string{"a lock k", "a down", "a up", "b lock k"}, nil},
		{"a paused holder cannot act", []string{"a lock k", "a pause", "b lock k", "b unlock k", "a resume", "a lost k"}, nil},
		{"one that goes on can", []string{"a lock k", "a pause", "b lock k", "a resume", "a lost k"}, []overlap{{[]int{2, 5}, 6, 7}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got := story(t, tt.story...).holds()
			if len(got) == 0 && len(tt.want) == 0 {
				return
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%v: overlaps %+v, want %+v", tt.story, got, tt.want)
			}
		})
	}
}

// A holder that notices its loss in the instant in which it goes on did nothing wrong.
func TestALossSeenOnWakingIsNoOverlap(t *testing.T) {
	tl := story(t, "a lock k", "a pause", "b lock k", "a resume", "a lost k")
	tl.Moments[6].At = tl.Moments[5].At
	if _, got := tl.holds(); len(got) > 0 {
		t.Errorf("overlaps %+v", got)
	}
}

func TestHoldsHaveEndsAndSlots(t *testing.T) {
	got, _ := story(t, "a read k", "b read k", "a unlock k", "c read k", "b down", "a lock l").holds()
	want := []holdSpan{{span{2, 5}, 0}, {span{4, 8}, 1}, {span{7, 0}, 0}, {span{10, 0}, 0}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("holds %+v, want %+v", got, want)
	}
}

func TestTheViolationIsOfTheHoldsThatFailed(t *testing.T) {
	two := []string{"a lock k", "b lock k", "a lock l", "b lock l"} // holds 2, 4, and 6, 8; tokens alike
	for _, tt := range []struct {
		name   string
		story  []string
		text   string // of the failure
		moment int
		holds  []int
	}{
		{"nothing wrong", two, "", 0, nil},
		{"a failure without holds", []string{"a lock k", "fail k"}, "stuck", 3, nil},
		{"its key's overlap", append(two[:4:4], "fail k"), "G1", 9, []int{2, 4}},
		{"another key's", append(two[:4:4], "fail m"), "G1", 9, nil},
		{"no key", append(two[:4:4], "fail "), "G1", 9, nil},
		{"an overlap that was over", append(two[:4:4], "b unlock k", "fail k"), "G1", 10, nil},
		{"the tokens that it names", append(two[:4:4], "fail "), `"l" token 8 since 1s, "l" token 6`, 9, []int{6, 8}},
		{"tokens of no overlap", []string{"a lock k", "a unlock k", "b lock k", "fail "}, `"k" token 5 after token 2`, 6, []int{2, 5}},
		{"parts of tokens", append(two[:4:4], "fail "), `"l" token 86`, 9, nil},
		{"tokens of a key that it does not name", append(two[:4:4], "fail "), "tokens 6 and 8", 9, nil},
		{"a broken property", []string{"a lock k", "broken"}, "", 3, nil},
		{"the failure before the property", []string{"broken", "fail k"}, "", 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tl := story(t, tt.story...)
			if last := &tl.Moments[len(tl.Moments)-1]; last.Kind == Failure {
				last.Text = tt.text
			}
			_, overlaps := tl.holds()
			v := tl.violation(overlaps)
			if v == nil {
				v = &violation{}
			}
			if v.moment != tt.moment || !slices.Equal(v.holds, tt.holds) {
				t.Errorf("violation at moment %d of holds %v, want %d, %v", v.moment, v.holds, tt.moment, tt.holds)
			}
		})
	}
}

func TestFaultsConcernTheHostsTheyName(t *testing.T) {
	tl := &Timeline{Hosts: []string{"a", "b", "n1"}, Moments: []Moment{
		{ID: 1, Kind: Fault, Host: Lab, Text: "partition n1 | a"},
		{ID: 2, Kind: Fault, Host: "b", Text: "pause"},
		{ID: 3, Kind: Fault, Host: Lab, Text: "links: loss 3 ppm"},
		{ID: 4, Kind: Ended, Host: Lab, Begin: 1},
		{ID: 5, Kind: Ended, Host: Lab, Begin: 1}, // again
		{ID: 6, Kind: Ended, Host: Lab},           // of what, nobody knows
		{ID: 7, Kind: Fault, Host: Lab, Text: "one way: b -> a, b"},
	}}
	want := []faultSpan{{span{1, 4}, []int{0, 2}}, {span{2, 0}, []int{1}}, {span{3, 0}, nil}, {span{7, 0}, []int{0, 1}}}
	if got := tl.faults(); !reflect.DeepEqual(got, want) {
		t.Errorf("faults %+v, want %+v", got, want)
	}
}

// Who looks at a broken property wants to see what its actor held, and who held the same
// before and since.
func TestABrokenPropertyIsAboutWhatItsActorHolds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		story []string
		holds []int
	}{
		{"its hold, and the one before", []string{"c lock k", "c unlock k", "b lock k", "b lost k", "a lock k"}, []int{5, 8}},
		{"and those since", []string{"a lock k", "b lock k", "b unlock k", "c lock k"}, []int{2, 4, 7}},
		{"but not all", []string{"a read k", "b read k", "b read k", "b read k", "b read k", "b read k", "b read k"}, []int{2, 4, 8, 10, 12, 14}},
		{"not of another key", []string{"a lock k", "b lock l"}, []int{2}},
		{"nothing that is over", []string{"a lock k", "a unlock k", "b lock k"}, nil},
	} {
		tl := story(t, tt.story...)
		last := len(tl.Moments)
		at := tl.Moments[last-1].At
		tl.Moments = append(tl.Moments,
			Moment{ID: last + 1, Host: "a", At: at, Shard: -1, Kind: Property, Text: `always "x" is broken`},
			Moment{ID: last + 2, Cause: last + 1, Host: Lab, At: at, Shard: -1, Kind: Failure, Text: "x"})
		for i := range tl.Moments { // actors have the names of their hosts
			tl.Moments[i].Actor = tl.Moments[i].Host
		}
		tl.Moments[last+1].Actor = ""
		if err := tl.Check(); err != nil {
			t.Fatal(err)
		}
		v := tl.violation(nil)
		if v.moment != last+2 || v.atOnce || !slices.Equal(v.holds, tt.holds) {
			t.Errorf("%s: violation %+v, want holds %v", tt.name, *v, tt.holds)
		}
	}
}

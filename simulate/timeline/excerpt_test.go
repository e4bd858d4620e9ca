package timeline

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestExcerptOfARunThatPassed(t *testing.T) {
	passed := func() *Timeline {
		tl := account()
		tl.Moments = tl.Moments[:len(tl.Moments)-1]
		return tl
	}
	lines := strings.SplitAfter(accountText, "\n")
	lines = lines[:12]
	for _, tt := range []struct {
		n    int
		want string
	}{
		{-1, ""},
		{0, ""},
		{1, lines[9] + lines[11]},
		{3, strings.Join(lines[9:], "")}, // the routine frames before are not counted
		{99, strings.Join(lines, "")},
	} {
		if got := passed().Excerpt(tt.n); got != tt.want {
			t.Errorf("Excerpt(%d) =\n%s\nwant\n%s", tt.n, got, tt.want)
		}
	}
	if got := (*Timeline)(nil).Excerpt(3); got != "" {
		t.Errorf("Excerpt of nil = %q", got)
	}
	if got := new(Timeline).Excerpt(3); got != "" {
		t.Errorf("Excerpt of nothing = %q", got)
	}
}

// The end of a run comes long after the fault that was under way began: that is said first.
func TestExcerptBeginsWithTheFaultsUnderWay(t *testing.T) {
	tl := made(t,
		Moment{Kind: Fault, Text: "slow b"}, Moment{Kind: Fault, Text: "partition a | b"}, Moment{Kind: Ended, Begin: 1, Text: "b is as fast as before"},
		Moment{Kind: Note, Text: "one"}, Moment{Kind: Note, Text: "two"}, Moment{Kind: Note, Text: "three"},
	)
	lines := strings.SplitAfter(tl.String(), "\n")
	if got, want := tl.Excerpt(2), lines[1]+lines[4]+lines[5]; got != want {
		t.Errorf("Excerpt(2) =\n%s\nwant\n%s", got, want)
	}
}

// made returns a timeline of these moments, a second apart, of hosts a, b and c.
func made(t *testing.T, moments ...Moment) *Timeline {
	t.Helper()
	tl := &Timeline{Hosts: []string{"a", "b", "c"}}
	for i, m := range moments {
		if m.Host == "" {
			m.Host = Lab
		}
		if m.Kind != Role && m.Kind != Depth {
			m.Shard = -1
		}
		m.ID, m.At = i+1, time.Duration(i+1)*time.Second
		tl.Moments = append(tl.Moments, m)
	}
	if err := tl.Check(); err != nil {
		t.Fatal(err)
	}
	return tl
}

// told checks what an excerpt tells, without when.
func told(t *testing.T, tl *Timeline, n int, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(tl.Excerpt(n)) {
		who, what, _ := strings.Cut(line[14:], " ")
		got = append(got, who+" "+strings.TrimSpace(what))
	}
	if !slices.Equal(got, want) {
		t.Errorf("Excerpt(%d) tells\n\t%s\nwant\n\t%s", n, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// Of two that hold at once it tells how each came to its hold, under which fault and which
// leader, and leaves out what others did with other keys, or long ago.
func TestExcerptFollowsCauses(t *testing.T) {
	tl := made(t,
		Moment{Kind: Up, Host: "a"},
		Moment{Kind: Role, Host: "a", Shard: 3, Role: "leader", Term: 1},
		Moment{Kind: Role, Host: "c", Shard: 4, Role: "leader", Term: 1},
		Moment{Kind: Fault, Text: "slow a"},
		Moment{Kind: Ended, Begin: 4, Text: "as fast as before"},
		Moment{Kind: Fault, Text: "partition a | b c"},
		Moment{Kind: Called, Host: "c", Actor: "old", Key: "k", Text: "lock"},
		Moment{Kind: Depth, Host: "a", Shard: 3, Key: "k", Depth: 1},
		Moment{Kind: Held, Host: "c", Actor: "old", Key: "k", Token: 3, Begin: 7},
		Moment{Kind: Unlocked, Host: "c", Actor: "old", Key: "k", Begin: 9},
		Moment{Kind: Called, Host: "a", Actor: "w", Key: "k", Text: "lock"}, // 11: what it is about begins
		Moment{Kind: Held, Host: "a", Actor: "w", Key: "k", Token: 7, Begin: 11},
		Moment{Kind: Note, Host: "a", Actor: "w", Text: "working"},
		Moment{Kind: Note, Host: "b", Actor: "v", Text: "sleeping"},
		Moment{Kind: Note, Host: "b", Text: "INFO a node's"},
		Moment{Kind: Called, Host: "c", Actor: "w", Key: "other", Text: "lock"},
		Moment{Kind: Role, Host: "b", Shard: 3, Role: "candidate", Term: 2},
		Moment{Kind: Role, Host: "b", Shard: 3, Role: "leader", Term: 2},
		Moment{Kind: Called, Host: "c", Actor: "x", Key: "k", Text: "lock"}, // 19
		Moment{Kind: Sent, Host: "c", Peer: "b", Text: "lock k", Cause: 19},
		Moment{Kind: Arrived, Host: "b", Peer: "c", Frame: 20, Cause: 20},
		Moment{Kind: Sent, Host: "b", Peer: "c", Text: "append 1", Cause: 21},
		Moment{Kind: Arrived, Host: "c", Peer: "b", Frame: 22, Cause: 22},
		Moment{Kind: Sent, Host: "b", Peer: "a", Text: "lock other"},
		Moment{Kind: Sent, Host: "c", Peer: "b", Text: "appended", Cause: 23},
		Moment{Kind: Arrived, Host: "b", Peer: "c", Frame: 25, Cause: 25},
		Moment{Kind: Sent, Host: "b", Peer: "c", Text: "granted k token 9", Cause: 26},
		Moment{Kind: Arrived, Host: "c", Peer: "b", Frame: 27, Cause: 27},
		Moment{Kind: Held, Host: "c", Actor: "x", Key: "k", Token: 9, Begin: 19, Cause: 28},
		Moment{Kind: Failure, Text: "G1 exclusion: too many hold \"k\":\n\ta/w with token 7\n\tc/x with token 9", Cause: 29},
	)
	story := []string{
		"a shard 3: leader in term 1",
		"- partition a | b c",
		`a/w asks for "k", lock`,
		`a/w holds "k" token 7`,
		"b shard 3: leader in term 2",
		`c/x asks for "k", lock`,
		"b <- c lock k, sent at 20.000000s",
		"c <- b granted k token 9, sent at 27.000000s",
		`c/x holds "k" token 9`,
		`- FAILURE: G1 exclusion: too many hold "k": …`,
	}
	told(t, tl, len(story), story...)
	told(t, tl, len(story)+1, slices.Insert(slices.Clone(story), 4, "a/w working")...)
	routine := slices.Insert(slices.Clone(story), 7, "c <- b append 1, sent at 22.000000s", "b <- c appended, sent at 25.000000s")
	routine = slices.Insert(routine, 4, "a/w working")
	told(t, tl, len(routine), routine...)
	early := slices.Insert(slices.Clone(routine), 2, `c/old asks for "k", lock`, `c/old holds "k" token 3`, `c/old unlocked "k" token 3`)
	early = slices.Insert(early, 8, "b/v sleeping")
	told(t, tl, 99, early...)
	told(t, tl, 5, story[2], story[3], story[5], story[8], story[9])
}

// Of a key that nobody can lock it tells of the grant that nobody heard of, and of who still
// asks for it; of those, which are on hosts that the failure names.
func TestExcerptTellsOfWhatNobodyHeard(t *testing.T) {
	tl := made(t,
		Moment{Kind: Called, Host: "c", Actor: "x", Key: "k", Text: "lock"},
		Moment{Kind: Called, Host: "b", Actor: "w", Key: "k", Text: "lock"},
		Moment{Kind: Called, Host: "a", Actor: "w", Key: "k", Text: "lock"},
		Moment{Kind: Held, Host: "a", Actor: "w", Key: "k", Token: 7, Begin: 3},
		Moment{Kind: Unlocked, Host: "a", Actor: "w", Key: "k", Begin: 4}, // 5
		Moment{Kind: Sent, Host: "a", Peer: "b", Text: "granted k token 8", Cause: 5},
		Moment{Kind: Lost, Host: "b", Peer: "a", Frame: 6, Cause: 6, Text: "link"},
		Moment{Kind: Struck, Host: Lab, Text: "reset a b"},
		Moment{Kind: Called, Host: "a", Actor: "sweep", Key: "k", Text: "lock"},
		Moment{Kind: Refused, Host: "a", Actor: "sweep", Key: "k", Begin: 9, Text: "too late"},
		Moment{Kind: Failure, Text: `G6: "k" cannot be locked: held by b with token 8`, Cause: 10},
	)
	told(t, tl, 9,
		`b/w asks for "k", lock`,
		`a/w asks for "k", lock`,
		`a/w holds "k" token 7`,
		`a/w unlocked "k" token 7`,
		"b lost from a granted k token 8: link, sent at 6.000000s",
		"- reset a b",
		`a/sweep asks for "k", lock`,
		`a/sweep is refused "k": too late`,
		`- FAILURE: G6: "k" cannot be locked: held by b with token 8`,
	)
}

// A request that came late, and again, is told of with when each was sent; of a host that
// crashed nobody asks any more.
func TestExcerptTellsOfOpenCalls(t *testing.T) {
	tl := made(t,
		Moment{Kind: Called, Host: "b", Actor: "gone", Key: "k", Text: "lock"},
		Moment{Kind: Down, Host: "b"},
		Moment{Kind: Called, Host: "a", Actor: "w", Key: "k", Text: "lock"},
		Moment{Kind: Sent, Host: "a", Peer: "c", Text: "lock k", Cause: 3},
		Moment{Kind: Sent, Host: "a", Peer: "c", Text: "lock k", Cause: 3},
		Moment{Kind: Arrived, Host: "c", Peer: "a", Frame: 5, Cause: 5},
		Moment{Kind: Arrived, Host: "c", Peer: "a", Frame: 4, Cause: 4},
		Moment{Kind: Failure, Text: `G4 once: request 3 on a for "k", not b`},
	)
	told(t, tl, 4,
		`a/w asks for "k", lock`,
		"c <- a lock k, sent at 5.000000s",
		"c <- a lock k, sent at 4.000000s",
		`- FAILURE: G4 once: request 3 on a for "k", not b`,
	)
}

// A failure that names neither key nor host is told of with what everybody did.
func TestExcerptOfWhatIsAboutNothing(t *testing.T) {
	tl := made(t,
		Moment{Kind: Called, Host: "a", Actor: "w", Key: "k", Text: "lock"},
		Moment{Kind: Sent, Host: "a", Peer: "b", Text: "lock k", Cause: 1},
		Moment{Kind: Role, Host: "b", Shard: 3, Role: "leader", Term: 2},
		Moment{Kind: News, Host: "b", Text: "hears that a is alive"},
		Moment{Kind: Note, Host: "b", Actor: "v", Text: "a user's"},
		Moment{Kind: Property, Host: "b", Actor: "v", Text: `always "sun" is broken`},
		Moment{Kind: Failure, Text: `always "sun": rain`, Cause: 6},
	)
	told(t, tl, 99, `a/w asks for "k", lock`, "b/v a user's", `b/v always "sun" is broken`, `- FAILURE: always "sun": rain`)
	tl.Moments[6].Text = "shard 3: two lead"
	told(t, tl, 99, `a/w asks for "k", lock`, "b shard 3: leader in term 2", "b/v a user's", `b/v always "sun" is broken`, "- FAILURE: shard 3: two lead")
}

// That a host runs is news only when it did not before.
func TestExcerptTellsOfRestarts(t *testing.T) {
	tl := made(t,
		Moment{Kind: Called, Host: "a", Actor: "w", Key: "k", Text: "lock"},
		Moment{Kind: Up, Host: "b"},
		Moment{Kind: Down, Host: "c"},
		Moment{Kind: Up, Host: "c"},
		Moment{Kind: Failure, Text: `G4: "k" is asked for on a`},
	)
	told(t, tl, 99, `a/w asks for "k", lock`, "c down", "c up", `- FAILURE: G4: "k" is asked for on a`)
}

package timeline

import (
	"slices"
	"strings"
	"testing"
)

const accountText = `   0.000000s  a              up
   0.000000s  a              shard 2: leader in term 3
   0.010000s  b/w            asks for "k", lock
   0.010000s  b              -> a request
   0.012000s  a              <- b request
   0.012000s  a              "k": 1 wait
   0.012000s  a              -> b granted 7
   0.015000s  b              <- a granted 7
   0.015000s  b/w            holds "k" token 7
   0.020000s  -              partition a | b
   0.040000s  b/w            lost "k" token 7: lease ended
   0.050000s  -              over: partition a | b
   0.060000s  -              FAILURE: lost too early
                             	token 7
`

func TestWriteText(t *testing.T) {
	var b strings.Builder
	if err := account().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() != accountText {
		t.Errorf("WriteText wrote\n%s\nwant\n%s", b.String(), accountText)
	}
}

func TestWriteFullTextHasRoutineFrames(t *testing.T) {
	var b strings.Builder
	if err := account().WriteFullText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0.030000s  b              -> a renewal\n", "0.031000s  a              lost from b renewal: cut\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("WriteFullText lacks %q:\n%s", want, b.String())
		}
	}
}

func TestTailIsTheEndOfTheText(t *testing.T) {
	lines := strings.SplitAfter(accountText, "\n")
	for _, tt := range []struct {
		n    int
		want string
	}{
		{0, ""},
		{1, strings.Join(lines[12:], "")}, // two lines of text, but one moment
		{4, strings.Join(lines[9:], "")},  // the routine frames before are not counted
		{99, accountText},
	} {
		if got := account().Tail(tt.n); got != tt.want {
			t.Errorf("Tail(%d) =\n%s\nwant\n%s", tt.n, got, tt.want)
		}
	}
	if got := (*Timeline)(nil).Tail(3); got != "" {
		t.Errorf("Tail of nil = %q", got)
	}
}

// In a run that failed, what has to do with that is told, and elections elsewhere are not.
func TestTailTellsOfTheFailure(t *testing.T) {
	told := func(failure string, from int, want ...string) {
		t.Helper()
		tl := &Timeline{Hosts: []string{"a", "b"}}
		for _, m := range []Moment{
			{Kind: Called, Host: "a", Actor: "w", Key: "k"},
			{Kind: Held, Host: "a", Actor: "w", Key: "k", Token: 7, Begin: 1},
			{Kind: Struck, Host: Lab, Text: "reset a b"},
			{Kind: Sent, Host: "a", Peer: "b", Text: "lock k, unlock other token 5"},
			{Kind: Sent, Host: "a", Peer: "b", Text: "lock other"},
			{Kind: Held, Host: "b", Actor: "w", Key: "other", Token: 8},
			{Kind: Note, Host: "b", Actor: "w", Text: "a user's"},
			{Kind: Note, Host: "b", Text: "INFO a node's"},
			{Kind: Role, Host: "b", Shard: 3, Role: "leader", Term: 2},
			{Kind: News, Host: "b", Text: "hears that a is alive"},
			{Kind: Failure, Host: Lab, Cause: from, Text: failure},
		} {
			if m.Kind != Role {
				m.Shard = -1
			}
			m.ID = len(tl.Moments) + 1
			tl.Moments = append(tl.Moments, m)
		}
		if err := tl.Check(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(tl.Tail(len(want))) {
			got = append(got, strings.TrimSpace(line[textIndent:]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %q caused by %d:\n%q\nwant\n%q", failure, from, got, want)
		}
	}
	called, held, other := `asks for "k"`, `holds "k" token 7`, `holds "other" token 8`
	const reset, frame, note = "reset a b", "-> b lock k, unlock other token 5", "a user's"
	told("sent twice", 0, called, held, reset, other, note, "FAILURE: sent twice")
	told("sent twice", 2, called, held, reset, note, "FAILURE: sent twice")
	told("sent twice", 2, called, held, reset, frame, note, "FAILURE: sent twice")
	told(`G1: "other"`, 0, reset, frame, "-> b lock other", other, note, `FAILURE: G1: "other"`)
	told("shard 3: two lead", 2, called, held, reset, note, "shard 3: leader in term 2", "FAILURE: shard 3: two lead")
}

func TestTextIsPlain(t *testing.T) {
	tl := &Timeline{Hosts: []string{"a"}, Moments: []Moment{
		{ID: 1, Kind: Held, Host: "a", Actor: "w\x1b[31m", Key: "\xff\n\u202e", Token: 1},
		{ID: 2, Kind: Note, Host: "a", Text: "a\tb \"c\" \\ \x00\xfe\u200b\u2028 ü 世\nnext"},
	}}
	var b strings.Builder
	if err := tl.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `   0.000000s  a/w\x1b[31m    holds "\xff\n\u202e" token 1
   0.000000s  a              a	b "c" \ \x00\xfe\u200b\u2028 ü 世
                             next
`
	if b.String() != want {
		t.Errorf("WriteText wrote\n%q\nwant\n%q", b.String(), want)
	}
}

// A failure's text ends long after the fault that brought it about began: that is said
// first.
func TestTailBeginsWithTheFaultsUnderWay(t *testing.T) {
	tl := &Timeline{Hosts: []string{"a", "b"}}
	for _, m := range []Moment{
		{Kind: Fault, Text: "slow b"}, {Kind: Fault, Text: "partition a | b"}, {Kind: Ended, Begin: 1, Text: "b is as fast as before"},
		{Kind: Note, Text: "one"}, {Kind: Note, Text: "two"}, {Kind: Note, Text: "three"},
	} {
		m.ID, m.Host, m.Shard = len(tl.Moments)+1, Lab, -1
		tl.Moments = append(tl.Moments, m)
	}
	if err := tl.Check(); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(tl.String(), "\n")
	if got, want := tl.Tail(2), lines[1]+lines[4]+lines[5]; got != want {
		t.Errorf("Tail(2) =\n%s\nwant\n%s", got, want)
	}
}

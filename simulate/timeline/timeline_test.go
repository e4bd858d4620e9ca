package timeline

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// account is a small run in which everything happens once: c holds "k" and loses it.
func account() *Timeline {
	ms := time.Millisecond
	t := &Timeline{Title: "seed 1", Repeat: "go test -seed 1", Seed: 1, Duration: 9 * time.Second, Hosts: []string{"a", "b"}}
	for _, m := range []Moment{
		{At: 0, Kind: Up, Host: "a", Shard: -1},
		{At: 0, Kind: Role, Host: "a", Shard: 2, Role: "leader", Term: 3},
		{At: 10 * ms, Kind: Called, Host: "b", Actor: "w", Shard: 2, Key: "k", Text: "lock"},
		{Cause: 3, At: 10 * ms, Kind: Sent, Host: "b", Peer: "a", Shard: 2, Text: "request"},
		{Cause: 4, At: 12 * ms, Kind: Arrived, Host: "a", Peer: "b", Frame: 4, Shard: 2},
		{Cause: 5, At: 12 * ms, Kind: Depth, Host: "a", Shard: 2, Key: "k", Depth: 1},
		{Cause: 5, At: 12 * ms, Kind: Sent, Host: "a", Peer: "b", Shard: 2, Text: "granted 7"},
		{Cause: 7, At: 15 * ms, Kind: Arrived, Host: "b", Peer: "a", Frame: 7, Shard: 2},
		{Cause: 8, At: 15 * ms, Kind: Held, Host: "b", Actor: "w", Begin: 3, Shard: 2, Key: "k", Token: 7},
		{At: 20 * ms, Kind: Fault, Host: Lab, Shard: -1, Text: "partition a | b"},
		{At: 30 * ms, Kind: Sent, Host: "b", Peer: "a", Shard: 2, Text: "renewal"},
		{At: 31 * ms, Kind: Lost, Host: "a", Peer: "b", Frame: 11, Shard: 2, Text: "cut"},
		{At: 40 * ms, Kind: HoldEnded, Host: "b", Actor: "w", Begin: 9, Shard: 2, Key: "k", Text: "lease ended"},
		{At: 50 * ms, Kind: Ended, Host: Lab, Begin: 10, Shard: -1},
		{Cause: 13, At: 60 * ms, Kind: Failure, Host: Lab, Shard: -1, Text: "lost too early\n\ttoken 7"},
	} {
		m.ID = len(t.Moments) + 1
		t.Moments = append(t.Moments, m)
	}
	return t
}

func TestCheckAcceptsAGoodAccount(t *testing.T) {
	if err := account().Check(); err != nil {
		t.Error(err)
	}
	if err := (&Timeline{}).Check(); err != nil {
		t.Error("empty:", err)
	}
}

func TestCheckNamesWhatIsBroken(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		broken     func(*Timeline)
	}{
		{"an ID that is left out", "moment 4 has ID 5", func(t *Timeline) { t.Moments[3].ID = 5 }},
		{"a time that goes back", "moment 5 at 1ms is earlier", func(t *Timeline) { t.Moments[4].At = time.Millisecond }},
		{"a time before the run", "moment 1 at -1ns is earlier", func(t *Timeline) { t.Moments[0].At = -1 }},
		{"a negative duration", "duration -1ns", func(t *Timeline) { t.Duration = -1 }},
		{"the lab as a host", `host "-"`, func(t *Timeline) { t.Hosts[1] = Lab }},
		{"a host twice", `host "a"`, func(t *Timeline) { t.Hosts[1] = "a" }},
		{"a host that is not UTF-8", `host "\xff"`, func(t *Timeline) { t.Hosts[1] = "\xff" }},
		{"an unknown host", `unknown host: "c"`, func(t *Timeline) { t.Moments[0].Host = "c" }},
		{"no host", `unknown host: ""`, func(t *Timeline) { t.Moments[0].Host = "" }},
		{"an unknown peer", `peer "c"`, func(t *Timeline) { t.Moments[3].Peer = "c" }},
		{"an unknown kind", "no such kind", func(t *Timeline) { t.Moments[0].Kind = Struck + 1 }},
		{"no kind", "no such kind", func(t *Timeline) { t.Moments[0].Kind = 0 }},
		{"a cause that is itself", "its cause is moment 4", func(t *Timeline) { t.Moments[3].Cause = 4 }},
		{"a negative cause", "its cause is moment -1", func(t *Timeline) { t.Moments[3].Cause = -1 }},
		{"a frame of a kind without", "it has a frame", func(t *Timeline) { t.Moments[5].Frame = 4 }},
		{"a frame that is no frame", `a "called", not a "sent"`, func(t *Timeline) { t.Moments[4].Frame = 3 }},
		{"a later frame", "its frame is moment 7", func(t *Timeline) { t.Moments[4].Frame = 7 }},
		{"a begin of the wrong kind", `a "sent", not a "held"`, func(t *Timeline) { t.Moments[12].Begin = 4 }},
		{"a begin of a kind without", "it has a begin", func(t *Timeline) { t.Moments[9].Begin = 3 }},
		{"a shard below none", "shard -2", func(t *Timeline) { t.Moments[0].Shard = -2 }},
		{"a negative depth", "depth -1", func(t *Timeline) { t.Moments[5].Depth = -1 }},
		{"an unknown role", `"king" is no role`, func(t *Timeline) { t.Moments[1].Role = "king" }},
		{"a role of a kind without", `a role, "leader"`, func(t *Timeline) { t.Moments[0].Role = "leader" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tl := account()
			tt.broken(tl)
			err := tl.Check()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check() = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestChainLeadsFromTheFirstCause(t *testing.T) {
	tl := account()
	for _, tt := range []struct {
		id   int
		want []int
	}{
		{9, []int{3, 4, 5, 7, 8, 9}},
		{12, []int{11, 12}},                   // by its frame
		{15, []int{3, 4, 5, 7, 8, 9, 13, 15}}, // the hold that was lost, and all that led to it
		{14, []int{10, 14}},                   // by its begin
		{1, []int{1}},
		{0, nil},
		{16, nil},
	} {
		if got := tl.Chain(tt.id); !slices.Equal(got, tt.want) {
			t.Errorf("Chain(%d) = %v, want %v", tt.id, got, tt.want)
		}
	}
}

func TestChainEndsInABrokenAccount(t *testing.T) {
	tl := account()
	tl.Moments[3].Cause = 8
	if got, want := tl.Chain(8), []int{4, 5, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("Chain(8) = %v, want %v", got, want)
	}
}

func TestKindsHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for k := Sent; k <= Struck; k++ {
		name := k.String()
		var parsed Kind
		if name == "" || seen[name] || parsed.UnmarshalText([]byte(name)) != nil || parsed != k {
			t.Errorf("kind %d is called %q, which is parsed as %d", k, name, parsed)
		}
		seen[name] = true
	}
	if got := Kind(0).String(); got != "kind 0" {
		t.Errorf("Kind(0) = %q", got)
	}
}

func TestRoutineFramesAreThoseWithNothingElse(t *testing.T) {
	for text, want := range map[string]bool{
		"heartbeat": true, "append 3": true, "renewal, append 1": true, "heartbeat response": true,
		"append 3, granted 7": false, "granted 7": false, "appendix": false, "": false,
	} {
		tl := &Timeline{Hosts: []string{"a", "b"}, Moments: []Moment{
			{ID: 1, Kind: Sent, Host: "a", Peer: "b", Text: text},
			{ID: 2, Kind: Lost, Host: "b", Peer: "a", Frame: 1, Text: "heartbeat"},
			{ID: 3, Kind: Note, Host: "a", Text: text},
		}}
		for i, want := range []bool{want, want, false} {
			if got := tl.Routine(&tl.Moments[i]); got != want {
				t.Errorf("%q: moment %d: Routine = %v, want %v", text, i+1, got, want)
			}
		}
	}
}

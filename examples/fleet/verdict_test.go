package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// start is when the members were killed, in the tests of the judge.
var start = time.Unix(1000, 0)

func at(d time.Duration) int64 { return start.Add(d).UnixNano() }

// good is the evidence of a row of 20 s in which two members see one lock, two waiters wait for it, and shard 1 pauses for 10 s.
func good() *evidence {
	v := &evidence{}
	v.record(event{Kind: holds, Member: "a", Text: "k", Token: 5})
	v.record(event{Kind: sees, Member: "a", Text: "k", Token: 5})
	v.record(event{Kind: sees, Member: "b", Text: "k", Token: 5})
	v.record(event{Kind: served, Place: 0, Text: "k", Token: 6, At: at(18 * time.Second)})
	v.record(event{Kind: served, Place: 1, Text: "k", Token: 9, At: at(19 * time.Second)})
	for d := -time.Second; d < 20*time.Second; d += 100 * time.Millisecond {
		e := event{Kind: swept, Called: at(d), At: at(d + time.Millisecond), Until: at(d + 3*time.Millisecond), Token: uint64(d/time.Millisecond + 2000)}
		v.record(e)
		if e.Place = 1; d < 0 || d > 10*time.Second {
			v.record(e)
		}
	}
	return v
}

func goodChecks() []check {
	return []check{
		{name: "serves", shards: []int{0}, from: start, to: start.Add(20 * time.Second), most: time.Second},
		{name: "quiet", shards: []int{1}, from: start, to: start.Add(20 * time.Second), least: 10 * time.Second, most: 11 * time.Second},
	}
}

func TestTheJudgeFindsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name string
		harm func(*evidence, []check)
		want string // in the error; empty: none
	}{
		{"nothing", func(v *evidence, c []check) {}, ""},
		{"a holder lost its lock", func(v *evidence, c []check) { v.record(event{Kind: dropped, Member: "a", Text: "k"}) }, "a lost k"},
		{"a member sees another token", func(v *evidence, c []check) { v.sees[1].Token = 6 }, "b sees token 6"},
		{"a member sees a free key", func(v *evidence, c []check) { v.sees[1].Token = 0 }, "b sees token 0"},
		{"a member does not answer", func(v *evidence, c []check) { v.sees = v.sees[:1] }, "1 of 2 members"},
		{"nothing was held", func(v *evidence, c []check) { v.holds = nil }, "no locks"},
		{"a waiter is forgotten", func(v *evidence, c []check) { v.served = v.served[:1] }, "1 of 2 waiters"},
		{"waiters change places", func(v *evidence, c []check) { v.served[0].At = at(20 * time.Second) }, "waiter 1 was served as number 0"},
		{"a token is used again", func(v *evidence, c []check) { v.served[0].Token = 5 }, "token 5 after token 5"},
		{"tokens fall", func(v *evidence, c []check) { v.served[1].Token = 5 }, "token 5 after token 6"},
		{"a shard pauses that should not", func(v *evidence, c []check) { c[1].most = time.Second }, "for 10.1s, want at most 1s"},
		{"a shard is quiet for too long", func(v *evidence, c []check) { c[1].most = 10 * time.Second }, "for 10.1s, want at most 10s"},
		{"a shard stops later", func(v *evidence, c []check) {
			v.swept[0] = slices.DeleteFunc(v.swept[0], func(e event) bool { return e.At > at(15*time.Second) })
		}, "serves: no free key"},
		{"a shard serves no more", func(v *evidence, c []check) { v.swept[0] = nil }, "for 20s, want at most 1s"},
		{"a shard grants in its quiet time", func(v *evidence, c []check) { c[1].least = 10200 * time.Millisecond }, "granted after 10.1s, want none for 10.2s"},
		{"a call from before is granted in the quiet time", func(v *evidence, c []check) {
			v.record(event{Kind: swept, Place: 1, Called: at(-time.Second), At: at(5 * time.Second), Token: 2001})
		}, "granted after 5s"},
		{"a free key has two holders", func(v *evidence, c []check) { v.swept[0][100].Until = at(20 * time.Second) }, "held it with token"},
		{"two of its grants have one token", func(v *evidence, c []check) { v.swept[0][100].Token = v.swept[0][99].Token }, "token 10900, after"},
		{"a lock has ended, and its holder does not know", func(v *evidence, c []check) { v.record(event{Kind: holds, Member: "c", Text: "of c", Token: 7}) }, "c has not lost of c"},
		{"a lock has ended, and is seen", func(v *evidence, c []check) {
			v.record(event{Kind: holds, Member: "c", Text: "of c", Token: 7})
			v.record(event{Kind: dropped, Member: "c", Text: "of c", Token: 7})
			v.record(event{Kind: sees, Member: "a", Text: "of c", Token: 7})
		}, "a sees its token 7"},
		{"a check has no shards", func(v *evidence, c []check) { c[0].shards = nil }, "no shards"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, checks := good(), goodChecks()
			tt.harm(v, checks)
			d := v.judge(terms{members: 2, queues: []string{"k"}, waiters: 2, ended: []string{"c"}, checks: checks})
			if got := fmt.Sprint(errors.Join(d.errs...)); (len(d.errs) == 0) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("errors are %v, want %q", got, tt.want)
			}
		})
	}
}

func TestTheJudgeMeasures(t *testing.T) {
	d := good().judge(terms{members: 2, queues: []string{"k"}, waiters: 2, checks: goodChecks()})
	if d.held != 1 || d.kept != 1 || d.queues != 1 || d.inOrder != 1 {
		t.Errorf("kept %d of %d locks, %d of %d queues in order; want all", d.kept, d.held, d.inOrder, d.queues)
	}
	want := []line{
		{"serves", 1, 101 * time.Millisecond, 100 * time.Millisecond},
		{"quiet", 1, 10101 * time.Millisecond, 10101 * time.Millisecond},
	}
	if !slices.Equal(d.lines, want) {
		t.Errorf("the lines are %+v, want %+v", d.lines, want)
	}
}

package members

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// logged returns the lines that were logged since the last call: level, text and name.
func (b *bench) logged() (lines []string) {
	for line := range strings.Lines(b.log.String()) {
		m := regexp.MustCompile(`level=(\w+) msg="([^"]*)"(?: name=(\w+))?`).FindStringSubmatch(line)
		lines = append(lines, strings.TrimSpace(strings.Join(m[1:], " ")))
	}
	b.log.Reset()
	return lines
}

// What happens to other nodes is one line each.
func TestOneLineAnEvent(t *testing.T) {
	b := newBench(t, 1)
	says := func(want ...string) {
		t.Helper()
		if got := b.logged(); !slices.Equal(got, want) {
			t.Errorf("logged %q, want %q", got, want)
		}
	}
	gossip := func(m env.Member, s env.MemberState) {
		b.gossips(m, s)
		b.pass(time.Second)
	}
	old, bob, cid := node("old", 9), node("bob", 2), node("cid", 3)
	gossip(old, env.Alive)
	says() // it was there before, as far as this node can tell
	b.pass(grace)
	gossip(bob, env.Alive)
	says("INFO " + nodeJoined + " bob")
	gossip(bob, env.Alive)
	says()
	gossip(bob, env.Dead)
	says() // it may be back at once
	b.pass(grace)
	says("WARN " + nodeSilent + " bob")
	gossip(bob, env.Alive)
	says("INFO " + nodeBack + " bob")
	gossip(bob, env.Dead)
	gossip(bob, env.Alive)
	says()
	gossip(old, env.Left)
	says("INFO " + nodeLeft + " old")
	b.connects(cid) // a client
	b.pass(time.Second)
	says("INFO " + nodeJoined + " cid")
	b.parts(cid, transport.Lost)
	b.pass(grace)
	says("WARN " + nodeSilent + " cid")
	b.connects(bob)
	b.parts(bob, transport.Replaced)
	b.pass(time.Second)
	says("WARN " + nodeDied + " bob")
}

// That shards have no leader is a line once it has lasted, and so is its end.
func TestShardsWithoutALeaderAreLogged(t *testing.T) {
	b := newBench(t, 3)
	b.pass(10 * time.Second)
	b.logged()
	b.reports(led(2))
	b.pass(grace - time.Second)
	if got := b.logged(); got != nil {
		t.Errorf("early: %q", got)
	}
	b.pass(3 * time.Second)
	if log := b.log.String(); !strings.Contains(log, "count=1 shards=[2]") {
		t.Errorf("logged %s", log)
	}
	b.logged()
	b.pass(time.Minute)
	if got := b.logged(); got != nil {
		t.Errorf("again: %q", got)
	}
	b.reports(led(3))
	b.pass(2 * time.Second)
	if got := b.logged(); len(got) != 1 || !strings.HasPrefix(got[0], "INFO all shards have leaders again") {
		t.Errorf("logged %q", got)
	}
	b.reports(led(2))
	b.pass(time.Second)
	b.reports(led(3))
	b.pass(grace)
	if got := b.logged(); got != nil {
		t.Errorf("a short time is logged: %q", got)
	}
}

// That quiet time begins, and that it ends, is one line each, whatever becomes of the leaders meanwhile.
func TestQuietTimeIsLogged(t *testing.T) {
	b := alone(t)
	b.joins(2)
	n := node("b", 2)
	b.comes(n)
	quiet := led(2)
	quiet.Quiet = []Quiet{{0, 9 * time.Second}, {1, 10 * time.Second}}
	b.log.Reset()
	b.hears(n, quiet)
	if log := b.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "INFO msg=\"quiet time begins") || !strings.Contains(log, "for=10s") {
		t.Errorf("logged %s", log)
	}
	b.log.Reset()
	b.pass(3 * time.Second)
	b.hears(n, Report{}) // it leads no more
	b.pass(3 * time.Second)
	b.reports(Report{Led: []int{0, 1}, Quiet: []Quiet{{1, b.now + 5*time.Second}}})
	b.pass(5 * time.Second)
	if log := b.log.String(); strings.Contains(log, "quiet") {
		t.Errorf("logged meanwhile: %s", log)
	}
	b.log.Reset()
	b.reports(led(2))
	b.pass(time.Minute)
	if log := b.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "INFO msg=\"quiet time is over") || !strings.Contains(log, "after=11s") {
		t.Errorf("logged %s", log)
	}
}

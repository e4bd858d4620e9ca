package seat

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// A client without a list finds its core by what it discovers, follows it, and asks again when no mesh serves any more.
func TestDiscovery(t *testing.T) {
	w := founded(t, 3)
	asked := 0
	found := []string{w.list[1]}
	p := w.boot("10.0.0.9:7946", func(c *Config) { c.List, c.Client, c.Discovers = nil, true, true })
	discover := func(n int) {
		t.Helper()
		w.must(w.runUntil(20*time.Second, func() bool { return p.discoveries > asked }), "it does not ask")
		asked = n
		equal(t, n, p.discoveries)
		w.do(p, func() []Output { return p.m.Discovered(w.now, found, nil, nil) })
	}
	discover(1)
	knows := func() bool { return p.state.Table != nil && p.state.Table.Stamp == w.table().Stamp }
	w.must(w.runUntil(5*time.Second, knows), "it does not find the core")
	w.run(20 * time.Second)
	equal(t, 1, p.discoveries, "it has a mesh")
	equal(t, Client, p.m.Role())
	for _, addr := range w.list {
		w.kill(addr)
	}
	found = nil
	discover(2)
	before := w.now
	discover(3)
	holds(t, w.now-before >= discoverEvery, "again after", w.now-before)
	holds(t, strings.Contains(p.m.Waiting(), "discovery of contact points: it found none"), p.m.Waiting())
}

// There is never a second search before the first one is over, however long that takes. An error leaves what was found
// before, and is told; so is what is wrong with what was found.
func TestSearches(t *testing.T) {
	m := New(Config{Self: env.Member{ID: 9}, Client: true, Discovers: true})
	asks := func(out []Output) bool { return slices.Contains(out, Output(Discover{})) }
	holds(t, asks(m.Start(0, nil)), "it does not ask at once")
	now := time.Duration(0)
	for range 40 {
		now += time.Second
		holds(t, !asks(m.Tick(now, nil)), "a second search at", now)
	}
	holds(t, strings.Contains(m.Waiting(), "has not returned"), m.Waiting())
	out := m.Discovered(now, []string{"b:1", "a:1", "b:1"}, nil, nil)
	equal(t, []string{"a:1", "b:1"}, m.discovery.points)
	holds(t, slices.Contains(out, Output(Dial{"a:1"})) && slices.Contains(out, Output(Dial{"b:1"})) && !asks(out), out)
	for _, tt := range []struct {
		points []string
		err    error
		want   []string
		says   string
	}{
		{nil, errors.New("no API server"), []string{"a:1", "b:1"}, "discovery of contact points: no API server"},
		{[]string{"c:1"}, nil, []string{"c:1"}, ""},
		{[]string{"a b"}, nil, nil, "one with a blank"},
		{slices.Repeat([]string{"a:1"}, 100), nil, []string{"a:1"}, ""},
	} {
		equal(t, now+discoverEvery, m.discoverAt())
		now += discoverEvery
		holds(t, asks(m.Tick(now, nil)), "it does not ask again")
		m.Discovered(now, tt.points, tt.err, nil)
		equal(t, tt.want, m.discovery.points)
		holds(t, (tt.says == "") == !strings.Contains(m.Waiting(), "discovery") && strings.Contains(m.Waiting(), tt.says), m.Waiting())
	}
}

// A node that does not discover asks for nothing, and one that may not ends without a list.
func TestNoDiscovery(t *testing.T) {
	m := New(Config{Self: env.Member{ID: 9}, Client: true})
	out := m.Start(0, nil)
	holds(t, len(out) == 1 && errors.Is(out[0].(Failed).Err, fault.ErrNoSeeds), out)
	m = New(Config{Self: env.Member{ID: 9}, Client: true, List: []string{"a:1"}})
	out = m.Dialed(time.Second, "a:1", transport.Hello{}, errors.New("refused"), m.Start(0, nil))
	holds(t, !slices.Contains(out, Output(Discover{})), out)
}

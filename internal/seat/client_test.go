package seat

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/transport"
)

// client is a client of a founded core, that has known the table for so long that it only asks now and then.
func (w *world) client(more ...func(*Config)) *proc {
	p := w.boot("10.0.0.9:7946", more...)
	w.run(15 * time.Second)
	w.must(p.m.settled(), "the client is not settled")
	return p
}

// Promise: C1: a client is told of what the core has decided within a second, though it asks once in five.
func TestAClientIsTold(t *testing.T) {
	w := founded(t, 5)
	client := w.client()
	s := w.table().Shards[1]
	var slowest time.Duration
	for i := range 10 {
		to := slices.Clone(w.table().Bound()[:3])
		if slices.Equal(to, w.table().Shards[1].Voters) {
			to = w.table().Bound()[1:4]
		}
		for _, c := range []Change{Move{1, s.Generation, to}, Settle{1, s.Generation, uint64(i + 1), true}} {
			w.run(w.upTo(7 * time.Second))
			before := w.table().Stamp
			w.change(w.list[0], c, func(t *core.Table) bool { return t.Stamp != before })
			from := w.now
			w.must(w.runUntil(5*time.Second, func() bool { return client.state.Table.Stamp == w.table().Stamp }), "the client does not hear of it")
			slowest = max(slowest, w.now-from)
		}
	}
	t.Logf("after %v", slowest)
	holds(t, slowest <= w.procs[w.list[0]].m.pace.contact+4*w.delay, "it hears of a change after", slowest)
}

// Each client is told at most once a second of what is new, however much is.
func TestAClientIsNotFlooded(t *testing.T) {
	w := founded(t, 5)
	client := w.client()
	w.run(time.Second)
	s, told, p := w.table().Shards[1], 0, w.procs[w.list[0]]
	w.seen = func(from, to *proc, name string) {
		if from == p && to == client && name == "told" {
			told++
		}
	}
	began := w.now
	for i := range 20 { // what it decides itself, it knows at once
		to := slices.Clone(w.table().Bound()[:3])
		if slices.Equal(to, w.table().Shards[1].Voters) {
			to = w.table().Bound()[1:4]
		}
		for _, c := range []Change{Move{1, s.Generation, to}, Settle{1, s.Generation, uint64(i + 1), true}} {
			before := w.table().Stamp
			w.do(p, func() []Output { return p.m.Change(w.now, c, nil) })
			w.must(w.runUntil(5*time.Second, func() bool { return w.table().Stamp != before && w.serves() }), "no effect")
		}
	}
	w.run(2 * time.Second)
	t.Logf("told %d times of 40 changes in %v", told, w.now-began)
	holds(t, told <= 2+int((w.now-began)/time.Second), "told:", told)
	holds(t, client.state.Table.Stamp == w.table().Stamp, "the last change is not told")
}

// What a client at rest costs: it asks each node of the core every five seconds, and dials it every half minute.
func TestWhatAClientCosts(t *testing.T) {
	const d = 300 * time.Second
	measure := func(w *world) (frames, dials float64) {
		f, n := w.frames, w.dials
		w.run(d)
		return float64(w.frames-f) / d.Seconds() / 3, float64(w.dials-n) / d.Seconds() / 3
	}
	w := founded(t, 3)
	w.run(15 * time.Second)
	frames, dials := measure(w)
	w = founded(t, 3)
	w.client()
	moreFrames, moreDials := measure(w)
	t.Logf("a client at rest costs each node of the core, in a second: %.2f frames, %.3f dials", moreFrames-frames, moreDials-dials)
	holds(t, moreFrames-frames < 0.45, "frames:", moreFrames-frames)
	holds(t, moreDials-dials < 0.08, "dials:", moreDials-dials)
}

// A client asks until it is answered, and a node at an entry of its own dials its own each second, and the others every other
// second, though it was a client before.
func TestAClientBecomesOfTheCore(t *testing.T) {
	w := founded(t, 3)
	elsewhere := true
	w.kill(w.list[2])
	w.resolve = func(p *proc, addr string) string {
		if elsewhere && addr == w.list[2] {
			return "nowhere"
		}
		return addr
	}
	p := w.boot(w.list[2]) // its name does not lead to it yet
	w.run(20 * time.Second)
	equal(t, "", p.m.own)
	holds(t, p.m.settled(), "it does not know the table")
	elsewhere = false
	w.must(w.runUntil(5*time.Second, w.serves), "it gets no seat")
	dials := w.dials
	w.run(10 * time.Second)
	holds(t, w.dials-dials >= 60, "dials in ten seconds:", w.dials-dials)
}

// A client ends the connection with a node that is not of the core: another client, or a contact point that is no
// entry any more. It looks there again now and then.
func TestAClientParts(t *testing.T) {
	w := founded(t, 3)
	other := w.boot("10.0.0.8:7946")
	w.run(2 * time.Second)
	client := w.client(func(c *Config) { c.List = append(slices.Clone(w.list), other.addr) })
	connected := func(id transport.ID) bool { return client.links[id] != 0 }
	holds(t, !connected(other.id) && w.parts > 0, "it is connected with another client; parted:", w.parts)
	before := w.parts
	for i := range 60 {
		w.run(time.Second)
		for _, addr := range w.list {
			holds(t, connected(w.procs[addr].id), fmt.Sprintf("after %d s it is not connected with %s", i, addr))
		}
	}
	holds(t, w.parts-before >= 1 && w.parts-before <= 5, "in a minute it looks there so often:", w.parts-before)
}

// Promise: C11: a client does not part with a node at one of its contact points whose entry was dropped, while that votes.
func TestAClientKeepsTheDropped(t *testing.T) {
	w := keeping(t, 4) // where no shard has a leader that would move its votes
	client := w.client(func(c *Config) { c.List = slices.Clone(w.list) })
	x := w.procs[w.list[3]]
	_, err := w.changes(w.list[0], "", x.addr)
	w.must(err == nil, "refused: %v", err)
	w.must(w.runUntil(10*time.Second, func() bool { return client.state.Table.Dropped == x.id }), "not dropped")
	w.must(!w.runUntil(30*time.Second, func() bool { return client.links[x.id] == 0 }), "the client parts with a voter")
}

// A client looks soon for a node from which it has parted, once that is at an entry, or no mesh serves.
func TestAClientLooksAgain(t *testing.T) {
	w := keeping(t, 3)
	other := w.boot(fourth)
	client := w.client(func(c *Config) { c.List = append(slices.Clone(w.list), fourth) })
	parts := func() {
		t.Helper()
		w.must(w.runUntil(35*time.Second, func() bool { return client.links[other.id] != 0 }), "it never looks")
		w.must(w.runUntil(10*time.Second, func() bool { return client.links[other.id] == 0 }), "it does not part")
	}
	looks := func(why string) {
		t.Helper()
		w.must(w.runUntil(4*time.Second, func() bool { return client.links[other.id] != 0 }), "the client does not look: %s", why)
	}
	parts()
	w.kill(w.list[0])
	w.kill(w.list[1])
	looks("no mesh serves")
	w.boot(w.list[0], able)
	w.boot(w.list[1], able)
	w.must(w.runUntil(10*time.Second, w.serves), "the core does not come back")
	parts()
	_, err := w.changes(w.list[0], fourth, "")
	w.must(err == nil, "refused: %v", err)
	looks("its node is at an entry now")
}

// Promise: C1: a client follows the core though none of its contact points answers any more.
// Method: its one contact point is the first of two. While it is cut off, the list grows by a third, and the first ends. It hears
// from the second again, which is no contact point of its own.
func TestAClientFollowsWithoutItsContacts(t *testing.T) {
	w := keeping(t, 2)
	first, second := w.list[0], w.list[1]
	client := w.client(func(c *Config) { c.List = []string{first} })
	cut := func(is bool) {
		for _, addr := range []string{first, second} {
			w.cut[[2]string{client.addr, addr}], w.cut[[2]string{addr, client.addr}] = is, is
			w.breakLink(client.addr, addr)
		}
	}
	cut(true)
	o, err := w.changes(first, fourth, "")
	w.must(err == nil, "refused: %v", err)
	w.carriesOut(first, o)
	w.list = append(slices.Clone(w.list), fourth)
	w.comes(fourth, w.list)
	w.must(w.runUntil(10*time.Second, func() bool { return w.serves() && w.table().Unfinished() == "" }), "the list does not grow")
	w.kill(first)
	cut(false)
	w.must(w.runUntil(20*time.Second, func() bool { return len(client.state.Table.Seats) == 3 }), "the client does not follow")
}

package core

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// world is a small world to explore. Depth bounds the steps; zero: it is explored whole.
type world struct {
	serving, long, deep bool
	depth               int
	begun               func(*testing.T, limits) []*model // returns how it begins, which course tells
	course              string
	limits
}

// worlds are small enough to be explored whole. Those that are deep take minutes, and those that are long seconds:
// CI explores these, each with -world.
var worlds = []world{
	{limits: limits{entries: 3, restarts: 1, calls: 2, asks: 1, lists: []string{"ab", "ac"}, hasty: true}},
	{limits: limits{entries: 2, restarts: 2, calls: 2, registers: 1, asks: 1}},
	{limits: limits{entries: 3, restarts: 1, calls: 2}, deep: true},
	{limits: limits{entries: 3, restarts: 1, calls: 1, registers: 1}, serving: true},
	{limits: limits{entries: 3, restarts: 1, registers: 2}, serving: true},
	{limits: limits{entries: 2, restarts: 1, calls: 2, registers: 1, asks: 1}, serving: true},
	{limits: limits{entries: 3, calls: 2, asks: 2}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, registers: 4, fences: 1, atOnce: true}, serving: true, long: true},
	{limits: limits{entries: 4, replicas: 3, restarts: 1, registers: 2, fences: 1, atOnce: true}, serving: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 2, registers: 3, fences: 1, atOnce: true}, serving: true, deep: true},
	{limits: limits{entries: 3, restarts: 2, registers: 4, atOnce: true}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 1, registers: 2, fences: 1, atOnce: true}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 2, calls: 1, registers: 2, atOnce: true, lists: []string{"ab", "ac"}, edits: 2}, serving: true},
	{limits: limits{entries: 4, replicas: 2, restarts: 1, registers: 3, atOnce: true, lists: []string{"abc", "abd"}, edits: 2}, serving: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, registers: 2, atOnce: true, lists: []string{"ab", "abc"}, edits: 3, back: true, live: true, orders: true}, serving: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, registers: 4, atOnce: true, lists: []string{"ab", "abc"}, edits: 5, back: true, live: true, orders: true}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, registers: 4, fences: 1, ends: 1, atOnce: true}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, registers: 3, lies: 1, atOnce: true}, serving: true},
	{limits: limits{entries: 3, restarts: 1, registers: 2, ends: 1}, serving: true},
	{limits: limits{entries: 3, restarts: 1, calls: 1, registers: 1, ends: 1}, serving: true},
	{limits: limits{entries: 4, replicas: 2, restarts: 1, registers: 3, ends: 1, atOnce: true}, serving: true},
	{limits: limits{entries: 3, restarts: 1, calls: 1, registers: 2, lies: 1, atOnce: true}, serving: true, long: true},
	{limits: limits{entries: 4, replicas: 2, restarts: 2, calls: 1, atOnce: true, serve: 200}, serving: true},
	{limits: limits{entries: 4, replicas: 2, restarts: 2, calls: 1, registers: 1, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 4, replicas: 2, restarts: 2, calls: 1, registers: 3, atOnce: true, serve: 200}, serving: true, deep: true, depth: 10},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 1, registers: 2, lies: 1, atOnce: true}, serving: true, deep: true},
	{limits: limits{entries: 4, replicas: 2, restarts: 2, registers: 3, ends: 1, atOnce: true, lists: []string{"abc", "abcd"}, edits: 2, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 5, replicas: 3, restarts: 2, registers: 3, ends: 2, atOnce: true, serve: 500}, serving: true, deep: true, depth: 9},
	{limits: limits{entries: 2, restarts: 2, calls: 1, registers: 2, asks: 1, hears: 3}, serving: true},
	{limits: limits{entries: 3, restarts: 2, registers: 2, hears: 2, atOnce: true}, serving: true},
	{limits: limits{entries: 2, restarts: 1, calls: 2, asks: 1, hears: 2}},
	{limits: limits{entries: 2, restarts: 1, calls: 2, asks: 1, hears: 4}, deep: true},
	{limits: limits{entries: 3, restarts: 2, calls: 1, registers: 2, asks: 1, hears: 3, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 3, restarts: 1, calls: 2, asks: 1, hears: 4, serve: 200}, deep: true},
	{limits: limits{entries: 4, restarts: 1, registers: 2, hears: 2, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 4, restarts: 1, calls: 1, hears: 4, serve: 200}, deep: true},
	{limits: limits{entries: 4, restarts: 1, calls: 2, serve: 200}, deep: true},
	{limits: limits{entries: 4, restarts: 2, calls: 2, serve: 200}, deep: true},
	{limits: limits{entries: 4, restarts: 1, calls: 2, registers: 1, asks: 1, serve: 200}, deep: true},
	{limits: limits{entries: 4, restarts: 1, calls: 2, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 4, calls: 2, asks: 1, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 4, restarts: 1, calls: 1, registers: 1, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 4, restarts: 1, registers: 2, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 4, restarts: 2, calls: 1, registers: 1, asks: 1, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 4, restarts: 3, registers: 3, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 4, replicas: 3, restarts: 2, registers: 3, fences: 1, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 5, restarts: 1, calls: 2, serve: 200}, deep: true},
	{limits: limits{entries: 5, restarts: 1, calls: 1, registers: 1, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 5, restarts: 2, registers: 2, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 5, replicas: 3, restarts: 1, registers: 2, fences: 1, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 4, replicas: 2, restarts: 1, registers: 3, atOnce: true, lists: []string{"abc", "abcd"}, edits: 3, back: true, serve: 500}, serving: true, deep: true},
	{limits: limits{entries: 4, restarts: 2, calls: 1, registers: 2, serve: 500}, serving: true, deep: true, depth: 11},
	{limits: limits{entries: 4, replicas: 3, restarts: 1, calls: 1, registers: 2, atOnce: true, serve: 500}, serving: true, deep: true, depth: 14},
	{limits: limits{entries: 5, restarts: 1, registers: 2, serve: 500}, serving: true, deep: true, depth: 18},
	{limits: limits{entries: 5, restarts: 2, calls: 2, asks: 1, serve: 500}, deep: true, depth: 13},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 1, registers: 1, vacate: 1, short: true, atOnce: true, serve: 1}, serving: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 1, registers: 2, vacate: 1, short: true, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 2, calls: 1, registers: 2, vacate: 1, short: true, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 2, registers: 1, vacate: 1, short: true, atOnce: true, serve: 200}, serving: true, deep: true, depth: 9},
	{limits: limits{entries: 3, replicas: 2, restarts: 2, calls: 2, registers: 2, asks: 1, vacate: 1, short: true, atOnce: true, serve: 200}, serving: true, deep: true, depth: 6},
	{limits: limits{entries: 3, replicas: 2, restarts: 2, registers: 4, vacate: 1, short: true, atOnce: true, lists: []string{"abc", "ab"}, edits: 2, serve: 200}, serving: true, deep: true, depth: 9},
	{limits: limits{entries: 4, replicas: 2, restarts: 2, calls: 2, short: true, serve: 200}, serving: true, deep: true, depth: 7},
	{limits: limits{entries: 4, replicas: 3, restarts: 2, calls: 2, registers: 1, short: true, atOnce: true, serve: 200}, serving: true, deep: true, depth: 6},
	{limits: limits{entries: 2, restarts: 1, calls: 2, registers: 1, asks: 1, takes: true}, serving: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 2, takes: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 2, registers: 1, takes: true, atOnce: true, serve: 200}, serving: true, deep: true, depth: 11},
	{limits: limits{entries: 4, replicas: 3, restarts: 2, calls: 2, registers: 1, short: true, takes: true, atOnce: true, serve: 200}, serving: true, deep: true, depth: 6},
	{limits: limits{entries: 3, replicas: 2, calls: 1, registers: 1, short: true, atOnce: true, lists: []string{"abc", "ab"}, edits: 1, live: true, serve: 2}, serving: true, long: true},
	{limits: limits{entries: 3, replicas: 2, calls: 2, short: true, lists: []string{"abc", "ab"}, edits: 1, live: true, serve: 200}, serving: true, deep: true, depth: 9},
	{limits: limits{entries: 6, replicas: 3, calls: 1, registers: 1, atOnce: true, lists: []string{"abcde", "abcdf"}, hasty: true, late: true, serve: 2000}, begun: unaware, course: "two are bound before they know, and found another mesh"},
	{limits: limits{entries: 6, replicas: 3, calls: 1, registers: 2, atOnce: true, lists: []string{"abcde", "abcdf"}, hasty: true, late: true, serve: 2000}, begun: unaware, course: "two are bound before they know, and found another mesh", deep: true},
	{limits: limits{entries: 7, replicas: 3, calls: 1, atOnce: true, lists: []string{"abcd", "abce", "abfe", "gbfe"}, serve: 2000}, begun: changed, course: "the list has changed thrice, and those that were dropped run on"},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, registers: 3, vacate: 1, ttls: 1, atOnce: true}, serving: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 2, calls: 1, registers: 1, words: 1, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 2, restarts: 1, calls: 1, registers: 2, ttls: 1, words: 1, atOnce: true}, serving: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, registers: 4, vacate: 1, ttls: 1, atOnce: true, serve: 200}, serving: true, deep: true},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 1, registers: 2, ttls: 1, atOnce: true, serve: 500}, serving: true, deep: true, depth: 8},
	{limits: limits{entries: 4, restarts: 3, calls: 1, ttls: 1, atOnce: true, lists: []string{"abcd", "abd"}, serve: 2000}, long: true, begun: dropped, course: "c was dropped, one or all of the others have the next list, and MaxTTL is raised"},
	{limits: limits{entries: 3, replicas: 2, restarts: 1, calls: 1, registers: 3, ends: 1, vacate: 1, short: true, atOnce: true, serve: 200}, serving: true, deep: true},
}

// dropped returns worlds whose list has changed, by so many nodes that were started with the next one: one, or all that stay. Those
// that it drops run on, with what they remember. The others know of a raise of MaxTTL, which is in force if it may be.
func dropped(t *testing.T, l limits) (ms []*model) {
	for _, most := range []int{1, len(l.lists[1])} {
		for _, m := range newServing(l) {
			m.rollOut(1, order(l.entries), most)
			if now := m.latest(); strings.Join(now.List(), "") != l.lists[1] || now.complete(now.List()) != (most > 1) {
				t.Fatalf("the mesh has the list %v", now.List())
			}
			decide := func(next *Table, err error) {
				if err == nil {
					next = m.tables.intern(next, m.latest())
					m.decideNow(0, next)
					for e := range m.names {
						m.edit(m.id(e)).Learn(next)
					}
				}
			}
			decide(m.latest().SetMaxTTL(2))
			decide(m.latest().Raise())
			m.regs, m.sent = nil, nil // who is to know the last version knows it
			ms = append(ms, m)
		}
	}
	return ms
}

// unaware returns worlds in which two entries of five have been started anew, with the next list, and are bound, which
// they have not heard. Two others have been started anew as well, and all of that list have promised a roll call of it.
func unaware(t *testing.T, l limits) []*model {
	ms := newServing(l)
	for _, m := range ms {
		for e := range 4 {
			m.files[e] = 1
			m.lives[e]++
			if m.fresh(e); e >= 2 {
				continue
			}
			now := m.latest()
			next := m.tables.intern(must(now.Bind(m.names[e], env.Member{ID: m.id(e)}, m.acc[e].list))(t), now)
			m.decideNow(4, next)
			for o := 2; o < 5; o++ {
				m.edit(m.id(o)).Learn(next)
			}
		}
		m.regs, m.sent = nil, slices.Clone(m.past)
		action, err := begin(m.id(5), m.acc[5].list, m.told(5))
		if err != nil {
			t.Fatal(err)
		}
		k := call{Call: action.(Begin).Call}
		for _, id := range k.Roster {
			r, err := m.edit(id).Call(k.Call)
			if err != nil {
				t.Fatal(err)
			}
			k.answers = append(k.answers, &r)
		}
		k.value = m.values(k)[0]
		m.calls = []call{k}
	}
	return ms
}

// changed returns worlds whose list has changed to each of lists. The nodes that were dropped run on, with the list that they had.
func changed(t *testing.T, l limits) []*model {
	ms := newServing(l)
	for _, m := range ms {
		for k := 1; k < len(m.lists); k++ {
			if m.rollOut(k, order(l.entries), l.entries); !m.inForce(k) {
				t.Fatalf("the mesh did not change to the list %s", m.lists[k])
			}
		}
		m.sent = nil // who is to know the last version knows it
	}
	return ms
}

// order returns the numbers from zero, so many.
func order(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// start returns the states in which a world begins.
func (w *world) start(t *testing.T) []*model {
	switch {
	case w.begun != nil:
		return w.begun(t, w.limits)
	case w.serving:
		return newServing(w.limits)
	}
	return []*model{newModel(w.limits)}
}

func (w *world) String() string {
	begin := "founding"
	switch {
	case w.begun != nil:
		begin = w.course
	case w.serving:
		begin = "serving"
	}
	l := w.limits
	text := fmt.Sprintf("%s: %d entries", begin, l.entries)
	for _, n := range []struct {
		n    int
		what string
	}{{l.replicas, "replicas"}, {l.restarts, "restarts"}, {l.calls, "calls"}, {l.registers, "registers"}, {l.asks, "asks"}, {l.fences, "fences"}, {l.hears, "hears"}, {l.edits, "edits"}, {l.ends, "ends"}, {l.lies, "lies"}, {l.vacate, "vacated"}, {l.ttls, "changes of MaxTTL"}, {l.words, "words"}} {
		if n.n > 0 {
			text += fmt.Sprintf(", %d %s", n.n, n.what)
		}
	}
	if l.atOnce {
		text += ", at once"
	}
	if l.short {
		text += ", short calls"
	}
	if l.takes {
		text += ", withdrawn calls"
	}
	if l.lists != nil {
		text += fmt.Sprintf(", lists %v", l.lists)
	}
	return text
}

// TestModel explores every state within bounds. Of small worlds it explores each state by itself as
// well: there must be as many as the renamings make of those that stand for all.
func TestModel(t *testing.T) {
	small := 20_000
	if *deep {
		small = 1_000_000
	}
	for i, w := range worlds {
		if *only >= 0 && i != *only || *only < 0 && ((w.deep || w.long) && !*deep || i > 0 && testing.Short()) {
			continue
		}
		states, images := w.explore(t)
		if w.depth > 0 || w.begun != nil || images > small || images == states {
			continue
		}
		w.plain = true
		if states, _ := w.explore(t); states != images {
			t.Errorf("%v: %d states, and %d with their renamings", &w, states, images)
		}
	}
}

// search is an exploration, level by level.
type search struct {
	world  *world
	shards [256]shelf // of the states that were met
	starts []*model

	once   sync.Once
	failed atomic.Bool // then something is wrong in a state
	why    string
	at     uint64
}

// shelf has the states met whose fingerprints begin alike, each with the one that led to it.
type shelf struct {
	mu     sync.Mutex
	from   map[uint64]uint64
	images int
}

// meet notes a state, and reports whether it is new.
func (s *search) meet(h, from uint64, images int) bool {
	shelf := &s.shards[h>>56]
	shelf.mu.Lock()
	defer shelf.mu.Unlock()
	if _, ok := shelf.from[h]; ok {
		return false
	}
	shelf.from[h] = from
	shelf.images += images
	return true
}

// fail notes what is wrong in a state.
func (s *search) fail(at uint64, why string) {
	s.once.Do(func() {
		s.at, s.why = at, why
		s.failed.Store(true)
	})
}

// expand returns the new states to which those of a level lead.
func (s *search) expand(level []*model) (next []*model) {
	var memory scratch
	serve := uint64(cmp.Or(s.world.serve, every))
	for i, at := range level {
		level[i] = nil // frees its memory
		from, _ := at.fingerprint(&memory)
		at.steps(func(n *model, _ func() string) {
			h, images := n.fingerprint(&memory)
			if s.failed.Load() || !s.meet(h, from, images) {
				return
			}
			if why := n.check(); why != "" {
				s.fail(h, why)
			} else if h%serve == 0 {
				if why := n.comesToServe(); why != "" {
					s.fail(h, why)
				}
			}
			next = append(next, n)
		})
	}
	return next
}

// explore explores a world whole, and returns the number of states explored, and how many renamings
// make of them.
func (w *world) explore(t *testing.T) (states, images int) {
	t.Helper()
	begun, depth := time.Now(), 0
	s := &search{world: w, starts: w.start(t)}
	for i := range s.shards {
		s.shards[i].from = make(map[uint64]uint64)
	}
	var level []*model
	for _, m := range s.starts {
		if h, n := m.fingerprint(new(scratch)); s.meet(h, 0, n) {
			level = append(level, m)
		}
	}
	for ; len(level) > 0 && (w.depth == 0 || depth < w.depth); depth++ {
		level = s.deepen(level)
		if s.failed.Load() {
			s.tell(t)
		}
	}
	for i := range s.shards {
		states += len(s.shards[i].from)
		images += s.shards[i].images
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	bound := ""
	if len(level) > 0 {
		bound = ", and no deeper"
	}
	t.Logf("%v: %d states (%d with renamings), %d steps deep%s, %v, %d MB", w, states, images, depth, bound, time.Since(begun).Round(time.Millisecond), memory.Sys>>20)
	return states, images
}

// deepen expands a level, in two halves at once if it is large.
func (s *search) deepen(level []*model) []*model {
	if len(level) < 1000 {
		return s.expand(level)
	}
	parts := slices.Collect(slices.Chunk(level, (len(level)+1)/2))
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { parts[i] = s.expand(parts[i]) })
	}
	wg.Wait()
	return slices.Concat(parts...)
}

// tell plays the steps again that led to what is wrong.
func (s *search) tell(t *testing.T) {
	t.Helper()
	var path []uint64
	for h := s.at; h != 0; h = s.shards[h>>56].from[h] {
		path = append(path, h)
	}
	slices.Reverse(path)
	var memory scratch
	var m *model
	for _, start := range s.starts {
		if h, _ := start.fingerprint(&memory); h == path[0] {
			m = start
		}
	}
	for _, want := range path[1:] {
		var chosen *model
		m.steps(func(n *model, name func() string) {
			if h, _ := n.fingerprint(&memory); h == want && chosen == nil {
				t.Log(name())
				chosen = n
			}
		})
		m = chosen
	}
	t.Fatal(s.why)
}

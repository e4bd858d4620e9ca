package core

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// jumped returns a world in which entry c was started with a list that is two changes away from the one of the mesh,
// before that mesh has bound it, and has founded another mesh with two others.
func jumped(t *testing.T, apart bool) *model {
	m := newServing(limits{entries: 5, replicas: 2, lists: []string{"abc", "cde"}, hasty: true, apart: apart})[0]
	m.files[2] = 1
	m.lives[2]++
	m.fresh(2)
	action, err := begin(m.id(2), m.acc[2].list, m.told(2))
	if err != nil {
		t.Fatal(err)
	}
	c := action.(Begin).Call
	c.Ballot.Round = 2
	m.callNow(c)
	for _, e := range []int{3, 4} {
		m.edit(m.id(e)).Learn(m.acc[2].table)
	}
	return m
}

// Two meshes that serve, and have an entry in common, come to be where the operator lets a list jump, and the model
// notices it: no world does in which lists follow each other.
func TestAListThatJumpsFoundsAnotherMesh(t *testing.T) {
	if m := jumped(t, false); m.check() == "" {
		t.Error("it does not notice two meshes")
	}
	if m := jumped(t, true); m.check() != "" || !m.acc[0].table.Lives(m.all()) || !m.acc[4].table.Lives(m.all()) || m.acc[0].table.Mesh == m.acc[4].table.Mesh {
		t.Errorf("there are no two meshes: %s", m.check())
	}
}

// all returns the reports of all that live.
func (m *model) all() (all []Report) {
	for _, a := range m.acc {
		all = append(all, a.Report())
	}
	return all
}

// Promise: C10: whatever happens to two meshes before they meet, and while their nodes go over one by one, no two
// decisions of either bear one stamp. Afterwards at most one serves: the earlier one, if both have a majority. A node
// that left that one for the other, as it did not hear most of it, must be started again.
func TestTwoMeshesMeet(t *testing.T) {
	const n = 600
	met := make(map[string]int)
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 10))
		m := jumped(t, true)
		first := m.acc[0].table.Mesh
		m.atOnce, m.replicas = true, 2
		m.limits.restarts, m.limits.calls, m.limits.registers, m.limits.asks = rng.IntN(2), len(m.calls)+rng.IntN(2), rng.IntN(4), rng.IntN(3)
		names, why := m.stroll(rng)
		both := m.acc[0].table != nil && m.acc[0].table.Lives(m.all()) && m.acc[4].table != nil && m.acc[4].table.Lives(m.all()) && m.acc[0].table.Mesh != m.acc[4].table.Mesh
		if why == "" {
			_ = m.play() // without a majority of either, nodes whose lists are too far apart wait for ever
			for e, a := range m.acc {
				if slices.Contains(a.left, first) && a.table.Mesh != first {
					met["went astray"]++
					m.lives[e]++
					m.fresh(e)
				}
			}
			_ = m.play()
			why = m.wrong
		}
		m.apart = false
		if why == "" {
			why = m.check()
		}
		over := !slices.ContainsFunc(m.acc, func(a *Acceptor) bool { return a.table != nil && a.table.Mesh != first })
		if both {
			met["both live"]++
		}
		if over {
			met["one mesh"]++
		}
		if why != "" || both && !over {
			t.Fatalf("walk %d: %s, %q", seed, why, names)
		}
	}
	t.Log(met)
}

// meeting returns the reports of two meshes that serve and meet: of abc, whose c has another incarnation, which is in the
// one of cde.
func meeting(t *testing.T) (m *model, told map[string]Report) {
	m = jumped(t, true)
	return m, m.told(2)
}

// Promise: C10: of two meshes that live a node goes by the one that was founded first, whatever their ballots are, and
// their IDs only if both were at the same time.
func TestTheEarlierMeshCounts(t *testing.T) {
	for _, tt := range []struct {
		name                string
		founded, mesh, roll [2]uint64 // of abc, of cde
		first               bool      // abc is the earlier
	}{
		{"by time", [2]uint64{5, 6}, [2]uint64{9, 3}, [2]uint64{1, 2}, true},
		{"by time, the other", [2]uint64{6, 5}, [2]uint64{3, 9}, [2]uint64{2, 1}, false},
		{"by ID", [2]uint64{5, 5}, [2]uint64{3, 9}, [2]uint64{1, 2}, true},
		{"by ID, the other", [2]uint64{5, 5}, [2]uint64{9, 3}, [2]uint64{2, 1}, false},
	} {
		_, told := meeting(t)
		var tables [2]Table
		for i, e := range []string{"a", "d"} {
			tables[i] = *told[e].Table
			tables[i].Founded, tables[i].Mesh, tables[i].Stamp.Roll.Round = tt.founded[i], tt.mesh[i], tt.roll[i]
		}
		for e, r := range told {
			i := 0
			if e >= "c" {
				i = 1
			}
			r.Table, r.Roll = &tables[i], tables[i].Stamp.Roll
			told[e] = r
		}
		for e, r := range told {
			for o, q := range told {
				q.Asked = r.Mark()
				told[o] = q
			}
			action, _ := Next(r.Node, told)
			ask, gives := action.(Ask)
			other := &tables[1]
			if e >= "c" {
				other = &tables[0]
			}
			if want := tt.first == (e >= "c"); gives != want || gives && ask.Table != other {
				t.Errorf("%s: %s does %T, want it to give way: %t", tt.name, e, action, want)
			}
		}
	}
}

// Promise: C10, C4: an incarnation of another mesh gets no seat before it has given way: it would count in majorities, and
// act by none of their decisions.
func TestNoSeatForAnotherMesh(t *testing.T) {
	m, _ := meeting(t)
	told := m.told(0)
	if action, err := Next(m.id(0), told); action != nil || !errors.Is(err, errForeign) {
		t.Errorf("%T, %v", action, err)
	}
	m.turn(2)
	if action, _ := Next(m.id(0), m.told(0)); action == nil || !slices.Contains(action.(Propose).Table.Bound(), m.id(2)) {
		t.Errorf("it has given way, and a does %T", action)
	}
}

// Promise: C10: a node whose mesh has given way never acts in it again, though that goes on without it: it has forgotten
// what it accepted there.
func TestNoWayBackIntoAMeshThatGaveWay(t *testing.T) {
	m, _ := meeting(t)
	a, second := *m.acc[2], m.acc[2].table
	next := second.next()
	if err := a.Write(Ballot{Round: 1, By: m.id(2)}, second.Stamp, next); err != nil {
		t.Fatal(err)
	}
	if first := m.acc[0].table; !a.Release(first, a.roll) || a.table != first || !a.Left(second.Mesh) || a.Left(first.Mesh) {
		t.Fatalf("it does not go over: %v", a.table.Stamp)
	}
	later := *next // of another generation, too
	later.Stamp.Roll.Round = 9
	for _, back := range []*Table{second, next, &later} {
		if a.Learn(back) || a.Release(back, a.roll) {
			t.Errorf("it acts by %v again", back.Stamp)
		}
	}
}

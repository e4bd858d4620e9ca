package main

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("n%d", i+1))
	}
	return all
}

func TestThePlanFollowsFromTheSeed(t *testing.T) {
	draw := func(seed uint64) (all []string) {
		p := newPlan(seed, names(8)[:5], names(8)[5:], abilities{narrow: true})
		for range 200 {
			s := p.next()
			all = append(all, fmt.Sprintf("%v %+v", s, s))
		}
		return all
	}
	if !slices.Equal(draw(7), draw(7)) {
		t.Error("one seed gives two plans")
	}
	if slices.Equal(draw(7), draw(8)) {
		t.Error("two seeds give one plan")
	}
}

// After each step all processes run, no link is cut, and the lists changed by the rules.
func TestStepsUndoWhatTheyDo(t *testing.T) {
	for seed := range uint64(50) {
		n := []int{3, 5}[seed%2]
		p := newPlan(seed, names(n + 3)[:n], names(n + 3)[n:], abilities{narrow: seed%3 > 0, slow: seed%3 > 1})
		seen, list := make(map[string]int), names(n)
		for range 4 * len(kinds) {
			s := p.next()
			seen[s.kind]++
			checkFaults(t, s)
			checkTurns(t, s, list, n, n+3)
			list = s.list
		}
		for _, kind := range kinds {
			if seen[kind] == 0 && seed%3 > 1 {
				t.Errorf("seed %d: no step is called %s", seed, kind)
			}
		}
		if seed%3 == 0 && seen["narrow"]+seen["slow"] > 0 {
			t.Errorf("seed %d: links are made worse where they cannot be", seed)
		}
	}
}

func checkFaults(t *testing.T, s step) {
	t.Helper()
	down, cuts, worse := make(map[string]verb), make(map[string]int), make(map[string]bool)
	at := time.Duration(0)
	for _, o := range s.faults {
		if o.at < at {
			t.Errorf("%v: not in order of time", s)
		}
		at = o.at
		for _, name := range o.names {
			switch o.verb {
			case kill, halt:
				if down[name] != "" {
					t.Errorf("%v: %s %s, after %s", s, o.verb, name, down[name])
				}
				down[name] = o.verb
			case start, goOn:
				if was := down[name]; (was != kill || o.verb != start) && (was != halt || o.verb != goOn) {
					t.Errorf("%v: %s %s, after %q", s, o.verb, name, was)
				}
				delete(down, name)
			case cut, mend:
				for _, to := range o.to {
					if name == to {
						t.Errorf("%v: %s is cut from itself", s, name)
					}
					if cuts[name+to]++; o.verb == mend {
						if cuts[name+to] -= 2; cuts[name+to] < 0 {
							t.Errorf("%v: %s to %s is mended and was not cut", s, name, to)
						}
					}
				}
			case thin, drag:
				worse[name] = true
			case widen:
				delete(worse, name)
			default:
				t.Errorf("%v: what is %q?", s, o.verb)
			}
		}
	}
	for pair, n := range cuts {
		if n != 0 {
			t.Errorf("%v: %s stays cut", s, pair)
		}
	}
	if len(down)+len(worse) > 0 {
		t.Errorf("%v: %v stay down, %v worse", s, down, worse)
	}
	if len(s.faults)+len(s.turns) == 0 {
		t.Errorf("%v does nothing", s)
	}
}

// checkTurns checks that the list changes by one entry at most, that everybody is then restarted with it (C11),
// and that nobody is restarted twice.
func checkTurns(t *testing.T, s step, list []string, base, all int) {
	t.Helper()
	missing := 0
	for _, name := range list {
		if !slices.Contains(s.list, name) {
			missing++
		}
	}
	for _, name := range s.list {
		if !slices.Contains(list, name) {
			missing++
		}
	}
	if missing > 1 || math.Abs(float64(len(s.list)-base)) > 1 || len(s.list) < base {
		t.Errorf("%v: the list %v becomes %v", s, list, s.list)
	}
	restarted := make(map[string]bool)
	for _, turn := range s.turns {
		if restarted[turn.name] || !slices.Equal(turn.list, s.list) {
			t.Errorf("%v: %s is restarted again, or with another list than %v", s, turn.name, s.list)
		}
		restarted[turn.name] = true
	}
	if missing > 0 && (len(restarted) != all || !s.spares || !s.calm) {
		t.Errorf("%v: the list changes, and %d of %d are restarted; spares %v, calm %v", s, len(restarted), all, s.spares, s.calm)
	}
	if s.kind == "change the list" && missing != 1 {
		t.Errorf("%v does not change the list", s)
	}
}

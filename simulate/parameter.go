package simulate

import (
	"fmt"
	"math"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Parameter is one number that a world's seed has drawn: how many hosts there are,
// how long a link takes, how long the storm goes on. Its least value is its calmest.
type Parameter struct {
	Name               string
	Least, Most, Value int64
	Switch             bool // it is one of the many that switch fault points, or parts of the sieve, on
}

// Pick draws the parameter of that name from the seed, in [least, most]. Each parameter has a
// source of chance of its own, so that a new one does not change the others.
// Options.Set decides in place of the seed; a value out of range fails the run. A second Pick of
// a name returns what the first did, and fails the run if its range is another.
// A name consists of letters, digits, and any of "-._/"; Pick panics on another name, and if least is more than most.
// A search that finds a failure tries smaller values.
//
//	hosts := w.Pick("hosts", 3, 9)
func (w *World) Pick(name string, least, most int64) int64 {
	return w.pick(name, least, most, func(s *stream) int64 { return least + s.below(most-least+1) })
}

// PickMostly is Pick for a size of which large values are expensive: the value is in [least, usual] in fifteen of sixteen
// worlds, and above usual in the others.
//
//	hosts := w.PickMostly("hosts", 3, 7, 20)
func (w *World) PickMostly(name string, least, usual, most int64) int64 {
	if usual < least || usual > most {
		panic(fmt.Sprintf("simulate: parameter %q: usual is %d, which is not in [%d, %d]", name, usual, least, most))
	}
	return w.pick(name, least, most, func(s *stream) int64 {
		if s.below(16) == 0 && usual < most {
			return usual + 1 + s.below(most-usual)
		}
		return least + s.below(usual-least+1)
	})
}

// rough is Pick for things that are not there in half of the worlds.
func (w *World) rough(name string, most int64) int64 {
	return w.pick(name, 0, most, func(s *stream) int64 {
		if s.below(2) == 0 {
			return 0
		}
		return s.below(most + 1)
	})
}

// sometimes draws a percentage up to 50 that is zero in most worlds, and in all of a profile
// without them.
func (w *World) sometimes(name string, worlds int64) int64 {
	if _, set := w.opts.setting(name); worlds == 0 && !set {
		return 0
	}
	return w.pick(name, 0, 50, func(chance *stream) int64 {
		if !chance.chance(worlds * million / 100) {
			return 0
		}
		return 1 + chance.below(50)
	})
}

func (w *World) pick(name string, least, most int64, draw func(*stream) int64) int64 {
	if most < least {
		panic(fmt.Sprintf("simulate: parameter %q: the range [%d, %d] is empty", name, least, most))
	}
	for _, p := range w.parameters {
		if p.Name == name {
			if p.Least != least || p.Most != most {
				w.Fail(fmt.Errorf("simulate: parameter %q is in [%d, %d] here, and in [%d, %d] elsewhere", name, least, most, p.Least, p.Most))
			}
			return p.Value
		}
	}
	if !plainName(name) {
		panic(fmt.Sprintf("simulate: parameter %q: a name consists of letters, digits, and any of -._/", name))
	}
	v, set := w.opts.setting(name)
	if !set {
		v = draw(w.stream(parameterStream<<56 ^ xxhash.Sum64String(name)>>8))
	}
	if v == Least && set {
		v = least
	}
	if v < least || v > most {
		w.Fail(fmt.Errorf("simulate: parameter %q is set to %d, which is not in [%d, %d]", name, v, least, most))
		v = min(max(v, least), most)
	}
	w.parameters = append(w.parameters, Parameter{name, least, most, v, isSwitch(name)})
	return v
}

// Least, in Options.Set, stands for a parameter's least value.
const Least = math.MinInt64

// setting returns what Set says of the parameter name: by that name, or by its longest
// beginning that Set has with a star behind it, as in "site-*".
func (o *Options) setting(name string) (int64, bool) {
	if v, ok := o.Set[name]; ok {
		return v, true
	}
	for i := len(name); i >= 0; i-- {
		if v, ok := o.Set[name[:i]+"*"]; ok {
			return v, true
		}
	}
	return 0, false
}

// plainName reports whether name can stand in a case (see package search) as it is.
func plainName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._/", r) {
			return false
		}
	}
	return name != ""
}

// Parameters returns what was picked so far, in that order.
func (w *World) Parameters() []Parameter { return w.parameters[:len(w.parameters):len(w.parameters)] }

func isSwitch(name string) bool {
	return strings.HasPrefix(name, sitePrefix) || strings.HasPrefix(name, sievePrefix)
}

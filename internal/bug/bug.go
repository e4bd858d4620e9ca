// Package bug names the deliberate bugs of the project's own tests: each
// leaves one rule of the protocol out, and a simulation must notice it.
//
// The type lives under internal so that no program can switch one on: only the
// worlds of package simulate have them, by their names. A set of zero, which is what
// every program runs with, is the correct protocol.
package bug

import "slices"

// Bug is one deliberate bug. Zero is none.
type Bug uint8

// The bugs, named after the rule that each leaves out.
const (
	// HostsAtTheEnd: who leaves takes in replicas and votes until its locks are free and it says that it leaves (P32).
	HostsAtTheEnd Bug = iota + 1

	end // of the bugs: new ones come before it
)

// Set is a set of deliberate bugs. The zero value is empty.
type Set [end/64 + 1]uint64

// Of returns the set of bugs.
func Of(bugs ...Bug) (s Set) {
	for _, b := range bugs {
		if b != 0 {
			s[b/64] |= 1 << (b % 64)
		}
	}
	return s
}

// Has reports whether b is in s.
func (s Set) Has(b Bug) bool { return s[b/64]&(1<<(b%64)) != 0 }

// Union returns the bugs that are in s or in t.
func (s Set) Union(t Set) Set {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}

// Empty reports whether no bug is in s.
func (s Set) Empty() bool { return s == Set{} }

// Names returns the names of the bugs in s.
func (s Set) Names() (names []string) {
	for _, b := range All() {
		if s.Has(b) {
			names = append(names, b.String())
		}
	}
	return names
}

// All returns every bug.
func All() (all []Bug) {
	for b := Bug(1); b < end; b++ {
		all = append(all, b)
	}
	return all
}

// Parse returns the bug of that name.
func Parse(name string) (Bug, bool) {
	i := slices.Index(names[:], name)
	return Bug(max(i, 0)), i > 0
}

func (b Bug) String() string {
	if b > 0 && b < end {
		return names[b]
	}
	return "none"
}

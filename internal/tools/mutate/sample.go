package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// sample draws n mutants that compile, or all if there are fewer. Each group, that is each
// operator in each package, gives the same share of its mutants. The seed and the mutants'
// names decide which, so an edit of the code changes the sample only a little.
func sample(all []*mutant, n int, seed uint64, compiles func(*mutant) bool) []*mutant {
	rank := make(map[*mutant]uint64, len(all))
	for _, m := range all {
		rank[m] = draw(seed, m.id)
	}
	byRank := func(a, b *mutant) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a.id, b.id)) }
	order := slices.Clone(all)
	slices.SortFunc(order, func(a, b *mutant) int {
		return cmp.Or(cmp.Compare(a.kin(), b.kin()), cmp.Compare(a.op, b.op), byRank(a, b))
	})

	// Places at equal distances in order set how many mutants each group gives. The group
	// gives the first ones that compile.
	quota := make(map[string]int)
	group := func(m *mutant) string { return m.kin() + ":" + string(m.op) }
	if count := len(order); n < count {
		first := draw(seed, "first") % uint64(count)
		for i := range n {
			quota[group(order[(int(first)+i*count)/n%count])]++
		}
	} else {
		n = count
		for _, m := range order {
			quota[group(m)]++
		}
	}
	var drawn, rest []*mutant
	for _, m := range order {
		switch g := group(m); {
		case quota[g] == 0:
			rest = append(rest, m)
		case compiles(m):
			quota[g]--
			drawn = append(drawn, m)
		}
	}
	slices.SortFunc(rest, byRank)
	for _, m := range rest { // make up for groups in which too few compile
		if len(drawn) < n && compiles(m) {
			drawn = append(drawn, m)
		}
	}
	slices.SortFunc(drawn, byRank)
	return drawn
}

// draw returns a pseudo-random number that depends only on seed and name.
func draw(seed uint64, name string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, name))
	return binary.BigEndian.Uint64(sum[:])
}

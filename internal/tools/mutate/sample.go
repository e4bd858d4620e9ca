package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// sample draws n mutants that compile, or all if there are fewer: of each package and
// operator as large a part as of the others. The seed decides, by the mutants' names: a
// change of the code draws few others.
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

	// Every so many of the order fall to the sample; in each group they are taken from its front.
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
	for _, m := range rest { // in place of groups that had too few
		if len(drawn) < n && compiles(m) {
			drawn = append(drawn, m)
		}
	}
	slices.SortFunc(drawn, byRank)
	return drawn
}

// draw returns a number that looks random.
func draw(seed uint64, name string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, name))
	return binary.BigEndian.Uint64(sum[:])
}

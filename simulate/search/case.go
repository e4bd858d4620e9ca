package search

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmesh/mesh/internal/mutant"
	"github.com/lockmesh/mesh/simulate"
)

// Case is what it takes to repeat one run of a scenario, with the code that the run was
// found with.
type Case struct {
	Seed    uint64
	Profile simulate.Profile // empty: the scenario's own options
	Set     map[string]int64 // see Options.Set
	Only    []string         // see Options.Only; nil: every fault
	Variant uint64           // see Options.Variant
	Bugs    []string         // the mutants of the program, see simulate/mutants/README.md
}

// caseOf returns the case of a run with these options.
func caseOf(o simulate.Options) Case {
	return Case{o.Seed, o.Profile, o.Set, o.Only, o.Variant, mutant.Active()}.clone()
}

func (c Case) clone() Case {
	c.Set, c.Only, c.Bugs = maps.Clone(c.Set), slices.Clone(c.Only), slices.Clone(c.Bugs)
	return c
}

// apply makes the run with o that of the case.
func (c Case) apply(o simulate.Options) simulate.Options {
	o.Seed, o.Profile, o.Set, o.Only, o.Variant = c.Seed, c.Profile, c.Set, c.Only, c.Variant
	return o
}

const (
	none      = "none"  // a list that is there, and empty
	leastName = "least" // simulate.Least
)

// Words returns the case as pairs of a name and a value, in this order: seed, profile,
// set, only, variant, bug. Defaults are left out.
func (c Case) Words() [][2]string {
	words := [][2]string{{"seed", strconv.FormatUint(c.Seed, 10)}}
	if c.Profile != "" {
		words = append(words, [2]string{"profile", string(c.Profile)})
	}
	if len(c.Set) > 0 {
		var set []string
		for _, name := range slices.Sorted(maps.Keys(c.Set)) {
			value := leastName
			if c.Set[name] != simulate.Least {
				value = strconv.FormatInt(c.Set[name], 10)
			}
			set = append(set, name+"="+value)
		}
		words = append(words, [2]string{"set", strings.Join(set, ",")})
	}
	if c.Only != nil {
		only := strings.Join(c.Only, ",")
		if len(c.Only) == 0 {
			only = none
		}
		words = append(words, [2]string{"only", only})
	}
	if c.Variant != 0 {
		words = append(words, [2]string{"variant", strconv.FormatUint(c.Variant, 10)})
	}
	if len(c.Bugs) > 0 {
		words = append(words, [2]string{"bug", strings.Join(c.Bugs, ",")})
	}
	return words
}

// String returns the case as [Environment] takes it:
//
//	seed=42 profile=flaky set=hosts=3,shards=1 only=crash/1,pair/3
func (c Case) String() string {
	var words []string
	for _, w := range c.Words() {
		words = append(words, w[0]+"="+w[1])
	}
	return strings.Join(words, " ")
}

// Take sets one field of c by its word: name is one of those that Words lists, "seed" for example, and value is
// what follows it. Known is false for any other name. The error says what is wrong with value; c is of no use then.
func (c *Case) Take(name, value string) (known bool, err error) {
	number := func() (n uint64) {
		if n, err = strconv.ParseUint(value, 10, 64); err != nil {
			err = fmt.Errorf("search: %s %q is not a number of at most 64 bits", name, value)
		}
		return n
	}
	switch name {
	case "seed":
		c.Seed = number()
	case "variant":
		c.Variant = number()
	case "profile":
		c.Profile, err = simulate.ParseProfile(value)
	case "set":
		c.Set, err = parseSet(value)
	case "only":
		c.Only = parseOnly(value)
	case "bug":
		c.Bugs = strings.Split(value, ",")
		err = checkMutants(c.Bugs, mutant.Active())
	default:
		return false, nil
	}
	if err == nil {
		err = c.apply(simulate.Options{}).Check()
	}
	return true, err
}

// checkMutants returns an error if a name is not that of a mutant that this program has: the run would
// not be the one in which the name was noted.
func checkMutants(names, active []string) error {
	for _, name := range names {
		if !slices.Contains(active, name) {
			return fmt.Errorf("search: no bug %q in this program: simulate/mutants/README.md tells how to build one with a mutant", name)
		}
	}
	return nil
}

func parseSet(s string) (map[string]int64, error) {
	set := make(map[string]int64)
	for _, part := range strings.Split(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if value == leastName {
			n, err = simulate.Least, nil
		}
		if err != nil {
			return nil, fmt.Errorf("search: %q in set is not of the form parameter=number or parameter=least", part)
		}
		if _, twice := set[name]; twice {
			return nil, fmt.Errorf("search: parameter %q is set twice", name)
		}
		set[name] = n
	}
	return set, nil
}

func parseOnly(s string) []string {
	if s == none {
		return []string{}
	}
	return strings.Split(s, ",")
}

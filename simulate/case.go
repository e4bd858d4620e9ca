package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmesh/mesh/internal/mutant"
)

// Case is what it takes to have one run of a scenario again, with the code that it was
// found with.
type Case struct {
	Seed    uint64
	Profile Profile          // empty: the scenario's own options
	Set     map[string]int64 // see Options.Set
	Only    []string         // see Options.Only; nil: every fault
	Variant uint64           // see Options.Variant
	Bugs    []string         // see Options.Bugs
}

// caseOf returns the case of a run with these options.
func caseOf(o Options) Case {
	return Case{o.Seed, o.Profile, o.Set, o.Only, o.Variant, withMutants(o.Bugs, mutant.Active())}.clone()
}

func (c Case) clone() Case {
	c.Set, c.Only, c.Bugs = maps.Clone(c.Set), slices.Clone(c.Only), slices.Clone(c.Bugs)
	return c
}

// apply makes the run with o that of the case.
func (c Case) apply(o Options) Options {
	o.Seed, o.Profile, o.Set, o.Only, o.Variant, o.Bugs = c.Seed, c.Profile, c.Set, c.Only, c.Variant, c.Bugs
	return o
}

const (
	none      = "none"  // a list that is there, and empty
	leastName = "least" // Least
)

// Words returns the case as pairs of a name and a value, in this order: seed, profile,
// set, only, variant, bug. What is as usual is left out.
func (c Case) Words() [][2]string {
	words := [][2]string{{"seed", strconv.FormatUint(c.Seed, 10)}}
	if c.Profile != "" {
		words = append(words, [2]string{"profile", string(c.Profile)})
	}
	if len(c.Set) > 0 {
		var set []string
		for _, name := range slices.Sorted(maps.Keys(c.Set)) {
			value := leastName
			if c.Set[name] != Least {
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

// String returns the case in the form that ParseCase reads:
//
//	seed=42 profile=flaky set=hosts=3,shards=1 only=crash/1,pair/3
func (c Case) String() string {
	var words []string
	for _, w := range c.Words() {
		words = append(words, w[0]+"="+w[1])
	}
	return strings.Join(words, " ")
}

// ParseCase reads what Case.String returns.
func ParseCase(s string) (Case, error) {
	var c Case
	for _, word := range strings.Fields(s) {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return Case{}, fmt.Errorf("simulate: %q is not of the form name=value", word)
		}
		known, err := c.Take(name, value)
		if err == nil && !known {
			err = fmt.Errorf("simulate: no %q in a case: there are seed, profile, set, only, variant and bug", name)
		}
		if err != nil {
			return Case{}, err
		}
	}
	return c, nil
}

// Take changes what one of the words of a case says, and tells whether it is one.
func (c *Case) Take(name, value string) (known bool, err error) {
	number := func(what string) (n uint64) {
		if n, err = strconv.ParseUint(value, 10, 64); err != nil {
			err = fmt.Errorf("simulate: %s %q is not a number of at most 64 bits", what, value)
		}
		return n
	}
	switch name {
	case "seed":
		c.Seed = number("seed")
	case "variant":
		c.Variant = number("variant")
	case "profile":
		c.Profile, err = ParseProfile(value)
	case "set":
		c.Set, err = parseSet(value)
	case "only":
		c.Only, err = parseOnly(value)
	case "bug":
		c.Bugs = strings.Split(value, ",")
		_, err = bugSet(c.Bugs)
	default:
		return false, nil
	}
	return true, err
}

func parseSet(s string) (map[string]int64, error) {
	set := make(map[string]int64)
	for _, part := range strings.Split(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if value == leastName {
			n, err = Least, nil
		}
		if err != nil || !plainName(strings.TrimSuffix(name, "*")) && name != "*" {
			return nil, fmt.Errorf("simulate: %q in set is not of the form parameter=number or parameter=least", part)
		}
		if _, twice := set[name]; twice {
			return nil, fmt.Errorf("simulate: parameter %q is set twice", name)
		}
		set[name] = n
	}
	return set, nil
}

func parseOnly(s string) ([]string, error) {
	only := []string{}
	if s == none {
		return only, nil
	}
	for _, name := range strings.Split(s, ",") {
		if err := checkFault(name); err != nil {
			return nil, err
		}
		only = append(only, name)
	}
	return only, nil
}

// checkFault tells what is wrong with the name of a fault: "crash/3", "2:crash/3".
func checkFault(name string) error {
	storm, rest, ok := strings.Cut(name, ":")
	if n, err := strconv.ParseUint(storm, 10, 16); ok && (err != nil || n < 2) {
		return fmt.Errorf("simulate: fault %q: its storm is not a number from 2 on", name)
	}
	if !ok {
		rest = name
	}
	kind, number, _ := strings.Cut(rest, "/")
	if n, err := strconv.ParseUint(number, 10, 32); err != nil || n == 0 {
		return fmt.Errorf("simulate: fault %q is not of the form kind/number", name)
	}
	if kinds := FaultKinds(); !slices.Contains(kinds, kind) {
		return fmt.Errorf("simulate: fault %q: the kinds of faults are %s", name, strings.Join(kinds, ", "))
	}
	return nil
}

// FaultKinds returns the kinds of faults that storms have: a fault is named after its
// kind.
func FaultKinds() (names []string) {
	for _, k := range faultKinds() {
		names = append(names, k.name)
	}
	return names
}

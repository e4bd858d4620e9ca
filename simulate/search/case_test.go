package search

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/simulate"
)

func TestCaseText(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Case
	}{
		{"seed=42", Case{Seed: 42}},
		{"seed=18446744073709551615 profile=hostile", Case{Seed: 1<<64 - 1, Profile: simulate.Hostile}},
		{"seed=1 set=hosts=3,site-*=0,x=-5", Case{Seed: 1, Set: map[string]int64{"hosts": 3, "site-*": 0, "x": -5}}},
		{"seed=1 set=*=least,hosts=4", Case{Seed: 1, Set: map[string]int64{"*": simulate.Least, "hosts": 4}}},
		{"seed=1 only=none", Case{Seed: 1, Only: []string{}}},
		{"seed=1 only=crash/1,pause/13 variant=7", Case{Seed: 1, Only: []string{"crash/1", "pause/13"}, Variant: 7}},
	} {
		got, err := parseCase(tt.text)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("parseCase(%q) = %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
		if again := tt.want.String(); again != tt.text {
			t.Errorf("%+v: String() = %q, want %q", tt.want, again, tt.text)
		}
	}
}

// A run with a mutant names it, and is not repeated without it.
func TestMutantsAreNamed(t *testing.T) {
	c := Case{Seed: 1, Bugs: []string{"A", "B"}}
	if got := c.String(); got != "seed=1 bug=A,B" {
		t.Errorf("a case with mutants is %q", got)
	}
	if err := checkMutants(c.Bugs, []string{"A", "B", "C"}); err != nil {
		t.Errorf("the program has them all: %v", err)
	}
	if err := checkMutants(c.Bugs, []string{"A"}); err == nil || !strings.Contains(err.Error(), `no bug "B" in this program`) {
		t.Errorf("a mutant that is not there: %v", err)
	}
}

func TestBadCases(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"seed", "name=value"},
		{"seed=-1", "seed"},
		{"seed=18446744073709551616", "seed"},
		{"seed=", "seed"},
		{"colour=red", "colour"},
		{"profile=stormy", "stormy"},
		{"set=hosts", "hosts"},
		{"set=hosts=many", "many"},
		{"set=hosts=3,hosts=4", "twice"},
		{"set=", `""`},
		{"set=a*b=3", "a*b"},
		{"only=", `""`},
		{"only=crash", "crash"},
		{"only=crash/0", "crash/0"},
		{"only=crash/x", "crash/x"},
		{"only=flood/1", "partition"},
		{"only=1:crash/1", "kinds of faults"},
		{"bug=Heisenbug", "Heisenbug"},
		{"bug=none", "none"},
	} {
		c, err := parseCase(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("parseCase(%q) = %+v, %v, want an error that names %s", tt.text, c, err, tt.want)
		}
	}
}

func TestClasses(t *testing.T) {
	for _, tt := range []struct{ message, want string }{
		{"G1 exclusion: at 3s, more than \"k\" allows", "G1 exclusion"},
		{"G6: after all faults ended; simulate: not within 3s", "G6"},
		{"simulate: not within 1m30s what was waited for", "not within # what was waited for"},
		{"order 17 of \"ann\" was shipped 2 times\nmore", "order # of \"…\" was shipped # times"},
		{"search: parameter \"hosts\" is set twice", "parameter \"…\" is set twice"},
		{"simulate: actor a/worker panicked: index out of range [3]", "panic"},
		{"node n2 is lost", "node n2 is lost"},
	} {
		if got := classOf(errors.New(tt.message)); got != tt.want {
			t.Errorf("classOf(%q) = %q, want %q", tt.message, got, tt.want)
		}
		if got := classOf(&simulate.Failure{Err: errors.New(tt.message), Seed: 9}); got != tt.want {
			t.Errorf("classOf(a Failure of %q) = %q, want %q", tt.message, got, tt.want)
		}
	}
	for _, tt := range []struct {
		seen error
		want string
	}{{errors.New("G1 exclusion: at 3s"), "G1 exclusion"}, {simulate.ErrNotWithin, "G6"}} {
		if got := classOf(fmt.Errorf("G6: after all faults ended: %w", &simulate.Failure{Err: tt.seen})); got != tt.want {
			t.Errorf("classOf(%v, while a scenario waits) = %q, want %q", tt.seen, got, tt.want)
		}
	}
	if got := classOf(nil); got != "" {
		t.Errorf("classOf(nil) = %q", got)
	}
	if got := classOf(fmt.Errorf("x: %w", &Unrepeatable{})); got != "unrepeatable" {
		t.Errorf("classOf(an Unrepeatable) = %q", got)
	}
}

func FuzzCaseString(f *testing.F) {
	f.Add("seed=1 profile=hostile set=*=least,hosts=3 only=crash/1,pair/3 variant=3")
	f.Add("seed=18446744073709551615 only=none")
	f.Add("set==,")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseCase(s)
		if err != nil {
			return
		}
		again, err := parseCase(c.String())
		if err != nil || again.String() != c.String() {
			t.Errorf("parseCase(%q) = %q, which is read as %q, %v", s, c, again, err)
		}
	})
}

// parseCase reads what Case.String returns.
func parseCase(s string) (Case, error) {
	var c Case
	for _, word := range strings.Fields(s) {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return Case{}, fmt.Errorf("search: %q is not of the form name=value", word)
		}
		known, err := c.Take(name, value)
		if err == nil && !known {
			err = fmt.Errorf("search: no %q in a case: there are seed, profile, set, only, variant and bug", name)
		}
		if err != nil {
			return Case{}, err
		}
	}
	return c, nil
}

package simulate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCaseText(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Case
	}{
		{"seed=42", Case{Seed: 42}},
		{"seed=18446744073709551615 profile=hostile", Case{Seed: 1<<64 - 1, Profile: Hostile}},
		{"seed=1 set=hosts=3,site-*=0,x=-5", Case{Seed: 1, Set: map[string]int64{"hosts": 3, "site-*": 0, "x": -5}}},
		{"seed=1 set=*=least,hosts=4", Case{Seed: 1, Set: map[string]int64{"*": Least, "hosts": 4}}},
		{"seed=1 only=none", Case{Seed: 1, Only: []string{}}},
		{"seed=1 only=crash/1,2:pause/13 variant=7", Case{Seed: 1, Only: []string{"crash/1", "2:pause/13"}, Variant: 7}},
		{"seed=1 bug=LateBelief,Amnesia", Case{Seed: 1, Bugs: []string{"LateBelief", "Amnesia"}}},
	} {
		got, err := ParseCase(tt.text)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("ParseCase(%q) = %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
		if again := tt.want.String(); again != tt.text {
			t.Errorf("%+v: String() = %q, want %q", tt.want, again, tt.text)
		}
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
		{"only=1:crash/1", "storm"},
		{"bug=Heisenbug", "Heisenbug"},
		{"bug=none", "none"},
	} {
		c, err := ParseCase(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseCase(%q) = %+v, %v, want an error that names %s", tt.text, c, err, tt.want)
		}
	}
}

func TestClasses(t *testing.T) {
	for _, tt := range []struct{ message, want string }{
		{"G1 exclusion: at 3s, more than \"k\" allows", "G1 exclusion"},
		{"G6: after all faults ended; simulate: not within 3s", "G6"},
		{"simulate: not within 1m30s what was waited for", "not within #m#s what was waited for"},
		{"order 17 of \"ann\" was shipped 2 times\nmore", "order # of \"…\" was shipped # times"},
		{"simulate: actor a/worker panicked: index out of range [3]", "panic"},
		{"node n2 is lost", "node n2 is lost"},
	} {
		if got := classOf(errors.New(tt.message)); got != tt.want {
			t.Errorf("classOf(%q) = %q, want %q", tt.message, got, tt.want)
		}
		if got := classOf(&Failure{Err: errors.New(tt.message), Seed: 9}); got != tt.want {
			t.Errorf("classOf(a Failure of %q) = %q, want %q", tt.message, got, tt.want)
		}
	}
	for _, tt := range []struct {
		seen error
		want string
	}{{errors.New("G1 exclusion: at 3s"), "G1 exclusion"}, {notWithin(time.Second), "G6"}} {
		if got := classOf(fmt.Errorf("G6: after all faults ended: %w", &Failure{Err: tt.seen})); got != tt.want {
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

func TestSetByPattern(t *testing.T) {
	o := Options{Set: map[string]int64{"site-*": 1, "site-late-*": 2, "site-late-reply": 3, "*": 4}}
	for name, want := range map[string]int64{"site-early": 1, "site-late-unlock": 2, "site-late-reply": 3, "hosts": 4} {
		if got, ok := o.setting(name); got != want || !ok {
			t.Errorf("setting(%q) = %d, %v, want %d", name, got, ok, want)
		}
	}
	if got, ok := (&Options{Set: map[string]int64{"host": 1}}).setting("hosts"); ok {
		t.Errorf("a name without a star set another: %d", got)
	}
}

// A variant is another course of the same world.
func TestVariants(t *testing.T) {
	play := func(variant uint64) (faults []Fault, parameters []Parameter, hash uint64) {
		o := Play(Options{Seed: 5, Profile: Flaky, Variant: variant}, func(w *World) error {
			for i := range 3 {
				w.Host(fmt.Sprint("h", i)).Boot("sleeper", func(ctx context.Context) {
					for Sleep(ctx, time.Second) == nil {
					}
				})
			}
			storm := w.Chaos(ChaosOptions{For: 20 * time.Second})
			return w.RunUntil(storm.Over, 5*time.Minute)
		})
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		return o.Faults, o.Parameters, o.Hash
	}
	faults, parameters, hash := play(0)
	others, same, other := play(1)
	if !reflect.DeepEqual(faults, others) || !reflect.DeepEqual(parameters, same) || len(faults) == 0 {
		t.Errorf("two variants have other faults or parameters:\n%v\n%v\n%v\n%v", faults, others, parameters, same)
	}
	if hash == other {
		t.Error("two variants have the same course of events")
	}
	if _, _, again := play(1); again != other {
		t.Error("one variant has two courses of events")
	}
}

func FuzzParseCase(f *testing.F) {
	f.Add("seed=1 profile=hostile set=*=least,hosts=3 only=crash/1,2:pair/3 variant=3 bug=GrantBeforeCommit")
	f.Add("seed=18446744073709551615 only=none")
	f.Add("set==,")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCase(s)
		if err != nil {
			return
		}
		again, err := ParseCase(c.String())
		if err != nil || again.String() != c.String() {
			t.Errorf("ParseCase(%q) = %q, which is read as %q, %v", s, c, again, err)
		}
	})
}

func TestANameHasOneRange(t *testing.T) {
	for _, profile := range []Profile{"", LAN} {
		o := Play(Options{Profile: profile}, func(w *World) error {
			if w.Pick("link-jitter-us", 5, 6); profile == "" {
				w.Pick("link-jitter-us", 7, 8)
			}
			w.Host("a")
			return w.Run(time.Second)
		})
		if o.Err == nil {
			t.Errorf("profile %q: what is picked out of one range is taken for another", profile)
		}
	}
}

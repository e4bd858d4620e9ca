package simulate

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"
)

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

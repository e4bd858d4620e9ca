package simulate

import (
	"fmt"
	"testing"
	"time"
)

func TestFakeLockers(t *testing.T) {
	first, last := uint64(1), uint64(20)
	if testing.Short() {
		last = 5
	}
	if *SeedFlag != 0 {
		first, last = *SeedFlag, *SeedFlag
	}
	var events uint64
	start := time.Now()
	for seed := first; seed <= last; seed++ {
		opts := Options{Seed: seed, Profile: Flaky}
		opts.Timeline = *SeedFlag != 0
		opts.Repeat = fmt.Sprintf("go test ./simulate -run TestFakeLockers -seed %d", seed)
		w, l := fakeWorld(opts, fakeBugs{})
		err := l.Run(w, ChaosOptions{For: time.Minute, MayCrash: mayCrashClients})
		if err != nil {
			if *SeedFlag != 0 {
				t.Logf("\n%v", w.Timeline())
			}
			t.Fatal(err)
		}
		events += w.Events()
		w.Close()
		if _, held := w.History().Calls(); held < 50 || len(w.history.inside.queue.seen) == 0 {
			t.Errorf("seed %d: only %d grants", seed, held)
		}
	}
	t.Logf("%d events in %v", events, time.Since(start))
}

package simulate

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"time"
)

// TestMain lets the garbage grow as the command does: worlds make much of it and are small.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}

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
		if _, held := w.History().Calls(); held < 50 || len(w.marks.decided) == 0 {
			t.Errorf("seed %d: only %d grants", seed, held)
		}
	}
	t.Logf("%d events in %v", events, time.Since(start))
}

func TestTimeDoesNotGoBack(t *testing.T) {
	o := Play(Options{}, func(w *World) error {
		w.Host("a").Go("x", func(ctx context.Context) {
			for Sleep(ctx, time.Second) == nil {
			}
		})
		_ = w.Run(10 * time.Second)
		_ = w.Run(5*time.Second - w.Now()) // up to the fifth second
		if w.Now() < 10*time.Second {
			t.Errorf("it is %v, and was 10s", w.Now())
		}
		return nil
	})
	if o.Err == nil {
		t.Error("nobody minds")
	}
}

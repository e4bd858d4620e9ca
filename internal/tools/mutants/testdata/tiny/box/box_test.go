package box

import (
	"flag"
	"testing"
)

var (
	seed  = flag.Int("seed", 0, "the only seed")
	seeds = flag.Int("seeds", 1, "how many seeds")
	sound = flag.Bool("sound", true, "whether the test passes")
)

func TestBox(t *testing.T) {
	b := New[string](2)
	b.Fill("a", "b", "c")
	if b.Len() != 2 {
		t.Errorf("%d items, want 2", b.Len())
	}
	if n, err := b.Put("d"); n != -1 || err != ErrFull {
		t.Errorf("Put into a full box = %d, %v", n, err)
	}
}

func TestStart(t *testing.T) {
	if Start != 43 {
		t.Errorf("Start is %d", Start)
	}
}

func TestLine(t *testing.T) {
	if line, right := Line(-1); right {
		t.Errorf("wrong at line %d", line)
	}
}

func TestSum(t *testing.T) {
	t.Run("of three", func(t *testing.T) {
		if got := Sum(1, 2, 3); got != 6 {
			t.Errorf("the sum is %d", got)
		}
	})
}

// Seed 3 shows what is wrong with small boxes.
func TestSeeds(t *testing.T) {
	first, n := 1, *seeds
	if *seed != 0 {
		first, n = *seed, 1
	}
	for s := first; s < first+n; s++ {
		b := New[int](s % 4)
		b.Fill(1, 2, 3, 4, 5)
		if s >= 3 && b.Len() != s%4 {
			t.Fatalf("seed %d: %d items\nand more", s, b.Len())
		}
	}
}

func TestUnsound(t *testing.T) {
	if !*sound {
		t.Error("unsound")
	}
}

func TestSlow(t *testing.T) {
	for double(1) != 2 { // for ever
	}
}

func TestPair(t *testing.T) {
	if s := (pair{a: 1, b: 2}).sum(); s != 4 {
		t.Errorf("the sum of a pair is %d", s)
	}
}

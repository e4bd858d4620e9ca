package bug

import "testing"

func TestEveryBugHasAName(t *testing.T) {
	seen := make(map[string]Bug)
	for _, b := range All() {
		if got, ok := Parse(b.String()); !ok || got != b || seen[b.String()] != 0 {
			t.Errorf("bug %d: its name is %q, which is read as %d, %v", b, b, got, ok)
		}
		seen[b.String()] = b
	}
	if b, ok := Parse(""); ok {
		t.Errorf("no name is read as %v", b)
	}
}

func TestSet(t *testing.T) {
	all := All()
	first, last := all[0], all[len(all)-1]
	s := Of(first).Union(Of(last, 0))
	for _, b := range all {
		if want := b == first || b == last; s.Has(b) != want {
			t.Errorf("Has(%v) = %v, want %v", b, !want, want)
		}
	}
	if s.Empty() || !Of().Empty() || !Of(0).Empty() {
		t.Error("Empty is wrong")
	}
}

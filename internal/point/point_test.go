package point

import "testing"

func TestEveryPointHasAName(t *testing.T) {
	names := make(map[string]bool)
	for _, s := range Sites() {
		if got, ok := ParseSite(s.String()); !ok || got != s || names[s.String()] {
			t.Errorf("site %d: its name is %q, which is read as %d, %v", s, s, got, ok)
		}
		names[s.String()] = true
	}
}

func TestWithoutASimulationNothingIsTaken(t *testing.T) {
	var p *Points
	for _, s := range Sites() {
		if p.Taken(s) {
			t.Errorf("%v is taken", s)
		}
	}
}

func BenchmarkTaken(b *testing.B) {
	var p *Points
	for b.Loop() {
		if p.Taken(CompactEarly) {
			b.Fatal("taken")
		}
	}
}

package point

import "testing"

func TestEveryPointHasAName(t *testing.T) {
	names := make(map[string]bool)
	for _, s := range Sites() {
		if name := s.String(); name == "" || name == "none" || names[name] {
			t.Errorf("site %d is called %q, as another one is, or none", s, s)
		}
		names[s.String()] = true
	}
}

func TestWithoutASimulationNothingIsTaken(t *testing.T) {
	var p Points
	for _, s := range Sites() {
		if p.Taken(s) {
			t.Errorf("%v is taken", s)
		}
	}
}

func BenchmarkTaken(b *testing.B) {
	var p Points
	for b.Loop() {
		if p.Taken(CompactEarly) {
			b.Fatal("taken")
		}
	}
}

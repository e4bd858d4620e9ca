package simulate

import "testing"

func TestTallyNamesEachOnce(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"lock k"}, "lock k"},
		{[]string{"append 1", "append 0", "append 1", "lock k", "append 1"}, "append 1 ×3, append 0, lock k"},
	} {
		if got := tally(tt.names); got != tt.want {
			t.Errorf("tally(%q) = %q, want %q", tt.names, got, tt.want)
		}
	}
}

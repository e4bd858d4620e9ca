package simulate

import "testing"

func TestMailIsNamedWhole(t *testing.T) {
	for body, want := range map[string]string{
		"":             "port",
		"pay 17":       "port pay 17",
		"say \"hi\"":   `port say \"hi\"`,
		"\"\n":         `port \"\n`,
		"a blank end ": "port a blank end",
	} {
		if got := mailText([]byte("port\x00" + body)); got != want {
			t.Errorf("mailText of %q = %q, want %q", body, got, want)
		}
	}
}

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

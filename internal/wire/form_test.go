package wire

import "testing"

// What is written must be the bytes that are expected: no other ones, no fewer, and no more.
func TestForm(t *testing.T) {
	for _, tt := range []struct {
		name    string
		writes  []string
		matches bool
	}{
		{"the same", []string{"a", "bc"}, true},
		{"fewer", []string{"a", "b"}, false},
		{"more", []string{"abc", "d"}, false},
		{"others, and then the same", []string{"x", "abc"}, false},
	} {
		whole, single := form{rest: []byte("abc")}, form{rest: []byte("abc")}
		for _, w := range tt.writes {
			whole.Write([]byte(w))
			for _, b := range []byte(w) {
				single.WriteByte(b)
			}
		}
		if whole.matches() != tt.matches || single.matches() != tt.matches {
			t.Errorf("%s: %t, byte by byte %t", tt.name, whole.matches(), single.matches())
		}
	}
}

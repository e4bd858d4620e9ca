package story

import "testing"

func TestTheKeyOfAMessage(t *testing.T) {
	for _, tt := range []struct {
		kind       int
		name, want string
	}{
		{requests, "lock k", "k"},
		{requests, "unlock k token 7", "k"},
		{requests, "cancel", ""},
		{replies, "granted lock token 7", "lock"},
		{replies, "queued k", "k"},
		{replies, "refused lock k: locked", "k"},
		{replies, "done before", "before"}, // nobody's key
		{rafts, "append 3", ""},
		{renewals, "renewal", ""},
	} {
		if got := (word{kind: tt.kind, name: tt.name}).key(); got != tt.want {
			t.Errorf("the key of %q is %q, want %q", tt.name, got, tt.want)
		}
	}
}

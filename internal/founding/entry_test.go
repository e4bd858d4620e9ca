package founding

import "testing"

func TestEntryOf(t *testing.T) {
	pods := []string{"lock-0.lock.prod.svc:7300", "lock-1.lock.prod.svc:7300", "lock-10.lock.prod.svc:7300"}
	for _, tt := range []struct {
		name string
		host string
		list []string
		addr string
		want string
	}{
		{"a pod of a set", "lock-1", pods, "10.1.2.3:7300", pods[1]},
		{"the host knows its whole name", "lock-1.lock.prod.svc.cluster.local", pods, "10.1.2.3:7300", pods[1]},
		{"names have no case", "LOCK-1", pods, "10.1.2.3:7300", pods[1]},
		{"an IPv6 address", "lock-0", pods, "[fd00::1]:7300", pods[0]},
		{"a host of another name", "web-1", pods, "10.1.2.3:7300", ""},
		{"a name is not a part of a name", "lock", pods, "10.1.2.3:7300", ""},
		{"a client on the same host", "lock-1", pods, "10.1.2.3:40001", ""},
		{"a node that does not listen", "lock-1", pods, "", ""},
		{"two entries of that name", "a", []string{"a.x:1", "a.y:1"}, "h:1", ""},
		{"two entries on one host", "a", []string{"a:1", "a:2", "b:1"}, "h:2", "a:2"},
		{"addresses", "10", []string{"10.0.0.1:1", "[::1]:1"}, "h:1", ""},
		{"a host that is called by its address", "10.0.0.1", []string{"10.0.0.1:1"}, "h:1", ""},
		{"localhost", "localhost", []string{"localhost:1"}, "h:1", ""},
		{"no name", "", []string{"a:1"}, "h:1", ""},
		{"an empty list", "a", nil, "h:1", ""},
	} {
		if got := EntryOf(tt.host, tt.list, tt.addr); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

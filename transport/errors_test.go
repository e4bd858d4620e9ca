package transport_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/lockmesh/mesh/transport"
)

// A dial shows that there is no process if that is what the host or the name server says, and not if nothing answers.
func TestAbsent(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"no error", nil, false},
		{"refused", fmt.Errorf("dial a:1: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		{"a name that leads nowhere", fmt.Errorf("dial a:1: %w", &net.DNSError{Err: "no such host", Name: "a", IsNotFound: true}), true},
		{"a name server that does not answer", &net.DNSError{Err: "i/o timeout", Name: "a", IsTimeout: true}, false},
		{"no route", &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, false},
		{"a timeout", errors.New("i/o timeout"), false},
		{"this node itself", transport.ErrSelf, false},
	} {
		if got := transport.Absent(tt.err); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

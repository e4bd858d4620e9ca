package transport

import (
	"syscall"
	"testing"
)

func TestTheKernelKeepsLittleUnsent(t *testing.T) {
	var sockets CountedSockets
	l, err := sockets.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := sockets.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tune(c)
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	if controlErr := raw.Control(func(fd uintptr) {
		got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotsentLowat)
	}); controlErr != nil || err != nil || got != unsentBytes {
		t.Errorf("up to %d unsent bytes, %v, %v, want %d", got, controlErr, err, unsentBytes)
	}
}

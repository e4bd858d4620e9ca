package transport

import (
	"net"
	"syscall"
)

const (
	tcpNotsentLowat = 25 // TCP_NOTSENT_LOWAT, which package syscall does not name
	unsentBytes     = 256 << 10
)

// tune limits the bytes that the kernel accepts before it can send them. Without the
// limit these are up to megabytes, which urgent frames cannot overtake. A failure has no
// other effect, so it is ignored.
func tune(c net.Conn) {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := socket.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotsentLowat, unsentBytes)
		})
	}
}

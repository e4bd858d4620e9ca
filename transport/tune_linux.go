package transport

import (
	"net"
	"syscall"
)

const (
	tcpNotsentLowat = 25 // TCP_NOTSENT_LOWAT, which package syscall does not name
	unsentBytes     = 256 << 10
)

// tune keeps what the kernel takes before it can send it small: what waits there,
// up to megabytes, cannot be overtaken by urgent frames any more. A failure costs
// only that.
func tune(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotsentLowat, unsentBytes)
		})
	}
}

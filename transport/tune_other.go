//go:build !linux

package transport

import "net"

// tune does nothing on this system.
func tune(net.Conn) {}

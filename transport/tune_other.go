//go:build !linux

package transport

import "net"

// tune does nothing here.
func tune(net.Conn) {}

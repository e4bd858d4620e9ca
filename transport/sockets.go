package transport

import (
	"context"
	"net"
)

// tcp is the Sockets of the real world. Keep-alives are off: the pulse does better.
type tcp struct{}

func (tcp) Listen(addr string) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	return config.Listen(context.Background(), "tcp", addr)
}

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: -1}
	return dialer.DialContext(ctx, "tcp", addr)
}

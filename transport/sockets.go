package transport

import (
	"context"
	"net"
)

// tcp implements Sockets with package net. TCP keep-alives are off: the pulse detects
// a silent peer sooner.
type tcp struct{}

func (tcp) Listen(addr string) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	return config.Listen(context.Background(), "tcp", addr)
}

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: -1}
	return dialer.DialContext(ctx, "tcp", addr)
}

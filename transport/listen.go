package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/hashicorp/go-sockaddr"
)

// Listen opens a node's port and returns its Transport, which calls h from now on.
// The error of an invalid cfg names the value; other errors are the network's. With an empty Bind the node does not
// listen: it dials, and cannot be dialled. Close the Transport when done.
func Listen(cfg Config, h Handler) (*Transport, error) {
	return listen(cfg, h, defaultTiming())
}

func listen(cfg Config, h Handler, timing timing) (*Transport, error) {
	switch {
	case h == nil:
		return nil, errors.New("transport: the Handler is nil")
	case cfg.Logger == nil:
		return nil, errors.New("transport: Config.Logger is nil")
	}
	t := &Transport{
		id: cfg.Hello.ID, handler: h, accept: cfg.Accept, log: cfg.Logger, timing: timing,
		peers: make(map[ID]*peer), awaited: make(map[ID][]dial), next: make(chan func()),
	}
	t.routes.Store(&map[ID]*conn{})
	var err error
	if t.serverTLS, t.clientTLS, err = splitTLS(cfg.TLS, cfg.Bind != ""); err != nil {
		return nil, fmt.Errorf("transport: Config.TLS: %w", err)
	}
	if t.sources = cfg.Sockets; t.sources == nil {
		t.sources = tcp{}
	}
	if t.listener, t.addr, err = bind(t.sources, cfg.Bind, cfg.Advertise); err != nil {
		return nil, err
	}
	if host, _, _ := net.SplitHostPort(cfg.Bind); cfg.Bind != "" && IsWildcard(host) && isLoopback(t.addr) && cfg.Advertise == "" {
		t.log.Warn("this machine has no private IP: other machines cannot dial the advertised address", "addr", t.addr)
	}
	t.hello = cfg.Hello
	t.hello.Addr = t.addr
	if err := checkHello(t.hello); err != nil {
		if t.listener != nil {
			t.listener.Close()
		}
		return nil, err
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	if t.listener != nil {
		t.wg.Go(t.listen)
	}
	t.wg.Go(t.pulse)
	return t, nil
}

// bind listens at an address, and returns the address to advertise.
func bind(sockets Sockets, bind, advertise string) (net.Listener, string, error) {
	if bind == "" {
		if advertise != "" {
			return nil, "", fmt.Errorf("transport: advertise address %q without a bind address", advertise)
		}
		return nil, "", nil
	}
	host, _, err := splitAddr(bind)
	if err != nil {
		return nil, "", fmt.Errorf("transport: bind address %q: %w", bind, err)
	}
	advertised, port := "", 0
	if advertise != "" {
		if advertised, port, err = splitAddr(advertise); err == nil && IsWildcard(advertised) {
			err = errors.New("other nodes cannot dial a wildcard, want a host name or an IP")
		}
		if err != nil {
			return nil, "", fmt.Errorf("transport: advertise address %q: %w", advertise, err)
		}
	}
	l, err := sockets.Listen(bind)
	if err != nil {
		return nil, "", fmt.Errorf("transport: bind address %q: %w", bind, err)
	}
	bound, digits, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		l.Close()
		return nil, "", fmt.Errorf("transport: bind address %q: %w", bind, err)
	}
	switch {
	case advertised != "":
	case !IsWildcard(host):
		advertised = host
	case IsWildcard(bound):
		advertised = routable()
	default:
		advertised = bound
	}
	if port != 0 {
		digits = strconv.Itoa(port)
	}
	return l, net.JoinHostPort(advertised, digits), nil
}

func splitAddr(addr string) (host string, port int, err error) {
	host, digits, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, errors.New("want host:port, or [host]:port for IPv6")
	}
	port, err = strconv.Atoi(digits)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("port %q, want a number from 0 to 65535", digits)
	}
	return host, port, nil
}

// IsWildcard reports whether a host stands for all interfaces.
func IsWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func isLoopback(addr string) bool {
	ap, err := netip.ParseAddrPort(addr)
	return err == nil && ap.Addr().IsLoopback()
}

// routable returns an IP of this machine that other machines in its network can dial:
// a private one, since fleets use those, or loopback if there is none.
func routable() string {
	if ip, err := sockaddr.GetPrivateIP(); err == nil && ip != "" {
		return ip
	}
	return "127.0.0.1"
}

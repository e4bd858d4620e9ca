package transport_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/transport"
)

func TestListenNamesTheInvalidValue(t *testing.T) {
	taken := start(t, 1)
	for _, tt := range []struct {
		name string
		set  func(*transport.Config)
		want []string
	}{
		{"a bind address without a port", func(c *transport.Config) { c.Bind = "127.0.0.1" }, []string{"bind address", `"127.0.0.1"`, "want host:port"}},
		{"a bind port that is not a number", func(c *transport.Config) { c.Bind = "127.0.0.1:http" }, []string{"bind address", `"http"`, "0 to 65535"}},
		{"a bind port that is too large", func(c *transport.Config) { c.Bind = "127.0.0.1:70000" }, []string{"70000", "0 to 65535"}},
		{"a bind address that is taken", func(c *transport.Config) { c.Bind = taken.Addr() }, []string{"bind address", taken.Addr(), "in use"}},
		{"a bind address of another machine", func(c *transport.Config) { c.Bind = "192.0.2.1:0" }, []string{"bind address", "192.0.2.1:0"}},
		{"an advertise address without a port", func(c *transport.Config) { c.Advertise = "example.com" }, []string{"advertise address", "want host:port"}},
		{"an advertise address that is a wildcard", func(c *transport.Config) { c.Advertise = "0.0.0.0:1" }, []string{"advertise address", "wildcard"}},
		{"an advertise address without a host", func(c *transport.Config) { c.Advertise = ":7000" }, []string{"advertise address", "wildcard"}},
		{"an advertise address and no bind address", func(c *transport.Config) { c.Bind, c.Advertise = "", "10.0.0.1:1" }, []string{"without a bind address"}},
		{"no ID", func(c *transport.Config) { c.Hello.ID = 0 }, []string{"Hello.ID"}},
		{"a lowest version above the highest", func(c *transport.Config) { c.Hello.MinVersion = 2 }, []string{"MinVersion 2", "MaxVersion 1"}},
		{"a name that is too long", func(c *transport.Config) { c.Hello.Name = strings.Repeat("x", 513) }, []string{"Hello.Name", "513", "512"}},
		{"TLS without a certificate", func(c *transport.Config) { c.TLS = &tls.Config{} }, []string{"Config.TLS", "no certificate"}},
		{"no logger", func(c *transport.Config) { c.Logger = nil }, []string{"Config.Logger"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := transport.Config{Bind: "127.0.0.1:0", Hello: hello(2), Logger: slog.New(slog.DiscardHandler)}
			tt.set(&cfg)
			tr, err := transport.Listen(cfg, taken)
			if err == nil {
				tr.Close()
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
	if _, err := transport.Listen(transport.Config{Hello: hello(2), Logger: slog.New(slog.DiscardHandler)}, nil); err == nil {
		t.Error("no error for a nil Handler")
	}
}

func TestAddrCanBeDialled(t *testing.T) {
	for _, tt := range []struct{ bind, advertise, want string }{
		{"127.0.0.1:0", "", "127.0.0.1"},
		{"localhost:0", "", "localhost"},
		{"0.0.0.0:0", "", ""},
		{":0", "", ""},
		{"0.0.0.0:0", "127.0.0.1:0", "127.0.0.1"},
		{"127.0.0.1:0", "node.example:7777", "node.example:7777"},
	} {
		n := start(t, 1, bindTo(tt.bind), advertise(tt.advertise))
		host, port, err := net.SplitHostPort(n.Addr())
		if err != nil || port == "0" || host == "" {
			t.Fatalf("Addr() = %q", n.Addr())
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			t.Errorf("Addr() = %q, a wildcard", n.Addr())
		}
		if !strings.HasPrefix(n.Addr(), tt.want) {
			t.Errorf("Addr() = %q, want %q", n.Addr(), tt.want)
		}
	}
}

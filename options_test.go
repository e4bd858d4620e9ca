package mesh

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

func noDiscovery(context.Context) ([]string, error) { return nil, nil }

func TestWrongOptions(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	tests := []struct {
		name  string
		seeds []string
		opts  []Option
		says  []string // each is part of the error
	}{
		{"an empty mesh name", nil, []Option{WithMeshName("")}, []string{`WithMeshName is ""`, "1 to 255 bytes"}},
		{"a mesh name that is too long", nil, []Option{WithMeshName(long)}, []string{"WithMeshName"}},
		{"an empty name", nil, []Option{WithName("")}, []string{`WithName is ""`, "1 to 255 bytes"}},
		{"a name that is too long", nil, []Option{WithName(long)}, []string{"WithName"}},
		{"an empty bind address", nil, []Option{WithBind("")}, []string{"WithBind", "host:port"}},
		{"a bind address without a port", nil, []Option{WithBind("localhost")}, []string{`WithBind is "localhost"`}},
		{"a bind address with a port too high", nil, []Option{WithBind(":65536")}, []string{"WithBind"}},
		{"a bind address with a negative port", nil, []Option{WithBind(":-1")}, []string{"WithBind"}},
		{"a bind address with a service's name", nil, []Option{WithBind(":http")}, []string{"WithBind"}},
		{"a bind address that is IPv6 without brackets", nil, []Option{WithBind("::1:7300")}, []string{"WithBind"}},
		{"a bind address that is too long", nil, []Option{WithBind(long + ":1")}, []string{"WithBind"}},
		{"an empty advertised address", nil, []Option{WithAdvertise("")}, []string{"WithAdvertise"}},
		{"an advertised address without a host", nil, []Option{WithAdvertise(":7300")}, []string{"WithAdvertise", "dial"}},
		{"an advertised wildcard", nil, []Option{WithAdvertise("0.0.0.0:7300")}, []string{"WithAdvertise", "dial"}},
		{"an advertised IPv6 wildcard", nil, []Option{WithAdvertise("[::]:7300")}, []string{"WithAdvertise", "dial"}},
		{"an advertised address that is too long", nil, []Option{WithAdvertise(long + ":1")}, []string{"WithAdvertise"}},
		{"no shards", nil, []Option{WithShards(0)}, []string{"WithShards is 0", "1 to 4096"}},
		{"a negative number of shards", nil, []Option{WithShards(-1)}, []string{"WithShards is -1"}},
		{"too many shards", nil, []Option{WithShards(4097)}, []string{"WithShards is 4097"}},
		{"no replicas", nil, []Option{WithReplicas(0)}, []string{"WithReplicas is 0", "odd number from 1 to 7"}},
		{"an even number of replicas", nil, []Option{WithReplicas(2)}, []string{"WithReplicas is 2"}},
		{"too many replicas", nil, []Option{WithReplicas(9)}, []string{"WithReplicas is 9"}},
		{"a negative number of replicas", nil, []Option{WithReplicas(-3)}, []string{"WithReplicas is -3"}},
		{"no lease", nil, []Option{WithLeaseTTL(0)}, []string{"WithLeaseTTL is 0s", "1s to 10m0s"}},
		{"a lease that is too short", nil, []Option{WithLeaseTTL(999 * time.Millisecond)}, []string{"WithLeaseTTL"}},
		{"a lease that is too long", nil, []Option{WithLeaseTTL(11 * time.Minute)}, []string{"WithLeaseTTL"}},
		{"a negative lease", nil, []Option{WithLeaseTTL(-time.Second)}, []string{"WithLeaseTTL is -1s"}},
		{"a bound of leases that is too short", nil, []Option{WithMaxTTL(time.Millisecond)}, []string{"WithMaxTTL is 1ms", "1s to 24h"}},
		{"a bound of leases that is too long", nil, []Option{WithMaxTTL(25 * time.Hour)}, []string{"WithMaxTTL"}},
		{
			"a lease beyond its bound", nil,
			[]Option{WithLeaseTTL(5 * time.Second), WithMaxTTL(4 * time.Second)},
			[]string{"WithLeaseTTL is 5s", "WithMaxTTL", "4s"},
		},
		{"a lease beyond the bound that nobody set", nil, []Option{WithLeaseTTL(10*time.Second + 1)}, []string{"WithLeaseTTL is 10.000000001s", "WithMaxTTL, which is 10s unless it is set"}},
		{"a bound that is too short for any lease", nil, []Option{WithMaxTTL(time.Millisecond), WithLeaseTTL(5 * time.Second)}, []string{"WithMaxTTL is 1ms"}},
		{"a lease that is too long for any bound", nil, []Option{WithMaxTTL(5 * time.Minute), WithLeaseTTL(time.Hour)}, []string{"WithLeaseTTL is 1h0m0s, want 1s to 10m0s"}},
		{"no state directory", nil, []Option{WithStateDir("")}, []string{"WithStateDir is \"\""}},
		{"no oracle", nil, []Option{WithDeathOracle(nil)}, []string{"WithDeathOracle is nil"}},
		{"a zone that is too long", nil, []Option{WithZone(long)}, []string{"WithZone"}},
		{"a zone that is longer than all together may be", nil, []Option{WithZone(long + long)}, []string{"WithZone is", "at most 255 bytes"}},
		{"a name that is longer than all together may be", nil, []Option{WithName(long + long)}, []string{"WithName is", "1 to 255 bytes"}},
		{"TLS without a configuration", nil, []Option{WithTLS(nil)}, []string{"WithTLS is nil"}},
		{
			"TLS with the system's authorities", nil,
			[]Option{WithTLS(&tls.Config{Certificates: []tls.Certificate{{}}})},
			[]string{"WithTLS", "no authorities", "RootCAs"},
		},
		{
			"TLS that lets strangers in", nil,
			[]Option{WithTLS(&tls.Config{Certificates: []tls.Certificate{{}}, RootCAs: x509.NewCertPool(), ClientAuth: tls.RequireAnyClientCert})},
			[]string{"WithTLS: ClientAuth is RequireAnyClientCert, want RequireAndVerifyClientCert"},
		},
		{"no logger", nil, []Option{WithLogger(nil)}, []string{"WithLogger is nil"}},
		{"an option that is nil", nil, []Option{WithShards(8), nil}, []string{"option 2 is nil"}},
		{"a seed without a host", []string{":7300"}, nil, []string{`a seed is ":7300"`, "host:port"}},
		{"a seed at port zero", []string{"a:0"}, nil, []string{`a seed is "a:0"`}},
		{"a seed at a port too high", []string{"a:65536"}, nil, []string{`a seed is "a:65536"`}},
		{"a seed that is too long", []string{long + ":1"}, nil, []string{"a seed"}},
		{"a host alone that is too long", []string{long}, nil, []string{"a seed"}},
		{"a seed that is a wildcard", []string{"0.0.0.0"}, nil, []string{"a seed"}},
		{"a seed of brackets alone", []string{"[]"}, nil, []string{`a seed is "[]"`}},
		{"a seed with a service's name", []string{"a:http"}, nil, []string{"a seed"}},
		{"a seed with two ports", []string{"a:1:2"}, nil, []string{"a seed"}},
		{"a seed that is a URL", []string{"http://a:7300"}, nil, []string{"a seed"}},
		{"an entry that is none of the seeds", []string{"a", "b:7301"}, []Option{WithEntry("b")}, []string{`WithEntry is "b"`, `one of the seeds ["a:7300" "b:7301"]`}},
		{"an entry without seeds", nil, []Option{WithEntry("a"), WithFound()}, []string{`WithEntry is "a"`, "one of the seeds []"}},
		{"an empty entry", []string{"a"}, []Option{WithEntry(" ")}, []string{`WithEntry is " "`, "host:port"}},
		{"an entry at port zero", []string{"a"}, []Option{WithEntry("a:0")}, []string{`WithEntry is "a:0"`, "host:port"}},
		{"no function that discovers", []string{"a"}, []Option{WithDiscovery(nil)}, []string{"WithDiscovery is nil"}},
		{"an entry of a client", []string{"a"}, []Option{WithEntry("a"), WithDiscovery(noDiscovery)}, []string{`WithEntry is "a"`, "none beside WithDiscovery"}},
		{"a client that may found", nil, []Option{WithFound(), WithDiscovery(noDiscovery)}, []string{"WithFound is true", "none beside WithDiscovery"}},
		{"too many seeds", slices.Repeat([]string{"a:1"}, maxSeeds+1), nil, []string{"the number of seeds is 65"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node, err := Join(tt.seeds, tt.opts...)
			if node != nil || !errors.Is(err, ErrInvalidOption) {
				t.Fatalf("Join = %v, %v, want ErrInvalidOption", node, err)
			}
			for _, part := range tt.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q, want it to contain %q", err, part)
				}
			}
			if n := strings.Count(err.Error(), ErrInvalidOption.Error()); n != 1 {
				t.Errorf("error %q names %d mistakes, want one", err, n)
			}
		})
	}
	_, err := Join([]string{"a:0"}, WithShards(0), nil, WithReplicas(2), WithLogger(nil))
	for _, part := range []string{"WithShards", "option 2", "WithReplicas", "WithLogger", "a seed"} {
		if !errors.Is(err, ErrInvalidOption) || !strings.Contains(err.Error(), part) {
			t.Errorf("error %q for several mistakes, want it to contain %q", err, part)
		}
	}
	if _, err := JoinContext(noContext, nil); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("JoinContext(nil) = %v, want ErrInvalidOption", err)
	}
}

// P28: with only blank seeds nothing is opened, unless WithFound is given. Other invalid
// options are reported first.
func TestOnlyBlankSeeds(t *testing.T) {
	blank := []string{"", " "}
	for _, tt := range []struct {
		name  string
		seeds []string
		opts  []Option
		want  error
		bind  string
	}{
		{"nothing else is said", blank, nil, ErrNoSeeds, ""},
		{"one of them is not", []string{"", "a"}, nil, nil, ":7300"},
		{"it may found", blank, []Option{WithFound()}, nil, ":7300"},
		{"it may found, elsewhere", blank, []Option{WithBind("127.0.0.1:0"), WithFound()}, nil, "127.0.0.1:0"},
		{"it is bound to loopback", blank, []Option{WithBind("127.0.0.1:0")}, ErrNoSeeds, ""},
		{"an option is wrong", blank, []Option{WithShards(0)}, ErrInvalidOption, ""},
		{"there is no list", nil, nil, ErrNoSeeds, ""},
		{"there is no list, and it may found", nil, []Option{WithFound()}, nil, "127.0.0.1:0"},
		{"it discovers", blank, []Option{WithDiscovery(noDiscovery)}, nil, ":0"},
		{"it discovers beside its seeds", []string{"a"}, []Option{WithDiscovery(noDiscovery)}, nil, ":0"},
		{"it discovers, at a port of its own", nil, []Option{WithDiscovery(noDiscovery), WithBind("127.0.0.1:1")}, nil, "127.0.0.1:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := configure(tt.seeds, tt.opts)
			if !errors.Is(err, tt.want) || err == nil != (tt.want == nil) {
				t.Errorf("configure = %v, want %v", err, tt.want)
			}
			if tt.want == ErrNoSeeds && tt.seeds != nil && !strings.HasSuffix(err.Error(), "all 2 listed seeds are blank") {
				t.Errorf("configure = %v, want it to say what is blank", err)
			}
			if err == nil && cfg.Transport.Bind != tt.bind {
				t.Errorf("it binds to %q, want %q", cfg.Transport.Bind, tt.bind)
			}
		})
	}
}

// What a program's function finds is read as seeds are.
func TestDiscoveredSeeds(t *testing.T) {
	found, broken := []string{" b", "", "a:7301", "fd00::1"}, errors.New("no API server")
	cfg, err := configure(nil, []Option{WithDiscovery(func(context.Context) ([]string, error) { return found, broken })})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.Discover(t.Context()); err != broken {
		t.Errorf("%v, want its error", err)
	}
	broken = nil
	if got, err := cfg.Discover(t.Context()); err != nil || !slices.Equal(got, []string{"b:7300", "a:7301", "[fd00::1]:7300"}) {
		t.Errorf("%v, %v", got, err)
	}
	found = []string{"a", "b:0", ":1"}
	if got, err := cfg.Discover(t.Context()); !errors.Is(err, ErrInvalidOption) || !strings.Contains(err.Error(), `"b:0"`) || !strings.Contains(err.Error(), `":1"`) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestNameAddressAndZoneTogether(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	host := func(n int) string { return strings.Repeat("h", n) }
	tests := []struct {
		name string
		opts func(more int) []Option // with 0 they just fit; with 1 they are a byte too long
		says string
	}{
		{"a zone", func(more int) []Option {
			return []Option{WithName(long(255)), WithAdvertise(host(90) + ":7300"), WithZone(long(154 + more))}
		}, "the sum of WithName, WithAdvertise and WithZone is 505 bytes (255, 95 and 155), want at most 504 bytes"},
		{"a name", func(more int) []Option {
			return []Option{WithName(long(154 + more)), WithAdvertise(host(90) + ":7300"), WithZone(long(255))}
		}, "WithName, WithAdvertise"},
		{"the host of a bind address", func(more int) []Option {
			return []Option{WithName(long(200)), WithBind(host(95+more) + ":7300"), WithZone(long(204))}
		}, "WithName, WithBind"},
		{"a host to advertise, for the bind address does not count", func(more int) []Option {
			return []Option{WithName(long(200)), WithBind(host(250) + ":1"), WithAdvertise(host(95+more) + ":7300"), WithZone(long(204))}
		}, "WithName, WithAdvertise"},
		{"an address that is the name, too", func(more int) []Option {
			return []Option{WithAdvertise(host(150) + ":7300"), WithZone(long(194 + more))}
		}, "505 bytes (155, 155 and 195)"},
		{"a port that the system chooses", func(more int) []Option {
			return []Option{WithName(long(255)), WithBind("127.0.0.1:0"), WithZone(long(234 + more))}
		}, "505 bytes (255, 15 and 235)"},
		{"an IP that the system chooses", func(more int) []Option {
			return []Option{WithName(long(255)), WithBind(":0"), WithZone(long(202 + more)), WithFound()}
		}, "505 bytes (255, 47 and 203)"},
		{"an address that its port makes too long", func(more int) []Option {
			return []Option{WithName("n"), WithAdvertise(host(249+more) + ":0")}
		}, "WithAdvertise is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := configure([]string{"a"}, tt.opts(0)); err != nil {
				t.Errorf("the longest that fits: %v", err)
			}
			node, err := Join([]string{"a"}, tt.opts(1)...)
			if node != nil || !errors.Is(err, ErrInvalidOption) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("one byte more: Join = %v, %v, want ErrInvalidOption that says %q", node, err, tt.says)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	longest := strings.Repeat("x", maxName-len(":1"))
	logger, secure := slog.New(slog.DiscardHandler), &tls.Config{Certificates: []tls.Certificate{{}}, RootCAs: x509.NewCertPool()}
	cfg, err := configure(
		[]string{"", " a:1 ", "b", "10.0.0.1", "::1", "[::1]", "[::1]:2", "\t", "a:65535", longest + ":1"},
		[]Option{
			WithMeshName("m"), WithName("n"), WithZone("z"), WithBind("h:1"), WithAdvertise("g:2"), WithShards(4096),
			WithReplicas(7), WithLeaseTTL(10 * time.Minute), WithMaxTTL(24 * time.Hour), WithFound(), WithTLS(secure), WithLogger(logger),
		})
	if err != nil {
		t.Fatal(err)
	}
	seeds := []string{"a:1", "b:7300", "10.0.0.1:7300", "[::1]:7300", "[::1]:7300", "[::1]:2", "a:65535", longest + ":1"}
	if !slices.Equal(cfg.Seeds, seeds) {
		t.Errorf("seeds %q, want %q", cfg.Seeds, seeds)
	}
	if cfg.MeshName != "m" || cfg.Name != "n" || cfg.Zone != "z" || cfg.Transport.Bind != "h:1" ||
		cfg.Transport.Advertise != "g:2" || cfg.Shards != 4096 || cfg.Replicas != 7 || cfg.LeaseTTL != 10*time.Minute ||
		cfg.MaxTTL != 24*time.Hour || !cfg.Found || cfg.Transport.TLS != secure || cfg.Logger != logger {
		t.Errorf("configuration %+v", cfg)
	}

	// Unset options are left to the mesh, except for the address.
	cfg, err = configure(nil, []Option{WithFound()})
	if err != nil || cfg.Transport.Bind != "127.0.0.1:0" || cfg.Shards != 0 || cfg.MeshName != "" || cfg.LeaseTTL != 0 {
		t.Errorf("without options: %+v, %v", cfg, err)
	}
	cfg, err = configure([]string{"a:1"}, nil)
	if err != nil || cfg.Transport.Bind != ":7300" {
		t.Errorf("with a seed: bind %q, %v", cfg.Transport.Bind, err)
	}
}

func TestWrongCalls(t *testing.T) {
	s, refused := newRefused()
	ctx := context.Background()
	long := strings.Repeat("k", 1025)
	lock := func(key string, opts ...LockOption) func() error {
		return func() error { _, err := s.Lock(ctx, key, opts...); return err }
	}
	acquire := func(n, capacity int64) func() error {
		return func() error { _, err := s.Acquire(ctx, "s", n, capacity); return err }
	}
	tests := []struct {
		name string
		call func() error
		want error
		says string
	}{
		{"an empty key", lock(""), ErrInvalidKey, "1 to 1024"},
		{"a key that is too long", lock(long), ErrInvalidKey, "1025 bytes"},
		{"an empty key to try", func() error { _, err := s.TryLock(ctx, ""); return err }, ErrInvalidKey, ""},
		{"an empty key to read", func() error { _, err := s.RLock(ctx, ""); return err }, ErrInvalidKey, ""},
		{"an empty key to try to read", func() error { _, err := s.TryRLock(ctx, ""); return err }, ErrInvalidKey, ""},
		{"an empty semaphore", func() error { _, err := s.Acquire(ctx, "", 1, 1); return err }, ErrInvalidKey, ""},
		{"an empty semaphore to try", func() error { _, err := s.TryAcquire(ctx, "", 1, 1); return err }, ErrInvalidKey, ""},
		{"an empty key to do", func() error { return s.Do(ctx, "", func(context.Context, *Lock) error { return nil }) }, ErrInvalidKey, ""},
		{"nothing to do", func() error { return s.Do(ctx, "a", nil) }, ErrInvalidOption, "function"},
		{"no context", func() error { _, err := s.Lock(noContext, "a"); return err }, ErrInvalidOption, "context"},
		{"no permits", acquire(0, 3), ErrInvalidOption, "permits is 0"},
		{"negative permits", acquire(-1, 3), ErrInvalidOption, "permits is -1"},
		{"more permits than there are", acquire(4, 3), ErrInvalidOption, "permits is 4, want 1 to the capacity, 3"},
		{"no capacity", acquire(1, 0), ErrInvalidOption, "capacity is 0"},
		{"a negative capacity", acquire(1, -1), ErrInvalidOption, "capacity is -1"},
		{"a capacity that is too large", acquire(1, 1<<40+1), ErrInvalidOption, "capacity"},
		{"a value that is too long", lock("a", Value(make([]byte, 4097))), ErrInvalidOption, "Value is 4097 bytes"},
		{"a hold of no time", lock("a", MaxHold(0)), ErrInvalidOption, "MaxHold is 0s"},
		{"a negative hold", lock("a", MaxHold(-time.Second)), ErrInvalidOption, "MaxHold is -1s"},
		{"a hold that is too short", lock("a", MaxHold(99*time.Millisecond)), ErrInvalidOption, "MaxHold is 99ms, want 100ms"},
		{"a hold longer than any lease", lock("a", MaxHold(testMaxTTL+1)), ErrInvalidOption, "MaxTTL, 1m0s"},
		{"an option that is nil", lock("a", nil), ErrInvalidOption, "option 1 is nil"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.call()
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %v that says %q", err, tt.want, tt.says)
			}
		})
	}
	if len(refused.requests) > 0 {
		t.Errorf("requests were sent: %+v", refused.requests)
	}
	s.Lock(ctx, long[:1024], Value(make([]byte, 4096)), MaxHold(testMaxTTL))
	s.Acquire(ctx, "\x00", 1<<40, 1<<40, MaxHold(minHold))
	if len(refused.requests) != 2 {
		t.Errorf("of the largest lock and the largest semaphore that are allowed these were sent: %+v", refused.requests)
	}
}

func TestAValueIsCopied(t *testing.T) {
	s, refused := newRefused()
	value := []byte("v")
	s.Lock(context.Background(), "a", Value(value))
	value[0] = 'x'
	if got := string(refused.requests[0].Value); got != "v" {
		t.Errorf("value %q, want v", got)
	}
}

func TestSessionOptions(t *testing.T) {
	c := &sessionConfig{maxTTL: testBound}
	tests := []struct {
		name string
		opts []SessionOption
		want time.Duration // zero: ErrInvalidOption
	}{
		{"the node's own", nil, 7 * time.Second},
		{"the shortest", []SessionOption{WithTTL(time.Second)}, time.Second},
		{"the longest", []SessionOption{WithTTL(testMaxTTL)}, testMaxTTL},
		{"none", []SessionOption{WithTTL(0)}, 0},
		{"too short", []SessionOption{WithTTL(time.Second - 1)}, 0},
		{"too long", []SessionOption{WithTTL(testMaxTTL + 1)}, 0},
		{"negative", []SessionOption{WithTTL(-time.Second)}, 0},
		{"a nil option", []SessionOption{nil}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.sessionTTL(7*time.Second, tt.opts)
			if got != tt.want || (err == nil) != (tt.want != 0) || err != nil && !errors.Is(err, ErrInvalidOption) {
				t.Errorf("sessionTTL = %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

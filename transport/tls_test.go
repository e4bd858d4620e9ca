package transport_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/testca"
	"github.com/lockmesh/mesh/transport"
)

// mutual returns a configuration in which both ends must have a certificate of ca.
func mutual(ca *testca.Authority) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{*ca.Node(time.Time{})},
		RootCAs:      testca.Pool(ca),
		ClientCAs:    testca.Pool(ca),
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}
}

func secure(cfg *tls.Config) setting { return func(c *transport.Config, _ *node) { c.TLS = cfg } }

func TestTLSIsMutual(t *testing.T) {
	ca := testca.New(t)
	a, b := start(t, 1, secure(mutual(ca))), start(t, 2, secure(mutual(ca)))
	a.Dial(b.Addr()) // the name in the certificate is the host that is dialled
	if e := a.awaitDialed(b.Addr()); e.err != nil {
		t.Fatal(e.err)
	}
	deliver(a, b, "small")
	deliver(b, a, strings.Repeat("large", 100_000))
	b.Disconnect(a.id)
	if cause := a.awaitDown(b.id); cause != transport.Goodbye {
		t.Errorf("cause %d, want Goodbye", cause)
	}
	b.Dial(a.Addr())
	b.awaitDialed(a.Addr())
	a.Connect(b.id, b.Addr())
	begin := a.count(downs)
	b.Close()
	eventually(t, "down again", func() bool { return a.count(downs) > begin })
	if n := a.count(func(e event) bool { return e.what == "down" && e.cause == transport.Refused }); n != 1 {
		t.Errorf("%d times Refused, want once", n)
	}
}

func TestTLSKeepsOthersOut(t *testing.T) {
	ca, other := testca.New(t), testca.New(t)
	without := &tls.Config{RootCAs: testca.Pool(ca)}
	stranger := mutual(other)
	stranger.RootCAs = testca.Pool(ca)
	wrongName := mutual(ca)
	wrongName.ServerName = "elsewhere"
	for _, tt := range []struct {
		name string
		cfg  *tls.Config
		want string
		log  string
	}{
		{"without a certificate", without, "certificate required", "didn't provide a certificate"},
		{"with a certificate of another authority", stranger, "handshake with", "certificate"},
		{"trusting another authority", mutual(other), "unknown authority", "bad certificate"},
		{"expecting another name", wrongName, "elsewhere", ""},
		{"without TLS", nil, "does it want TLS?", "does not look like a TLS handshake"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := start(t, 1, bindTo(""), secure(tt.cfg))
			b := start(t, 2, secure(mutual(ca)))
			a.Dial(b.Addr())
			e := a.awaitDialed(b.Addr())
			if e.err == nil || !strings.Contains(e.err.Error(), tt.want) {
				t.Errorf("Dialed with %v, want %q", e.err, tt.want)
			}
			eventually(t, "the reason is logged", func() bool { return b.logged(tt.log) })
			if a.count(ups)+b.count(ups) != 0 {
				t.Error("the connection is up")
			}
		})
	}
}

func TestAuthoritiesStandInForEachOther(t *testing.T) {
	ca, other := testca.New(t), testca.New(t)
	less := func(cfg *tls.Config, set func(*tls.Config)) *tls.Config {
		set(cfg)
		return cfg
	}
	for _, tt := range []struct {
		name string
		set  func(*tls.Config)
	}{
		{"without ClientCAs", func(c *tls.Config) { c.ClientCAs = nil }},
		{"without RootCAs", func(c *tls.Config) { c.RootCAs = nil }},
		{"without a ClientAuth", func(c *tls.Config) { c.ClientCAs, c.ClientAuth = nil, tls.NoClientCert }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := start(t, 1, secure(less(mutual(ca), tt.set))), start(t, 2, secure(less(mutual(ca), tt.set)))
			a.Dial(b.Addr())
			if e := a.awaitDialed(b.Addr()); e.err != nil {
				t.Error(e.err)
			}
			c := start(t, 3, secure(less(mutual(other), tt.set)))
			a.Dial(c.Addr())
			if e := a.awaitDialed(c.Addr()); e.err == nil {
				t.Error("a node of another authority answered, and is admitted")
			}
			c.Dial(b.Addr())
			if e := c.awaitDialed(b.Addr()); e.err == nil {
				t.Error("a node of another authority dialled, and is admitted")
			}
		})
	}
}

func TestCheckTLS(t *testing.T) {
	ca := testca.New(t)
	given := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }
	sent := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return nil, nil }
	chosen := func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
	for _, tt := range []struct {
		name string
		set  func(*tls.Config)
		want string // part of the error; empty: valid
	}{
		{"all fields", func(*tls.Config) {}, ""},
		{"defaults for clients", func(c *tls.Config) { c.ClientCAs, c.ClientAuth = nil, tls.NoClientCert }, ""},
		{"authorities for clients only", func(c *tls.Config) { c.RootCAs = nil }, ""},
		{"no authorities", func(c *tls.Config) { c.RootCAs, c.ClientCAs = nil, nil }, "no authorities"},
		{"no certificate", func(c *tls.Config) { c.Certificates = nil }, "no certificate"},
		{"a certificate as a server only", func(c *tls.Config) { c.Certificates, c.GetCertificate = nil, given }, "GetClientCertificate"},
		{"a configuration as a server only", func(c *tls.Config) { c.Certificates, c.GetConfigForClient = nil, chosen }, "GetClientCertificate"},
		{"a certificate as a client only", func(c *tls.Config) { c.Certificates, c.GetClientCertificate = nil, sent }, "GetCertificate"},
		{"certificates from callbacks", func(c *tls.Config) { c.Certificates, c.GetCertificate, c.GetClientCertificate = nil, given, sent }, ""},
		{"a certificate that is requested", func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }, "ClientAuth is RequestClientCert"},
		{"a certificate of any authority", func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }, "ClientAuth is RequireAnyClientCert"},
		{"a certificate if there is one", func(c *tls.Config) { c.ClientAuth = tls.VerifyClientCertIfGiven }, "ClientAuth is VerifyClientCertIfGiven"},
		{"no verification", func(c *tls.Config) { c.InsecureSkipVerify = true }, "InsecureSkipVerify"},
		{"the caller verifies connections", func(c *tls.Config) {
			c.InsecureSkipVerify, c.VerifyConnection = true, func(tls.ConnectionState) error { return nil }
		}, ""},
		{"the caller verifies certificates", func(c *tls.Config) {
			c.InsecureSkipVerify, c.VerifyPeerCertificate = true, func([][]byte, [][]*x509.Certificate) error { return nil }
		}, ""},
		{"TLS 1.1 at most", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }, "MaxVersion is TLS 1.1"},
		{"TLS 1.2 at most", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := mutual(ca)
			tt.set(cfg)
			switch err := transport.CheckTLS(cfg); {
			case tt.want == "" && err != nil:
				t.Errorf("CheckTLS = %v, want nil", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("CheckTLS = %v, want %q", err, tt.want)
			}
		})
	}
}

// knock performs a TLS handshake with a node, and returns the state of the connection after the
// first byte from the node: only then is it known that the node accepted the certificate.
func knock(n *node, cfg *tls.Config) (tls.ConnectionState, error) {
	cfg = cfg.Clone()
	cfg.ServerName = "127.0.0.1"
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", n.Addr(), cfg)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(transport.RawOpening(hello(9))); err != nil {
		return tls.ConnectionState{}, err
	}
	_, err = c.Read(make([]byte, 1))
	return c.ConnectionState(), err
}

func TestAConfigurationForAClientIsMadeMutual(t *testing.T) {
	ca, other := testca.New(t), testca.New(t)
	mine, others := mutual(ca), testca.Pool(other)
	anonymous, stranger := &tls.Config{RootCAs: testca.Pool(ca)}, mutual(other)
	stranger.RootCAs = testca.Pool(ca)
	veto := errors.New("the caller's veto")
	for _, tt := range []struct {
		name   string
		set    func(cfg *tls.Config)
		chosen *tls.Config
		mates  bool   // certificates of ca are accepted
		log    string // the reason, if not
	}{
		{"none", nil, nil, true, ""},
		{"only a certificate", nil, &tls.Config{Certificates: mine.Certificates}, true, ""},
		{"the same", nil, mine, true, ""},
		{
			"a certificate that is requested", nil,
			&tls.Config{Certificates: mine.Certificates, ClientAuth: tls.RequestClientCert}, false, "ClientAuth is RequestClientCert",
		},
		{
			"a certificate of any authority", nil,
			&tls.Config{Certificates: mine.Certificates, ClientAuth: tls.RequireAnyClientCert}, false, "ClientAuth is RequireAnyClientCert",
		},
		{"other authorities", nil, &tls.Config{Certificates: mine.Certificates, ClientCAs: others}, false, "unknown authority"},
		{
			"no VerifyConnection, though the outer configuration has one", func(cfg *tls.Config) { cfg.VerifyConnection = func(tls.ConnectionState) error { return veto } },
			&tls.Config{Certificates: mine.Certificates}, false, veto.Error(),
		},
		{
			"no VerifyPeerCertificate, though the outer configuration has one",
			func(cfg *tls.Config) {
				cfg.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { return veto }
			},
			&tls.Config{Certificates: mine.Certificates}, false, veto.Error(),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := mutual(ca)
			if tt.set != nil {
				tt.set(cfg)
			}
			cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return tt.chosen, nil }
			n := start(t, 1, secure(cfg))
			if _, err := knock(n, anonymous); err == nil {
				t.Error("admitted without a certificate")
			}
			foreign := tt.chosen != nil && tt.chosen.ClientCAs == others
			if _, err := knock(n, stranger); (err == nil) != foreign {
				t.Errorf("with a certificate of another authority: %v", err)
			}
			if _, err := knock(n, mine); (err == nil) != tt.mates {
				t.Errorf("with a certificate of the authority: %v", err)
			}
			if tt.log != "" {
				eventually(t, "the log contains "+tt.log, func() bool { return n.logged(tt.log) })
			}
		})
	}
}

func TestTLSKeepsToNewVersions(t *testing.T) {
	ca := testca.New(t)
	cfg := mutual(ca)
	cfg.MinVersion = tls.VersionTLS10
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return cfg, nil }
	n := start(t, 1, secure(cfg))
	old := mutual(ca)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := knock(n, old); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	old.MaxVersion = tls.VersionTLS12
	if _, err := knock(n, old); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
}

// countingCache is a cache of sessions that counts the look-ups.
type countingCache struct {
	tls.ClientSessionCache
	gets atomic.Int64
}

func (s *countingCache) Get(key string) (*tls.ClientSessionState, bool) {
	s.gets.Add(1)
	return s.ClientSessionCache.Get(key)
}

func TestNoSessionIsResumed(t *testing.T) {
	ca := testca.New(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			own := &countingCache{ClientSessionCache: tls.NewLRUClientSessionCache(8)}
			cfg := mutual(ca)
			cfg.ClientSessionCache = own
			cfg.SetSessionTicketKeys([][32]byte{{1}})
			cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return cfg, nil }
			a, b := start(t, 1, secure(cfg)), start(t, 2, secure(cfg))
			guest := mutual(ca)
			guest.MaxVersion = version
			guest.ClientSessionCache = tls.NewLRUClientSessionCache(8)
			for range 3 {
				state, err := knock(b, guest)
				if err != nil {
					t.Fatal(err)
				}
				if state.DidResume {
					t.Error("a session was resumed")
				}
			}
			a.Dial(b.Addr())
			if e := a.awaitDialed(b.Addr()); e.err != nil {
				t.Fatal(e.err)
			}
			if n := own.gets.Load(); n > 0 {
				t.Errorf("%d times the node looked for a session to resume", n)
			}
		})
	}
}

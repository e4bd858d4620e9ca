package transport_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// authority issues certificates for one test.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca := &authority{t: t, pool: x509.NewCertPool()}
	ca.key, ca.cert = ca.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	ca.pool.AddCert(ca.cert)
	return ca
}

func (ca *authority) issue(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		ca.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return key, cert
}

// mutual returns a configuration in which both ends must have a certificate of ca.
func (ca *authority) mutual() *tls.Config {
	key, cert := ca.issue(&x509.Certificate{
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, ca.cert, ca.key)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
		RootCAs:      ca.pool,
		ClientCAs:    ca.pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}
}

func secure(cfg *tls.Config) setting { return func(c *transport.Config, _ *node) { c.TLS = cfg } }

func TestTLSIsMutual(t *testing.T) {
	ca := newAuthority(t)
	a, b := start(t, 1, secure(ca.mutual())), start(t, 2, secure(ca.mutual()))
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
	begin := a.count(downs)
	b.Close()
	eventually(t, "down again", func() bool { return a.count(downs) > begin })
	if n := a.count(func(e event) bool { return e.what == "down" && e.cause == transport.Refused }); n != 1 {
		t.Errorf("%d times Refused, want once", n)
	}
}

func TestTLSKeepsOthersOut(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	without := &tls.Config{RootCAs: ca.pool}
	stranger := other.mutual()
	stranger.RootCAs = ca.pool
	wrongName := ca.mutual()
	wrongName.ServerName = "elsewhere"
	for _, tt := range []struct {
		name string
		cfg  *tls.Config
		want string
		log  string
	}{
		{"without a certificate", without, "certificate required", "didn't provide a certificate"},
		{"with a certificate of another authority", stranger, "handshake with", "certificate"},
		{"who trusts another authority", other.mutual(), "unknown authority", "bad certificate"},
		{"who expects another name", wrongName, "elsewhere", ""},
		{"without TLS", nil, "does it want TLS?", "does not look like a TLS handshake"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := start(t, 1, bindTo(""), secure(tt.cfg))
			b := start(t, 2, secure(ca.mutual()))
			a.Dial(b.Addr())
			e := a.awaitDialed(b.Addr())
			if e.err == nil || !strings.Contains(e.err.Error(), tt.want) {
				t.Errorf("Dialed with %v, want %q", e.err, tt.want)
			}
			eventually(t, "the log tells", func() bool { return b.logged(tt.log) })
			if a.count(ups)+b.count(ups) != 0 {
				t.Error("it is up")
			}
		})
	}
}

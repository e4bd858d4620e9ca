// Package testca issues certificates for tests of TLS.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates for one test.
type Authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// New makes an authority with a key of its own.
func New(t testing.TB) *Authority {
	ca := &Authority{t: t}
	own := ca.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	ca.key, ca.cert = own.PrivateKey.(*ecdsa.PrivateKey), own.Leaf
	return ca
}

// issue signs a certificate, the authority's own if it has none yet.
func (ca *Authority) issue(template *x509.Certificate) *tls.Certificate {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: "test"}
	template.NotBefore = time.Now().Add(-2 * time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		ca.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Node returns a certificate of a node on loopback, that ends at a time; zero for in an hour.
func (ca *Authority) Node(ends time.Time) *tls.Certificate {
	ca.t.Helper()
	return ca.issue(&x509.Certificate{
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter:    ends,
	})
}

// Files writes the authority, and a certificate of a node with its key, into PEM files, and returns their names.
func (ca *Authority) Files(name string) (roots, cert, key string) {
	ca.t.Helper()
	c := ca.Node(time.Time{})
	secret, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		ca.t.Fatal(err)
	}
	dir := ca.t.TempDir()
	write := func(what, kind string, der []byte) string {
		file := filepath.Join(dir, name+"-"+what+".pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			ca.t.Fatal(err)
		}
		return file
	}
	return write("ca", "CERTIFICATE", ca.cert.Raw), write("cert", "CERTIFICATE", c.Certificate[0]), write("key", "PRIVATE KEY", secret)
}

// Pool returns a pool of authorities.
func Pool(all ...*Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range all {
		pool.AddCert(ca.cert)
	}
	return pool
}

package mesh

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/testca"
)

func static(cert *tls.Certificate, roots *x509.CertPool) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{*cert}, RootCAs: roots}
}

// contend has every node take the same key several times at once, and checks that they took turns.
func contend(t *testing.T, ctx context.Context, nodes ...*Node) {
	t.Helper()
	const each = 10
	var inside atomic.Int32
	var last uint64 // under the lock
	errs := make(chan error)
	for _, n := range nodes {
		go func() {
			for range each {
				errs <- n.Do(ctx, "contended", func(_ context.Context, l *Lock) error {
					defer inside.Add(-1)
					if inside.Add(1) != 1 || l.Token() <= last {
						return errors.New("two hold the key")
					}
					last = l.Token()
					return nil
				})
			}
		}()
	}
	for range each * len(nodes) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Nodes with TLS can found and join a mesh and contend for locks. A node without a certificate of
// the mesh's authority is told why it cannot join. Certificates and authorities can be replaced
// while the mesh runs.
func TestAMeshUnderTLS(t *testing.T) {
	t.Parallel() // it waits for real time
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	ca, next, foreign := testca.New(t), testca.New(t), testca.New(t)

	// At every connection the nodes fetch their certificate and the authorities of dialling nodes.
	var cert atomic.Pointer[tls.Certificate]
	var clients atomic.Pointer[x509.CertPool]
	cert.Store(ca.Node(time.Time{}))
	clients.Store(testca.Pool(ca, next))
	reloading := &tls.Config{
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.Load(), nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert.Load(), nil },
		RootCAs:              testca.Pool(ca, next),
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{*cert.Load()}, ClientCAs: clients.Load()}, nil
		},
	}
	list := listed(t, 3)
	core := coreOf(t, ctx, list, func(i int) []Option {
		return []Option{WithName([]string{"a", "b", "c"}[i]), WithTLS(reloading)}
	})
	a, b, c := core[0], core[1], core[2]
	contend(t, ctx, a, b, c)

	refused := func(t *testing.T, want string, opts ...Option) {
		t.Helper()
		short, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		n, err := JoinContext(short, list, quiet(opts...)...)
		if n != nil {
			n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Join = %v, want an error that says %q", err, want)
		}
	}
	t.Run("strangers", func(t *testing.T) {
		blank := &tls.Config{
			GetCertificate:       reloading.GetCertificate,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil },
			RootCAs:              testca.Pool(ca),
		}
		var all sync.WaitGroup
		for _, tt := range []struct {
			opts []Option
			want string
		}{
			{nil, "does it want TLS?"},                         // without TLS
			{[]Option{WithTLS(blank)}, "certificate required"}, // without a certificate
			{[]Option{WithTLS(static(foreign.Node(time.Time{}), testca.Pool(ca)))}, "unknown certificate authority"}, // of a foreign authority
			{[]Option{WithTLS(static(ca.Node(time.Time{}), testca.Pool(foreign)))}, "unknown authority"},             // with trust in a foreign authority
			{[]Option{WithTLS(static(ca.Node(time.Now().Add(-time.Hour)), testca.Pool(ca)))}, "expired certificate"}, // with a certificate that has expired
		} {
			all.Go(func() { refused(t, tt.want, append(tt.opts, WithName("stranger"))...) })
		}
		all.Wait()
	})

	// A node that trusts only the next authority can join once the nodes show its certificates.
	young := static(next.Node(time.Time{}), testca.Pool(next))
	refused(t, "unknown authority", WithName("d"), WithTLS(young))
	cert.Store(next.Node(time.Time{}))
	d := join(t, list, WithName("d"), WithTLS(young))
	contend(t, ctx, a, b, c, d)

	// Once the nodes have dropped the former authority, its certificates are refused.
	old := static(ca.Node(time.Time{}), testca.Pool(ca, next))
	e := join(t, list, WithName("e"), WithTLS(old))
	if err := e.Leave(ctx); err != nil {
		t.Error(err)
	}
	clients.Store(testca.Pool(next))
	refused(t, "unknown certificate authority", WithName("e"), WithTLS(old))
	if err := c.Leave(ctx); err != nil {
		t.Error(err)
	}
	c = join(t, list, WithName("c"), WithBind(list[2]), WithTLS(reloading))
	contend(t, ctx, a, b, c, d)
}

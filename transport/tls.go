package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// CheckTLS returns nil if a node that can be dialled can use cfg as its Config.TLS. Else the error
// names the field and the value that it wants.
func CheckTLS(cfg *tls.Config) error {
	_, _, err := splitTLS(cfg, true)
	return err
}

// splitTLS returns the configurations for accepting and for dialling. Nil means no TLS. Each end
// verifies the other's certificate at every connection, whatever cfg leaves unset: a setting that
// would admit a peer without a certificate of cfg's authorities is strengthened, or an error.
func splitTLS(cfg *tls.Config, listens bool) (server, client *tls.Config, err error) {
	if cfg == nil {
		return nil, nil, nil
	}
	switch {
	case listens && len(cfg.Certificates) == 0 && cfg.GetCertificate == nil && cfg.GetConfigForClient == nil:
		return nil, nil, errors.New("no certificate as a server: want Certificates, GetCertificate or GetConfigForClient")
	case listens && len(cfg.Certificates) == 0 && cfg.GetClientCertificate == nil:
		return nil, nil, errors.New("no certificate as a client: want Certificates or GetClientCertificate")
	case cfg.ClientCAs == nil && cfg.RootCAs == nil:
		// Nil would mean the system's authorities, which sign certificates for anyone.
		return nil, nil, errors.New("no authorities: want RootCAs, ClientCAs or both")
	case cfg.InsecureSkipVerify && cfg.VerifyConnection == nil && cfg.VerifyPeerCertificate == nil:
		return nil, nil, errors.New("InsecureSkipVerify is set, want VerifyConnection or VerifyPeerCertificate with it, or ServerName instead")
	case cfg.MaxVersion != 0 && cfg.MaxVersion < tls.VersionTLS12:
		return nil, nil, fmt.Errorf("MaxVersion is %s, want at least %s", tls.VersionName(cfg.MaxVersion), tls.VersionName(tls.VersionTLS12))
	}
	server, client = cfg.Clone(), fresh(cfg)
	if client.RootCAs == nil {
		client.RootCAs = cfg.ClientCAs
	}
	if server.ClientCAs == nil {
		server.ClientCAs = cfg.RootCAs
	}
	if server, err = mutual(server, server); err != nil {
		return nil, nil, err
	}
	if choose := cfg.GetConfigForClient; choose != nil {
		server.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen == nil || err != nil {
				return nil, err // with nil and no error, package tls uses server
			}
			if chosen, err = mutual(chosen, server); err != nil {
				err = fmt.Errorf("GetConfigForClient returned an invalid configuration: %w", err)
			}
			return chosen, err
		}
	}
	return server, client, nil
}

// mutual returns a copy of cfg that requires and verifies client certificates. Settings for that
// which cfg leaves unset are taken from base; a weaker setting is an error.
func mutual(cfg, base *tls.Config) (*tls.Config, error) {
	if cfg.ClientAuth != tls.NoClientCert && cfg.ClientAuth != tls.RequireAndVerifyClientCert {
		return nil, fmt.Errorf("ClientAuth is %v, want %v", cfg.ClientAuth, tls.RequireAndVerifyClientCert)
	}
	cfg = fresh(cfg)
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	if cfg.ClientCAs == nil {
		cfg.ClientCAs = base.ClientCAs
	}
	if cfg.VerifyConnection == nil {
		cfg.VerifyConnection = base.VerifyConnection
	}
	if cfg.VerifyPeerCertificate == nil {
		cfg.VerifyPeerCertificate = base.VerifyPeerCertificate
	}
	return cfg, nil
}

// fresh returns a copy of cfg that resumes no session, and accepts no version before TLS 1.2. A
// resumed session skips the verification of the first handshake: a certificate that has expired
// since, or an authority that was removed since, would still be accepted.
func fresh(cfg *tls.Config) *tls.Config {
	cfg = cfg.Clone()
	cfg.SessionTicketsDisabled = true // for a ClientSessionCache, too
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	return cfg
}

// clientFor returns cfg for a dial to addr: the certificate must be for addr's host,
// unless cfg names another server.
func clientFor(cfg *tls.Config, addr string) *tls.Config {
	if cfg.ServerName != "" || cfg.InsecureSkipVerify {
		return cfg
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	cfg = cfg.Clone()
	cfg.ServerName = host
	return cfg
}

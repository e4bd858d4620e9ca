package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// CheckTLS returns why a node that can be dialled cannot use cfg as its Config.TLS, or nil. The
// error names the field and what it should be.
func CheckTLS(cfg *tls.Config) error {
	_, _, err := splitTLS(cfg, true)
	return err
}

// splitTLS returns what cfg says for each direction. Nil means no TLS. Both ends verify the other's
// certificate at every connection, whatever cfg leaves unset: what would let in somebody without a
// certificate of cfg's authorities is strengthened, or an error.
func splitTLS(cfg *tls.Config, listens bool) (server, client *tls.Config, err error) {
	if cfg == nil {
		return nil, nil, nil
	}
	switch {
	case listens && len(cfg.Certificates) == 0 && cfg.GetCertificate == nil && cfg.GetConfigForClient == nil:
		return nil, nil, errors.New("no certificate for those who dial: want Certificates, GetCertificate or GetConfigForClient")
	case listens && len(cfg.Certificates) == 0 && cfg.GetClientCertificate == nil:
		return nil, nil, errors.New("no certificate to dial with: want Certificates or GetClientCertificate")
	case cfg.ClientCAs == nil && cfg.RootCAs == nil:
		// The system's authorities, which nil stands for in package tls, sign anybody's name.
		return nil, nil, errors.New("no authorities: want RootCAs, ClientCAs or both")
	case cfg.InsecureSkipVerify && cfg.VerifyConnection == nil && cfg.VerifyPeerCertificate == nil:
		return nil, nil, errors.New("InsecureSkipVerify is set, want a VerifyConnection or VerifyPeerCertificate with it, or a ServerName in its place")
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
				return nil, err // with neither, server itself counts
			}
			if chosen, err = mutual(chosen, server); err != nil {
				err = fmt.Errorf("GetConfigForClient returned a configuration that is refused: %w", err)
			}
			return chosen, err
		}
	}
	return server, client, nil
}

// mutual returns cfg so that it requires and verifies the certificate of whoever connects. What
// it leaves unset of that is as base has it; what is set and weaker is an error.
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

// fresh returns cfg so that it resumes no session, and speaks no version before TLS 1.2. A resumed
// session skips what the first handshake verified: certificates that expired and authorities
// that were taken out since would count on.
func fresh(cfg *tls.Config) *tls.Config {
	cfg = cfg.Clone()
	cfg.SessionTicketsDisabled = true // for a ClientSessionCache, too
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	return cfg
}

// clientFor returns cfg for a dial to addr: whose certificate is verified must be
// who was dialled.
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

package transport

import (
	"crypto/tls"
	"errors"
	"net"
)

// splitTLS returns what cfg says for each direction. Nil means no TLS. TLS is mutual:
// where cfg asks no certificate of a client, one that its ClientCAs vouch for is
// required, and without ClientCAs, one that its RootCAs do.
func splitTLS(cfg *tls.Config, listens bool) (server, client *tls.Config, err error) {
	if cfg == nil {
		return nil, nil, nil
	}
	if listens && len(cfg.Certificates) == 0 && cfg.GetCertificate == nil && cfg.GetConfigForClient == nil {
		return nil, nil, errors.New("transport: Config.TLS has no certificate (Certificates, GetCertificate or GetConfigForClient)")
	}
	server, client = cfg.Clone(), cfg.Clone()
	if server.ClientAuth == tls.NoClientCert {
		server.ClientAuth = tls.RequireAndVerifyClientCert
		if server.ClientCAs == nil {
			server.ClientCAs = cfg.RootCAs
		}
	}
	return server, client, nil
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

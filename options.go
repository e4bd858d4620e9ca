package mesh

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// DefaultPort is the TCP port of a node that was given none: it serves everything.
const DefaultPort = 7300

const (
	minTTL      = time.Second
	maxLeaseTTL = 10 * time.Minute
	maxMaxTTL   = 24 * time.Hour
	maxShards   = 4096
	maxReplicas = 7
	maxSeeds    = 64
	maxName     = shard.MaxName
)

// Option changes how a node joins. Join checks all options together, before anything is
// opened or sent.
type Option func(*options)

// options is what Join was asked for: zero where nothing was, so that the mesh's own
// value rules.
type options struct {
	node.Config
	errs []error
}

func (o *options) fail(what string, got any, want string) {
	o.errs = append(o.errs, invalid(what, got, want))
}

// WithMeshName names the mesh, 1 to 255 bytes. A node whose mesh name differs from that of
// the mesh which it meets is refused with ErrForeignMesh. Default: whatever the mesh is
// called; a new one, "default".
func WithMeshName(name string) Option {
	return func(o *options) {
		if name == "" || len(name) > maxName {
			o.fail("WithMeshName", fmt.Sprintf("%q", brief(name)), fmt.Sprintf("1 to %d bytes", maxName))
		}
		o.MeshName = name
	}
}

// WithName names the node, 1 to 255 bytes, unlike any other living node of the mesh. The
// name is the node's place on the ring: one that starts again under its old name gets its
// old shards. Name, address and zone have at most 504 bytes together, where a port or an IP that
// the system chooses counts as the longest there is. Default: the address that others reach it at.
func WithName(name string) Option {
	return func(o *options) {
		if name == "" || len(name) > maxName {
			o.fail("WithName", fmt.Sprintf("%q", brief(name)), fmt.Sprintf("1 to %d bytes", maxName))
			return
		}
		o.Name = name
	}
}

// WithBind sets the host and port to listen at; ":7300" is all interfaces, and port 0 any
// that is free. Default: port 7300 of all interfaces; without seeds, a free port of
// 127.0.0.1, for a mesh of one that nobody else is meant to find.
func WithBind(addr string) Option {
	return func(o *options) {
		if _, err := splitAddr(addr); err != nil {
			o.fail("WithBind", fmt.Sprintf("%q", brief(addr)), err.Error())
			return
		}
		o.Transport.Bind = addr
	}
}

// WithAdvertise sets the host and port at which others reach this node, if that differs
// from where it listens: behind address translation, for example. Default: the bind
// address, or for all interfaces this machine's private IP.
func WithAdvertise(addr string) Option {
	return func(o *options) {
		host, err := splitAddr(addr)
		if err == nil && isWildcard(host) {
			err = errors.New("a host that others can dial")
		}
		if err != nil {
			o.fail("WithAdvertise", fmt.Sprintf("%q", brief(addr)), err.Error())
			return
		}
		o.Transport.Advertise = addr
	}
}

// WithShards sets into how many shards the mesh divides its keys, 1 to 4096. Each is a
// replicated table with a leader of its own: more spread the load more evenly, and cost
// more heartbeats. It is fixed when a mesh is founded; a node that asks another number of
// a living mesh is refused. Default 16.
func WithShards(n int) Option {
	return func(o *options) {
		if n < 1 || n > maxShards {
			o.fail("WithShards", n, fmt.Sprintf("1 to %d", maxShards))
		}
		o.Shards = n
	}
}

// WithReplicas sets on how many nodes each shard lives: 1, 3, 5 or 7. A shard serves as
// long as more than half of them do. It is fixed when a mesh is founded; a node that asks
// another number of a living mesh is refused. Default 3, of which one may fail.
func WithReplicas(n int) Option {
	return func(o *options) {
		if n < 1 || n > maxReplicas || n%2 == 0 {
			o.fail("WithReplicas", n, fmt.Sprintf("an odd number from 1 to %d", maxReplicas))
		}
		o.Replicas = n
	}
}

// WithLeaseTTL sets how long a lock outlives the last confirmed renewal of its session.
// From 1s to 10m, and at most the mesh's MaxTTL. Renewals go out every third of it, and more
// often while none is answered. Below 6s a leader that falls silent may cost the locks of its
// shard, for the next one may be elected too late; the node warns of that when it joins. Default
// 10s, or the mesh's MaxTTL if that is shorter.
func WithLeaseTTL(d time.Duration) Option {
	return func(o *options) {
		if d < minTTL || d > maxLeaseTTL {
			o.fail("WithLeaseTTL", d, fmt.Sprintf("%v to %v", minTTL, maxLeaseTTL))
			return
		}
		o.LeaseTTL = d
	}
}

// WithMaxTTL bounds every lease of the mesh, 1s to 24h: WithLeaseTTL, WithTTL, MaxHold and
// Extend. It is fixed when a mesh is founded; a node that asks another bound of a living
// mesh is refused. A new mesh grants nothing for so long, unless it is all on loopback, since
// holders of an earlier one may still believe in their locks. Default: the longest of the
// founders' lease TTLs.
func WithMaxTTL(d time.Duration) Option {
	return func(o *options) {
		if d < minTTL || d > maxMaxTTL {
			o.fail("WithMaxTTL", d, fmt.Sprintf("%v to %v", minTTL, maxMaxTTL))
			return
		}
		o.MaxTTL = d
	}
}

// WithFound lets a node without seeds found a mesh of one at an address that others can
// reach. Without it that is ErrNoSeeds: a fleet whose list of seeds was left empty by
// mistake must not become as many meshes as it has nodes. With seeds it has no effect.
func WithFound() Option {
	return func(o *options) { o.Found = true }
}

// WithZone names the failure domain that the node stands in, at most 255 bytes. The
// replicas of a shard prefer different ones. Default: none.
func WithZone(zone string) Option {
	return func(o *options) {
		if len(zone) > maxName {
			o.fail("WithZone", fmt.Sprintf("%q", brief(zone)), fmt.Sprintf("at most %d bytes", maxName))
			return
		}
		o.Zone = zone
	}
}

// WithTLS makes every connection of the node TLS, in which both ends must have a certificate
// that the other one verifies, at every connection anew: no session is resumed. cfg is used in
// both directions. It needs a certificate (Certificates, or else GetClientCertificate with
// GetCertificate or GetConfigForClient) and authorities: RootCAs for those who are dialled,
// ClientCAs for those who dial. Either stands in for the other; without both, which would mean
// the system's, Join returns ErrInvalidOption. So it does for a ClientAuth other than
// tls.RequireAndVerifyClientCert, which is what its zero value becomes; for a MaxVersion below
// TLS 1.2; and for InsecureSkipVerify without a VerifyConnection or VerifyPeerCertificate, which
// must then verify whoever is dialled.
//
// The same holds for what a GetConfigForClient returns: ClientCAs, VerifyConnection and
// VerifyPeerCertificate are cfg's where it leaves them unset, and with any other ClientAuth the
// connection is refused and the reason logged. Default: no TLS; then anybody who reaches the
// port can lock and unlock.
func WithTLS(cfg *tls.Config) Option {
	return func(o *options) {
		if cfg == nil {
			o.fail("WithTLS", "nil", "a tls.Config")
			return
		}
		if err := transport.CheckTLS(cfg); err != nil {
			o.errs = append(o.errs, fmt.Errorf("%w: WithTLS: %w", ErrInvalidOption, err))
		}
		o.Transport.TLS = cfg
	}
}

// WithLogger sets where the node logs. Default slog.Default(), and in a simulation its
// timeline.
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) {
		if logger == nil {
			o.fail("WithLogger", "nil", "a logger")
		}
		o.Logger = logger
	}
}

// configure makes a node's configuration of the arguments of Join, or an error that
// names everything that is wrong with them.
func configure(seeds []string, opts []Option) (node.Config, error) {
	var o options
	for i, opt := range opts {
		if opt == nil {
			o.fail(fmt.Sprintf("option %d", i+1), "nil", "an Option")
			continue
		}
		opt(&o)
	}
	for _, s := range seeds {
		if s = strings.TrimSpace(s); s == "" {
			continue // of an unset variable, most likely (P28)
		}
		addr, err := seedAddr(s)
		if err != nil {
			o.fail("a seed", fmt.Sprintf("%q", brief(s)), err.Error())
			continue
		}
		o.Seeds = append(o.Seeds, addr)
	}
	if len(o.Seeds) > maxSeeds {
		o.fail("the number of seeds", len(o.Seeds), fmt.Sprintf("at most %d", maxSeeds))
	}
	if o.MaxTTL != 0 && o.LeaseTTL > o.MaxTTL {
		o.fail("WithLeaseTTL", o.LeaseTTL, fmt.Sprintf("at most WithMaxTTL, which is %v", o.MaxTTL))
	}
	if o.Transport.Bind == "" {
		o.Transport.Bind = "127.0.0.1:0"
		if len(seeds) > 0 {
			o.Transport.Bind = fmt.Sprintf(":%d", DefaultPort)
			if len(o.Seeds) == 0 && !o.Found && len(o.errs) == 0 {
				return o.Config, fmt.Errorf("%w: all %d that are listed are blank", ErrNoSeeds, len(seeds))
			}
		}
	}
	o.checkIdentity()
	return o.Config, errors.Join(o.errs...)
}

// checkIdentity checks name, address and zone together, as gossip and handshakes carry them.
func (o *options) checkIdentity() {
	option, addr := "WithBind", o.Transport.Bind
	if o.Transport.Advertise != "" {
		option, addr = "WithAdvertise", o.Transport.Advertise
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return // and then it has been told
	}
	if isWildcard(host) {
		host = longestIP
	}
	if n, _ := strconv.Atoi(port); n == 0 {
		port = "65535"
	}
	addr = net.JoinHostPort(host, port)
	if len(addr) > maxName {
		o.fail(option, fmt.Sprintf("%q", brief(addr)), fmt.Sprintf("at most %d bytes with its port", maxName))
		return
	}
	name := cmp.Or(o.Name, addr)
	if n := len(name) + len(addr) + len(o.Zone); n > env.MaxMember {
		o.fail(fmt.Sprintf("the sum of WithName, %s and WithZone", option),
			fmt.Sprintf("%d bytes (%d, %d and %d)", n, len(name), len(addr), len(o.Zone)), fmt.Sprintf("at most %d bytes", env.MaxMember))
	}
}

// longestIP is as long as any that the system may choose for a wildcard.
const longestIP = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"

// isWildcard tells whether a host stands for all interfaces.
func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// seedAddr returns a seed as host:port.
func seedAddr(s string) (string, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if _, err := netip.ParseAddr(bare); err == nil || !strings.Contains(s, ":") {
		return net.JoinHostPort(bare, strconv.Itoa(DefaultPort)), nil
	}
	host, port, err := net.SplitHostPort(s)
	if n, no := strconv.Atoi(port); err != nil || host == "" || no != nil || n < 1 || n > 65535 || len(s) > maxName {
		return "", errors.New("host:port, or a host")
	}
	return s, nil
}

// splitAddr returns the host of host:port, where both may be left to the system.
func splitAddr(addr string) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if n, no := strconv.Atoi(port); err != nil || no != nil || n < 0 || n > 65535 || len(addr) > maxName {
		return "", errors.New("host:port, with [host] for IPv6 and a port from 0 to 65535")
	}
	return host, nil
}

// LockOption changes one call of Lock and its like.
type LockOption func(*lockOptions)

type lockOptions struct {
	reentrant bool
	value     []byte
	hold      time.Duration
	fixed     bool
}

// Reentrant lets a call enter the lock that its context comes from: a context that was
// made of [Lock.Context] or [Lock.WithContext] while that lock is held. It is then
// counted, costs no message, and has the token of the first; the last Unlock releases.
// The lock must be of the same session and hold at least as much; Value and MaxHold
// stay as the first call set them. Without such a lock the call takes one as usual.
//
// Whoever has the context may enter: goroutines that share it do not exclude each other.
func Reentrant() LockOption {
	return func(o *lockOptions) { o.reentrant = true }
}

// Value attaches up to 4096 bytes to the hold, for others who look at the key: it is kept with
// the hold on every replica, but there is no call yet that reads it.
func Value(value []byte) LockOption {
	return func(o *lockOptions) { o.value = value }
}

// MaxHold makes the lock end by itself d after it was granted, 100ms up to the mesh's
// MaxTTL: it is not renewed. The time counts from when the node confirms the grant.
// [Lock.Extend] moves the end. At the end the lock is ErrLost to its holder, which [Stats] do not
// count as a loss. It need not be unlocked.
func MaxHold(d time.Duration) LockOption {
	return func(o *lockOptions) { o.hold, o.fixed = d, true }
}

// minHold is the shortest hold: the table's clock ticks every 50 ms, and a shorter one
// would often be over before Lock returned.
const minHold = 100 * time.Millisecond

// SessionOption changes a session of its own.
type SessionOption func(*sessionOptions)

type sessionOptions struct {
	ttl time.Duration
	set bool
}

// WithTTL sets how long the session's locks outlive its last confirmed renewal, 1s up to
// the mesh's MaxTTL. Default: the node's lease TTL.
func WithTTL(d time.Duration) SessionOption {
	return func(o *sessionOptions) { o.ttl, o.set = d, true }
}

package mesh

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// DefaultPort is the TCP port of a node if no other is set. One port serves everything.
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

// Option is an option of Join, Start, Solo and their like, which check all options together before they open or send
// anything.
type Option func(*options)

// options are the settings that the options of Join made. A zero value means that the
// mesh's own value is used.
type options struct {
	node.Config
	entry string // as WithEntry got it
	errs  []error
}

func (o *options) fail(what string, got any, want string) {
	o.errs = append(o.errs, invalid(what, got, want))
}

// WithMeshName names the mesh, 1 to 255 bytes. A node is refused with ErrForeignMesh if the
// mesh of its seeds has another name. Default: the name in the state directory ([WithStateDir]), if there is one; else
// that of the mesh of the seeds; "default" if it is founded now.
func WithMeshName(name string) Option {
	return func(o *options) {
		if name == "" || len(name) > maxName {
			o.fail("WithMeshName", fmt.Sprintf("%q", brief(name)), fmt.Sprintf("1 to %d bytes", maxName))
		}
		o.MeshName = name
	}
}

// WithName names the node, 1 to 255 bytes, in logs, errors and [Node.Members]. No other living node of the mesh
// may have the same name. It places nothing: which shards a node of the core has follows from its entry in the
// list. Name, address and zone have at most 504 bytes together;
// a port or an IP that the system chooses counts with its maximum length. Default: the
// address at which other nodes reach this node; see [WithClientOnly] for a node without an address.
func WithName(name string) Option {
	return func(o *options) {
		if name == "" || len(name) > maxName {
			o.fail("WithName", fmt.Sprintf("%q", brief(name)), fmt.Sprintf("1 to %d bytes", maxName))
			return
		}
		o.Name = name
	}
}

// WithBind sets the host and port to listen at. ":7300" means all interfaces, and port 0
// any free port. Default: port 7300 of all interfaces; with WithDiscovery, a free port of all interfaces; with an empty
// list of seeds and without WithDiscovery, a free port of 127.0.0.1, for a mesh of one that no other node is meant to find (a list
// of blanks is not empty); with WithClientOnly, none.
func WithBind(addr string) Option {
	return func(o *options) {
		if _, err := splitAddr(addr); err != nil {
			o.fail("WithBind", fmt.Sprintf("%q", brief(addr)), err.Error())
			return
		}
		o.Transport.Bind = addr
	}
}

// WithAdvertise sets the host and port at which other nodes reach this node, if they differ
// from where it listens, for example behind address translation. Default: the bind address;
// if that is all interfaces, this machine's private IP or, with a warning in the log, 127.0.0.1 if it has none.
func WithAdvertise(addr string) Option {
	return func(o *options) {
		host, err := splitAddr(addr)
		if err == nil && transport.IsWildcard(host) {
			err = errors.New("a host that other nodes can dial")
		}
		if err != nil {
			o.fail("WithAdvertise", fmt.Sprintf("%q", brief(addr)), err.Error())
			return
		}
		o.Transport.Advertise = addr
	}
}

// WithShards sets the number of shards into which the mesh divides its keys, 1 to 4096. Each
// shard is a replicated table with its own leader: more shards spread the load more evenly, and
// cost more heartbeats. The number is fixed when the mesh is founded; a node that later asks for
// another number is refused. Default 16.
func WithShards(n int) Option {
	return func(o *options) {
		if n < 1 || n > maxShards {
			o.fail("WithShards", n, fmt.Sprintf("1 to %d", maxShards))
		}
		o.Shards = n
	}
}

// WithReplicas sets the number of replicas of each shard: 1, 3, 5 or 7. They are on nodes of the core, and a shard has at most one for
// each entry of the list. If there are two entries or more, it has at least two: 1 means two then. A shard serves
// as long as more than half of its replicas do. A replica that is silent for 6 s is removed, or replaced by one on another entry's
// node, if the others are a majority and at least two stay. The number is fixed when the mesh is founded;
// a node that later asks for another number is refused. Default 3, of which one may fail.
func WithReplicas(n int) Option {
	return func(o *options) {
		if n < 1 || n > maxReplicas || n%2 == 0 {
			o.fail("WithReplicas", n, fmt.Sprintf("an odd number from 1 to %d", maxReplicas))
		}
		o.Replicas = n
	}
}

// WithLeaseTTL sets how long a lock outlives the last confirmed renewal of its session:
// from 1s to 10m, and not above the mesh's MaxTTL: for more than 10s, set [WithMaxTTL] as well. A renewal is
// sent every third of the TTL, and more often while none is answered. For its holder the lock ends after 98 % of the TTL, so
// that clocks that are off by up to 1 % do not let two callers hold the key. With less than 6s, a silent
// leader may cost the locks of its shard, because the next leader may be elected too late; the
// node logs a warning of this when it joins. Default 10s, or the mesh's MaxTTL if that is shorter.
func WithLeaseTTL(d time.Duration) Option {
	return func(o *options) {
		if d < minTTL || d > maxLeaseTTL {
			o.fail("WithLeaseTTL", d, fmt.Sprintf("%v to %v", minTTL, maxLeaseTTL))
			return
		}
		o.LeaseTTL = d
	}
}

// WithMaxTTL bounds every lease of the mesh, 1s to 24h: WithLeaseTTL, WithTTL, MaxHold and Extend. Default 10s, whatever the
// lease TTLs are. The bound is the founders' when the mesh is founded. A node that later asks for another one is refused, unless
// [Node.SetMaxTTL] has changed it: then the option counts no more in this mesh.
//
// A new mesh is quiet for MaxTTL plus 2 %, and for 4 s at least: it grants nothing, because holders of an earlier mesh may still
// believe that they hold their locks. A shard that has lost a majority of its replicas at once begins again from what its holders
// report, and is quiet for MaxTTL plus 2 %, too: holders keep their locks, and free keys wait. Meanwhile Lock waits, and TryLock
// returns ErrQuiet. Without a state directory ([WithStateDir]) a new mesh does not know the MaxTTL of the earlier one: if that was longer,
// found the new one only when that much time has passed since the old one ended. A new mesh that is entirely on loopback is quiet only if
// clients of an earlier one dial it at once, or a state directory knows of one. An operator can end the quiet time: see [Node.EndQuiet].
func WithMaxTTL(d time.Duration) Option {
	return func(o *options) {
		if d < minTTL || d > maxMaxTTL {
			o.fail("WithMaxTTL", d, fmt.Sprintf("%v to %v", minTTL, maxMaxTTL))
			return
		}
		o.MaxTTL = d
	}
}

// WithFound allows a mesh of one: without seeds, or with one entry that is not on loopback. Its locks live on one
// node: after a restart of it, only those that living clients hold go on.
//
// If neither seeds nor WithFound nor [WithDiscovery] are given, Join returns ErrNoSeeds: a fleet whose list of seeds was left empty by
// mistake must not become as many meshes as it has nodes. Without WithFound, the node at the only entry of a list ends with
// ErrInvalidOption, if that entry is not on loopback. With more entries, WithFound only allows [Node.ChangeCore] of this node to leave
// this node's entry as the only one.
func WithFound() Option {
	return func(o *options) { o.Found = true }
}

// WithEntry says at which entry of the seeds this node answers, "host:port" or a host as in the list. Default: the one
// whose host has the same first label as this host's name (os.Hostname), and whose port is the node's, as a pod of a
// StatefulSet has; if there is none or several, or if the entries are addresses, the one at which a dial reaches the node;
// if it is reached at none, the node is a client.
//
// WithEntry does not give the node a seat. A dial of the entry must reach the node, as without the option, and each second
// again; until then its role is RoleUndecided, and Join does not return. The option tells the node two things: that it is no client,
// although no dial has reached it yet, for example because its host name is not published yet; and which entry is its own, if another
// entry leads to it by mistake. If another node holds the entry, and a dial of another entry reaches this node, it ends with
// ErrInvalidOption.
func WithEntry(entry string) Option {
	return func(o *options) {
		addr, err := seedAddr(strings.TrimSpace(entry))
		if err != nil {
			o.fail("WithEntry", fmt.Sprintf("%q", brief(entry)), err.Error())
			return
		}
		o.entry, o.Entry = entry, addr
	}
}

// WithDiscovery makes the node a client, which finds its contact points with f: nodes of the core, or names that lead to such, each
// as "host:port" or a host, as in seeds. Seeds may be given beside it, or none; a client takes them as contact points, too.
// Together with WithEntry or WithFound it is ErrInvalidOption: a node with WithDiscovery is never in the core, even
// if a seed leads to it. Unless WithBind says otherwise, it listens at a free port, and with WithClientOnly at none.
//
// f is called when the node starts and, while no contact point leads to a mesh that serves, again 5 s after it has returned: one
// call at a time. It may block: it has a goroutine of its own (in a simulation, an actor). Its context ends after 10 s, and when
// the node ends; f must return soon after that. Until then it is not called again; Close does not wait for it. A result
// replaces the one before. An error leaves that as it was; so does a result with an element that is neither host:port nor a host. At most 64
// contact points count, the first in alphabetical order.
func WithDiscovery(f func(ctx context.Context) ([]string, error)) Option {
	return func(o *options) {
		if f == nil {
			o.fail("WithDiscovery", "nil", "a function")
			return
		}
		o.Discover = func(ctx context.Context) ([]string, error) {
			found, err := f(ctx)
			if err != nil {
				return nil, err
			}
			return seedAddrs(found)
		}
	}
}

// seedAddrs returns seeds as host:port, without blanks. Its error names everything that is wrong.
func seedAddrs(seeds []string) (addrs []string, err error) {
	for _, s := range seeds {
		if s = strings.TrimSpace(s); s == "" {
			continue // most likely an unset variable (P28)
		}
		addr, wrong := seedAddr(s)
		if wrong != nil {
			err = errors.Join(err, invalid("a seed", fmt.Sprintf("%q", brief(s)), wrong.Error()))
			continue
		}
		addrs = append(addrs, addr)
	}
	return addrs, err
}

// WithClientOnly makes the node a client, wherever the entries of the list lead: it is never part of the core, and opens
// no port, so that any number of such processes run on one machine, behind address translation or a firewall. It dials
// the core, and no node dials it. Join needs a list, or WithDiscovery, then. With WithBind, WithAdvertise, WithEntry or WithFound it is
// ErrInvalidOption. [Node.Addr] is empty, and the node's name, if WithName sets none, is "client-" and a number that is
// new at every start. Without this option a node that answers at no entry is a client as well, but opens its port.
func WithClientOnly() Option {
	return func(o *options) { o.Client = true }
}

// loopbackOnly is an option of Solo.
func loopbackOnly(o *options) {
	if b := o.Transport.Bind; b != "" && !node.IsLoopback(b) {
		o.fail("WithBind", fmt.Sprintf("%q", b), "a loopback address for Solo; Join(nil, WithFound()) makes a mesh of one elsewhere")
	}
}

// WithZone names the failure domain of the node, at most 255 bytes. The replicas of a shard
// are placed on nodes of the core in different zones if possible. Default: none.
func WithZone(zone string) Option {
	return func(o *options) {
		if len(zone) > maxName {
			o.fail("WithZone", fmt.Sprintf("%q", brief(zone)), fmt.Sprintf("at most %d bytes", maxName))
			return
		}
		o.Zone = zone
	}
}

// WithDeathOracle sets a function that can tell whether a node has ended for good: from the API of a cloud or of an
// orchestrator, for example. A node of the core asks it about another one that it has not been connected
// with for 6 s, and again every 6 s. Without an oracle such a node counts as one that lives and is cut off: the shards in
// which it has the vote that a majority needs wait until its entry answers again, or
// [Node.DeclareDead] is called. With one they begin again from what the holders report, after a quiet time.
//
// Dead must mean that this process will never again run: its machine is destroyed, or the process has ended and its
// supervisor says so. It must not mean that the node does not answer. If it is wrong, two callers may hold a key of those
// shards at once, until that node learns that it was declared dead; then it ends with [ErrEjected]. An oracle
// that does not know returns false. An error is logged, and counts as false. The oracle's word counts only while most of the core
// says that it has no connection with the node, and no node of the core says that it has one.
//
// The oracle is called from a goroutine of its own, with a context that ends after 5 s, and must return then. About one node it is
// called again only when it has returned. It may call methods of the node that it is an option of. Default: none.
func WithDeathOracle(oracle func(ctx context.Context, m Member) (dead bool, err error)) Option {
	return func(o *options) {
		if oracle == nil {
			o.fail("WithDeathOracle", "nil", "a function")
			return
		}
		o.Oracle = func(ctx context.Context, m env.Member) (bool, error) {
			return oracle(ctx, memberOf(node.Member{Member: m, State: env.Dead}))
		}
	}
}

// WithStateDir names a directory in which the node keeps a small file of what its mesh must not forget if all of its core
// ends at once, with all clients: the highest token, and how long the mesh's leases may last. A mesh that is founded anew
// begins with higher tokens than any node's file knows, whatever the time of day is, and is quiet for as
// long as the longest lease of the mesh before, even if [WithMaxTTL] is shorter now. No lock is in it, and no call waits for it: it is
// written in the background, at once when the mesh changes, and every 10 s while tokens grow. Nodes at no entry
// keep nothing.
//
// It also keeps the core's list, once an operator has changed it while the mesh ran ([Node.ChangeCore]). Then the next process
// starts with that list in place of its seeds, and logs so, until its seeds are changed: whatever was changed last counts. But seeds
// that are changed to the list before the last ChangeCore count as late, and have no effect. So
// make the list the seeds of a node before you remove its directory, or move the node to another machine.
//
// The directory is made if it does not exist. It must be on a local file system, belongs to one node for good, and must not be copied
// to another machine. The node locks it while it runs: so a node that finds it unlocked knows that the process before it
// has ended, and tells the core. So the new process gets the seat at once, before others miss the old one's connections.
//
// Start and Join return [ErrInvalidOption] if another process has locked the directory, if it cannot be written, or if
// the file is damaged (the text says what to do then); [ErrForeignMesh] if it is of a mesh with another name. If it
// cannot be written later, the node logs an error and goes on. Default: none; a mesh that is founded anew then
// relies on living clients, and on the time of day.
func WithStateDir(dir string) Option {
	return func(o *options) {
		if dir == "" {
			o.fail("WithStateDir", `""`, "a directory")
		}
		o.StateDir = dir
	}
}

// WithTLS makes every connection of the node use mutual TLS: each end must present a
// certificate that the other end verifies. Every connection is verified anew: no session is
// resumed. cfg is used in both directions.
//
// cfg needs a certificate: Certificates, or GetClientCertificate together with GetCertificate
// or GetConfigForClient. It also needs authorities: RootCAs verify the nodes that this node
// dials, ClientCAs those that dial it. If one of the two is unset, the other one is used for
// both. Join returns ErrInvalidOption if
//
//   - both are unset, which would mean the system's authorities
//   - ClientAuth is set to anything but tls.RequireAndVerifyClientCert, which an unset
//     ClientAuth becomes
//   - MaxVersion is below TLS 1.2
//   - InsecureSkipVerify is set without a VerifyConnection or VerifyPeerCertificate. With one
//     of these, that function alone verifies the nodes that this node dials.
//
// A configuration that GetConfigForClient returns is made as strict: unset ClientCAs,
// VerifyConnection and VerifyPeerCertificate are taken from cfg. If it sets another ClientAuth,
// the connection is refused and the reason is logged.
//
// Default: no TLS. Then anyone who reaches the port can act as a node: lock, vote, and give operators' orders. See SECURITY.md.
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

// WithLogger sets the node's logger. Its handler is called by the node's own goroutines, which
// wait for it: it must not call the node. Default: slog.Default(); in a simulation, the
// simulation's timeline.
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) {
		if logger == nil {
			o.fail("WithLogger", "nil", "a logger")
		}
		o.Logger = logger
	}
}

// configure makes a node's configuration from the arguments of Join. Its error names
// everything that is wrong with them.
func configure(seeds []string, opts []Option) (node.Config, error) {
	var o options
	for i, opt := range opts {
		if opt == nil {
			o.fail(fmt.Sprintf("option %d", i+1), "nil", "an Option")
			continue
		}
		opt(&o)
	}
	var err error
	if o.Seeds, err = seedAddrs(seeds); err != nil {
		o.errs = append(o.errs, err)
	}
	o.checkEntry()
	if len(o.Seeds) > maxSeeds {
		o.fail("the number of seeds", len(o.Seeds), fmt.Sprintf("at most %d", maxSeeds))
	}
	switch {
	case o.LeaseTTL <= cmp.Or(o.MaxTTL, founding.DefaultMaxTTL):
	case o.MaxTTL != 0:
		o.fail("WithLeaseTTL", o.LeaseTTL, fmt.Sprintf("at most WithMaxTTL, which is %v", o.MaxTTL))
	default:
		o.fail("WithLeaseTTL", o.LeaseTTL, fmt.Sprintf("at most WithMaxTTL, which is %v unless it is set", founding.DefaultMaxTTL))
	}
	if len(o.Seeds) == 0 && !o.Found && o.Discover == nil && len(o.errs) == 0 {
		if len(seeds) == 0 {
			return o.Config, fmt.Errorf("%w: none is listed; Solo makes a mesh of one", ErrNoSeeds)
		}
		return o.Config, fmt.Errorf("%w: all %d listed seeds are blank", ErrNoSeeds, len(seeds))
	}
	o.checkClientOnly()
	if o.Transport.Bind == "" && !o.Client {
		switch {
		case o.Discover != nil:
			o.Transport.Bind = ":0"
		case len(seeds) > 0:
			o.Transport.Bind = fmt.Sprintf(":%d", DefaultPort)
		default:
			o.Transport.Bind = "127.0.0.1:0"
		}
	}
	o.checkIdentity()
	return o.Config, errors.Join(o.errs...)
}

// checkEntry checks WithEntry, and how WithDiscovery goes with other options.
func (o *options) checkEntry() {
	switch {
	case o.entry != "" && o.Discover != nil:
		o.fail("WithEntry", fmt.Sprintf("%q", brief(o.entry)), "none beside WithDiscovery, which makes the node a client")
	case o.entry != "" && !slices.Contains(o.Seeds, o.Entry):
		o.fail("WithEntry", fmt.Sprintf("%q", brief(o.entry)), fmt.Sprintf("one of the seeds %q", o.Seeds))
	case o.Found && o.Discover != nil:
		o.fail("WithFound", true, "none beside WithDiscovery, which makes the node a client")
	}
}

// checkClientOnly checks that a client is not told where to listen, or to found a mesh.
func (o *options) checkClientOnly() {
	const want = "none of it: WithClientOnly makes a node that opens no port and founds no mesh"
	switch b, a := o.Transport.Bind, o.Transport.Advertise; {
	case !o.Client:
	case b != "":
		o.fail("WithBind", fmt.Sprintf("%q", brief(b)), want)
	case a != "":
		o.fail("WithAdvertise", fmt.Sprintf("%q", brief(a)), want)
	case o.entry != "":
		o.fail("WithEntry", fmt.Sprintf("%q", brief(o.entry)), want)
	case o.Found:
		o.fail("WithFound", "set", want)
	}
}

// checkIdentity checks the length of name, address and zone together: gossip and handshakes
// carry all three.
func (o *options) checkIdentity() {
	if o.Client {
		return // it does not gossip
	}
	option, addr := "WithBind", o.Transport.Bind
	if o.Transport.Advertise != "" {
		option, addr = "WithAdvertise", o.Transport.Advertise
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return // WithBind or WithAdvertise has reported it
	}
	if transport.IsWildcard(host) {
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

// longestIP is as long as any IP that the system may choose for a wildcard.
const longestIP = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"

// seedAddr returns a seed as host:port.
func seedAddr(s string) (string, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if _, err := netip.ParseAddr(bare); err == nil || !strings.Contains(s, ":") {
		s = net.JoinHostPort(bare, strconv.Itoa(DefaultPort))
	}
	host, port, err := net.SplitHostPort(s)
	if n, portErr := strconv.Atoi(port); err != nil || transport.IsWildcard(host) || portErr != nil || n < 1 || n > 65535 || len(s) > maxName {
		return "", errors.New("host:port, or a host, that other nodes can dial, with a port from 1 to 65535")
	}
	return s, nil
}

// splitAddr returns the host of host:port. An empty host or port 0 leaves it to the system.
func splitAddr(addr string) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || n < 0 || n > 65535 || len(addr) > maxName {
		return "", errors.New("host:port, with [host] for IPv6 and a port from 0 to 65535")
	}
	return host, nil
}

// LockOption is an option of Lock, RLock, Acquire, their Try variants, Do, and LockAll, which takes all but Reentrant.
type LockOption func(*lockOptions)

type lockOptions struct {
	reentrant bool
	value     []byte
	hold      time.Duration
	fixed     bool
	detects   bool
}

// Reentrant lets a call enter the lock that its context comes from: a context that was
// derived from [Lock.Context] or [Lock.WithContext] of a lock that is still held. Such a
// call is only counted: it sends no message and has the token of the first call, and the
// last Unlock releases. Value and MaxHold stay as the first call set them. The lock must
// hold at least as much, else the call fails with ErrUpgrade. If the context comes from no
// lock of the key that the session of the call still holds, the call acquires one as usual.
//
// Every caller with the context may enter: goroutines that share it do not exclude each
// other.
func Reentrant() LockOption {
	return func(o *lockOptions) { o.reentrant = true }
}

// Value attaches up to 4096 bytes to the lock. Every replica keeps them as long as the lock is held, for
// other programs to read with [Node.Inspect].
func Value(value []byte) LockOption {
	return func(o *lockOptions) { o.value = value }
}

// MaxHold makes the lock end by itself after the time d, from 100ms to the mesh's MaxTTL. The
// lock is not renewed. The time starts when the node has received the grant and tells the shard
// when the lock is to end; Lock returns after the shard's answer. [Lock.Extend] moves the end. For its
// holder the lock ends after 98 % of d, so that clocks that are off by up to 1 % do not let two callers
// hold the key: it becomes ErrLost, which [Stats] do not count as a loss. The lock need not be unlocked.
//
// The locks of [Node.LockAll] are renewed until it has all of them. Then the time starts for all at once.
func MaxHold(d time.Duration) LockOption {
	return func(o *lockOptions) { o.hold, o.fixed = d, true }
}

// minHold is the shortest MaxHold: the leader looks at the leases every 50 ms, and a shorter hold
// would often end before Lock returned.
const minHold = 100 * time.Millisecond

// SessionOption is an option of NewSession.
type SessionOption func(*sessionOptions)

type sessionOptions struct {
	ttl time.Duration
	set bool
}

// WithTTL sets how long the session's locks outlive its last confirmed renewal: from 1s to
// the mesh's MaxTTL. For their holders they end after 98 % of that, as with [WithLeaseTTL]. Default: the
// node's lease TTL.
func WithTTL(d time.Duration) SessionOption {
	return func(o *sessionOptions) { o.ttl, o.set = d, true }
}

// Package drill is the standard exercise of a mesh: a fleet of real nodes in a
// simulated world, a load that uses all that they offer, and a storm of faults, with
// every checker watching.
//
//	w := simulate.New(simulate.Options{Seed: 7, Profile: simulate.Hostile})
//	defer w.Close()
//	err := drill.Play(w)
//
// Its sizes are parameters of the world (see [simulate.World.Pick]), so that each seed
// has a fleet of its own and a search can make a failing one smaller.
package drill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/simulate"
)

// ttl is the lease of a drill's nodes.
const ttl = 3 * time.Second

// port is where every node listens.
const port = ":7400"

// Drill is one exercise.
type Drill struct {
	// Lockers are the load. Change them before Run, not later.
	Lockers *simulate.Lockers

	world  *simulate.World
	guests guests
	many   multitude
	admin  *operator
	cloud  *oracle   // nil: nodes have none
	lookup *registry // of clients; nil: they have seeds
	zones  int       // of nodes, beside the first; zero: they have none
	seeds  []string  // the founders' addresses
	early  bool      // guests come before their node is ready
	closed bool      // who is no founder opens no port
	shards int
	copies int // WithReplicas
	storm  time.Duration
	faults int
}

// usual is how many hosts there are at most in most worlds. Worlds with more have lighter loads and
// shorter storms, so that they cost not much more than others.
const usual = 7

// New draws a drill's sizes from the seed of w, which must be new, and makes its hosts.
// The sizes are hosts, and how many of them are the core; shards, and their replicas (1, 3 or 5); lockers and guests on each
// host, and keys of each kind; whether guests come before their node is ready; whether clients open a port, and look for the core in
// a registry; whether nodes have an oracle that knows which processes have ended, and zones, which differ from one process of a host
// to the next; how often an operator changes the list and MaxTTL, declares a node dead, and starts the fleet anew; what guests do most
// and how fast; how often each host makes errands, short sessions for a key that nobody else wants; whether hundreds to thousands
// of callers come at once; the seconds that the storm lasts; and how many faults and calls there must be at least (a storm with
// fewer is prolonged). A drill's guests are actors that use what lockers do not; those who play the guests of package lockhttp are its
// visitors. "lockmesh simulate -list" has the names and ranges.
func New(w *simulate.World) *Drill {
	d := &Drill{world: w}
	hosts, founders := int(w.PickMostly("hosts", 3, usual, 40)), int(w.Pick("founders", 1, 7))
	for i := range hosts {
		host := hostName(i)
		w.Host(host)
		if i < founders {
			d.seeds = append(d.seeds, host+port)
		}
	}
	d.shards, d.copies = int(w.Pick("shards", 1, 16)), 1+2*int(w.Pick("replicas", 0, 2))
	d.Lockers = &simulate.Lockers{
		Join:  d.join,
		Each:  int(w.Pick("lockers", 1, 3)),
		Keys:  int(w.Pick("keys", 1, 6)),
		TTL:   ttl,
		Calls: int(w.Pick("calls", 0, 200)),

		Newcomers: true,
	}
	for shard := range d.shards {
		d.Lockers.Everywhere = append(d.Lockers.Everywhere, keyOf(shard, d.shards))
	}
	d.closed = w.Pick("client-only", 0, 1) == 1
	if d.admin = newOperator(w, d); d.admin.ttls > 0 {
		d.Lockers.TTL = highest // what a bound of the end has to count on
	}
	if d.admin.works {
		d.Lockers.Underway = d.admin.ends
		w.History().Relists = d.admin.lists > 0
	}
	d.guests = newGuests(w)
	d.guests.nodes = d.admin.nodes
	d.many = newMultitude(w)
	d.storm = time.Duration(w.Pick("storm-s", 5, 40)) * time.Second
	if hosts > usual {
		d.storm = max(5*time.Second, d.storm*usual/time.Duration(2*hosts))
		d.Lockers.Each, d.guests.each, d.guests.errands = 1, min(d.guests.each, 1), min(d.guests.errands, 1)
	}
	d.faults = int(w.Pick("faults", 0, 5))
	d.zones = int(max(w.Pick("zones", 0, 8)-5, 0))
	if w.Pick("oracle", 0, 3) == 3 {
		d.cloud = newOracle(w)
	}
	d.early = w.Pick("start", 0, 3) == 3
	if w.Pick("discovery", 0, 3) == 3 {
		d.lookup = newRegistry(w, d)
	}
	w.Pick("core", 0, 1) // by Lockers.Run, later: all that there is to set is known from now on
	return d
}

// hostName returns the name of a host: a to z, then a1 to z1.
func hostName(i int) string {
	name := string(rune('a' + i%26))
	if i >= 26 {
		name += fmt.Sprint(i / 26)
	}
	return name
}

// keyOf returns a key of a shard.
func keyOf(shard, shards int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("everywhere/", i); ring.Shard(key, shards) == shard {
			return key
		}
	}
}

// Play is a drill as a scenario for a Plan of package search.
func Play(w *simulate.World) error { return New(w).Run() }

// Run plays the drill, once, and returns the first failure: as a rule a promise that a checker saw broken.
func (d *Drill) Run() error {
	d.admin.begin(d.world)
	return d.Lockers.Run(d.world, simulate.ChaosOptions{For: d.storm, Least: d.faults, MayCrash: mayCrash, MayCrashAll: mayCrashAll})
}

// mayCrash allows every crash: what forgets is replaced, and what it forgot is reported by who holds it.
func mayCrash(string) bool { return true }

// mayCrashAll allows all hosts to crash at once.
func mayCrashAll(time.Duration) bool { return true }

func (d *Drill) join(ctx context.Context, host string) (simulate.Node, error) {
	patience, cancel := simulate.WithTimeout(ctx, time.Hour)
	defer cancel()
	if err := d.admin.lets(ctx, host); err != nil {
		return nil, err
	}
	seeds, opts := d.choose(host)
	opts = append(opts, mesh.WithLogger(simulate.Logger(ctx)))
	begin := mesh.JoinContext
	if d.early {
		begin = mesh.StartContext
	}
	n, err := begin(patience, seeds, opts...)
	if err != nil {
		return nil, err
	}
	if d.cloud != nil {
		d.cloud.started(n, d.world.Host(host))
	}
	d.admin.posts[host] = post{n, d.world.Host(host).Incarnation()}
	if err := d.admin.warms(ctx); err != nil {
		return nil, err
	}
	d.guests.arrive(ctx, d.Lockers, n)
	if err := n.WaitReady(patience); err != nil {
		return nil, err
	}
	d.many.arrive(ctx, d.Lockers, n)
	return simulate.AsNode(n), nil
}

// choose returns what the next process of a host joins with.
func (d *Drill) choose(host string) (seeds []string, opts []mesh.Option) {
	seeds = d.admin.seedsOf(host)
	opts = []mesh.Option{mesh.WithName(host), mesh.WithShards(d.shards), mesh.WithReplicas(d.copies), mesh.WithLeaseTTL(ttl), mesh.WithMaxTTL(ttl)}
	server := slices.Contains(seeds, host+port)
	if d.admin.keeps {
		opts = append(opts, mesh.WithStateDir("/var/lib/"+host))
	}
	looks := d.lookup != nil && !server
	if looks {
		seeds = nil
		opts = append(opts, mesh.WithDiscovery(d.lookup.find))
	}
	switch {
	case d.closed && !server:
		opts = append(opts, mesh.WithClientOnly())
	case looks:
		opts = append(opts, mesh.WithBind(port))
	default:
		opts = append(opts, mesh.WithBind(port), mesh.WithFound())
	}
	if d.cloud != nil {
		opts = append(opts, mesh.WithDeathOracle(d.cloud.ended))
	}
	if d.zones > 0 {
		opts = append(opts, mesh.WithZone(fmt.Sprint("zone ", (int(host[0])+d.world.Host(host).Incarnation())%(d.zones+1))))
	}
	return seeds, opts
}

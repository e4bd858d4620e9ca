package drill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// operator changes the mesh while it lives, through all faults: its list (C11), and MaxTTL (C5). It sees to what
// an operator has to: it starts the process at a new entry with the next list, ends the one whose entry went, and
// gives all others the next list for their next start. All processes keep state directories then.
//
// It gives its word, too, and that is true: it declares nodes dead that it has ended (C6), and ends the quiet time after it has ended all
// processes (C5). See word.go.
type operator struct {
	drill *Drill
	lists int                 // changes of the list that it makes
	ttls  int                 // changes of MaxTTL
	dead  int                 // nodes that it declares dead
	colds int                 // times that it starts the fleet anew
	pause time.Duration       // between two of them, at most
	list  []string            // that is in force, by what it was told
	seeds map[string][]string // of a host's next process, if it is another list

	started map[string][]string // with which a host's process was started
	posts   map[string]post
	works   bool   // it does something
	keeps   bool   // it changes something: all processes keep state directories
	busy    bool   // a job was begun, and is not done
	asks    int    // calls that nodes have not answered
	left    int    // steps after the one under way
	over    bool   // it begins nothing more
	away    string // the host whose node it declares dead, whose next process does not join yet
	cold    bool   // it starts the fleet anew, whose callers ask for nothing yet
}

// post is the node of a host, in one of its incarnations.
type post struct {
	node        *mesh.Node
	incarnation int
}

// highest is the longest MaxTTL that an operator sets.
const highest = 2 * ttl

// newOperator draws how much it does: it changes the list in a third of the worlds, and MaxTTL in a quarter; it declares nodes dead in a
// ninth, and starts the fleet anew in a few.
func newOperator(w *simulate.World, d *Drill) *operator {
	o := &operator{
		drill: d,
		lists: int(max(w.Pick("list-changes", 0, 8)-5, 0)),
		ttls:  int(max(w.Pick("ttl-changes", 0, 8)-6, 0)),
		dead:  int(max(w.Pick("declarations", 0, 17)-15, 0)),
		colds: int(max(w.Pick("cold-starts", 0, 17)-16, 0)),
		pause: time.Duration(w.Pick("operator-pause-ms", 100, 8000)) * time.Millisecond,
		list:  d.seeds,
		seeds: make(map[string][]string),
		posts: make(map[string]post),

		started: make(map[string][]string),
	}
	o.keeps = o.lists+o.ttls > 0
	o.works = o.keeps || o.dead+o.colds > 0
	return o
}

// seedsOf returns the list with which a host's process starts now, and notes it.
func (o *operator) seedsOf(host string) []string {
	seeds, ok := o.seeds[host]
	if !ok {
		seeds = o.list
	}
	o.started[host] = seeds
	return seeds
}

// ends has it begin nothing more, and returns how many steps are left of what it has begun.
func (o *operator) ends() int {
	o.over = true
	if o.busy || o.asks > 0 {
		return o.left + 1
	}
	return 0
}

// begin lets it work until it ends.
func (o *operator) begin(w *simulate.World) {
	if !o.works {
		return
	}
	chance := rand.New(rand.NewPCG(w.Rand().Uint64(), math.MaxUint64-1))
	w.Go("operator", func(ctx context.Context) {
		jobs := slices.Concat(
			slices.Repeat([]job{(*operator).changeList}, o.lists), slices.Repeat([]job{(*operator).changeMaxTTL}, o.ttls),
			slices.Repeat([]job{(*operator).declareDead}, o.dead), slices.Repeat([]job{(*operator).startAnew}, o.colds),
		)
		for _, i := range chance.Perm(len(jobs)) {
			if simulate.Sleep(ctx, upTo(chance, o.pause)) != nil || o.over {
				return
			}
			o.busy = true
			jobs[i](o, ctx, chance)
			o.busy = false
		}
	})
}

// job is one thing that an operator does.
type job func(o *operator, ctx context.Context, chance *rand.Rand)

// changeList adds an entry, removes one, or replaces one.
func (o *operator) changeList(ctx context.Context, chance *rand.Rand) {
	list := o.list
	var others []string
	for _, host := range o.drill.Lockers.Hosts {
		if !slices.Contains(list, host+port) {
			others = append(others, host)
		}
	}
	how := chance.IntN(3) // 0: add, 1: remove, 2: replace
	newcomer, goer := chance.IntN(math.MaxInt), chance.IntN(len(list))
	var add, remove, added, removed string
	if how != 1 && len(others) > 0 {
		added = others[newcomer%len(others)]
		add = added + port
	}
	if how != 0 && len(list) > 1 { // a core of one grows first
		remove = list[goer]
		removed = remove[:len(remove)-len(port)]
	}
	if add == "" && remove == "" {
		return
	}
	next := slices.DeleteFunc(slices.Clone(list), func(entry string) bool { return entry == remove })
	if add != "" {
		next = append(next, add)
		if o.seeds[added] = next; len(list) <= 3 { // which grows before it drops an entry: that is the next list
			o.seeds[added] = append(slices.Clone(list), add)
		}
		o.left = len(o.drill.Lockers.Hosts) + 1
		o.restart(ctx, added, chance)
		o.left--
	}
	var ask []string
	for _, entry := range list {
		if entry != remove {
			ask = append(ask, entry[:len(entry)-len(port)])
		}
	}
	stays := next[0]
	if stays == add {
		stays = next[len(next)-1]
	}
	gone, tries := 0, 0 // of the nodes, as many as have said in turn that there is no such entry: the answer before was lost
	o.insist(ctx, ask, chance, func(ctx context.Context, n *mesh.Node) error {
		if tries++; tries%3 == 0 && stays != add { // a node may have started with seeds of before: it is given the list of now
			_ = n.ChangeCore(ctx, stays, "")
		}
		err := n.ChangeCore(ctx, add, remove)
		if gone++; !errors.Is(err, mesh.ErrInvalidOption) {
			gone = 0
		}
		switch {
		case gone <= len(ask):
			return err
		case add == "":
			return nil
		}
		return n.ChangeCore(ctx, add, "")
	})
	o.left = len(o.drill.Lockers.Hosts)
	o.list, o.seeds = next, make(map[string][]string)
	for _, host := range o.drill.Lockers.Hosts { // in turn: to the one whose entry went, and to clients that may find none of the core
		o.left--
		old := o.started[host]
		if host == removed || !slices.ContainsFunc(next, func(entry string) bool { return slices.Contains(old, entry) }) {
			o.restart(ctx, host, chance)
		}
	}
}

// changeMaxTTL sets another bound of all leases. Processes start with the first one: if all of the core forgets, that counts again.
func (o *operator) changeMaxTTL(ctx context.Context, chance *rand.Rand) {
	next := ttl + time.Duration(chance.Int64N(int64(highest-ttl)))
	o.insist(ctx, o.drill.Lockers.Hosts, chance, func(ctx context.Context, n *mesh.Node) error { return n.SetMaxTTL(ctx, next) })
	o.drill.guests.longest = next
}

// nodes returns the nodes of all hosts that are up.
func (o *operator) nodes() (all []*mesh.Node) {
	for _, name := range o.drill.Lockers.Hosts {
		if n := o.nodeOf(o.drill.world.Host(name)); n != nil {
			all = append(all, n)
		}
	}
	return all
}

// nodeOf returns the node of a host's process, or nil.
func (o *operator) nodeOf(host *simulate.Host) *mesh.Node {
	p := o.posts[host.Name()]
	if !host.Up() || host.Incarnation() != p.incarnation {
		return nil
	}
	return p.node
}

// insist asks nodes of these hosts, one after the other, until one says that it is done.
func (o *operator) insist(ctx context.Context, hosts []string, chance *rand.Rand, ask func(ctx context.Context, n *mesh.Node) error) {
	w := simulate.WorldOf(ctx)
	for i := chance.IntN(len(hosts)); ; i++ {
		host := w.Host(hosts[i%len(hosts)])
		done := false
		if n := o.nodeOf(host); n != nil {
			wait := time.Second + upTo(chance, 15*time.Second)
			patience, cancel := simulate.WithTimeout(ctx, 2*wait) // of a host that is paused, for example
			host.Do(patience, fmt.Sprint("operator", w.Now()), func(ctx context.Context) {
				if patience.Err() != nil {
					return // the host was paused, and another one has been asked
				}
				ctx, cancel := simulate.WithTimeout(ctx, wait)
				defer cancel()
				o.asks++
				defer func() { o.asks-- }()
				err := ask(ctx, n)
				simulate.Logf(ctx, "operator: %v", err)
				done = err == nil
			})
			cancel()
		}
		if done || simulate.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// restart ends the process of a host, if it runs, and waits until another one has begun.
func (o *operator) restart(ctx context.Context, name string, chance *rand.Rand) {
	host := simulate.WorldOf(ctx).Host(name)
	before := host.Incarnation()
	if chance.IntN(2) == 0 {
		host.Leave()
	} else {
		host.Crash()
	}
	for host.Incarnation() == before {
		if simulate.Sleep(ctx, time.Second) != nil {
			return
		}
		if !host.Up() && chance.IntN(2) == 0 {
			host.Restart()
		}
	}
}

package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// report is what a lane tells of its replicas. Those of a node's lanes together, and what it
// has heard, make its status, which a msgpack library writes and reads: see wire.Marshal.
type report struct {
	Led     []int   // shards whose leader serves here
	Rest    []int   // of them, those that have all replicas that they should, in step
	Follows []int   // shards whose leader is elsewhere, and is heard here: requests to it are passed on (P15)
	Voters  []voter // the nodes that have a vote in any of all these, by ID
	Counted []voter // and those that count, by their own word, the leaders of what it follows
}

// voter is a node that has a vote in some shard, and its name.
type voter struct {
	Node uint64
	Name string
}

// Limits of a status.
const (
	maxStatus = 8 << 20 // bytes
	maxVoters = 1 << 15
)

// check returns what of a report is beyond its limits, in a mesh of so many shards.
func (r *report) check(shards int) error {
	for _, list := range [][]int{r.Led, r.Rest, r.Follows} {
		for _, sh := range list {
			if sh < 0 || sh >= shards || len(list) > shards {
				return fmt.Errorf("%w: a status of a shard that there is not", wire.ErrMalformed)
			}
		}
	}
	for _, list := range [][]voter{r.Voters, r.Counted} {
		for _, v := range list {
			if v.Node == 0 || len(v.Name) > shard.MaxName || len(list) > maxVoters {
				return fmt.Errorf("%w: a status with a vote of nobody's", wire.ErrMalformed)
			}
		}
	}
	return nil
}

// heardStatus is the report of another node's lanes together, and when it came.
type heardStatus struct {
	report
	at time.Duration
}

const (
	statusEvery = time.Second
	statusFresh = 3 * statusEvery
)

// known is what this node has heard of a shard.
type known struct {
	heard bool // its leader serves, and this node hears it
	led   bool // the same, or one that this node hears does
	rests bool // and it has all replicas that it should, in step
}

// report sends this node's reports to everybody, at least every statusEvery.
func (h *hall) report() {
	if h.now < h.statusAt {
		return
	}
	h.statusAt = h.now + max(statusEvery, time.Duration(len(h.linked))*20*time.Millisecond)
	b := h.status()
	for _, p := range h.sorted() {
		if p.up && uint64(p.ID) != h.node.id {
			h.node.net.Send(p.ID, transport.KindControl, transport.Normal, slices.Clone(b))
			if h.leaving && !h.node.bugs.Has(bug.FarewellOnce) {
				h.sayLeaving(p.ID) // the first word of it may be lost
			}
		}
	}
	h.assess()
}

// tell sends this node's reports to one other.
func (h *hall) tell(to transport.ID) {
	h.node.net.Send(to, transport.KindControl, transport.Normal, h.status())
}

// status is the message that carries this node's reports.
func (h *hall) status() []byte {
	r := h.mine()
	r.Follows, r.Counted = h.follows(r.Follows)
	return append([]byte{ctlStatus}, wire.Marshal(r)...)
}

// follows returns those of the shards whose leaders have reported to this node, and whom
// these leaders count: only a leader knows whom some voter may count still (P30).
func (h *hall) follows(shards []int) (heard []int, counted []voter) {
	for _, node := range slices.Sorted(maps.Keys(h.heard)) {
		s, passes := h.heard[node], false
		for _, sh := range s.Led {
			if slices.Contains(shards, sh) && !slices.Contains(heard, sh) {
				heard, passes = append(heard, sh), true
			}
		}
		if passes {
			counted = append(counted, s.Voters...)
		}
	}
	slices.Sort(heard)
	slices.SortFunc(counted, func(a, b voter) int { return cmp.Compare(a.Node, b.Node) })
	return heard, slices.Compact(counted)
}

// mine is what this node's lanes report together.
func (h *hall) mine() report {
	var r report
	for _, lane := range slices.Sorted(maps.Keys(h.reports)) {
		r.Led = append(r.Led, h.reports[lane].Led...)
		r.Rest = append(r.Rest, h.reports[lane].Rest...)
		r.Voters = append(r.Voters, h.reports[lane].Voters...)
		r.Follows = append(r.Follows, h.reports[lane].Follows...)
	}
	return r
}

func (h *hall) hearStatus(from uint64, body []byte) error {
	if !h.in {
		return nil // a founder's that was faster; it is said again
	}
	s := heardStatus{at: h.now}
	if err := wire.Unmarshal(body, &s.report, maxStatus, max(h.node.params.Shards, maxVoters)); err != nil {
		return err
	}
	if err := s.check(h.node.params.Shards); err != nil {
		return err
	}
	if peer, linked := h.linked[from]; linked {
		peer.MeshID = h.node.mesh.MeshID // only members report, whatever they said before they were
		h.meet(peer)
	}
	_, before := h.heard[from]
	h.heard[from] = s
	h.assess()
	if _, now := h.heard[from]; now && !before {
		h.tell(transport.ID(from)) // it is new here, and waits for ours
	}
	return nil
}

// assess makes Health of what the leaders last said.
func (h *hall) assess() {
	n := h.node
	// What is known of each shard, in room that is used again: every status that comes
	// from anybody leads here.
	shards := slices.Grow(h.known[:0], n.params.Shards)[:n.params.Shards]
	clear(shards)
	h.known = shards
	gone := false // a voter, and its leader may not have noticed yet
	count := func(r report) {
		for _, v := range r.Voters {
			p := h.people[v.Node]
			gone = gone || v.Node != n.id && (p == nil || !p.up)
		}
		for _, sh := range r.Led {
			shards[sh].led, shards[sh].heard = true, true
		}
		for _, sh := range r.Follows {
			shards[sh].led = true
		}
		for _, sh := range r.Rest {
			shards[sh].rests = true
		}
	}
	mine := h.mine()
	mine.Follows = nil // its own leaders' word is to come from themselves, or from others
	count(mine)
	for node, s := range h.heard { // order-free: sets are filled
		p := h.people[node]
		if p == nil || !p.up || h.now-s.at > statusFresh+h.statusAt-h.now {
			delete(h.heard, node)
			continue
		}
		count(s.report)
	}
	health := Health{Ready: h.ready}
	for sh, s := range shards {
		switch {
		case !s.led:
			health.NoMajority = append(health.NoMajority, sh)
		case !s.rests:
			health.UnderReplicated = append(health.UnderReplicated, sh)
		}
	}
	health.FullyReplicated = len(health.NoMajority)+len(health.UnderReplicated) == 0 && !gone
	h.mu.Lock()
	h.state = health
	h.mu.Unlock()
}

// predecessor reports whether some shard still counts an earlier incarnation of this node
// as a voter (P30). What others say of leaders is older than what those say themselves, and
// only of use for those that are not heard.
func (h *hall) predecessor() bool {
	deaf := slices.ContainsFunc(h.known, func(k known) bool { return !k.heard })
	mine := func(v voter) bool { return v.Name == h.node.name && v.Node != h.node.id }
	counts := func(r report) bool {
		return slices.ContainsFunc(r.Voters, mine) || deaf && slices.ContainsFunc(r.Counted, mine)
	}
	if counts(h.mine()) {
		return true
	}
	for _, s := range h.heard { // order-free: any will do
		if counts(s.report) {
			return true
		}
	}
	return false
}

// arrive lets Start return once the node can serve: every shard has a leader that this
// node, or one that it hears, has heard of; and none counts its predecessor.
func (h *hall) arrive() {
	if h.ready {
		return
	}
	h.assess()
	h.mu.Lock()
	missing := len(h.state.NoMajority)
	h.mu.Unlock()
	predecessor := h.predecessor() && !h.node.bugs.Has(bug.PredecessorCounts)
	if missing > 0 || predecessor {
		h.statusAt = min(h.statusAt, h.now+100*time.Millisecond)
		return
	}
	h.ready = true
	n := h.node
	n.mu.Lock()
	if n.status == starting {
		n.status = serving
	}
	n.mu.Unlock()
	h.assess()
	n.starter.Unpark()
}

func (h *hall) missing() string {
	h.mu.Lock()
	missing := len(h.state.NoMajority)
	h.mu.Unlock()
	switch {
	case missing > 0:
		return fmt.Sprintf("%d of %d shards have no leader that this node has heard of", missing, h.node.params.Shards)
	case h.predecessor():
		return "an earlier incarnation of this node is still a voter of some shards"
	}
	return "ready"
}

// Health returns how the mesh's shards are, as far as this node has heard.
func (n *Node) Health() Health {
	n.hall.mu.Lock()
	defer n.hall.mu.Unlock()
	s := n.hall.state
	s.NoMajority, s.UnderReplicated = slices.Clone(s.NoMajority), slices.Clone(s.UnderReplicated)
	return s
}

const healthEvery = 50 * time.Millisecond

// WaitHealthy returns nil when every shard is fully replicated, or the error of ctx.
func (n *Node) WaitHealthy(ctx context.Context) error {
	p := n.env.NewParker()
	for {
		if err := n.Err(); err != nil {
			return err
		}
		if n.Health().FullyReplicated {
			return nil
		}
		if p.Park(ctx, n.env.Now()+healthEvery) == env.ContextEnded {
			h := n.Health()
			return fmt.Errorf("mesh: %w: %d shards without a leader, %d under-replicated", ctx.Err(), len(h.NoMajority), len(h.UnderReplicated))
		}
	}
}

// observe reports what a lane leads to the hall, if it changed.
func (l *lane) observe() {
	var r report
	voters := make(map[uint64]string)
	for _, rep := range l.replicas {
		if p, ok := rep.Leader(); rep.Serving() {
			r.Led = append(r.Led, rep.Shard())
			if rep.AtRest() {
				r.Rest = append(r.Rest, rep.Shard())
			}
		} else if ok && p.Node != l.node.id && !l.node.bugs.Has(bug.HearsLeadersAlone) {
			r.Follows = append(r.Follows, rep.Shard())
		} else {
			continue
		}
		for _, p := range rep.Counted() {
			voters[p.Node] = p.Name
		}
	}
	for _, node := range slices.Sorted(maps.Keys(voters)) {
		r.Voters = append(r.Voters, voter{node, voters[node]})
	}
	if was := l.reported; slices.Equal(r.Led, was.Led) && slices.Equal(r.Rest, was.Rest) && slices.Equal(r.Voters, was.Voters) && slices.Equal(r.Follows, was.Follows) {
		return
	}
	l.reported = r
	l.node.hall.post(func(h *hall) {
		h.reports[l.index] = r
		h.statusAt = h.now // tell at once
	})
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

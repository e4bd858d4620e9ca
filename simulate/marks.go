package simulate

import (
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/transport"
)

// marks derives the rare situations from what the replicas and the callers of a world tell, and
// from the frames that are looked into.
type marks struct {
	world   *World
	met     []uint64                       // by mark
	shards  map[check.ShardName]*situation // looked up, never ranged over
	decided []ruling                       // by the command that is being stepped
	applied map[tableName]uint64           // the index of each table's latest entry; looked up, never ranged over
	waiting map[ownerName]*waiting         // looked up, never ranged over
	closed  map[transport.ID]bool
	looks   []func() // to be taken when the event is over

	generations map[check.ShardName]uint64 // by lineage: in which each shard had its latest leader; looked up, never ranged over
	meshes      map[transport.ID]uint64    // by node; looked up, never ranged over
	began       []uint64                   // the meshes in which a node had a seat
	bound       map[*Host]*process         // that had a seat last; looked up, never ranged over
	absences    []absence
}

// absence is the time from the end of a process that had a seat until its host has one again.
type absence struct {
	host     *Host
	from, to time.Duration
}

// tableName names the table that a node has of a shard.
type tableName struct {
	node  transport.ID
	shard int
}

// ownerName names a node as the owner of requests for a key.
type ownerName struct {
	key  string
	node transport.ID
}

// situation is what is known of one shard.
type situation struct {
	index    uint64 // of the latest entry, and the first node that applied it
	first    transport.ID
	sessions map[shard.SessionID]*lease // of the records in the table; looked up, never ranged over
	silent   int                        // how many of them are silent
	resumed  []uint64                   // the tokens of holds that reports gave back
	heir     transport.ID               // the node to which a leader began to hand over

	campaign  uint64 // the term of the latest one, and the node that began it
	candidate transport.ID

	change   uint64 // the index of the latest change of replicas
	joint    bool
	learners []transport.ID
}

// lease is what the log says of a session's.
type lease struct{ fixed, silent bool }

// ruling is a decision, and how its key's queue was right after it.
type ruling struct {
	shard.Decision
	depth int  // of the queue
	fits  bool // there was room for it
}

// waiting are the calls of one node for one key that have not returned.
type waiting struct {
	calls   int
	several bool   // more than one at some time: a request may be of any of them
	session uint64 // in which the call asked last
}

func newMarks(w *World) *marks {
	return &marks{
		world: w, met: make([]uint64, len(markNames)),
		shards: make(map[check.ShardName]*situation), applied: make(map[tableName]uint64),
		waiting: make(map[ownerName]*waiting), closed: make(map[transport.ID]bool),
		generations: make(map[check.ShardName]uint64), meshes: make(map[transport.ID]uint64), bound: make(map[*Host]*process),
	}
}

// told is what the checkers know of the replicas.
func (k *marks) told() *check.Observer { return k.world.history.checks.Observer() }

// meet counts a situation, and shows its first times on a host to the faults that are aimed.
func (k *marks) meet(h *Host, m mark) {
	if k.met[m]++; k.met[m] <= rarely {
		k.world.Net.meet(h, m)
	}
}

// came counts a situation that a storm has brought about.
func (w *World) came(m mark) { w.marks.met[m]++ }

// host returns the host of a node.
func (k *marks) host(node transport.ID) *Host {
	if p := k.world.nodes[node]; p != nil {
		return p.host
	}
	return k.world.hosts[0] // a node of a test
}

func (k *marks) of(name check.ShardName) *situation {
	x := k.shards[name]
	if x == nil {
		x = &situation{sessions: make(map[shard.SessionID]*lease)}
		k.shards[name] = x
	}
	return x
}

// lease returns what is known of a session's.
func (x *situation) lease(id shard.SessionID) *lease {
	if l := x.sessions[id]; l != nil {
		return l
	}
	return &lease{}
}

// hear ends a session's silence.
func (x *situation) hear(id shard.SessionID) {
	if l := x.lease(id); l.silent {
		l.silent = false
		x.silent--
	}
}

// settle looks at what could not be looked at in the midst of an event.
func (k *marks) settle() {
	for i := 0; i < len(k.looks); i++ { // a look may lead to another one
		k.looks[i]()
	}
	k.looks = k.looks[:0]
}

// before hears of what a replica tells before the checkers do.
func (k *marks) before(at env.At, fact any) {
	switch f := fact.(type) {
	case env.Became:
		k.became(at, f)
	case env.Hosted:
		k.hosted(at)
	}
}

// after hears of it when they have.
func (k *marks) after(at env.At, fact any) {
	name := k.told().Name(at)
	switch f := fact.(type) {
	case shard.Decision:
		k.rules(name, f)
	case env.Stepped:
		k.stepped(name, at.Node, f)
	case env.Applied:
		k.entered(at, f)
	case env.Served:
		k.served(name, at, f)
	case env.Handover:
		k.of(name).heir = f.To
	case env.Configured:
		k.configured(name, at, f)
	}
}

// rules hears of each decision.
func (k *marks) rules(name check.ShardName, d shard.Decision) {
	depth, fits := k.told().Room(name, d)
	k.decided = append(k.decided, ruling{d, depth, fits})
}

// stepped hears of each command, after its decisions.
func (k *marks) stepped(name check.ShardName, node transport.ID, s env.Stepped) {
	decided := k.decided
	k.decided = k.decided[:0]
	x := k.of(name)
	if s.Index > x.index {
		x.index, x.first = s.Index, node
	}
	if s.Index < x.index || node != x.first {
		return
	}
	h := k.host(node)
	k.command(h, name, x, s, decided)
	k.decisions(h, x, s.Command, decided)
	for _, e := range s.Told {
		switch e.What {
		case shard.Refused:
			switch e.Reason {
			case shard.Stale:
				k.meet(h, staleCommand)
			case shard.Reopen:
				k.meet(h, ghostRefused)
			case shard.Late:
				k.meet(h, lateReport)
			}
		case shard.Opened:
			x.sessions[e.Session] = &lease{}
		case shard.Ended:
			if _, expires := s.Command.(shard.Expire); expires && x.lease(e.Session).fixed {
				k.meet(h, fixedEnd)
			}
			x.hear(e.Session)
			delete(x.sessions, e.Session)
		}
	}
}

// command looks at a command and what it led to.
func (k *marks) command(h *Host, name check.ShardName, x *situation, s env.Stepped, decided []ruling) {
	did := func(what shard.DecisionKind) func(ruling) bool {
		return func(d ruling) bool { return d.What == what }
	}
	switch c := shard.Bare(s.Command).(type) {
	case shard.Acquire:
		granted := func(e shard.Event) bool { return e.What == shard.Granted && e.Number == c.Number }
		if slices.ContainsFunc(s.Told, granted) && !slices.ContainsFunc(decided, did(shard.Admitted)) {
			k.meet(h, repeatedGrant)
		}
	case shard.Cancel:
		if !k.told().Queued(name, c.Session, c.Target) {
			k.meet(h, cancelOvertakes)
		}
		if slices.ContainsFunc(decided, did(shard.Finished)) {
			k.meet(h, cancelAfterGrant)
		}
	case shard.Release:
		again := func(e shard.Event) bool { return e.What == shard.Done && e.Number == c.Number }
		if len(decided) == 0 && slices.ContainsFunc(s.Told, again) && k.told().HoldsSince(name, c.Key, c.Session, c.Token) {
			k.meet(h, lateUnlock)
		}
	case shard.Fix:
		for _, e := range s.Told {
			switch e.What {
			case shard.Fixed:
				if x.lease(c.Session).fixed {
					k.meet(h, extended)
				}
				x.lease(c.Session).fixed = true
				x.hear(c.Session)
			case shard.Refused:
				if e.Reason == shard.Lost || e.Reason == shard.Reopen {
					k.meet(h, lateFix)
				}
			}
		}
	case shard.Silent:
		if c.For == 0 {
			if len(s.Told) > 0 {
				x.hear(c.Session)
				k.meet(h, heardLogged)
			}
			return
		}
		if l := x.lease(c.Session); !l.silent && x.sessions[c.Session] == l {
			l.silent = true
			x.silent++
		}
		k.meet(h, silenceLogged)
	case shard.Settle:
		k.meet(h, settled)
	case shard.Calm:
		k.meet(h, settled)
		k.meet(h, appeased)
	}
}

// decisions looks at what a command decided.
func (k *marks) decisions(h *Host, x *situation, cmd shard.Command, decided []ruling) {
	ends := false
	switch cmd.(type) {
	case shard.Expire, shard.Close:
		ends = true
	}
	for i, d := range decided {
		switch {
		case d.What == shard.Entered:
			if d.depth == 10 {
				k.meet(h, deepQueue)
			}
			k.asked(h, d)
		case d.What == shard.Admitted && i > 0 && decided[i-1].What == shard.Admitted && decided[i-1].Key == d.Key:
			if d.Capacity == shard.Whole {
				k.meet(h, readersTogether)
			} else {
				k.meet(h, permitsTogether)
			}
		case d.What == shard.Declined && !d.Settling && d.fits:
			k.meet(h, tryPassesNobody)
		case d.What == shard.Withdrawn && ends:
			k.meet(h, lostWaiting)
		case d.What == shard.Finished && ends && d.depth > 0:
			k.meet(h, lostHolding)
		case d.What == shard.Finished && !ends && slices.Contains(x.resumed, d.Token):
			k.meet(h, keptToken)
		case d.What == shard.Resumed:
			x.resumed = append(x.resumed, d.Token)
			k.meet(h, resumedHold)
		}
	}
}

// called and returned hear of users' calls.
func (k *marks) called(node transport.ID, key string) {
	at := ownerName{key, node}
	c := k.waiting[at]
	if c == nil {
		c = &waiting{}
		k.waiting[at] = c
	}
	c.calls++
	c.several = c.several || c.calls > 1
}

func (k *marks) returned(node transport.ID, key string) {
	at := ownerName{key, node}
	if c := k.waiting[at]; c != nil {
		if c.calls--; c.calls == 0 {
			delete(k.waiting, at)
		}
	}
}

// asked: a call that waits has come into a queue.
func (k *marks) asked(h *Host, d ruling) {
	if c := k.waiting[ownerName{d.Key, transport.ID(d.Session.Node)}]; c != nil && !c.several {
		if c.session != 0 && c.session != d.Session.Number {
			k.meet(h, askedAnew)
		}
		c.session = d.Session.Number
	}
}

// became hears of each role.
func (k *marks) became(at env.At, b env.Became) {
	name := k.told().Name(at)
	x, h := k.of(name), k.host(at.Node)
	switch b.Role {
	case "candidate":
		if x.campaign == b.Term && x.candidate != at.Node && x.candidate != 0 {
			k.meet(h, campaignsMeet)
		}
		x.campaign, x.candidate = b.Term, at.Node
	case "leader":
		before := k.world.nodes[k.told().Leader(name)]
		if before != nil && before.dead && k.world.now-before.ended < electionTimeout {
			k.meet(h, earlyWon)
		}
		if x.heir == at.Node {
			k.meet(h, toldToLead)
		}
		x.heir = 0
		at := name.Lineage()
		if was, is := k.generations[at]; is && was != name.Generation {
			k.meet(h, generationBegun)
		}
		k.generations[at] = name.Generation
	}
}

// served hears of each leader that begins to serve.
func (k *marks) served(name check.ShardName, at env.At, v env.Served) {
	if !v.Serving {
		return
	}
	h := k.host(at.Node)
	if k.of(name).silent > 0 {
		k.meet(h, legacySilence)
	}
	k.looks = append(k.looks, func() {
		if r, ok := k.replica(at.Node, at.Shard); ok && r.Serving && len(r.Outgoing) > 0 {
			k.meet(h, leaderInJoint)
		}
	})
}

// replica returns what a node's replica of a shard says of its voters.
func (k *marks) replica(node transport.ID, shard int) (env.Replica, bool) {
	if n := k.world.node(node); n != nil {
		all := n.Replicas()
		if i := slices.IndexFunc(all, func(r env.Replica) bool { return r.Shard == shard }); i >= 0 {
			return all[i], true
		}
	}
	return env.Replica{}, false
}

// configured hears of each change of a shard's replicas.
func (k *marks) configured(name check.ShardName, at env.At, c env.Configured) {
	x := k.of(name)
	if c.Index <= x.change {
		return
	}
	x.change = c.Index
	k.looks = append(k.looks, func() {
		r, ok := k.replica(at.Node, at.Shard)
		if !ok {
			return
		}
		h, joint := k.host(at.Node), len(r.Outgoing) > 0
		switch {
		case joint && !x.joint:
			k.meet(h, jointEntered)
		case !joint && x.joint:
			k.meet(h, jointLeft)
		}
		placed := func(node transport.ID) bool {
			return slices.ContainsFunc(c.Replicas, func(p env.Placed) bool { return p.Node == node })
		}
		for _, node := range x.learners {
			switch {
			case slices.Contains(r.Voters, node):
				k.meet(h, learnerPromoted)
			case !placed(node):
				k.meet(h, learnerRemoved)
			}
		}
		x.joint, x.learners = joint, nil
		for _, p := range c.Replicas {
			if !slices.Contains(r.Voters, p.Node) && !slices.Contains(r.Outgoing, p.Node) {
				x.learners = append(x.learners, p.Node)
			}
		}
	})
}

// hosted hears of each replica that is made.
func (k *marks) hosted(at env.At) {
	delete(k.applied, tableName{at.Node, at.Shard})
	if k.told().Replaced(k.told().Name(at), at.Node) {
		k.meet(k.host(at.Node), newcomerReplaces)
	}
}

// entered hears of each log entry that a replica applies.
func (k *marks) entered(at env.At, a env.Applied) {
	name := tableName{at.Node, at.Shard}
	if last := k.applied[name]; last > 0 && a.Index > last+1 {
		k.meet(k.host(at.Node), snapshotOverLog)
	}
	k.applied[name] = a.Index
}

// founded hears of each node that has a mesh.
func (k *marks) founded(node transport.ID) {
	own := k.world.nodes[node]
	if own == nil {
		return
	}
	k.looks = append(k.looks, func() {
		k.entersMesh(own, node)
		for r := range k.world.replicas() {
			if slices.ContainsFunc(r.Voters, func(v transport.ID) bool {
				p := k.world.nodes[v]
				return p != nil && p.dead && p.host == own.host
			}) {
				k.meet(own.host, predecessorVotes)
				return
			}
		}
	})
}

// entersMesh looks at a node that has become part of a mesh: its first, or another one.
func (k *marks) entersMesh(p *process, id transport.ID) {
	n := k.world.node(id)
	if n == nil {
		return
	}
	before, mesh := k.meshes[id], n.Mesh()
	k.meshes[id] = mesh
	if !slices.Contains(n.Seats(), id) {
		if before != 0 && before != mesh {
			k.meet(p.host, followed)
		}
		return
	}
	if !slices.Contains(k.began, mesh) {
		if k.began = append(k.began, mesh); len(k.began) > 1 && k.world.history.checks.Held() {
			k.meet(p.host, foundedAgain)
		}
	}
	if was := k.bound[p.host]; was != nil && was != p {
		a := absence{p.host, was.ended, k.world.now}
		if slices.ContainsFunc(k.absences, func(b absence) bool { return b.host != a.host && b.to >= a.from }) {
			k.meet(p.host, awayTogether)
		}
		k.absences = append(k.absences, a)
	}
	k.bound[p.host] = p
}

// left hears of each node that has left.
func (k *marks) left(node transport.ID, handed bool) {
	if handed {
		k.meet(k.host(node), handedOver)
	} else {
		k.meet(k.host(node), handoverTimedOut)
	}
}

// lost: a hold ended, as it may with its user's session, or with its node.
func (k *marks) lost(p *process, node transport.ID) {
	if !k.closed[node] {
		k.meet(p.host, sessionLost)
	}
}

// messageMarks are marks by the names of messages.
var messageMarks = map[string]mark{
	"prevote refused": preVoteRefused, "you are removed": removedTold,
	"leaving": leaverHeard, "core: refused": callRefused,
}

// message hears of each message that a host sends, if the world looks into all of them.
func (k *marks) message(h *Host, name string) {
	if strings.HasPrefix(name, passedOn) {
		k.meet(h, answerForwarded)
	}
	if m, is := messageMarks[name]; is {
		k.meet(h, m)
	}
	if name == "core: propose" && h.process != nil && slices.ContainsFunc(h.process.nodes, func(n inspected) bool { return n.node.Mesh() != 0 }) {
		k.meet(h, calledAgain)
	}
}

// passedOn begins the names of messages that one node sends for another.
const passedOn = "pass on: "

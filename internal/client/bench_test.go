package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// bench is a Client on node 1, called "a". A test plays everything around it: the time, the callers,
// the other nodes. The clock stands still until the test moves it, and what the client sends stays
// here until the test takes it. The bench carries out events as a driver does.
type bench struct {
	tb       testing.TB
	now      time.Duration
	client   *Client
	own      *Session // the node's own session
	sent     []Send
	events   []Event
	finished map[*Call]bool
	lost     map[*Session]bool
	out      Output
	play     func(Send) // if not nil, it takes what is sent
}

// The nodes that a test plays: b leads, c is another member.
const (
	nodeA, nodeB, nodeC = 1, 2, 3
	benchTTL            = 12 * time.Second
	benchTerm           = 5
	benchRho            = 0.01
)

var benchMembers = []replica.Peer{{Node: nodeB, Name: "b", Addr: "b:1"}, {Node: nodeC, Name: "c", Addr: "c:1"}}

// byB is how b speaks as the leader.
var byB = message.Leadership{Leader: nodeB, Term: benchTerm}

// newBench returns a bench whose client knows that b leads shard 0, of one or as many as are said.
func newBench(tb testing.TB, shards ...int) *bench {
	tb.Helper()
	b := &bench{tb: tb, now: time.Minute, own: NewSession(true, benchTTL), finished: make(map[*Call]bool), lost: make(map[*Session]bool)}
	count := 1
	if len(shards) > 0 {
		count = shards[0]
	}
	b.client = New(Config{Node: nodeA, Name: "a", Shards: count, Rho: benchRho, Rand: rand.New(rand.NewPCG(1, 2))})
	b.looks(benchMembers...)
	b.hears(nodeB, serves(benchTerm))
	return b
}

// looks gives the client a view of these nodes.
func (b *bench) looks(all ...replica.Peer) {
	v, named := View{Core: all}, make(map[string]replica.Peer)
	var names []ring.Member
	for _, m := range all {
		names, named[m.Name] = append(names, ring.Member{Name: m.Name}), m
	}
	table := ring.New(names, b.client.cfg.Shards, 3)
	for sh := range b.client.cfg.Shards {
		var target []replica.Peer
		for _, name := range table.Replicas(sh) {
			target = append(target, named[name])
		}
		v.Targets = append(v.Targets, target)
	}
	b.do(Viewed{v})
}

// shard returns the client's part for shard 0.
func (b *bench) shard() *shardClient { return b.client.shard(0) }

// leases returns how many leases there are in all shards.
func (b *bench) leases() (count int) {
	b.client.each(func(*lease) { count++ })
	return count
}

// do gives the client an input, and then the Ticks that are due.
func (b *bench) do(in Input) {
	b.tb.Helper()
	b.step(in)
	b.settle()
}

// step gives the client an input, and carries out what comes of it.
func (b *bench) step(in Input) {
	b.tb.Helper()
	b.client.Step(b.now, in, &b.out)
	events, sends := slices.Clone(b.out.Events), slices.Clone(b.out.Sends)
	b.out.Reset()
	var lost []*Session
	for _, e := range events {
		switch e := e.(type) {
		case Finished:
			if b.finished[e.Call] || !e.Call.over {
				b.tb.Fatalf("a call is finished twice, or has no result: %+v", e.Call)
			}
			b.finished[e.Call] = true
		case End:
			e.Hold.End(env.Never, e.Cause)
		case SessionLost:
			if b.lost[e.Session] || e.Session.Err() != fault.ErrLost || e.Session.Own {
				b.tb.Fatalf("a session is lost that was lost before, or is none of a user's: %v", e.Session.Err())
			}
			b.lost[e.Session] = true
			lost = append(lost, e.Session)
		}
		b.events = append(b.events, e)
	}
	for _, s := range sends {
		if s.To == 0 {
			b.tb.Fatalf("%+v is sent to no node", s)
		}
		if b.play != nil {
			b.play(s)
		} else {
			b.sent = append(b.sent, s)
		}
	}
	for _, s := range lost {
		b.step(LoseSession{s})
	}
}

// settle gives the client the Ticks that are due.
func (b *bench) settle() {
	b.tb.Helper()
	for turns := 0; b.client.Deadline() <= b.now; turns++ {
		if turns > 100 {
			b.tb.Fatalf("a Tick is due again and again at %v", b.now)
		}
		b.step(Tick{})
	}
	ticks := func(by time.Duration, why string) {
		if b.client.Deadline() > by {
			b.tb.Fatalf("the next Tick is due at %v, and %s at %v", b.client.Deadline(), why, by)
		}
	}
	for _, s := range b.client.shards {
		if s == nil {
			continue
		}
		for _, c := range s.asks {
			ticks(min(c.retryAt, c.first+noQuorumAfter), "a question is repeated")
		}
	}
	b.client.each(func(l *lease) {
		for _, h := range l.holds {
			if h.pending == nil && h.Err() == nil {
				ticks(h.Deadline(), "a belief ends")
			}
		}
		for _, c := range l.unanswered() {
			ticks(c.retryAt, "a call is repeated")
		}
		if l.renewable() {
			ticks(max(l.renewAt, b.now+time.Millisecond), "a lease is renewed")
		}
		if b.now < l.until {
			ticks(l.until, "a lease ends")
		}
	})
}

// pass lets the time d pass, with a Tick whenever one is due.
func (b *bench) pass(d time.Duration) {
	b.tb.Helper()
	for end := b.now + d; ; {
		b.settle()
		if b.client.Deadline() > end {
			b.now = end
			return
		}
		b.now = b.client.Deadline()
	}
}

// until lets the time pass until t.
func (b *bench) until(t time.Duration) {
	b.tb.Helper()
	b.pass(t - b.now)
}

// stall lets the time d pass without a Tick, and then gives the client what is due.
func (b *bench) stall(d time.Duration) {
	b.tb.Helper()
	b.now += d
	b.settle()
}

// takes returns what was sent since the last call.
func (b *bench) takes() []Send {
	sent := b.sent
	b.sent = nil
	return sent
}

// happened returns the events since the last call.
func (b *bench) happened() []Event {
	events := b.events
	b.events = nil
	return events
}

// expects compares what was sent since the last call, in words, and returns it.
func (b *bench) expects(want ...string) []Send {
	b.tb.Helper()
	sent := b.takes()
	if got := inWords(sent); !slices.Equal(got, want) {
		b.tb.Fatalf("sent %q, want %q", got, want)
	}
	return sent
}

// expect is expects of one message.
func (b *bench) expect(want string) Send {
	b.tb.Helper()
	return b.expects(want)[0]
}

// hears lets the client receive messages of a node about shard 0, with no Tick in between.
func (b *bench) hears(from uint64, messages ...message.Message) {
	b.tb.Helper()
	b.hearsOf(0, from, messages...)
}

func (b *bench) hearsOf(shard int, from uint64, messages ...message.Message) {
	b.tb.Helper()
	for _, m := range messages {
		b.step(Received{Shard: shard, From: from, Message: m})
	}
	b.settle()
}

// asks starts a Lock in shard 0.
func (b *bench) asks(s *Session, q Request) *Call {
	b.tb.Helper()
	return b.asksOf(0, s, q)
}

func (b *bench) asksOf(shard int, s *Session, q Request) *Call {
	b.tb.Helper()
	c := &Call{Kind: Lock, Shard: shard, Session: s, Request: q}
	b.do(Start{c})
	return c
}

// unlocks ends the belief in a hold, and then starts its Unlock.
func (b *bench) unlocks(h *Hold) *Call {
	b.tb.Helper()
	h.End(env.Never, fault.ErrClosed)
	c := &Call{Kind: Unlock, Shard: h.Shard, Hold: h}
	b.do(Start{c})
	return c
}

// extends starts a Fix.
func (b *bench) extends(h *Hold, d time.Duration) *Call {
	b.tb.Helper()
	c := &Call{Kind: Fix, Shard: h.Shard, Hold: h, Length: d}
	b.do(Start{c})
	return c
}

// holds returns a hold in shard 0 whose grant has that token.
func (b *bench) holds(s *Session, q Request, token uint64) *Hold {
	b.tb.Helper()
	c := b.asks(s, q)
	b.hears(nodeB, granted(b.expect("2: lock "+q.Key), token))
	if q.MaxHold > 0 {
		b.hears(nodeB, done(b.expect(fmt.Sprintf("2: fix %s token %d", q.Key, token)), token))
	}
	if !c.over || c.Err != nil || c.Hold == nil {
		b.tb.Fatalf("%+v is not granted: %v, %v", q, c.over, c.Err)
	}
	return c.Hold
}

// closes closes a session, and returns the calls that close its leases.
func (b *bench) closes(s *Session) (calls []*Call) {
	b.tb.Helper()
	s.End(fault.ErrClosed)
	b.happened()
	b.do(CloseSession{s})
	for _, e := range b.events {
		if c, ok := e.(Closing); ok {
			calls = append(calls, c.Call)
		}
	}
	return calls
}

// expectTo returns the one message that was sent since the last call, to any node.
func (b *bench) expectTo(want string) Send {
	b.tb.Helper()
	sent := b.takes()
	if len(sent) != 1 || words(sent[0]) != want {
		b.tb.Fatalf("sent %q, want %q to one node", inWords(sent), want)
	}
	return sent[0]
}

// words names a message as the logs of simulations do.
func words(s Send) string {
	return message.Name(s.Message, 0, func(transport.ID, uint64, uint64) string { return "" })
}

// inWords names messages, and to which nodes they go.
func inWords(sent []Send) (all []string) {
	for _, s := range sent {
		all = append(all, fmt.Sprintf("%d: %s", s.To, words(s)))
	}
	return all
}

func is[M message.Message](s Send) bool { _, ok := s.Message.(M); return ok }

// commandOf returns the command of a request, or nil.
func commandOf(s Send) shard.Command {
	if m, ok := s.Message.(*message.Request); ok {
		return m.Command
	}
	return nil
}

// sessionOf and numberOf return whose command a request carries, and under which number.
func sessionOf(s Send) shard.SessionID {
	id, _ := shard.ClientOf(commandOf(s))
	return id
}

func numberOf(cmd shard.Command) uint64 {
	_, number := shard.ClientOf(cmd)
	return number
}

// renewalOf returns a renewal, or a zero one.
func renewalOf(s Send) message.Renewal {
	if m, ok := s.Message.(*message.Renewal); ok {
		return *m
	}
	return message.Renewal{}
}

// relayed reports whether its receiver is asked to relay a message to the leader.
func relayed(s Send) bool {
	m, ok := s.Message.(*message.Request)
	return ok && m.Relay || renewalOf(s).Relay
}

// sending is a request with the command that a call has sent.
func sending(c *Call) Send { return Send{Message: &message.Request{Command: c.command}} }

// serves is a new leader's word that it leads in a term.
func serves(term uint64) message.Message { return &message.Serving{Term: term} }

// told is what b, who leads, says of a request: p, in which only the outcome matters.
func told(request Send, p message.Reply) message.Message {
	id, number := shard.ClientOf(commandOf(request))
	p.Session.Number, p.Number = id.Number, number
	p.Leadership = byB
	return &p
}

// granted is the grant of a request at the revision that is the token.
func granted(request Send, token uint64) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Granted, Token: token}, Revision: token})
}

// queued is the word that a request waits in the queue.
func queued(request Send, revision uint64) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Queued}, Revision: revision})
}

// done is the word that a command is done.
func done(request Send, revision uint64) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Done}, Revision: revision})
}

// refused is the refusal of a command.
func refused(request Send, why shard.Reason, revision uint64) message.Message {
	return told(request, message.Reply{Event: shard.Event{What: shard.Refused, Reason: why}, Revision: revision})
}

// alive answers a renewal: the session lives at that revision, and was told results.
func alive(renewal Send, revision uint64, results ...shard.Event) *message.Answer {
	q := renewalOf(renewal)
	return &message.Answer{Answer: replica.Answer{Session: q.Session, Ref: q.Ref, Alive: true, Revision: revision, Results: results}, Leadership: byB}
}

// unknown answers a renewal: there is no such session at that revision.
func unknown(renewal Send, revision uint64) *message.Answer {
	m := alive(renewal, revision)
	m.Alive = false
	return m
}

// redirect is what a node says of a request or a renewal: not here, but there.
func redirect(request Send, to, term uint64) message.Message {
	id, number := shard.ClientOf(commandOf(request))
	if is[*message.Renewal](request) {
		id = renewalOf(request).Session
	}
	return &message.Redirect{Session: id.Number, Number: number, Leadership: message.Leadership{Leader: to, Term: term}}
}

// believed is for how long a TTL is believed in (P1).
func believed(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl) * (1 - benchRho) / (1 + benchRho))
}

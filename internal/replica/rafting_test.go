package replica

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
	"github.com/lockmesh/mesh/shard"
)

// newReplica makes replica id of a shard that was founded with three voters, or one that
// was added to it later, if id is none of them.
func newReplica(id uint64, now time.Duration) *Replica {
	cfg := Config{
		Shard: 3, Generation: 1, ID: id, Self: Peer{Node: 100 + id, Name: fmt.Sprint("n", id), Addr: fmt.Sprint("n", id, ":1")},
		Founding: shard.Founding{Check: true, Revision: 1 << 20}, Rho: 0.01, Seed: id, Logger: slog.New(slog.DiscardHandler), Counters: &Counters{},
	}
	if id <= 3 {
		for i := uint64(1); i <= 3; i++ {
			cfg.Founders = append(cfg.Founders, Peer{Node: 100 + i, Name: fmt.Sprint("n", i), Addr: fmt.Sprint("n", i, ":1")})
		}
	}
	return New(cfg, now)
}

// appendsOf returns the wire form of appends for so many shards, of so many entries of so many
// bytes each.
func appendsOf(shards, entries, size int) (b []byte) {
	for range shards {
		f := Frame{Generation: 1, From: 1, To: 2, Message: &raftpb.Message{
			Type: raftpb.MsgApp.Enum(), From: proto.Uint64(1), To: proto.Uint64(2),
			Term: proto.Uint64(7), LogTerm: proto.Uint64(7), Index: proto.Uint64(1000), Commit: proto.Uint64(1000),
		}}
		for i := range entries {
			f.Message.Entries = append(f.Message.Entries, &raftpb.Entry{
				Type: raftpb.EntryNormal.Enum(), Term: proto.Uint64(7), Index: proto.Uint64(1001 + uint64(i)),
				Data: bytes.Repeat([]byte{byte(1 + i)}, size),
			})
		}
		b = appendFrame(b, f)
	}
	return b
}

// trio is three replicas, or those and some more, between which every message arrives at
// once, in its wire form.
type trio struct {
	now      time.Duration
	replicas []*Replica               // by their IDs
	cut      map[uint64]bool          // replicas that nothing reaches, nor leaves
	asleep   map[uint64]bool          // those that nobody has ordered yet
	late     time.Duration            // how late each tick comes
	far      map[uint64]time.Duration // replicas to which raft's messages take so long, and from which
	flying   []flight
	loses    func(Frame) bool
	misses   func(Chunk) bool
	unsaid   func(Sum) bool
	events   []shard.Event
	answers  []Answer
	dropped  []Dropped
	offers   []offer
	ended    []Removed // what those said who were asked
}

// flight is a message of raft's on its way between replicas of which one is far.
type flight struct {
	at   time.Duration
	from *Replica
	send Send
}

func newTrio() *trio {
	w := &trio{now: time.Second, cut: make(map[uint64]bool), asleep: make(map[uint64]bool)}
	w.add(3)
	clear(w.asleep)
	return w
}

// add makes n replicas more.
func (w *trio) add(n int) {
	for range n {
		id := uint64(len(w.replicas) + 1)
		w.replicas = append(w.replicas, newReplica(id, w.now))
		w.asleep[id] = true
	}
}

// reached returns the replica that hears what one says to another, or nil.
func (w *trio) reached(from, to uint64) *Replica {
	if to > uint64(len(w.replicas)) || w.cut[from] || w.cut[to] {
		return nil
	}
	return w.replicas[to-1]
}

// settle lets the replicas talk until nobody has more to say.
func (w *trio) settle(tb testing.TB) {
	tb.Helper()
	for busy := true; busy; {
		busy = false
		for _, r := range w.replicas {
			if r.Rests() {
				continue
			}
			busy = true
			var out Output
			r.Ready(w.now, &out)
			w.events, w.dropped = append(w.events, out.Events...), append(w.dropped, out.Dropped...)
			w.answers = append(w.answers, out.Answers...)
			slices.SortStableFunc(out.Sends, func(a, b Send) int { return urgency(b) - urgency(a) })
			for _, s := range out.Sends {
				if d := w.far[r.ID()] + w.far[s.Node-100]; d > 0 {
					w.flying = append(w.flying, flight{w.now + d, r, s})
				} else {
					w.bring(tb, r, s)
				}
			}
		}
	}
}

// offer is an Offer to a node.
type offer struct{ node, term uint64 }

// urgency is 1 for raft's messages that do not wait behind others on their connection.
func urgency(s Send) int {
	if f, is := s.Message.(*Frame); is && f.Urgent() {
		return 1
	}
	return 0
}

// bring brings a message of r's to its replica.
func (w *trio) bring(tb testing.TB, r *Replica, s Send) {
	tb.Helper()
	id := s.Node - 100
	to := w.reached(r.ID(), id)
	switch m := s.Message.(type) {
	case *Frame:
		rd := wire.NewReader(appendFrame(nil, *m))
		got := readFrame(rd)
		if err := rd.End(); err != nil {
			tb.Fatalf("%v from %d to %d: %v", m.Message.GetType(), m.From, m.To, err)
		}
		seen := got
		seen.To = id // also if it is for anybody there
		if to != nil && (w.loses == nil || !w.loses(seen)) {
			if gone := to.Receive(w.now, 100+got.From, &got); gone != nil {
				w.ended = append(w.ended, *gone.(*Removed))
			}
		}
	case *Host:
		if to := w.reached(r.ID(), m.ID); to != nil && w.asleep[m.ID] {
			delete(w.asleep, m.ID)
			to.election.arm(w.now)
		}
	case *Offer:
		w.offers = append(w.offers, offer{s.Node, m.Term})
	case *Chunk:
		if to != nil && (w.misses == nil || !w.misses(*m)) {
			to.Receive(w.now, 100+m.From, m)
		}
	case *Sum:
		rd := wire.NewReader(encode(nil, *m))
		got := decode[Sum](rd)
		if err := rd.End(); err != nil || id != m.To {
			tb.Fatalf("%+v came back as %+v: %v", m, got, err)
		}
		if to != nil && (w.unsaid == nil || !w.unsaid(*m)) {
			to.Receive(w.now, 100+m.From, &got)
		}
	case *ChunkAck:
		if to != nil {
			to.Receive(w.now, 100+m.From, m)
		}
	}
}

// sent returns the messages of one type that are to be sent.
func sent[M wire.Message](out *Output) (all []M) {
	for _, s := range out.Sends {
		if m, is := s.Message.(M); is {
			all = append(all, m)
		}
	}
	return all
}

// run lets ticks pass.
func (w *trio) run(tb testing.TB, ticks int) {
	tb.Helper()
	for range ticks {
		w.settle(tb)
		w.now += TickInterval + w.late
		for len(w.flying) > 0 && w.flying[0].at <= w.now { // all that fly take equally long
			f := w.flying[0]
			w.flying = w.flying[1:]
			w.bring(tb, f.from, f.send)
		}
		for _, r := range w.replicas {
			if !w.asleep[r.ID()] {
				r.Tick(w.now, true)
			}
		}
	}
	w.settle(tb)
}

// led returns a trio whose first replica serves.
func led(tb testing.TB) (*trio, *Replica) {
	tb.Helper()
	w := newTrio()
	w.run(tb, 3)
	if r := w.replicas[0]; r.Serving() {
		return w, r
	}
	tb.Fatal("the first founder does not serve")
	return nil, nil
}

func ask(n uint64, key string) (shard.Acquire, []byte) {
	a := shard.Acquire{
		Call: shard.Call{Session: shard.SessionID{Node: 7, Number: 1}, Number: n, Since: 1 << 20}, TTL: ttl, Name: "node", Key: key,
		Weight: shard.Whole, Capacity: shard.Whole, Value: bytes.Repeat([]byte("v"), 4000),
	}
	return a, shard.AppendCommand(nil, a)
}

func TestAThreeFoldShardGrants(t *testing.T) {
	w, r := led(t)
	a, raw := ask(1, "k")
	if err := r.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	w.run(t, 4)
	var got shard.Event
	for _, g := range w.events {
		if g.What == shard.Granted {
			got = g
		}
	}
	if got.Token <= 1<<20 || got.Session != a.Session {
		t.Fatalf("events %+v", w.events)
	}
	for _, o := range w.replicas {
		if o.Table().Digest() != r.Table().Digest() {
			t.Errorf("replica %d has another table", o.ID())
		}
	}
}

// While leadership is on its way to a replica that does not answer, nothing can be
// appended. What clients ask for meanwhile must not become one entry that no follower
// takes.
func TestWhatGathersDuringATransferFitsIntoEntries(t *testing.T) {
	w, r := led(t)
	w.run(t, 2*HeartbeatTicks)
	w.cut[2] = true
	r.Receive(w.now, 102, &Accept{r.Term()})
	w.settle(t)
	for n := range uint64(400) {
		a, raw := ask(n+1, fmt.Sprint("k", n))
		if err := r.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
	}
	w.run(t, 2*electionTicks)
	if !r.Serving() {
		t.Fatal("the leader was deposed")
	}
	granted := 0
	for _, e := range w.events {
		if e.What == shard.Granted {
			granted++
		}
	}
	if third := w.replicas[2]; granted == 0 || third.Applied() != r.Applied() {
		t.Errorf("%d of 400 granted; the third replica is at entry %d, the leader at %d", granted, third.Applied(), r.Applied())
	}
}

// Clients may ask for more at once than a batch holds: full entries are appended meanwhile.
func TestABurstIsAppended(t *testing.T) {
	const burst = 2 * maxHeld
	w, r := led(t)
	w.run(t, 2*HeartbeatTicks)
	asked := 0
	for bytes := 0; bytes < burst; asked++ {
		a, raw := ask(uint64(asked)+1, fmt.Sprint("k", asked))
		if err := r.Submit(w.now, a, raw); err != nil {
			t.Fatal(err)
		}
		bytes += len(raw)
	}
	w.run(t, 2*HeartbeatTicks)
	granted := 0
	for _, e := range w.events {
		if e.What == shard.Granted {
			granted++
		}
	}
	if granted != asked {
		t.Errorf("%d of %d commands took effect", granted, asked)
	}
}

// frames returns one of each kind of raft message.
func frames() []Frame {
	entry := func(kind raftpb.EntryType, term uint64, data string) *raftpb.Entry {
		e := &raftpb.Entry{Type: kind.Enum(), Term: proto.Uint64(term)}
		if data != "" {
			e.Data = []byte(data)
		}
		return e
	}
	messages := []*raftpb.Message{
		{
			Type: raftpb.MsgApp.Enum(), Term: proto.Uint64(3), LogTerm: proto.Uint64(2), Index: proto.Uint64(7), Commit: proto.Uint64(6),
			Entries: []*raftpb.Entry{entry(raftpb.EntryNormal, 2, "abc"), entry(raftpb.EntryConfChangeV2, 3, ""), entry(raftpb.EntryNormal, 3, "")},
		},
		{Type: raftpb.MsgApp.Enum(), Term: proto.Uint64(1), LogTerm: proto.Uint64(1), Index: proto.Uint64(1), Commit: proto.Uint64(1)},
		{Type: raftpb.MsgAppResp.Enum(), Term: proto.Uint64(3), Index: proto.Uint64(1 << 40), RejectHint: proto.Uint64(0), LogTerm: proto.Uint64(0)},
		{Type: raftpb.MsgAppResp.Enum(), Term: proto.Uint64(3), Index: proto.Uint64(9), Reject: proto.Bool(true), RejectHint: proto.Uint64(5), LogTerm: proto.Uint64(2)},
		{Type: raftpb.MsgHeartbeat.Enum(), Term: proto.Uint64(3), Commit: proto.Uint64(1), Context: []byte("01234567")},
		{Type: raftpb.MsgHeartbeatResp.Enum(), Term: proto.Uint64(3), Context: []byte("01234567")},
		{Type: raftpb.MsgHeartbeatResp.Enum(), Term: proto.Uint64(3)},
		{Type: raftpb.MsgVote.Enum(), Term: proto.Uint64(4), Index: proto.Uint64(9), LogTerm: proto.Uint64(3), Context: []byte("CampaignTransfer")},
		{Type: raftpb.MsgVoteResp.Enum(), Term: proto.Uint64(4), Reject: proto.Bool(true)},
		{Type: raftpb.MsgPreVote.Enum(), Term: proto.Uint64(4), Index: proto.Uint64(9), LogTerm: proto.Uint64(3)},
		{Type: raftpb.MsgPreVoteResp.Enum(), Term: proto.Uint64(4)},
		{Type: raftpb.MsgTimeoutNow.Enum(), Term: proto.Uint64(4)},
		{Type: raftpb.MsgReadIndex.Enum(), Entries: []*raftpb.Entry{entry(raftpb.EntryNormal, 0, "ctx")}},
		{Type: raftpb.MsgProp.Enum(), Entries: []*raftpb.Entry{entry(raftpb.EntryNormal, 0, "prop")}},
	}
	var all []Frame
	for _, m := range messages {
		m.From, m.To = proto.Uint64(2), proto.Uint64(1)
		all = append(all, Frame{Generation: 1, From: 2, To: 1, Message: m})
	}
	return all
}

// elements are what a frame should have on the wire.
func elements(f Frame) []any {
	m := f.Message
	entries := []any{}
	for _, e := range m.Entries {
		entries = append(entries, uint64(e.GetType()), e.GetTerm(), append([]byte{}, e.Data...))
	}
	return []any{f.Generation, f.From, f.To, []any{
		uint64(m.GetType()), m.GetTerm(), m.GetLogTerm(), m.GetIndex(), m.GetCommit(), m.GetReject(), m.GetRejectHint(),
		append([]byte{}, m.Context...), entries,
	}}
}

func TestFramesTravel(t *testing.T) {
	for _, f := range frames() {
		t.Run(f.Message.GetType().String(), func(t *testing.T) {
			b := appendFrame(nil, f)
			if want := wiretest.Encode(t, elements(f)...); !bytes.Equal(b, want) {
				t.Errorf("%v is written as %x, want %x", f, b, want)
			}
			r := wire.NewReader(b)
			got := readFrame(r)
			if err := r.End(); err != nil {
				t.Fatal(err)
			}
			want := &raftpb.Message{
				Term: proto.Uint64(0), LogTerm: proto.Uint64(0), Index: proto.Uint64(0), Commit: proto.Uint64(0),
				Reject: proto.Bool(false), RejectHint: proto.Uint64(0),
			}
			proto.Merge(want, f.Message)
			for i, e := range want.Entries {
				e.Index = proto.Uint64(f.Message.GetIndex() + 1 + uint64(i))
			}
			if got.Generation != f.Generation || got.From != f.From || got.To != f.To || got.Message.String() != want.String() {
				t.Errorf("%v came back as %+v", f, got)
			}
		})
	}
}

func TestMalformedFrames(t *testing.T) {
	type list = []any
	type kind = raftpb.MessageType
	// message is one in term 1, but for what is changed: position, value.
	message := func(k kind, change ...any) list {
		m := list{uint64(k), uint64(1), uint64(1), uint64(1), uint64(1), false, uint64(0), []byte{}, list{}}
		for i := 0; i < len(change); i += 2 {
			m[change[i].(int)] = change[i+1]
		}
		return m
	}
	frame := func(from, to uint64, m list) []byte { return wiretest.Encode(t, uint64(1), from, to, m) }
	entries := func(e ...any) []byte { return frame(2, 1, message(raftpb.MsgApp, 8, list(e))) }
	round := func(k kind, size int) []byte { return frame(2, 1, message(k, 7, make([]byte, size))) }
	withoutTerm := func(k kind) []byte { return frame(2, 1, message(k, 1, uint64(0))) }
	unsaid := func(k kind) []byte { return frame(2, 1, message(k)) }
	half := entries(uint64(0), uint64(1))
	tests := []struct {
		name  string
		bytes []byte
	}{
		{"nothing", nil},
		{"half", appendFrame(nil, frames()[0])[:20]},
		{"from replica zero", frame(0, 1, message(raftpb.MsgApp))},
		{"to replica zero", frame(1, 0, message(raftpb.MsgApp))},
		{"from a replica that raft keeps for itself", frame(raft.LocalApplyThread, 1, message(raftpb.MsgApp))},
		{"from a replica to itself", frame(1, 1, message(raftpb.MsgApp))},
		{"a field too few", append(frame(2, 1, message(raftpb.MsgApp)[:8]), wiretest.Encode(t, list{})...)},
		{"a field too many", frame(2, 1, append(message(raftpb.MsgApp), uint64(0)))},
		{"part of an entry", half},
		{"an entry of an unknown type", entries(uint64(3), uint64(1), []byte{})},
		{"more entries than there is room for", slices.Concat(half[:len(half)-3], []byte{0xdd, 0, 1, 0, 0})},
		{"an entry that is too long", entries(uint64(0), uint64(1), make([]byte, maxEntry+1))},
		{"a long round", round(raftpb.MsgHeartbeat, roundSize+1)},
		{"a short round", round(raftpb.MsgHeartbeatResp, roundSize-1)},
		{"a long context", round(raftpb.MsgVote, maxContext+1)},
		{"a vote without a term", withoutTerm(raftpb.MsgVote)},
		{"an answer to a vote without a term", withoutTerm(raftpb.MsgVoteResp)},
		{"a prevote without a term", withoutTerm(raftpb.MsgPreVote)},
		{"an answer to a prevote without a term", withoutTerm(raftpb.MsgPreVoteResp)},
		{"a call to stand without a term", withoutTerm(raftpb.MsgTimeoutNow)},
		{"a kind that there is not", unsaid(100)},
		{"a snapshot that is not in chunks", unsaid(raftpb.MsgSnap)},
		{"a message that only a replica says to itself", unsaid(raftpb.MsgHup)},
		{"a wish to lead that was forwarded", unsaid(raftpb.MsgTransferLeader)},
	}
	for _, k := range []kind{raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgProp} {
		if r := wire.NewReader(unsaid(k)); readFrame(r).Message.GetType() != k || r.End() != nil {
			t.Errorf("a sound message %v: %v", k, r.Err())
		}
	}
	for _, k := range []kind{raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp} {
		if r := wire.NewReader(round(k, roundSize)); readFrame(r).Message.GetType() != k || r.End() != nil {
			t.Errorf("a sound message %v: %v", k, r.Err())
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := wire.NewReader(tt.bytes)
			if f := readFrame(r); !errors.Is(r.Err(), wire.ErrMalformed) {
				t.Errorf("read %+v, error %v", f, r.Err())
			}
			if cut := tt.name == "nothing" || tt.name == "half"; cut != errors.Is(r.Err(), wire.ErrShort) {
				t.Errorf("error %v", r.Err())
			}
		})
	}
}

// guarded runs what a shard loop runs, as that does, and reports whether r lives.
func guarded(r *Replica, f func()) (lives bool) {
	defer func() {
		if p := recover(); p != nil {
			r.Fail(fmt.Errorf("panic: %v", p))
		}
		lives = r.Err() == nil
	}()
	f()
	return
}

// after does to a replica, dead or alive, whatever a shard loop may still do to it. That is
// guarded for the living only.
func after(r *Replica, now time.Duration) {
	for range 3 {
		now += TickInterval
		var out Output
		use := func() {
			r.Tick(now, true)
			r.Wake(now)
			r.NodeGone(now, 102)
			r.Ready(now, &out)
			a, raw := ask(1, "k")
			_ = r.Submit(now, a, raw)
			_ = r.Renew(now, Renewal{})
			r.Receive(now, 102, &Accept{r.Term()})
			r.Receive(now, 0, &ChunkAck{Generation: 1, To: r.ID()})
			r.Ready(now, &out)
		}
		if r.Err() == nil {
			guarded(r, use)
		} else {
			use()
		}
		_, _, _ = r.Serving(), r.AtRest(), r.Moving()
		_, _, _, _ = r.Configuration()
		_, _ = r.Leader()
		_, _, _ = r.Voters(), r.Joint(), r.WakeAt()
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, fr := range frames() {
		f.Add(appendFrame(nil, fr))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := wire.NewReader(data)
		fr := readFrame(r)
		if r.Err() != nil {
			if !errors.Is(r.Err(), wire.ErrMalformed) {
				t.Fatalf("error %v, want ErrMalformed", r.Err())
			}
			return
		}
		if used := data[:len(data)-r.Len()]; !bytes.Equal(appendFrame(nil, fr), used) {
			t.Fatalf("%+v was read from %x and is written as %x", fr, used, appendFrame(nil, fr))
		}
		// Replicas of all ranks take it, or it ends that replica alone.
		w, leader := led(t)
		for _, to := range []*Replica{leader, w.replicas[1], newReplica(4, w.now)} {
			if fr.From == to.ID() {
				continue
			}
			fr.Generation, fr.To = 1, to.ID()
			fr.Message.To = proto.Uint64(to.ID())
			guarded(to, func() {
				to.Receive(w.now, 102, &fr)
				var out Output
				to.Ready(w.now, &out)
			})
			after(to, w.now)
		}
	})
}

// sentSnapshot returns the chunks in which a leader sends its shard to a new replica 4,
// after that many keys were asked for.
func sentSnapshot(tb testing.TB, keys int) []Chunk {
	tb.Helper()
	w, r := led(tb)
	for i := range keys {
		a, _ := ask(uint64(i+1), fmt.Sprint("k", i))
		a.Value = nil
		if err := r.Submit(w.now, a, shard.AppendCommand(nil, a)); err != nil {
			tb.Fatal(err)
		}
		w.run(tb, 4)
	}
	r.addLearner(Peer{Node: 104, Name: "n4", Addr: "n4:1"})
	w.run(tb, 4)
	r.members.highest = formerReplica
	r.beginTransfer(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), To: proto.Uint64(4), From: proto.Uint64(r.ID()), Term: proto.Uint64(r.Term()),
	}, Peer{Node: 104})
	var chunks []Chunk
	for _, s := range r.sender.sends {
		chunks = append(chunks, *s.Message.(*Chunk))
	}
	return chunks
}

// formerReplica is the highest ID that the shard of sentSnapshot ever gave, to a replica that
// is gone.
const formerReplica = 9

func TestChunksTravel(t *testing.T) {
	for _, c := range sentSnapshot(t, 1) {
		r := wire.NewReader(encode(nil, c))
		got := decode[Chunk](r)
		if r.End() != nil || fmt.Sprint(got) != fmt.Sprint(c) {
			t.Errorf("%+v came back as %+v, %v", c, got, r.Err())
		}
	}
	ack := ChunkAck{Generation: 1, From: 4, To: 1, Transfer: 1 << 60, Next: 3}
	r := wire.NewReader(encode(nil, ack))
	if got := decode[ChunkAck](r); r.End() != nil || got != ack {
		t.Errorf("%+v came back as %+v, %v", ack, got, r.Err())
	}
}

// Promise: P24 and P40: a snapshot brings the table and the replicas, and which IDs of replicas were
// used, also of those that are gone.
func TestASnapshotArrives(t *testing.T) {
	r := newReplica(4, time.Second)
	for _, c := range sentSnapshot(t, 1) {
		r.Receive(time.Second, 101, &c)
	}
	var out Output
	r.Ready(time.Second, &out)
	if r.Applied() == 0 || r.Table().Revision() <= 1<<20 || len(r.members.peers) != 4 {
		t.Errorf("applied %d, revision %d, peers %v", r.Applied(), r.Table().Revision(), r.members.peers)
	}
	if r.members.highest != formerReplica {
		t.Errorf("after the snapshot the highest ID of a replica is %d, want %d", r.members.highest, formerReplica)
	}
}

// Leadership moves while a new replica is sent a snapshot, so that it gets two: the newer
// one first, and the older one before raft has said which of them it takes. It once
// installed the older one's table as that of the newer one's entry.
func TestTwoSnapshotsArriveAtOnce(t *testing.T) {
	newer, older := sentSnapshot(t, 2), sentSnapshot(t, 1)
	for _, first := range []bool{true, false} { // the newer one
		r := newReplica(4, time.Second)
		for i, c := range slices.Concat(newer, older, newer) {
			if late := i >= len(newer) && i < len(newer)+len(older); late {
				c.Transfer++
			} else if first != (i < len(newer)) {
				continue
			}
			r.Receive(time.Second, 101, &c)
		}
		var out Output
		r.Ready(time.Second, &out)
		held := make(map[string]bool)
		for _, rec := range r.Table().Records() {
			for _, p := range rec.Requests {
				held[p.Key] = true
			}
		}
		if !held["k1"] || !held["k0"] {
			t.Errorf("the newer one first %v: at entry %d the table lacks keys, it is at revision %d", first, r.Applied(), r.Table().Revision())
		}
	}
}

func FuzzReadChunk(f *testing.F) {
	for _, c := range sentSnapshot(f, 1) {
		f.Add(encode(nil, c))
	}
	f.Add(encode(nil, Chunk{Generation: 1, From: 1, To: 4, Transfer: 9, Data: []byte("data")}))
	f.Fuzz(func(t *testing.T, data []byte) {
		rd := wire.NewReader(data)
		c := decode[Chunk](rd)
		if rd.Err() != nil {
			if !errors.Is(rd.Err(), wire.ErrMalformed) {
				t.Fatalf("error %v, want ErrMalformed", rd.Err())
			}
			return
		}
		if used := data[:len(data)-rd.Len()]; !bytes.Equal(encode(nil, c), used) {
			t.Fatalf("%+v was read from %x and is written as %x", c, used, encode(nil, c))
		}
		r := newReplica(4, time.Second)
		r.Receive(time.Second, 101, &c)
		var out Output
		r.Ready(time.Second, &out)
		after(r, time.Second)
	})
}

// FuzzMeta shows that nonsense in a snapshot's last chunk is refused before raft sees it.
func FuzzMeta(f *testing.F) {
	chunks := sentSnapshot(f, 1)
	last := chunks[len(chunks)-1]
	f.Add(last.Meta)
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, meta []byte) {
		r := newReplica(4, time.Second)
		for _, c := range chunks[:len(chunks)-1] {
			r.Receive(time.Second, 101, &c)
		}
		c := last
		c.Meta = meta
		r.Receive(time.Second, 101, &c)
		var out Output
		r.Ready(time.Second, &out)
		after(r, time.Second)
	})
}

// Promise: P23: what a node says of a replica of another generation counts for nothing.
func TestOtherGenerationsAskForNothing(t *testing.T) {
	for generation, want := range map[uint64]bool{1: true, 2: false} {
		w, leader := led(t)
		w.run(t, 2*HeartbeatTicks)
		leader.Receive(w.now, 103, &Missing{generation, 3})
		if missing := leader.vanished[3]; missing != want {
			t.Errorf("said of generation %d: 3 is missing: %v", generation, missing)
		}
	}
}

// A node says that a replica which it hosted is gone for good, after a panic for example:
// the shard gets another replica there, under an ID that it never used (P24, P41).
func TestAMissingReplicaIsReplaced(t *testing.T) {
	w, r := led(t)
	for _, o := range w.replicas {
		o.SetTarget(targetOf(r, 1, 2, 3))
	}
	w.run(t, 2*placeEvery)
	lost, _ := r.Peer(3)
	w.cut[3] = true
	r.missing(lost.Node+1, 3)           // not that node's to say
	r.missing(lost.Node, 9)             // no replica of the shard's
	w.replicas[1].missing(lost.Node, 3) // it leads nobody
	w.run(t, 2*placeEvery)
	if len(r.Learners()) != 0 || len(r.vanished) != 0 {
		t.Fatal("replaced on a stranger's word")
	}
	for r.leading.placing.skipped != 0 { // it looked a moment ago, and need not do so soon
		w.run(t, 1)
	}
	r.missing(lost.Node, 3)
	w.run(t, 1)
	rests := r.leading.placing.rests
	r.leading.placing.rests = true
	if r.missing(lost.Node, 3); !r.leading.placing.rests { // nodes repeat it
		t.Error("what is repeated is news")
	}
	r.leading.placing.rests = rests
	learners := r.Learners()
	if len(learners) != 1 || learners[0] != 4 {
		t.Fatalf("learners %v, want the new replica 4", learners)
	}
	if p, _ := r.Peer(4); p != lost {
		t.Errorf("it shall live at %+v, want %+v", p, lost)
	}
}

// Promise: C7: every replica remembers which voters are gone for good, as their own nodes have said: without a leader nobody replaces them.
func TestVotersHaveVanished(t *testing.T) {
	w, leader := led(t)
	for _, r := range w.replicas {
		if all := r.Vanished(); len(all) > 0 {
			t.Errorf("replica %d: %v are gone", r.ID(), all)
		}
	}
	r := w.replicas[1]
	r.Receive(w.now, 103, &Missing{2, 3})      // of another generation
	r.Receive(w.now, 101, &Missing{1, 3})      // not that node's to say
	r.Receive(w.now, 109, &Missing{1, 9})      // no replica of the shard's
	leader.Receive(w.now, 103, &Missing{1, 3}) // which does not tell others
	if all := r.Vanished(); len(all) > 0 {
		t.Errorf("on a stranger's word %v are gone", all)
	}
	r.Receive(w.now, 103, &Missing{1, 3})
	for _, o := range []*Replica{r, leader} {
		if all := o.Vanished(); !slices.Equal(all, []uint64{103}) {
			t.Errorf("replica %d: %v are gone, want 103", o.ID(), all)
		}
	}
}

// The leader alone logs that a replica is gone and will be replaced, also if it has heard so before it led: one that lags may
// still count a replica that was removed in good order.
func TestTheLeaderLogsWhoHasVanished(t *testing.T) {
	w, leader := led(t)
	r := w.replicas[1]
	var log bytes.Buffer
	r.log = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 { // nodes repeat it
		r.Receive(w.now, 103, &Missing{1, 3})
	}
	if log.Len() > 0 {
		t.Errorf("a follower logs %s", &log)
	}
	w.cut[leader.ID()] = true
	if r.election.campaign = w.now; w.leader(t, leader.ID()) != r {
		t.Fatal("another one leads")
	}
	r.Receive(w.now, 103, &Missing{1, 3})
	if n := strings.Count(log.String(), "gone=3"); n != 1 {
		t.Errorf("the leader logs %d times that replica 3 is gone, want once: %s", n, &log)
	}
	r.Receive(w.now, 101, &Missing{1, 1})
	if n := strings.Count(log.String(), "gone=1"); n != 1 {
		t.Errorf("the leader logs %d times that replica 1 is gone, want once: %s", n, &log)
	}
}

// An entry keeps twice its data from being freed at the most, or a small frame: not a large one
// that brought it along.
func TestAnEntryKeepsNoLargeFrame(t *testing.T) {
	for _, tt := range []struct {
		name        string
		entry, rest int // bytes
		shares      bool
	}{
		{"it is most of its frame", 10_000, 100, true},
		{"it is a small part of a large frame", 10, 512 << 10, false},
		{"it is less than half of its frame", 10_000, 10_100, false},
		{"it is a bit more than half", 10_000, 9_900, true},
		{"its frame is small", 10, 3_000, true},
		{"its frame is barely not small", 10, 4_100, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			frame := append(appendsOf(1, 1, tt.entry), make([]byte, tt.rest)...)
			m := readFrame(wire.NewReader(frame)).Message
			want := slices.Clone(m.Entries[0].Data)
			clear(frame)
			if shares := !bytes.Equal(m.Entries[0].Data, want); len(want) != tt.entry || shares != tt.shares {
				t.Errorf("%d bytes out of a frame of %d share its memory: %t, want %t", len(want), len(frame), shares, tt.shares)
			}
		})
	}
}

// What a follower keeps of what it is sent is about as large as its log: of large appends it
// still has the short ones among them, when the log is cut.
func TestALogKeepsWhatItHolds(t *testing.T) {
	const frames, large = 64, 256 << 10
	var log []*raftpb.Entry
	before := heap()
	for range frames {
		r := wire.NewReader(slices.Concat(appendsOf(1, 1, large), appendsOf(1, 1000, 10)))
		readFrame(r)
		log = append(log, readFrame(r).Message.Entries[999]) // the others are cut off
		if r.End() != nil {
			t.Fatal(r.Err())
		}
	}
	if kept := heap() - before; kept > frames*(smallFrame+1<<10) {
		t.Errorf("%d entries of 10 bytes keep %d bytes", frames, kept)
	}
	runtime.KeepAlive(log)
}

// Promise: P23 and P41: a replica stops itself at a command that it does not know, and does nothing
// more: it applies nothing that is behind that, leads no more, and takes nothing from anybody.
func TestAStoppedReplicaDoesNothingMore(t *testing.T) {
	w, leader := led(t)
	a, raw := ask(1, "k")
	w.run(t, 2*HeartbeatTicks)
	applied := make(map[uint64]uint64)
	for _, r := range w.replicas {
		r.cfg.Watch = func(fact any) {
			if a, is := fact.(env.Applied); is {
				applied[r.ID()] = a.Index
			}
		}
	}
	last := lastIndex(t, leader)
	w.events = nil
	leader.batch.data = wire.AppendUint(wire.AppendArray(nil, 2), 200) // no command has this number
	leader.propose()
	leader.batch.inFlight = false // what is behind it is appended at once
	if err := leader.Submit(w.now, a, raw); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	if got := lastIndex(t, leader); got != last+2 {
		t.Fatalf("%d entries were appended", got-last)
	}
	for _, r := range w.replicas {
		if r.Err() == nil && r == leader || r.Serving() || applied[r.ID()] > last || r.Table().Has(a.Session) {
			t.Errorf("replica %d: stopped with %v, serves %v, applied entry %d of %d", r.ID(), r.Err(), r.Serving(), applied[r.ID()], last)
		}
	}
	if len(w.events) > 0 {
		t.Errorf("clients hear of %+v", w.events)
	}
	if err := leader.Submit(w.now, a, raw); !errors.Is(err, ErrNotServing) {
		t.Errorf("a command: %v", err)
	}
	if err := leader.Renew(w.now, Renewal{Session: a.Session}); !errors.Is(err, ErrNotServing) {
		t.Errorf("a renewal: %v", err)
	}
	gone := &Frame{Generation: 1, From: 9, To: anybody, Message: &raftpb.Message{
		Type: raftpb.MsgHeartbeatResp.Enum(), Term: proto.Uint64(leader.Term()), Context: []byte(question),
	}}
	leader.members.highest = 9
	if got := leader.Receive(w.now, 109, gone); got != nil {
		t.Errorf("it tells a removed replica %v", got)
	}
	leader.NodeGone(w.now, 102)
	leader.Wake(w.now + 4*ElectionTimeout)
	leader.Tick(w.now+4*ElectionTimeout, true)
	var out Output
	if leader.Ready(leader.now, &out); !leader.Rests() || leader.WakeAt() != never || len(out.Sends) > 0 {
		t.Errorf("it rests: %v, and wakes at %v, after the frames %v", leader.Rests(), leader.WakeAt(), out.Sends)
	}
}

// Promise: G6, P40: entries that a follower needs that answers are kept when the log is cut, and those
// that a silent one needs are not.
func TestTheLogIsKeptForWhoAnswers(t *testing.T) {
	tests := []struct {
		name   string
		before func(w *trio)
		kept   bool // all that it lacks
	}{
		{"it answers, and appends to it are lost", func(w *trio) {
			w.loses = func(f Frame) bool { return f.To == 3 && f.Message.GetType() == raftpb.MsgApp }
		}, true},
		{"it is silent", func(w *trio) { w.cut[3] = true }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := led(t)
			w.run(t, 2*HeartbeatTicks)
			tt.before(w)
			match := leader.progress()[3].Match
			w.work(t, 2*compactEntries)
			first, err := leader.store.FirstIndex()
			if err != nil {
				t.Fatal(err)
			}
			if kept := first <= match+1; kept != tt.kept {
				t.Errorf("it has the log up to entry %d, and the leader has it from %d on", match, first)
			}
			if first, _ = w.replicas[1].store.FirstIndex(); first <= match+1 {
				t.Errorf("a follower keeps it as well, from %d on", first)
			}
		})
	}
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

const testShards = 4

// sample is a message and its wire form.
type sample struct {
	name  string
	want  message
	bytes []byte
}

func samples() []sample {
	session := shard.SessionID{Node: 7, Number: 3}
	vote := replica.Frame{Generation: 1, From: 2, To: 1, Message: &raftpb.Message{
		Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(2), To: proto.Uint64(1), Term: proto.Uint64(5), Commit: proto.Uint64(4),
	}}
	chunk := replica.Chunk{Generation: 5, From: 1, To: 4, Transfer: 9, Number: 2, Data: []byte("data"), Meta: []byte("meta")}
	ack := replica.ChunkAck{Generation: 5, From: 4, To: 1, Transfer: 9, Next: 3}
	sum := replica.Sum{Generation: 1, From: 4, To: 2, Index: 4096, Digest: 1<<64 - 1}
	command := shard.Acquire{
		Call: shard.Call{Session: session, Number: 4, Since: 5, Acked: []uint64{1, 2}}, TTL: time.Second, Name: "n", Key: "k",
		Kind: shard.RW, Weight: shard.Whole, Capacity: shard.Whole, Value: []byte("v"),
	}
	raw := shard.AppendCommand(nil, command)
	rp := reply{
		session: 3, number: 4, outcome: queued, token: 1 << 52, reason: shard.Locked, ahead: 5, holder: "n", generation: 12, revision: 99,
	}
	many := reply{session: 3, number: 5, outcome: queued, ahead: -1, generation: 1, revision: 99}
	an := answer{session: 3, ref: 8, alive: true, generation: 1, revision: 99, results: []reply{rp, many}, more: true}
	whole := answer{session: 3, ref: 8, alive: true, generation: 1, revision: 99}
	dead := answer{session: 3, ref: 8, generation: 1, revision: 99}
	q := renewal{session: session, ref: 8, after: 300, relay: true}
	named := q
	for _, cmd := range []shard.Command{
		shard.Cancel{Call: shard.Call{Session: session, Number: 6, Since: 5}, TTL: time.Second, Name: "n", Target: 4},
		shard.Release{Call: shard.Call{Session: session, Number: 7, Since: 5, Acked: []uint64{6}}, Key: "k", Token: 99},
		shard.Close{Session: session, Number: 8},
	} {
		named.orphans = append(named.orphans, replica.Abandoned{Command: cmd, Raw: shard.AppendCommand(nil, cmd)})
	}
	by := office{leader: 11, term: 6}
	rd := redirect{session: 3, number: 4, office: by}

	var all []sample
	add := func(name string, kind, fields int, m message, fill func(b []byte) []byte) {
		m.kind, m.shard = kind, 3
		all = append(all, sample{name, m, fill(appendMessage(nil, kind, 3, fields))})
	}
	numbers := func(n ...uint64) func([]byte) []byte {
		return func(b []byte) []byte {
			for _, v := range n {
				b = wire.AppendUint(b, v)
			}
			return b
		}
	}
	add("raft", msgRaft, replica.FrameFields, message{frame: vote}, func(b []byte) []byte { return replica.AppendFrame(b, vote) })
	add("chunk", msgChunk, replica.ChunkFields, message{chunk: chunk}, func(b []byte) []byte { return replica.AppendChunk(b, chunk) })
	add("ack of a chunk", msgChunkAck, replica.AckFields, message{ack: ack}, func(b []byte) []byte { return replica.AppendAck(b, ack) })
	add("sum", msgSum, replica.SumFields, message{sum: sum}, func(b []byte) []byte { return replica.AppendSum(b, sum) })
	add("host", msgHost, 2, message{numbers: [3]uint64{1, 4}}, numbers(1, 4))
	add("removed", msgRemoved, 3, message{numbers: [3]uint64{1, 4, 6}}, numbers(1, 4, 6))
	add("missing", msgMissing, 2, message{numbers: [3]uint64{1, 4}}, numbers(1, 4))
	add("decline", msgDecline, 2, message{numbers: [3]uint64{1, 4}}, numbers(1, 4))
	add("offer", msgOffer, 1, message{numbers: [3]uint64{5}}, numbers(5))
	add("accept", msgAccept, 1, message{numbers: [3]uint64{5}}, numbers(5))
	add("serving", msgServing, 1, message{numbers: [3]uint64{5}}, numbers(5))
	add("request", msgRequest, 2, message{relay: true, command: command, raw: raw}, func(b []byte) []byte {
		return append(wire.AppendBool(b, true), raw...)
	})
	add("reply", msgReply, replyFields+officeFields, message{reply: rp, office: by}, func(b []byte) []byte {
		return appendOffice(appendReply(b, rp), by)
	})
	add("reply of one who led", msgReply, replyFields+officeFields, message{reply: rp}, func(b []byte) []byte {
		return appendOffice(appendReply(b, rp), office{})
	})
	add("redirect", msgRedirect, redirectFields, message{redirect: rd}, func(b []byte) []byte { return appendRedirect(b, rd) })
	add("renewal", msgRenew, renewalFields, message{renewal: q}, func(b []byte) []byte { return appendRenewal(b, q) })
	add("renewal with orphans", msgRenew, renewalFields, message{renewal: named}, func(b []byte) []byte { return appendRenewal(b, named) })
	add("answer", msgAnswer, answerFields+officeFields, message{answer: an, office: by}, func(b []byte) []byte {
		return appendOffice(appendAnswer(b, an), by)
	})
	add("answer of all", msgAnswer, answerFields+officeFields, message{answer: whole, office: by}, func(b []byte) []byte {
		return appendOffice(appendAnswer(b, whole), by)
	})
	add("answer of the dead", msgAnswer, answerFields+officeFields, message{answer: dead, office: by}, func(b []byte) []byte {
		return appendOffice(appendAnswer(b, dead), by)
	})
	inner := appendRedirect(appendMessage(nil, msgRedirect, 3, redirectFields), rd)
	add("forward", msgForward, 2, message{
		numbers: [3]uint64{7}, inner: inner, inside: &message{kind: msgRedirect, shard: 3, redirect: rd},
	}, func(b []byte) []byte { return wire.AppendBytes(wire.AppendUint(b, 7), inner) })
	return all
}

func TestMessagesTravel(t *testing.T) {
	kinds := make(map[int]bool)
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			kinds[s.want.kind] = true
			r := wire.NewReader(s.bytes)
			got := readMessage(r, testShards)
			if err := r.End(); err != nil {
				t.Fatal(err)
			}
			if a, b := got.frame.Message, s.want.frame.Message; a != nil && b != nil && a.String() == b.String() {
				got.frame.Message = b
			}
			if !reflect.DeepEqual(got, s.want) {
				t.Errorf("came back as %+v\nwant %+v", got, s.want)
			}
		})
	}
	for kind := 1; kind <= lastMessage; kind++ {
		if !kinds[kind] {
			t.Errorf("message %d does not travel", kind)
		}
	}
}

// TestSamplesHaveEveryField: a field that is zero in all samples, or has the value of another one,
// could be forgotten, or be put in that one's place.
func TestSamplesHaveEveryField(t *testing.T) {
	whole := make(map[reflect.Type]string) // what is wrong with the best sample of each type
	for _, s := range samples() {
		for _, part := range []any{s.want.chunk, s.want.ack, s.want.sum, s.want.reply, s.want.redirect, s.want.renewal, s.want.answer} {
			v := reflect.ValueOf(part)
			if v.IsZero() {
				continue
			}
			lacks, values := "", make(map[string]string)
			for i := range v.NumField() {
				f := v.Type().Field(i)
				value := fmt.Sprintf("%#v", v.Field(i))
				switch {
				case f.Name == "Node": // not on the wire
				case v.Field(i).IsZero():
					lacks += " " + f.Name + " is zero."
				case values[value] != "" && f.Type.Kind() != reflect.Bool: // those are told apart by "answer of all"
					lacks += " " + f.Name + " is like " + values[value] + "."
				}
				values[value] = f.Name
			}
			if before, seen := whole[v.Type()]; !seen || len(lacks) < len(before) {
				whole[v.Type()] = lacks
			}
		}
	}
	for typ, lacks := range whole {
		if lacks != "" {
			t.Errorf("the samples of %v:%s", typ, lacks)
		}
	}
	if len(whole) != 7 {
		t.Errorf("there are samples of %d types", len(whole))
	}
}

// wrong is a message that must be refused, and what the error says of it.
type wrong struct {
	name  string
	bytes []byte
	says  string
}

func wrongs() []wrong {
	by := make(map[string][]byte)
	var all []wrong
	for _, s := range samples() {
		by[s.name] = s.bytes
		more := append([]byte(nil), s.bytes...)
		more[0]++ // a field more than there is
		all = append(all,
			wrong{s.name + " with too many fields", wire.AppendUint(more, 0), "fields"},
			wrong{s.name + " cut off", s.bytes[:len(s.bytes)-1], "too short"})
	}
	message := func(kind, fields int) []byte { return appendMessage(nil, kind, 1, fields) }
	numbers := func(b []byte, n ...uint64) []byte {
		for _, v := range n {
			b = wire.AppendUint(b, v)
		}
		return b
	}
	request := func(cmd shard.Command) []byte {
		return shard.AppendCommand(wire.AppendBool(message(msgRequest, 2), false), cmd)
	}
	forward := func(to uint64, inner []byte) []byte {
		return wire.AppendBytes(numbers(message(msgForward, 2), to), inner)
	}
	session := shard.SessionID{Node: 7, Number: 3}
	in := appendRedirect(message(msgRedirect, redirectFields), redirect{session: 3, number: 4})
	long := func(n int) string { return strings.Repeat("x", n) }
	acquire := shard.Acquire{
		Call: shard.Call{Session: session, Number: 1}, Name: "n", Key: "k", Weight: shard.Whole, Capacity: shard.Whole,
	}
	orphans := func(commands ...shard.Command) []byte {
		q := renewal{session: session}
		for _, cmd := range commands {
			q.orphans = append(q.orphans, replica.Abandoned{Raw: shard.AppendCommand(nil, cmd)})
		}
		return appendRenewal(message(msgRenew, renewalFields), q)
	}
	changed := func(change func(*shard.Acquire)) []byte {
		a := acquire
		change(&a)
		return request(a)
	}
	return append(all,
		wrong{"nothing", []byte{}, "too short"},
		wrong{"no array", []byte{1}, "not an array"},
		wrong{"an empty array", []byte{0x90}, "too short"},
		wrong{"kind zero", message(0, 0), "unknown message"},
		wrong{"an unknown kind", numbers(message(lastMessage+1, 1), 1), "number too large"},
		wrong{"a shard that there is not", numbers(appendMessage(nil, msgServing, testShards, 1), 1), "number too large"},
		wrong{"a shard far out of range", numbers(wire.AppendArray(nil, 3), msgServing, 1<<63, 1), "number too large"},
		wrong{"a replica zero", numbers(message(msgHost, 2), 1, 0), "replica zero"},
		wrong{"a digest of replica zero", replica.AppendSum(message(msgSum, replica.SumFields), replica.Sum{To: 1}), "replica zero"},
		wrong{"a digest for replica zero", replica.AppendSum(message(msgSum, replica.SumFields), replica.Sum{From: 1}), "replica zero"},
		wrong{"a replica beyond all", numbers(message(msgHost, 2), 1, 1<<64-1), "number too large"},
		wrong{"an outcome that there is not", numbers(message(msgReply, replyFields+officeFields), 3, 4, uint64(refused)+1, 0, 0, 0, 0, 0, 0, 0, 0, 0), "number too large"},
		wrong{"a reply without an outcome", appendOffice(appendReply(message(msgReply, replyFields+officeFields), reply{session: 3, number: 4}), office{}), "outcome"},
		wrong{"a reason that there is not", numbers(message(msgReply, replyFields+officeFields), 3, 4, 1, 1, 256, 0, 0, 0, 0, 0), "number too large"},
		wrong{"a long holder", wire.AppendString(numbers(message(msgReply, replyFields+officeFields), 3, 4, 1, 1, 1, 1), long(256)), "too long"},
		wrong{"an answer with too many results", append(numbers(wire.AppendBool(numbers(message(msgAnswer, answerFields+officeFields), 3, 8), true), 1, 99), 0xdc, 4, 1, 0), "too many"},
		wrong{"an answer with half a result", numbers(wire.AppendArray(wire.AppendArray(numbers(wire.AppendBool(numbers(message(msgAnswer, answerFields+officeFields), 3, 8), true), 1, 99), 1), 2), 1, 2), "fields"},
		wrong{"a chunk with too much data", append(numbers(message(msgChunk, replica.ChunkFields), 1, 1, 4, 9, 2), 0xc6, 0, 16, 0, 0), "too long"},
		wrong{"a renewal of nobody's", appendRenewal(message(msgRenew, renewalFields), renewal{session: shard.SessionID{Number: 3}}), "nobody"},
		wrong{"a renewal that names a request", orphans(acquire), "cannot be abandoned"},
		wrong{"a renewal that names an expiry", orphans(shard.Expire{Session: session, Term: 1}), "cannot be abandoned"},
		wrong{"a renewal that names another one's", orphans(shard.Close{Session: shard.SessionID{Node: 7, Number: 4}, Number: 1}), "another session"},
		wrong{"a renewal that names too many", orphans(slices.Repeat([]shard.Command{shard.Close{Session: session, Number: 1}}, maxOrphans+1)...), "too many"},
		wrong{"a request of nobody's", changed(func(a *shard.Acquire) { a.Session.Node = 0 }), "not a client's command"},
		wrong{"a request without a key", changed(func(a *shard.Acquire) { a.Key = "" }), "empty key"},
		wrong{"a request with a long key", changed(func(a *shard.Acquire) { a.Key = long(shard.MaxKey + 1) }), "too long"},
		wrong{"a request with a long name", changed(func(a *shard.Acquire) { a.Name = long(shard.MaxName + 1) }), "too long"},
		wrong{"a request with a long value", changed(func(a *shard.Acquire) { a.Value = make([]byte, shard.MaxValue+1) }), "too long"},
		wrong{"a request for more than there is", changed(func(a *shard.Acquire) { a.Kind, a.Weight, a.Capacity = shard.Semaphore, 3, 2 }), "capacity"},
		wrong{"a request without a number", changed(func(a *shard.Acquire) { a.Number = 0 }), "number zero"},
		wrong{"a request for ever", changed(func(a *shard.Acquire) { a.TTL = shard.MaxDuration + 1 }), "number too large"},
		wrong{"a request with many acknowledgements", changed(func(a *shard.Acquire) { a.Acked = make([]uint64, shard.MaxAcked+1) }), "too many"},
		wrong{"an expiry, from a peer", request(shard.Expire{Session: session, Term: 1}), "not a client's command"},
		wrong{"a silence, from a peer", request(shard.Silent{Session: session, For: 1, Term: 1}), "not a client's command"},
		wrong{"its end, from a peer", request(shard.Heard{Session: session, Term: 1}), "not a client's command"},
		wrong{"a settlement, from a peer", request(shard.Settle{Term: 1}), "not a client's command"},
		wrong{"a check, from a peer", request(shard.Check{Index: 1, Term: 1}), "not a client's command"},
		wrong{"a forward to nobody", forward(0, in), "a forward that"},
		wrong{"a forward for another shard", forward(7, appendRedirect(appendMessage(nil, msgRedirect, 2, redirectFields), redirect{})), "a forward that"},
		wrong{"a forward in a forward", forward(7, forward(7, in)), "not forwarded"},
		wrong{"a raft message in a forward", forward(7, by["raft"]), "not forwarded"},
		wrong{"a request in a forward", forward(7, by["request"]), "not forwarded"},
		wrong{"an empty forward", forward(7, nil), "not forwarded"},
		wrong{"a forward of two", forward(7, append(append([]byte(nil), in...), in...)), "after the end"},
		wrong{"a forward of a half", forward(7, by["reply"][:len(by["reply"])-1]), "inside of a forward"},
	)
}

func TestMalformedMessages(t *testing.T) {
	for _, tt := range wrongs() {
		t.Run(tt.name, func(t *testing.T) {
			r := wire.NewReader(tt.bytes)
			m := readMessage(r, testShards)
			err := r.End()
			if !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("read %+v, error %q, want one that says %q", m, err, tt.says)
			}
		})
	}
}

func FuzzReadMessage(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.bytes)
	}
	for _, w := range wrongs() {
		f.Add(w.bytes)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := wire.NewReader(data)
		m := readMessage(r, testShards)
		if err := r.Err(); err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v, want ErrMalformed", err)
			}
			return
		}
		if m.shard < 0 || m.shard >= testShards || m.kind < 1 || m.kind > lastMessage {
			t.Fatalf("%+v", m)
		}
		if m.kind == msgForward && (m.inside == nil || m.inside.kind == msgForward) {
			t.Fatalf("%+v", m)
		}
	})
}

// solo is a mesh of one in a simulated world, which holds the key "k", and a page for
// what it logs.
type solo struct {
	world *simulate.World
	node  *Node
	hold  *Hold
	log   strings.Builder
}

func newSolo(tb testing.TB) *solo {
	tb.Helper()
	s := &solo{world: simulate.New(simulate.Options{Seed: 1})}
	tb.Cleanup(s.world.Close)
	s.world.Host("a").Go("main", func(ctx context.Context) {
		n, err := Start(ctx, Config{
			World: seam.FromContext(ctx), Name: "a", Found: true, Shards: testShards, LeaseTTL: 3 * time.Second, Check: true,
			Transport: transport.Config{Bind: ":7400"}, Logger: slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			tb.Error(err)
			return
		}
		h, _, err := n.Session().Acquire(ctx, Request{Key: "k"})
		if err != nil {
			tb.Error(err)
			return
		}
		s.node, s.hold = n, h
	})
	if err := s.world.RunUntil(func() bool { return s.hold != nil }, 10*time.Second); err != nil {
		tb.Fatal(err)
	}
	return s
}

// receive lets the node take a body of a peer's, and some time pass.
func (s *solo) receive(tb testing.TB, kind transport.Kind, body []byte) {
	tb.Helper()
	s.world.At(s.world.Now(), func() { s.node.Receive(99, kind, body) })
	if err := s.world.Run(200 * time.Millisecond); err != nil {
		tb.Fatal(err)
	}
	if g := s.node.Stats().Grants; g != 1 {
		tb.Fatalf("%d grants, of one that was asked for", g)
	}
}

// frame is a frame for the node's only lane.
func (s *solo) frame(messages ...[]byte) []byte {
	b := wire.AppendUint(wire.AppendUint(wire.AppendUint(nil, s.node.mesh.MeshID), 1), 0)
	for _, m := range messages {
		b = append(b, m...)
	}
	return b
}

// revisions tells what the node's tables have done so far.
func (s *solo) revisions() string {
	var all []uint64
	for _, r := range s.node.all[0].replicas {
		all = append(all, r.ID(), r.Revision())
	}
	return fmt.Sprint(all, len(s.node.all[0].via), s.node.Members(), s.node.Health())
}

func TestAMalformedFrameChangesNothing(t *testing.T) {
	s := newSolo(t)
	before := s.revisions()
	refuse := func(name string, kind transport.Kind, body []byte) {
		t.Run(name, func(t *testing.T) {
			s.log.Reset()
			if err := s.world.Run(time.Second); err != nil { // for what is logged once a second
				t.Fatal(err)
			}
			s.receive(t, kind, body)
			if s.log.Len() == 0 {
				t.Error("nothing is logged")
			}
			if after := s.revisions(); after != before || s.hold.Err() != nil {
				t.Errorf("%s, then %s; the hold: %v", before, after, s.hold.Err())
			}
		})
	}
	for _, w := range wrongs() {
		if w.name != "nothing" {
			refuse(w.name, transport.KindLane, s.frame(w.bytes))
		}
	}
	header := func(n ...uint64) (b []byte) {
		for _, v := range n {
			b = wire.AppendUint(b, v)
		}
		return b
	}
	serving := wire.AppendUint(appendMessage(nil, msgServing, 1, 1), 1)
	refuse("an empty frame", transport.KindLane, nil)
	refuse("a frame of another mesh", transport.KindLane, append(header(s.node.mesh.MeshID+1, 1, 0), serving...))
	refuse("a frame for too many lanes", transport.KindLane, append(header(s.node.mesh.MeshID, maxMeshLanes+1, 0), serving...))
	refuse("a frame without a lane", transport.KindLane, header(s.node.mesh.MeshID, 1))
	for name, body := range map[string][]byte{
		"an empty control message":            nil,
		"control message zero":                {0},
		"an unknown control message":          {ctlLeaving + 1},
		"a founding message that is none":     {ctlFounding, 0xff},
		"an empty status":                     {ctlStatus},
		"a status of a shard that is not":     {ctlStatus, 0x91, testShards, 0x90, 0x90, 0x90, 0x90},
		"a status of too many shards":         {ctlStatus, 0x95, 0, 0, 0, 0, 0, 0x90, 0x90, 0x90, 0x90},
		"a status that goes on":               {ctlStatus, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90},
		"a status with a vote of nobody's":    {ctlStatus, 0x90, 0x90, 0x90, 0x92, 0, 0xa0, 0x90},
		"a status with half a vote":           {ctlStatus, 0x90, 0x90, 0x90, 0x91, 1, 0x90},
		"a status of what it follows not":     {ctlStatus, 0x90, 0x90, 0x91, testShards, 0x90, 0x90},
		"a word of leaving that goes on":      {ctlLeaving, 1},
		"a status that promises what is not":  {ctlStatus, 0x90, 0x90, 0x90, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"a status with numbers in other form": {ctlStatus, 0x91, 0xcc, 1, 0x90, 0x90, 0x90, 0x90},
	} {
		refuse(name, transport.KindControl, body)
	}
	// A good message before a bad one in a frame counts; the bad one ends the frame.
	s.receive(t, transport.KindLane, s.frame(samples()[0].bytes, []byte{1}, serving))
	if s.hold.Err() != nil {
		t.Error("the hold is lost")
	}
}

func TestAStatusTravels(t *testing.T) {
	s := newSolo(t)
	got := make(map[uint64]heardStatus)
	want := report{led: []int{0, 3}, rest: []int{3}, follows: []int{1}, voters: []voter{{7, "a"}, {99, "b"}}, counted: []voter{{8, "c"}}}
	s.world.At(s.world.Now(), func() {
		s.node.hall.post(func(h *hall) {
			h.people[99] = &person{Member: seam.Member{ID: 99, Name: "b"}, up: true}
			b := []byte{ctlStatus}
			b = appendInts(appendInts(appendInts(b, want.led), want.rest), want.follows)
			b = appendVoters(appendVoters(b, want.voters), want.counted)
			h.receive(99, b)
			for id, s := range h.heard {
				got[id] = s
			}
			delete(h.people, 99)
		})
	})
	if err := s.world.Run(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got[99].report, want) || len(got) != 1 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A founder may hear of the mesh's shards before it hears of the mesh.
func TestAStatusBeforeTheMeshIsKnownIsNoError(t *testing.T) {
	s := newSolo(t)
	var err error
	s.world.At(s.world.Now(), func() {
		s.node.hall.post(func(h *hall) {
			h.in, h.node.params.Shards = false, 0
			err = h.hearStatus(99, wire.NewReader(h.status()[1:]))
			h.in, h.node.params.Shards = true, testShards
		})
	})
	if no := s.world.Run(time.Millisecond); no != nil || err != nil {
		t.Error(err, no)
	}
}

// FuzzLaneFrame feeds a lane of a node with whatever a peer may send. Nobody on this node
// is granted by it what he did not ask for, and nothing panics: not the node, and not its
// tables.
func FuzzLaneFrame(f *testing.F) {
	s := newSolo(f)
	for _, m := range samples() {
		f.Add(true, m.bytes)
		f.Add(false, s.frame(m.bytes))
	}
	f.Add(true, wire.AppendUint(appendMessage(nil, msgHost, 1, 2), 1))
	f.Fuzz(func(t *testing.T, header bool, body []byte) {
		s := newSolo(t)
		if header {
			body = s.frame(body)
		}
		s.receive(t, transport.KindLane, body)
	})
}

// FuzzStatus does the same at the hall.
func FuzzStatus(f *testing.F) {
	f.Add([]byte{ctlStatus, 0x92, 0, 3, 0x91, 3, 0x92, 7, 0xa1, 0x61})
	f.Add([]byte{ctlLeaving})
	f.Add([]byte{ctlFounding, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newSolo(t)
		s.receive(t, transport.KindControl, body)
		if s.hold.Err() != nil || s.node.Err() != nil {
			t.Fatalf("the hold: %v, the node: %v", s.hold.Err(), s.node.Err())
		}
	})
}

// A panic inside a replica costs the shard that replica, and nothing else (P23).
func TestAPanicStopsOneReplica(t *testing.T) {
	s := newSolo(t)
	held := s.hold.shard
	victim := (held + 1) % testShards
	r := s.node.all[0].replica(victim)
	s.node.Break(victim)
	if err := s.world.Run(time.Second); err != nil {
		t.Fatal(err)
	}
	if r.Err() == nil || !strings.Contains(r.Err().Error(), "panic") || !strings.Contains(s.log.String(), "stops itself") {
		t.Fatalf("the replica: %v; logged: %s", r.Err(), s.log.String())
	}
	if err := s.world.Run(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if s.hold.Err() != nil || s.node.Err() != nil {
		t.Errorf("the hold: %v, the node: %v", s.hold.Err(), s.node.Err())
	}
	if h := s.node.Health(); h.FullyReplicated || !reflect.DeepEqual(h.NoMajority, []int{victim}) {
		t.Errorf("health %+v, want only shard %d without a majority", h, victim)
	}
}

// Who sends nonsense again and again does not fill the log.
func TestNonsenseIsLoggedOnceASecond(t *testing.T) {
	s := newSolo(t)
	for range 25 { // 5 s
		s.receive(t, transport.KindLane, s.frame([]byte{0xc1}))
	}
	if n := strings.Count(s.log.String(), "a malformed frame"); n < 4 || n > 6 {
		t.Errorf("logged %d times in 5 s:\n%s", n, s.log.String())
	}
	if !strings.Contains(s.log.String(), `"since the last warning"=5`) {
		t.Errorf("the log does not tell how often that was:\n%s", s.log.String())
	}
}

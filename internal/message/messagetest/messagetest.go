// Package messagetest holds messages of each kind, and bytes that are none. It is for tests.
package messagetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
	"github.com/lockmesh/mesh/shard"
)

// Shards is how many shards the mesh has that the messages are about.
const Shards = 4

// Sample is a message about shard 3, and what it is on the wire: the elements behind kind and
// shard.
type Sample struct {
	Name     string
	Kind     int
	Message  message.Message
	Elements []any
}

// Bytes returns its wire form.
func (s Sample) Bytes() []byte { return message.Append(nil, 3, s.Message) }

// What the samples are about.
var (
	session = shard.SessionID{Node: 7, Number: 3}
	by      = message.Office{Leader: 11, Term: 6}
)

// Samples returns messages of each kind.
func Samples() []Sample {
	vote := replica.Frame{Generation: 1, From: 2, To: 1, Message: &raftpb.Message{
		Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(2), To: proto.Uint64(1), Term: proto.Uint64(5), Commit: proto.Uint64(4),
	}}
	command := shard.Acquire{
		Call: shard.Call{Session: session, Number: 4, Since: 5, Acked: []uint64{1, 2}}, TTL: time.Second, Name: "n", Key: "k",
		Kind: shard.RW, Weight: shard.Whole, Capacity: shard.Whole, Value: []byte("v"),
	}
	result := message.Result{
		Session: 3, Number: 4, Outcome: message.Queued, Token: 1 << 52, Reason: shard.Locked, Ahead: 5, Holder: "n", Revision: 99,
	}
	many := message.Result{Session: 3, Number: 5, Outcome: message.Queued, Ahead: -1, Revision: 99}
	answer := message.Answer{Session: 3, Ref: 8, Alive: true, Revision: 99, Results: []message.Result{result, many}, More: true, Office: by}
	renewal := message.Renewal{Session: session, Ref: 8, After: 300, Relay: true}
	named := renewal
	abandoned := []shard.Command{
		shard.Cancel{Call: shard.Call{Session: session, Number: 6, Since: 5}, TTL: time.Second, Name: "n", Target: 4},
		shard.Release{Call: shard.Call{Session: session, Number: 7, Since: 5, Acked: []uint64{6}}, Key: "k", Token: 99},
		shard.Close{Session: session, Number: 8},
	}
	for _, cmd := range abandoned {
		named.Orphans = append(named.Orphans, replica.Abandoned{Command: cmd, Raw: shard.AppendCommand(nil, cmd)})
	}
	redirect := message.Redirect{Session: 3, Number: 4, Office: by}

	results := func(all ...message.Result) []any {
		list := []any{}
		for _, p := range all {
			list = append(list, onWire(p))
		}
		return list
	}
	answers := func(a message.Answer) []any {
		return []any{a.Session, a.Ref, a.Alive, a.Revision, results(a.Results...), a.More, a.Leader, a.Term}
	}
	orphans := func(list ...any) []any {
		return []any{7, 3, 8, 300, true, append([]any{}, list...)}
	}
	replies := func(m message.Reply) []any { return append(onWire(m.Result), m.Leader, m.Term) }
	reply, late := message.Reply{Result: result, Office: by}, message.Reply{Result: result}
	whole := message.Answer{Session: 3, Ref: 8, Alive: true, Revision: 99, Office: by}
	dead := message.Answer{Session: 3, Ref: 8, Revision: 99, Office: by}
	forward := message.NewForward(7, 3, &redirect)
	all := []Sample{
		{"raft", 1, &vote, []any{1, 2, 1, 3, []any{5, 4, []byte{}}}},
		{"chunk", 2, &replica.Chunk{Generation: 5, From: 1, To: 4, Transfer: 9, Number: 2, Data: []byte("data"), Meta: []byte("meta")}, nil},
		{"ack of a chunk", 3, &replica.ChunkAck{Generation: 5, From: 4, To: 1, Transfer: 9, Next: 3}, nil},
		{"sum", 17, &replica.Sum{Generation: 1, From: 4, To: 2, Index: 4096, Digest: 1<<64 - 1}, nil},
		{"host", 4, &message.Host{Generation: 1, ID: 4}, nil},
		{"removed", 5, &message.Removed{Generation: 1, ID: 4, Highest: 6}, nil},
		{"offer", 6, &message.Offer{Term: 5}, nil},
		{"accept", 7, &message.Accept{Term: 5}, nil},
		{"request", 8, &message.Request{Relay: true, Command: command, Raw: shard.AppendCommand(nil, command)}, []any{true, append([]any{1}, wiretest.Elements(command)...)}},
		{"reply", 9, &reply, replies(reply)},
		{"reply of one who led", 9, &late, replies(late)},
		{"redirect", 10, &redirect, nil},
		{"renewal", 11, &renewal, orphans()},
		{"renewal with orphans", 11, &named, orphans(
			append([]any{2}, wiretest.Elements(abandoned[0])...), append([]any{3}, wiretest.Elements(abandoned[1])...), append([]any{5}, wiretest.Elements(abandoned[2])...),
		)},
		{"answer", 12, &answer, answers(answer)},
		{"answer of all", 12, &whole, answers(whole)},
		{"answer of the dead", 12, &dead, answers(dead)},
		{"serving", 13, &message.Serving{Term: 5}, nil},
		{"forward", 14, forward, []any{7, message.Append(nil, 3, &redirect)}},
		{"missing", 15, &message.Missing{Generation: 1, ID: 4}, nil},
		{"decline", 16, &message.Decline{Generation: 1, ID: 4}, nil},
	}
	for i, s := range all {
		if s.Elements == nil { // as the type says
			all[i].Elements = wiretest.Elements(s.Message, "Node")
		}
	}
	return all
}

// onWire is a result on the wire.
func onWire(p message.Result) []any {
	return []any{p.Session, p.Number, int(p.Outcome), p.Token, int(p.Reason), p.Ahead + 1, p.Holder, p.Revision}
}

// Wrong is a message that must be refused, and what the error says of it.
type Wrong struct {
	Name  string
	Bytes []byte
	Says  string
}

// Wrongs returns such messages.
func Wrongs(t testing.TB) []Wrong {
	by := make(map[string]Sample)
	var all []Wrong
	for _, s := range Samples() {
		by[s.Name] = s
		whole := s.Bytes()
		all = append(all,
			Wrong{s.Name + " with too many fields", wiretest.Encode(t, slices.Concat([]any{s.Kind, 3}, s.Elements, []any{0})), "fields"},
			Wrong{s.Name + " cut off", whole[:len(whole)-1], "too short"})
	}
	// raw is a message about shard 1, of some of its fields.
	raw := func(kind int, fields ...any) []byte { return wiretest.Encode(t, append([]any{kind, 1}, fields...)) }
	// begun is one whose last array has a header that promises more.
	begun := func(b []byte, more ...byte) []byte { return append(b[:len(b)-1], more...) }
	about := func(sh int, m message.Message) []byte { return message.Append(nil, sh, m) }
	request := func(cmd shard.Command) []byte { return about(1, &message.Request{Raw: shard.AppendCommand(nil, cmd)}) }
	forward := func(to uint64, inner []byte) []byte { return raw(14, to, inner) }
	in := about(1, &message.Redirect{Session: 3, Number: 4})
	long := func(n int) string { return strings.Repeat("x", n) }
	acquire := shard.Acquire{
		Call: shard.Call{Session: session, Number: 1}, Name: "n", Key: "k", Weight: shard.Whole, Capacity: shard.Whole,
	}
	orphans := func(commands ...shard.Command) []byte {
		q := message.Renewal{Session: session}
		for _, cmd := range commands {
			q.Orphans = append(q.Orphans, replica.Abandoned{Raw: shard.AppendCommand(nil, cmd)})
		}
		return about(1, &q)
	}
	changed := func(change func(*shard.Acquire)) []byte {
		a := acquire
		change(&a)
		return request(a)
	}
	reply := func(change func(*message.Result)) []byte {
		p := message.Result{Session: 3, Number: 4, Outcome: message.Granted, Token: 1, Ahead: -1}
		change(&p)
		return about(1, &message.Reply{Result: p})
	}
	return append(all,
		Wrong{"nothing", []byte{}, "too short"},
		Wrong{"no array", []byte{1}, "not an array"},
		Wrong{"an empty array", []byte{0x90}, "too short"},
		Wrong{"kind zero", raw(0), "unknown message"},
		Wrong{"an unknown kind", raw(18, 1), "number too large"},
		Wrong{"a shard that there is not", about(Shards, &message.Serving{Term: 1}), "number too large"},
		Wrong{"a shard far out of range", wiretest.Encode(t, []any{13, uint64(1 << 63), 1}), "number too large"},
		Wrong{"a replica zero", raw(4, 1, 0), "replica zero"},
		Wrong{"a digest of replica zero", about(1, &replica.Sum{To: 1}), "replica zero"},
		Wrong{"a digest for replica zero", about(1, &replica.Sum{From: 1}), "replica zero"},
		Wrong{"a replica beyond all", raw(4, 1, uint64(1<<64-1)), "number too large"},
		Wrong{"an outcome that there is not", reply(func(p *message.Result) { p.Outcome = message.Refused + 1 }), "number too large"},
		Wrong{"a reply without an outcome", reply(func(p *message.Result) { p.Outcome = 0 }), "outcome"},
		Wrong{"a reason that there is not", raw(9, 3, 4, 1, 1, 256, 0, "", 0, 0, 0), "number too large"},
		Wrong{"a long holder", reply(func(p *message.Result) { p.Holder = long(256) }), "too long"},
		Wrong{"an answer with too many results", begun(raw(12, 3, 8, true, 99, []any{}), 0xdc, 4, 1, 0), "too many"},
		Wrong{"an answer with half a result", raw(12, 3, 8, true, 99, []any{onWire(message.Result{Outcome: message.Done})[:7]}, false, 0, 0), "not a number"},
		Wrong{"an answer with a result and a half", raw(12, 3, 8, true, 99, []any{append(onWire(message.Result{Outcome: message.Done}), 0)}, false, 0, 0), "fields"},
		Wrong{"a chunk with too much data", about(1, &replica.Chunk{Generation: 1, From: 1, To: 4, Transfer: 9, Number: 2, Data: make([]byte, 1<<20)}), "too long"},
		Wrong{"a renewal of nobody's", about(1, &message.Renewal{Session: shard.SessionID{Number: 3}}), "nobody"},
		Wrong{"a renewal that names a request", orphans(acquire), "cannot be abandoned"},
		Wrong{"a renewal that names an expiry", orphans(shard.Expire{Session: session, Term: 1}), "cannot be abandoned"},
		Wrong{"a renewal that names another one's", orphans(shard.Close{Session: shard.SessionID{Node: 7, Number: 4}, Number: 1}), "another session"},
		Wrong{"a renewal that names too many", orphans(slices.Repeat([]shard.Command{shard.Close{Session: session, Number: 1}}, message.MaxOrphans+1)...), "too many"},
		Wrong{"a request of nobody's", changed(func(a *shard.Acquire) { a.Session.Node = 0 }), "not a client's command"},
		Wrong{"a request without a key", changed(func(a *shard.Acquire) { a.Key = "" }), "empty key"},
		Wrong{"a request with a long key", changed(func(a *shard.Acquire) { a.Key = long(shard.MaxKey + 1) }), "too long"},
		Wrong{"a request with a long name", changed(func(a *shard.Acquire) { a.Name = long(shard.MaxName + 1) }), "too long"},
		Wrong{"a request with a long value", changed(func(a *shard.Acquire) { a.Value = make([]byte, shard.MaxValue+1) }), "too long"},
		Wrong{"a request for more than there is", changed(func(a *shard.Acquire) { a.Kind, a.Weight, a.Capacity = shard.Semaphore, 3, 2 }), "capacity"},
		Wrong{"a request without a number", changed(func(a *shard.Acquire) { a.Number = 0 }), "number zero"},
		Wrong{"a request for ever", changed(func(a *shard.Acquire) { a.TTL = shard.MaxDuration + 1 }), "number too large"},
		Wrong{"a request with many acknowledgements", changed(func(a *shard.Acquire) { a.Acked = make([]uint64, shard.MaxAcked+1) }), "too many"},
		Wrong{"an expiry, from a peer", request(shard.Expire{Session: session, Term: 1}), "not a client's command"},
		Wrong{"a silence, from a peer", request(shard.Silent{Session: session, For: 1, Term: 1}), "not a client's command"},
		Wrong{"its end, from a peer", request(shard.Heard{Session: session, Term: 1}), "not a client's command"},
		Wrong{"a settlement, from a peer", request(shard.Settle{Term: 1}), "not a client's command"},
		Wrong{"a check, from a peer", request(shard.Check{Index: 1, Term: 1}), "not a client's command"},
		Wrong{"a forward to nobody", forward(0, in), "a forward that"},
		Wrong{"a forward for another shard", forward(7, about(2, &message.Redirect{})), "a forward that"},
		Wrong{"a forward in a forward", forward(7, forward(7, in)), "not forwarded"},
		Wrong{"a raft message in a forward", forward(7, by["raft"].Bytes()), "not forwarded"},
		Wrong{"a request in a forward", forward(7, by["request"].Bytes()), "not forwarded"},
		Wrong{"a forward of too much", forward(7, make([]byte, message.MaxForward+1)), "too long"},
		Wrong{"an empty forward", forward(7, []byte{}), "not forwarded"},
		Wrong{"a forward of two", forward(7, slices.Concat(in, in)), "after the end"},
		Wrong{"a forward of a half", forward(7, by["reply"].Bytes()[:len(by["reply"].Bytes())-1]), "inside of a forward"},
	)
}

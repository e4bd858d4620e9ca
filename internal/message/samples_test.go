package message_test

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
	"github.com/lockmesh/mesh/shard"
)

// shards is the number of shards in the mesh of the messages. Those who read testdata count on it.
const shards = 4

// sample is a message about shard 3, and its wire form: the elements after kind and shard.
type sample struct {
	name     string
	kind     int
	message  message.Message
	elements []any
}

// bytes returns the wire form of the message.
func (s sample) bytes() []byte { return message.Append(nil, 3, s.message) }

// The session and the leader of the samples.
var (
	session = shard.SessionID{Node: 7, Number: 3}
	by      = message.Leadership{Generation: 12, Leader: 11, Term: 6, Limit: 7 * time.Second}
)

// samples returns messages of each kind.
func samples() []sample {
	all := slices.Concat(replication(), requests(), renewals())
	for i, s := range all {
		if s.elements == nil { // one for each field of the type
			all[i].elements = wiretest.Elements(s.message, "Node")
		}
	}
	return all
}

// replication returns messages between the replicas of a shard.
func replication() []sample {
	heartbeat := replica.Frame{Generation: 1, From: 2, To: 1, Message: &raftpb.Message{
		Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(2), To: proto.Uint64(1), Term: proto.Uint64(5), Commit: proto.Uint64(4),
		LogTerm: proto.Uint64(0), Index: proto.Uint64(0), Reject: proto.Bool(false), RejectHint: proto.Uint64(0),
	}}
	return []sample{
		{"raft", 1, &heartbeat, []any{1, 2, 1, []any{int(raftpb.MsgHeartbeat), 5, 0, 0, 4, false, 0, []byte{}, []any{}}}},
		{"chunk", 2, &replica.Chunk{Generation: 5, From: 1, To: 4, Transfer: 9, Number: 2, Data: []byte("data"), Meta: []byte("meta")}, nil},
		{"ack of a chunk", 3, &replica.ChunkAck{Generation: 5, From: 4, To: 1, Transfer: 9, Next: 3}, nil},
		{"sum", 17, &replica.Sum{Generation: 1, From: 4, To: 2, Index: 4096, Digest: 1<<64 - 1}, nil},
		{"host", 4, &replica.Host{Generation: 1, ID: 4}, nil},
		{"removed", 5, &replica.Removed{Generation: 1, ID: 4, Highest: 6}, nil},
		{"missing", 15, &replica.Missing{Generation: 1, ID: 4}, nil},
	}
}

// result has a value in every field.
var result = shard.Event{
	Session: shard.SessionID{Number: 3}, Number: 4, What: shard.Queued, Token: 1 << 52, Reason: shard.Locked, Ahead: 5, Holder: "n", Entered: 1<<52 - 1, Quiet: 9 * time.Second, Capacity: 1 << 40,
}

// requests returns messages that carry requests, or say where to send them.
func requests() []sample {
	command := shard.Acquire{
		Call: shard.Call{Session: session, Number: 4, Since: 5, Acked: []uint64{1, 2}}, TTL: time.Second, Name: "n", Key: "k",
		Kind: shard.RW, Weight: shard.Whole, Capacity: shard.Whole, Value: []byte("v"),
	}
	replies := func(m message.Reply) []any {
		return append(onWire(m.Event), m.Revision, leads(m.Leadership))
	}
	reply, late := message.Reply{Event: result, Revision: 99, Leadership: by}, message.Reply{Event: result, Revision: 99, Leadership: message.Leadership{Generation: 12}}
	operation := shard.Operation{Op: shard.Pull, Version: "1", User: "u", Durable: true, Alone: true, Retention: time.Minute}
	begin := shard.Begin{Call: command.Call, TTL: time.Second, Name: "n", Key: "k", Operation: operation}
	begins := append([]any{12}, wiretest.Elements(begin, "Operation")...)
	once := shard.Begin{Call: command.Call, TTL: time.Second, Name: "n", Key: "k", Operation: shard.Operation{Op: shard.Run, Retention: time.Minute, Attempts: 3}}
	onces := append([]any{12}, wiretest.Elements(once, "Operation")...)
	arrival := shard.Arrive{Call: command.Call, TTL: time.Second, Name: "n", Key: "k", Capacity: 3, Who: "w", Retention: time.Minute}
	query := message.Query{Query: replica.Query{Node: 7, Ref: 8, Key: "k", After: 9}, Generation: 12, Relay: true}
	view := message.View{View: replica.View{Ref: 8, Revision: 99, Refs: []shard.Ref{{User: "u", Durable: true, Stamp: 98}}, More: true}, Leadership: by}
	observe := message.Observe{Observe: replica.Observe{Node: 7, Ref: 8, Key: "k", For: 10 * time.Second}, Generation: 12, Relay: true}
	leader := shard.Leader{Token: 98, Sequence: 2, Value: []byte("v"), Name: "n", Quiet: true}
	led := message.Led{Led: replica.Led{Ref: 8, Key: "k", Revision: 99, Leader: leader}, Leadership: by}
	after := shard.Cursor{Part: 3, Born: 91, Told: 92, After: 93, Reported: true, Session: shard.SessionID{Node: 94, Number: 95}, Number: 96, Key: "m", At: "l"}
	within := []shard.Grant{{Shard: 2, Token: 97}, {Shard: 3, Token: 98}}
	wait := shard.Wait{
		Session: session, Number: 4, Name: "n", Key: "k", Needs: 2, Capacity: 5, Within: within, Detects: true, Holders: []shard.Holding{{Token: 96, Weight: 1, Name: "o"}}, Silent: 2 * time.Second,
	}
	inside, waits := []any{2, 97, 3, 98}, []any{[]any{7, 3, 4, "n", "k", 2, 5, []any{2, 97, 3, 98}, true, []any{[]any{96, 1, "o"}}, 2 * time.Second}}
	circle := message.Inspect{Inspect: replica.Inspect{Node: 7, Ref: 8, Inspection: shard.Inspection{Within: within}}, Generation: 12}
	inspect := message.Inspect{Inspect: replica.Inspect{Node: 7, Ref: 8, Inspection: shard.Inspection{Key: "k", List: true, Most: 100, After: after, Within: within}}, Generation: 12, Relay: true}
	cursor := []any{3, 91, 92, 93, true, 94, 95, 96, "m", "l"}
	known := shard.KeyState{
		Key: "k", Used: true, Kind: shard.Resource, Capacity: 2, Taken: 1, Failures: 3, Holding: 4, Waiting: 5, Using: 6, Arrived: 7,
		Holders: []shard.Party{{Name: "n", Guest: true, Token: 98, Weight: 1, Value: []byte("v"), Sequence: 2, Op: shard.Delete, Version: "1", Broken: true}},
		Waiters: []shard.Party{{Name: "o", Weight: 1}}, Users: []shard.Ref{{User: "u", Durable: true, Stamp: 97}}, Arrivals: []string{"w"},
		Done: []shard.Remembered{{Op: shard.Update, Version: "2", Remains: time.Minute}},
	}
	state := message.State{State: replica.State{Ref: 8, Revision: 99, Page: shard.Page{Keys: []shard.KeyState{known}, Quiet: time.Second, Next: after, More: true, Again: true, Waits: []shard.Wait{wait}}}, Leadership: by}
	party := func(p shard.Party) []any {
		return []any{p.Name, p.Guest, p.Token, p.Weight, append([]byte{}, p.Value...), p.Sequence, int(p.Op), p.Version, p.Broken}
	}
	states := []any{
		"k", true, int(shard.Resource), 2, 1, 3, 4, 5, 6, 7, []any{party(known.Holders[0])}, []any{party(known.Waiters[0])},
		[]any{[]any{"u", true, 97}}, []any{"w"}, []any{[]any{1, "2", time.Minute}},
	}
	redirect := message.Redirect{Session: 3, Number: 4, Leadership: by}
	return []sample{
		{"offer", 6, &replica.Offer{Term: 5}, nil},
		{"accept", 7, &replica.Accept{Term: 5}, nil},
		{"serving", 13, &message.Serving{Generation: 12, Term: 5}, nil},
		{"request", 8, &message.Request{Generation: 12, Relay: true, Command: command, Raw: shard.AppendCommand(nil, command)}, []any{12, true, onWireCommand(1, command)}},
		{"request of an operation", 8, &message.Request{Generation: 12, Command: begin, Raw: shard.AppendCommand(nil, begin)}, []any{12, false, append(begins, wiretest.Elements(operation, "Attempts"))}},
		{"request to do what is done once", 8, &message.Request{Generation: 12, Command: once, Raw: shard.AppendCommand(nil, once)}, []any{12, false, append(onces, wiretest.Elements(once.Operation))}},
		{"request of an arrival", 8, &message.Request{Generation: 12, Command: arrival, Raw: shard.AppendCommand(nil, arrival)}, []any{12, false, onWireCommand(19, arrival)}},
		{"query", 18, &query, []any{7, 8, "k", 9, 12, true}},
		{"view", 19, &view, []any{8, 99, []any{[]any{"u", true, 98}}, true, leads(by)}},
		{"observe", 20, &observe, []any{7, 8, "k", 10 * time.Second, 12, true}},
		{"led", 21, &led, []any{8, "k", 99, []any{98, 2, []byte("v"), "n", true}, leads(by)}},
		{"inspect", 22, &inspect, []any{7, 8, []any{"k", true, 100, cursor, inside}, 12, true}},
		{"state", 23, &state, []any{8, 99, []any{[]any{states}, time.Second, cursor, true, true, waits}, leads(by)}},
		{"inspect of who waits", 22, &circle, []any{7, 8, []any{"", false, 0, []any{0, 0, 0, 0, false, 0, 0, 0, "", ""}, inside}, 12, false}},
		{"reply", 9, &reply, replies(reply)},
		{"reply of a former leader", 9, &late, replies(late)},
		{"redirect", 10, &redirect, []any{3, 4, leads(by)}},
		{"forward", 14, message.NewForward(7, 3, &redirect), []any{7, message.Append(nil, 3, &redirect)}},
	}
}

// renewals returns renewals of sessions, and their answers.
func renewals() []sample {
	renewal := message.Renewal{Renewal: replica.Renewal{Session: session, Ref: 8, After: 300}, Generation: 12, Relay: true}
	closing := shard.Close{Session: session, Number: 8}
	unlock := shard.Release{Call: shard.Call{Session: session, Number: 7, Since: 5, Acked: []uint64{6}}, Key: "k", Token: 99}
	cancel := shard.Cancel{Call: shard.Call{Session: session, Number: 6, Since: 5}, TTL: time.Second, Name: "n", Target: 4}
	end := shard.End{Call: shard.Call{Session: session, Number: 9, Since: 5}, Key: "k", Token: 98, Failed: true}
	drop := shard.Drop{Call: shard.Call{Session: session, Number: 10, Since: 5}, TTL: time.Second, Name: "n", Key: "k", User: "u", Stamp: 97, Lone: 96, Lost: []uint64{5, 6}}
	named := renewal
	for _, cmd := range []shard.Command{cancel, unlock, end, drop, closing} {
		named.Abandoned = append(named.Abandoned, replica.Abandoned{Command: cmd, Raw: shard.AppendCommand(nil, cmd)})
	}
	orphans := func(list ...any) []any {
		return []any{7, 3, 8, 300, 12, true, append([]any{}, list...)}
	}

	many := shard.Event{Session: shard.SessionID{Number: 3}, Number: 5, What: shard.Queued, Ahead: -1}
	answer := message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 3}, Ref: 8, Alive: true, Revision: 99, Results: []shard.Event{result, many}, More: true, Broken: []shard.Breach{{Key: "k", Token: 98}, {Key: "l", Token: 99}}}, Leadership: by}
	empty := message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 3}, Ref: 8, Alive: true, Revision: 99}, Leadership: by}
	dead := message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 3}, Ref: 8, Revision: 99}, Leadership: by}
	answers := func(a message.Answer) []any {
		results := []any{}
		for _, r := range a.Results {
			results = append(results, onWire(r))
		}
		broken := []any{}
		for _, b := range a.Broken {
			broken = append(broken, []any{b.Key, b.Token})
		}
		return []any{a.Session.Number, a.Ref, a.Alive, a.Revision, results, a.More, broken, leads(a.Leadership)}
	}
	return []sample{
		{"renewal", 11, &renewal, orphans()},
		{"renewal with orphans", 11, &named, orphans(onWireCommand(2, cancel), onWireCommand(3, unlock), onWireCommand(13, end), onWireCommand(14, drop), onWireCommand(5, closing))},
		{"answer", 12, &answer, answers(answer)},
		{"answer without results", 12, &empty, answers(empty)},
		{"answer about a dead session", 12, &dead, answers(dead)},
	}
}

// onWireCommand returns the elements of a command of that kind on the wire.
func onWireCommand(kind int, cmd shard.Command) []any {
	return append([]any{kind}, wiretest.Elements(cmd)...)
}

// leads returns a leadership on the wire.
func leads(o message.Leadership) []any { return []any{o.Generation, o.Leader, o.Term, o.Limit} }

// onWire returns the elements of an event on the wire.
func onWire(p shard.Event) []any {
	return []any{p.Session.Number, p.Number, int(p.What), p.Token, int(p.Reason), p.Ahead + 1, p.Holder, p.Entered, p.Quiet, uint64(p.Capacity)}
}

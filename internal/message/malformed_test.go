package message_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
	"github.com/lockmesh/mesh/shard"
)

// wrong is a malformed message, and a part of the error that it must cause.
type wrong struct {
	name  string
	bytes []byte
	says  string
}

// wrongs returns malformed messages.
func wrongs(t testing.TB) []wrong {
	var all []wrong
	for _, s := range samples() {
		whole := s.bytes()
		says := "fields"
		if len(s.elements) == 13 {
			says = "elements" // with kind and shard as many as there may be
		}
		all = append(all,
			wrong{s.name + " with too many fields", wiretest.Encode(t, slices.Concat([]any{s.kind, 3}, s.elements, []any{0})), says},
			wrong{s.name + " cut off", whole[:len(whole)-1], "too short"})
	}
	return slices.Concat(all, wrongHeads(t), wrongReplies(t), wrongRequests(), wrongRenewals(), wrongForwards(t))
}

// about returns a message about a shard.
func about(sh int, m message.Message) []byte { return message.Append(nil, sh, m) }

// encode returns a message about shard 1 that has just these fields.
func encode(t testing.TB, kind int, fields ...any) []byte {
	return wiretest.Encode(t, append([]any{kind, 1}, fields...))
}

func long(n int) string { return strings.Repeat("x", n) }

// begins returns the beginning of a message that is far too long. A Reader looks at the length of a
// field first, so that it says the same of the whole message.
func begins(message []byte) []byte { return message[:64] }

// wrongHeads returns messages without a valid kind, shard or replica.
func wrongHeads(t testing.TB) []wrong {
	huge := replica.Chunk{Generation: 1, From: 1, To: 4, Transfer: 9, Number: 2, Data: make([]byte, 1<<20)}
	return []wrong{
		{"not an array", []byte{1}, "not an array"},
		{"an empty array", []byte{0x90}, "too short"},
		{"kind zero", encode(t, 0), "unknown message"},
		{"a kind that is no message any more", encode(t, 16, 1), "unknown message"},
		{"an unknown kind", encode(t, 24, 1), "number too large"},
		{"an unknown shard", about(shards, &message.Serving{Term: 1}), "number too large"},
		{"a shard far out of range", wiretest.Encode(t, []any{13, uint64(1 << 63), 1}), "number too large"},
		{"replica zero", encode(t, 4, 1, 0), "replica zero"},
		{"a digest of replica zero", about(1, &replica.Sum{To: 1}), "replica zero"},
		{"a digest for replica zero", about(1, &replica.Sum{From: 1}), "replica zero"},
		{"a replica out of range", encode(t, 4, 1, uint64(1<<64-1)), "number too large"},
		{"a chunk with too much data", begins(about(1, &huge)), "too long"},
	}
}

// wrongReplies returns malformed replies and answers.
func wrongReplies(t testing.TB) []wrong {
	reply := func(change func(*message.Reply)) []byte {
		p := message.Reply{Event: shard.Event{Session: shard.SessionID{Number: 3}, Number: 4, What: shard.Granted, Token: 1, Ahead: -1}}
		change(&p)
		return about(1, &p)
	}
	answer := func(results ...any) []byte {
		return encode(t, 12, 3, 8, true, 99, append([]any{}, results...), false, 0, 0)
	}
	breaches := func(all ...shard.Breach) []byte {
		return about(1, &message.Answer{Answer: replica.Answer{Session: shard.SessionID{Number: 3}, Ref: 8, Broken: all}})
	}
	done := onWire(shard.Event{What: shard.Done})
	// An answer that is cut off after the header of a list of results, which is too long.
	begun := encode(t, 12, 3, 8, true, 99, []any{})
	begun = append(begun[:len(begun)-1], 0xdc, 4, 1, 0)
	return []wrong{
		{"an unknown outcome", reply(func(p *message.Reply) { p.What = shard.Skipped + 1 }), "number too large"},
		{"a reply without an outcome", reply(func(p *message.Reply) { p.What = 0 }), "outcome"},
		{"an unknown reason", encode(t, 9, 3, 4, 1, 1, 256, 0, "", 0, 0, 0), "number too large"},
		{"a long holder", reply(func(p *message.Reply) { p.Holder = long(256) }), "too long"},
		{"an answer with too many results", begun, "too many"},
		{"a view with too many uses", about(1, &message.View{View: replica.View{Refs: make([]shard.Ref, 4097)}})[:12], "too many"},
		{"a view with a long name", about(1, &message.View{View: replica.View{Refs: []shard.Ref{{User: long(shard.MaxName + 1)}}}}), "too long"},
		{"a view of a use with a field too many", encode(t, 19, 8, 99, []any{[]any{"u", true, 98, 0}}, true, 0), "fields"},
		{"an answer with half a result", answer(done[:6]), "not a string"},
		{"an answer with a result that is too long", answer(append(done, 0)), "fields"},
		{"an answer with a breach of no key", breaches(shard.Breach{Token: 1}), "empty key"},
		{"an answer with a breach of no grant", breaches(shard.Breach{Key: "k"}), "no grant"},
		{"an answer with too many breaches", breaches(make([]shard.Breach, shard.MaxBroken+1)...), "too many"},
	}
}

// acquire is a valid command.
var acquire = shard.Acquire{
	Call: shard.Call{Session: session, Number: 1}, Name: "n", Key: "k", Weight: shard.Whole, Capacity: shard.Whole,
}

// wrongRequests returns requests with a malformed command, or with one that clients do not
// send.
func wrongRequests() []wrong {
	request := func(cmd shard.Command) []byte { return about(1, &message.Request{Raw: shard.AppendCommand(nil, cmd)}) }
	changed := func(change func(*shard.Acquire)) []byte {
		a := acquire
		change(&a)
		return request(a)
	}
	return []wrong{
		{"a request without a node", changed(func(a *shard.Acquire) { a.Session.Node = 0 }), "not a client's command"},
		{"a request without a key", changed(func(a *shard.Acquire) { a.Key = "" }), "empty key"},
		{"a request with a long key", changed(func(a *shard.Acquire) { a.Key = long(shard.MaxKey + 1) }), "too long"},
		{"a request with a long name", changed(func(a *shard.Acquire) { a.Name = long(shard.MaxName + 1) }), "too long"},
		{"a request with a long value", changed(func(a *shard.Acquire) { a.Value = make([]byte, shard.MaxValue+1) }), "too long"},
		{"a request for more than the capacity", changed(func(a *shard.Acquire) { a.Kind, a.Weight, a.Capacity = shard.Semaphore, 3, 2 }), "capacity"},
		{"a request without a number", changed(func(a *shard.Acquire) { a.Number = 0 }), "number zero"},
		{"a request with a TTL that is too long", changed(func(a *shard.Acquire) { a.TTL = shard.MaxDuration + 1 }), "number too large"},
		{"a request with many acknowledgements", changed(func(a *shard.Acquire) { a.Acked = make([]uint64, shard.MaxAcked+1) }), "too many"},
		{"a walk, from a peer", request(shard.Walk{Key: "k", Term: 1}), "not a client's command"},
		{"a query of nobody", about(1, &message.Query{Query: replica.Query{Ref: 1, Key: "k"}}), "of nobody"},
		{"a query without a key", about(1, &message.Query{Query: replica.Query{Node: 7, Ref: 1}}), "without a key"},
		{"a query about a long key", about(1, &message.Query{Query: replica.Query{Node: 7, Key: long(shard.MaxKey + 1)}}), "too long"},
		{"a question of nobody", about(1, &message.Observe{Observe: replica.Observe{Ref: 1, Key: "k"}}), "of nobody"},
		{"a question without a key", about(1, &message.Observe{Observe: replica.Observe{Node: 7, Ref: 1}}), "without a key"},
		{"a question about a long key", about(1, &message.Observe{Observe: replica.Observe{Node: 7, Key: long(shard.MaxKey + 1)}}), "too long"},
		{"an observer for longer than any", about(1, &message.Observe{Observe: replica.Observe{Node: 7, Key: "k", For: shard.MaxDuration + 1}}), "number too large"},
		{"an inspection by nobody", about(1, &message.Inspect{Inspect: replica.Inspect{Inspection: shard.Inspection{Key: "k"}}}), "by nobody"},
		{"an inspection of no key", about(1, &message.Inspect{Inspect: replica.Inspect{Node: 7}}), "without a key"},
		{"an inspection of a long key", about(1, &message.Inspect{Inspect: replica.Inspect{Node: 7, Inspection: shard.Inspection{Key: long(shard.MaxKey + 1)}}}), "too long"},
		{"an inspection of more than there may be", about(1, &message.Inspect{Inspect: replica.Inspect{Node: 7, Inspection: shard.Inspection{Key: "k", Most: shard.MaxWaiters + 1}}}), "number too large"},
		{"an inspection within no grant", about(1, &message.Inspect{Inspect: replica.Inspect{Node: 7, Inspection: shard.Inspection{Within: []shard.Grant{{Shard: 1}}}}}), "without a token"},
		{"an inspection within too many grants", about(1, &message.Inspect{Inspect: replica.Inspect{Node: 7, Inspection: shard.Inspection{Within: make([]shard.Grant, shard.MaxAsked+1)}}}), "too many elements"},
		{"a state of one that waits for no key", about(1, &message.State{State: replica.State{Page: shard.Page{Waits: []shard.Wait{{Number: 1}}}}}), "empty key"},
		{"a state of a kind that there is not", about(1, &message.State{State: replica.State{Page: shard.Page{Keys: []shard.KeyState{{Kind: 99}}}}}), "number too large"},
		{"a leader of no election", about(1, &message.Led{}), "without a key"},
		{"a leader with a long value", about(1, &message.Led{Led: replica.Led{Key: "k", Leader: shard.Leader{Token: 1, Value: make([]byte, shard.MaxValue+1)}}}), "too long"},
		{"what nobody has proclaimed", about(1, &message.Led{Led: replica.Led{Key: "k", Leader: shard.Leader{Value: []byte("v")}}}), "nobody"},
		{"a proclamation without a sequence", request(shard.Proclaim{Call: shard.Call{Session: session, Number: 1}, Key: "k"}), "without a sequence"},
		{"an expiry, from a peer", request(shard.Expire{Session: session, Term: 1}), "not a client's command"},
		{"a silence, from a peer", request(shard.Silent{Session: session, For: 1, Term: 1}), "not a client's command"},
		{"a settlement, from a peer", request(shard.Settle{Term: 1}), "not a client's command"},
		{"a check, from a peer", request(shard.Check{Index: 1, Term: 1}), "not a client's command"},
	}
}

// wrongRenewals returns renewals without a node, or with orphans that are not allowed.
func wrongRenewals() []wrong {
	orphans := func(commands ...shard.Command) []byte {
		q := message.Renewal{Renewal: replica.Renewal{Session: session}}
		for _, cmd := range commands {
			q.Abandoned = append(q.Abandoned, replica.Abandoned{Raw: shard.AppendCommand(nil, cmd)})
		}
		return about(1, &q)
	}
	return []wrong{
		{"a renewal without a node", about(1, &message.Renewal{Renewal: replica.Renewal{Session: shard.SessionID{Number: 3}}}), "without a session"},
		{"a renewal with an abandoned request", orphans(acquire), "cannot be abandoned"},
		{"a renewal with an abandoned expiry", orphans(shard.Expire{Session: session, Term: 1}), "cannot be abandoned"},
		{"a renewal with an orphan of another session", orphans(shard.Close{Session: shard.SessionID{Node: 7, Number: 4}, Number: 1}), "another session"},
		{"a renewal with too many orphans", orphans(slices.Repeat([]shard.Command{shard.Close{Session: session, Number: 1}}, message.MaxAbandoned+1)...), "too many"},
	}
}

// wrongForwards returns forwards of messages that are malformed, or must not be forwarded.
func wrongForwards(t testing.TB) []wrong {
	forward := func(to uint64, inner []byte) []byte { return encode(t, 14, to, inner) }
	in := about(1, &message.Redirect{Session: 3, Number: 4})
	by := make(map[string]sample)
	for _, s := range samples() {
		by[s.name] = s
	}
	return []wrong{
		{"a forward to no node", forward(0, in), "a forward that"},
		{"a forward for another shard", forward(7, about(2, &message.Redirect{})), "a forward that"},
		{"a forward in a forward", forward(7, forward(7, in)), "not forwarded"},
		{"a raft message in a forward", forward(7, by["raft"].bytes()), "not forwarded"},
		{"a request in a forward", forward(7, by["request"].bytes()), "not forwarded"},
		{"a forward of a message that is too long", begins(forward(7, make([]byte, 600<<10+1))), "too long"},
		{"an empty forward", forward(7, []byte{}), "not forwarded"},
		{"a forward of two messages", forward(7, slices.Concat(in, in)), "after the end"},
		{"a forward of half a message", forward(7, by["reply"].bytes()[:len(by["reply"].bytes())-1]), "inside of a forward"},
	}
}

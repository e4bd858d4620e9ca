package core

import (
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/seam"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Messages implements seam.Inspected. The names are those of PROTOCOL.md, in plain
// words, and followed by what tells two of a kind apart.
func (n *Node) Messages(kind transport.Kind, frame []byte, to transport.ID, asked seam.Asked) (names []string) {
	switch {
	case kind == transport.KindControl && len(frame) > 0 && frame[0] == ctlFounding:
		return []string{founding.Describe(frame[1:])}
	case kind == transport.KindControl && len(frame) > 0 && frame[0] == ctlLeaving:
		return []string{"leaving"}
	case kind == transport.KindControl:
		return []string{"status"}
	case kind != transport.KindLane:
		return []string{"gossip"}
	}
	r := wire.NewReader(frame)
	for range 3 {
		r.Uint(anyUint)
	}
	for r.Len() > 0 && r.Err() == nil {
		if m := readMessage(r, n.params.Shards); r.Err() == nil {
			names = append(names, m.describe(to, asked))
		}
	}
	return names
}

// Moments implements seam.Inspected.
func (n *Node) Moments(kind transport.Kind, frame []byte) (all seam.Moment) {
	if kind != transport.KindLane {
		return 0
	}
	r := wire.NewReader(frame)
	for range 3 {
		r.Uint(anyUint)
	}
	for r.Len() > 0 && r.Err() == nil {
		if m := readMessage(r, n.params.Shards); r.Err() == nil {
			all |= m.moments()
		}
	}
	return all
}

func (m *message) moments() seam.Moment {
	switch m.kind {
	case msgForward:
		return m.inside.moments()
	case msgRenew:
		return seam.Renews
	case msgAnswer:
		return seam.Renewed
	case msgRequest:
		if _, claims := m.command.(shard.Claim); claims {
			return seam.Claims
		}
	case msgReply:
		if m.reply.outcome == granted {
			return seam.Grants | seam.Answers
		}
		return seam.Answers
	case msgChunk:
		if m.chunk.Number == 0 {
			return seam.Begins
		}
	case msgChunkAck:
		return seam.Received
	case msgOffer, msgAccept:
		return seam.HandsOver
	case msgRaft:
		switch m.frame.Message.GetType() {
		case raftpb.MsgTimeoutNow:
			return seam.HandsOver
		case raftpb.MsgAppResp:
			return seam.Appended
		case raftpb.MsgApp:
			if slices.ContainsFunc(m.frame.Message.Entries, func(e *raftpb.Entry) bool { return e.GetType() != raftpb.EntryNormal }) {
				return seam.Changes
			}
		}
	}
	return 0
}

// Asked implements seam.Inspected.
func (n *Node) Asked(sh int, session, number uint64) string {
	if len(n.all) == 0 {
		return ""
	}
	if t := n.laneOf(sh).desk(sh).by[session]; t != nil {
		if c := t.calls[number]; c != nil && c.command != nil {
			return describeCommand(c.command)
		}
	}
	return ""
}

// plain are the messages that need no more than a name.
var plain = [...]string{
	msgChunk: "snapshot chunk", msgChunkAck: "chunk received", msgHost: "host a replica", msgRemoved: "you are removed",
	msgOffer: "will you lead", msgAccept: "I will lead", msgRedirect: "not here", msgRenew: "renewal",
	msgAnswer: "renewal answered", msgServing: "I lead", msgMissing: "no such replica", msgDecline: "no vote for me",
	msgSum: "table's digest",
}

func (m *message) describe(to transport.ID, asked seam.Asked) string {
	switch m.kind {
	case msgRaft:
		return describeRaft(m.frame)
	case msgRequest:
		return describeCommand(m.command)
	case msgReply:
		return m.reply.describe(asked(to, m.shard, m.reply.session, m.reply.number))
	case msgForward:
		return "pass on: " + m.inside.describe(transport.ID(m.numbers[0]), asked)
	}
	return plain[m.kind]
}

func describeCommand(cmd shard.Command) string {
	switch c := cmd.(type) {
	case shard.Acquire:
		return "lock " + c.Key
	case shard.Release:
		return fmt.Sprintf("unlock %s token %d", c.Key, c.Token)
	case shard.Claim:
		return fmt.Sprintf("claim %s token %d", c.Key, c.Token)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", cmd), "shard."))
}

// describe names a reply after what it replies to: "unlocked k token 7" for "unlock k
// token 7". The client may not know that any more, if it was answered before.
func (p *reply) describe(request string) string {
	what, rest, _ := strings.Cut(request, " ")
	switch {
	case p.outcome == granted && what == "lock":
		return fmt.Sprintf("granted %s token %d", rest, p.token)
	case p.outcome == granted:
		return fmt.Sprintf("granted token %d", p.token)
	case p.outcome == queued:
		return strings.TrimSpace("queued " + rest)
	case p.outcome == refused:
		return strings.TrimSpace("refused "+request) + ": " + p.reason.String()
	case past[what] != "":
		return strings.TrimSpace(past[what] + " " + rest)
	}
	return "done before"
}

// past is how a reply says that a command was carried out.
var past = map[string]string{"unlock": "unlocked", "claim": "claimed", "cancel": "cancelled", "close": "closed"}

func describeRaft(f replica.Frame) string {
	kind := strings.TrimPrefix(f.Message.GetType().String(), "Msg")
	switch kind {
	case "App":
		return fmt.Sprintf("append %d", len(f.Message.Entries))
	case "AppResp":
		return "appended"
	case "Heartbeat":
		return "heartbeat"
	case "HeartbeatResp":
		return "heartbeat answered"
	case "PreVote", "Vote":
		return strings.ToLower(kind) + fmt.Sprintf(" term %d", f.Message.GetTerm())
	case "PreVoteResp", "VoteResp":
		vote := strings.ToLower(strings.TrimSuffix(kind, "Resp"))
		if f.Message.GetReject() {
			return vote + " refused"
		}
		return vote + " given"
	case "TimeoutNow":
		return "campaign now"
	}
	return strings.ToLower(kind)
}

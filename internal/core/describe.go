package core

import (
	"fmt"
	"strings"

	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Messages implements seam.Inspected. The names are those of PROTOCOL.md, in plain
// words, and followed by what tells two of a kind apart.
func (n *Node) Messages(kind transport.Kind, frame []byte) (names []string) {
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
			names = append(names, m.describe())
		}
	}
	return names
}

// plain are the messages that need no more than a name.
var plain = [...]string{
	msgChunk: "snapshot chunk", msgChunkAck: "chunk received", msgHost: "host a replica", msgRemoved: "you are removed",
	msgOffer: "will you lead", msgAccept: "I will lead", msgRedirect: "not here", msgRenew: "renewal",
	msgAnswer: "renewal answered", msgServing: "I lead", msgMissing: "no such replica",
}

func (m *message) describe() string {
	switch m.kind {
	case msgRaft:
		return describeRaft(m.frame)
	case msgRequest:
		switch c := m.command.(type) {
		case shard.Acquire:
			return "lock " + c.Key
		case shard.Release:
			return fmt.Sprintf("unlock %s token %d", c.Key, c.Token)
		case shard.Claim:
			return fmt.Sprintf("claim %s token %d", c.Key, c.Token)
		}
		return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", m.command), "shard."))
	case msgReply:
		switch m.reply.outcome {
		case granted:
			return fmt.Sprintf("granted token %d", m.reply.token)
		case queued:
			return "queued"
		case refused:
			return fmt.Sprintf("refused, reason %d", m.reply.reason)
		}
		return "done"
	case msgForward:
		return "pass on: " + m.inside.describe()
	}
	return plain[m.kind]
}

func describeRaft(f shard.Frame) string {
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
		if f.Message.GetReject() {
			return "vote refused"
		}
		return "vote given"
	case "TimeoutNow":
		return "campaign now"
	}
	return strings.ToLower(kind)
}

package message

import (
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// Asked returns the name, as of CommandName, of the command that a node sent under a number, if
// the node still waits for its answer; else "".
type Asked func(node transport.ID, session, number uint64) string

// Name names a message to a node, for readers of a simulation's trace. The names are those of
// PROTOCOL.md, in plain words, followed by what distinguishes two messages of a kind.
func Name(m Message, to transport.ID, asked Asked) string {
	switch m := m.(type) {
	case *replica.Frame:
		return raftName(m.Message)
	case *replica.Chunk:
		return fmt.Sprintf("snapshot chunk %d", m.Number)
	case *Request:
		return CommandName(m.Command)
	case *Reply:
		return resultName(&m.Event, asked(to, m.Session.Number, m.Number))
	case *Query:
		return "who uses " + m.Key
	case *Observe:
		return "who leads " + m.Key
	case *Led:
		return m.name()
	case *Inspect:
		return m.name()
	case *Forward:
		return "pass on: " + Name(m.Inside, transport.ID(m.To), asked)
	}
	return kindName(m)
}

// kindName names a message of which nothing but its kind matters.
func kindName(m Message) string {
	switch m.(type) {
	case *replica.ChunkAck:
		return "chunk received"
	case *replica.Sum:
		return "table's digest"
	case *replica.Host:
		return "host a replica"
	case *replica.Removed:
		return "you are removed"
	case *replica.Offer:
		return "will you lead"
	case *replica.Accept:
		return "I will lead"
	case *replica.Missing:
		return "no such replica"
	case *Redirect:
		return "not here"
	case *Renewal:
		return "renewal"
	case *Answer:
		return "renewal answered"
	case *Serving:
		return "I lead"
	case *View:
		return "who uses it"
	case *State:
		return "seen"
	}
	return fmt.Sprintf("%T", m)
}

// name says which leader an election has.
func (m *Led) name() string {
	switch {
	case m.Quiet:
		return "nobody knows who leads " + m.Key
	case m.Token == 0:
		return "nobody leads " + m.Key
	}
	return fmt.Sprintf("leader of %s token %d sequence %d", m.Key, m.Token, m.Sequence)
}

// name says of what a question is.
func (m *Inspect) name() string {
	switch {
	case m.List:
		return "look for keys"
	case m.Inspection.Key == "":
		return "look for waits"
	}
	return "look at " + m.Inspection.Key
}

// CommandName names a client's command: "lock k", "unlock k token 7".
func CommandName(cmd shard.Command) string {
	switch c := cmd.(type) {
	case shard.Acquire:
		return acquireName(c)
	case shard.Proclaim:
		return fmt.Sprintf("proclaim %s sequence %d", c.Key, c.Sequence)
	case shard.Downgrade:
		return fmt.Sprintf("downgrade %s token %d", c.Key, c.Token)
	case shard.Release:
		return fmt.Sprintf("unlock %s token %d", c.Key, c.Token)
	case shard.Begin:
		return fmt.Sprintf("%v %s", c.Op, c.Key)
	case shard.End:
		return fmt.Sprintf("%s %s token %d", endVerb(c), c.Key, c.Token)
	case shard.Drop:
		return fmt.Sprintf("drop %s stamp %d", c.Key, c.Stamp)
	case shard.Arrive:
		return "arrive " + c.Key
	case shard.Resize:
		return "resize " + c.Key
	case shard.Break:
		return fmt.Sprintf("break %s token %d", c.Key, c.Token)
	case shard.Recall:
		return "recall " + c.Key
	case shard.Report:
		return fmt.Sprintf("report %s token %d", c.Key, c.Token)
	case shard.Carry:
		return "carry " + c.Guest
	case shard.Claim:
		return fmt.Sprintf("claim %s of %s", c.Tag, c.Key)
	case shard.Tagged:
		return CommandName(c.Command)
	case shard.Within:
		return CommandName(c.Command)
	case shard.Fix:
		return fmt.Sprintf("fix %s token %d", c.Key, c.Token)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", cmd), "shard."))
}

func acquireName(c shard.Acquire) string {
	switch c.Kind {
	case shard.Election:
		return "stand for " + c.Key
	case shard.Latch:
		return "wait " + c.Key
	case shard.Barrier:
		return "enter " + c.Key
	}
	return "lock " + c.Key
}

func endVerb(c shard.End) string {
	if c.Failed {
		return "fail"
	}
	return "end"
}

// resultName names a result after its request: "unlocked k token 7" for "unlock k token 7". The request
// is empty if the client no longer waits for it, as an earlier answer arrived.
func resultName(e *shard.Event, request string) string {
	what, rest, _ := strings.Cut(request, " ")
	switch {
	case e.What == shard.Granted && (what == "lock" || what == "enter"):
		return fmt.Sprintf("granted %s token %d", rest, e.Token)
	case e.What == shard.Granted:
		return fmt.Sprintf("granted token %d", e.Token)
	case e.What == shard.Skipped:
		return strings.TrimSpace(fmt.Sprintf("skipped %s stamp %d", rest, e.Token))
	case e.What == shard.Queued:
		return strings.TrimSpace("queued " + rest)
	case e.What == shard.Refused:
		return strings.TrimSpace("refused "+request) + ": " + e.Reason.String()
	case past[what] != "":
		return strings.TrimSpace(past[what] + " " + rest)
	}
	return "done before"
}

// past has the word for a command that was carried out.
var past = map[string]string{
	"end": "ended", "fail": "failed", "drop": "dropped", "proclaim": "proclaimed", "unlock": "unlocked", "fix": "fixed", "cancel": "cancelled", "close": "closed",
	"downgrade": "downgraded", "arrive": "arrived", "recall": "recalled", "carry": "carried", "resize": "resized", "break": "broken",
}

func raftName(m *raftpb.Message) string {
	kind := strings.TrimPrefix(m.GetType().String(), "Msg")
	switch kind {
	case "App":
		name := fmt.Sprintf("append %d", len(m.Entries))
		if slices.ContainsFunc(m.Entries, func(e *raftpb.Entry) bool { return e.GetType() != raftpb.EntryNormal }) {
			name += " with a change of replicas"
		}
		return name
	case "AppResp":
		return "appended"
	case "Heartbeat":
		return "heartbeat"
	case "HeartbeatResp":
		return "heartbeat answered"
	case "PreVote", "Vote":
		return strings.ToLower(kind) + fmt.Sprintf(" term %d", m.GetTerm())
	case "PreVoteResp", "VoteResp":
		vote := strings.ToLower(strings.TrimSuffix(kind, "Resp"))
		if m.GetReject() {
			return vote + " refused"
		}
		return vote + " given"
	case "TimeoutNow":
		if len(m.Context) > 0 {
			return "campaign " + string(m.Context)
		}
		return "campaign now"
	}
	return strings.ToLower(kind)
}

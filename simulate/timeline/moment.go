package timeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Moment is one thing that happened.
type Moment struct {
	ID    int           `json:"id"`              // from 1, one more than the one before
	Cause int           `json:"cause,omitempty"` // the moment that brought this one about; 0: none is known. Always < ID
	At    time.Duration `json:"at"`              // true time since the world began; in the log in nanoseconds
	Kind  Kind          `json:"kind"`
	Host  string        `json:"host"`            // where; Lab, if at no host
	Actor string        `json:"actor,omitempty"` // which actor on the host, if one
	Peer  string        `json:"peer,omitempty"`  // Sent: the receiver; Arrived, Lost: the sender
	Frame int           `json:"frame,omitempty"` // Arrived, Lost: the ID of the Sent; 0: not known
	Begin int           `json:"begin,omitempty"` // Ended: the ID of the Fault; Held, Refused: of the Called; HoldEnded, Unlocked: of the Held; 0: not known
	Shard int           `json:"-"`               // -1: none
	Role  string        `json:"role,omitempty"`  // Role: "leader", "candidate", "follower", "learner", "none"
	Term  uint64        `json:"term,omitempty"`
	Key   string        `json:"-"`
	Token uint64        `json:"token,omitempty"`
	Depth int           `json:"depth,omitempty"` // Depth: how many wait for Key
	Text  string        `json:"text,omitempty"`  // what a reader should see: "append 3", "renewal", "partition a | b c", an error
}

// Kind says what sort of thing happened. New kinds are added at the end.
type Kind uint8

// The kinds of moments.
const (
	Sent      Kind = iota + 1 // a frame left Host for Peer; Text names the messages in it, separated by commas
	Arrived                   // a frame came in at Host
	Lost                      // a frame did not arrive: Text says why ("link", "rule", "cut", "closed", "down", "full")
	Fault                     // a fault begins, and lasts; Host is Lab or the host it is about; Text says what: "partition a | b c", "pause b"
	Ended                     // a fault is over (Begin = the Fault)
	Up                        // the host's process runs
	Down                      // the host's process has ended
	Paused                    // the host's process stands still
	Resumed                   // the paused process goes on
	Role                      // Host's replica of Shard took Role in Term
	News                      // Host learned something of another one: from gossip, or that a connection is up or down. Or a frame that it sent is garbled
	Called                    // an actor asked for Key (Text: "lock", "read", "2 of 3")
	Refused                   // the call for Key returned an error (Begin = the Called)
	Held                      // the call for Key returned a hold with Token (Begin = the Called)
	HoldEnded                 // a hold was lost (Begin = the Held); Text says why, if that was a crash
	Unlocked                  // a hold was unlocked (Begin = the Held)
	Depth                     // the number of those that wait for Key has changed, to Moment.Depth (Host = leader of its shard)
	Note                      // a line that an actor or a node logged, or a remark of the simulator's
	Property                  // a user property was broken or reached; Text ends with "is broken", or does not
	Site                      // a fault point in the code was taken
	Failure                   // the run's failure: Text is the whole message
	Struck                    // a fault that is over at once, as a reset is, or a step of a clock; else as Fault
)

// kindNames are the names in the event log, and must not change.
var kindNames = [...]string{
	Sent: "sent", Arrived: "arrived", Lost: "lost", Fault: "fault", Ended: "ended",
	Up: "up", Down: "down", Paused: "paused", Resumed: "resumed", Role: "role", News: "news",
	Called: "called", Refused: "refused", Held: "held", HoldEnded: "hold ended", Unlocked: "unlocked",
	Depth: "depth", Note: "note", Property: "property", Site: "site", Failure: "failure",
	Struck: "struck",
}

// String returns the kind's name, as the event log has it.
func (k Kind) String() string {
	if k < Sent || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames[:], string(text))
	if i < int(Sent) {
		return fmt.Errorf("%q is no kind of moment", text)
	}
	*k = Kind(i)
	return nil
}

// broken reports whether m says that something is wrong with the run.
func (m *Moment) broken() bool {
	return m.Kind == Failure || m.Kind == Property && strings.HasSuffix(m.Text, "is broken")
}

// because returns the moment that a chain of causes goes on with, or 0.
func (m *Moment) because() int {
	switch {
	case m.Cause > 0:
		return m.Cause
	case m.Frame > 0:
		return m.Frame
	}
	return m.Begin
}

// who returns the place in one word: the host, and the actor on it.
func (m *Moment) who() string {
	if m.Actor == "" {
		return m.Host
	}
	return m.Host + "/" + m.Actor
}

// routineWords begin the names of messages that are sent all the time, whether anything
// happens or not.
var routineWords = [...]string{"heartbeat", "renewal", "append", "appended", "prevote", "status", "gossip", "core: told"}

// messages returns what is in the frame that m is about, if it is about one.
func (t *Timeline) messages(m *Moment) (text string, ok bool) {
	switch m.Kind {
	case Sent:
		return m.Text, true
	case Arrived, Lost:
		if frame := t.Moment(m.Frame); frame != nil {
			return frame.Text, true
		}
	}
	return "", false
}

// Routine reports whether m is a frame, or the end of one, that carries only what is
// sent all the time: heartbeats, renewals, raft's appends, gossip. Readers want to see
// those last.
func (t *Timeline) Routine(m *Moment) bool {
	text, ok := t.messages(m)
	if !ok {
		return false
	}
	for part := range strings.SplitSeq(text, ",") {
		if !routineMessage(strings.TrimSpace(part)) {
			return false
		}
	}
	return true
}

func routineMessage(name string) bool {
	for _, word := range routineWords {
		if rest, ok := strings.CutPrefix(name, word); ok && (rest == "" || rest[0] == ' ') {
			return true
		}
	}
	return false
}

// Roles of a replica that a moment may name.
var roles = [...]string{"leader", "candidate", "follower", "learner", "none"}

// beginOf and frameOf say of which kind the Begin and the Frame of each kind must be; 0: it has none.
var (
	beginOf = [len(kindNames)]Kind{Ended: Fault, Refused: Called, Held: Called, HoldEnded: Held, Unlocked: Held}
	frameOf = [len(kindNames)]Kind{Arrived: Sent, Lost: Sent}
)

// checkMoment checks m by itself, and what it refers to. Moments before m are good.
func (t *Timeline) checkMoment(m *Moment) error {
	if m.Kind < Sent || int(m.Kind) >= len(kindNames) {
		return errors.New("no such kind")
	}
	for _, ref := range [...]struct {
		name string
		id   int
		kind Kind // 0: none may be named
		free bool // any kind will do
	}{
		{"cause", m.Cause, 0, true},
		{"frame", m.Frame, frameOf[m.Kind], false},
		{"begin", m.Begin, beginOf[m.Kind], false},
	} {
		switch {
		case ref.id == 0:
		case ref.id < 0 || ref.id >= m.ID:
			return fmt.Errorf("its %s is moment %d, which is not earlier", ref.name, ref.id)
		case !ref.free && ref.kind == 0:
			return fmt.Errorf("it has a %s, moment %d, and its kind has none", ref.name, ref.id)
		case !ref.free && t.Moments[ref.id-1].Kind != ref.kind:
			return fmt.Errorf("its %s is moment %d, a %q, not a %q", ref.name, ref.id, t.Moments[ref.id-1].Kind, ref.kind)
		}
	}
	if m.Shard < -1 || m.Depth < 0 {
		return fmt.Errorf("shard %d or depth %d is out of range", m.Shard, m.Depth)
	}
	if m.Kind != Role {
		if m.Role != "" {
			return fmt.Errorf("it has a role, %q, and its kind has none", m.Role)
		}
		return nil
	}
	if !slices.Contains(roles[:], m.Role) {
		return fmt.Errorf("%q is no role", m.Role)
	}
	return nil
}

package simulate

import (
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// Frame is what one node sends to another at once: one message, or several. It is
// about to be sent, or, if InFlight returned it, on its way.
type Frame struct {
	From, To string // hosts
	Kind     transport.Kind
	Class    transport.Class
	Body     []byte // not to be changed

	conn *conn
	side int
}

// Messages names the messages in the frame, in plain words: "lock orders/42", "granted
// orders/42 token 7", "unlock orders/42 token 7", "unlocked orders/42 token 7",
// "renewal", "renewal answered", "append 2", "append 1 with a change of replicas",
// "appended", "heartbeat", "vote term 3", "snapshot chunk 0". What one node sends for another
// is "pass on: …"; what an actor sends is "port body" (see [Send]). It is nil for frames of
// what is no node of a mesh.
func (f Frame) Messages() []string {
	switch c := f.conn; {
	case c == nil:
		return nil
	case c.line:
		return []string{mailText(f.Body)}
	default:
		return f.named(c.net.world.asked)
	}
}

// Says reports whether one of the frame's messages begins with what, passed on or not:
//
//	f.Says("unlocked")           // the answer to an unlock, unless that is refused
//	f.Says("granted orders/42 ") // a grant of that key
func (f Frame) Says(what string) bool {
	for _, m := range f.Messages() {
		if strings.HasPrefix(strings.TrimPrefix(m, passedOn), what) {
			return true
		}
	}
	return false
}

// Verdict is what a rule wants of a frame: Pass, Drop, Keep, Twice or Garble, or, as a
// duration, to delay it by that long.
type Verdict time.Duration

// Verdicts.
const (
	Pass  Verdict = 0
	Drop  Verdict = -1 // it is lost
	Keep  Verdict = -2 // it waits for Release
	Twice Verdict = -3 // it arrives, and once more some milliseconds later
	// Garble: it arrives without its last byte, as if its sender had made a mistake. A node
	// that receives it ends the connection, unless it is gossip, which it drops.
	Garble Verdict = -4
)

// Rule lets f judge every frame that is sent from now on. The first rule that does
// not say Pass decides. The function returned ends the rule; HealAll does not.
//
//	stop := w.Net.Rule(func(f simulate.Frame) simulate.Verdict {
//		if f.From == "a" && f.Says("unlocked") {
//			return simulate.Drop // the unlock is done, and a's answer is lost
//		}
//		return simulate.Pass
//	})
func (n *Net) Rule(f func(Frame) Verdict) (stop func()) {
	r := &rule{judge: f}
	n.rules = append(n.rules, r)
	return func() { // of a copy: a rule may end itself while it judges
		n.rules = slices.DeleteFunc(slices.Clone(n.rules), func(o *rule) bool { return o == r })
	}
}

type rule struct{ judge func(Frame) Verdict }

func (n *Net) judge(f Frame) Verdict {
	for _, r := range n.rules {
		if v := r.judge(f); v != Pass {
			n.world.ailed = true
			return v
		}
	}
	return Pass
}

// named asks the node that sends a frame what is in it.
func (f Frame) named(asked env.Asked) []string {
	c := f.conn
	if n := c.ends[f.side].process.node(c.hellos[f.side].ID); n != nil {
		return n.Messages(f.Kind, f.Body, c.hellos[1-f.side].ID, asked)
	}
	return nil
}

// asked asks the node itself which command it sent under a number.
func (w *World) asked(id transport.ID, shard int, session, number uint64) string {
	if n := w.node(id); n != nil {
		return n.Asked(shard, session, number)
	}
	return ""
}

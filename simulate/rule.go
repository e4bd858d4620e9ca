package simulate

import (
	"errors"
	"time"

	"github.com/lockmesh/mesh/transport"
)

// Frame is a message that is about to be sent.
type Frame struct {
	From, To string // hosts
	Kind     transport.Kind
	Class    transport.Class
	Body     []byte // not to be changed
}

// Verdict is what a rule wants of a frame: Pass, Drop, or to delay it by that long.
type Verdict time.Duration

// Verdicts.
const (
	Pass Verdict = 0
	Drop Verdict = -1
)

// Rule lets f judge every frame that is sent from now on. The first rule that does
// not say Pass decides. The function returned ends the rule.
//
//	stop := w.Rule(func(f simulate.Frame) simulate.Verdict {
//		if f.From == "a" && f.To == "b" {
//			return simulate.Verdict(50 * time.Millisecond)
//		}
//		return simulate.Pass
//	})
func (w *World) Rule(f func(Frame) Verdict) (stop func()) {
	n := w.net
	n.rules = append(n.rules, f)
	slot := len(n.rules) - 1
	return func() { n.rules[slot] = func(Frame) Verdict { return Pass } }
}

func (n *network) judge(c *conn, side int, kind transport.Kind, class transport.Class, body []byte) Verdict {
	f := Frame{From: c.host(side).name, To: c.host(1 - side).name, Kind: kind, Class: class, Body: body}
	for _, rule := range n.rules {
		if v := rule(f); v != Pass {
			return v
		}
	}
	return Pass
}

func isRefused(err error) bool { return errors.Is(err, errRefused) }

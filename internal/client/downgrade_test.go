package client

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/shard"
)

func (b *bench) downgrades(h *Hold) *Call {
	b.tb.Helper()
	c := &Call{Kind: Downgrade, Hold: h}
	b.do(Start{c})
	return c
}

// Promise: P12, P47: a Downgrade is repeated until it is answered; once nobody waits for it, renewals name it. The hold goes on.
func TestADowngradeIsRepeatedAndNamed(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	c := b.downgrades(h)
	if d := commandOf(b.expect("2: downgrade k token 7")).(shard.Downgrade); d.Key != "k" || d.Token != 7 {
		t.Errorf("sent %+v", d)
	}
	b.do(Abandon{c, nil})
	var again, named int
	var last Send
	for range 40 {
		b.pass(100 * time.Millisecond)
		for _, s := range b.takes() {
			switch m := s.Message.(type) {
			case *message.Request:
				if _, ok := m.Command.(shard.Downgrade); ok {
					again, last = again+1, s
				}
			case *message.Renewal:
				for _, a := range m.Abandoned {
					if _, ok := a.Command.(shard.Downgrade); ok {
						named++
					}
				}
				b.hears(nodeB, alive(s, 20))
			}
		}
	}
	if again == 0 || named == 0 {
		t.Fatalf("it was sent %d times again, and %d renewals named it", again, named)
	}
	b.hears(nodeB, done(last, 21))
	b.pass(3 * time.Second)
	if all := inWords(b.takes()); slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "downgrade") }) {
		t.Errorf("after the answer: %q", all)
	}
	if !c.over || c.Err != nil || h.Err() != nil {
		t.Errorf("the call: %v, %v; the hold: %v", c.over, c.Err, h.Err())
	}
}

// Promise: C8, P47: once a Downgrade has begun, a reader's hold is what is reported, and the Downgrade follows.
func TestADowngradeIsReported(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	c := b.downgrades(h)
	b.takes()
	b.do(Generation{Name: 1, Quiet: time.Second})
	b.hears(nodeB, &message.Serving{Generation: 1, Term: benchTerm + 1})
	var report Send
	for _, s := range b.takes() {
		switch cmd := commandOf(s).(type) {
		case shard.Report:
			if report = s; cmd.Token != 7 || cmd.Weight != 1 || cmd.Capacity != shard.Whole {
				t.Errorf("reported %+v", cmd)
			}
		case shard.Downgrade:
			t.Error("a Downgrade comes before the report")
		}
	}
	m := granted(report, 7).(*message.Reply)
	m.Generation = 1
	b.hears(nodeB, m)
	if all := inWords(b.takes()); !slices.Contains(all, "2: downgrade k token 7") {
		t.Errorf("then %q", all)
	}
	if c.over || h.Err() != nil {
		t.Errorf("%t, %v", c.over, h.Err())
	}
}

// Promise: P47: what is over is not downgraded.
func TestADowngradeOfWhatIsOver(t *testing.T) {
	b := newBench(t)
	h := b.holds(b.own, Request{Key: "k"}, 7)
	h.End(env.Never, fault.ErrClosed)
	if c := b.downgrades(h); !c.over || c.Err != fault.ErrClosed {
		t.Errorf("unlocked: %v, %v", c.over, c.Err)
	}
	b = newBench(t)
	h = b.holds(b.own, Request{Key: "k"}, 7)
	b.do(Shut{})
	if c := b.downgrades(h); !c.over || c.Err != fault.ErrLost {
		t.Errorf("lost: %v, %v", c.over, c.Err)
	}
}

// Promise: P9, P47: a session is lost while a Downgrade of a hold of fixed length is under way. The hold is given back all the same.
func TestALostSessionsDowngrade(t *testing.T) {
	b := newBench(t)
	s := NewSession(false, benchTTL)
	c := b.downgrades(b.holds(s, Request{Key: "k", MaxHold: time.Hour}, 7))
	b.expect("2: downgrade k token 7")
	s.End(fault.ErrLost)
	b.do(LoseSession{s})
	b.expect("2: close")
	if !c.over || c.Err != fault.ErrLost {
		t.Errorf("the Downgrade: %v, %v", c.over, c.Err)
	}
}

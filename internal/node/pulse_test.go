package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
)

// loop returns the loop of a name.
func (b *bench) loop(name string) *benchLoop {
	for _, l := range b.loops {
		if l.name == name && !l.over {
			return l
		}
	}
	b.tb.Fatalf("no loop %s", name)
	return nil
}

// A loop that does nothing for ten turns of the pulse hangs, until it has done something. A pause of the whole process is
// one turn, and the end of the node is its end.
func TestLive(t *testing.T) {
	for _, name := range []string{"shards", "membership"} {
		b := start(t, Config{})
		live := func(want error) {
			t.Helper()
			if err := b.node.Live(); !errors.Is(err, want) || err != nil && want == fault.ErrHung && !strings.Contains(err.Error(), strings.TrimSuffix(name, "s")+" loop") {
				t.Fatalf("%s at %v: %v, want %v", name, b.now, err, want)
			}
		}
		live(nil)
		b.pass(20 * time.Second)
		live(nil)
		hangs := b.loop(name)
		hangs.over = true // in the bench: it does not run
		b.pass(9 * time.Second)
		live(nil)
		b.pass(3 * time.Second)
		live(fault.ErrHung)
		hangs.over, hangs.due = false, b.now
		b.run()
		live(nil)

		b.now += time.Hour // everything stood still
		live(nil)
		b.pass(2 * time.Second)
		live(nil)
		b.node.Close()
		live(fault.ErrClosed)
		if !b.stopped("pulse") {
			t.Error("the pulse goes on")
		}
		live(fault.ErrClosed)
	}
	b := start(t, Config{})
	for _, l := range b.loops {
		if l.name == "pulse" {
			t.Error("nobody has asked, and there is a pulse")
		}
	}
	b.node.Close()
	if err := b.node.pulse.ask(); err != nil || b.node.pulse.loop != nil {
		t.Errorf("a node that has ended gets a pulse: %v", err)
	}
}

// stopped reports whether the loop of a name was stopped.
func (b *bench) stopped(name string) bool {
	for _, l := range b.loops {
		if l.name == name {
			return l.over
		}
	}
	return true
}

// After a node has ended by itself, its pulse rests.
func TestPulseAfterTheEnd(t *testing.T) {
	b := start(t, Config{})
	_ = b.node.Live()
	b.run()
	b.node.fail(errDeaf)
	b.pass(2 * time.Second)
	if l := b.loop("pulse"); l.due != env.Never {
		t.Errorf("the pulse goes on at %v", l.due)
	}
}

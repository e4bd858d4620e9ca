package node

import (
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/members"
	"github.com/lockmesh/mesh/internal/seat"
)

// still is a world in which nothing happens by itself.
type still struct{ env.Env }

func (still) Now() time.Duration { return time.Second }

func (still) Wake() {}
func (still) Stop() {}

// What is left in the shard loop's mailbox when the shard loop ends is done once, though the loop may run
// once more before it is stopped; and what comes later is refused.
func TestAClosedMailboxIsEmpty(t *testing.T) {
	l := &shardLoop{node: &Node{env: still{}}, client: client.New(client.Config{Shards: 1}), view: &members.View{}, core: coreSide{seat: seat.New(seat.Config{})}}
	done, late := 0, 0
	l.post(func(l *shardLoop) {
		l.post(func(*shardLoop) { done++ })
		l.close()
		if l.post(func(*shardLoop) { late++ }) {
			t.Error("a mailbox that is closed takes an input")
		}
	})
	for range 3 {
		l.run(0)
	}
	if done != 1 || late != 0 {
		t.Errorf("the last input was run %d times, want once; one that came after the end %d times, want never", done, late)
	}
}

// Package check judges a mesh by what its callers are told and believe, and by what its replicas tell:
// the promises G1 to G6 and G9, each of which is described where it is checked. It sees a simulated world
// through [World], and hears of what happens by [History.Clients] and the methods of [Observer].
//
// A good day is a world without faults, in which nodes only leave and join: more is demanded there.
package check

import (
	"fmt"
	"iter"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// World is what the checkers see of a world, and do to it.
type World interface {
	Now() time.Duration // true time
	Events() uint64     // that have happened
	Run(d time.Duration) error
	// Fail ends the run, and Err returns the first error with which it was called.
	Fail(err error)
	Err() error
	// Record takes a moment down, and returns its ID; 0 without a timeline.
	Record(m timeline.Moment) int
	// Watch calls fn soon after done is closed, unless stop is called before.
	Watch(done <-chan struct{}, fn func()) (stop func())

	// Living returns each node that runs, with its process.
	Living() iter.Seq2[Process, Node]
	// Process returns the process in which a node lives, or lived; nil if there never was one.
	Process(node transport.ID) Process
	// Actor returns the actor that runs; nil if none does.
	Actor() Actor
	// Loop returns the loop that runs; nil if none does.
	Loop() Loop
	// Parked returns the actors that wait for an answer of a node.
	Parked() []string

	// Ailed reports whether anything was ever worse than on a good day, and Ail says that it was.
	Ailed() bool
	Ail()
	// Healed returns when HealAll was last called; 0 if there was a fault since, or a node left or joined.
	Healed() time.Duration
	// Noisy reports whether fault points are taken, and messages lost for what they are, in this world;
	// and whether they still are.
	Noisy() (ever, still bool)
	// Bound is how long a call for a free key may wait once the world is healed; 0: for ever.
	Bound() time.Duration
	// Balanced reports whether dials of some address lead, or led, to several nodes, as the scenario wants it.
	Balanced() bool
	// Meshes is how many meshes may live at a time.
	Meshes() int
	// Relists reports whether the list of seeds changes in this world.
	Relists() bool

	// CallBegins and CallEnds hear of each call of a node, and LostWithSession of holds that
	// end with their user's session.
	CallBegins(node transport.ID, key string)
	CallEnds(node transport.ID, key string)
	LostWithSession(p Process, node transport.ID)
}

// Process is one incarnation of a host.
type Process interface {
	Host() string
	Now() time.Duration
	Wall() time.Time
	// Truth returns the true time at which Now shows, or showed, t.
	Truth(t time.Duration) time.Duration
	Dead() bool
	Leaving() bool
	Paused() bool
	// Well reports whether it runs at its usual speed, and the latest pause ended more than d ago.
	Well(d time.Duration) bool
	// Hung is the true time at which the latest stall of one of its loops ends.
	Hung() time.Duration
	// Waited returns for how long in all its host has waited for frames that came late, or for room to send them. StillWaits is the
	// same, with the frames that have not arrived yet.
	Waited() time.Duration
	StillWaits() time.Duration
}

// Node is a node of a mesh.
type Node struct {
	ID transport.ID
	env.Inspected
}

// Actor is user code that runs.
type Actor interface {
	Name() string
	String() string // with its host
}

// Loop is a loop of a node.
type Loop interface {
	// Works returns the time until which the loop has worked, by its process's clock, which shows
	// now: now itself, unless the loop stands still. Stood returns for how long it stood still before.
	Works(now time.Duration) time.Duration
	Stood() time.Duration
}

// nodeOf returns a node, and reports whether it runs.
func nodeOf(w World, id transport.ID) (n Node, runs bool) {
	for _, n := range w.Living() {
		if n.ID == id {
			return n, true
		}
	}
	return Node{}, false
}

// replicas returns each replica of a node that runs, with its node.
func replicas(w World) iter.Seq2[Node, env.Replica] {
	return func(yield func(Node, env.Replica) bool) {
		for _, n := range w.Living() {
			for _, r := range n.Replicas() {
				if !yield(n, r) {
					return
				}
			}
		}
	}
}

// shardOf names the shard of a node's replica.
func shardOf(n Node, r env.Replica) ShardName { return ShardName{n.Mesh(), r.Generation, r.Shard} }

// HostOf returns the host that a node lives on, or lived on.
func HostOf(w World, node transport.ID) string {
	if p := w.Process(node); p != nil {
		return p.Host()
	}
	return fmt.Sprintf("node %x", uint64(node))
}

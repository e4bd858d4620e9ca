package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// TestObservers tells what hears the replicas what is right, and what is wrong.
func TestObservers(t *testing.T) {
	tells := func(node transport.ID, shard int, generation uint64, fact any) func(observer) {
		return func(o observer) { o.Observe(env.At{Shard: shard, Generation: generation, Node: node}, fact) }
	}
	leads := func(node transport.ID, shard int, generation, term uint64) func(observer) {
		return tells(node, shard, generation, env.Became{Term: term, Role: "leader"})
	}
	stands := func(node transport.ID, generation, term uint64) func(observer) {
		return tells(node, 0, generation, env.Became{Term: term, Role: "candidate"})
	}
	follows := tells(2, 0, 1, env.Became{Term: 3, Role: "follower"})
	applied := func(node transport.ID, shard int, index, digest uint64) func(observer) {
		return tells(node, shard, 1, env.Applied{Index: index, Digest: digest})
	}
	stopped := func(err error) func(observer) { return tells(1, 3, 1, env.Stopped{Err: err}) }
	// Of two meshes, the node that is alone in its own gives way.
	given := errors.New("another mesh lists this node")
	meshes := func(n int, ids ...uint64) func(observer) {
		return func(o observer) {
			o.marks.world.history.Meshes = n
			for i, id := range ids {
				p := o.marks.world.Host(fmt.Sprint("host", i+1)).process
				node := transport.ID(i + 1)
				p.Inspect(node, &looked{mesh: id})
				o.Founded(node, id)
			}
		}
	}
	ends := func(node transport.ID) func(observer) { return func(o observer) { o.Ended(node, given) } }
	made := func(node transport.ID, shard int, generation, id uint64) func(observer) {
		return tells(node, shard, generation, env.Hosted{ID: id})
	}
	// By turns the ID of a replica and its node.
	configured := func(index uint64, replicas ...uint64) func(observer) {
		var placed []env.Placed
		for i := 0; i < len(replicas); i += 2 {
			placed = append(placed, env.Placed{ID: replicas[i], Node: transport.ID(replicas[i+1])})
		}
		return tells(1, 0, 1, env.Configured{Index: index, Replicas: placed})
	}
	born := func(host string, node transport.ID) func(observer) {
		return func(o observer) { o.marks.world.Host(host).process.Inspect(node, &looked{}) }
	}
	seated := func(host string, node transport.ID, mesh uint64, seats ...transport.ID) func(observer) {
		return func(o observer) {
			o.marks.world.Host(host).process.Inspect(node, &looked{mesh: mesh, seats: seats})
			o.Founded(node, mesh)
		}
	}
	crash := func(host string) func(observer) { return func(o observer) { o.marks.world.Host(host).Crash() } }
	asks := shard.Acquire{Call: shard.Call{Session: shard.SessionID{Node: 9, Number: 1}, Number: 3}}
	decides := func(what shard.DecisionKind, number, token uint64) func(observer) {
		return tells(1, 0, 1, shard.Decision{What: what, Revision: 5, Key: "k", Session: asks.Session, Number: number, Token: token, Weight: 1, Capacity: 1})
	}
	type told = []func(observer)
	for _, tt := range []struct {
		name string
		told told
		want string
	}{
		{"a leader in each term", told{leads(1, 0, 1, 3), follows, leads(2, 0, 1, 4), leads(1, 0, 1, 5)}, ""},
		{"one leader of each shard", told{leads(1, 0, 1, 3), leads(2, 1, 1, 3)}, ""},
		{"one leader in each generation", told{leads(1, 0, 1, 3), leads(2, 0, 2, 3)}, ""},
		{"two leaders in one term", told{leads(1, 0, 1, 3), leads(2, 0, 1, 3)}, "G1 leaders"},
		{"like tables", told{applied(1, 0, 7, 70), applied(1, 0, 8, 80), applied(2, 0, 7, 70), applied(2, 0, 8, 80)}, ""},
		{"one table that went its own way", told{applied(1, 0, 7, 70), applied(1, 0, 8, 80), applied(2, 0, 7, 70), applied(2, 0, 8, 81)}, "G1 replicas"},
		{"who waits for nothing new is told", told{tells(1, 0, 1, env.Stepped{Index: 7, Command: shard.Release{}, Told: []shard.Event{
			{What: shard.Done}, {What: shard.Granted}, {What: shard.Queued},
		}})}, "G3 wake"},
		{"who asked, and who is let in", told{tells(1, 0, 1, env.Stepped{Index: 7, Command: shard.Release{}, Told: []shard.Event{
			{What: shard.Done}, {What: shard.Granted}, {What: shard.Granted},
		}})}, ""},
		{"another session is told", told{tells(1, 0, 1, env.Stepped{Index: 7, Command: asks, Told: []shard.Event{
			{What: shard.Queued, Session: shard.SessionID{Node: 8, Number: 1}, Number: 3},
		}})}, "G3 wake"},
		{"another request is told", told{tells(1, 0, 1, env.Stepped{Index: 7, Command: asks, Told: []shard.Event{
			{What: shard.Queued, Session: asks.Session, Number: 4},
		}})}, "G3 wake"},
		{"a decision of the leader is told", told{tells(1, 0, 1, env.Stepped{Index: 7, Command: shard.Silent{}, Told: []shard.Event{
			{What: shard.Queued, Session: asks.Session, Number: 3},
		}})}, "G3 wake"},
		{"those that a report leaves no room for are told", told{tells(1, 0, 1, env.Stepped{Index: 7, Command: shard.Report{}, Told: []shard.Event{
			{What: shard.Refused, Session: asks.Session, Number: 3},
		}})}, ""},
		{"those that have no place when a table is to grant are told", told{tells(1, 0, 1, env.Stepped{Index: 7, Command: shard.Settle{}, Told: []shard.Event{
			{What: shard.Refused, Session: asks.Session, Number: 3},
		}})}, ""},
		{"those that go on waiting then are told", told{tells(1, 0, 1, env.Stepped{Index: 7, Command: shard.Settle{}, Told: []shard.Event{
			{What: shard.Queued, Session: asks.Session, Number: 3},
		}})}, "G3 wake"},
		{"two shards", told{applied(1, 0, 7, 70), applied(2, 1, 7, 71)}, ""},
		{"a replica that panics", told{stopped(errors.New("panic: a table broke its rule\ngoroutine 7 [running]"))}, "P23 stopped: the replica of shard 3 on node 1 has stopped itself: panic: a table broke its rule"},
		{"a replica that is to stop", told{stopped(fmt.Errorf("panic: %w", env.ErrBroken))}, ""},
		{"a mesh of one that gives way", told{meshes(2, 7, 8, 8), ends(1)}, ""},
		{"one that gives way to nothing", told{meshes(0, 7), ends(1)}, "P28 ended"},
		{"a node that leaves another one alone", told{meshes(2, 7, 8, 8), ends(2)}, "P28 ended: the node on host2 has ended itself, though its mesh has another one, on host3"},
		{"replicas of a node, one after another", told{made(1, 0, 1, 1), made(2, 0, 1, 2), made(1, 0, 1, 4), made(1, 1, 1, 1), made(1, 0, 2, 1)}, ""},
		{"a replica that is made twice", told{made(1, 0, 1, 1), made(1, 0, 1, 1)}, "G1 identity: replica 1 of shard 0 is made on node 1, and was made"},
		{"a replica that two nodes have", told{made(1, 0, 1, 1), made(2, 0, 1, 1)}, "G1 identity"},
		{"a late word to make a replica", told{made(1, 0, 1, 4), made(1, 0, 1, 3)}, "G1 identity: replica 3 of shard 0 is made on node 1, which had replica 4"},
		{"replicas come and go", told{configured(5, 1, 1, 2, 2, 3, 3), configured(7, 1, 1, 2, 2, 3, 3, 4, 4), configured(9, 1, 1, 3, 3, 4, 4), configured(7, 1, 1, 2, 2, 3, 3, 4, 4), configured(11, 1, 1, 3, 3, 4, 4, 5, 2)}, ""},
		{"an ID that another node had", told{configured(5, 1, 1, 2, 2, 3, 3), configured(7, 1, 1, 2, 2), configured(9, 1, 1, 2, 2, 3, 4)}, "G1 identity: replica 3 of shard 0 is on node 4, and was another node's, on node 3"},
		{"a replica that comes back", told{configured(5, 1, 1, 2, 2, 3, 3), configured(7, 1, 1, 2, 2), configured(9, 1, 1, 2, 2, 3, 3)}, "G1 identity: replica 3 of shard 0 was removed"},
		{"an ID below the highest", told{configured(5, 1, 1, 2, 2, 9, 3), configured(7, 1, 1, 2, 2, 4, 4)}, "G1 identity: the new replica of shard 0 on node 4 has ID 4"},
		{"each incarnation has an ID", told{born("a", 1), born("b", 2), born("a", 3)}, ""},
		{"an incarnation with the ID of the one before", told{born("a", 1), born("b", 2), born("a", 1)}, "G1 identity: the node on a has the ID of an earlier one"},
		{"a generation after the other", told{leads(1, 0, 1, 3), leads(1, 0, 2, 2), leads(1, 1, 1, 2)}, ""},
		{"generations whose names fall", told{leads(1, 0, 2, 3), leads(1, 0, 1, 2), leads(2, 0, 1, 3)}, ""},
		{"a generation that was over", told{leads(1, 0, 2, 3), leads(1, 0, 1, 2), leads(2, 0, 2, 4)}, "G1 identity: the node on node 2 leads shard 0 in generation 2"},
		{"one that stood for election in that while it lived", told{leads(1, 0, 2, 3), stands(2, 2, 4), leads(1, 0, 1, 2), leads(2, 0, 2, 4), leads(1, 0, 1, 3)}, ""},
		{"one that stood when it was over", told{leads(1, 0, 2, 3), leads(1, 0, 1, 2), stands(2, 2, 4), leads(2, 0, 2, 4)}, "G1 identity: the node on node 2 leads shard 0 in generation 2"},
		{"the first of its generation, after the next one began", told{stands(2, 2, 4), stands(1, 1, 2), leads(1, 0, 1, 2), leads(2, 0, 2, 4), stands(1, 1, 3), leads(1, 0, 1, 3)}, ""},
		{"a generation that is over, and a replica that still applies what was committed", told{
			decides(shard.Entered, 1, 0), decides(shard.Admitted, 1, 6), decides(shard.Entered, 2, 0), leads(2, 0, 2, 3), decides(shard.Finished, 1, 6), decides(shard.Admitted, 2, 7),
		}, ""},
		{"its order counts", told{
			decides(shard.Entered, 1, 0), decides(shard.Entered, 2, 0), leads(2, 0, 2, 3), decides(shard.Admitted, 2, 7), decides(shard.Finished, 2, 7), decides(shard.Admitted, 1, 8),
		}, "G3 order"},
		{"and what it may grant", told{
			decides(shard.Entered, 1, 0), decides(shard.Admitted, 1, 6), decides(shard.Entered, 2, 0), leads(2, 0, 2, 3), decides(shard.Admitted, 2, 7),
		}, "G1 table"},
		{"a mesh, and one that follows it", told{seated("a", 1, 7, 1), seated("b", 2, 8, 1)}, ""},
		{"two meshes", told{seated("a", 1, 7, 1), seated("b", 2, 8, 2)}, "G1 founding"},
		{"a mesh after the other", told{seated("a", 1, 7, 1), crash("a"), seated("b", 2, 8, 2)}, ""},
		{"far behind", told{applied(1, 0, 7, 70), applied(1, 0, 7+1024, 71), applied(2, 0, 7, 72)}, ""},
	} {
		w := New(Options{})
		for _, tell := range tt.told {
			tell(w.observer())
		}
		if err := w.Err(); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		w.Close()
	}
}

// looked is a node that is nothing but what is seen of it.
type looked struct {
	mesh     uint64
	replicas []env.Replica
	seats    []transport.ID
	entries  string // a letter for each seat
}

func (n *looked) Mesh() uint64                { return n.mesh }
func (n *looked) Replicas() []env.Replica     { return n.replicas }
func (n *looked) Seats() []transport.ID       { return n.seats }
func (n *looked) Entries() []string           { return strings.Split(n.entries, "") }
func (*looked) Generations() []env.Generation { return nil }
func (*looked) Pending() bool                 { return false }
func (*looked) Ready() bool                   { return true }

func (*looked) Messages(transport.Kind, []byte, transport.ID, env.Asked) []string { return nil }
func (*looked) Asked(int, uint64, uint64) string                                  { return "" }
func (*looked) Break(int)                                                         {}
func (*looked) Corrupt(int)                                                       {}
func (*looked) Leave(context.Context) error                                       { return nil }

// TestMeshesWhereTheListChanges: what is left of a mesh at entries that were dropped may live on beside the next one, if it can
// decide nothing (C11).
func TestMeshesWhereTheListChanges(t *testing.T) {
	type ids = []transport.ID
	for _, tt := range []struct {
		name    string
		seats   ids // of the mesh before, of which nodes 1, 2 and 4 live
		entries string
		voters  ids
		relists bool
		want    string
	}{
		{"one of three, which was dropped", ids{1, 8, 9}, "acd", nil, true, ""},
		{"in a world in which no list changes", ids{1, 8, 9}, "acd", nil, false, "G1 founding"},
		{"one of three, at an entry of the next one", ids{1, 8, 9}, "bcd", nil, true, "G1 founding"},
		{"most of the core", ids{1, 2, 9}, "acd", nil, true, "G1 founding"},
		{"most of it, and one has a seat in the next one, and has not heard of that yet", ids{1, 4, 9}, "abd", nil, true, ""},
		{"the only one that ever came", ids{1, 0}, "ac", nil, true, "G1 founding"},
		{"most voters of a shard", ids{1, 2, 7, 8, 9}, "acdef", ids{1, 2, 9}, true, "G1 founding"},
	} {
		w := New(Options{})
		w.History().Relists = tt.relists
		before := &looked{mesh: 7, seats: tt.seats, entries: tt.entries}
		if tt.voters != nil {
			before.replicas = []env.Replica{{Voters: tt.voters}}
		}
		for i, host := range []string{"a", "b", "d"} {
			w.Host(host).process.Inspect(ids{1, 2, 4}[i], before)
		}
		w.Host("c").process.Inspect(3, &looked{mesh: 8, seats: ids{4, 3}, entries: "b "})
		w.observer().Founded(3, 8)
		if err := w.Err(); (err != nil) != (tt.want != "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		w.Close()
	}
}

// TestAnEntryIsAddedWhereAnotherMeshWas: who founds a mesh asks those at the entries of its list, and not one that is added to
// it later, which may have slept in the mesh before. Seed 220007466, lan.
func TestAnEntryIsAddedWhereAnotherMeshWas(t *testing.T) {
	type ids = []transport.ID
	w := New(Options{})
	defer w.Close()
	w.History().Relists = true
	next := &looked{mesh: 8, seats: ids{3}, entries: "c"}
	w.Host("a").process.Inspect(1, &looked{mesh: 7, seats: ids{1, 8, 9}, entries: "acd"})
	w.Host("c").process.Inspect(3, next)
	w.observer().Founded(3, 8)
	next.seats, next.entries = ids{0, 3, 4}, "acd" // a is added
	w.Host("d").process.Inspect(4, next)
	w.observer().Founded(4, 8)
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}

// TestAClientKnowsAnOlderCore: a core of a grows by b, and then drops a; b, the only one left, restarts, and founds another mesh. A
// client that was cut off before knows of a alone, and a itself that it is one of two. Seed 1795750211089, flaky.
func TestAClientKnowsAnOlderCore(t *testing.T) {
	type ids = []transport.ID
	w := New(Options{})
	defer w.Close()
	w.History().Relists = true
	w.Host("a").process.Inspect(1, &looked{mesh: 7, seats: ids{1, 9}, entries: "ab"})
	w.Host("b").process.Inspect(2, &looked{mesh: 8, seats: ids{2}, entries: "b"})
	w.Host("c").process.Inspect(3, &looked{mesh: 7, seats: ids{1}, entries: "a"})
	w.observer().Founded(2, 8)
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}

// TestVotersHaveWhatIsApplied: what a leader has applied when it comes to count by a configuration is with most
// of its voters (P30).
func TestVotersHaveWhatIsApplied(t *testing.T) {
	type ids = []transport.ID
	for _, tt := range []struct {
		name             string
		voters, outgoing ids
		last             []uint64 // of node 1, which leads and has applied entry 7, and of those that follow it; 0: it has no replica
		follows          bool     // node 1 does not lead
		again            ids      // which have had a replica before that one
		fails            bool
	}{
		{"all have it", ids{1, 2, 3}, nil, []uint64{7, 7, 9}, false, nil, false},
		{"two of three have it", ids{1, 2, 3}, nil, []uint64{7, 6, 7}, false, nil, false},
		{"one of three has it", ids{1, 2, 3}, nil, []uint64{7, 6, 6}, false, nil, true},
		{"one of two has it", ids{1, 2}, nil, []uint64{7, 6}, false, nil, true},
		{"two of four have it", ids{1, 2, 3, 4}, nil, []uint64{8, 6, 7, 6}, false, nil, true},
		{"one of two has it, and two of the three before", ids{1, 3}, ids{1, 2, 3}, []uint64{7, 7, 6}, false, nil, false},
		{"two of two have it, and two of the four before", ids{1, 2}, ids{1, 2, 3, 4}, []uint64{7, 7, 6, 6}, false, nil, false},
		{"one of two has it, and one of the three before", ids{1, 3}, ids{1, 2, 3}, []uint64{7, 6, 6}, false, nil, true},
		{"a learner has it", ids{1, 2}, nil, []uint64{7, 6, 7}, false, nil, true},
		{"a voter is gone", ids{1, 2}, nil, []uint64{7, 0}, false, nil, false},
		{"it was on the node before", ids{1, 2}, nil, []uint64{7, 1}, false, ids{2}, false},
		{"it does not lead", ids{1, 2}, nil, []uint64{7, 6}, true, nil, false},
	} {
		w := New(Options{})
		var placed []env.Placed
		for i, last := range tt.last {
			id := transport.ID(i + 1)
			n := &looked{mesh: 1}
			if last > 0 {
				n.replicas = []env.Replica{{Generation: 1, Voters: tt.voters, Outgoing: tt.outgoing, Last: last}}
			}
			if i == 0 {
				n.replicas[0].Serving, n.replicas[0].Applied = !tt.follows, 7
			}
			w.Host(fmt.Sprint("host", i+1)).process.Inspect(id, n)
			w.observer().Founded(id, 1)
			placed = append(placed, env.Placed{ID: uint64(id), Node: id})
		}
		for _, node := range tt.again {
			placed = append(placed, env.Placed{ID: uint64(len(placed) + 1), Node: node})
		}
		w.observer().Observe(env.At{Generation: 1, Node: 1}, env.Configured{Index: 7, Replicas: placed})
		w.settle()
		if err := w.Err(); (err != nil) != tt.fails || err != nil && !strings.HasPrefix(err.Error(), "P30 voters: at entry 7") {
			t.Errorf("%s: %v", tt.name, err)
		}
		w.Close()
	}
}

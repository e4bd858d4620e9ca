package meshtest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/realenv"
	"github.com/lockmesh/mesh/shard"
)

const (
	anyPort  = "127.0.0.1:0"
	maxNodes = 64               // of a list
	patience = 30 * time.Second // for nodes to become ready, or healthy
)

// Mesh is a mesh of nodes in this process, which are connected over loopback. The nodes of its core have the indexes from 0
// on, in the order of their entries in the list; those that [Mesh.Client] adds have the next ones.
//
// Its methods end the test with Fatal if they cannot do what they say, for example because there is no node with the index. Fatal
// must be called from the test's own goroutine, so call these methods from there. Seeds, and Node with an index that
// exists, may be called from any goroutine.
type Mesh struct {
	t       testing.TB
	network *network
	log     *logs
	seeds   []string

	mu     sync.Mutex
	places []*place
}

// place is where one node after the other runs.
type place struct {
	name string
	host *host
	opts []mesh.Option
	node *mesh.Node
	dead bool // killed, and not restarted
	ran  bool // a node has been started here
}

// Fleet founds a mesh with a core of n nodes, 1 to 64, and returns when every node is ready and every shard fully
// replicated: as a rule in less than 300 ms. All nodes have the options; see [FleetOf] for different ones. All of them are closed
// when the test ends.
//
// Without other options, the nodes are called n0, n1 and so on, their mesh has the name of the test, and what they log, from
// level Info, is in the test's output. They have the lease TTL of production, 10 s. A test in which locks are lost is faster with
// [mesh.WithLeaseTTL] of a second; but a test process that stands still for that long then loses its locks, too.
//
// The system chooses the ports, so fleets of tests that run in parallel do not meet. [mesh.WithBind] and what makes a node a
// client are not for the nodes of a fleet: the test fails.
func Fleet(t testing.TB, n int, opts ...mesh.Option) *Mesh {
	t.Helper()
	if n < 1 || n > maxNodes {
		t.Fatalf("meshtest: Fleet of %d nodes, want 1 to %d", n, maxNodes)
	}
	return FleetOf(t, slices.Repeat([][]mesh.Option{opts}, n)...)
}

// FleetOf is Fleet with options of its own for each node: a name and a zone, for example. There are as many nodes as lists of options.
//
//	meshtest.FleetOf(t,
//		[]mesh.Option{mesh.WithName("ann"), mesh.WithZone("north")},
//		[]mesh.Option{mesh.WithName("bob"), mesh.WithZone("south")},
//		[]mesh.Option{mesh.WithName("eve"), mesh.WithZone("west")})
func FleetOf(t testing.TB, nodes ...[]mesh.Option) *Mesh {
	t.Helper()
	if len(nodes) < 1 || len(nodes) > maxNodes {
		t.Fatalf("meshtest: FleetOf %d nodes, want 1 to %d", len(nodes), maxNodes)
	}
	m := &Mesh{t: t, network: newNetwork(), log: &logs{t: t}}
	t.Cleanup(m.close)
	all := make([]int, len(nodes))
	for i, opts := range nodes {
		h, err := m.network.newHost("", true)
		if err != nil {
			t.Fatalf("meshtest: a port for node %d: %v", i, err)
		}
		m.seeds = append(m.seeds, h.addr)
		m.places = append(m.places, &place{name: fmt.Sprint("n", i), host: h, opts: slices.Clone(opts)})
		all[i] = i
	}
	for _, i := range all {
		m.start(i)
	}
	m.await("Fleet", all, ready, healthy)
	return m
}

// Seeds returns the list of the mesh: the addresses of its core. A node that the code under test starts itself may join with
// it, with [mesh.WithClientOnly]. The Mesh does not know such a node: it has no index, so it cannot be killed or isolated itself.
// It does notice what happens to the nodes of the core. The test must close it.
func (m *Mesh) Seeds() []string { return slices.Clone(m.seeds) }

// Node returns the present node of an index: after Restart, the new one; after Kill, the old one, which is closed.
func (m *Mesh) Node(i int) *mesh.Node {
	m.t.Helper()
	m.place("Node", i)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.places[i].node
}

// Client adds a client of the core, waits until it is ready, and returns its index. It has these options alone, and not those of Fleet: a
// lease TTL of Fleet is not its own, and without one it has 10 s, or the mesh's MaxTTL if that is shorter. Without [mesh.WithName] it is
// called "client-" and the index. Kill, Restart and Isolate take the index of a client, too.
func (m *Mesh) Client(opts ...mesh.Option) (i int) {
	m.t.Helper()
	i = len(m.places)
	name := fmt.Sprint("client-", i)
	h, err := m.network.newHost(name, false)
	if err != nil {
		m.t.Fatalf("meshtest: Client: %v", err)
	}
	m.mu.Lock()
	m.places = append(m.places, &place{name: name, host: h, opts: slices.Clone(opts)})
	m.mu.Unlock()
	m.start(i)
	m.await("Client", []int{i}, ready)
	return i
}

// Kill ends a node as SIGKILL ends a process: at once and without a word. Its connections break, and nothing listens at its entry any
// more; if it is cut off, the others notice nothing. Unlike those of a killed process, its callers live on in the test: the contexts of its
// locks end. The keys are free when the leases end. The test fails if the node does not run, for example because it was killed before.
func (m *Mesh) Kill(i int) {
	m.t.Helper()
	p := m.running("Kill", i)
	_ = p.node.Close()
	p.dead = true
}

// Restart starts nodes anew, with their options and addresses and with empty memory, and returns when they are ready. One that
// runs is killed first; for an orderly restart, call its Leave before.
//
// A core that has lost a majority at once goes on, as a rule, only when every entry answers: restart all nodes that are
// down in one call. Then free keys wait for the quiet time, 2 % more than [mesh.WithMaxTTL]. But if no node of the core has lived on,
// the mesh is a new one: it is quiet for 4 s at least; or not at all, if no client has lived on either and no state directory knows of the
// mesh before. The test fails if a node is cut off or listed twice, or is not ready within 30 s.
func (m *Mesh) Restart(nodes ...int) {
	m.t.Helper()
	for at, i := range nodes {
		if p := m.place("Restart", i); p.host.isolated() {
			m.t.Fatalf("meshtest: Restart: node %d (%s) is cut off and cannot join: call Heal first", i, p.name)
		}
		if slices.Contains(nodes[:at], i) {
			m.t.Fatalf("meshtest: Restart: node %d is listed twice", i)
		}
	}
	for _, i := range nodes {
		if p := m.places[i]; !p.dead {
			_ = p.node.Close()
		}
	}
	for _, i := range nodes {
		m.start(i)
	}
	m.await("Restart", nodes, ready)
}

// Isolate cuts a node off from all others, as if its network cable were pulled: no connection breaks at once, but nothing
// arrives any more, in either direction. The others count it as gone after 5 to 8 s; shards that it led have new leaders after 1 to 2 s.
// The node itself runs on, but cannot renew: the locks that it holds are lost when their leases end. The test fails if the node does not
// run, or is cut off already.
func (m *Mesh) Isolate(i int) {
	m.t.Helper()
	p := m.running("Isolate", i)
	if p.host.isolated() {
		m.t.Fatalf("meshtest: Isolate: node %d (%s) is cut off already", i, p.name)
	}
	p.host.isolate()
}

// Heal ends what Isolate did, for all nodes, and returns at once. Nodes that have lost their connection are connected again within
// 5 s; WaitHealthy waits for it. If no node is cut off, Heal does nothing.
func (m *Mesh) Heal() { m.network.heal() }

// WaitHealthy waits until each node that runs is ready, and knows that every shard is fully replicated: see
// [mesh.Node.WaitHealthy]. The test fails if that takes more than 30 s, as in a core of three of which one node is down.
func (m *Mesh) WaitHealthy() {
	m.t.Helper()
	var up []int
	for i, p := range m.places {
		if p.node.Err() == nil {
			up = append(up, i)
		}
	}
	m.await("WaitHealthy", up, ready, healthy)
}

// place returns the place of an index.
func (m *Mesh) place(call string, i int) *place {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if i < 0 || i >= len(m.places) {
		m.t.Fatalf("meshtest: %s: no node %d, the mesh has 0 to %d", call, i, len(m.places)-1)
	}
	return m.places[i]
}

// running returns the place of a node that runs.
func (m *Mesh) running(call string, i int) *place {
	m.t.Helper()
	p := m.place(call, i)
	switch err := p.node.Err(); {
	case p.dead:
		m.t.Fatalf("meshtest: %s: node %d (%s) was killed before: call Restart first", call, i, p.name)
	case err != nil:
		m.t.Fatalf("meshtest: %s: node %d (%s) has ended: %v", call, i, p.name, err)
	}
	return p
}

// start starts the node of a place.
func (m *Mesh) start(i int) {
	m.t.Helper()
	p := m.places[i]
	opts := []mesh.Option{mesh.WithName(p.name), mesh.WithLogger(m.log.logger()), mesh.WithMeshName(meshName(m.t.Name()))}
	switch {
	case p.host.gate == nil:
		opts = append(opts, mesh.WithClientOnly())
	case p.ran:
		opts = append(opts, mesh.WithBind(p.host.addr))
	default:
		// Listen opens the port that the system has chosen already. So the node knows that it is the first one there,
		// and need not listen for clients of a mesh before (C3).
		opts = append(opts, mesh.WithBind(anyPort))
	}
	real := realenv.New(nil)
	ctx := env.With(context.Background(), realenv.Over(p.host, real.Now, nil))
	node, err := mesh.StartContext(ctx, m.seeds, append(opts, p.opts...)...)
	if err != nil {
		m.t.Fatalf("meshtest: node %d does not start: %v", i, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.node, p.name, p.ran, p.dead = node, node.Name(), true, false
}

// meshName shortens the name of a test to that of a mesh.
func meshName(test string) string {
	if len(test) > shard.MaxName {
		test = strings.ToValidUTF8(test[:shard.MaxName], "")
	}
	return test
}

// goal is a state of a node that await waits for; text completes "node 0 is not …".
type goal struct {
	text string
	wait func(n *mesh.Node, ctx context.Context) error
}

var (
	ready   = goal{"ready", (*mesh.Node).WaitReady}
	healthy = goal{"fully replicated", (*mesh.Node).WaitHealthy}
)

// await waits until all of some nodes have reached some goals, one goal after the other.
func (m *Mesh) await(call string, nodes []int, goals ...goal) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, g := range goals {
		for _, i := range nodes {
			p := m.places[i]
			if err := g.wait(p.node, ctx); err != nil {
				m.t.Fatalf("meshtest: %s: node %d (%s) is not %s: %v; the nodes of the mesh: %s", call, i, p.name, g.text, err, m.state())
			}
		}
	}
}

// state says of each node whether it runs.
func (m *Mesh) state() string {
	var all []string
	for i, p := range m.places {
		state := "runs"
		switch err := p.node.Err(); {
		case p.dead:
			state = "was killed"
		case err != nil:
			state = fmt.Sprintf("has ended (%v)", err)
		}
		if p.host.isolated() {
			state += " and is cut off"
		}
		all = append(all, fmt.Sprintf("node %d (%s) %s", i, p.name, state))
	}
	return strings.Join(all, ", ")
}

// close ends all nodes, as Kill does.
func (m *Mesh) close() {
	var ends sync.WaitGroup
	for _, p := range m.places {
		if p.node != nil { // it may have failed to start
			ends.Go(func() { _ = p.node.Close() })
		}
	}
	ends.Wait()
	m.network.close()
	m.log.close()
}

// logs writes what nodes log into the output of a test, until the test ends.
type logs struct {
	t      testing.TB
	mu     sync.Mutex
	closed bool
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements io.Writer.
func (l *logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return len(line), nil
	}
	return l.t.Output().Write(line)
}

func (l *logs) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

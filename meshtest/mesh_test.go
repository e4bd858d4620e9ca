package meshtest_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/meshtest"
)

// The tests of this package mostly wait: more of them run at a time than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// brief are leases that a test can wait for.
func brief() []mesh.Option {
	return []mesh.Option{mesh.WithLeaseTTL(time.Second), mesh.WithMaxTTL(time.Second)}
}

// within bounds a call of the test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// lock locks a key on a node.
func lock(t *testing.T, n *mesh.Node, key string) *mesh.Lock {
	t.Helper()
	l, err := n.Lock(within(t), key)
	if err != nil {
		t.Fatalf("%s locks %q: %v", n.Name(), key, err)
	}
	return l
}

// lost waits until a lock is lost.
func lost(t *testing.T, l *mesh.Lock) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-within(t).Done():
		t.Fatal("the lock was not lost")
	}
	if err := context.Cause(l.Context()); !errors.Is(err, mesh.ErrLost) || !errors.Is(l.Err(), mesh.ErrLost) {
		t.Fatalf("its context ended with %v, and Err is %v, want ErrLost", err, l.Err())
	}
}

// next waits until a node gets a key after its holder, and unlocks it.
func next(t *testing.T, n *mesh.Node, after *mesh.Lock) {
	t.Helper()
	l := lock(t, n, after.Key())
	if after.Err() == nil {
		t.Error("the key has two holders")
	}
	if l.Token() <= after.Token() {
		t.Errorf("token %d after %d", l.Token(), after.Token())
	}
	if err := l.Unlock(within(t)); err != nil {
		t.Error(err)
	}
}

// leader returns the index of the node that leads the shard of a key. It must be free, and is free afterwards.
func leader(t *testing.T, m *meshtest.Mesh, key string) int {
	t.Helper()
	l := lock(t, m.Node(0), key)
	_, err := m.Node(1).TryLock(within(t), key)
	var wait *mesh.WaitError
	if !errors.As(err, &wait) {
		t.Fatalf("TryLock = %v", err)
	}
	if err := l.Unlock(within(t)); err != nil {
		t.Fatal(err)
	}
	for i := range m.Seeds() {
		if m.Node(i).Name() == wait.Leader {
			return i
		}
	}
	t.Fatalf("no node is called %q", wait.Leader)
	return 0
}

func TestAFleetServesWhenItIsReturned(t *testing.T) {
	m := meshtest.Fleet(t, 3)
	client := m.Client()
	if client != 3 {
		t.Errorf("the client has the index %d", client)
	}
	for i, want := range []struct {
		name string
		role mesh.Role
	}{{"n0", mesh.RoleCore}, {"n1", mesh.RoleCore}, {"n2", mesh.RoleCore}, {"client-3", mesh.RoleClient}} {
		n := m.Node(i)
		if h := n.Health(); n.Name() != want.name || h.Role != want.role || !h.Settled {
			t.Errorf("node %d is %q: %+v", i, n.Name(), h)
		}
		if i < 3 && n.Addr() != m.Seeds()[i] {
			t.Errorf("node %d is at %s, and the list says %s", i, n.Addr(), m.Seeds()[i])
		}
		l, err := n.TryLock(within(t), "k") // there is no quiet time
		if err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
		if _, err := m.Node((i+1)%4).TryLock(within(t), "k"); !errors.Is(err, mesh.ErrLocked) {
			t.Errorf("a second TryLock = %v", err)
		}
		if err := l.Unlock(within(t)); err != nil {
			t.Error(err)
		}
	}
}

// The figure of 300 ms is for a machine that is not busy otherwise, so the test allows more.
func TestAFleetIsReadySoon(t *testing.T) {
	var all []time.Duration
	for range 5 {
		t.Run("fleet", func(t *testing.T) {
			start := time.Now()
			meshtest.Fleet(t, 3)
			all = append(all, time.Since(start).Round(time.Millisecond))
		})
	}
	slices.Sort(all)
	t.Log("sorted:", all)
	if median := all[len(all)/2]; median > time.Second {
		t.Errorf("a fleet is ready after %v, as a rule", median)
	}
}

func TestFleetsOfParallelTestsDoNotMeet(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			m := meshtest.Fleet(t, 3)
			l, err := m.Node(0).TryLock(within(t), "the same key")
			if err != nil {
				t.Fatal(err)
			}
			m.Kill(1)
			if n := len(m.Node(0).Members()); n != 3 {
				t.Errorf("%d members", n)
			}
			if err := l.Unlock(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFleetOfGivesEachNodeItsOptions(t *testing.T) {
	t.Parallel()
	m := meshtest.FleetOf(t,
		[]mesh.Option{mesh.WithName("ann"), mesh.WithZone("north")},
		[]mesh.Option{mesh.WithName("bob"), mesh.WithZone("south"), mesh.WithLeaseTTL(2 * time.Second)},
		nil)
	m.Client(mesh.WithName("eve"))
	m.Kill(1)
	m.Restart(1, 3)
	m.WaitHealthy()
	var all []string
	for _, i := range []int{0, 1, 2, 3} {
		all = append(all, m.Node(i).Name())
	}
	if want := []string{"ann", "bob", "n2", "eve"}; !slices.Equal(all, want) {
		t.Errorf("the nodes are %q, want %q", all, want)
	}
	for _, o := range m.Node(0).Members() {
		if want := map[string]string{"ann": "north", "bob": "south"}[o.Name]; o.Zone != want {
			t.Errorf("%s is in zone %q, want %q", o.Name, o.Zone, want)
		}
	}
	s, err := m.Node(1).NewSession(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.TTL() != 2*time.Second {
		t.Errorf("the TTL is %v", s.TTL())
	}
}

func TestFleetsOfOtherSizes(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			m := meshtest.Fleet(t, n)
			lock(t, m.Node(n-1), "k").Unlock(within(t))
		})
	}
}

// The keys of a node that is killed are free when its leases end. Its successor has the same name and address.
func TestKillOfAHolder(t *testing.T) {
	t.Parallel()
	m := meshtest.Fleet(t, 3, brief()...)
	before := m.Node(2)
	held := lock(t, before, "k")
	m.Kill(2)
	lost(t, held)
	if _, err := before.TryLock(within(t), "other"); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("TryLock of a killed node = %v", err)
	}
	next(t, m.Node(0), held)
	m.Restart(2)
	m.WaitHealthy()
	after := m.Node(2)
	if after == before || after.Name() != before.Name() || after.Addr() != before.Addr() {
		t.Errorf("after %s at %s came %s at %s", before.Name(), before.Addr(), after.Name(), after.Addr())
	}
	next(t, after, held)
}

// The others do not need a node that is killed, also if it led.
func TestKillOfALeader(t *testing.T) {
	t.Parallel()
	m := meshtest.Fleet(t, 3)
	at := leader(t, m, "k")
	held := lock(t, m.Node((at+1)%3), "k")
	m.Kill(at)
	if _, err := m.Node((at+2)%3).TryLock(within(t), "k"); !errors.Is(err, mesh.ErrLocked) {
		t.Errorf("TryLock = %v, want ErrLocked", err)
	}
	if err := held.Unlock(within(t)); err != nil {
		t.Error(err)
	}
	lock(t, m.Node((at+2)%3), "k").Unlock(within(t))
	m.Restart(at)
	m.WaitHealthy()
}

// A holder that is cut off loses its lock, another one gets it, and after Heal all is well.
func TestIsolateOfTheLeadersNode(t *testing.T) {
	t.Parallel()
	m := meshtest.Fleet(t, 3, brief()...)
	at := leader(t, m, "k")
	held := lock(t, m.Node(at), "k")
	m.Isolate(at)
	lost(t, held)
	next(t, m.Node((at+1)%3), held)
	alone, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := m.Node(at).Lock(alone, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock of the node that is cut off = %v", err)
	}
	m.Heal()
	m.WaitHealthy()
	next(t, m.Node(at), held)
}

// Some requests arrive only after the cut.
func TestACutThatIsShortCostsNothing(t *testing.T) {
	m := meshtest.Fleet(t, 3)
	client := m.Client()
	held := lock(t, m.Node(client), "k")
	m.Isolate(client)
	got := make(chan error)
	go func() {
		l, err := m.Node(client).Lock(within(t), "other")
		if err == nil {
			err = l.Unlock(within(t))
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("Lock across a cut = %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	m.Heal()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if err := held.Unlock(within(t)); err != nil {
		t.Error(err)
	}
}

func TestIsolateOfAClient(t *testing.T) {
	t.Parallel()
	m := meshtest.Fleet(t, 3, brief()...)
	client := m.Client(brief()...)
	held := lock(t, m.Node(client), "k")
	m.Isolate(client)
	lost(t, held)
	next(t, m.Node(0), held)
	m.Heal()
	next(t, m.Node(client), held)
}

// The others hear nothing of a node that is killed while it is cut off, so it can start again only when it is not.
func TestKillOfANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	m := meshtest.Fleet(t, 3, brief()...)
	m.Isolate(1)
	m.Kill(1)
	lock(t, m.Node(0), "k").Unlock(within(t))
	m.Heal()
	m.Restart(1)
	m.WaitHealthy()
}

// A core that lost its majority waits for all of its entries; the locks of holders that live stay.
func TestRestartOfAMajority(t *testing.T) {
	t.Parallel()
	m := meshtest.Fleet(t, 3, brief()...)
	client := m.Client(brief()...)
	held := lock(t, m.Node(client), "k")
	m.Kill(0)
	m.Kill(1)
	m.Restart(0, 1)
	m.WaitHealthy()
	lock(t, m.Node(0), "free").Unlock(within(t)) // after the quiet time
	if held.Err() != nil {
		lost(t, held) // a busy machine may need longer than the lease
	} else if err := held.Unlock(within(t)); err != nil {
		t.Error(err)
	}
}

// After a Leave by the test itself, Restart starts the successor.
func TestRestartAfterLeave(t *testing.T) {
	t.Parallel()
	m := meshtest.Fleet(t, 3)
	if err := m.Node(1).Leave(within(t)); err != nil {
		t.Error(err)
	}
	m.Restart(1)
	m.WaitHealthy()
	m.Restart(2) // one that runs
	m.WaitHealthy()
}

// A node that the code under test starts joins by the list.
func TestANodeOfTheCodeUnderTestJoins(t *testing.T) {
	m := meshtest.Fleet(t, 3)
	n, err := mesh.JoinContext(within(t), m.Seeds(), mesh.WithClientOnly(), mesh.WithName("service"))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	l := lock(t, n, "k")
	m.Kill(0)
	if _, err := m.Node(1).TryLock(within(t), "k"); !errors.Is(err, mesh.ErrLocked) {
		t.Errorf("TryLock = %v", err)
	}
	if err := l.Unlock(within(t)); err != nil {
		t.Error(err)
	}
}

// recorder is a test that may fail, and says why.
type recorder struct {
	testing.TB // only for what it does not have itself

	mu       sync.Mutex
	name     string
	fatal    string
	output   bytes.Buffer
	cleanups []func()
}

func (r *recorder) Helper()           {}
func (r *recorder) Name() string      { return r.name }
func (r *recorder) Cleanup(f func())  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Output() io.Writer { return r }
func (r *recorder) Fatalf(f string, args ...any) {
	r.fatal = fmt.Sprintf(f, args...)
	runtime.Goexit()
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.output.Write(b)
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.output.String()
}

// run plays a test to its end, with its cleanups.
func (r *recorder) run(play func(t testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		play(r)
	}()
	<-done
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

func TestWrongUseFailsTheTest(t *testing.T) {
	fleet := func(t testing.TB) *meshtest.Mesh { return meshtest.Fleet(t, 2) }
	for _, tt := range []struct {
		name string
		play func(t testing.TB)
		want string
	}{
		{"no node", func(t testing.TB) { meshtest.Fleet(t, 0) }, "Fleet of 0 nodes, want 1 to 64"},
		{"a negative number", func(t testing.TB) { meshtest.Fleet(t, -1) }, "Fleet of -1 nodes, want 1 to 64"},
		{"too many nodes", func(t testing.TB) { meshtest.Fleet(t, 65) }, "Fleet of 65 nodes, want 1 to 64"},
		{"a fleet of nothing", func(t testing.TB) { meshtest.FleetOf(t) }, "FleetOf 0 nodes, want 1 to 64"},
		{"a nil option", func(t testing.TB) { meshtest.Fleet(t, 1, nil) }, "node 0 does not start: mesh: invalid option"},
		{"an option out of range", func(t testing.TB) { meshtest.Fleet(t, 1, mesh.WithShards(0)) }, "WithShards is 0, want 1 to 4096"},
		{"an address", func(t testing.TB) { meshtest.Fleet(t, 2, mesh.WithBind("127.0.0.1:7301")) }, "leave out WithBind"},
		{"a client in the core", func(t testing.TB) { meshtest.Fleet(t, 2, mesh.WithClientOnly()) }, "WithClientOnly makes a node that opens no port"},
		{"a client with an address", func(t testing.TB) { fleet(t).Client(mesh.WithBind("127.0.0.1:7301")) }, "WithClientOnly makes a node that opens no port"},
		{"a node that is not there", func(t testing.TB) { fleet(t).Node(2) }, "Node: no node 2, the mesh has 0 to 1"},
		{"a negative index", func(t testing.TB) { fleet(t).Kill(-1) }, "Kill: no node -1, the mesh has 0 to 1"},
		{"a cut of a node that is not there", func(t testing.TB) { fleet(t).Isolate(2) }, "Isolate: no node 2"},
		{"a restart of a node that is not there", func(t testing.TB) { fleet(t).Restart(0, 2) }, "Restart: no node 2"},
		{"two kills", func(t testing.TB) { m := fleet(t); m.Kill(1); m.Kill(1) }, "Kill: node 1 (n1) was killed before: call Restart first"},
		{"a kill of a node that was closed", func(t testing.TB) { m := fleet(t); m.Node(1).Close(); m.Kill(1) }, "Kill: node 1 (n1) has ended: "},
		{"a cut of a killed node", func(t testing.TB) { m := fleet(t); m.Kill(1); m.Isolate(1) }, "Isolate: node 1 (n1) was killed before"},
		{"two cuts", func(t testing.TB) { m := fleet(t); m.Isolate(0); m.Isolate(0) }, "Isolate: node 0 (n0) is cut off already"},
		{"a restart of a node that is cut off", func(t testing.TB) { m := fleet(t); m.Isolate(0); m.Restart(0) }, "Restart: node 0 (n0) is cut off and cannot join: call Heal first"},
		{"a restart of a node and itself", func(t testing.TB) { fleet(t).Restart(1, 1) }, "Restart: node 1 is listed twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{name: t.Name()}
			r.run(tt.play)
			if !strings.HasPrefix(r.fatal, "meshtest: ") || !strings.Contains(r.fatal, tt.want) {
				t.Errorf("the test ended with %q, want %q", r.fatal, tt.want)
			}
		})
	}
}

// What the nodes log is in the test's output, also that a test dropped a lock.
func TestTheLogIsInTheOutputOfTheTest(t *testing.T) {
	r := &recorder{name: strings.Repeat("long ", 100) + "é"}
	r.run(func(tb testing.TB) {
		m := meshtest.Fleet(tb, 1)
		func() { lock(t, m.Node(0), "dropped") }()
		for end := time.Now().Add(10 * time.Second); !strings.Contains(r.text(), "a lock was dropped"); runtime.GC() {
			if time.Now().After(end) {
				t.Error("no report of a dropped lock")
				break
			}
			runtime.Gosched()
		}
	})
	if text := r.text(); r.fatal != "" || !strings.Contains(text, "the mesh is founded") {
		t.Errorf("the test ended with %q and\n%s", r.fatal, text)
	}
}

func TestTheExampleOfFleet(t *testing.T) { testTheServiceStops(t) }

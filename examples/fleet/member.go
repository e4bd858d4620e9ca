package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockmesh/mesh"
)

const (
	workers = 2                     // of each process
	pause   = 10 * time.Millisecond // of a worker between two grants
)

// memberFlags are the flags with which the program starts copies of itself as members.
type memberFlags struct {
	name, addr, seeds, journal, state string
	start, replicas                   int
	maxTTL                            time.Duration
}

func (f *memberFlags) define() {
	flag.StringVar(&f.name, "member", "", "run as the member of this `name`; only for use by the program itself, like -addr, -seeds, -journal, -state, -start, -replicas and -max-ttl")
	flag.StringVar(&f.addr, "addr", "", "the member's address")
	flag.StringVar(&f.seeds, "seeds", "", "the addresses of the core, separated by commas")
	flag.StringVar(&f.journal, "journal", "", "the shared file; if empty, the member has no workers")
	flag.StringVar(&f.state, "state", "", "the member's state directory; if empty, it keeps nothing")
	flag.IntVar(&f.start, "start", 0, "how many times this member has been started")
	flag.IntVar(&f.replicas, "replicas", replicas, "the replicas of each shard")
	flag.DurationVar(&f.maxTTL, "max-ttl", longLease, "the longest lease of the mesh, and that of what the member holds")
}

func (f *memberFlags) args() []string {
	return []string{
		"-member", f.name, "-addr", f.addr, "-seeds", f.seeds, "-journal", f.journal, "-state", f.state,
		"-start", fmt.Sprint(f.start), "-replicas", fmt.Sprint(f.replicas), "-max-ttl", f.maxTTL.String(),
	}
}

// event is a message of a member to the supervisor. A member writes each event to its
// standard output, as a line of JSON.
type event struct {
	Kind   string
	Member string `json:",omitempty"` // set by the supervisor
	Start  int    `json:",omitempty"` // set by the supervisor: how many times the member has been started
	Called int64  `json:",omitempty"` // when a lock was requested: Unix time in ns, as all members are on one machine
	At     int64  `json:",omitempty"` // when it was granted, or its loss was seen: likewise
	Until  int64  `json:",omitempty"` // swept: until when the member was certain that it held the lock; 0: not at all
	Token  uint64 `json:",omitempty"`
	Place  int    `json:",omitempty"` // served: the waiter's number; queued: how many are in the queue; swept: a shard
	Text   string `json:",omitempty"` // acked: the record's author; leads: a name; awaits: entries; failed, exited and changed: why; others: a key
}

// The kinds of events.
const (
	joined  = "joined"
	healthy = "healthy" // every shard is fully replicated
	holds   = "holds"   // a client has locked a key, to hold it
	dropped = "dropped" // the client has lost that lock
	granted = "granted"
	acked   = "acked" // the member's record counts forever: see journal.go
	lost    = "lost"  // a lock was lost before its unlock
	leads   = "leads" // the answer to commandLeader
	failed  = "failed"
	exited  = "exited" // made by the supervisor
)

// The commands that a member reads from its standard input, one a line; holder.go and operator.go have more. The end of the
// input means that the supervisor is dead: the member exits. With SIGTERM, as in a rolling restart, it leaves the mesh.
const (
	commandLeader = "leader" // name the node that leads the key's shard
	commandProbe  = "probe"  // lock and unlock the key over and over
	commandRest   = "rest"   // stop probing
	commandStop   = "stop"
)

// member is one process of the fleet.
type member struct {
	memberFlags
	node *mesh.Node
	out  sync.Mutex
}

func (m *member) tell(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // an event is always valid JSON
	}
	m.out.Lock()
	defer m.out.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1) // the supervisor is dead
	}
}

// runMember is the main function of a member.
func runMember(flags memberFlags, verbose bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	commands := make(chan string, 8)
	go readCommands(commands)
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	node, err := startNode(ctx, flags, verbose)
	if err != nil {
		return err
	}
	defer node.Close()
	m := &member{memberFlags: flags, node: node}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	ready := make(chan error, 1)
	all.Go(func() { ready <- m.awaitReady(ctx) })
	h := newHolder(m)
	rest := func() {}
	for {
		select {
		case err := <-ready:
			if err != nil {
				return err
			}
			m.begin(ctx, &all)
		case <-terminate:
			return node.Leave(ctx)
		case command := <-commands:
			switch command {
			case commandProbe:
				probing, stop := context.WithCancel(ctx)
				rest = stop
				all.Go(func() { m.run(probing, m.probe) })
			case commandRest:
				rest()
			case commandStop:
				return nil
			default:
				all.Go(func() { m.run(ctx, func(ctx context.Context) error { return h.obey(ctx, command) }) })
			}
		case <-node.Done():
			return errors.Join(node.Err(), node.Close()) // then all that the member held is lost, and its holders say so
		}
	}
}

// begin reports that the member has joined, and starts what it does without a command.
func (m *member) begin(ctx context.Context, all *sync.WaitGroup) {
	m.tell(event{Kind: joined})
	all.Go(func() { m.run(ctx, m.awaitHealth) })
	if m.journal == "" {
		return
	}
	if !slices.Contains(strings.Split(m.seeds, ","), m.addr) {
		all.Go(func() { m.run(ctx, m.hold) })
	}
	for i := range workers {
		all.Go(func() { m.run(ctx, func(ctx context.Context) error { return m.work(ctx, i+1) }) })
	}
}

// readCommands passes on the commands of the supervisor, and exits when that is dead.
func readCommands(to chan<- string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		to <- in.Text()
	}
	os.Exit(1)
}

// timeout is how long a member waits for the mesh. It is shorter than the supervisor's, so
// that the member can say what it waits for.
const timeout = patience - 5*time.Second

// startNode starts the member's node. It does not wait for the mesh, so that meanwhile the member can tell for which entries it waits.
func startNode(ctx context.Context, flags memberFlags, verbose bool) (*mesh.Node, error) {
	logs := slog.New(slog.DiscardHandler)
	if verbose {
		logs = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	options := []mesh.Option{
		mesh.WithName(flags.name),
		mesh.WithBind(flags.addr),
		mesh.WithLeaseTTL(lease),
		mesh.WithMaxTTL(flags.maxTTL),
		mesh.WithReplicas(flags.replicas),
		mesh.WithLogger(logs),
	}
	if flags.state != "" {
		options = append(options, mesh.WithStateDir(flags.state))
	}
	return mesh.StartContext(ctx, strings.Split(flags.seeds, ","), options...)
}

func (m *member) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return m.node.WaitReady(ctx)
}

// run calls f and reports its error, unless ctx has ended.
func (m *member) run(ctx context.Context, f func(context.Context) error) {
	if err := f(ctx); err != nil && ctx.Err() == nil {
		m.tell(event{Kind: failed, Text: err.Error()})
	}
}

// awaitHealth reports when every shard is fully replicated.
func (m *member) awaitHealth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := m.node.WaitHealthy(ctx); err != nil {
		return err
	}
	m.tell(event{Kind: healthy})
	return nil
}

// work appends a record to the journal with each grant, until ctx ends.
func (m *member) work(ctx context.Context, worker int) error {
	j, err := openJournal(m.journal)
	if err != nil {
		return err
	}
	defer j.close()
	for n := 1; ctx.Err() == nil; n++ {
		called := time.Now()
		l, err := m.node.Lock(ctx, key)
		if err != nil {
			return err
		}
		m.tell(event{Kind: granted, Called: called.UnixNano(), At: time.Now().UnixNano(), Token: l.Token()})

		author := fmt.Sprintf("%s.%d.%d/%d", m.name, m.start, worker, n)
		err = m.add(j, l, author)
		switch {
		case err == nil:
			m.tell(event{Kind: acked, Token: l.Token(), Text: author})
		case !errors.Is(err, mesh.ErrLost) && !errors.Is(err, errStale):
			return err
		}
		if unlock := l.Unlock(ctx); err != nil || errors.Is(unlock, mesh.ErrLost) {
			m.tell(event{Kind: lost, Token: l.Token()})
		}
		sleep(ctx, pause)
	}
	return nil
}

// hold locks a key of the member's own, and holds it to the end.
func (m *member) hold(ctx context.Context) error {
	s, err := m.node.NewSession(ctx, mesh.WithTTL(m.maxTTL))
	if err != nil {
		return err
	}
	l, err := s.Lock(ctx, "held by "+m.name)
	if err != nil {
		return err
	}
	m.tell(event{Kind: holds, Token: l.Token()})
	select {
	case <-l.Lost():
		m.tell(event{Kind: dropped, Token: l.Token()})
		return nil
	case <-ctx.Done():
		return l.Unlock(context.WithoutCancel(ctx))
	}
}

// add appends one record under a lock. To check the lock right before each write is cheap,
// and prevents nearly all late writes. The tokens in the journal take care of the rest.
func (m *member) add(j *journal, l *mesh.Lock, author string) error {
	if err := l.Err(); err != nil {
		return err
	}
	if err := j.fence(l.Token(), author); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return err
	}
	return j.append(l.Token(), author)
}

// tellLeader reports which node leads the key's shard. The error of a refused TryLock names
// it, so tellLeader tries to lock a key that it holds.
func (m *member) tellLeader(ctx context.Context) error {
	l, err := m.node.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	_, err = m.node.TryLock(ctx, key)
	var wait *mesh.WaitError
	if !errors.As(err, &wait) || wait.Leader == "" {
		return fmt.Errorf("TryLock of a held key: the error does not name the leader: %w", err)
	}
	m.tell(event{Kind: leads, Text: wait.Leader})
	return nil
}

// probe locks and unlocks the key, which no other member uses, until ctx ends.
func (m *member) probe(ctx context.Context) error {
	for ctx.Err() == nil {
		called := time.Now()
		l, err := m.node.Lock(ctx, key)
		if err != nil {
			return err
		}
		m.tell(event{Kind: granted, Called: called.UnixNano(), At: time.Now().UnixNano(), Token: l.Token()})
		if err := l.Unlock(ctx); err != nil {
			return err
		}
		sleep(ctx, time.Millisecond)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// readEvents passes on a member's events, until the member ends.
func readEvents(from io.Reader, tell func(event)) error {
	in := bufio.NewScanner(from)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return fmt.Errorf("%q: %w", in.Text(), err)
		}
		tell(e)
	}
	return nil // no line is incomplete: a short write to a pipe is atomic, even if the writer is killed
}

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
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
)

const (
	workers = 2                     // of each process
	pause   = 10 * time.Millisecond // of a worker between two grants
)

// memberFlags are what a copy of this program is started with to be one of the fleet.
type memberFlags struct {
	name, addr, seeds, journal string
	start                      int
}

func (f *memberFlags) define() {
	flag.StringVar(&f.name, "member", "", "be the member of that `name`; used by the program itself, as are the following")
	flag.StringVar(&f.addr, "addr", "", "the member's address")
	flag.StringVar(&f.seeds, "seeds", "", "everybody's addresses")
	flag.StringVar(&f.journal, "journal", "", "the shared file; without one the member does not work by itself")
	flag.IntVar(&f.start, "start", 0, "how often the member has been started")
}

func (f *memberFlags) args() []string {
	return []string{
		"-member", f.name, "-addr", f.addr, "-seeds", f.seeds, "-journal", f.journal, "-start", fmt.Sprint(f.start),
	}
}

// event is what a member tells, a line of JSON each on its standard output.
type event struct {
	Kind   string
	Member string `json:",omitempty"` // filled in by the reader, as is
	Start  int    `json:",omitempty"` // how often it had been started
	Called int64  `json:",omitempty"` // when a grant was asked for: Unix time in ns, for all are on one machine
	At     int64  `json:",omitempty"` // when it was granted
	Token  uint64 `json:",omitempty"`
	Text   string `json:",omitempty"` // of acked: the record's author; of leads: a name; of failed and exited: why
}

// The kinds of events.
const (
	joined  = "joined"
	healthy = "healthy" // every shard is fully replicated
	granted = "granted"
	acked   = "acked" // a record counts for ever
	lost    = "lost"  // a lease ended before the work was done
	leads   = "leads" // an answer to commandLeader
	failed  = "failed"
	exited  = "exited" // made by the reader
)

// The commands that a member takes, a line each on its standard input. When that ends,
// the parent is dead, and so is the member.
const (
	commandLeader = "leader" // tell who leads the key's shard
	commandProbe  = "probe"  // lock and unlock the key all the time
	commandRest   = "rest"   // no longer
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
		os.Exit(1) // nobody listens
	}
}

func (m *member) fail(err error) { m.tell(event{Kind: failed, Text: err.Error()}) }

// runMember is the life of one process.
func runMember(flags memberFlags, verbose bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	commands := make(chan string, 8)
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			commands <- in.Text()
		}
		os.Exit(1)
	}()

	logs := slog.New(slog.DiscardHandler)
	if verbose {
		logs = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	joining, give := context.WithTimeout(ctx, patience-5*time.Second)
	defer give()
	node, err := mesh.JoinContext(joining, strings.Split(flags.seeds, ","),
		mesh.WithName(flags.name),
		mesh.WithBind(flags.addr),
		mesh.WithLeaseTTL(lease),
		mesh.WithLogger(logs))
	if err != nil {
		return err
	}
	defer node.Close()
	m := &member{memberFlags: flags, node: node}
	m.tell(event{Kind: joined})

	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		patient, cancel := context.WithTimeout(ctx, patience-5*time.Second)
		defer cancel()
		switch err := node.WaitHealthy(patient); {
		case err == nil:
			m.tell(event{Kind: healthy})
		case ctx.Err() == nil:
			m.fail(err)
		}
	})
	if flags.journal != "" {
		for i := range workers {
			all.Go(func() {
				if err := m.work(ctx, i+1); err != nil && ctx.Err() == nil {
					m.fail(err)
				}
			})
		}
	}
	rest := func() {}
	for {
		select {
		case command := <-commands:
			switch command {
			case commandLeader:
				leader, err := m.leader(ctx)
				if err != nil {
					m.fail(err)
				}
				m.tell(event{Kind: leads, Text: leader})
			case commandProbe:
				probing, stop := context.WithCancel(ctx)
				rest = stop
				all.Go(func() {
					if err := m.probe(probing); err != nil && probing.Err() == nil {
						m.fail(err)
					}
				})
			case commandRest:
				rest()
			case commandStop:
				return nil
			}
		case <-node.Done():
			return node.Err()
		}
	}
}

// work appends to the journal, one record a grant, until ctx ends.
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
		if no := l.Unlock(ctx); err != nil || errors.Is(no, mesh.ErrLost) {
			m.tell(event{Kind: lost, Token: l.Token()})
		}
		sleep(ctx, pause)
	}
	return nil
}

// add appends one record under a lock. To ask the lock right before each write is cheap,
// and catches nearly all who are late; the journal's tokens catch the rest.
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

// leader returns who leads the key's shard: whoever is refused a lock is told.
func (m *member) leader(ctx context.Context) (string, error) {
	l, err := m.node.Lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer l.Unlock(ctx)
	_, err = m.node.TryLock(ctx, key)
	var wait *mesh.WaitError
	if !errors.As(err, &wait) || wait.Leader == "" {
		return "", fmt.Errorf("TryLock of a held key does not name its leader: %w", err)
	}
	return wait.Leader, nil
}

// probe locks and unlocks the key, which nobody else wants, until ctx ends.
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

// readEvents passes on what a member tells, until it ends.
func readEvents(from io.Reader, tell func(event)) error {
	in := bufio.NewScanner(from)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return fmt.Errorf("%q: %w", in.Text(), err)
		}
		tell(e)
	}
	return nil // what a pipe takes at once, as a line, no kill cuts in two
}

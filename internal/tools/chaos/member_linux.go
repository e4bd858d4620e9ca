package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
)

// memberFlags are the flags with which the program starts copies of itself as processes of the mesh.
type memberFlags struct {
	name, addr, seeds, journal string
	start                      int
	seed                       uint64
	maxTTL                     time.Duration
	idle                       bool
	debug                      bool
}

func (f *memberFlags) define() {
	flag.StringVar(&f.name, "member", "", "run as the process of this `name`; only for use by the program itself, like the other flags of a process")
	flag.StringVar(&f.addr, "addr", "", "of a process: its address")
	flag.StringVar(&f.seeds, "seeds", "", "of a process: the entries of the list, separated by commas")
	flag.StringVar(&f.journal, "journal", "", "of a process: the shared file")
	flag.IntVar(&f.start, "start", 0, "of a process: how many times it has been started")
	flag.DurationVar(&f.maxTTL, "max-ttl", 3*time.Second, "the longest lease of the mesh, and so its quiet time, 1s to 1m")
	flag.BoolVar(&f.idle, "idle", false, "of a process: lock nothing without a command")
	flag.BoolVar(&f.debug, "debug", false, "log more")
}

func (f *memberFlags) args() []string {
	return []string{
		"-member", f.name, "-addr", f.addr, "-seeds", f.seeds, "-journal", f.journal, "-start", fmt.Sprint(f.start),
		"-seed", fmt.Sprint(f.seed), "-max-ttl", fmt.Sprint(f.maxTTL), fmt.Sprintf("-idle=%v", f.idle), fmt.Sprintf("-debug=%v", f.debug),
	}
}

func (f *memberFlags) who() string { return fmt.Sprintf("%s.%d", f.name, f.start) }

// event is what a process tells the supervisor, as a line of JSON on its standard output.
type event struct {
	Kind   eventKind
	Member string `json:",omitempty"` // set by the supervisor
	Start  int    `json:",omitempty"` // likewise
	Number int    `json:",omitempty"` // of the command that this answers
	Text   string `json:",omitempty"` // what is wrong; empty: nothing
}

type eventKind string

const (
	joined   eventKind = "joined"
	answered eventKind = "answered"
	left     eventKind = "left"
	gone     eventKind = "gone"   // the node, or the process, has ended by itself
	exited   eventKind = "exited" // made by the supervisor: the process was reaped
)

// command is what the supervisor tells a process, as a line of JSON on its standard input. The end of the input
// means that the supervisor is dead: the process exits.
type command struct {
	Verb    commandVerb
	Number  int
	Timeout time.Duration
	Key     string `json:",omitempty"` // of grab
}

type commandVerb string

const (
	beHealthy commandVerb = "healthy" // wait until all shards are fully replicated
	rest      commandVerb = "rest"    // end all holds and calls, and make no more
	work      commandVerb = "work"    // make calls again
	probe     commandVerb = "probe"   // lock each key once, as a whole
	leave     commandVerb = "leave"   // rest, and leave the mesh
	grab      commandVerb = "grab"    // lock a key, and hold it until it is lost
	awaits    commandVerb = "awaits"  // say for which entries the node waits: the answer's text
)

// member is one process of the mesh.
type member struct {
	memberFlags
	node    *mesh.Node
	journal *journal
	out     sync.Mutex
	workers *workers
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

func (m *member) note(r record) {
	r.who = m.who()
	if err := m.journal.write(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runMember is the main function of a process of the mesh. Its logs go to standard error.
func runMember(flags memberFlags) error {
	commands := make(chan command, 8)
	go readCommands(commands)
	j, err := openJournal(flags.journal)
	if err != nil {
		return err
	}
	defer j.close()
	m := &member{memberFlags: flags, journal: j}
	if m.node, err = flags.join(); err != nil {
		m.tell(event{Kind: gone, Text: err.Error()})
		return err
	}
	defer m.node.Close()
	m.workers = newWorkers(m)
	defer m.workers.rest()
	go m.watchStalls()
	ready := make(chan error, 1)
	go func() { ready <- m.node.WaitReady(context.Background()) }()
	for {
		select {
		case err := <-ready:
			if err == nil {
				m.tell(event{Kind: joined})
				if !m.idle {
					m.workers.work()
				}
			}
			ready = nil
		case <-m.node.Done():
			m.tell(event{Kind: gone, Text: fmt.Sprint(m.node.Err())})
			return m.node.Err()
		case c := <-commands:
			if m.obey(c) {
				return nil
			}
		}
	}
}

// join starts the node of a member, which logs to standard error.
func (f *memberFlags) join() (*mesh.Node, error) {
	level := slog.LevelInfo
	if f.debug {
		level = slog.LevelDebug
	}
	return mesh.Start(strings.Split(f.seeds, ","), mesh.WithName(f.name), mesh.WithBind(f.addr),
		mesh.WithLeaseTTL(min(leaseTTL, f.maxTTL)), mesh.WithMaxTTL(f.maxTTL),
		mesh.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))))
}

// readCommands passes on the commands of the supervisor, and exits when that is dead.
func readCommands(to chan<- command) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var c command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		to <- c
	}
	os.Exit(1)
}

// obey carries out a command, and reports whether it was the last one.
func (m *member) obey(c command) (done bool) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	var err error
	switch c.Verb {
	case beHealthy:
		if err = m.node.WaitHealthy(ctx); err != nil {
			err = fmt.Errorf("%w; %s", err, m.health())
		}
	case rest:
		m.workers.rest()
	case work:
		m.workers.work()
	case probe:
		if err = m.workers.probe(ctx); err != nil {
			err = fmt.Errorf("%w; %s", err, m.health())
		}
	case grab:
		err = m.workers.grab(ctx, c.Key)
	case awaits:
		var entries []string
		for _, w := range m.node.Health().Waiting {
			entries = append(entries, w.Entry)
		}
		err = errors.New(strings.Join(entries, ","))
	case leave:
		m.workers.rest()
		err = m.node.Leave(ctx)
		m.tell(event{Kind: left, Number: c.Number, Text: text(err)})
		return true
	}
	m.tell(event{Kind: answered, Number: c.Number, Text: text(err)})
	return false
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// health describes what the node knows of the mesh's health.
func (m *member) health() string {
	h := m.node.Health()
	return fmt.Sprintf("settled %v, ready %v, no majority %v, under-replicated %v, quiet until %v, members %v",
		h.Settled, h.Ready, h.NoMajority, h.UnderReplicated, h.QuietUntil.Format(time.TimeOnly), len(m.node.Members()))
}

// watchStalls notes when the process did not run: it was stopped, or the machine had no time for it.
func (m *member) watchStalls() {
	const often, much = 20 * time.Millisecond, 100 * time.Millisecond
	last := clock()
	for range time.Tick(often) {
		now := clock()
		if now.sub(last) > much {
			m.note(record{kind: stalled, from: last, to: now})
		}
		last = now
	}
}

// class returns a word for the error of a call.
func class(err error) string {
	for _, c := range []struct {
		err  error
		name string
	}{
		{mesh.ErrNoQuorum, "no-quorum"}, {context.DeadlineExceeded, "timeout"}, {mesh.ErrLocked, "locked"},
		{mesh.ErrQuiet, "quiet"}, {mesh.ErrLost, lost}, {mesh.ErrClosed, "closed"}, {context.Canceled, "cancelled"},
	} {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return strings.ReplaceAll(fmt.Sprintf("%.40v", err), "\n", " ")
}

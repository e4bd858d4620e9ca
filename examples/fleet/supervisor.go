package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// patience is how long the supervisor waits for an event before the run fails.
const patience = 30 * time.Second

// crew says how many members a fleet has, and how they are started.
type crew struct {
	core, clients int
	idle          int    // how many of the clients, the last ones, hold no locks while a row is played
	replicas      int    // of each shard
	journal       string // the file that the members append to; if empty, they have no workers
	state         string // the directory of their state directories; if empty, they have none
}

// supervisor starts and kills the members, and receives their events.
type supervisor struct {
	crew    crew
	program string
	verbose bool
	members []*process // core and clients
	core    []*process // those at an entry of the list
	clients []*process
	named   int // how many members have got a name
	seeds   []string
	maxTTL  time.Duration // of the mesh, for members that are started from now on
	events  chan event
	record  func(event) // called with each event
}

// process is a member as the supervisor sees it.
type process struct {
	name, addr string
	seeds      []string // if nil, those of the supervisor
	start      int      // how many times it has been started
	healthy    bool     // it has seen a healthy mesh since
	ending     bool     // it was killed, or told to leave
	cmd        *exec.Cmd
	in         io.WriteCloser
}

// newSupervisor prepares a fleet, but does not start it.
func newSupervisor(c crew, verbose bool, record func(event)) (*supervisor, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &supervisor{crew: c, program: program, verbose: verbose, maxTTL: longLease, events: make(chan event, 1024), record: record}
	addrs, err := freeAddrs(c.core + c.clients)
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		s.members = append(s.members, &process{name: fmt.Sprintf("n%d", i+1), addr: addr})
	}
	s.named = len(s.members)
	s.core, s.clients = s.members[:c.core], s.members[c.core:]
	s.seeds = addrs[:c.core]
	return s, nil
}

// freeAddrs returns n addresses with free ports. The ports are below those that the system
// uses for outgoing connections, so that no such connection takes the port of a member
// while it is restarted.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for _, port := range rand.Perm(10000) {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+port)
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			if addrs = append(addrs, addr); len(addrs) == n {
				return addrs, nil
			}
		}
	}
	return nil, errors.New("not enough free ports between 20000 and 30000")
}

// launch starts a member, for the first time or after a kill.
func (s *supervisor) launch(p *process) error {
	p.start++
	p.ending, p.healthy = false, false
	seeds := p.seeds
	if seeds == nil {
		seeds = s.seeds
	}
	flags := memberFlags{
		name: p.name, addr: p.addr, seeds: strings.Join(seeds, ","), journal: s.crew.journal,
		start: p.start, replicas: s.crew.replicas, maxTTL: s.maxTTL,
	}
	if s.crew.state != "" {
		flags.state = filepath.Join(s.crew.state, p.name)
	}
	p.cmd = exec.Command(s.program, flags.args()...)
	if s.verbose {
		p.cmd.Args = append(p.cmd.Args, "-v")
	}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.in = in
	cmd, name, start := p.cmd, p.name, p.start
	go func() {
		err := readEvents(out, func(e event) {
			e.Member, e.Start = name, start
			s.events <- e
		})
		err = errors.Join(err, cmd.Wait())
		s.events <- event{Kind: exited, Member: name, Start: start, Text: fmt.Sprint(err)}
	}()
	return nil
}

// launchAll starts the fleet, and waits until it is healthy.
func (s *supervisor) launchAll(ctx context.Context) error {
	return s.relaunch(ctx, s.members...)
}

// relaunch starts members, for example after a kill, and waits until each sees a healthy mesh.
func (s *supervisor) relaunch(ctx context.Context, all ...*process) error {
	if err := s.launchEach(all); err != nil {
		return err
	}
	return s.awaitHealthy(ctx, all...)
}

// awaitHealthy receives events until each of the members, as it was last started, has seen a healthy mesh.
func (s *supervisor) awaitHealthy(ctx context.Context, all ...*process) error {
	sick := func(p *process) bool { return !p.healthy }
	if !slices.ContainsFunc(all, sick) {
		return nil
	}
	_, err := s.await(ctx, "a healthy mesh", func(event) bool { return !slices.ContainsFunc(all, sick) })
	return err
}

func (s *supervisor) launchEach(all []*process) error {
	for _, p := range all {
		if err := s.launch(p); err != nil {
			return err
		}
	}
	return nil
}

// leave ends a member in an orderly way. It must not leave anything undone.
func (s *supervisor) leave(ctx context.Context, p *process) error {
	e, err := s.terminate(ctx, p)
	if err == nil && e.Text != fmt.Sprint(nil) {
		err = fmt.Errorf("%s left with an error: %s", p.name, e.Text)
	}
	return err
}

// terminate ends a member as a service manager does. The result is its end.
func (s *supervisor) terminate(ctx context.Context, p *process) (event, error) {
	p.ending = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return event{}, err
	}
	return s.await(ctx, "the end of "+p.name, p.says(exited))
}

// kill kills members with SIGKILL and waits until their processes are gone. The result is the
// time right before the kill.
func (s *supervisor) kill(ctx context.Context, all ...*process) (time.Time, error) {
	at := time.Now()
	for _, p := range all {
		p.ending = true
		if err := p.cmd.Process.Kill(); err != nil {
			return at, err
		}
	}
	return at, s.awaitAll(ctx, "the end of what was killed", exited, all)
}

// awaitAll receives events until each of the members has reported kind.
func (s *supervisor) awaitAll(ctx context.Context, what, kind string, all []*process) error {
	left := slices.Clone(all)
	_, err := s.await(ctx, what, func(e event) bool {
		left = slices.DeleteFunc(left, func(p *process) bool { return p.says(kind)(e) })
		return len(left) == 0
	})
	return err
}

// says returns a condition for await: the member, as it was last started, reports kind.
func (p *process) says(kind string) func(event) bool {
	start := p.start
	return func(e event) bool { return e.Kind == kind && e.Member == p.name && e.Start == start }
}

func (p *process) command(c string) error {
	_, err := io.WriteString(p.in, c+"\n")
	return err
}

// await receives events until one meets the condition, and returns that. It fails if a
// member fails or exits meanwhile. The text what describes the event for the error.
func (s *supervisor) await(ctx context.Context, what string, is func(event) bool) (event, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case e := <-s.events:
			s.note(e)
			switch {
			case is(e):
				return e, nil
			case e.Kind == failed:
				return e, fmt.Errorf("%s failed: %s", e.Member, e.Text)
			case e.Kind == exited && !slices.ContainsFunc(s.members, func(p *process) bool { return p.ending && p.says(exited)(e) }):
				return e, fmt.Errorf("%s exited by itself: %s", e.Member, e.Text)
			}
		case <-late.C:
			return event{}, fmt.Errorf("after %v, still waiting for %s", patience, what)
		case <-ctx.Done():
			return event{}, ctx.Err()
		}
	}
}

// note records an event.
func (s *supervisor) note(e event) {
	s.record(e)
	for _, p := range s.members {
		p.healthy = p.healthy || p.says(healthy)(e)
	}
}

// watch receives events for the time d.
func (s *supervisor) watch(ctx context.Context, d time.Duration) error {
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_, err := s.await(short, "", func(event) bool { return false })
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// stopAll stops all members with commandStop, and waits until they have exited.
func (s *supervisor) stopAll(ctx context.Context) error {
	for _, p := range s.members {
		if err := p.command(commandStop); err != nil {
			return err
		}
	}
	for waiting := len(s.members); waiting > 0; waiting-- {
		if _, err := s.await(ctx, "the whole fleet to exit", func(e event) bool { return e.Kind == exited }); err != nil {
			return err
		}
	}
	return nil
}

// close kills the members that still run. If this program is killed before, their standard
// input ends, and they exit.
func (s *supervisor) close() {
	for _, p := range s.members {
		if p.cmd != nil && p.cmd.Process != nil {
			_ = p.cmd.Process.Kill() // fails if the member has exited
		}
	}
}

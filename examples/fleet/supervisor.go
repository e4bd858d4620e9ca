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
	"strings"
	"time"
)

// patience is how long the mesh may take for anything before the run has failed.
const patience = 30 * time.Second

// supervisor starts and kills the members, and hears what they tell.
type supervisor struct {
	program string
	journal string
	verbose bool
	members []*process
	seeds   string
	events  chan event
	record  func(event) // is shown every event
}

// process is a member as seen from outside, in its latest start.
type process struct {
	name, addr string
	start      int
	cmd        *exec.Cmd
	in         io.WriteCloser
}

// newSupervisor prepares a fleet without starting it. Without a journal it has no work.
func newSupervisor(nodes int, journal string, verbose bool, record func(event)) (*supervisor, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &supervisor{program: program, journal: journal, verbose: verbose, events: make(chan event, 1024), record: record}
	addrs, err := freeAddrs(nodes)
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		s.members = append(s.members, &process{name: fmt.Sprintf("n%d", i+1), addr: addr})
	}
	s.seeds = strings.Join(addrs, ",")
	return s, nil
}

// freeAddrs returns n addresses that nobody listens at. The ports are below those that
// the system hands out for outgoing connections: one of these must not take the port of a
// member that is just about to come back.
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

// launch starts a member, for the first time or again.
func (s *supervisor) launch(p *process) error {
	p.start++
	flags := memberFlags{name: p.name, addr: p.addr, seeds: s.seeds, journal: s.journal, start: p.start}
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
	for _, p := range s.members {
		if err := s.launch(p); err != nil {
			return err
		}
	}
	for waiting := len(s.members); waiting > 0; waiting-- {
		if _, err := s.await(ctx, "healthy, the whole fleet", func(e event) bool { return e.Kind == healthy }); err != nil {
			return err
		}
	}
	return nil
}

// kill ends a member as the kernel does when memory is short, and returns when it is gone.
// The time is the one right before.
func (s *supervisor) kill(ctx context.Context, p *process) (time.Time, error) {
	at := time.Now()
	if err := p.cmd.Process.Kill(); err != nil {
		return at, err
	}
	_, err := s.await(ctx, "exited, "+p.name, p.says(exited))
	return at, err
}

// says returns the condition that the member, in its latest start, tells kind.
func (p *process) says(kind string) func(event) bool {
	start := p.start
	return func(e event) bool { return e.Kind == kind && e.Member == p.name && e.Start == start }
}

func (p *process) command(c string) error {
	_, err := io.WriteString(p.in, c+"\n")
	return err
}

// await takes events until one is what is waited for. Failures end every wait.
func (s *supervisor) await(ctx context.Context, what string, is func(event) bool) (event, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case e := <-s.events:
			s.record(e)
			switch {
			case is(e):
				return e, nil
			case e.Kind == failed:
				return e, fmt.Errorf("%s failed: %s", e.Member, e.Text)
			case e.Kind == exited:
				return e, fmt.Errorf("%s ended by itself: %s", e.Member, e.Text)
			}
		case <-late.C:
			return event{}, fmt.Errorf("waited for %v, in vain: %s", patience, what)
		case <-ctx.Done():
			return event{}, ctx.Err()
		}
	}
}

// watch lets d pass.
func (s *supervisor) watch(ctx context.Context, d time.Duration) error {
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_, err := s.await(short, "", func(event) bool { return false })
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// stopAll ends the fleet in peace.
func (s *supervisor) stopAll(ctx context.Context) error {
	for _, p := range s.members {
		if err := p.command(commandStop); err != nil {
			return err
		}
	}
	for waiting := len(s.members); waiting > 0; waiting-- {
		if _, err := s.await(ctx, "exited, the whole fleet", func(e event) bool { return e.Kind == exited }); err != nil {
			return err
		}
	}
	return nil
}

// close kills what still runs. Should this program be killed before it gets here, the
// members end with their standard input.
func (s *supervisor) close() {
	for _, p := range s.members {
		if p.cmd != nil && p.cmd.Process != nil {
			_ = p.cmd.Process.Kill() // most have ended
		}
	}
}

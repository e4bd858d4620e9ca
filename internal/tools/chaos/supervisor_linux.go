package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockmesh/mesh"
)

// supervisor starts, stops and kills the processes of the mesh, and notes what it does to them in the journal. All
// its methods are called from one goroutine.
type supervisor struct {
	program string
	dir     string // of the journal and the logs
	flags   memberFlags
	network *network
	journal *journal
	judge   *judge
	members []*process
	list    []string // the names at the entries of the list
	events  chan event
	numbers int // of commands
	began   moment
}

// process is one place in the mesh: a namespace with an address, in which one process after the other runs.
type process struct {
	name, addr string
	start      int  // how many times a process has been started here
	running    bool // it has not been reaped
	ending     bool // it was killed, or told to leave: its end is no surprise
	joined     bool
	list       []string // that it was started with
	seeds      string   // if not empty, its seeds in place of the list's entries
	end        string   // why its node ended by itself
	cmd        *exec.Cmd
	in         io.WriteCloser
}

func (s *supervisor) process(name string) *process {
	return s.members[slices.IndexFunc(s.members, func(p *process) bool { return p.name == name })]
}

func (s *supervisor) note(r record) error {
	r.from, r.to = clock(), 0
	return s.journal.write(r)
}

// launch starts a process with a list. Rule C6 takes the answer of another node at an entry for the proof that the
// former one is dead: so it must have been reaped.
func (s *supervisor) launch(p *process, list []string) error {
	if p.running {
		return fmt.Errorf("%s is to be started, and has not ended", p.name)
	}
	role := "client"
	if slices.Contains(list, p.name) {
		role = "core"
	}
	if err := s.note(record{kind: started, who: p.name, note: role}); err != nil {
		return err
	}
	p.start++
	p.ending, p.joined, p.list, p.end = false, false, list, ""
	f := s.flags
	f.name, f.addr, f.start = p.name, p.addr, p.start
	var seeds []string
	for _, name := range list {
		seeds = append(seeds, s.process(name).addr)
	}
	if f.seeds = p.seeds; f.seeds == "" {
		f.seeds = strings.Join(seeds, ",")
	}
	logs, err := os.Create(s.logOf(p))
	if err != nil {
		return err
	}
	defer logs.Close()
	p.cmd = s.network.command(p.name, s.program, f.args()...)
	p.cmd.Stderr = logs
	// If this program is killed, the kernel kills its processes, even those that are stopped. It goes by the thread
	// that started them: see main.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.running = true
	go s.listen(p.cmd, p.name, p.start, out)
	return nil
}

// logOf returns the file with the log of a process, as it is running now.
func (s *supervisor) logOf(p *process) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s.%d.log", p.name, p.start))
}

// listen passes on the events of a process, until it is reaped.
func (s *supervisor) listen(cmd *exec.Cmd, name string, start int, out io.Reader) {
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			e = event{Kind: gone, Text: "it wrote " + in.Text()}
		}
		e.Member, e.Start = name, start
		s.events <- e
	}
	err := cmd.Wait()
	s.events <- event{Kind: exited, Member: name, Start: start, Text: fmt.Sprint(err)}
}

// take notes an event. It is an error of the mesh if a process ends by itself.
func (s *supervisor) take(e event) {
	p := s.process(e.Member)
	if e.Start != p.start {
		return
	}
	switch e.Kind {
	case joined:
		p.joined = true
		return
	case gone:
		p.end = e.Text
	case exited:
		p.running, p.joined = false, false
	default:
		return
	}
	if !p.ending {
		p.ending = true
		s.complain("%s.%d ended by itself: %s", p.name, p.start, e.Text)
	}
}

// complain makes what the supervisor sees a violation.
func (s *supervisor) complain(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.say("VIOLATION: %s", text)
	s.judge.violate("broken", clock(), "%s", text)
}

// say prints a line with the time since the begin.
func (s *supervisor) say(format string, args ...any) {
	fmt.Printf("%8.2fs  %s\n", clock().sub(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// await receives events until one meets the condition. It reads the journal meanwhile.
func (s *supervisor) await(ctx context.Context, d time.Duration, is func(event) bool) (event, error) {
	late := time.NewTimer(d)
	defer late.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case e := <-s.events:
			s.take(e)
			if is(e) {
				return e, nil
			}
		case <-tick.C:
			if err := s.hear(); err != nil {
				return event{}, err
			}
		case <-late.C:
			return event{}, errLate
		case <-ctx.Done():
			return event{}, ctx.Err()
		}
	}
}

var errLate = errors.New("too late")

// watch lets time pass.
func (s *supervisor) watch(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if _, err := s.await(ctx, d, func(event) bool { return false }); !errors.Is(err, errLate) {
		return err
	}
	return nil
}

// hear has the judge read what is new in the journal, and prints what it finds.
func (s *supervisor) hear() error {
	known := len(s.judge.violations)
	if err := s.journal.read(s.judge.see); err != nil {
		return err
	}
	for _, v := range s.judge.violations[known:] {
		s.say("VIOLATION: %s", v.text)
	}
	return nil
}

// kill kills processes, and waits until they are reaped.
func (s *supervisor) kill(ctx context.Context, names []string) error {
	for _, name := range names {
		p := s.process(name)
		if !p.running {
			continue
		}
		if err := s.note(record{kind: killed, who: name}); err != nil {
			return err
		}
		p.ending = true
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		if err := s.awaitEnd(ctx, p, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) awaitEnd(ctx context.Context, p *process, d time.Duration) error {
	if !p.running {
		return nil
	}
	_, err := s.await(ctx, d, func(e event) bool { return e.Kind == exited && e.Member == p.name && e.Start == p.start })
	if err != nil {
		return fmt.Errorf("the end of %s: %w", p.name, err)
	}
	return nil
}

// signal stops processes, or lets them go on.
func (s *supervisor) signal(names []string, what kind, signal syscall.Signal) error {
	for _, name := range names {
		if err := s.note(record{kind: what, who: name}); err != nil {
			return err
		}
		if p := s.process(name); p.running {
			if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
		}
	}
	return nil
}

// ask sends a command to processes, and waits for all answers. It returns what was wrong, by process.
func (s *supervisor) ask(ctx context.Context, all []*process, verb commandVerb, timeout time.Duration) (map[string]string, error) {
	return s.order(ctx, all, command{Verb: verb, Timeout: timeout})
}

// order is ask for any command.
func (s *supervisor) order(ctx context.Context, all []*process, c command) (map[string]string, error) {
	s.numbers++
	c.Number = s.numbers
	verb, number, timeout := c.Verb, c.Number, c.Timeout
	line, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	waiting, wrong := make(map[string]bool), make(map[string]string)
	for _, p := range all {
		if !p.running || p.ending {
			wrong[p.name] = "it does not run"
			continue
		}
		p.ending = p.ending || verb == leave
		waiting[p.name] = true
		if _, err := p.in.Write(append(line, '\n')); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for len(waiting) > 0 {
		e, err := s.await(ctx, timeout+30*time.Second, func(e event) bool {
			return waiting[e.Member] && e.Start == s.process(e.Member).start && (e.Number == number || e.Kind == exited)
		})
		if errors.Is(err, errLate) {
			for name := range waiting {
				wrong[name] = "it does not answer"
			}
			return wrong, nil
		}
		if err != nil {
			return nil, err
		}
		delete(waiting, e.Member)
		if e.Kind == exited {
			e.Text = "it has ended"
		}
		if e.Text != "" {
			wrong[e.Member] = e.Text
		}
	}
	return wrong, nil
}

// awaitJoined waits until processes have joined, and returns those that have not.
func (s *supervisor) awaitJoined(ctx context.Context, all []*process, d time.Duration) (missing []string, err error) {
	deadline := time.Now().Add(d)
	for {
		missing = nil
		for _, p := range all {
			if !p.joined {
				missing = append(missing, p.name)
			}
		}
		if len(missing) == 0 {
			return nil, nil
		}
		_, err := s.await(ctx, time.Until(deadline), func(e event) bool { return e.Kind == joined || e.Kind == exited })
		switch {
		case errors.Is(err, errLate):
			return missing, nil
		case err != nil:
			return nil, err
		}
	}
}

// close kills what runs, and waits for its end.
func (s *supervisor) close() {
	for _, p := range s.members {
		if p.running {
			p.ending = true
			_ = p.cmd.Process.Kill() // it may have ended
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, p := range s.members {
		_ = s.awaitEnd(ctx, p, 10*time.Second)
	}
}

// entry is the address of a place, with the port of the mesh.
func entry(i int) string { return net.JoinHostPort(address(i), fmt.Sprint(mesh.DefaultPort)) }

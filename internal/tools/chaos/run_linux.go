package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are what the command line says.
type settings struct {
	member   memberFlags
	duration time.Duration
	core     int // zero: drawn
	clients  int
	dir      string
	row      string // a part of the names of the rows to play
}

// errNotRun: there was nothing to judge.
var errNotRun = errors.New("not run")

// bound is how long after the last fault, and the start of the last process, the mesh may take until every shard is
// fully replicated and every key was locked by every process: the quiet time, the time after which the last
// lease has ended, and 15 s, as in simulations. What the kernel sends again after a cut may need most of that.
func (s *supervisor) bound() time.Duration {
	return 2*s.flags.maxTTL + s.flags.maxTTL/3 + 15*time.Second
}

// runChaos runs a mesh, and everything that a plan does to it. It returns an error if a promise is broken.
func runChaos(set settings) (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	for _, name := range sweep() {
		fmt.Println("deleted what an earlier run left behind:", name)
	}
	var names []string
	for i := range set.core + set.clients {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	n, err := newNetwork(names)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotRun, err)
	}
	defer n.close()
	s, err := newSupervisor(set, n)
	if err != nil {
		return err
	}
	defer s.journal.close()
	defer s.close()
	able := n.able()
	fmt.Printf("seed %d: a core of %d, %d clients, leases of %v and %v, for %v; links can be narrow: %v, slow: %v; logs in %s\n",
		set.member.seed, set.core, set.clients, min(leaseTTL, s.flags.maxTTL), s.flags.maxTTL, set.duration, able.narrow, able.slow, s.dir)
	p := newPlan(set.member.seed, names[:set.core], names[set.core:], able)
	counts := make(map[string]int)
	err = s.play(ctx, p, set.duration, counts)
	if hearing := s.hear(); err == nil {
		err = hearing
	}
	s.judge.finish()
	s.judge.print(os.Stdout, counts)
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		return fmt.Errorf("%w; logs in %s", err, s.dir)
	case len(s.judge.violations) > 0:
		return fmt.Errorf("%d violations; logs in %s; repeat: -seed %d -core %d -clients %d -duration %v",
			len(s.judge.violations), s.dir, set.member.seed, set.core, set.clients, set.duration)
	case err != nil:
		return err
	}
	if set.dir == "" {
		return os.RemoveAll(s.dir)
	}
	return nil
}

func newSupervisor(set settings, n *network) (*supervisor, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := set.dir
	if dir == "" {
		dir, err = os.MkdirTemp("", "chaos")
	} else {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return nil, err
	}
	s := &supervisor{
		program: program, dir: dir, flags: set.member, network: n, judge: newJudge(), events: make(chan event, 1024), began: clock(),
	}
	s.flags.journal = filepath.Join(dir, "journal")
	if _, err := os.Stat(s.flags.journal); err == nil {
		return nil, fmt.Errorf("-dir is %q, want a directory without a journal of an earlier run", dir)
	}
	if s.journal, err = openJournal(s.flags.journal); err != nil {
		return nil, err
	}
	s.judge.origin = s.began
	for i, name := range n.names {
		s.members = append(s.members, &process{name: name, addr: entry(i)})
	}
	s.list = n.names[:set.core]
	return s, nil
}

// play founds the mesh, and carries out the steps of a plan until the time is over. Then all must be well.
func (s *supervisor) play(ctx context.Context, p *plan, d time.Duration, counts map[string]int) error {
	if err := s.note(record{kind: fault, key: "founding", call: "0", who: "all", note: hurts}); err != nil {
		return err
	}
	for _, m := range s.members {
		if err := s.launch(m, s.list); err != nil {
			return err
		}
	}
	if well, err := s.settle(ctx); err != nil || !well {
		return err
	}
	for clock().sub(s.began) < d {
		step := p.next()
		counts[step.kind]++
		if err := s.step(ctx, step); err != nil {
			return fmt.Errorf("step %d, %s: %w", step.number, step.kind, err)
		}
		if step.calm {
			if well, err := s.settle(ctx); err != nil || !well {
				return err
			}
		}
		if err := s.watch(ctx, step.pause); err != nil {
			return err
		}
	}
	_, err := s.settle(ctx)
	return err
}

// step carries out a step.
func (s *supervisor) step(ctx context.Context, step step) error {
	if len(step.turns) > 0 {
		if well, err := s.settle(ctx); err != nil || !well {
			return err
		}
	}
	s.say("%3d %s", step.number, step)
	note := hurts
	if step.spares {
		note = spares
	}
	if err := s.note(record{
		kind: fault, key: strings.ReplaceAll(step.kind, " ", "-"), call: fmt.Sprint(step.number), who: strings.Join(step.names(), ","), note: note,
	}); err != nil {
		return err
	}
	began := time.Now()
	for _, o := range step.faults {
		if err := s.watch(ctx, o.at-time.Since(began)); err != nil {
			return err
		}
		if err := s.operate(ctx, o); err != nil {
			return err
		}
	}
	s.list = step.list
	for _, t := range step.turns {
		if err := s.turn(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// operate carries out one operation.
func (s *supervisor) operate(ctx context.Context, o operation) error {
	switch o.verb {
	case kill:
		return s.kill(ctx, o.names)
	case start:
		for _, name := range o.names {
			if err := s.launch(s.process(name), s.list); err != nil {
				return err
			}
		}
		return nil
	case halt:
		return s.signal(o.names, stopped, syscall.SIGSTOP)
	case goOn:
		return s.signal(o.names, continued, syscall.SIGCONT)
	case cut:
		return s.network.cut(o.names, o.to, 1)
	case mend:
		return s.network.cut(o.names, o.to, -1)
	case thin:
		return s.network.worsen(o.names, narrowLink)
	case drag:
		return s.network.worsen(o.names, slowLink)
	case widen:
		return s.network.widen(o.names)
	}
	return fmt.Errorf("what is %q?", o.verb)
}

// turn restarts a process in an orderly way. In a healthy mesh nothing of that may fail.
func (s *supervisor) turn(ctx context.Context, t turn) error {
	began, p := time.Now(), s.process(t.name)
	wrong, err := s.ask(ctx, []*process{p}, leave, 20*time.Second)
	if err != nil {
		return err
	}
	if text := wrong[t.name]; text != "" {
		s.complain("%s.%d: Leave: %s", p.name, p.start, text)
	}
	if err := s.awaitEnd(ctx, p, 30*time.Second); err != nil {
		return err
	}
	away := time.Since(began)
	if err := s.launch(p, t.list); err != nil {
		return err
	}
	missing, err := s.awaitJoined(ctx, []*process{p}, s.bound())
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		s.complain("%s.%d has not joined after %v", p.name, p.start, s.bound())
		return nil
	}
	back := time.Since(began)
	wrong, err = s.ask(ctx, []*process{p}, beHealthy, s.bound())
	if err != nil {
		return err
	}
	if text := wrong[t.name]; text != "" {
		s.complain("%s.%d: WaitHealthy: %s", p.name, p.start, text)
	}
	s.say("    %s left after %v, joined after %v, healthy after %v", t.name, round(away), round(back), round(time.Since(began)))
	return nil
}

// settle waits until all is well: every process has joined and sees all shards fully replicated, and each has
// locked every key. If that takes too long, it is a violation, and the result is false.
func (s *supervisor) settle(ctx context.Context) (bool, error) {
	began, within := time.Now(), s.bound()
	missing, err := s.awaitJoined(ctx, s.members, within)
	if err != nil {
		return false, err
	}
	if len(missing) > 0 {
		s.complain("%s have not joined %v after the last fault", strings.Join(missing, ", "), within)
		return false, s.watch(ctx, 12*time.Second) // their logs say what they wait for
	}
	for _, verb := range []commandVerb{rest, beHealthy, probe} {
		d := max(time.Second, within-time.Since(began))
		if verb == rest {
			d += 2 * unlockTime // what they hold
		}
		wrong, err := s.ask(ctx, s.members, verb, d)
		if err != nil {
			return false, err
		}
		for _, name := range slices.Sorted(maps.Keys(wrong)) {
			s.complain("%s, %v after the last fault: %s: %s", name, round(time.Since(began)), verb, wrong[name])
		}
		if len(wrong) > 0 {
			return false, nil
		}
	}
	if err := s.note(record{kind: calm}); err != nil {
		return false, err
	}
	wrong, err := s.ask(ctx, s.members, work, time.Second)
	if err != nil {
		return false, err
	}
	if len(wrong) > 0 {
		s.complain("%v", wrong)
		return false, nil
	}
	s.say("    all is well after %v: %d grants, %d violations", round(time.Since(began)), s.judge.grants, len(s.judge.violations))
	return true, nil
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}

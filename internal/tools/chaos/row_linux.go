package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// row is a situation that a network of its own is needed for. Others are in examples/fleet.
type row struct {
	name  string
	names int  // of the places n1, n2 and so on
	core  int  // how many of them, the first, are in the list
	idle  bool // processes lock nothing without a command
	play  func(context.Context, *scene) error
}

var situations = []row{
	{"three of five restart behind a cut", 7, 5, false, restartMost},
	{"the whole core restarts behind a cut from its clients", 5, 3, false, restartCore},
	{"one name with three addresses", 6, 3, true, oneName},
	{"two meshes of one name meet", 7, 3, true, twoMeshes},
}

// scene is a row that is being played.
type scene struct {
	*supervisor
	figures []figure
}

// figure is a time that a row has shown.
type figure struct {
	what string
	took time.Duration
}

func (s *scene) figure(what string, took time.Duration) {
	s.say("    %s: %v", what, round(took))
	s.figures = append(s.figures, figure{what, took})
}

// runRows plays the rows whose names contain a text, and prints a table of what they have shown.
func runRows(set settings) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	for _, name := range sweep() {
		fmt.Println("deleted what an earlier run left behind:", name)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "row\ttime\t")
	var failed error
	played := 0
	for i, r := range situations {
		if !strings.Contains(r.name, set.row) {
			continue
		}
		fmt.Println(r.name)
		one := set
		if set.dir != "" {
			one.dir = filepath.Join(set.dir, fmt.Sprint("row", i+1))
		}
		figures, err := r.run(ctx, one)
		if errors.Is(err, errNotRun) || ctx.Err() != nil {
			return err
		}
		played++
		result := "as promised"
		if err != nil {
			result, failed = "failed", errors.Join(failed, fmt.Errorf("%s: %w", r.name, err))
		}
		fmt.Fprintf(table, "%s\t%s\t\n", r.name, result)
		for _, f := range figures {
			fmt.Fprintf(table, "  %s\t%v\t\n", f.what, round(f.took))
		}
	}
	table.Flush()
	if played == 0 {
		return fmt.Errorf("no row has %q in its name", set.row)
	}
	return failed
}

// run plays a row in a network of its own. It returns an error if a promise is broken.
func (r row) run(ctx context.Context, set settings) (figures []figure, err error) {
	var names []string
	for i := range r.names {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	n, err := newNetwork(names)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotRun, err)
	}
	defer n.close()
	set.core, set.member.idle = r.core, r.idle
	u, err := newSupervisor(set, n)
	if err != nil {
		return nil, err
	}
	defer u.journal.close()
	defer u.close()
	s := &scene{supervisor: u}
	if err = s.note(record{kind: fault, key: "row", call: "0", who: "all", note: hurts}); err == nil {
		err = r.play(ctx, s)
	}
	if hearing := s.hear(); err == nil {
		err = hearing
	}
	s.judge.finish()
	var texts []string
	for _, v := range s.judge.violations {
		texts = append(texts, fmt.Sprintf("%s: %s", v.kind, v.text))
	}
	switch {
	case err != nil:
		return s.figures, fmt.Errorf("%w; %q; logs in %s", err, texts, s.dir)
	case len(texts) > 0:
		return s.figures, fmt.Errorf("%d violations: %q; logs in %s", len(texts), texts, s.dir)
	case set.dir == "":
		err = os.RemoveAll(s.dir)
	}
	return s.figures, err
}

// found starts processes with a list, and waits until they have joined.
func (s *scene) found(ctx context.Context, list []string, names ...string) error {
	var all []*process
	for _, name := range names {
		p := s.process(name)
		if err := s.launch(p, list); err != nil {
			return err
		}
		all = append(all, p)
	}
	return s.mustJoin(ctx, all)
}

func (s *scene) mustJoin(ctx context.Context, all []*process) error {
	missing, err := s.awaitJoined(ctx, all, s.bound())
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%v have not joined after %v", missing, s.bound())
	}
	return err
}

// mustSettle waits until all is well: see supervisor.settle. It does not look at processes that do not run.
func (s *scene) mustSettle(ctx context.Context) error {
	well, err := s.settle(ctx)
	if err == nil && !well {
		err = errors.New("the mesh does not recover")
	}
	return err
}

// part cuts all connections between two sets of nodes; by is -1 to undo that.
func (s *scene) part(a, b []string, by int) error {
	return errors.Join(s.network.cut(a, b, by), s.network.cut(b, a, by))
}

// restart kills processes, and starts them again with a list.
func (s *scene) restart(ctx context.Context, list []string, names ...string) error {
	if err := s.kill(ctx, names); err != nil {
		return err
	}
	for _, name := range names {
		if err := s.launch(s.process(name), list); err != nil {
			return err
		}
	}
	return nil
}

// grabs lets a process lock a key, and hold it.
func (s *scene) grabs(ctx context.Context, name, key string) error {
	wrong, err := s.order(ctx, []*process{s.process(name)}, command{Verb: grab, Key: key, Timeout: s.bound()})
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("%v", wrong)
	}
	return err
}

// held returns the hold that a process has of a key, as far as it has told; nil if it has none.
func (s *scene) held(name, key string) (*hold, error) {
	if err := s.hear(); err != nil {
		return nil, err
	}
	for _, h := range s.judge.open {
		if h.process() == name && h.key == key {
			return h, nil
		}
	}
	return nil, nil
}

// logged returns when a process has first logged a text after a time, as it is running now.
func (s *scene) logged(name, text string, after time.Time) (time.Time, bool) {
	b, err := os.ReadFile(s.logOf(s.process(name)))
	if err != nil {
		return time.Time{}, false
	}
	for line := range strings.Lines(string(b)) {
		stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
		if at, err := time.Parse(time.RFC3339, stamp); err == nil && strings.Contains(rest, text) && !at.Before(after.Truncate(time.Millisecond)) {
			return at, true
		}
	}
	return time.Time{}, false
}

// mustWait checks that processes have not joined, and say that they wait for entries.
func (s *scene) mustWait(ctx context.Context, names []string, missing ...string) error {
	for _, name := range names {
		p := s.process(name)
		answer, err := s.ask(ctx, []*process{p}, awaits, 5*time.Second)
		if err != nil {
			return err
		}
		if p.joined {
			return fmt.Errorf("%s has joined a mesh", name)
		}
		for _, m := range missing {
			if !slices.Contains(strings.Split(answer[name], ","), m) {
				return fmt.Errorf("%s waits for %q, and does not say that it waits for %s", name, answer[name], m)
			}
		}
	}
	return nil
}

// restartMost: three of five restart behind a cut, and the two that remember are with the clients on the other side. The three
// found nothing: they wait, and say for whom. When the cut is over, it is the same mesh.
func restartMost(ctx context.Context, s *scene) error {
	const cutTime = 12 * time.Second
	names := s.network.names
	forget, rest := names[:3], names[3:]
	if err := s.found(ctx, s.list, names...); err != nil {
		return err
	}
	if err := s.mustSettle(ctx); err != nil {
		return err
	}
	if err := s.note(record{kind: fault, key: "row", call: "1", who: strings.Join(names, ","), note: hurts}); err != nil {
		return err
	}
	if err := s.part(forget, rest, 1); err != nil {
		return err
	}
	if err := s.restart(ctx, s.list, forget...); err != nil {
		return err
	}
	if err := s.watch(ctx, cutTime); err != nil {
		return err
	}
	if err := s.mustWait(ctx, forget, entry(3), entry(4)); err != nil {
		return err
	}
	began := time.Now()
	if err := s.part(forget, rest, -1); err != nil {
		return err
	}
	if err := s.mustSettle(ctx); err != nil {
		return err
	}
	s.figure("from the end of the cut until every process has locked every key", time.Since(began))
	for _, name := range rest {
		if _, gives := s.logged(name, "this mesh gives way", began); gives {
			return fmt.Errorf("%s has been in another mesh", name)
		}
	}
	return nil
}

// restartCore: the whole core restarts behind a cut, and clients that hold locks are on the other side. Nobody else can remember, so
// the core founds a mesh. It grants what a client holds only when that one does not believe in it any more.
func restartCore(ctx context.Context, s *scene) error {
	names := s.network.names
	core, clients := names[:3], names[3:]
	if err := s.found(ctx, s.list, names...); err != nil {
		return err
	}
	if err := s.mustSettle(ctx); err != nil {
		return err
	}
	if err := s.grabs(ctx, clients[0], "kept"); err != nil {
		return err
	}
	if err := s.note(record{kind: fault, key: "row", call: "1", who: strings.Join(names, ","), note: hurts}); err != nil {
		return err
	}
	if err := s.part(core, clients, 1); err != nil {
		return err
	}
	began := time.Now()
	if err := s.restart(ctx, s.list, core...); err != nil {
		return err
	}
	if err := s.mustJoin(ctx, s.members[:3]); err != nil {
		return err
	}
	if err := s.grabs(ctx, core[0], "kept"); err != nil {
		return err
	}
	took, quiet := time.Since(began), s.flags.maxTTL+s.flags.maxTTL/50
	s.figure("from the restart until the key of a client behind the cut is granted", took)
	if took < quiet {
		return fmt.Errorf("it is granted after %v, want not before %v", round(took), quiet)
	}
	if h, err := s.held(clients[0], "kept"); err != nil || h != nil {
		return fmt.Errorf("the client has not lost it: %w", err)
	}
	began = time.Now()
	if err := s.part(core, clients, -1); err != nil {
		return err
	}
	if err := s.mustSettle(ctx); err != nil {
		return err
	}
	s.figure("from the end of the cut until every process has locked every key", time.Since(began))
	return nil
}

// oneName: a name leads to three nodes. As the only entry it makes no mesh, nor three; as one of three entries one mesh at
// most, in which one of them has a seat. Listed by their own addresses the nodes are a core, and the name is a contact point for clients.
func oneName(ctx context.Context, s *scene) error {
	const host, wait = "locks", 8 * time.Second
	name := fmt.Sprintf("%s:%d", host, 7300)
	names := s.network.names
	three, others := names[:3], names[3:5]
	for i, n := range names {
		first := i % 3
		if err := s.network.hosts(n, host, names[first], names[(first+1)%3], names[(first+2)%3]); err != nil {
			return err
		}
	}
	for _, n := range three {
		p := s.process(n)
		p.seeds = name
		if err := s.launch(p, three); err != nil {
			return err
		}
		p.ending = true // it must end
	}
	began := time.Now()
	for _, n := range three {
		p := s.process(n)
		if err := s.awaitEnd(ctx, p, wait); err != nil {
			return fmt.Errorf("%w: it is to end, since one entry of three nodes is a mesh for each", err)
		}
		if !strings.Contains(p.end, "is the only entry") {
			return fmt.Errorf("%s ended: %s", n, p.end)
		}
	}
	s.figure("the only entry: until all three have ended with an error", time.Since(began))

	for _, n := range slices.Concat(three, others) {
		p := s.process(n)
		p.seeds = strings.Join([]string{name, entry(3), entry(4)}, ",")
		if err := s.launch(p, names[:5]); err != nil {
			return err
		}
		p.ending = slices.Contains(three, n) // it may end
	}
	began = time.Now()
	if err := s.watch(ctx, wait); err != nil {
		return err
	}
	if err := s.mustBeOne(three, others, began); err != nil {
		return err
	}
	if err := s.kill(ctx, names[:5]); err != nil {
		return err
	}

	for _, p := range s.members {
		p.seeds = ""
	}
	if err := s.found(ctx, three, three...); err != nil {
		return err
	}
	client := s.process(names[5])
	client.seeds, began = name, time.Now()
	if err := s.found(ctx, three, client.name); err != nil {
		return err
	}
	s.figure("a contact point: until a client has joined", time.Since(began))
	return s.grabs(ctx, client.name, "k")
}

// mustBeOne checks that of nodes to which one entry leads one at most has its seat, that there is one mesh at most, and that a node of
// another entry says that several answer there. Whether there is a mesh depends on whom the first dials reach.
func (s *scene) mustBeOne(several, others []string, began time.Time) error {
	seated := 0
	meshes := make(map[string]bool)
	for _, n := range slices.Concat(several, others) {
		p := s.process(n)
		if p.joined && slices.Contains(several, n) {
			seated++
		}
		b, err := os.ReadFile(s.logOf(p))
		if err != nil {
			return err
		}
		for _, id := range regexp.MustCompile(` mesh=[0-9a-f]+`).FindAllString(string(b), -1) {
			meshes[id] = true
		}
	}
	if seated > 1 || len(meshes) > 1 {
		return fmt.Errorf("one of three entries: %d nodes have its seat, and there are %d meshes", seated, len(meshes))
	}
	said := time.Time{}
	for _, n := range others {
		for _, text := range []string{"several nodes answer at one entry", "entry taken by another node"} {
			if at, ok := s.logged(n, text, began.Add(-time.Second)); ok && (said.IsZero() || at.Before(said)) {
				said = at
			}
		}
	}
	if said.IsZero() {
		return errors.New("nobody says that several nodes answer at the entry")
	}
	s.figure(fmt.Sprintf("one of three entries: %d mesh; until a node of another entry says so", len(meshes)), said.Sub(began))
	return nil
}

// twoMeshes: n3 is started behind a cut with a list that was meant for others, and founds a second mesh with these. Both meshes
// grant. When they meet, the later one gives way and says so: its holders are told, those of the earlier one notice nothing.
func twoMeshes(ctx context.Context, s *scene) error {
	const most = 3 * time.Second // from the first contact until the later mesh has given way
	first, second, gives := []string{"n1", "n2", "n3"}, []string{"n3", "n4", "n5"}, []string{"n3", "n4", "n5", "n7"}
	stays := []string{"n1", "n2", "n6"}
	if err := s.found(ctx, first, "n1", "n2", "n3", "n6"); err != nil {
		return err
	}
	if err := s.grabs(ctx, "n6", "k"); err != nil {
		return err
	}
	if err := s.part(stays, gives, 1); err != nil {
		return err
	}
	if err := s.kill(ctx, []string{"n3"}); err != nil {
		return err
	}
	if err := s.found(ctx, second, gives...); err != nil {
		return err
	}
	if err := s.grabs(ctx, "n7", "other"); err != nil {
		return err
	}
	began := time.Now()
	if err := s.part(stays, gives, -1); err != nil {
		return err
	}
	if err := s.watch(ctx, 10*time.Second); err != nil {
		return err
	}
	var contact, over time.Time
	for _, name := range stays[:2] {
		if at, ok := s.logged(name, "another node answers", began); ok && (contact.IsZero() || at.Before(contact)) {
			contact = at
		}
	}
	if contact.IsZero() {
		return errors.New("no contact")
	}
	for _, name := range gives {
		at, ok := s.logged(name, `level=ERROR msg="this mesh gives way`, began)
		if !ok {
			return fmt.Errorf("%s does not say that its mesh gives way", name)
		}
		if at.After(over) {
			over = at
		}
	}
	for _, name := range stays {
		if _, ok := s.logged(name, "this mesh gives way", began); ok {
			return fmt.Errorf("%s, of the earlier mesh, gives way", name)
		}
	}
	s.figure("from the end of the cut until the first contact", contact.Sub(began))
	s.figure("from the first contact until the later mesh has given way on all nodes", over.Sub(contact))
	if took := over.Sub(contact); took > most {
		return fmt.Errorf("the later mesh gives way after %v, want at most %v", round(took), most)
	}
	if h, err := s.held("n7", "other"); err != nil || h != nil {
		return fmt.Errorf("a holder of the later mesh has not lost its lock: %w", err)
	}
	if h, err := s.held("n6", "k"); err != nil || h == nil {
		return fmt.Errorf("a holder of the earlier mesh has lost its lock: %w", err)
	}
	if err := s.grabs(ctx, "n7", "other"); err != nil { // with a token above the one that it had: the judge looks
		return err
	}
	if err := s.mustSettle(ctx); err != nil {
		return err
	}
	return nil
}

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/internal/operator"
	"github.com/lockmesh/mesh/internal/realenv"
	"github.com/lockmesh/mesh/transport"
)

const coreUsage = `usage: lockmesh core <command> [flags] ...

  ls [ADDRESS]          show the core as a node knows it
  check [ADDRESS]       say what is wrong with the core, and what to do
  add ENTRY             add an entry to the list of a mesh that runs
  remove ENTRY          remove an entry from the list
  replace OLD NEW       add NEW and remove OLD, at once, or one after the other if the list has three entries or fewer
  declare-dead ENTRY    tell the core that the node at this entry has ended for good, with its machine. If it lives, two callers
                        may hold one key

add, remove and replace restart nothing. Every node of the core that stays writes the next list into its state directory, so each
of them must have one (mesh.WithStateDir). Start the node at a new entry first, with the next list as its seeds; if it is to replace
one of three entries or fewer, with the present list and its own entry. If a command fails halfway, repeat it; to take a change
back, make the opposite change. Afterwards make the new list the seeds of all processes: until its seeds change, a process starts
with the list in its state directory.

The node that is asked is at ADDRESS, or as -node says. ls and check may ask any node that has a port, check also before the mesh
is founded; the other commands must ask a node of the core. An ADDRESS or ENTRY is host:port, or a host (port 7300).
The exit status is 0, 1 if it failed or check found a problem, and 2 if the arguments make no sense.

flags:
`

const statusUsage = `usage: lockmesh status [flags] [ADDRESS]

Shows the state of the node at ADDRESS (host:port, or a host with port 7300), or as -node says. The node answers also before its
mesh is founded. The exit status is 0, 1 if the node did not answer, and 2 if the arguments make no sense.

flags:
`

// operatorFlags are the flags of the commands that ask a node.
type operatorFlags struct {
	*flag.FlagSet
	usage string

	node, mesh       string
	ca, cert, key    string
	timeout          time.Duration
	json, force      bool
	addr             string   // of the node
	args             []string // that are no flags
	transport        transport.Config
	positional, most int // how many arguments there must be, and may be: one more is the node's address
}

func newOperatorFlags(name, usage string, positional int, address bool) *operatorFlags {
	f := &operatorFlags{FlagSet: flag.NewFlagSet("lockmesh "+name, flag.ContinueOnError), usage: usage, positional: positional, most: positional}
	if address {
		f.most++
	}
	f.SetOutput(io.Discard)
	f.StringVar(&f.node, "node", fmt.Sprintf("127.0.0.1:%d", mesh.DefaultPort), "the `address` of the node to ask")
	f.StringVar(&f.mesh, "mesh", "", "the `name` of the mesh that the node must be in; if it is not given, any mesh will do")
	f.StringVar(&f.ca, "ca", "", "with TLS: the `file` with the authorities that vouch for nodes, in PEM")
	f.StringVar(&f.cert, "cert", "", "with TLS: the `file` with this command's certificate, in PEM")
	f.StringVar(&f.key, "key", "", "with TLS: the `file` with its key, in PEM")
	f.DurationVar(&f.timeout, "timeout", 20*time.Second, "how `long` to try at most, from 1s to 10m")
	f.BoolVar(&f.json, "json", false, "print JSON")
	return f
}

// explain prints the usage, with the flags.
func (f *operatorFlags) explain(w io.Writer) { explain(w, f.usage, f.FlagSet) }

// explainCore prints the usage of lockmesh core, with the flags of all its commands.
func explainCore(w io.Writer) {
	f := newOperatorFlags("core", coreUsage, 0, true)
	f.forces()
	f.explain(w)
}

// read reads the arguments. Its error says what is wrong with them; flag.ErrHelp, that the usage was asked for, which
// goes to out.
func (f *operatorFlags) read(args []string, out io.Writer) error {
	for rest := args; ; { // flags may come before, between and after the arguments
		if err := f.Parse(rest); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				f.explain(out)
			}
			return err
		}
		if f.NArg() == 0 {
			break
		}
		f.args, rest = append(f.args, f.Arg(0)), f.Args()[1:]
	}
	switch n := len(f.args); {
	case n < f.positional:
		return errors.New("an argument is missing")
	case n > f.most:
		return fmt.Errorf("unexpected argument %q", f.args[f.most])
	case n > f.positional:
		f.node = f.args[f.positional]
	}
	if f.timeout < time.Second || f.timeout > operator.MaxWait {
		return fmt.Errorf("-timeout %v: it must be from 1s to %v", f.timeout, operator.MaxWait)
	}
	var err error
	if f.addr, err = address(f.node); err != nil {
		return err
	}
	f.transport.Logger = slog.New(slog.DiscardHandler)
	f.transport.TLS, err = loadTLS(f.ca, f.cert, f.key)
	return err
}

// address returns host:port of an address or a host at which a node can be.
func address(s string) (string, error) {
	addr, bare := s, strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if net.ParseIP(bare) != nil || !strings.Contains(s, ":") {
		addr = net.JoinHostPort(bare, strconv.Itoa(mesh.DefaultPort))
	}
	host, port, err := net.SplitHostPort(addr)
	if n, portErr := strconv.Atoi(port); err != nil || transport.IsWildcard(host) || portErr != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%q is no address of a node: want host:port, or a host", s)
	}
	return addr, nil
}

// loadTLS returns what the flags say of TLS between nodes; nil: there is none.
func loadTLS(caFile, certFile, keyFile string) (*tls.Config, error) {
	if caFile == "" && certFile == "" && keyFile == "" {
		return nil, nil
	}
	if caFile == "" || certFile == "" || keyFile == "" {
		return nil, errors.New("-ca, -cert and -key go together")
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("-cert and -key: %w", err)
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("-ca: no certificate in %s", caFile)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool}
	return c, transport.CheckTLS(c)
}

// ask asks a node, for so long at most.
func (f *operatorFlags) ask(ctx context.Context, addr string, q operator.Question, limit time.Duration) (*operator.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a, err := f.answer(ctx, addr, q)
	if err == nil {
		err = a.Err()
	}
	if err == nil && a.Status == nil {
		err = fmt.Errorf("the node at %s says nothing of itself: it may be of a later release", addr)
	}
	return a.Status, err
}

// answer asks a node.
func (f *operatorFlags) answer(ctx context.Context, addr string, q operator.Question) (operator.Answer, error) {
	a, _, err := node.Ask(ctx, realenv.New(f.transport.Logger), f.transport, f.mesh, addr, q)
	return a, err
}

// status returns the status of the node that the flags name.
func (f *operatorFlags) status(ctx context.Context) (*operator.Status, error) {
	return f.ask(ctx, f.addr, operator.Question{Verb: operator.Tell}, f.timeout)
}

// askAll asks all entries for their status, at once.
func (f *operatorFlags) askAll(ctx context.Context, entries []string) map[string]operator.Reached {
	reached := make(map[string]operator.Reached)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, entry := range entries {
		wg.Go(func() {
			s, err := f.ask(ctx, entry, operator.Question{Verb: operator.Tell}, min(f.timeout, 5*time.Second))
			r := operator.Reached{Status: s}
			if err != nil {
				r.Err = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			reached[entry] = r
		})
	}
	wg.Wait()
	return reached
}

// runStatus is lockmesh status.
func runStatus(ctx context.Context, args []string, c console) int {
	f := newOperatorFlags("status", statusUsage, 0, true)
	return f.run(ctx, args, c, func() int {
		s, err := f.status(ctx)
		if err != nil {
			return f.failed(c, err)
		}
		return f.print(c, s, func(w io.Writer) { printStatus(w, s) })
	})
}

// runCore is lockmesh core.
func runCore(ctx context.Context, args []string, c console) int {
	all := make(map[string]command)
	for name, cmd := range coreCommands {
		all[name] = func(ctx context.Context, args []string, c console) int {
			f := newOperatorFlags("core "+name, coreUsage, cmd.positional, cmd.positional == 0)
			if cmd.forces {
				f.forces()
			}
			return f.run(ctx, args, c, func() int { return cmd.do(f, ctx, c) })
		}
	}
	return dispatch(ctx, "lockmesh core", explainCore, args, c, all)
}

// coreCommands are the commands of lockmesh core. Those with no argument of their own may have the address of the node to ask.
var coreCommands = map[string]struct {
	positional int // how many arguments
	forces     bool
	do         func(*operatorFlags, context.Context, console) int
}{
	"ls":     {0, false, (*operatorFlags).ls},
	"check":  {0, false, (*operatorFlags).check},
	"add":    {1, true, func(f *operatorFlags, ctx context.Context, c console) int { return f.change(ctx, c, f.args[0], "") }},
	"remove": {1, false, func(f *operatorFlags, ctx context.Context, c console) int { return f.change(ctx, c, "", f.args[0]) }},
	"replace": {2, true, func(f *operatorFlags, ctx context.Context, c console) int {
		return f.change(ctx, c, f.args[1], f.args[0])
	}},
	"declare-dead": {1, false, (*operatorFlags).declareDead},
}

// run reads the arguments, and does what they say.
func (f *operatorFlags) run(ctx context.Context, args []string, c console, do func() int) int {
	switch err := f.read(args, c.out); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return f.misused(c, err)
	}
	return do()
}

// misused says what is wrong with the arguments.
func (f *operatorFlags) misused(c console, err error) int {
	fmt.Fprintf(c.err, "%s: %v (see -help)\n", f.Name(), err)
	return exitUsage
}

// failed says why a node did not do what it was asked for.
func (f *operatorFlags) failed(c console, err error) int {
	var refused *transport.RefusedError
	text := err.Error()
	switch {
	case errors.As(err, &refused) && f.mesh != "" && refused.Peer.MeshName != f.mesh:
		text = fmt.Sprintf("node %q at %s is of mesh %q, and -mesh says %q", refused.Peer.Name, refused.Peer.Addr, refused.Peer.MeshName, f.mesh)
	case errors.As(err, &refused):
		text = refused.Reason
	case errors.Is(err, mesh.ErrNoSeat):
		text += fmt.Sprintf(" (lockmesh core ls %s names them)", f.addr)
	}
	fmt.Fprintf(c.err, "%s: %s\n", f.Name(), strings.TrimPrefix(strings.TrimPrefix(text, "mesh: "), "transport: "))
	return exitFailed
}

// print prints v as JSON, or as text prints it.
func (f *operatorFlags) print(c console, v any, text func(io.Writer)) int {
	if !f.json {
		text(c.out)
		return exitOK
	}
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		fmt.Fprintf(c.err, "%s: %v\n", f.Name(), err)
		return exitFailed
	}
	return exitOK
}

func (f *operatorFlags) ls(ctx context.Context, c console) int {
	s, err := f.status(ctx)
	switch {
	case err != nil:
		return f.failed(c, err)
	case s.Core == nil:
		return f.failed(c, fmt.Errorf("node %q is in no mesh yet: %s; its list is [%s]", s.Name, s.Phase, strings.Join(s.List, " ")))
	}
	return f.print(c, s.Core, func(w io.Writer) { printCore(w, s.Core) })
}

// checked is what check prints as JSON.
type checked struct {
	Whole    bool               `json:"whole"`
	Findings []operator.Finding `json:"findings"`
	Status   *operator.Status   `json:"status"`
}

func (f *operatorFlags) check(ctx context.Context, c console) int {
	s, err := f.status(ctx)
	if err != nil {
		return f.failed(c, err)
	}
	found := operator.Check(s, f.askAll(ctx, s.Entries()))
	r := checked{Whole: len(found) == 0 || !found[0].Problem, Findings: found, Status: s}
	if code := f.print(c, r, func(w io.Writer) { printFindings(w, s, found) }); code != exitOK || r.Whole {
		return code
	}
	return exitFailed
}

func (f *operatorFlags) declareDead(ctx context.Context, c console) int {
	entry, err := address(f.args[0])
	if err != nil {
		return f.misused(c, err)
	}
	// What the node waits for is known a moment before this command gives up.
	s, err := f.ask(ctx, f.addr, operator.Question{Verb: operator.DeclareDead, Entry: entry, Wait: f.timeout}, f.timeout+5*time.Second)
	if err != nil {
		return f.failed(c, err)
	}
	return f.print(c, s.Core, func(w io.Writer) { printDeclared(w, s.Core, entry) })
}

// answers returns nil as soon as a node answers at an address, which may have been started just now.
func (f *operatorFlags) answers(ctx context.Context, addr string) (err error) {
	for until := time.Now().Add(min(f.timeout, 3*time.Second)); ; {
		_, err = f.ask(ctx, addr, operator.Question{Verb: operator.Tell}, min(f.timeout, 3*time.Second))
		if err == nil || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (f *operatorFlags) forces() {
	f.BoolVar(&f.force, "force", false, "with add and replace: do not check that a node answers at the new entry, nor wait for that node to join")
}

// change changes the list of the core. Before that it makes sure that a node answers at the entry to be added: one that is
// misspelt would be waited for.
func (f *operatorFlags) change(ctx context.Context, c console, add, remove string) int {
	if slices.Contains(f.args, "") { // an unset variable; the node would take it for none
		return f.misused(c, errors.New("an entry is empty"))
	}
	for _, e := range []*string{&add, &remove} {
		if *e == "" {
			continue
		}
		addr, err := address(*e)
		if err != nil {
			return f.misused(c, err)
		}
		*e = addr
	}
	if add == remove {
		return f.misused(c, fmt.Errorf("the two entries are the same: %s", add))
	}
	if add != "" && !f.force {
		if err := f.answers(ctx, add); err != nil {
			return f.failed(c, fmt.Errorf("no node answers at %s, where a node is to be started first (see lockmesh core -help); or use -force: %w", add, err))
		}
	}
	if add != "" && remove != "" {
		if s, err := f.status(ctx); err == nil && s.Core != nil && len(s.Core.Seats) <= 3 {
			fmt.Fprintf(c.err, "%s: a list of three entries or fewer changes in two steps: the entry is added first, or, of three entries, that of a node that is gone is removed first\n", f.Name())
		}
	}
	s, err := f.ask(ctx, f.addr, operator.Question{Verb: operator.Change, Add: add, Remove: remove, Wait: f.timeout}, f.timeout+5*time.Second)
	if err != nil {
		return f.failed(c, err)
	}
	for until := time.Now().Add(5 * time.Second); s.Core.Unfinished != "" && !f.force && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(100 * time.Millisecond) // the new node is about to come, or the votes of the one that goes are moving
		if now, err := f.status(ctx); err == nil && now.Core != nil {
			s = now
		}
	}
	return f.print(c, s.Core, func(w io.Writer) {
		fmt.Fprintf(w, "the list of the core is %s, and all of its nodes keep it\n", strings.Join(s.Core.Entries(), " "))
		if why := s.Core.Unfinished; why != "" {
			fmt.Fprintf(w, "the next change waits: %s\n", why)
		}
	})
}

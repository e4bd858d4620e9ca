package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/bridge"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/internal/operator"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
)

const locksUsage = `usage: lockmesh locks <command> [flags] ...

  ls [ADDRESS]                the keys in use, and who holds them; with -prefix only keys that begin with that text
  show KEY [ADDRESS]          who holds a key, with which token, who waits for it, and what is remembered of it
  break KEY TOKEN [ADDRESS]   take a key from what holds it under this token, as show names it

break ends one hold, and never a later one. The holder is told to stop (mesh.ErrBroken). The key is free as soon as the holder has
stopped, or else when the key's leader has waited for the TTL of the holder's session since it heard of the break; a hold of fixed
length lasts to its end at most. Nobody else gets the key while the holder may still believe in it. All else that the holder's process
holds stays. If break ends before the key is free (-timeout), repeat it, or wait: once the leader has heard of the break, the key
becomes free without another one, unless the key's shard loses most of its replicas meanwhile, and with them the break.

A key that is no plain word is printed as a quoted Go string, "\x00key", and may be given in that form. The node that is asked is at
ADDRESS, or as -node says; any node that has a port and is in the mesh will do. An ADDRESS is host:port, or a host (port 7300).
The exit status is 0, 1 if it failed, and 2 if the arguments make no sense.

flags:
`

const refsUsage = `usage: lockmesh refs <command> [flags] ...

  ls RESOURCE [ADDRESS]             who uses a resource
  release RESOURCE USER [ADDRESS]   end the durable use of a user whose session has ended

A use through a session that lives ends only by a Release of its user in that session, or with the session: then release changes nothing, and
says so, with exit status 1. The node that is asked is at ADDRESS, or as -node says; any node that has a port and is in the mesh will do. An ADDRESS is
host:port, or a host (port 7300).
The exit status is 0, 1 if it failed, and 2 if the arguments make no sense.

flags:
`

// keyFlags are the flags of the commands about keys.
type keyFlags struct {
	*operatorFlags
	prefix, why string
	most        int
}

func newKeyFlags(name, usage string, positional int) *keyFlags {
	f := &keyFlags{operatorFlags: newOperatorFlags(name, usage, positional, true)}
	if name == "locks" || name == "locks ls" { // the first is for the usage
		f.StringVar(&f.prefix, "prefix", "", "with ls: only the keys that begin with this `text`")
	}
	if name == "locks" || name == "locks show" || name == "refs" || name == "refs ls" {
		f.IntVar(&f.most, "most", 100, "with locks show and refs ls: how `many` elements of each list are told at most, up to 1000")
	}
	if name == "locks" || name == "locks break" {
		f.StringVar(&f.why, "why", "", "with break: a `reason`, for the logs of the nodes")
	}
	return f
}

// runLocks is lockmesh locks.
func runLocks(ctx context.Context, args []string, c console) int {
	return runKeys(ctx, "locks", locksUsage, args, c, map[string]keyCommand{
		"ls": {0, (*keyFlags).list}, "show": {1, (*keyFlags).show}, "break": {2, (*keyFlags).breaks},
	})
}

// runRefs is lockmesh refs.
func runRefs(ctx context.Context, args []string, c console) int {
	return runKeys(ctx, "refs", refsUsage, args, c, map[string]keyCommand{
		"ls": {1, (*keyFlags).users}, "release": {2, (*keyFlags).release},
	})
}

// keyCommand is one command, and how many arguments it has.
type keyCommand struct {
	positional int
	do         func(*keyFlags, context.Context, console) int
}

func runKeys(ctx context.Context, group, usage string, args []string, c console, commands map[string]keyCommand) int {
	all := make(map[string]command)
	for name, cmd := range commands {
		all[name] = func(ctx context.Context, args []string, c console) int {
			f := newKeyFlags(group+" "+name, usage, cmd.positional)
			return f.run(ctx, args, c, func() int {
				if f.most < 0 || f.most > 1000 {
					return f.misused(c, fmt.Errorf("-most %d: it must be from 0 to 1000", f.most))
				}
				return cmd.do(f, ctx, c)
			})
		}
	}
	return dispatch(ctx, "lockmesh "+group, newKeyFlags(group, usage, 0).explain, args, c, all)
}

// key returns an argument that names a key, a prefix or a resource, which may be a Go string.
func key(s string, least int) (string, error) {
	if strings.HasPrefix(s, `"`) {
		plain, err := strconv.Unquote(s)
		if err != nil {
			return "", fmt.Errorf("%s is no Go string", s)
		}
		s = plain
	}
	if len(s) < least || len(s) > shard.MaxKey {
		return "", fmt.Errorf("a key of %d bytes: it must have from %d to %d", len(s), least, shard.MaxKey)
	}
	return s, nil
}

// shown is a key as it is printed.
func shown(s string) string {
	if s == "" || strings.HasPrefix(s, `"`) || strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// askKeys asks the node a question about keys. Without an error, the Sight is nil if the node told of no key; the cursor is nil if
// there are no more keys.
func (f *keyFlags) askKeys(ctx context.Context, q operator.Question) (*operator.Sight, []mesh.KeyState, *shard.Cursor, error) {
	q.Wait = f.timeout
	ctx, cancel := context.WithTimeout(ctx, f.timeout+5*time.Second)
	defer cancel()
	a, err := f.answer(ctx, f.addr, q)
	if err == nil {
		err = a.Err()
	}
	if err != nil || a.Sight == nil {
		return nil, nil, nil, err
	}
	var page shard.Page
	if err := wire.Decode(a.Sight.Page, &page); err != nil {
		return nil, nil, nil, err
	}
	var all []mesh.KeyState
	for _, k := range page.Keys {
		all = append(all, bridge.KeyStateOf(node.Sight{KeyState: k, Shard: a.Sight.Shard, Leader: a.Sight.Leader, Quiet: page.Quiet}).(mesh.KeyState))
	}
	if page.More {
		return a.Sight, all, &page.Next, nil
	}
	return a.Sight, all, nil, nil
}

// look asks what is known of one key.
func (f *keyFlags) look(ctx context.Context, key string) (*mesh.KeyState, error) {
	q := shard.Inspection{Key: key, Most: f.most}
	_, all, _, err := f.askKeys(ctx, operator.Question{Verb: operator.Look, Look: wire.Append(nil, &q)})
	if err == nil && len(all) != 1 {
		err = errors.New("the node told nothing of the key")
	}
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

func (f *keyFlags) list(ctx context.Context, c console) int {
	prefix, err := key(f.prefix, 0)
	if err != nil {
		return f.misused(c, err)
	}
	found := []mesh.KeyState{}
	for sh, shards := 0, 1; sh < shards; sh++ {
		for after := (&shard.Cursor{}); after != nil; {
			q := shard.Inspection{Key: prefix, List: true, After: *after}
			s, all, next, err := f.askKeys(ctx, operator.Question{Verb: operator.Look, Shard: sh, Look: wire.Append(nil, &q)})
			if err == nil && s == nil {
				err = errors.New("the node told nothing of its keys")
			}
			if err != nil {
				return f.failed(c, err)
			}
			found = append(found, all...)
			shards, after = s.Shards, next
		}
	}
	return f.print(c, found, func(w io.Writer) { printKeys(w, found) })
}

func (f *keyFlags) show(ctx context.Context, c console) int {
	name, err := key(f.args[0], 1)
	if err != nil {
		return f.misused(c, err)
	}
	k, err := f.look(ctx, name)
	if err != nil {
		return f.failed(c, err)
	}
	return f.print(c, k, func(w io.Writer) { printKey(w, k) })
}

// brokenKey is what break prints as JSON.
type brokenKey struct {
	Key   string `json:"key"`
	Token uint64 `json:"token"`
	Free  bool   `json:"free"` // nobody holds the key under that token any more
}

func (f *keyFlags) breaks(ctx context.Context, c console) int {
	name, err := key(f.args[0], 1)
	token, noToken := strconv.ParseUint(f.args[1], 10, 64)
	switch {
	case err != nil:
		return f.misused(c, err)
	case noToken != nil || token == 0:
		return f.misused(c, fmt.Errorf("%q is no token: see lockmesh locks show", f.args[1]))
	case len(f.why) > shard.MaxWhy:
		return f.misused(c, fmt.Errorf("-why: %d bytes, want at most %d", len(f.why), shard.MaxWhy))
	}
	_, _, _, err = f.askKeys(ctx, operator.Question{Verb: operator.Break, Key: name, Token: token, Text: f.why})
	switch {
	case errors.Is(err, mesh.ErrUnconfirmed) || errors.Is(err, mesh.ErrQuiet):
		return f.failed(c, fmt.Errorf("not confirmed yet; the break goes on if the key's leader has heard of it: repeat the command, or see lockmesh locks show (%w)", err))
	case errors.Is(err, mesh.ErrNotHeld):
		return f.failed(c, fmt.Errorf("nobody holds %s under token %d", shown(name), token))
	case err != nil:
		return f.failed(c, err)
	}
	return f.print(c, brokenKey{name, token, true}, func(w io.Writer) { fmt.Fprintf(w, "nobody holds %s under token %d any more\n", shown(name), token) })
}

func (f *keyFlags) users(ctx context.Context, c console) int {
	name, err := key(f.args[0], 1)
	if err != nil {
		return f.misused(c, err)
	}
	k, err := f.look(ctx, name)
	if err != nil {
		return f.failed(c, err)
	}
	users := k.Users
	if users == nil {
		users = []mesh.Ref{}
	}
	return f.print(c, users, func(w io.Writer) { printUsers(w, k) })
}

func (f *keyFlags) release(ctx context.Context, c console) int {
	name, err := key(f.args[0], 1)
	user := f.args[1]
	switch {
	case err != nil:
		return f.misused(c, err)
	case user == "" || len(user) > shard.MaxName:
		return f.misused(c, fmt.Errorf("a user of %d bytes: it must have from 1 to %d", len(user), shard.MaxName))
	}
	_, all, _, err := f.askKeys(ctx, operator.Question{Verb: operator.Release, Key: name, Text: user})
	if err != nil {
		return f.failed(c, err)
	}
	for _, k := range all {
		for _, u := range k.Users {
			if u.User == user {
				return f.failed(c, fmt.Errorf("%s uses %s still, through a session that lives", user, shown(name)))
			}
		}
	}
	return f.print(c, struct {
		Released bool `json:"released"`
	}{true}, func(w io.Writer) { fmt.Fprintf(w, "%s does not use %s any more\n", user, shown(name)) })
}

// printKeys prints a line for each key.
func printKeys(w io.Writer, all []mesh.KeyState) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "key\tkind\theld by\ttoken\twaiting\tusing")
	for _, k := range all {
		by, token := "-", "-"
		if len(k.Holders) > 0 {
			by, token = holderOf(k.Holders[0]), strconv.FormatUint(k.Holders[0].Token, 10)
		}
		if k.Holding > 1 {
			by += fmt.Sprintf(" and %d more", k.Holding-1)
		}
		fmt.Fprintf(t, "%s\t%v\t%s\t%s\t%d\t%d\n", shown(k.Key), k.Kind, by, token, k.Waiting, k.Using)
	}
	t.Flush()
}

// caller names a node, or the guest for which it acts.
func caller(node, guest string) string {
	if guest != "" {
		return "guest " + guest
	}
	return node
}

// holderOf says who holds a key.
func holderOf(h mesh.KeyHolder) string {
	who := caller(h.Node, h.Guest)
	if h.Broken {
		who += " (broken)"
	}
	return who
}

// printKey prints what is known of a key.
func printKey(w io.Writer, k *mesh.KeyState) {
	leader := k.Leader
	if leader == "" {
		leader = "an unknown node"
	}
	fmt.Fprintf(w, "%s: %v, in shard %d, led by %s\n", shown(k.Key), k.Kind, k.Shard, leader)
	printQuiet(w, k)
	switch {
	case k.Kind == mesh.KindSemaphore || k.Kind == mesh.KindBarrier:
		fmt.Fprintf(w, "%d of %d taken\n", k.Taken, k.Capacity)
	case k.Kind == mesh.KindLatch && len(k.Done) == 0: // it is not open
		fmt.Fprintf(w, "%d of %d have arrived\n", k.Arrived, k.Capacity)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	what := func(shared bool, permits int64, operation, version string) string {
		var all []string
		if shared {
			all = append(all, "reads")
		}
		if k.Kind == mesh.KindSemaphore {
			all = append(all, fmt.Sprintf("%d permits", permits))
		}
		if operation != "" {
			all = append(all, strings.TrimSpace(operation+" "+version))
		}
		return strings.Join(all, ", ")
	}
	for _, h := range k.Holders {
		fmt.Fprintf(t, "held by\t%s\ttoken %d\t%s\n", holderOf(h), h.Token, what(h.Shared, h.Permits, h.Operation, h.Version))
	}
	for _, x := range k.Waiters {
		fmt.Fprintf(t, "waits, as %d\t%s\t\t%s\n", x.Place, caller(x.Node, x.Guest), what(x.Shared, x.Permits, x.Operation, x.Version))
	}
	for _, u := range k.Users {
		fmt.Fprintf(t, "used by\t%s\t\t%s\n", u.User, durable(u))
	}
	for _, who := range k.Arrivals {
		fmt.Fprintf(t, "has arrived\t%s\t\t\n", shown(who))
	}
	for _, d := range k.Done {
		is, operation := "done", strings.TrimSpace(d.Operation+" "+d.Version)
		if k.Kind == mesh.KindLatch {
			is, operation = "open", ""
		}
		fmt.Fprintf(t, "%s\t%s\t\tfor another %v\n", is, operation, d.Remains.Round(time.Second))
	}
	t.Flush()
	for _, l := range []struct {
		all, told int
		what      string
	}{{k.Holding, len(k.Holders), "hold it"}, {k.Waiting, len(k.Waiters), "wait"}, {k.Arrived, len(k.Arrivals), "have arrived"}} {
		if l.all > l.told {
			fmt.Fprintf(w, "%d more %s\n", l.all-l.told, l.what)
		}
	}
	printUses(w, k)
}

// printQuiet says whether holders and users may be missing.
func printQuiet(w io.Writer, k *mesh.KeyState) {
	if k.Quiet > 0 {
		fmt.Fprintf(w, "the shard grants nothing for another %v; holders and users may not have reported yet\n", k.Quiet.Round(time.Millisecond))
	}
}

// printUses says how many uses there are, if that is more than the users that are told.
func printUses(w io.Writer, k *mesh.KeyState) {
	if k.Using > len(k.Users) {
		fmt.Fprintf(w, "%d uses in all: a user has one through each session, and at most -most of them are told here\n", k.Using)
	}
}

// printUsers prints who uses a resource.
func printUsers(w io.Writer, k *mesh.KeyState) {
	printQuiet(w, k)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, u := range k.Users {
		fmt.Fprintf(t, "%s\t%s\n", u.User, durable(u))
	}
	t.Flush()
	if k.Using == 0 {
		fmt.Fprintf(w, "nobody uses %s\n", shown(k.Key))
	}
	printUses(w, k)
}

func durable(u mesh.Ref) string {
	if u.Durable {
		return "durable"
	}
	return ""
}

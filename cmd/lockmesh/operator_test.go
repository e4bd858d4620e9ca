package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/internal/operator"
	"github.com/lockmesh/mesh/internal/testca"
)

// ports returns addresses on loopback at which nothing listens.
func ports(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	slices.Sort(addrs)
	return addrs
}

// startAt starts a node.
func startAt(t *testing.T, addr string, seeds []string, opts ...mesh.Option) *mesh.Node {
	t.Helper()
	opts = append([]mesh.Option{mesh.WithBind(addr), mesh.WithMeshName("blue"), mesh.WithShards(2), mesh.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	n, err := mesh.Start(seeds, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// soon repeats a command until its exit status and what it prints are as wanted.
func soon(t *testing.T, code int, want string, args ...string) (out string) {
	t.Helper()
	until := time.Now().Add(30 * time.Second)
	for {
		got, out, err := lockmesh(t, args...)
		if got == code && strings.Contains(out+err, want) {
			return out
		}
		if time.Now().After(until) {
			t.Fatalf("lockmesh %q: code %d\n%s\n%s\nwant %d and %q", args, got, out, err, code, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Any node answers an operator, also one whose mesh is not founded yet.
func TestOperator(t *testing.T) {
	list := ports(t, 3)
	a, gone := list[0], list[2]
	list = list[:2]
	first := startAt(t, a, list)
	soon(t, exitOK, "waiting", "status", a)
	soon(t, exitFailed, "is in no mesh yet", "core", "ls", a)
	soon(t, exitFailed, "no node answers at "+list[1], "core", "check", a)
	soon(t, exitFailed, "no seat", "core", "declare-dead", "-node", a, list[1])

	startAt(t, list[1], list)
	soon(t, exitOK, "the core is whole", "core", "check", a)
	soon(t, exitOK, "the core is whole", "core", "check", "-mesh", "blue", a)
	soon(t, exitOK, list[1]+"  ", "core", "ls", a)
	out := soon(t, exitOK, `"phase": "serving"`, "status", "-json", a)
	var s struct {
		Name    string
		Settled bool
		Core    struct {
			Seats []struct{ Entry, Name string }
		}
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Name != first.Name() || !s.Settled || len(s.Core.Seats) != 2 || s.Core.Seats[1].Entry != list[1] {
		t.Errorf("status is %+v, %v", s, err)
	}
	out = soon(t, exitOK, `"whole": true`, "core", "check", "-json", a)
	if !json.Valid([]byte(out)) {
		t.Errorf("check prints %s", out)
	}
	// Whoever asks is no member.
	if n := len(first.Members()); n != 2 {
		t.Errorf("%d members", n)
	}

	startAt(t, gone, list) // a client: it answers at no entry
	soon(t, exitOK, "client", "status", gone)
	soon(t, exitFailed, "no seat in the core", "core", "declare-dead", "-node", gone, list[1])
	soon(t, exitFailed, "the node lives", "core", "declare-dead", "-node", a, "-timeout", "1s", a)
	soon(t, exitFailed, "is no entry of the core", "core", "declare-dead", "-node", a, "10.9.9.9")
	soon(t, exitFailed, `is of mesh "blue", and -mesh says "red"`, "status", "-mesh", "red", a)
	soon(t, exitFailed, "has no state directory", "core", "add", gone, "-node", a)
	_ = first.Close()
	soon(t, exitFailed, "refused", "status", "-timeout", "2s", a)
	soon(t, exitFailed, "does not answer", "core", "check", "-timeout", "2s", list[1])
}

// The list of a core that runs changes by commands.
func TestOperatorChangesTheList(t *testing.T) {
	list := ports(t, 3)
	keeps := func() mesh.Option { return mesh.WithStateDir(t.TempDir()) }
	a, b, extra := list[0], list[1], list[2]
	for _, addr := range list[:2] {
		startAt(t, addr, list[:2], keeps())
	}
	soon(t, exitOK, "the core is whole", "core", "check", a)
	soon(t, exitFailed, "is to be started first", "core", "add", "-timeout", "1s", "-node", a, extra)
	soon(t, exitOK, "no node has come to "+extra, "core", "add", "-force", extra, "-node", a)
	soon(t, exitFailed, "nobody has the seat of "+extra, "core", "check", a)
	soon(t, exitOK, "there is nothing to declare", "core", "declare-dead", "-node", a, extra)
	soon(t, exitOK, "the list of the core is "+a+" "+b+",", "core", "remove", "-node", b, extra)
	startAt(t, extra, list, keeps())
	soon(t, exitOK, "and all of its nodes keep it", "core", "add", "-node", b, extra)
	soon(t, exitOK, "the core is whole: "+strings.Join(list, " "), "core", "check", extra)
	soon(t, exitOK, "the list of the core is "+a+" "+extra+",", "core", "remove", b, "-node", b)
	soon(t, exitOK, `"entry"`, "core", "replace", "-json", "-node", a, extra, b) // it has come back as a client
	soon(t, exitOK, "the core is whole: "+a+" "+b, "core", "check", a)
	soon(t, exitFailed, "is no entry of the core", "core", "remove", "-node", a, "10.9.9.9")
}

// With TLS, who has no certificate of the mesh's authority is told so.
func TestOperatorTLS(t *testing.T) {
	ca, foreign := testca.New(t), testca.New(t)
	addr := ports(t, 1)[0]
	startAt(t, addr, []string{addr}, mesh.WithTLS(&tls.Config{Certificates: []tls.Certificate{*ca.Node(time.Time{})}, RootCAs: testca.Pool(ca)}))
	files := func(name string, ca *testca.Authority) []string {
		roots, cert, key := ca.Files(name)
		return []string{"status", "-timeout", "3s", "-ca", roots, "-cert", cert, "-key", key, addr}
	}
	soon(t, exitOK, "serving", files("own", ca)...)
	soon(t, exitFailed, "does it want TLS?", "status", "-timeout", "3s", addr)
	soon(t, exitFailed, "certificate", files("foreign", foreign)...)
}

// What makes no sense is refused before anything is sent.
func TestOperatorFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"status a b", `unexpected argument "b"`},
		{"status -colour", "-colour"},
		{"status -timeout 1h a", "-timeout"},
		{"status -timeout 1ms a", "-timeout"},
		{"status :7", `":7" is no address`},
		{"status a:0", `"a:0" is no address`},
		{"status a:65536", `"a:65536" is no address`},
		{"status a:http", `"a:http" is no address`},
		{"status 0.0.0.0", `"0.0.0.0" is no address`},
		{"status [::]:7300", `"[::]:7300" is no address`},
		{"status -ca x a", "go together"},
		{fmt.Sprintf("status -ca %[1]s -cert %[1]s -key %[1]s a", file), "-cert and -key"},
		{"core", "usage: lockmesh core"},
		{"core", "-timeout long"},
		{"core mend", `no command "mend"`},
		{"core mend", "-timeout long"},
		{"core declare-dead", "an argument is missing"},
		{"core declare-dead a b", `unexpected argument "b"`},
		{"core declare-dead -timeout 2s :", "is no address"},
		{"core add a b", `unexpected argument "b"`},
		{"core replace a", "an argument is missing"},
		{"core replace a a", "the two entries are the same: a:7300"},
		{"core replace a a:7300", "the two entries are the same: a:7300"},
		{"core replace ::1 [::1]:7300", "the two entries are the same: [::1]:7300"},
		{"core remove :", "is no address"},
		{"core remove a:0", `"a:0" is no address`},
		{"core remove -force a", "-force"},
		{"core add 0.0.0.0:7300", `"0.0.0.0:7300" is no address`},
	} {
		code, out, err := lockmesh(t, strings.Fields(tt.args)...)
		if code != exitUsage || out != "" || !strings.Contains(err, tt.want) {
			t.Errorf("%s: code %d\n%s\n%s\nwant an error that has %q", tt.args, code, out, err, tt.want)
		}
	}
	for _, args := range [][]string{{"core", "add", ""}, {"core", "replace", "", "a"}, {"core", "replace", "a", ""}} {
		if code, out, err := lockmesh(t, args...); code != exitUsage || out != "" || !strings.Contains(err, "an entry is empty") {
			t.Errorf("%q: code %d\n%s\n%s", args, code, out, err)
		}
	}
	for _, args := range []string{"core -help", "core ls -help", "core help", "status -help"} {
		if code, out, err := lockmesh(t, strings.Fields(args)...); code != exitOK || !strings.HasPrefix(out, "usage: lockmesh") || !strings.Contains(out, "-timeout long") || err != "" {
			t.Errorf("%s: code %d\n%s\n%s", args, code, out, err)
		}
	}
}

// What has become of each seat is told apart, and so is what came of a declaration.
func TestPrintSeats(t *testing.T) {
	list := []string{"a:1", "b:1", "c:1", "d:1", "e:1"}
	c := &operator.Core{Name: "blue", Mesh: "ff", Seats: []operator.Seat{
		{Entry: "a:1", ID: "1", Name: "ann", List: list, Connected: true},
		{Entry: "b:1", ID: "2", Name: "bob", List: list[:4]},
		{Entry: "c:1", ID: "3", Name: "cat", List: list, Ended: true},
		{Entry: "d:1", List: list},
		{Entry: "e:1"},
	}}
	var b strings.Builder
	printCore(&b, c)
	const seats = `mesh blue, ff: 0 shards with 0 voters each
entry  node  id  state
a:1    ann   1   connected
b:1    bob   2   not connected, has the list [a:1 b:1 c:1 d:1]
c:1    cat   3   declared dead
d:1              vacant: its node is silent
e:1              no node has come yet
`
	if b.String() != seats {
		t.Errorf("printed\n%s\nwant\n%s", b.String(), seats)
	}
	b.Reset()
	for _, entry := range []string{"a:1", "c:1", "d:1", "e:1", "f:1"} {
		printDeclared(&b, c, entry)
	}
	const declared = `another node has the seat of a:1 by now
the core takes the node at c:1 for dead
no node has the seat of d:1: there is nothing to declare
no node has the seat of e:1: there is nothing to declare
the core has no entry f:1 any more
`
	if b.String() != declared {
		t.Errorf("printed\n%s\nwant\n%s", b.String(), declared)
	}
}

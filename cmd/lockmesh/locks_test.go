package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
)

// An operator sees who holds which keys, and takes one from its holder.
func TestLocksAndRefs(t *testing.T) {
	a := ports(t, 1)[0]
	n := startAt(t, a, []string{a}, mesh.WithFound())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(n.WaitReady(ctx))
	soon(t, exitOK, "key  kind  held by  token  waiting  using\n", "locks", "ls", a)
	soon(t, exitOK, "jobs/nightly: unused", "locks", "show", "jobs/nightly", a)
	l, err := n.Lock(ctx, "jobs/nightly")
	check(err)
	odd, err := n.RLock(ctx, "a b\x00")
	check(err)
	pool, err := n.Acquire(ctx, "pool", 2, 3)
	check(err)
	waits, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _, _ = n.Lock(waits, "jobs/nightly") }()
	token := fmt.Sprint(l.Token())
	soon(t, exitOK, "waits, as 1", "locks", "show", "jobs/nightly", a)
	soon(t, exitOK, "token "+token, "locks", "show", "-node", a, "jobs/nightly")
	out := soon(t, exitOK, `"a b\x00"`, "locks", "ls", a)
	if !strings.Contains(out, "jobs/nightly  lock") || !strings.Contains(out, token) || !strings.Contains(out, "pool") || strings.Count(out, "\n") != 4 {
		t.Errorf("ls prints\n%s", out)
	}
	if out := soon(t, exitOK, "jobs/nightly", "locks", "ls", "-prefix", "jobs/", a); strings.Contains(out, "pool") {
		t.Errorf("ls of a prefix prints\n%s", out)
	}
	soon(t, exitOK, "reads", "locks", "show", `"a b\x00"`, a)
	soon(t, exitOK, "2 permits", "locks", "show", "pool", a)
	soon(t, exitOK, "1 more hold it", "locks", "show", "-most", "0", "pool", a)
	var k mesh.KeyState
	if out := soon(t, exitOK, "waiters", "locks", "show", "-json", "jobs/nightly", a); json.Unmarshal([]byte(out), &k) != nil || len(k.Holders) != 1 || k.Holders[0].Token != l.Token() || k.Waiting != 1 {
		t.Errorf("show prints %s", out)
	}
	var all []mesh.KeyState
	if out := soon(t, exitOK, "pool", "locks", "ls", "-json", a); json.Unmarshal([]byte(out), &all) != nil || len(all) != 3 {
		t.Errorf("ls prints %s", out)
	}

	soon(t, exitFailed, "nobody holds jobs/nightly under token 7", "locks", "break", "jobs/nightly", "7", a)
	stop()
	soon(t, exitFailed, "not confirmed yet", "locks", "break", "-timeout", "1s", "-why", "it hangs", "jobs/nightly", token, a)
	if !errors.Is(l.Err(), mesh.ErrBroken) {
		t.Errorf("the lock: %v", l.Err())
	}
	soon(t, exitOK, "(broken)", "locks", "show", "jobs/nightly", a)
	_ = l.Unlock(ctx)
	soon(t, exitFailed, "nobody holds jobs/nightly", "locks", "break", "jobs/nightly", token, a)
	go func() { <-pool.Lost(); _ = pool.Unlock(ctx) }()
	soon(t, exitOK, `"free": true`, "locks", "break", "-json", "pool", fmt.Sprint(pool.Token()), a)
	if odd.Err() != nil {
		t.Errorf("another lock: %v", odd.Err())
	}

	r := func(s *mesh.Session, opts ...mesh.ResourceOption) *mesh.Resource {
		return s.Resource("image", append(opts, mesh.Durable())...)
	}
	one, err := n.NewSession(ctx)
	check(err)
	two, err := n.NewSession(ctx)
	check(err)
	for _, pulls := range []*mesh.Resource{r(one, mesh.User("gone")), r(two, mesh.User("here"))} {
		_, err := pulls.Pull(ctx, func(context.Context, *mesh.Operation) error { return nil })
		check(err)
	}
	check(one.Close(ctx))
	if out := soon(t, exitOK, "gone", "refs", "ls", "image", a); !strings.Contains(out, "here") {
		t.Errorf("refs ls prints\n%s", out)
	}
	soon(t, exitFailed, "here uses image still", "refs", "release", "image", "here", a)
	soon(t, exitOK, "gone does not use image any more", "refs", "release", "image", "gone", a)
	if out := soon(t, exitOK, `"user": "here"`, "refs", "ls", "-json", "image", a); strings.Contains(out, "gone") {
		t.Errorf("refs ls prints\n%s", out)
	}
	soon(t, exitOK, "nobody uses other", "refs", "ls", "other", a)
	for _, pulls := range []*mesh.Resource{n.Resource("twice"), two.Resource("twice")} {
		_, err := pulls.Pull(ctx, func(context.Context, *mesh.Operation) error { return nil })
		check(err)
	}
	if out := soon(t, exitOK, "2 uses in all", "locks", "show", "twice", a); strings.Count(out, "used by") != 1 || strings.Contains(out, "more use it") {
		t.Errorf("show of one user with two uses prints\n%s", out)
	}
	check(n.Latch("schema", 1).Arrive(ctx, "a"))
	if out := soon(t, exitOK, "open", "locks", "show", "schema", a); !strings.Contains(out, "for another") || strings.Contains(out, "run") {
		t.Errorf("show prints\n%s", out)
	}
	check(n.Latch("half", 2).Arrive(ctx, "a"))
	soon(t, exitOK, "1 of 2 have arrived", "locks", "show", "half", a)

	for _, args := range [][]string{
		{"locks"}, {"locks", "x"}, {"locks", "show"}, {"locks", "show", "", a}, {"locks", "break", "k", a}, {"locks", "break", "k", "x", a}, {"locks", "break", "k", "0", a},
		{"locks", "break", "-why", strings.Repeat("x", 256), "k", "1", a}, {"locks", "show", `"x`, a}, {"locks", "show", "-most", "1001", "k", a}, {"locks", "ls", "-most", "1", a},
		{"locks", "ls", "-prefix", strings.Repeat("x", 1025), a}, {"refs"}, {"refs", "x"}, {"refs", "ls"}, {"refs", "release", "r"}, {"refs", "release", "r", "", a},
	} {
		if code, out, err := lockmesh(t, args...); code != exitUsage || out != "" || err == "" {
			t.Errorf("lockmesh %q: code %d\n%s\n%s", args, code, out, err)
		}
	}
	for _, group := range []string{"locks", "refs"} {
		if code, out, _ := lockmesh(t, group, "help"); code != exitOK || !strings.Contains(out, "lockmesh "+group) {
			t.Errorf("lockmesh %s help: code %d\n%s", group, code, out)
		}
	}
}

// A node that is in no mesh says so.
func TestLocksOfNoMesh(t *testing.T) {
	list := ports(t, 2)
	startAt(t, list[0], list)
	soon(t, exitFailed, "not founded", "locks", "ls", list[0])
	soon(t, exitFailed, "not founded", "locks", "break", "k", "1", list[0])
}

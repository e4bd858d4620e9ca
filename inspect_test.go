package mesh_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/mesh"
)

// Promise: wrong input to Inspect and List is an error, and nothing is sent.
func TestWrongInspections(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	ctx, long := context.Background(), strings.Repeat("x", 1025)
	for name, tt := range map[string]struct {
		node *mesh.Node
		ctx  context.Context
		key  string
		opts []mesh.InspectOption
		want error
	}{
		"an empty key":  {n, ctx, "", nil, mesh.ErrInvalidKey},
		"a long key":    {n, ctx, long, nil, mesh.ErrInvalidKey},
		"a nil context": {n, nil, "k", nil, mesh.ErrInvalidOption},
		"a nil option":  {n, ctx, "k", []mesh.InspectOption{nil}, mesh.ErrInvalidOption},
		"fewer":         {n, ctx, "k", []mesh.InspectOption{mesh.AtMost(-1)}, mesh.ErrInvalidOption},
		"too many":      {n, ctx, "k", []mesh.InspectOption{mesh.AtMost(1<<16 + 1)}, mesh.ErrInvalidOption},
		"a nil node":    {nil, ctx, "k", nil, mesh.ErrClosed},
		"a zero node":   {&mesh.Node{}, ctx, "k", nil, mesh.ErrClosed},
	} {
		if k, err := tt.node.Inspect(tt.ctx, tt.key, tt.opts...); k != nil || !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, %v, want %v", name, k, err, tt.want)
		}
	}
	once := func(n *mesh.Node, ctx context.Context, prefix string, want error) {
		t.Helper()
		yields := 0
		for k, err := range n.List(ctx, prefix) {
			if yields++; yields > 1 || k.Key != "" || !errors.Is(err, want) {
				t.Errorf("%v, %v, want %v", k, err, want)
			}
		}
		if yields != 1 {
			t.Errorf("it yields %d times", yields)
		}
	}
	once(n, ctx, long, mesh.ErrInvalidOption)
	once(n, nil, "", mesh.ErrInvalidOption)
	once(nil, ctx, "", mesh.ErrClosed)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	once(n, ended, "", context.Canceled)
	n.Close()
	once(n, ctx, "", mesh.ErrClosed)
}

// What is known of keys of each kind.
func TestInspect(t *testing.T) {
	n, err := mesh.Solo()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx := context.Background()
	sees := func(key, want string) {
		t.Helper()
		k, err := n.Inspect(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := json.Marshal(k)
		if k.Key != key || k.Quiet != 0 || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s, want %s", key, b, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sees("free", `"kind":""`)
	l, err := n.Lock(ctx, "lock", mesh.Value([]byte("v")))
	must(err)
	sees("lock", fmt.Sprintf(`"leader":%q,"quietNs":0,"capacity":1,"taken":1,"holding":1,"waiting":0,"using":0,"arrived":0,"holders":[{"node":%q,"guest":"","token":%d,"permits":1,"shared":false,"value":"dg=="`, n.Name(), n.Name(), l.Token()))
	r, err := n.RLock(ctx, "read")
	must(err)
	sees("read", `"shared":true`)
	_, err = n.Acquire(ctx, "permits", 2, 3)
	must(err)
	sees("permits", `"capacity":3,"taken":2,"holding":1`)
	e, err := n.Election("leader").Campaign(ctx, []byte("x"))
	must(err)
	must(e.Proclaim(ctx, []byte("y")))
	sees("leader", `"value":"eQ==","sequence":1`)
	must(n.Latch("latch", 2).Arrive(ctx, "one"))
	sees("latch", `"arrived":1,"holders":null,"waiters":null,"users":null,"arrivals":["one"]`)
	op, err := n.Resource("image").Begin(ctx, mesh.OpPull)
	must(err)
	sees("image", `"operation":"pull"`)
	must(op.End(ctx, nil))
	sees("image", `"done":[{"operation":"pull"`)
	sees("image", `"users":[{"user":`)

	var keys []string
	for k, err := range n.List(ctx, "") {
		must(err)
		keys = append(keys, k.Key)
	}
	if slices.Sort(keys); fmt.Sprint(keys) != "[image latch leader lock permits read]" {
		t.Errorf("listed are %q", keys)
	}
	for k, err := range n.List(ctx, "l") {
		if err != nil || !strings.HasPrefix(k.Key, "l") {
			t.Errorf("%q, %v", k.Key, err)
		}
		break
	}
	must(r.Unlock(ctx))
	sees("read", `"kind":""`)
}

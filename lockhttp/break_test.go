package lockhttp_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmesh/mesh/lockhttp"
)

// Promise: P49: a guest whose lock is broken is told no lease, whatever it asks about, and what is broken; until it gives that back.
func TestABrokenGuest(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	held := f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running")
	f.expect(0, "POST", "/lock", lock("ann", "other"), "200 running")
	free := make(chan error, 1)
	go func() { free <- f.Node(1).Break(context.WithoutCancel(t.Context()), "k", held.Token) }()
	broken := lockhttp.Broken{ResourceID: "k", Token: held.Token}
	const other = "/lock?node_id=ann&type=lock&resource_id=other"
	for until := time.Now().Add(30 * time.Second); ; {
		a := f.ask(0, "GET", other, nil)
		if a.String() != "200 running" {
			t.Fatalf("about another lock it is told %v", a)
		}
		if len(a.Broken) > 0 {
			if a.LeaseMS != 0 || len(a.Broken) != 1 || a.Broken[0] != broken {
				t.Errorf("about another lock it is told %+v", a)
			}
			break
		}
		if time.Now().After(until) {
			t.Fatal("it is not told what is broken")
		}
	}
	if a := f.ask(0, "GET", "/lock?node_id=ann&type=lock&resource_id=k", nil); a.String() != "403 broken" || a.LeaseMS != 0 {
		t.Errorf("about what is broken it is told %v", a)
	}
	if a := f.ask(0, "POST", "/unlock", lock("ann", "k")); a.String() != "403 broken" {
		t.Errorf("it unlocks, and is told %v", a)
	}
	if err := <-free; err != nil {
		t.Error(err)
	}
	f.expect(0, "GET", other, nil, "200 running")
	f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running") // anew
}

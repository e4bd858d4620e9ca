package lockhttp_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh/lockhttp"
	"github.com/lockmesh/mesh/ring"
)

func only(who string) map[string]string { return map[string]string{"node_id": who} }

// keyIn returns a key of a shard.
func keyIn(shard int) string {
	for i := 0; ; i++ {
		if k := fmt.Sprint("key", i); ring.Shard(k, 4) == shard {
			return k
		}
	}
}

// keyOutside returns a key of a shard that is not the home of the guest.
func keyOutside(guest string) string { return keyIn((ring.Shard("guest\x00"+guest, 4) + 1) % 4) }

// Promise: P42: a guest gives a lock back through another server, another guest gets it, and the first one comes back to its first server
// at once, which has not heard that it was overtaken: it does not answer from memory.
func TestAnEarlierServerDoesNotAnswerFromMemory(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	for i, again := range []struct {
		name         string
		method, path string
		body         any
		want         string
	}{
		{"POST /lock", "POST", "/lock", lock("ann", "k0"), "200 waiting"},
		{"GET /lock", "GET", "/lock?node_id=ann&type=lock&resource_id=k1", nil, "200 done"},
		{"GET /lock, and waits", "GET", "/lock?node_id=ann&type=lock&resource_id=k2&wait_ms=300", nil, "200 done"},
		{"DELETE /lock", "DELETE", "/lock?node_id=ann&type=lock&resource_id=k3", nil, "200 done"},
		{"POST /unlock", "POST", "/unlock", lock("ann", "k4"), "200 done"},
	} {
		key := fmt.Sprint("k", i)
		f.expect(0, "POST", "/lock", lock("ann", key), "200 running")
		f.expect(1, "POST", "/unlock", lock("ann", key), "200 done")
		f.expect(1, "POST", "/lock", lock("bob", key), "200 running")
		if a := f.ask(0, again.method, again.path, again.body); a.String() != again.want {
			t.Errorf("%s: ann is told %v, token %d (%s), and bob holds it; want %s", again.name, a, a.Token, a.Error, again.want)
		}
	}
	f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running")
	f.expect(1, "POST", "/unlock", lock("ann", "k"), "200 done")
	f.expect(1, "POST", "/lock", lock("bob", "k"), "200 running")
	a := f.ask(0, "POST", "/renew", map[string]any{"node_id": "ann", "locks": []request{{Type: "lock", ResourceID: "k"}}})
	if a.status != 200 || a.Locks[0].Acquired {
		t.Errorf("POST /renew: %v, %+v", a, a.Locks)
	}
}

// Promise: P42: a server that was overtaken, and has not heard of that, takes a lock for its guest. It carries the guest again for that: the
// server that the guest uses afterwards knows of the lock, and renews it.
func TestALockAtAnEarlierServerIsRenewed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	key := keyOutside("ann")
	f.expect(0, "POST", "/renew", only("ann"), "200 ")
	f.expect(1, "POST", "/renew", only("ann"), "200 ")
	ann := f.expect(0, "POST", "/lock", lock("ann", key), "200 running")
	f.expect(2, "POST", "/lock", lock("bob", key), "200 waiting")
	for began := time.Now(); time.Since(began) < 2*lease; {
		f.expect(1, "POST", "/renew", only("ann"), "200 ")
		if bob := f.ask(2, "GET", "/lock?node_id=bob&type=lock&resource_id="+key+"&wait_ms=300", nil); bob.Acquired {
			t.Fatalf("bob holds %s with token %d; ann has token %d, and renews its lease", key, bob.Token, ann.Token)
		}
	}
}

// Promise: P42: a guest uses two servers by turns: each knows of what it did through the other one.
func TestAGuestUsesTwoServers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running")
	l := f.expect(1, "POST", "/lock", lock("ann", "l"), "200 running")
	if a := f.expect(0, "GET", "/lock?node_id=ann&type=lock&resource_id=l", nil, "200 running"); a.Token != l.Token {
		t.Errorf("token %d, and then %d", l.Token, a.Token)
	}
	f.expect(1, "POST", "/lock", lock("ann", "m"), "200 running")
	f.expect(0, "POST", "/unlock", lock("ann", "m"), "200 done")
	f.expect(1, "POST", "/unlock", lock("ann", "l"), "200 done")
	f.expect(0, "POST", "/unlock", lock("ann", "k"), "200 done")
}

// Promise: P42: a guest uses two servers at a time. It may have to ask again, but it is not told that it has lost what it holds.
func TestAGuestUsesTwoServersAtATime(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	held := f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running")
	var asking sync.WaitGroup
	for server := range 3 {
		asking.Go(func() {
			for range 20 {
				a := f.ask(server, "GET", "/lock?node_id=ann&type=lock&resource_id=k", nil)
				if a.status != 503 && (a.String() != "200 running" || a.Token != held.Token) {
					t.Errorf("server %d: %v (%s), token %d", server, a, a.Error, a.Token)
				}
			}
		})
	}
	asking.Wait()
	f.expect(0, "POST", "/unlock", lock("ann", "k"), "200 done")
}

// A use that was made under a user's name through one server is ended through another one, and released by its name.
func TestAUseIsReleasedThroughAnotherServer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	pull := to("ann", "pull")
	pull.User = "app"
	f.expect(0, "POST", "/lock", pull, "200 running")
	f.expect(1, "GET", "/lock?node_id=ann&type=pull&resource_id=image", nil, "200 running")
	f.expect(1, "POST", "/unlock", to("ann", "pull"), "200 done")
	if refs := f.expect(1, "GET", "/refs?resource_id=image&node_id=ann", nil, "200 "); len(refs.Users) != 1 || refs.Users[0].User != "app" {
		t.Errorf("%+v", refs)
	}
	f.expect(1, "POST", "/release", request{NodeID: "ann", ResourceID: "image", User: "app"}, "200 done")
	f.expect(1, "POST", "/lock", to("bob", "delete"), "200 running")
}

// Promise: P42: a server that begins to leave tells guests so, and not that they have lost what they hold. They find it at another one.
func TestAServerLeavesWhileGuestsAsk(t *testing.T) {
	t.Parallel()
	f := leasing(t, 3, 10*time.Second) // on a busy machine a guest asks seldom
	const guests = 30
	for i := range guests {
		f.expect(0, "POST", "/lock", lock(fmt.Sprint("g", i), fmt.Sprint("k", i)), "200 running")
	}
	var asking, begun sync.WaitGroup
	left := make(chan struct{})
	for w := range 6 {
		begun.Add(1)
		asking.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-left:
					return
				default:
				}
				who := (w + 6*i) % guests
				for _, a := range []answer{
					f.ask(0, "POST", "/lock", lock(fmt.Sprint("g", who), fmt.Sprint("k", who))),
					f.ask(0, "POST", "/renew", only(fmt.Sprint("new", w, "-", i))),
				} {
					if s := a.String(); s != "200 running" && s != "200 " && s != "503 leaving" {
						t.Errorf("told %v (%s)", a, a.Error)
					}
				}
				if i == 0 {
					begun.Done()
				}
			}
		})
	}
	begun.Wait()
	renewed := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := f.Node(0).Leave(ctx); err != nil {
		t.Error(err)
	}
	close(left)
	asking.Wait()
	for i := range 3 {
		if time.Since(renewed) > f.lease/2 {
			break // their leases may end, on a slow machine
		}
		f.expect(1, "GET", fmt.Sprintf("/lock?node_id=g%d&type=lock&resource_id=k%d", i, i), nil, "200 running")
	}
}

// Promise: P42: without a majority no server says that a guest has left a queue, or anything else of it.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.expect(0, "POST", "/lock", lock("bob", "k"), "200 running")
	f.expect(0, "POST", "/lock", lock("ann", "k"), "200 waiting")
	f.Kill(1)
	f.Kill(2)
	f.expect(0, "DELETE", "/lock?node_id=ann&type=lock&resource_id=k", nil, "503 no_quorum")
	f.expect(0, "POST", "/lock", lock("bob", "k"), "503 no_quorum")
	f.expect(0, "POST", "/renew", only("new"), "503 no_quorum")
}

// MaxTTL is lowered in the living mesh: guests with longer leases go on, also at another server.
func TestMaxTTLIsLowered(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	for i := range f.servers {
		f.servers[i].Config.Handler = lockhttp.Handler(f.Node(i), lockhttp.Options{Lease: 8 * time.Second})
	}
	held := f.ask(0, "POST", "/lock", lock("ann", "k"))
	for held.String() == "200 waiting" { // a busy machine
		held = f.ask(0, "POST", "/lock", lock("ann", "k"))
	}
	f.ask(0, "POST", "/lock", lock("bob", "k"))
	if err := f.Node(0).SetMaxTTL(t.Context(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; { // a node hears of it with the answers of the shards
		if a := f.ask(1, "GET", "/lock?node_id=ann&type=lock&resource_id=k", nil); a.String() != "200 running" || a.Token != held.Token {
			t.Fatalf("another server: %v (%s)", a, a.Error)
		} else if a.LeaseMS <= 5000 {
			break
		} else if time.Since(began) > 8*time.Second {
			t.Fatalf("a lease of %d ms", a.LeaseMS)
		}
	}
	sent := time.Now()
	a := f.ask(0, "GET", "/lock?node_id=bob&type=lock&resource_id=k&wait_ms=60000", nil)
	if took := time.Since(sent); a.String() != "200 waiting" || took > 5*time.Second/3+time.Second {
		t.Errorf("a poll took %v, and leases last for 5s: %v, %d ms", took, a, a.LeaseMS)
	}
}

// A try that was refused since the shard was quiet is made anew when it is asked for again, although it has a request_id.
func TestAQuietTryIsMadeAnew(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.expect(0, "POST", "/renew", only("ann"), "200 ")
	f.Kill(1)
	f.Kill(2)
	f.Restart(1, 2)
	try := func(id int) answer {
		return f.ask(0, "POST", "/lock", request{NodeID: "ann", Type: "lock", ResourceID: "k", RequestID: fmt.Sprint(id), Try: true})
	}
	first, id := answer{}, 0
	for first = try(id); first.Code == "no_quorum"; first = try(id) {
		id++
	}
	if first.String() != "503 quiet" {
		t.Fatalf("after a loss of its majority: %v", first)
	}
	for began := time.Now(); ; {
		switch a := try(id); {
		case a.String() == "200 running":
			return
		case a.status != 503 || time.Since(began) > time.Minute:
			t.Fatalf("%v (%s)", a, a.Error)
		}
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What has ended is remembered in bounds, and so are uses that are pulled again and again.
func TestMemoryIsBounded(t *testing.T) {
	f := newFleet(t, 1)
	f.expect(0, "POST", "/lock", to("ann", "pull"), "200 running")
	f.expect(0, "POST", "/unlock", to("ann", "pull"), "200 done")
	for _, tt := range []struct {
		what  string
		again func(i int)
	}{
		{"pulls", func(int) { f.expect(0, "POST", "/lock", to("ann", "pull"), "200 done skip") }},
		{"requests", func(i int) {
			f.expect(0, "PUT", fmt.Sprint("/locks/k", i, "?node_id=ann"), nil, "200 running")
			f.expect(0, "DELETE", fmt.Sprint("/locks/k", i, "?node_id=ann"), nil, "200 done")
		}},
	} {
		made := 0
		use := func(n int) int64 {
			for range n {
				tt.again(made)
				made++
			}
			return heap()
		}
		use(1200) // as much as is remembered
		// The log grows until it is cut, so the heap rises and falls: the least that was in use is compared.
		const more, rounds = 400, 15
		least := func() int64 {
			b := use(more)
			for range rounds - 1 {
				b = min(b, use(more))
			}
			return b
		}
		before := least()
		if kept := (least() - before) / (more * rounds); kept > 150 {
			t.Errorf("each of %d %s keeps %d bytes", more*rounds, tt.what, kept)
		}
	}
}

package lockhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/lockhttp"
	"github.com/lockmesh/mesh/meshtest"
)

const lease = 3 * time.Second

// fleet is a mesh whose nodes serve guests.
type fleet struct {
	t *testing.T
	*meshtest.Mesh
	lease   time.Duration
	servers []*httptest.Server
}

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	return leasing(t, n, lease)
}

// leasing returns a fleet in which leases last so long.
func leasing(t *testing.T, n int, lease time.Duration) *fleet {
	t.Helper()
	f := &fleet{t: t, lease: lease, Mesh: meshtest.Fleet(t, n, mesh.WithLeaseTTL(lease), mesh.WithShards(4))}
	for i := range n {
		server := httptest.NewServer(lockhttp.Handler(f.Node(i), lockhttp.Options{Lease: lease}))
		t.Cleanup(server.Close)
		f.servers = append(f.servers, server)
	}
	for shard := range 4 { // a shard may be quiet yet, and then a guest is told no lease
		if err := f.Node(0).Do(t.Context(), keyIn(shard), func(context.Context, *mesh.Lock) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// answer is any answer.
type answer struct {
	status int
	lockhttp.State
	Code  string
	Error string
	Users []lockhttp.Ref
	Locks []lockhttp.State
}

func (a answer) String() string {
	switch {
	case a.Code != "":
		return fmt.Sprint(a.status, " ", a.Code)
	case a.Skip:
		return fmt.Sprint(a.status, " ", a.State.State, " skip")
	}
	return fmt.Sprint(a.status, " ", a.State.State)
}

// ask makes a request to a server. A body that is no string is written as JSON.
func (f *fleet) ask(server int, method, path string, body any) answer {
	f.t.Helper()
	var b []byte
	switch body := body.(type) {
	case nil:
	case string:
		b = []byte(body)
	default:
		var err error
		if b, err = json.Marshal(body); err != nil {
			f.t.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, f.servers[server].URL+path, bytes.NewReader(b))
	if err != nil {
		f.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	var a answer
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil && res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusMethodNotAllowed {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	a.status = res.StatusCode
	if (a.status == http.StatusServiceUnavailable) != (res.Header.Get("Retry-After") != "") {
		f.t.Errorf("%s %s: %d, Retry-After %q", method, path, a.status, res.Header.Get("Retry-After"))
	}
	return a
}

// expect is ask, and fails unless the answer reads so.
func (f *fleet) expect(server int, method, path string, body any, want string) answer {
	f.t.Helper()
	a := f.ask(server, method, path, body)
	// What is asked for again is not asked for twice. The answer of a slow machine comes later, within the wait.
	for range 30 {
		if a.State.State != "waiting" || strings.Contains(want, "waiting") {
			break
		}
		a = f.ask(server, method, waiting(path, body), withWait(body))
	}
	if a.String() != want {
		f.t.Fatalf("%s %s %v: %v (%s), want %s", method, path, body, a, a.Error, want)
	}
	if a.status == http.StatusOK && a.LeaseMS <= 0 || a.LeaseMS > f.lease.Milliseconds() {
		f.t.Errorf("%s %s: a lease of %d ms", method, path, a.LeaseMS)
	}
	return a
}

// withWait and waiting make a request one that waits for its answer, in its body or in its path.
func withWait(body any) any {
	if r, ok := body.(request); ok {
		r.WaitMS = lease.Milliseconds()
		return r
	}
	return body
}

func waiting(path string, body any) string {
	if body != nil || strings.Contains(path, "wait_ms") {
		return path
	}
	return fmt.Sprint(path, "&wait_ms=", lease.Milliseconds())
}

type request = lockhttp.Request

func lock(who, key string) request { return request{NodeID: who, Type: "lock", ResourceID: key} }
func to(who, op string) request    { return request{NodeID: who, Type: op, ResourceID: "image"} }

func TestLocks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	first := f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running")
	if !first.Acquired || first.Token == 0 {
		t.Errorf("%+v", first)
	}
	if again := f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running"); again.Token != first.Token {
		t.Errorf("token %d, and then %d", first.Token, again.Token)
	}
	f.expect(0, "POST", "/lock", lock("bob", "k"), "200 waiting")
	f.expect(0, "POST", "/unlock", lock("bob", "k"), "403 not_holder")
	f.expect(0, "POST", "/unlock", lock("cid", "k"), "403 not_holder")
	f.expect(0, "POST", "/unlock", lock("cid", "l"), "403 not_locked")
	wrong := lock("ann", "k")
	wrong.Token = first.Token + 1
	f.expect(0, "POST", "/unlock", wrong, "403 lost")
	try := lock("cid", "k")
	try.Try = true
	f.expect(0, "POST", "/lock", try, "409 locked")
	f.expect(0, "POST", "/unlock", lock("ann", "k"), "200 done")
	f.expect(0, "POST", "/unlock", lock("ann", "k"), "200 done")
	bob := f.expect(0, "GET", "/lock?node_id=bob&type=lock&resource_id=k&wait_ms=1000", nil, "200 running")
	if bob.Token <= first.Token {
		t.Errorf("token %d after %d", bob.Token, first.Token)
	}
	f.expect(0, "DELETE", "/lock?node_id=bob&type=lock&resource_id=k", nil, "409 running")
	f.expect(0, "POST", "/lock", lock("cid", "k"), "200 waiting")
	f.expect(0, "DELETE", "/lock?node_id=cid&type=lock&resource_id=k", nil, "200 none")
	f.expect(0, "GET", "/lock?node_id=cid&type=lock&resource_id=k", nil, "200 none")
	f.expect(0, "POST", "/unlock", lock("bob", "k"), "200 done")

	// Readers, permits, and the short form.
	f.expect(0, "PUT", "/locks/a/b?node_id=ann&type=rlock", nil, "200 running")
	f.expect(0, "PUT", "/locks/a/b?node_id=bob&type=rlock", nil, "200 running")
	f.expect(0, "PUT", "/locks/a/b?node_id=cid", nil, "200 waiting")
	f.expect(0, "DELETE", "/locks/a/b?node_id=ann&type=rlock", nil, "200 done")
	f.expect(0, "DELETE", "/locks/a/b?node_id=bob&type=rlock", nil, "200 done")
	f.expect(0, "GET", "/locks/a/b?node_id=cid&wait_ms=1000", nil, "200 running")
	f.expect(0, "PUT", "/locks/u%2F%2Fv%2F%2E?node_id=ann", nil, "200 running")
	f.expect(0, "GET", "/lock?node_id=ann&type=lock&resource_id=u//v/.", nil, "200 running")
	f.expect(0, "DELETE", "/locks/u%2F%2Fv%2F%2E?node_id=ann", nil, "200 done")
	f.expect(0, "PUT", "/locks/s?node_id=ann&type=semaphore&n=2&capacity=3", nil, "200 running")
	f.expect(0, "PUT", "/locks/s?node_id=bob&type=semaphore&n=2&capacity=3", nil, "200 waiting")
	f.expect(0, "PUT", "/locks/s?node_id=cid&type=semaphore&n=1&capacity=4", nil, "409 mismatch")
	f.expect(0, "PUT", "/locks/s?node_id=cid", nil, "409 mismatch")
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	a, b := lock("ann", "k"), lock("ann", "k")
	a.RequestID, b.RequestID = "one", "two"
	one := f.expect(0, "POST", "/lock", a, "200 running")
	f.expect(0, "POST", "/lock", b, "200 waiting")
	f.expect(0, "POST", "/unlock", a, "200 done")
	two := f.expect(0, "GET", "/lock?node_id=ann&type=lock&resource_id=k&request_id=two&wait_ms=900", nil, "200 running")
	if two.Token <= one.Token {
		t.Errorf("token %d after %d", two.Token, one.Token)
	}
	if again := f.expect(0, "POST", "/lock", a, "200 done"); again.Token != one.Token { // it is not made again
		t.Errorf("%+v", again)
	}
	other := a
	other.Type = "rlock"
	f.expect(0, "POST", "/lock", other, "409 mismatch")
	if again := f.expect(1, "POST", "/lock", a, "200 done"); again.Token != one.Token { // nor by another server
		t.Errorf("%+v", again)
	}
	f.expect(1, "POST", "/unlock", b, "200 done")
}

func TestResources(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.expect(0, "POST", "/lock", to("ann", "pull"), "200 running")
	f.expect(0, "POST", "/lock", to("bob", "pull"), "200 waiting")
	f.expect(0, "POST", "/unlock", to("ann", "pull"), "200 done")
	f.expect(0, "GET", "/lock?node_id=bob&type=pull&resource_id=image&wait_ms=900", nil, "200 done skip")
	refs := f.ask(0, "GET", "/refs?resource_id=image", nil)
	if len(refs.Users) != 2 || refs.Users[0].User != "ann" || !refs.Users[0].Durable {
		t.Errorf("%+v", refs)
	}
	used := f.expect(0, "POST", "/lock", to("cid", "delete"), "409 in_use")
	if len(used.Users) != 2 {
		t.Errorf("%+v", used)
	}
	f.expect(0, "POST", "/release", request{NodeID: "ann", ResourceID: "image"}, "200 done")
	f.expect(1, "POST", "/release", request{NodeID: "bob", ResourceID: "image"}, "200 done")
	failed := to("cid", "delete")
	f.expect(0, "POST", "/lock", failed, "200 running")
	failed.Failed = true
	f.expect(0, "POST", "/unlock", failed, "200 done")
	f.expect(0, "POST", "/lock", to("dan", "delete"), "200 running")
	f.expect(0, "POST", "/unlock", to("dan", "delete"), "200 done")
	f.expect(0, "POST", "/lock", to("eve", "delete"), "200 done skip")
}

// A guest goes to other servers: in the middle of a wait, after one was killed, and after one has left.
func TestServers(t *testing.T) {
	t.Parallel()
	f := leasing(t, 5, 10*time.Second) // a busy machine takes seconds to stop a node, and nobody renews meanwhile
	held := f.expect(3, "POST", "/lock", lock("ann", "k"), "200 running")
	f.expect(3, "POST", "/lock", to("ann", "update"), "200 running")
	f.expect(3, "POST", "/lock", lock("bob", "k"), "200 waiting")
	f.expect(2, "POST", "/lock", lock("cid", "k"), "200 waiting")

	f.Kill(3)
	f.expect(3, "POST", "/renew", map[string]string{"node_id": "ann"}, "503 leaving")
	if a := f.expect(4, "GET", "/lock?node_id=ann&type=lock&resource_id=k", nil, "200 running"); a.Token != held.Token {
		t.Errorf("token %d, and after a move %d", held.Token, a.Token)
	}
	f.expect(4, "GET", "/lock?node_id=bob&type=lock&resource_id=k", nil, "200 waiting")
	f.expect(4, "POST", "/unlock", to("ann", "update"), "200 done")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := f.Node(4).Leave(ctx); err != nil {
		t.Error(err)
	}
	f.expect(4, "POST", "/unlock", lock("ann", "k"), "503 leaving")
	f.expect(0, "POST", "/unlock", lock("ann", "k"), "200 done")
	f.expect(1, "POST", "/unlock", lock("ann", "k"), "200 done") // as the first one
	bob := f.expect(1, "GET", "/lock?node_id=bob&type=lock&resource_id=k&wait_ms=1000", nil, "200 running")
	if bob.Token <= held.Token {
		t.Errorf("token %d after %d", bob.Token, held.Token)
	}
	f.expect(1, "POST", "/unlock", lock("bob", "k"), "200 done")
	f.expect(2, "GET", "/lock?node_id=cid&type=lock&resource_id=k&wait_ms=1000", nil, "200 running")
}

// A guest that falls silent loses what it holds, and hears so.
func TestSilence(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	first := f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running")
	f.expect(0, "POST", "/lock", lock("bob", "k"), "200 waiting")
	f.expect(0, "POST", "/renew", map[string]string{"node_id": "bob"}, "200 ")
	f.expect(0, "GET", "/lock?node_id=bob&type=lock&resource_id=k&wait_ms=1000", nil, "200 running") // each question is heard, and waits
	late := lock("ann", "k")
	late.Token = first.Token
	f.expect(0, "POST", "/unlock", late, "403 lost")
	renewal := f.ask(0, "POST", "/renew", map[string]any{"node_id": "ann", "locks": []request{{Type: "lock", ResourceID: "k", Token: first.Token}}})
	if renewal.status != 200 || len(renewal.Locks) != 1 || renewal.Locks[0].State != "none" {
		t.Errorf("%+v", renewal)
	}
	renewal = f.ask(1, "POST", "/renew", map[string]any{"node_id": "bob", "locks": []request{{Type: "lock", ResourceID: "k"}}})
	if renewal.status != 200 || len(renewal.Locks) != 1 || renewal.Locks[0].State != "running" {
		t.Errorf("%+v", renewal)
	}
}

// A request is made beside a question about it.
func TestAskedAndMadeTogether(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.expect(0, "POST", "/renew", only("ann"), "200 ")
	for i := range 40 {
		key := fmt.Sprint("k", i)
		var asked sync.WaitGroup
		asked.Go(func() { f.ask(0, "GET", "/lock?node_id=ann&type=lock&resource_id="+key, nil) })
		f.expect(0, "POST", "/lock", lock("ann", key), "200 running")
		asked.Wait()
	}
}

// What was refused is not held, and it is not known as something that has ended.
func TestAfterARefusal(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.expect(0, "POST", "/lock", to("ann", "pull"), "200 running")
	f.expect(0, "POST", "/unlock", to("ann", "pull"), "200 done")
	f.expect(0, "POST", "/lock", to("cid", "delete"), "409 in_use")
	f.expect(0, "POST", "/unlock", to("cid", "delete"), "403 not_holder")
	if a := f.expect(0, "GET", "/lock?node_id=cid&type=delete&resource_id=image", nil, "409 in_use"); len(a.Users) != 1 {
		t.Errorf("%+v", a)
	}
	f.expect(0, "DELETE", "/lock?node_id=cid&type=delete&resource_id=image", nil, "200 none")
}

// A guest that has left a queue is told so, and not how an earlier request of that type ended.
func TestAfterItHasLeft(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running")
	f.expect(0, "POST", "/unlock", lock("ann", "k"), "200 done")
	f.expect(0, "POST", "/lock", lock("bob", "k"), "200 running")
	f.expect(0, "POST", "/lock", lock("ann", "k"), "200 waiting")
	f.expect(0, "DELETE", "/lock?node_id=ann&type=lock&resource_id=k", nil, "200 none")
	f.expect(0, "GET", "/lock?node_id=ann&type=lock&resource_id=k", nil, "200 none")
	f.expect(0, "POST", "/unlock", lock("ann", "k"), "403 not_holder")
}

// A request under the name of one that is being ended is a new one: it does not get the token of the earlier one.
func TestARequestWaitsForTheEndOfTheOneBefore(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	was := f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running")
	for range 20 {
		var ended sync.WaitGroup
		ended.Go(func() {
			f.expect(0, "POST", "/unlock", request{NodeID: "ann", Type: "lock", ResourceID: "k", Token: was.Token}, "200 done")
		})
		for {
			a := f.expect(0, "POST", "/lock", lock("ann", "k"), "200 running")
			if a.Token != was.Token {
				was = a
				break
			}
		}
		ended.Wait()
		f.expect(0, "GET", "/lock?node_id=ann&type=lock&resource_id=k", nil, "200 running")
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	long := func(n int) string { return strings.Repeat("x", n) }
	valid := func(change func(*request)) request {
		r := lock("ann", "k")
		change(&r)
		return r
	}
	for _, tt := range []struct {
		method, path string
		body         any
		want         string
	}{
		{"POST", "/lock", "", "400 invalid"},
		{"POST", "/lock", "{", "400 invalid"},
		{"POST", "/lock", `{"node_id":"ann","type":"lock","resource_id":"k"} x`, "400 invalid"},
		{"POST", "/lock", `{"node_id":"ann","type":"lock","resource_id":"k","colour":1}`, "400 invalid"},
		{"POST", "/lock", `{"node_id":1}`, "400 invalid"},
		{"POST", "/lock", `{"node_id":"ann","type":"lock","resource_id":"` + long(1<<20) + `"}`, "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.NodeID = "" }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.NodeID = long(256) }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.ResourceID = "" }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.ResourceID = long(1025) }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.RequestID = long(1025) }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type = "" }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type = "Lock" }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.WaitMS = -1 }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.N = 1 }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Version = "1" }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Failed = true }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.N, r.Capacity = "semaphore", 0, 1 }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.N, r.Capacity = "semaphore", 2, 1 }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.N, r.Capacity = "semaphore", 1, 1<<40+1 }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.Try = "pull", true }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.Version = "pull", long(256) }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.User = "pull", long(256) }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.User = "update", "ann" }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.RetentionMS = "update", -1 }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.RequiresNoRef = "pull", true }), "400 invalid"},
		{"POST", "/lock", valid(func(r *request) { r.Type, r.WhileUsed = "delete", true }), "400 invalid"},
		{"GET", "/lock", nil, "400 invalid"},
		{"GET", "/lock?node_id=ann&type=lock&resource_id=k&resource_id=l", nil, "400 invalid"},
		{"GET", "/lock?node_id=ann&type=lock&resource_id=k&colour=1", nil, "400 invalid"},
		{"GET", "/lock?node_id=ann&type=lock&resource_id=k&wait_ms=soon", nil, "400 invalid"},
		{"GET", "/lock?node_id=ann&type=lock&resource_id=k&try=perhaps", nil, "400 invalid"},
		{"DELETE", "/lock?node_id=ann", nil, "400 invalid"},
		{"POST", "/unlock", "{}", "400 invalid"},
		{"POST", "/renew", "{}", "400 invalid"},
		{"POST", "/renew", `{"node_id":"ann","locks":[{}]}`, "400 invalid"},
		{"POST", "/renew", `{"node_id":"ann","locks":[{"node_id":"bob","type":"lock","resource_id":"k"}]}`, "400 invalid"},
		{"POST", "/release", `{"node_id":"ann"}`, "400 invalid"},
		{"POST", "/release", `{"node_id":"ann","type":"lock","resource_id":"k"}`, "400 invalid"},
		{"GET", "/refs", nil, "400 invalid"},
		{"GET", "/refs?resource_id=k&node_id=" + long(256), nil, "400 invalid"},
		{"POST", "/renew", `{"node_id":"ann","locks":[{"type":"lock","resource_id":"k","token":18446744073709551615}]}`, "400 invalid"},
		{"POST", "/renew", `{"node_id":"ann","locks":[{"type":"lock","resource_id":"k","token":9006099743113215}]}`, "400 invalid"},
		{"PUT", "/locks/", nil, "400 invalid"},
		{"PUT", "/locks//?node_id=ann", nil, "400 invalid"},
		{"PUT", "/locks/a//b?node_id=ann", nil, "400 invalid"},
		{"PUT", "/locks/a/b//?node_id=ann", nil, "400 invalid"},
		{"PUT", "/locks/a/../b?node_id=ann", nil, "400 invalid"},
		{"PUT", "/locks/a/.?node_id=ann", nil, "400 invalid"},
		{"PUT", "//locks/a//b?node_id=ann", nil, "400 invalid"},
		{"PUT", "//locks/a%2Fb?node_id=ann", nil, "400 invalid"},
		{"PUT", "/./locks/a%20b?node_id=ann", nil, "400 invalid"},
		{"PUT", "/x/../locks/a%2Fb/?node_id=ann", nil, "400 invalid"},
		{"PUT", "/locks/k?resource_id=l&node_id=ann", nil, "400 invalid"},
		{"GET", "/elsewhere", nil, "404 "},
		{"PATCH", "/lock", nil, "405 "},
	} {
		if a := f.ask(0, tt.method, tt.path, tt.body); a.String() != tt.want {
			t.Errorf("%s %.80s %.80v: %v (%s), want %s", tt.method, tt.path, tt.body, a, a.Error, tt.want)
		}
	}
	f.expect(0, "GET", "/lock?node_id=ann&type=lock&resource_id=k", nil, "200 none") // nothing was asked for
}

// A guest holds one permit of three, and another server has learned of that by its name alone. It does not take it for three.
func TestAClaimIsWhatItIs(t *testing.T) {
	f := newFleet(t, 3)
	permits := func(n int64) request {
		return request{NodeID: "ann", Type: "semaphore", ResourceID: "s", N: n, Capacity: 3}
	}
	f.expect(0, "POST", "/lock", permits(1), "200 running")
	f.expect(0, "POST", "/lock", permits(3), "409 mismatch")
	f.expect(1, "GET", "/lock?node_id=ann&type=semaphore&resource_id=s&n=3&capacity=3", nil, "200 running")
	f.expect(1, "POST", "/lock", permits(3), "409 mismatch")
	f.expect(1, "POST", "/lock", permits(1), "200 running")
}

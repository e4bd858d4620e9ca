package hosting_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/seat"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/simulate"
)

// quiet is how long a new generation grants nothing; hurry is how much longer a caller may have to wait.
const (
	ttl   = 10 * time.Second
	quiet = time.Duration(float64(ttl) * (1 + 2*rho))
	hurry = time.Second
)

// holder is a lock that a caller holds through what happens to the core.
type holder struct {
	*client.Hold
	host string
}

// get makes a call on a host and waits for its hold, at most for d.
func (f *fleet) get(host, key string, d time.Duration) (*holder, error) {
	n := f.nodes[host]
	var c *client.Call
	n.post(func() { c = n.lock(client.Request{Key: key}) })
	if err := f.RunUntil(func() bool { return c != nil && !n.calls[c] }, d); err != nil {
		return nil, fmt.Errorf("%s does not get %s: %w %s", host, key, err, f.why())
	}
	if c.Err != nil {
		return nil, fmt.Errorf("%s does not get %s: %w", host, key, c.Err)
	}
	return &holder{c.Hold, host}, nil
}

// waits makes a call on a host that has to wait.
func (f *fleet) waits(host, key string) (*client.Call, error) {
	n := f.nodes[host]
	var c *client.Call
	n.post(func() { c = n.lock(client.Request{Key: key}) })
	err := f.Run(200 * time.Millisecond)
	return c, err
}

// gives gives a hold back.
func (f *fleet) gives(h *holder) {
	n := f.nodes[h.host]
	n.post(func() {
		for _, b := range slices.Clone(n.holds) {
			if b.Hold == h.Hold {
				n.unlock(b)
			}
		}
	})
}

// kill ends processes, and starts them again after d.
func (f *fleet) kill(d time.Duration, hosts ...string) error {
	for _, h := range hosts {
		f.Host(h).Crash()
		delete(f.nodes, h)
	}
	if err := f.Run(d); err != nil {
		return err
	}
	for _, h := range hosts {
		f.Host(h).Restart()
	}
	return nil
}

// What happens to a core, and what its clients are to see of it. No operator does anything.
var rows = []struct {
	name           string
	cores, clients int
	harm           func(f *fleet) error
	pause          time.Duration // how long a free key may be without a holder at most
}{
	{"one of three is restarted", 3, 3, func(f *fleet) error { return f.kill(500*time.Millisecond, "h1") }, 3 * time.Second},
	{"two of three are killed, and restarted at once", 3, 3, func(f *fleet) error { return f.kill(500*time.Millisecond, "h1", "h2") }, quiet + hurry},
	{"the whole core is killed, and restarted", 3, 50, func(f *fleet) error { return f.kill(time.Second, "h1", "h2", "h3") }, quiet + hurry},
	{"the whole core of one is killed, and restarted", 1, 3, func(f *fleet) error { return f.kill(time.Second, "h1") }, quiet + hurry},
	{"the whole core of two is killed, and restarted", 2, 3, func(f *fleet) error { return f.kill(time.Second, "h1", "h2") }, quiet + hurry},
	{"two of five are killed together", 5, 3, func(f *fleet) error { return f.kill(500*time.Millisecond, "h1", "h2") }, quiet + hurry},
	{"three of five are killed together", 5, 3, func(f *fleet) error { return f.kill(500*time.Millisecond, "h1", "h2", "h3") }, quiet + hurry},
	{"a rolling restart of three, each of them killed", 3, 3, func(f *fleet) error {
		for _, h := range []string{"h1", "h2", "h3"} {
			if err := f.kill(500*time.Millisecond, h); err != nil {
				return err
			}
			if err := f.RunUntil(f.whole, 5*time.Second); err != nil {
				return fmt.Errorf("%s: %w: %s", h, err, f.why())
			}
		}
		return nil
	}, 3 * time.Second},
	{"the core restarts while it is cut off from its clients", 3, 3, func(f *fleet) error {
		cut := []string{"h1", "h2", "h3"}
		var others []string
		for i := range 3 {
			others = append(others, fmt.Sprint("x", i+1))
		}
		f.Net.Partition(cut, others)
		if err := f.kill(300*time.Millisecond, cut...); err != nil {
			return err
		}
		if err := f.Run(300 * time.Millisecond); err != nil {
			return err
		}
		f.Net.Heal()
		return nil
	}, quiet + hurry},
}

// Promise: ARCHITECTURE's table of failures: holders keep their locks, with their tokens, queues their order, and free keys
// can be locked again after the quiet time, without any operator. Leases last 10 s.
func TestRows(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 2
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var longest time.Duration
			for seed := range seeds {
				o := simulate.Play(simulate.Options{Seed: seed}, func(w *simulate.World) error {
					f := newFleet(w, row.cores, row.clients, ttl)
					f.healed = true
					pause, err := f.row(row.harm, row.pause)
					longest = max(longest, pause)
					return err
				})
				if o.Err != nil {
					t.Fatalf("seed %d: %v", seed, o.Err)
				}
			}
			t.Logf("free keys are locked again within %v", longest.Round(time.Millisecond))
		})
	}
}

func (f *fleet) row(harm func(f *fleet) error, most time.Duration) (pause time.Duration, err error) {
	if err := f.RunUntil(f.serves, 20*time.Second); err != nil {
		return 0, err
	}
	var holds []*holder
	for i := range len(f.nodes) {
		host := fmt.Sprint("x", i+1)
		if f.nodes[host] == nil {
			break
		}
		h, err := f.get(host, fmt.Sprint("key", i), 2*time.Second)
		if err != nil {
			return 0, err
		}
		holds = append(holds, h)
	}
	first, err := f.waits("x2", "key0")
	if err != nil {
		return 0, err
	}
	second, err := f.waits("x3", "key0")
	if err != nil {
		return 0, err
	}
	if err := harm(f); err != nil {
		return 0, err
	}
	began := f.Now()
	for i := range shards { // a free key of each shard, or nearly
		h, err := f.get("x2", fmt.Sprint("free", i), most)
		if err != nil {
			return 0, fmt.Errorf("%v after: %w", f.Now()-began, err)
		}
		f.gives(h)
	}
	pause = f.Now() - began
	if err := f.Run(3 * ttl); err != nil {
		return 0, err
	}
	for i, h := range holds {
		if h.Err() != nil || f.nodes[h.host].env.Now() >= h.Deadline() {
			return 0, fmt.Errorf("%s has lost key%d: %v", h.host, i, h.Err())
		}
	}
	// Tokens rise, and those who waited are served in their order.
	f.gives(holds[0])
	if err := f.RunUntil(func() bool { return !f.nodes["x2"].calls[first] }, 2*time.Second); err != nil || first.Err != nil {
		return 0, fmt.Errorf("the first that waits gets nothing: %w %v", err, first.Err)
	}
	if !f.nodes["x3"].calls[second] || first.Hold.Token <= holds[0].Token {
		return 0, fmt.Errorf("the second that waits is served first, or with token %d after %d", first.Hold.Token, holds[0].Token)
	}
	return pause, nil
}

// goneForGood kills two of five hosts that have two of the three votes in the shard of a key, and returns one that
// lives and has a seat.
func (f *fleet) goneForGood(key string) (survivor *node, gone []string) {
	s := f.nodes["h1"].state.Table.Shards[ring.Shard(key, shards)]
	for _, e := range f.list {
		host := strings.TrimSuffix(e, ":7400")
		if n := f.nodes[host]; slices.Contains(s.Voters[:2], n.self.ID) {
			f.Host(host).Crash()
			gone = append(gone, host)
		} else {
			survivor = n
		}
	}
	return survivor, gone
}

// Promise: C6: five entries, three replicas, and the machines of two of a shard's voters are gone for good. By itself the
// shard waits for ever, as they may live. An oracle or an operator says that they do not; then its holders keep their
// locks, and free keys are locked again after the quiet time.
func TestGoneForGood(t *testing.T) {
	const decisions = 2 * time.Second
	for _, tt := range []struct {
		name   string
		oracle bool
		word   time.Duration // when an operator says it; zero: never
		most   time.Duration // how long a free key may be without a holder at most
	}{
		{"nobody says so", false, 0, 0},
		{"an oracle", true, 0, seat.Grace + decisions + quiet + hurry},
		{"an operator", false, 5 * time.Second, 5*time.Second + decisions + quiet + hurry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := simulate.Play(simulate.Options{Seed: 5}, func(w *simulate.World) error {
				f := newFleet(w, 5, 2, ttl)
				f.healed, f.oracle = true, tt.oracle
				if err := f.RunUntil(f.serves, 20*time.Second); err != nil {
					return err
				}
				held, err := f.get("x1", "k", 2*time.Second)
				if err != nil {
					return err
				}
				free := "free"
				for ring.Shard(free, shards) != ring.Shard("k", shards) {
					free += "!"
				}
				survivor, gone := f.goneForGood("k")
				began := f.Now()
				if tt.word > 0 {
					if err := f.Run(tt.word); err != nil {
						return err
					}
				}
				for _, host := range gone {
					if tt.word == 0 {
						break
					}
					survivor.post(func() {
						if _, survivor.outputs, err = survivor.seat.DeclareDead(survivor.now, host+":7400", survivor.outputs); err != nil {
							f.Fail(err)
						}
					})
				}
				if tt.most == 0 {
					c, err := f.waits("x2", free)
					if err := errors.Join(err, f.Run(2*time.Minute)); err != nil {
						return err
					}
					if !f.nodes["x2"].calls[c] {
						return errors.New("a shard begins again though most of its voters may live")
					}
					return nil
				}
				if _, err := f.get("x2", free, tt.most-tt.word); err != nil {
					return err
				}
				t.Logf("a free key is locked again after %v", (f.Now() - began).Round(time.Millisecond))
				if err := f.Run(3 * ttl); err != nil {
					return err
				}
				if held.Err() != nil || f.nodes["x1"].env.Now() >= held.Deadline() {
					return fmt.Errorf("the holder has lost its lock: %w", held.Err())
				}
				return nil
			})
			if o.Err != nil {
				t.Error(o.Err)
			}
		})
	}
}

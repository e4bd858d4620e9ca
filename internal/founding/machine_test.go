package founding

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// ok fails the test with the world's trace unless all is well.
func (w *world) ok(t *testing.T, good bool, format string, args ...any) {
	t.Helper()
	if w.err == nil && good {
		return
	}
	t.Fatalf("%s\n%s\n%v%s", fmt.Sprintf(format, args...), strings.Join(w.trace, "\n"), w.err, w.waiting())
}

// start boots these nodes and runs until all that live are in a mesh, or d has passed. It reports
// whether they are, and these nodes among them.
func (w *world) start(d time.Duration, nodes ...int) bool {
	for _, i := range nodes {
		w.boot(i)
	}
	return w.runUntil(d, func() bool {
		return !slices.ContainsFunc(w.procs, func(p *proc) bool { return p.alive && p.mesh == nil })
	}) && !slices.ContainsFunc(nodes, func(i int) bool { return !w.procs[i].alive })
}

func TestFounding(t *testing.T) {
	t.Run("three seeds found one mesh, after they have listened for two seconds", func(t *testing.T) {
		w := newWorld(1, 3, 0, false)
		w.ok(t, w.start(4*time.Second, 0, 1, 2), "nothing was founded")
		v := *w.procs[0].mesh
		w.ok(t, w.now > 2*time.Second, "founded after %v", w.now)
		w.ok(t, v.Grace && v.Epoch == 1 && len(v.Roster) == 3, "the mesh is %+v", v)
		want := Params{MeshName: "default", Shards: 16, Replicas: 3, MaxTTL: 10 * time.Second, Rho: 100}
		w.ok(t, v.Params == want, "the parameters are %+v", v.Params)
		if got, ok := w.procs[1].m.Mesh(); !ok || got.MeshID != v.MeshID {
			t.Errorf("Mesh() = %+v, %v", got, ok)
		}
		names := []string{v.Roster[0].Name, v.Roster[1].Name, v.Roster[2].Name}
		w.ok(t, slices.Equal(names, []string{"n0", "n1", "n2"}), "the founders are %v", names)
		// The clocks are hours apart.
		w.ok(t, v.Founded >= 1_800_007_200_000, "founded at %d, but a founder's clock is later", v.Founded)
	})
	t.Run("seeds on loopback found within a second, and without grace", func(t *testing.T) {
		w := newWorld(1, 3, 0, true)
		w.ok(t, w.start(time.Second, 0, 1, 2) && !w.procs[0].mesh.Grace, "no mesh without grace")
	})
	t.Run("a single seed that is the node itself founds alone", func(t *testing.T) {
		w := newWorld(1, 1, 0, false)
		w.ok(t, w.start(3*time.Second, 0) && w.procs[0].mesh.Grace, "no mesh with grace")
	})
	t.Run("a mesh is founded above every token floor that a founder knows", func(t *testing.T) {
		w := newWorld(1, 2, 0, true)
		w.tweak = func(i int, cfg *Config) { cfg.Floor = uint64(i) * 2_000_000_000_000 }
		w.ok(t, w.start(time.Second, 0, 1) && w.procs[0].mesh.Founded == 2_000_000_000_000, "no such mesh")
	})
	t.Run("two of three seeds found nothing, and name the seed that they wait for", func(t *testing.T) {
		w := newWorld(1, 3, 0, false)
		w.ok(t, !w.start(time.Minute, 0, 1), "a mesh was founded")
		got, want := w.procs[0].m.Waiting(), "2 of 3 seeds answered; no answer from 10.0.0.3:7946 (connection refused)"
		w.ok(t, got == want, "waits for %q, want %q", got, want)
		w.ok(t, w.start(4*time.Second, 2), "the third seed did not help")
		w.ok(t, w.procs[0].m.Waiting() == "", "still waits for %q", w.procs[0].m.Waiting())
	})
	t.Run("a node that is not listed waits for the seeds, and joins", func(t *testing.T) {
		w := newWorld(1, 2, 1, false)
		w.ok(t, !w.start(time.Minute, 0, 2), "a mesh was founded")
		w.ok(t, w.start(4*time.Second, 1), "nothing was founded")
		w.ok(t, !w.procs[2].mesh.founder(w.procs[2].id), "the node founded")
	})
	t.Run("one node that is listed under two addresses counts once", func(t *testing.T) {
		w := newWorld(1, 2, 0, true)
		w.seeds = append(w.seeds, "localhost:7001")
		w.dials = func(p *proc, addr string) (transport.Hello, error, bool) {
			if addr == "localhost:7001" {
				w.dial(p, w.procs[0].addr, false)
				return w.hello(w.procs[0]), nil, true
			}
			return transport.Hello{}, nil, false
		}
		w.ok(t, w.start(time.Second, 0, 1) && len(w.procs[0].mesh.Roster) == 2, "no mesh of two")
	})
	t.Run("a founder that does not answer at the address it advertises holds the founding up", func(t *testing.T) {
		w := newWorld(1, 2, 0, true)
		w.tweak = func(i int, cfg *Config) {
			if i == 1 {
				cfg.Self.Addr = "10.9.9.9:1"
			}
		}
		w.ok(t, !w.start(time.Minute, 0, 1), "a mesh was founded")
		got := w.procs[0].m.Waiting()
		w.ok(t, strings.Contains(got, `"n1" of 127.0.0.1:7002 does not answer at the address 10.9.9.9:1`), "waits for %q", got)
	})
	t.Run("the founders' options are the mesh's parameters", func(t *testing.T) {
		w := newWorld(1, 3, 1, true)
		w.tweak = func(i int, cfg *Config) {
			cfg.Wants = []Options{
				{MeshName: "blue"}, {Shards: 8, LeaseTTL: 3 * time.Second}, {Replicas: 1, Shards: 8, LeaseTTL: time.Minute, MaxTTL: time.Minute}, {},
			}[i]
		}
		w.ok(t, w.start(3*time.Second, 0, 1, 2, 3), "nothing was founded")
		want := Params{MeshName: "blue", Shards: 8, Replicas: 1, MaxTTL: time.Minute, Rho: 100}
		w.ok(t, w.procs[3].mesh.Params == want, "the parameters are %+v", w.procs[3].mesh.Params)
	})
}

func TestNoSeeds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   Config
		want  error
		grace bool
	}{
		{"a node on loopback that may found waits for nothing", Config{Found: true, Loopback: true}, nil, false},
		{"a node that may found does so anywhere", Config{Found: true}, nil, true},
		{"any other fails", Config{Loopback: true}, fault.ErrNoSeeds, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(1, 0, 1, false)
			w.tweak = func(_ int, cfg *Config) { cfg.Found, cfg.Loopback = tt.cfg.Found, tt.cfg.Loopback }
			w.boot(0)
			if tt.want == nil {
				w.ok(t, w.procs[0].mesh != nil && w.procs[0].mesh.Grace == tt.grace && w.now == 0, "no mesh at once, or with another grace")
			} else {
				w.ok(t, len(w.failed) == 1 && errors.Is(w.failed[0], tt.want), "failed with %v", w.failed)
			}
		})
	}
}

// Founders that can never agree fail, and say what about.
func TestDisagreement(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b func(cfg *Config)
		want error
		says []string
	}{
		{"about the seeds", func(*Config) {}, func(cfg *Config) { cfg.Seeds = append(slices.Clone(cfg.Seeds), "10.0.0.9:1") },
			fault.ErrInvalidOption, []string{"10.0.0.9:1", "n0", "n1"}},
		{"about the mesh name", func(cfg *Config) { cfg.Wants.MeshName = "blue" }, func(cfg *Config) { cfg.Wants.MeshName = "red" },
			fault.ErrForeignMesh, []string{"blue", "red"}},
		{"about the shards", func(cfg *Config) { cfg.Wants.Shards = 8 }, func(cfg *Config) { cfg.Wants.Shards = 16 },
			fault.ErrInvalidOption, []string{"WithShards", "8", "16"}},
		{"about the replicas", func(cfg *Config) { cfg.Wants.Replicas = 1 }, func(cfg *Config) { cfg.Wants.Replicas = 5 },
			fault.ErrInvalidOption, []string{"WithReplicas", "1", "5"}},
		{"about the longest TTL", func(cfg *Config) { cfg.Wants.MaxTTL = 7 * time.Second }, func(cfg *Config) { cfg.Wants.MaxTTL = time.Minute },
			fault.ErrInvalidOption, []string{"WithMaxTTL", "7s", "1m0s"}},
		{"about a TTL that is longer than the longest", func(cfg *Config) { cfg.Wants.MaxTTL = 7 * time.Second }, func(cfg *Config) { cfg.Wants.LeaseTTL = time.Minute },
			fault.ErrInvalidOption, []string{"WithLeaseTTL", "7s", "1m0s"}},
		{"about the name n0", func(*Config) {}, func(cfg *Config) { cfg.Self.Name = "n0" },
			fault.ErrNameTaken, []string{"n0", "10.0.0."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(1, 2, 0, false)
			w.tweak = func(i int, cfg *Config) { []func(*Config){tt.a, tt.b}[i](cfg) }
			w.start(3*time.Second, 0, 1)
			w.ok(t, len(w.failed) > 0 && len(w.decided) == 0, "no process failed")
			for _, err := range w.failed {
				w.ok(t, errors.Is(err, tt.want), "failed with %v", err)
				for _, s := range tt.says {
					w.ok(t, strings.Contains(err.Error(), s), "%q does not say %q", err, s)
				}
			}
		})
	}
	t.Run("a node that is not listed does not disturb the founders", func(t *testing.T) {
		w := newWorld(1, 2, 1, false)
		w.tweak = func(i int, cfg *Config) {
			if i == 2 {
				cfg.Seeds = append(slices.Clone(cfg.Seeds), "10.0.0.9:1")
			}
		}
		w.ok(t, w.start(5*time.Second, 0, 1, 2), "not all are in a mesh")
	})
}

func TestJoining(t *testing.T) {
	founded := func(t *testing.T, others int, tweak func(i int, cfg *Config)) *world {
		t.Helper()
		w := newWorld(1, 3, others, false)
		w.tweak = tweak
		w.ok(t, w.start(4*time.Second, 0, 1, 2), "nothing was founded")
		return w
	}
	t.Run("a founder that restarts joins the living mesh, under its name", func(t *testing.T) {
		w := founded(t, 0, nil)
		w.crash(1)
		w.ok(t, w.start(2*time.Second, 1), "it did not join")
		w.ok(t, w.settled(), "it is elsewhere")
	})
	t.Run("all seeds restart and join the mesh that one joiner kept alive", func(t *testing.T) {
		w := founded(t, 1, nil)
		w.ok(t, w.start(2*time.Second, 3), "it did not join")
		for i := range 3 {
			w.crash(i)
		}
		w.ok(t, w.start(4*time.Second, 0, 1, 2) && w.settled(), "they founded anew")
	})
	for _, tt := range []struct {
		name  string
		wants Options
		want  error
		says  []string
	}{
		{"another mesh name is refused", Options{MeshName: "red"}, fault.ErrForeignMesh, []string{"red", "default"}},
		{"another number of shards is refused", Options{Shards: 8}, fault.ErrInvalidOption, []string{"WithShards", "8", "16", "n3"}},
		{"another number of replicas is refused", Options{Replicas: 5}, fault.ErrInvalidOption, []string{"WithReplicas", "5", "3"}},
		{"another longest TTL is refused", Options{MaxTTL: time.Minute}, fault.ErrInvalidOption, []string{"WithMaxTTL", "1m0s", "10s"}},
		{"a longer TTL is refused", Options{LeaseTTL: time.Minute}, fault.ErrInvalidOption, []string{"WithLeaseTTL", "1m0s", "10s"}},
		{"the same parameters are fine", Options{MeshName: "default", Shards: 16, Replicas: 3, MaxTTL: 10 * time.Second, LeaseTTL: time.Second}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := founded(t, 1, func(i int, cfg *Config) {
				if i == 3 {
					cfg.Wants = tt.wants
				}
			})
			w.start(3*time.Second, 3)
			if tt.want == nil {
				w.ok(t, w.settled(), "it did not join: %v", w.failed)
				return
			}
			w.ok(t, len(w.failed) == 1 && errors.Is(w.failed[0], tt.want), "failed with %v", w.failed)
			for _, s := range tt.says {
				w.ok(t, strings.Contains(w.failed[0].Error(), s), "%q does not say %q", w.failed[0], s)
			}
		})
	}
	rename := func(i int, cfg *Config) {
		if i == 4 {
			cfg.Self.Name = "n3"
		}
	}
	t.Run("a name that a living node answers to is refused", func(t *testing.T) {
		w := founded(t, 2, rename)
		w.ok(t, w.start(2*time.Second, 3), "it did not join")
		w.start(3*time.Second, 4)
		w.ok(t, len(w.failed) == 1 && errors.Is(w.failed[0], fault.ErrNameTaken), "failed with %v", w.failed)
		w.ok(t, strings.Contains(w.failed[0].Error(), w.procs[3].addr), "%v does not name the other node", w.failed[0])
	})
	t.Run("the name of a founder that is asked itself is refused", func(t *testing.T) {
		w := founded(t, 1, func(i int, cfg *Config) {
			if i == 3 {
				cfg.Self.Name = "n1"
			}
		})
		w.start(10*time.Second, 3)
		w.ok(t, len(w.failed) == 1 && errors.Is(w.failed[0], fault.ErrNameTaken), "failed with %v", w.failed)
	})
	t.Run("the name of a dead node is free at once, at another address too", func(t *testing.T) {
		w := founded(t, 2, rename)
		w.ok(t, w.start(2*time.Second, 3), "it did not join")
		w.crash(3)
		w.ok(t, w.start(3*time.Second, 4), "it did not join")
	})
	t.Run("the name of a dead node is free though another node answers at its address", func(t *testing.T) {
		w := founded(t, 2, rename)
		w.ok(t, w.start(2*time.Second, 3), "it did not join")
		w.crash(3)
		w.dials = func(_ *proc, addr string) (transport.Hello, error, bool) {
			return transport.Hello{ID: 99, Name: "another", Addr: addr}, nil, addr == w.procs[3].addr
		}
		w.ok(t, w.start(3*time.Second, 4), "it did not join: %v", w.failed)
	})
	t.Run("a node that cannot be dialled back is refused with its address", func(t *testing.T) {
		w := founded(t, 1, func(i int, cfg *Config) {
			if i == 3 {
				cfg.Self.Addr = "10.9.9.9:1"
			}
		})
		w.start(10*time.Second, 3)
		w.ok(t, len(w.failed) == 1 && errors.Is(w.failed[0], fault.ErrUnreachable), "failed with %v", w.failed)
		w.ok(t, strings.Contains(w.failed[0].Error(), "10.9.9.9:1: no route to host"), "%v does not say why", w.failed[0])
	})
	t.Run("a node at whose address another one answers is refused", func(t *testing.T) {
		w := founded(t, 1, func(i int, cfg *Config) {
			if i == 3 {
				cfg.Self.Addr = "10.0.0.1:7946"
			}
		})
		w.start(20*time.Second, 3)
		w.ok(t, len(w.failed) == 1 && errors.Is(w.failed[0], fault.ErrUnreachable), "failed with %v", w.failed)
	})
	t.Run("a client is let in without being dialled", func(t *testing.T) {
		w := founded(t, 1, func(i int, cfg *Config) {
			if i == 3 {
				cfg.Self.Addr, cfg.Self.Name = "", "n1"
			}
		})
		w.ok(t, w.start(2*time.Second, 3), "it did not join")
	})
	t.Run("a joiner goes to another member when the one that it asked dies", func(t *testing.T) {
		w := founded(t, 1, nil)
		w.boot(3)
		w.runUntil(time.Second, func() bool { return w.procs[3].m.joining.member != 0 })
		for i := range 3 {
			if w.procs[i].id == w.procs[3].m.joining.member {
				w.crash(i)
			}
		}
		w.ok(t, w.runUntil(3*time.Second, func() bool { return w.procs[3].mesh != nil }), "it did not join")
	})
	t.Run("a joiner refuses to choose between two meshes", func(t *testing.T) {
		w := newWorld(1, 3, 0, false)
		all := w.seeds
		w.tweak = func(i int, cfg *Config) {
			if i < 2 {
				cfg.Seeds = all[i : i+1]
			}
		}
		w.apart = true
		w.ok(t, w.start(4*time.Second, 0, 1), "nothing was founded")
		w.start(2*time.Second, 2)
		w.ok(t, len(w.failed) == 1 && errors.Is(w.failed[0], fault.ErrForeignMesh), "failed with %v", w.failed)
		for i := range 2 {
			id := fmt.Sprintf("%016x", w.procs[i].mesh.MeshID)
			w.ok(t, strings.Contains(w.failed[0].Error(), id), "%v does not name %s", w.failed[0], id)
		}
	})
	t.Run("no node joins before every founder knows of the mesh or was replaced", func(t *testing.T) {
		w := newWorld(1, 3, 1, false)
		w.boot(0)
		w.boot(1)
		w.boot(2)
		w.runUntil(5*time.Second, func() bool { return len(w.decided) > 0 })
		p := w.byID[w.decided[0].by]
		lost := w.procs[(p.i+1)%3]
		w.crash(lost.i)
		w.boot(3)
		w.run(10 * time.Second)
		w.ok(t, w.procs[3].mesh == nil, "it joined")
		got := w.procs[3].m.Waiting()
		w.ok(t, strings.Contains(got, fmt.Sprintf("%q", "n"+fmt.Sprint(lost.i))), "waits for %q", got)
		w.ok(t, w.start(3*time.Second, lost.i) && w.settled(), "it did not join")
	})
	t.Run("after half a minute a founder that is lost for good delays no join", func(t *testing.T) {
		w := newWorld(1, 3, 1, false)
		w.boot(0)
		w.boot(1)
		w.boot(2)
		w.runUntil(5*time.Second, func() bool { return len(w.decided) > 0 })
		w.crash((w.byID[w.decided[0].by].i + 1) % 3)
		w.ok(t, w.start(40*time.Second, 3), "it did not join")
	})
}

// A node that lost its list of seeds founds a mesh of one. That gives way to the mesh that lists the
// node.
func TestMeshOfOne(t *testing.T) {
	w := newWorld(1, 2, 0, false)
	w.ok(t, w.start(4*time.Second, 0, 1), "nothing was founded")
	w.crash(0)
	w.apart = true
	w.tweak = func(i int, cfg *Config) { cfg.Seeds, cfg.Found = nil, true }
	p := w.boot(0)
	w.ok(t, p.mesh != nil, "no mesh of one")
	w.run(3 * time.Second)
	w.ok(t, p.mesh == nil, "it did not give way")
	if at := p.m.Deadline(); at != env.Never {
		t.Errorf("an ended Machine wants to be called at %v", at)
	}
}

// The checks that keep a founding safe where two nodes may answer at one address.
func TestAmbiguousSeeds(t *testing.T) {
	t.Run("a seed at which this node and another one answer is an error", func(t *testing.T) {
		w := newWorld(1, 1, 1, false)
		w.tweak = func(_ int, cfg *Config) { cfg.Seeds = []string{"lb:7946"} }
		n := 0
		w.dials = func(p *proc, addr string) (transport.Hello, error, bool) {
			n++
			return w.hello(w.procs[n/2%2]), nil, true
		}
		w.start(5*time.Second, 0, 1)
		w.ok(t, len(w.failed) > 0 && errors.Is(w.failed[0], fault.ErrInvalidOption) && len(w.decided) == 0, "failed with %v", w.failed)
	})
	t.Run("a seed that two connected nodes answer at founds nothing", func(t *testing.T) {
		w := newWorld(1, 2, 1, false)
		n := 0
		w.dials = func(p *proc, addr string) (transport.Hello, error, bool) {
			if addr == w.seeds[1] && p.i == 0 {
				n++
				for i := 1; i < 3; i++ {
					if q := w.procs[i]; !p.up[q.id] {
						p.up[q.id], q.up[p.id] = true, true
						w.handle(p, p.m.Up(w.now, w.hello(q), nil))
					}
				}
				return w.hello(w.procs[1+n%2]), nil, true
			}
			return transport.Hello{}, nil, false
		}
		w.ok(t, !w.start(20*time.Second, 0, 1, 2), "a mesh was founded")
		got := w.procs[0].m.Waiting()
		w.ok(t, strings.Contains(got, "two nodes answer at "+w.seeds[1]), "waits for %q", got)
	})
}

func TestCheckHello(t *testing.T) {
	for _, tt := range []struct {
		name         string
		mine, theirs transport.Hello
		want         error
	}{
		{"nodes of one mesh", transport.Hello{MeshID: 1, MeshName: "a"}, transport.Hello{MeshID: 1, MeshName: "a"}, nil},
		{"a node that has no mesh yet", transport.Hello{MeshID: 1, MeshName: "a"}, transport.Hello{}, nil},
		{"nodes of two meshes", transport.Hello{MeshID: 1, MeshName: "a"}, transport.Hello{MeshID: 2, MeshName: "a"}, fault.ErrForeignMesh},
		{"nodes for two meshes", transport.Hello{MeshName: "a"}, transport.Hello{MeshName: "b"}, fault.ErrForeignMesh},
		{"nodes of meshes with two names", transport.Hello{MeshID: 1, MeshName: "a"}, transport.Hello{MeshName: "b"}, fault.ErrForeignMesh},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := CheckHello(tt.mine, tt.theirs); !errors.Is(got, tt.want) {
				t.Errorf("CheckHello = %v, want %v", got, tt.want)
			}
			if got := CheckHello(tt.theirs, tt.mine); !errors.Is(got, tt.want) {
				t.Errorf("CheckHello the other way = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAllLoopback(t *testing.T) {
	for _, tt := range []struct {
		seed string
		want bool
	}{
		{"127.0.0.1:1", true}, {"127.9.0.1:1", true}, {"localhost:1", true}, {"[::1]:1", true},
		{"10.0.0.1:1", false}, {"localhost.example:1", false}, {"127.0.0.1", false}, {"", false}, {"[::]:1", false},
	} {
		if got := AllLoopback([]string{"127.0.0.1:7", tt.seed}); got != tt.want {
			t.Errorf("AllLoopback(%q) = %v", tt.seed, got)
		}
	}
}

func TestStartChecks(t *testing.T) {
	many := make([]string, maxSeeds+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, cfg := range map[string]Config{
		"too many seeds":                 {Seeds: many},
		"a name that is too long":        {Self: Member{Name: strings.Repeat("x", 256)}, Seeds: []string{"a:1"}},
		"a seed that is too long":        {Seeds: []string{strings.Repeat("x", 256)}},
		"a clock that is centuries fast": {Seeds: []string{"a:1"}, Wall: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		out := New(cfg).Start(0, nil)
		if len(out) != 1 || !errors.Is(out[0].(Failed).Err, fault.ErrInvalidOption) {
			t.Errorf("%s: %v", name, out)
		}
	}
}

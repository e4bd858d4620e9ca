package simulate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Founding, joining and leaving: P25 to P32 of the protocol.

// Promise: G1, one mesh is founded, however the founders are cut off from each other.
// Method: one founder is alone for a while; another one dies and comes back meanwhile.
func TestP25Founding(t *testing.T) {
	prove(t, scenario{
		dawn: func(s *stage) {
			s.At(s.draw(0, 1900*time.Millisecond), func() { s.Isolate(s.third) })
			s.At(s.draw(0, 5*time.Second), func() {
				if len(s.nodes) == 0 {
					s.Crash(s.heir)
					s.Restart(s.heir)
				}
			})
			s.At(s.draw(8*time.Second, 15*time.Second), s.Heal)
		},
		story: func(s *stage) {
			for _, host := range []string{s.owner, s.heir, s.third, s.ann, s.bob} {
				s.within(10*time.Second, host+" knows all five", func() bool { return len(s.nodes[host].Members()) == 5 })
				l := s.ask(host, "k")
				s.within(time.Second, host+" locks", l.holds)
				l.unlock()
			}
		},
	})
}

// Promise: G1 and G6, every shard is founded with the mesh, and not by who asks first.
// Method: as soon as the mesh is founded, and before anybody has asked for anything,
// one founder is cut off; both sides ask for keys of all shards.
func TestP26OneAct(t *testing.T) {
	prove(t, scenario{
		shards: 8,
		dawn: func(s *stage) {
			s.Go("cutter", func(ctx context.Context) {
				s.ctx = ctx
				s.within(time.Minute, "a mesh is founded", func() bool {
					return s.nodes[s.owner] != nil && s.nodes[s.heir] != nil && s.nodes[s.third] != nil
				})
				s.Isolate(s.third)
				for sh := range s.shards {
					s.ask(s.third, s.keyIn(sh, "k")).leave = sh%2 == 1
					s.ask(s.owner, s.keyIn(sh, "k"))
				}
				s.sleep(10 * time.Second)
				for _, l := range s.lockers {
					s.must(l.holds() == (l.host == s.owner), "%s holds %q: %v", l.host, l.want.Key, l.holds())
				}
				s.Heal()
			})
		},
		story: func(*stage) {},
	})
}

// Promise: G1, whoever held a lock of an earlier mesh has stopped before a new one
// grants it.
// Method: ann, who is no seed, holds; all seeds die and found anew, while she is cut off.
var oldLeases = scenario{clients: 1, ttl: 20 * time.Second, story: func(s *stage) {
	s.History().Meshes = 2 // ann's, which nobody else is left of, and the new one
	s.lock(s.ann, "k")
	s.sleep(s.draw(0, 5*time.Second))
	s.Isolate(s.ann)
	for _, host := range []string{s.owner, s.heir, s.third} {
		s.Crash(host)
		delete(s.nodes, host)
		s.Restart(host)
	}
	s.within(30*time.Second, "the seeds found a new mesh", func() bool { return len(s.nodes) == 4 && s.leads(s.owner) })
	l := s.ask(s.owner, "k")
	s.within(s.ttl*102/100+time.Second, "the new mesh grants the key", l.holds)
	s.Crash(s.ann) // she is of a mesh that is no more
}}

func TestP27OldLeases(t *testing.T) { prove(t, oldLeases) }

// Promise: G7, a node that differs from its mesh in what all must agree on is told so.
// Method: nodes join with another number of shards, another name of the mesh, and with
// nothing said.
func TestP29Parameters(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		join := func(host string, opts ...mesh.Option) (err error) {
			s.Host(host)
			s.Host(host).Do(s.ctx, "join", func(ctx context.Context) {
				var n *mesh.Node
				opts = append([]mesh.Option{mesh.WithName(host), mesh.WithBind(stagePort), mesh.WithLogger(simulate.Logger(ctx))}, opts...)
				if n, err = mesh.JoinContext(ctx, s.seeds, opts...); err == nil {
					var session *mesh.Session
					if session, err = n.NewSession(ctx, mesh.WithTTL(s.grace)); err == nil {
						err = session.Close(ctx)
					}
					_, long := n.NewSession(ctx, mesh.WithTTL(s.grace+time.Second))
					s.must(errors.Is(long, mesh.ErrInvalidOption), "a session beyond MaxTTL: %v", long)
					s.must(n.Leave(ctx) == nil, "Leave")
				}
			})
			return err
		}
		err := join("g", mesh.WithShards(5))
		s.must(errors.Is(err, mesh.ErrInvalidOption) && strings.Contains(err.Error(), "5"), "another number of shards: %v", err)
		err = join("h", mesh.WithMeshName("another"))
		s.must(errors.Is(err, mesh.ErrForeignMesh), "another name: %v", err)
		s.must(join("i") == nil, "nothing said")
	}})
}

// Promise: G6, who has joined again under its old name can be relied upon at once.
// Method: one replica restarts; as soon as its Join has returned, another one dies.
func TestP30RestartUnderTheSameName(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		a := s.lock(s.ann, "k")
		b := s.ask(s.bob, "k")
		s.Crash(s.heir)
		delete(s.nodes, s.heir)
		s.sleep(s.draw(0, 8*time.Second))
		s.Restart(s.heir)
		s.within(20*time.Second, "the heir joins", func() bool { return s.nodes[s.heir] != nil })
		s.Crash(s.owner)
		a.unlock()
		s.within(2*time.Second, "bob gets the key", b.holds)
		s.must(a.undone == nil, "ann's unlock: %v", a.undone)
	}})
}

// Promise: G7, a node that nobody can dial is told so, and by which address.
// Method: a node joins with an address at which nobody listens.
func TestP31Reachable(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		s.Host("g").Do(s.ctx, "join", func(ctx context.Context) {
			_, err := s.join(ctx, "g", mesh.WithAdvertise("g:1"))
			s.must(errors.Is(err, mesh.ErrUnreachable) && strings.Contains(err.Error(), "g:1"), "Join = %v", err)
		})
	}})
}

// Promise: G9, who leaves hands over; G5, what its callers hold still lapses, and is
// not released under them.
// Method: the owner leaves while ann holds a key for which bob waits, and while its own
// caller does not stop.
func TestP32Leave(t *testing.T) {
	prove(t, scenario{story: func(s *stage) {
		a := s.lock(s.ann, "k")
		own := s.lock(s.owner, "own")
		b, next := s.ask(s.bob, "k"), s.ask(s.bob, "own")
		s.sleep(s.draw(100*time.Millisecond, 2*time.Second))
		left := false
		n := s.nodes[s.owner]
		s.Host(s.owner).Go("leave", func(ctx context.Context) {
			short, cancel := simulate.WithTimeout(ctx, time.Second)
			defer cancel()
			_ = n.Leave(short)
			left = true
		})
		for !left {
			l := s.lock(s.bob, "turns")
			l.unlock()
			s.must(l.undone == nil, "G9: bob's unlock: %v", l.undone)
		}
		s.must(a.holds() && !b.answered(), "G9: ann lost her lock as another node left")
		s.must(own.over, "P32: the leaver's caller was not told")
		s.within(s.ttl+3*time.Second, "bob gets the lock of the node that left", next.holds)
		a.unlock()
		s.must(a.undone == nil, "G9: ann's unlock: %v", a.undone)
		s.within(time.Second, "bob gets the key", b.holds)
	}})
}

package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// A resource as a pure function, with which Porcupine compares what callers did: for as long as nothing is forgotten.

// resourceCallers is how many callers a resource has in these tests. Each has at most one operation, and one use, at a time.
const resourceCallers = 5 * callersPerNode

// resourceStep is one thing that befell a resource.
type resourceStep struct {
	what   string // runs, skips, is refused, succeeds, fails, releases, or tells who uses it; or gives up: fails, or releases
	op     mesh.Op
	token  uint64 // of what runs or skips, or of the use that a pull which succeeds has made; zero: its caller was not told
	number int    // of the call: of caller number % resourceCallers
	maybe  bool   // it has had its effect if it could when it was its turn: its caller does not know
	users  uint16 // tells: a bit for each caller
}

// resourceUses is a set of numbers of calls.
type resourceUses [16]uint64

func (u *resourceUses) set(number int)   { u[number/64] |= 1 << (number % 64) }
func (u *resourceUses) clear(number int) { u[number/64] &^= 1 << (number % 64) }

// users returns a bit for each caller.
func (u resourceUses) users() (all uint16) {
	for number := range 64 * len(u) {
		if u[number/64]&(1<<(number%64)) != 0 {
			all |= 1 << (number % resourceCallers)
		}
	}
	return all
}

// resourceState is what a resource remembers.
type resourceState struct {
	running int     // the number of the call whose operation runs; zero: none does
	done    [3]bool // by operation
	uses    resourceUses
	latest  uint64 // token
}

// step returns what becomes of the resource, and whether that may be.
func (s resourceState) step(in resourceStep) (bool, resourceState) {
	used := s.uses != resourceUses{}
	alone := in.op != mesh.OpUpdate
	switch in.what {
	case "runs":
		may := s.running == 0 && !s.done[in.op] && !(alone && used) && (in.token == 0 || in.token > s.latest)
		s.running, s.latest = in.number, max(s.latest, in.token)
		s.done = [3]bool{mesh.OpUpdate: s.done[mesh.OpUpdate] && in.op == mesh.OpPull}
		return may, s
	case "skips":
		may := s.running == 0 && s.done[in.op] && (in.token == 0 || in.token > s.latest)
		if s.latest = max(s.latest, in.token); in.op == mesh.OpPull {
			s.uses.set(in.number)
		}
		return may, s
	case "is refused":
		return !s.done[in.op] && alone && used && (in.op != mesh.OpPull || s.running == 0), s
	case "succeeds":
		may := s.running == in.number && (in.token == 0 || in.token >= s.latest)
		s.running, s.done[in.op], s.latest = 0, true, max(s.latest, in.token)
		if in.op == mesh.OpPull {
			s.uses.set(in.number)
		}
		return may, s
	case "fails":
		may := s.running == in.number
		s.running = 0
		return may, s
	case "releases":
		s.uses.clear(in.number)
		return true, s
	case "gives up":
		if s.running == in.number {
			s.running = 0
		}
		s.uses.clear(in.number)
		return true, s
	}
	return s.uses.users() == in.users, s // tells
}

var resourceModel = porcupine.Model{
	Init: func() any { return resourceState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(resourceState), input.(resourceStep)
		may, next := s.step(in)
		if !may && in.maybe && in.what == "runs" { // or it was done
			in.what = "skips"
			may, next = s.step(in)
		}
		if !may && in.maybe {
			return true, s
		}
		return may, next
	},
	Equal: func(a, b any) bool { return a.(resourceState) == b.(resourceState) },
}

// Promise: P39: while nothing is forgotten, operations on a resource, its uses, and the question for them take effect one after another, each between
// its begin and its end, whichever nodes are cut off meanwhile: one operation runs at a time, what is done is skipped, what is undone is not, and
// nobody deletes what another one uses.
func TestResourcesAreLinearizable(t *testing.T) {
	counts := make(map[string]int)
	for seed := range fewer[uint64](3, 40) {
		w := newTrial(t, simulate.Options{Seed: seed}, 3*time.Second, 5)
		all, calls := make(history), make(map[string]int)
		w.underCuts(seed, 30*time.Second, func(ctx context.Context, n *mesh.Node, caller int, chance *rand.Rand) {
			upTo := func(d time.Duration) time.Duration { return time.Duration(chance.Int64N(int64(d))) }
			key := fmt.Sprint("image/", int(simulate.Now(ctx)/(2*time.Second)), caller%2)
			user := fmt.Sprint(caller)
			r := n.Resource(key, mesh.User(user), mesh.Retention(time.Hour))
			next := func() int {
				calls[key]++
				return caller + resourceCallers*calls[key]
			}
			number := next()
			note := func(in resourceStep, from, to time.Duration) {
				in.number = number
				if all.add(key, len(all[key]), in, from, to); in.maybe {
					in.what = "perhaps " + in.what
				}
				counts[in.what]++
			}
			from := simulate.Now(ctx)
			if chance.IntN(4) == 0 {
				refs, err := r.Refs(ctx)
				if err == nil {
					tells := resourceStep{what: "tells"}
					for _, ref := range refs {
						var of int
						_, err := fmt.Sscan(ref.User, &of)
						w.check(err)
						tells.users |= 1 << of
					}
					note(tells, from, simulate.Now(ctx))
				}
				return
			}
			short, cancel := simulate.WithTimeout(ctx, 1+upTo(10*time.Second)<<chance.IntN(3))
			defer cancel()
			kind := []mesh.Op{mesh.OpPull, mesh.OpPull, mesh.OpPull, mesh.OpUpdate, mesh.OpDelete}[chance.IntN(5)]
			op, err := r.Begin(short, kind)
			now := simulate.Now(ctx)
			mayGiveUp := func() { // what it got, if it had its turn
				note(resourceStep{what: "runs", op: kind, maybe: true}, from, ever)
				note(resourceStep{what: "gives up"}, from, ever)
			}
			if (err == nil || errors.Is(err, mesh.ErrInUse)) && now-from > w.ttl/2 { // it may have asked again, since its session was lost
				mayGiveUp()
				number = next()
			}
			switch {
			case errors.Is(err, mesh.ErrInUse):
				note(resourceStep{what: "is refused", op: kind}, from, now)
				return
			case err != nil:
				mayGiveUp()
				return
			case op.Skipped():
				note(resourceStep{what: "skips", op: kind, token: op.Token()}, from, now)
			default:
				note(resourceStep{what: "runs", op: kind, token: op.Token()}, from, now)
				_ = simulate.Sleep(ctx, upTo(time.Second))
				failure, ends := error(nil), "succeeds"
				if chance.IntN(4) == 0 {
					failure, ends = errors.New("failed"), "fails"
				}
				from := simulate.Now(ctx)
				switch err := op.End(short, failure); {
				case err == nil:
					note(resourceStep{what: ends, op: kind, token: op.Use().Token()}, from, simulate.Now(ctx))
				case errors.Is(err, mesh.ErrUnconfirmed) && failure == nil:
					note(resourceStep{what: "succeeds", op: kind, maybe: true}, from, ever)
					fallthrough
				default: // it was lost, or will be
					note(resourceStep{what: "gives up"}, now, ever)
				}
			}
			use := op.Use()
			if use == nil {
				return
			}
			began := simulate.Now(ctx)
			_ = simulate.Sleep(ctx, upTo(time.Second))
			from, lost := simulate.Now(ctx), use.Err() != nil
			switch err := use.Release(short); {
			case lost || errors.Is(err, mesh.ErrLost):
				note(resourceStep{what: "gives up"}, began, ever)
			case err != nil:
				note(resourceStep{what: "gives up"}, from, ever)
			default:
				note(resourceStep{what: "releases"}, from, simulate.Now(ctx))
			}
		})
		if err := all.check(resourceModel); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	t.Log(counts)
	for _, what := range []string{"runs", "skips", "is refused", "succeeds", "fails", "releases", "tells", "gives up", "perhaps runs"} {
		if counts[what] < 10 {
			t.Errorf("too little has happened: %v", counts)
			break
		}
	}
}

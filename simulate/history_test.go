package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/ring"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate/internal/check"
	"github.com/lockmesh/mesh/transport"
)

// story tells the history of two clients, on hosts a and b, step by step.
type story struct {
	w     *World
	holds map[string]*tale
}

// tale is a hold that does what the story says.
type tale struct {
	token    uint64
	ctx      context.Context
	end      context.CancelCauseFunc
	deadline time.Time
	held     *check.Hold
	call     *check.Call
	process  *process
	told     env.Holder // what the node would tell of it
}

func (x *tale) Token() uint64            { return x.token }
func (x *tale) Context() context.Context { return x.ctx }
func (x *tale) Deadline() time.Time      { return x.deadline }

// Unlock is told by story.unlock.
func (x *tale) Unlock(context.Context) error { return errors.New("no") }

func (s *story) call(name, host string, want check.Want) {
	p := s.w.Host(host).process
	call := s.w.history.checks.Call(p, want)
	s.holds[name] = &tale{call: call, process: p, told: call.At(transport.ID(map[string]uint64{"a": 7, "b": 8}[host]))}
}

// granted ends the call of that name in a hold with a lease of 10 s.
func (s *story) granted(name string, token uint64) {
	x := s.holds[name]
	x.token = token
	x.ctx, x.end = context.WithCancelCause(context.Background())
	x.deadline = x.process.Wall().Add(10 * time.Second)
	x.held = x.call.Returned(x, nil)
}

func (s *story) lock(name, host string, want check.Want, token uint64) {
	s.call(name, host, want)
	s.granted(name, token)
}

func (s *story) failed(name string) { s.fails(name, errors.New("no")) }

func (s *story) fails(name string, err error) { s.holds[name].call.Returned(nil, err) }

func (s *story) renewed(name string) {
	x := s.holds[name]
	x.deadline = x.process.Wall().Add(10 * time.Second)
}

func (s *story) lost(name string) { s.holds[name].end(errors.New("lost")) }

// refused ends the call of that name as a try that would have had to wait.
func (s *story) refused(name string) {
	s.holds[name].call.Returned(nil, fmt.Errorf("try: %w", fault.ErrLocked))
}

// decided lets the replica on a node tell what it decided on a request for key k of owner's session 1.
func (s *story) decided(node transport.ID, owner uint64, d shard.Decision) {
	d.Key, d.Session = "k", shard.SessionID{Node: owner, Number: 1}
	s.w.history.checks.Observer().Observe(env.At{Node: node}, d)
}

// nobodys is a grant of the table to the node of host b that no call returns with.
func (s *story) nobodys(token uint64) {
	for _, what := range []shard.DecisionKind{shard.Entered, shard.Admitted} {
		s.decided(1, 8, shard.Decision{Revision: token, What: what, Number: token, Token: token})
	}
}

// of is what a node would tell of the hold of that name.
func (s *story) of(name string) env.Holder { return s.holds[name].told }

// timed is an exclusive call for a hold of fixed length.
func timed(d time.Duration) check.Want {
	want := check.Exclusive("k")
	want.MaxHold = d
	return want
}

func (s *story) unlock(name string) {
	x := s.holds[name]
	x.held.Unlocking()
	x.end(context.Canceled)
	x.held.Unlocked(nil)
}

// kept says that nothing has ailed the world.
func (s *story) kept() { s.w.ailed = false }

// calm ends all faults: from now on no call may wait for more than 5 s for a free key.
func (s *story) calm() {
	s.w.History().Bound = 5 * time.Second
	s.w.HealAll()
}

// leaves lets the node of host a, number 7, which all calls there are made to, leave, and wait
// for 20 s, or until end is called.
func (s *story) leaves() (end context.CancelFunc) {
	p := s.w.Host("a").process
	s.w.nodes[7] = p
	ctx, end := WithCancel(p.root)
	s.w.history.checks.Observer().Leaving(7, ctx)
	return end
}

// left ends that node's Leave.
func (s *story) left(handed bool) { s.w.history.checks.Observer().Left(7, handed) }

// dropped lets n requests of that node leave the queue, of which each replica tells.
func (s *story) dropped(n uint64) {
	for request := range n {
		for replica := range transport.ID(3) {
			for _, what := range []shard.DecisionKind{shard.Entered, shard.Withdrawn} {
				s.decided(replica+1, 7, shard.Decision{Revision: 10*request + uint64(what), What: what, Number: request + 1})
			}
		}
	}
}

// freed lets the table end the hold of that name, of the node on host a.
func (s *story) freed(name string) {
	s.w.nodes[7] = s.holds[name].process
	s.decided(1, 7, shard.Decision{Revision: 100, What: shard.Finished, Number: 1, Token: s.holds[name].token})
}

// stall lets host a lock, and its shard loop stand still for d.
func (s *story) stall(d time.Duration) {
	s.w.Host("a").process.NewLoop("shards", func(time.Duration) time.Duration { return env.Never })
	s.lock("1", "a", check.Exclusive("k"), 1)
	s.w.Host("a").Stall("shards", d)
}

// pass lets time go by. A failure stays.
func (s *story) pass(d time.Duration) { _ = s.w.Run(d) }

// TestCheckers tells each checker a history that is right and several that are wrong.
func TestCheckers(t *testing.T) {
	const sec = time.Second
	x, r := check.Exclusive("k"), check.Shared("k")
	tests := []struct {
		name string
		tell func(s *story)
		want string // in the error; empty: none
	}{
		{"one after the other", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.unlock("1")
			s.lock("2", "b", x, 2)
			s.unlock("2")
		}, ""},
		{"two at once", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.lock("2", "b", x, 2)
		}, "G1 exclusion"},
		{"a writer among readers", func(s *story) {
			s.lock("1", "a", r, 1)
			s.lock("2", "b", r, 2)
			s.lock("3", "b", x, 3)
		}, "G1 exclusion"},
		{"readers together", func(s *story) {
			s.lock("1", "a", r, 1)
			s.lock("2", "b", r, 2)
			s.pass(sec)
			s.unlock("1")
			s.unlock("2")
			s.lock("3", "b", x, 3)
			s.unlock("3")
		}, ""},
		{"too many permits", func(s *story) {
			s.lock("1", "a", check.Permits("k", 2, 3), 1)
			s.lock("2", "b", check.Permits("k", 2, 3), 2)
		}, "G1 exclusion"},
		{"a reader beside what was a writer", func(s *story) {
			s.lock("1", "a", x, 1)
			s.of("1").Downgrading()
			s.lock("2", "b", r, 2)
			s.of("1").Downgraded(nil)
			s.unlock("1")
			s.unlock("2")
			s.lock("3", "b", x, 3)
			s.unlock("3")
		}, ""},
		{"a writer beside what was one", func(s *story) {
			s.lock("1", "a", x, 1)
			s.of("1").Downgrading()
			s.lock("2", "b", x, 2)
		}, "G1 exclusion"},
		{"a reader beside a writer", func(s *story) {
			s.lock("1", "a", x, 1)
			s.lock("2", "b", r, 2)
		}, "G1 exclusion"},
		{"one permit too many", func(s *story) {
			s.lock("1", "a", check.Permits("k", 3, 3), 1)
			s.lock("2", "b", check.Permits("k", 1, 3), 2)
		}, "G1 exclusion"},
		{"a writer's token below a reader's", func(s *story) {
			s.lock("1", "a", r, 2)
			s.unlock("1")
			s.lock("2", "b", x, 1)
		}, "G2 tokens"},
		{"permits that ended before their time", func(s *story) {
			s.lock("1", "a", check.Permits("k", 1, 3), 1)
			s.pass(sec)
			s.lost("1")
		}, "G5 lease"},
		{"a reader that ended before its time", func(s *story) {
			s.lock("1", "a", r, 1)
			s.pass(sec)
			s.lost("1")
		}, "G5 lease"},
		{"an Extend that was moved by more than it asked for", func(s *story) {
			s.lock("1", "a", timed(10*sec), 1)
			s.of("1").Extending(5 * sec)
			s.renewed("1")
			s.of("1").Extended(5*sec, nil)
		}, "G5 fixed"},
		{"enough permits", func(s *story) {
			s.lock("1", "a", check.Permits("k", 2, 3), 1)
			s.lock("2", "b", check.Permits("k", 1, 3), 2)
		}, ""},
		{"a lease that ended by the clock makes room", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(10 * sec)
			s.lost("1")
			s.pass(sec)
			s.lock("2", "b", x, 2)
			s.unlock("2")
		}, ""},
		{"a paused holder need not be told", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.w.Host("a").Pause()
			s.pass(10 * sec)
			s.lock("2", "b", x, 2)
			s.w.Host("a").Resume()
			s.lost("1")
			s.pass(sec)
			s.unlock("2")
		}, ""},
		{"a holder whose shard loop hangs must be told", func(s *story) {
			s.stall(12 * sec)
			s.pass(11 * sec)
			s.lock("2", "b", x, 2)
		}, "G5 lease"},
		{"a holder that runs must be told", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(11 * sec)
			s.lock("2", "b", x, 2)
		}, "G5 lease"},
		{"a belief that was renewed overlaps", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(9 * sec)
			s.renewed("1")
			s.pass(2 * sec)
			s.lock("2", "b", x, 2)
		}, "G1 exclusion"},
		{"a belief that comes back is seen at the next use", func(s *story) {
			s.lock("1", "a", x, 1)
			s.w.Host("a").Pause()
			s.pass(11 * sec)
			s.lock("2", "b", x, 2)
			s.renewed("1")
			s.pass(sec)
			s.holds["2"].held.Use()
		}, "G1 exclusion"},
		{"a belief that comes back is seen when it does", func(s *story) {
			s.lock("1", "a", x, 1)
			s.w.Host("a").Pause()
			s.pass(11 * sec)
			s.w.Host("a").Resume()
			s.lock("2", "b", x, 2)
			s.renewed("1")
			s.of("1").Renewed()
			s.unlock("1")
			s.unlock("2")
		}, "G1 exclusion"},
		{"a renewal that comes too late brings no belief back", func(s *story) {
			s.lock("1", "a", check.Permits("k", 3, 3), 1)
			s.w.Host("a").Pause()
			s.pass(11 * sec)
			s.w.Host("a").Resume()
			s.lock("2", "b", x, 2) // its weight is more than the capacity of the first
			s.of("1").Renewed()
			s.lost("1")
			s.unlock("2")
		}, ""},
		{"a crashed holder keeps its lease", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.w.Host("a").Crash()
			s.pass(8 * sec)
			s.lock("2", "b", x, 2)
		}, "G5 lease"},
		{"a crashed holder loses its lease in the end", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.w.Host("a").Crash()
			s.pass(9*sec + sec/10)
			s.lock("2", "b", x, 2)
			s.unlock("2")
		}, ""},
		{"a holder that lost its context early keeps its lease", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.lost("1")
			s.pass(sec)
			s.lock("2", "b", x, 2)
		}, "G5 lease"},
		{"a crashed reader and a live one leave no room for a writer", func(s *story) {
			s.lock("1", "a", r, 1)
			s.w.Host("a").Crash()
			s.lock("2", "b", r, 2)
			s.pass(sec)
			s.unlock("2")
			s.lock("3", "b", x, 3)
		}, "G5 lease"},
		{"a table ends no lease that goes on, though nobody waits", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(9*sec + 9*sec/10)
			s.freed("1")
		}, "G5 lease: shard 0 frees"},
		{"nor that of a crashed holder", func(s *story) {
			s.lock("1", "a", x, 1)
			s.w.Host("a").Crash()
			s.pass(9 * sec)
			s.freed("1")
		}, "G5 lease: shard 0 frees"},
		{"nor that of one that has stopped early", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.lost("1")
			s.freed("1")
		}, "G5 lease: shard 0 frees"},
		{"a table ends a lease that is over", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(10 * sec)
			s.freed("1")
		}, ""},
		{"a table frees what is being unlocked", func(s *story) {
			s.lock("1", "a", x, 1)
			s.holds["1"].held.Unlocking()
			s.freed("1")
		}, ""},
		{"the context must end before unlock returns", func(s *story) {
			s.lock("1", "a", x, 1)
			s.holds["1"].held.Unlocking()
			s.holds["1"].held.Unlocked(nil)
		}, "P8"},
		{"a token twice", func(s *story) {
			s.lock("1", "a", r, 1)
			s.lock("2", "b", r, 1)
		}, "G2 tokens"},
		{"a token that falls", func(s *story) {
			s.lock("1", "a", x, 2)
			s.unlock("1")
			s.lock("2", "b", x, 1)
		}, "G2 tokens"},
		{"a reader's token below a writer's", func(s *story) {
			s.lock("1", "a", x, 2)
			s.unlock("1")
			s.lock("2", "b", r, 1)
		}, "G2 tokens"},
		{"readers that wait together may return in any order", func(s *story) {
			s.call("1", "a", r)
			s.call("2", "b", r)
			s.pass(sec)
			s.granted("2", 2)
			s.pass(sec)
			s.granted("1", 1)
		}, ""},
		{"readers one after the other may not", func(s *story) {
			s.lock("1", "a", r, 2)
			s.pass(sec)
			s.lock("2", "b", r, 1)
		}, "G2 tokens"},
		{"no token", func(s *story) { s.lock("1", "a", x, 0) }, "G2 tokens"},
		{"a token too large for JavaScript", func(s *story) { s.lock("1", "a", x, 1<<53) }, "G2 tokens"},
		{"a call that never ends", func(s *story) { s.call("1", "a", x) }, "G6: "},
		{"a call of a crashed host has no end", func(s *story) {
			s.call("1", "a", x)
			s.w.Host("a").Crash()
			s.pass(sec)
		}, ""},
		{"an exclusive call that waits for nothing", func(s *story) {
			s.calm()
			s.lock("1", "a", x, 1)
			s.unlock("1")
			s.call("2", "b", x)
			s.pass(6 * sec)
			s.granted("2", 2)
		}, "G6 bound"},
		{"one that waits for a holder", func(s *story) {
			s.calm()
			s.lock("1", "a", x, 1)
			s.call("2", "b", x)
			s.pass(6 * sec)
			s.unlock("1")
			s.pass(4 * sec)
			s.granted("2", 2)
			s.unlock("2")
		}, ""},
		{"a silent holder's key, too late", func(s *story) {
			s.calm()
			s.lock("1", "a", x, 1)
			s.call("2", "b", x)
			s.pass(10 * sec)
			s.lost("1")
			s.pass(6 * sec)
			s.granted("2", 2)
		}, "G6 bound"},
		{"it may be late while there are faults", func(s *story) {
			s.calm()
			s.call("2", "b", x)
			s.w.Host("a").Pause()
			s.pass(6 * sec)
			s.granted("2", 2)
			s.unlock("2")
		}, ""},
		{"a loss though nothing ails the world", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(10 * sec)
			s.lost("1")
			s.pass(sec)
			s.kept()
		}, "G5 lease: nothing ailed the world"},
		{"a loss though nothing ails the world but a node that leaves", func(s *story) {
			s.lock("1", "b", x, 1)
			s.leaves()
			s.pass(10 * sec)
			s.lost("1")
			s.pass(sec)
			s.kept()
		}, "G9 leave: nothing ailed the world, but nodes left, and b with token 1"},
		{"a loss on a node that leaves, and waits", func(s *story) {
			s.lock("1", "a", x, 1)
			s.leaves()
			s.pass(10 * sec)
			s.lost("1")
			s.pass(sec)
			s.kept()
		}, "G9 leave: nothing ailed the world, but nodes left"},
		{"a node that leaves ends a hold too soon", func(s *story) {
			s.lock("1", "a", x, 1)
			s.leaves()
			s.pass(sec)
			s.of("1").Ended(false)
		}, "G9 leave"},
		{"a node that leaves ends a hold of fixed length too soon", func(s *story) {
			s.lock("1", "a", timed(10*sec), 1)
			s.leaves()
			s.pass(sec)
			s.of("1").Ended(false)
		}, "G9 leave"},
		{"a session that ends while its node leaves", func(s *story) {
			s.lock("1", "a", x, 1)
			s.leaves()
			s.pass(sec)
			s.of("1").Ended(true)
		}, ""},
		{"a node that leaves ends a hold for which it has waited", func(s *story) {
			s.leaves()
			s.pass(11 * sec)
			s.lock("1", "a", x, 1)
			s.pass(9*sec + 10*ms)
			s.of("1").Ended(false)
			s.left(true)
			s.kept()
		}, ""},
		{"a node that leaves, and need not wait any more, ends a hold", func(s *story) {
			s.lock("1", "a", x, 1)
			end := s.leaves()
			s.pass(sec)
			end()
			s.of("1").Ended(false)
			s.left(true)
			s.kept()
		}, ""},
		{"a node that leaves ends a hold long after it has waited for it", func(s *story) {
			s.leaves()
			s.pass(19 * sec)
			s.lock("1", "a", x, 1)
			s.pass(2 * sec)
			s.of("1").Ended(false)
		}, "G9 leave"},
		{"but if it was paused meanwhile, that may be", func(s *story) {
			s.leaves()
			s.pass(19 * sec)
			s.lock("1", "a", x, 1)
			s.w.Host("a").Pause()
			s.pass(2 * sec)
			s.w.Host("a").Resume()
			s.of("1").Ended(false)
			s.left(true)
		}, ""},
		{"a hold that outlives its node's leaving", func(s *story) {
			s.lock("1", "a", x, 1)
			end := s.leaves()
			end()
			s.left(true)
		}, "G9 leave"},
		{"a hold for which its node has waited is handed on before its lease is over", func(s *story) {
			s.lock("1", "a", x, 1)
			end := s.leaves()
			s.pass(sec)
			end()
			s.of("1").Ended(false)
			s.left(true)
			s.lock("2", "b", x, 2)
		}, "G5 lease"},
		{"or after that", func(s *story) {
			s.lock("1", "a", x, 1)
			end := s.leaves()
			s.pass(sec)
			end()
			s.of("1").Ended(false)
			s.left(true)
			s.pass(9 * sec)
			s.lock("2", "b", x, 2)
			s.unlock("2")
			s.kept()
		}, ""},
		{"a call that finds no majority though nothing ails the world", func(s *story) {
			s.call("1", "b", x)
			s.fails("1", fmt.Errorf("%w; %w", context.DeadlineExceeded, fault.ErrNoQuorum))
			s.kept()
		}, "G6 calls"},
		{"a call that finds no majority because of a node that leaves", func(s *story) {
			s.leaves()
			s.call("1", "b", x)
			s.fails("1", fault.ErrNoQuorum)
			s.kept()
		}, "G9 leave"},
		{"a call whose lease is lost on the way though nothing ails the world", func(s *story) {
			s.call("1", "b", x)
			s.fails("1", fault.ErrLost)
			s.kept()
		}, "G6 calls"},
		{"a call for so short a hold that it is over on the way", func(s *story) {
			s.call("1", "b", timed(100*ms))
			s.fails("1", fault.ErrLost)
			s.call("2", "b", x)
			s.fails("2", context.DeadlineExceeded)
			s.kept()
		}, ""},
		{"a try that a quiet shard refuses", func(s *story) {
			s.call("1", "b", x)
			s.decided(1, 8, shard.Decision{What: shard.Declined, Revision: 1, Number: 1, Weight: 1, Capacity: 1, Settling: true})
			s.fails("1", fault.ErrQuiet)
			s.kept()
		}, ""},
		{"a try that is told of quiet that is over", func(s *story) {
			s.call("1", "b", x)
			s.decided(1, 8, shard.Decision{What: shard.Declined, Revision: 1, Number: 1, Weight: 1, Capacity: 1, Settling: true})
			s.fails("1", fault.ErrQuiet)
			s.pass(sec)
			s.call("2", "b", x)
			s.fails("2", fault.ErrQuiet)
		}, "G3 quiet"},
		{"a try that is told of another one's hold in a quiet shard", func(s *story) {
			s.call("1", "b", x)
			s.decided(1, 8, shard.Decision{What: shard.Declined, Revision: 1, Number: 1, Weight: 1, Capacity: 1, Settling: true})
			s.refused("1")
			s.kept()
		}, "G1, G2"},
		{"a place in the queue that is lost because of a node that leaves", func(s *story) {
			s.call("1", "a", x)
			s.call("2", "a", x)
			s.failed("2")
			s.call("3", "a", x)
			s.refused("3")
			s.call("4", "b", x)
			s.failed("4")
			s.leaves()
			s.dropped(2)
			s.granted("1", 1)
			s.unlock("1")
			s.kept()
		}, "G9 leave: nothing ailed the world, but nodes left, and 2 requests of the node on a left the queue"},
		{"places that were given up", func(s *story) {
			s.call("1", "a", x)
			s.call("2", "a", x)
			s.failed("1")
			s.failed("2")
			s.dropped(2)
			s.kept()
		}, ""},
		{"nothing is lost that was unlocked, or was to end", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.unlock("1")
			s.lock("2", "a", timed(10*sec), 2)
			s.pass(10 * sec)
			s.lost("2")
			s.pass(sec)
			s.kept()
		}, ""},
		{"a fixed end that is believed in for too long", func(s *story) { s.lock("1", "a", timed(9*sec), 1) }, "G5 fixed"},
		{"a fixed end", func(s *story) {
			s.lock("1", "a", timed(10*sec), 1)
			s.pass(10 * sec)
			s.lost("1")
			s.pass(sec)
			s.lock("2", "b", x, 2)
			s.unlock("2")
		}, ""},
		{"a fixed end that a renewal moved", func(s *story) {
			s.lock("1", "a", timed(10*sec), 1)
			s.pass(5 * sec)
			s.renewed("1")
			s.holds["1"].held.Use()
		}, "G5 fixed"},
		{"a fixed end that an Extend moved", func(s *story) {
			s.lock("1", "a", timed(10*sec), 1)
			s.pass(5 * sec)
			s.of("1").Extending(10 * sec)
			s.renewed("1")
			s.of("1").Extended(10*sec, nil)
			s.pass(6 * sec)
			s.holds["1"].held.Use()
			s.unlock("1")
		}, ""},
		{"Extends that return in another order than they counted in", func(s *story) {
			s.lock("1", "a", timed(10*sec), 1)
			s.pass(5 * sec)
			s.of("1").Extending(sec)
			s.of("1").Extending(10 * sec)
			s.pass(sec)
			s.renewed("1")
			s.of("1").Extended(10*sec, nil)
			s.pass(sec)
			s.of("1").Extended(sec, nil)
			s.holds["1"].held.Use()
			s.unlock("1")
		}, ""},
		{"an Extend that began before its lock was reported", func(s *story) {
			s.lock("1", "a", timed(10*sec), 1)
			s.pass(5 * sec)
			s.renewed("1")
			s.of("1").Extended(10*sec, nil)
			s.pass(6 * sec)
			s.holds["1"].held.Use()
			s.unlock("1")
		}, ""},
		{"a shorter Extend that came after a longer one", func(s *story) {
			s.lock("1", "a", timed(10*sec), 1)
			s.pass(5 * sec)
			s.of("1").Extending(10 * sec)
			s.renewed("1")
			s.of("1").Extended(10*sec, nil)
			s.pass(sec)
			s.of("1").Extending(sec)
			s.of("1").Extended(sec, nil)
			s.holds["1"].held.Use()
		}, "G5 fixed"},
		{"handles that come and go", func(s *story) {
			s.lock("1", "a", x, 1)
			s.of("1").Shared(2)
			s.of("1").Shared(1)
			s.of("1").Shared(0)
			s.unlock("1")
			s.of("1").Unlocked(nil)
		}, ""},
		{"a handle that nobody took", func(s *story) {
			s.lock("1", "a", x, 1)
			s.of("1").Shared(3)
		}, "G4 re-entrance"},
		{"released while it is shared", func(s *story) {
			s.lock("1", "a", x, 1)
			s.of("1").Shared(2)
			s.of("1").Unlocked(nil)
		}, "G4 re-entrance"},
		{"a try that met a holder", func(s *story) {
			s.lock("1", "a", x, 1)
			s.call("2", "b", x)
			s.pass(sec)
			s.refused("2")
			s.unlock("1")
		}, ""},
		{"a try that met nobody", func(s *story) {
			s.lock("1", "a", x, 1)
			s.unlock("1")
			s.pass(sec)
			s.call("2", "b", x)
			s.pass(sec)
			s.refused("2")
		}, "linearizable"},
		{"a try that met a grant of nobody", func(s *story) {
			s.lock("1", "a", x, 1)
			s.unlock("1")
			s.nobodys(2)
			s.pass(sec)
			s.call("2", "b", x)
			s.pass(sec)
			s.refused("2")
		}, ""},
		{"a try that met its own first request", func(s *story) {
			s.lock("1", "a", x, 1)
			s.unlock("1")
			s.pass(sec)
			s.call("2", "b", x)
			s.nobodys(2)
			s.pass(sec)
			s.refused("2")
		}, "linearizable"},
		{"a try that may have met somebody who gave up", func(s *story) {
			s.call("1", "a", x)
			s.failed("1")
			s.pass(sec)
			s.call("2", "b", x)
			s.pass(sec)
			s.refused("2")
		}, ""},
		{"a hold that ended before its time", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.lost("1")
		}, "G5 lease"},
		{"a hold that may end before its time", func(s *story) {
			s.lock("1", "a", x, 1)
			s.pass(sec)
			s.of("1").Ended(true)
		}, ""},
		{"a call that failed", func(s *story) {
			s.call("1", "a", x)
			s.pass(sec)
			s.failed("1")
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &story{w: New(Options{}), holds: make(map[string]*tale)}
			defer s.w.Close()
			s.w.ailed = true // but for what says otherwise
			s.w.Host("a")
			s.w.Host("b")
			s.pass(sec)
			tt.tell(s)
			s.pass(0)
			err := s.w.History().Finish()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Finish = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestAGoodDay: what makes a world worse than on a good day, so that locks may be lost in it, and
// what does not.
func TestAGoodDay(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts Options
		do   func(w *World)
		good bool
	}{
		{"nothing happens", Options{}, func(*World) {}, true},
		{"a calm world", Options{Profile: Calm, Seed: 3}, func(*World) {}, true},
		{"a flaky world", Options{Profile: Flaky, Seed: 3}, func(*World) {}, false},
		{"a lossy link", Options{Link: Link{Loss: 1}}, func(*World) {}, false},
		{"gossip that lies", Options{Gossip: Gossip{Lies: 1}}, func(*World) {}, false},
		{"clocks beyond the promised rates", Options{ClockRate: 10_001}, func(*World) {}, false},
		{"a node that leaves, and comes back", Options{}, func(w *World) {
			w.Host("a").Leave()
			_ = w.Run(time.Second)
			w.Host("a").Restart()
			w.HealAll()
		}, true},
		{"a crash", Options{}, func(w *World) { w.Host("a").Crash() }, false},
		{"a cut that has ended", Options{}, func(w *World) { w.Net.Isolate("a"); w.HealAll() }, false},
		{"a far site", Options{}, func(w *World) { w.Net.SetLink("a", "b", Link{Latency: 50 * ms}) }, true},
		{"a very far site", Options{}, func(w *World) { w.Net.SetLinkOneWay("a", "b", Link{Latency: time.Second}) }, false},
		{"narrow links", Options{}, func(w *World) { w.Net.SetLinks(Link{Bandwidth: 1000}) }, false},
		{"a node that ends without leaving", Options{}, func(w *World) { w.history.checks.Observer().Closed(7) }, false},
		{"a node that could not hand over", Options{}, func(w *World) { w.history.checks.Observer().Left(7, false) }, false},
	} {
		w := New(tt.opts)
		w.Host("a")
		w.Host("b")
		if tt.do(w); w.ailed == tt.good || w.Err() != nil {
			t.Errorf("%s: a good day: %v, want %v; %v", tt.name, !w.ailed, tt.good, w.Err())
		}
		w.Close()
	}

	// On a good day a node that leaves hands over, if two others have a seat.
	for _, tt := range []struct {
		name  string
		seats []transport.ID // of the nodes 7, which leaves, 8 and 9
		fails bool
	}{
		{"two others", []transport.ID{7, 8, 9}, true},
		{"one other", []transport.ID{7, 8}, false},
		{"a client is no other", []transport.ID{7, 8, 5}, false},
		{"it has none itself", []transport.ID{5, 8, 9}, true},
	} {
		w := New(Options{})
		for i, host := range []string{"a", "b", "c"} {
			w.Host(host).process.Inspect(transport.ID(7+i), &looked{seats: tt.seats})
		}
		w.history.checks.Observer().Left(7, false)
		if err := w.Err(); (err != nil) != tt.fails || err != nil && !strings.Contains(err.Error(), "G9 leave") {
			t.Errorf("%s: %v", tt.name, err)
		}
		w.Close()
	}
}

func TestQueueOrder(t *testing.T) {
	type decision struct {
		node transport.ID
		shard.Decision
	}
	decided := func(revision uint64, what shard.DecisionKind, request, token uint64, node transport.ID) decision {
		session := shard.SessionID{Node: 1, Number: 1}
		return decision{node, shard.Decision{Revision: revision, What: what, Key: "k", Session: session, Number: request, Token: token}}
	}
	const queued, granted, dropped, released, refused = shard.Entered, shard.Admitted, shard.Withdrawn, shard.Finished, shard.Declined
	const resumed = shard.Resumed
	reported := func(d decision, earlier uint64) decision { d.Reported, d.Earlier = true, earlier; return d }
	all := func(d decision) decision { d.Weight, d.Capacity = 3, 3; return d }
	one := func(d decision) decision { d.Weight, d.Capacity = 1, 3; return d }
	tests := []struct {
		name string
		told []decision
		want string
	}{
		{"in order, from two replicas", []decision{
			decided(1, queued, 1, 0, 1), decided(2, granted, 1, 2, 1), decided(3, queued, 2, 0, 1), decided(1, queued, 1, 0, 2),
			decided(2, granted, 1, 2, 2), decided(5, granted, 2, 5, 1), decided(5, granted, 2, 5, 2),
		}, ""},
		{"overtaken", []decision{
			decided(1, queued, 1, 0, 1), decided(2, queued, 2, 0, 1), decided(3, granted, 2, 3, 1), decided(4, granted, 1, 4, 1),
		}, "G3"},
		{"one that left was not overtaken", []decision{
			decided(1, queued, 1, 0, 1), decided(2, queued, 2, 0, 1), decided(3, dropped, 1, 0, 1), decided(4, granted, 2, 4, 1),
		}, ""},
		{"granted again when it is free", []decision{
			all(decided(1, queued, 1, 0, 1)), all(decided(2, granted, 1, 2, 1)), all(decided(3, released, 1, 2, 1)),
			all(decided(4, queued, 2, 0, 1)), all(decided(5, granted, 2, 5, 1)),
		}, ""},
		{"one permit too many", []decision{
			all(decided(1, queued, 1, 0, 1)), all(decided(2, granted, 1, 2, 1)), one(decided(4, queued, 2, 0, 1)), one(decided(5, granted, 2, 5, 1)),
		}, "G1 table"},
		{"overtaken within a revision", []decision{
			decided(1, queued, 1, 0, 1), decided(1, queued, 2, 0, 1), decided(2, granted, 2, 2, 1), decided(3, granted, 1, 3, 1),
		}, "G3 order"},
		{"granted twice", []decision{
			all(decided(1, queued, 1, 0, 1)), all(decided(2, granted, 1, 2, 1)), all(decided(4, queued, 2, 0, 1)), all(decided(5, granted, 2, 5, 1)),
		}, "G1 table"},
		{"a try that met a holder", []decision{
			all(decided(1, queued, 1, 0, 1)), all(decided(2, granted, 1, 2, 1)), all(decided(3, refused, 2, 0, 1)),
		}, ""},
		{"a try that met nobody", []decision{
			all(decided(1, queued, 1, 0, 1)), all(decided(2, granted, 1, 2, 1)), all(decided(3, released, 1, 2, 1)), all(decided(4, refused, 2, 0, 1)),
		}, "G3 try"},
		{"granted unasked", []decision{decided(1, granted, 1, 1, 1)}, "G3"},
		{"replicas disagree", []decision{
			decided(1, queued, 1, 0, 1), decided(2, granted, 1, 2, 1), decided(2, granted, 1, 3, 2),
		}, "disagree"},
		{"tokens fall", []decision{
			decided(1, queued, 1, 0, 1), decided(1, queued, 2, 0, 1), decided(2, granted, 1, 2, 1), decided(2, granted, 2, 1, 1),
		}, "G2"},
		{"holds of an earlier table come back", []decision{
			one(decided(1, resumed, 1, 9, 1)), one(decided(2, resumed, 2, 8, 1)), one(decided(1, resumed, 1, 9, 2)), one(decided(10, queued, 3, 0, 1)), one(decided(10, granted, 3, 10, 1)),
		}, ""},
		{"a hold comes back after a grant", []decision{
			one(decided(1, queued, 1, 0, 1)), one(decided(2, granted, 1, 2, 1)), one(decided(3, resumed, 2, 1, 1)),
		}, "C8 reports"},
		{"a hold comes back after a grant that is over", []decision{
			one(decided(1, queued, 1, 0, 1)), one(decided(2, granted, 1, 2, 1)), one(decided(3, released, 1, 2, 1)), one(decided(4, resumed, 2, 1, 1)),
		}, "C8 reports"},
		{"two holds of one place come back", []decision{all(decided(1, resumed, 1, 9, 1)), all(decided(2, resumed, 2, 8, 1))}, "G1 table"},
		{"a hold that came back is granted to another one", []decision{
			all(decided(1, resumed, 1, 9, 1)), all(decided(2, queued, 2, 0, 1)), all(decided(10, granted, 2, 10, 1)),
		}, "G1 table"},
		{"a grant below a token that came back", []decision{
			all(decided(1, resumed, 1, 9, 1)), all(decided(2, released, 1, 9, 1)), all(decided(3, queued, 2, 0, 1)), all(decided(4, granted, 2, 4, 1)),
		}, "G2 tokens"},
		{"replicas disagree on what comes back", []decision{all(decided(1, resumed, 1, 9, 1)), all(decided(1, resumed, 1, 8, 2))}, "disagree"},
		{"who waited in an earlier table goes first", []decision{
			decided(1, queued, 1, 0, 1), reported(decided(2, queued, 2, 0, 1), 7), decided(3, granted, 2, 3, 1), decided(4, granted, 1, 4, 1),
		}, ""},
		{"who waited in an earlier table is overtaken", []decision{
			decided(1, queued, 1, 0, 1), reported(decided(2, queued, 2, 0, 1), 7), decided(3, granted, 1, 3, 1), decided(4, granted, 2, 4, 1),
		}, "G3 order"},
		{"the order of an earlier table", []decision{
			reported(decided(1, queued, 1, 0, 1), 8), reported(decided(2, queued, 2, 0, 1), 7), reported(decided(3, queued, 3, 0, 1), 0),
			decided(4, granted, 2, 4, 1), decided(5, granted, 1, 5, 1), decided(6, granted, 3, 6, 1),
		}, ""},
		{"another order than that of the earlier table", []decision{
			reported(decided(1, queued, 1, 0, 1), 8), reported(decided(2, queued, 2, 0, 1), 7), decided(4, granted, 1, 4, 1), decided(5, granted, 2, 5, 1),
		}, "G3 order"},
		{"an unknown place goes before a known one", []decision{
			reported(decided(1, queued, 1, 0, 1), 8), reported(decided(2, queued, 2, 0, 1), 0), decided(4, granted, 2, 4, 1), decided(5, granted, 1, 5, 1),
		}, "G3 order"},
	}
	for _, tt := range tests {
		w := New(Options{})
		for _, d := range tt.told {
			w.history.checks.Observer().Observe(env.At{Node: d.node}, d.Decision)
		}
		if err := w.Err(); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		w.Close()
	}
}

// sharded is a node that knows how many shards there are.
type sharded struct {
	looked
	shards int
}

func (n *sharded) Generations() []env.Generation { return make([]env.Generation, n.shards) }

// keyIn returns a key of one of two shards.
func keyIn(sh int) string {
	key := "k"
	for ring.Shard(key, 2) != sh {
		key += "k"
	}
	return key
}

// TestCalm: once a replica that lives has applied a Calm, the leases of holds that have ended protect the keys of its shard no longer (C5).
func TestCalm(t *testing.T) {
	type told struct {
		node  transport.ID // 8 lives, and 9 is dead
		other bool         // it tells of the other shard
	}
	for _, tt := range []struct {
		name string
		told []told
		kept bool
	}{
		{"none", nil, true},
		{"one", []told{{node: 8}}, false},
		{"of the other shard", []told{{8, true}}, true},
		{"of the other shard, by a node that dies meanwhile", []told{{9, true}}, true},
		{"by a node that dies meanwhile, and by another one", []told{{node: 9}, {node: 8}}, false},
	} {
		for sh, key := range []string{keyIn(0), keyIn(1)} {
			s := &story{w: New(Options{}), holds: make(map[string]*tale)}
			o := s.w.history.checks.Observer()
			s.w.Host("b").process.Inspect(8, &sharded{shards: 2})
			s.w.Host("c").process.Inspect(9, &sharded{shards: 2})
			s.lock("before", "a", check.Exclusive(key), 1)
			s.w.Host("a").Crash()
			s.w.Host("c").Crash()
			_ = s.w.Run(0)
			for _, by := range tt.told {
				at := env.At{Node: by.node, Shard: sh, Generation: 5}
				if by.other {
					at.Shard = 1 - sh
				}
				o.Observe(at, env.Became{Term: uint64(by.node), Role: "leader"})
				o.Observe(at, env.Stepped{Command: shard.Calm{Term: 2}})
			}
			s.lock("after", "b", check.Exclusive(key), 2)
			if err := s.w.Err(); tt.kept != (err != nil && strings.HasPrefix(err.Error(), "G5 lease: ")) {
				t.Errorf("%s, shard %d: %v, want a failure: %v", tt.name, sh, err, tt.kept)
			}
			s.w.Close()
		}
	}
}

// TestAnotherGeneration: what the tables of a generation knew counts no more when the next one has a leader.
func TestAnotherGeneration(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	o := w.history.checks.Observer()
	decided := func(sh int, generation uint64, what shard.DecisionKind, node, token uint64) {
		o.Observe(env.At{Node: 1, Shard: sh, Generation: generation}, shard.Decision{
			Revision: token, What: what, Key: fmt.Sprint("k", sh), Session: shard.SessionID{Node: node, Number: 1}, Number: 1,
			Token: token, Weight: 1, Capacity: 1,
		})
	}
	leads := func(node transport.ID, sh int, generation uint64) {
		o.Observe(env.At{Node: node, Shard: sh, Generation: generation}, env.Became{Term: 2, Role: "leader"})
	}
	queue := func(want ...int) {
		t.Helper()
		for sh, n := range want {
			if holders, waiting := o.Queue(fmt.Sprint("k", sh)); len(holders) != n/10 || len(waiting) != n%10 {
				t.Errorf("shard %d: %q hold, and %q wait, want %02d", sh, holders, waiting, n)
			}
		}
	}
	for sh := range 2 {
		leads(1, sh, 5)
		decided(sh, 5, shard.Entered, 7, 0)
		decided(sh, 5, shard.Admitted, 7, 2)
		decided(sh, 5, shard.Entered, 8, 0)
	}
	queue(11, 11)
	leads(2, 0, 4)
	queue(0, 11)
	decided(0, 4, shard.Resumed, 7, 2)
	leads(2, 0, 4)
	queue(10, 11)
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}

// TestTokensOfAnotherMesh: tokens fall only if the core has forgotten its mesh, and no clock of the next one is past them.
func TestTokensOfAnotherMesh(t *testing.T) {
	const mesh, other = 7, 8
	type seats = []transport.ID
	for _, tt := range []struct {
		name   string
		ahead  time.Duration // of the clock, of the first mesh's token
		founds uint64        // the mesh that the next node is in
		seats  seats         // of its core
		token  uint64        // the next one, below the first mesh's, or equal: zero
		want   string
	}{
		{"a clock that is behind", time.Second, other, seats{2}, 1, ""},
		{"the same token again", time.Second, other, seats{2}, 0, ""},
		{"a clock that is past it", -time.Second, other, seats{2}, 1, "G2 tokens"},
		{"the same mesh", time.Second, mesh, seats{1, 2}, 1, "G2 tokens"},
		{"the same token in the same mesh", time.Second, mesh, seats{1, 2}, 0, "G2 tokens: the same one twice"},
		{"a client's mesh", time.Second, other, seats{3}, 1, "G2 tokens"},
	} {
		s := &story{w: New(Options{}), holds: make(map[string]*tale)}
		s.w.history.Meshes = 2
		a, b := s.w.Host("a").process, s.w.Host("b").process
		a.Inspect(1, &looked{mesh: mesh, seats: seats{1}})
		s.w.observer().Founded(1, mesh)
		first := uint64(b.Wall().Add(tt.ahead).UnixMilli()) << 10
		s.lock("x", "a", check.Want{Key: "k", Weight: 1, Capacity: 2}, first)
		b.Inspect(2, &looked{mesh: tt.founds, seats: tt.seats})
		s.w.observer().Founded(2, tt.founds)
		_ = s.w.Run(time.Second)
		s.lock("y", "b", check.Want{Key: "k", Weight: 1, Capacity: 2}, first-tt.token)
		if err := s.w.Err(); (err != nil) != (tt.want != "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		s.w.Close()
	}
}

func TestRegister(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	r := w.Register("disk")
	first, again := r.Write(5), r.Write(5)
	if !first || !again || r.Write(4) || !r.Write(6) || r.Refused != 1 || r.Writes != 4 || w.Register("disk") != r {
		t.Errorf("register %+v", r)
	}
}

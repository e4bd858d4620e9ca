package mesh

import (
	"context"
	"time"

	"github.com/lockmesh/mesh/shard"
)

// Once runs fn, unless a call with the same key has succeeded within the retention: of all callers in the mesh one runs its fn at a
// time, and those that wait for it, or come later, skip. It reports whether its own fn ran and succeeded. A cron job that is to run
// on one node per tick is
//
//	tick := now.Truncate(time.Hour).Format(time.RFC3339)
//	ran, err := node.Once(ctx, "report/"+tick, 24*time.Hour, report)
//
// A key is 1 to 1024 bytes, any bytes. It cannot be used for anything else until nothing is known of it any more. A success is
// remembered for the retention, 1 s to 365 days, from when it was confirmed, as the key's replicas count; the longest that a caller
// has named counts, also one that skipped. A failure is not remembered: if fn fails, or its node is lost, the next caller's fn
// runs. So fn may start several times, and it must be safe to start it again after it was interrupted: the token of its [Operation]
// fences an earlier one.
//
// Once returns fn's error. Other errors are those of [Operation.End], with which fn may have succeeded though it is not remembered,
// and those of [Resource.Begin], ErrInUse apart; with [Attempts], also ErrFailed. On any error of Begin fn did not run.
//
// When the key's shard has lost its majority and begins again, a success is still remembered if a replica is left that knew of it,
// or a process that ran fn or skipped it lately: each process tells, in each shard, of the latest 128 such successes, open latches and
// arrivals that it knows of. If none is left, fn may run again.
func (n *Node) Once(ctx context.Context, key string, retention time.Duration, fn OpFunc, opts ...OnceOption) (ran bool, err error) {
	if ctx != nil && n.isZero() {
		return false, ErrClosed
	}
	return once(ctx, n.Resource(key), retention, fn, opts)
}

// Once is [Node.Once] in this session.
func (s *Session) Once(ctx context.Context, key string, retention time.Duration, fn OpFunc, opts ...OnceOption) (ran bool, err error) {
	if ctx != nil && s.isZero() {
		return false, ErrClosed
	}
	return once(ctx, s.Resource(key), retention, fn, opts)
}

// opRun is the operation of Once.
const opRun = Op(shard.Run)

// once is Once for what a resource is here: a key, and a session.
func once(ctx context.Context, r *Resource, retention time.Duration, fn OpFunc, opts []OnceOption) (ran bool, err error) {
	if r.err == nil {
		r.err = Retention(retention)(&r.options)
	}
	if r.err == nil {
		r.err = apply(&r.options, opts, "an OnceOption")
	}
	op, err := r.run(ctx, opRun, fn)
	return err == nil && !op.Skipped(), err
}

// OnceOption is an option of [Node.Once].
type OnceOption func(*resourceOptions) error

// Attempts makes a call of Once give up with ErrFailed, without running its own fn, once n functions for the key have failed, or
// were lost with their nodes: 1 to 1,000,000. Default: no limit. The failures of all callers count, whatever their own limits are. The count
// begins again at zero after a success, and when nobody runs a function for the key or waits to: so a caller that finds nobody else always
// runs its fn. It also begins again after the key's shard has lost its majority.
func Attempts(n int) OnceOption {
	return func(o *resourceOptions) error {
		if o.attempts = uint64(max(n, 0)); n < 1 || n > maxAttempts {
			return invalid("Attempts", n, "1 to 1,000,000")
		}
		return nil
	}
}

const maxAttempts = 1_000_000

// Package bubble simulates hosts whose code has goroutines of its own. Package
// simulate wants code that waits in few places; here it may use channels, selects,
// package context and package time as ever. Tests only: it rests on testing/synctest,
// whose clock is virtual and stands still while any goroutine runs.
//
//	func TestWorkers(t *testing.T) {
//		bubble.Test(t, 7, func(b *bubble.Bubble) {
//			b.Host("a").Go("server", func(ctx context.Context) {
//				l, err := bubble.Listen(ctx, ":80")
//				…
//			})
//			done := b.Host("b").Go("client", func(ctx context.Context) {
//				conn, err := bubble.Dial(ctx, "a:80")
//				…
//			})
//			b.Sleep(10 * time.Second)
//			b.Partition([]string{"a"}, []string{"b"})
//			b.Sleep(30 * time.Second)
//			b.Heal()
//			<-done
//		})
//	}
//
// # The gate
//
// synctest alone repeats the times of a run, and not the order in which goroutines
// run. So what goroutines do to each other through this package (bytes, connections,
// deadlines of connections, [Sleep], [Go], crashes) is queued at a gate. It waits until
// every goroutine is blocked, and then lets one of these things happen, chosen by the
// seed among those that are due. [Bubble.Hash] is a hash over all of them.
//
// # What user code must do for equal runs
//
// Equal seeds give equal runs, and equal hashes, as long as the code decides nothing by
// chance or by who is faster:
//
//   - Each goroutine that uses this package has a ctx of its own, from [Host.Go] or [Go].
//     A plain go statement is fine for those that only compute, or read or write a
//     connection that no other goroutine reads or writes.
//   - Goroutines that wake at the same instant by time.Sleep or a timer run side by side,
//     and so do those whom one close of a channel, one Broadcast or one end of a context
//     wakes. That is fine unless they share something: then they wait with [Sleep], for
//     a time or for zero, and take turns.
//   - A select with several cases ready, the order of a map, sync.Pool and the global
//     sources of randomness choose as they like: [Chance] draws from the seed. TLS draws
//     its keys, so that hashes differ.
//
// A hash that differs for equal seeds tells that one of these was forgotten. It cannot
// tell where.
//
// # What is not covered
//
// A mutex is not a thing to wait on: the gate and the clock wait for whoever waits for
// one, so no lock may be held over a call that waits for others. The same is true of
// reads of real files and sockets. Goroutines cannot be killed or stopped: Crash ends
// their contexts and all that they had in the network, Pause holds up the network and
// [Sleep], and what they do beside that goes on. There are no packets (UDP), no names
// but those of hosts, and no faults of clocks or disks.
//
// # A mesh in a bubble
//
// mesh.JoinContext with a ctx that [Host.Go] gave makes a node that lives on the host:
// the real thing with its goroutines, its transport and its gossip, by the bubble's
// clock and over its network. Close it before its goroutine ends, but not while others
// are to have locks: to them it is a crash, and without a majority they wait for ever.
// Such nodes draw from global sources, so runs with them are in virtual time and under
// the same faults, but not equal: for that, use package simulate.
package bubble

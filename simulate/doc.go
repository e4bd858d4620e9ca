// Package simulate runs a mesh, and the code that uses it, in a simulated world:
// virtual time, a network with every fault that networks have, and one seed that
// decides all of it. A run that fails can be repeated from its seed, on any machine,
// bit for bit.
//
// Read in this order:
//
//   - the actor, your code: [Host.Go], [Sleep], [Wait], [Go], [WithTimeout], [Wall];
//   - the scenario, what happens to it: [World], [Net], [Host], [Clock], [World.Chaos],
//     and what must hold: [World.Always], [World.Sometimes], [History], [Register];
//   - the tooling: package search plays a scenario under many seeds, and makes failures
//     small; package timeline shows a run as a page or a text.
//
// GUIDE.md, beside the code, leads through all three with an example.
//
// A [World] has hosts. Actors run on a [Host]: they are ordinary blocking code, such as
// yours. A node that an actor joins with the actor's context is part of the world, and
// is the real thing: the same code, public API and codecs as in production, over the
// simulator's clocks and connections.
//
//	w := simulate.New(simulate.Options{Seed: 7, Timeline: true})
//	defer w.Close()
//	for _, name := range []string{"a", "b", "c"} {
//		w.Host(name).Go("worker", func(ctx context.Context) {
//			node, err := mesh.JoinContext(ctx, []string{"a:7300", "b:7300", "c:7300"}, mesh.WithBind(":7300"))
//			…
//			l, err := node.Lock(ctx, "orders/42")
//			simulate.Sleep(l.Context(), time.Second) // the work
//			err = l.Unlock(ctx)
//		})
//	}
//	w.At(10*time.Second, func() { w.Net.Partition([]string{"a"}, []string{"b", "c"}) })
//	w.At(30*time.Second, w.Net.Heal)
//	if err := w.Run(time.Minute); err != nil {
//		t.Fatal(err)
//	}
//
// # What actors must know
//
// Only one actor runs at a time, and the world stands still while it does. So an
// actor waits with [Sleep], [Wait], [Receive], [Host.Do] and the calls of its node. It never waits
// with a channel, a select, a sync.WaitGroup or time.Sleep: nothing could wake it. A
// watchdog reports an actor that tries, and one that never waits.
//
// An actor reads clocks with [Wall], starts other actors with [Go], and makes deadlines
// with [WithTimeout]. context.WithCancel and context.WithValue work as usual;
// context.AfterFunc does not, since it starts a goroutine. An actor must hold no mutex
// while it waits. If the order of a map, the real time or a source of randomness other
// than [World.Rand] decides what an actor does, equal seeds no longer give equal runs.
//
// # Faults and proofs
//
// Faults are methods of [World.Net], of a [Host] and of its clock. Call them from
// [World.At], from actors of [World.Go], or between two calls of Run. Each is one verb:
//
//   - the network: Partition, PartitionOneWay, Isolate, Swizzle, Heal; Hold, Release,
//     InFlight, Rule for single messages; SetLink, SetLinkOneWay, SetLinks; Reset; Balance
//   - hosts: Crash, PowerOff, Restart, Leave; Pause, Resume; Slow, Stall; BreakReplica
//   - clocks: SetRate, Wave, Noise, Step
//   - failure detectors: DelayGossip, SilenceGossip, RestoreGossip, LieDead
//   - the end of all faults, for a World: HealAll; HealCore and HealSomeCore, after which the rest stays broken
//
// A verb that names a host or a loop that does not exist, or a number out of its range, panics with
// a text that names it; within Run that fails the run. Crashing a host that is down,
// resuming one that runs, and ending a fault that has not begun do nothing.
//
// [World.Serving], [World.Queue], [Net.Reaches], [Net.InFlight] and [World.State] tell how
// the world stands: with [World.RunUntil] a scenario can wait for the right moment to break
// something.
//
// [World.Chaos] draws faults from the seed, as the world's [Profile] has them.
// [World.History] takes down what the callers of nodes are told and believe, and judges
// it against the mesh's promises: exclusion, fencing tokens, order, leases, an end to
// every call, nothing left behind. [Lockers] are a load, and demand at the end that every
// key can be locked again. State the promises of your own code with [World.Always] and
// [World.Sometimes]. A [Register] is a resource that refuses old tokens.
//
// # Many worlds
//
// A scenario is a function of a World. [Play] plays it once. Package search plays it under
// many seeds until one fails, makes the failure small, and names it by one line that
// repeats it. Sizes that a scenario draws with [World.Pick] are parameters, and so are
// those of the profile. Each parameter has a source of chance of its own, can be set
// (Options.Set), and is lowered when a failure is made small. The faults of a storm have
// names, and can be left out one by one (Options.Only).
//
// Package drill is a scenario for the mesh itself. Package story plays scenarios that are
// written as text.
package simulate

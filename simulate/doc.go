// Package simulate runs a mesh, and the code that uses it, in a simulated world:
// virtual time, a network with every fault that networks have, and one seed that
// decides all of it. A failure that one seed shows comes again with that seed, on
// any machine, bit for bit.
//
// A [World] has hosts. On a [Host] run actors: ordinary blocking code, such as
// yours. A node that an actor joins with the actor's context is born into the
// world, and is the real thing: the same core, public API and codecs as in
// production, over the simulator's clocks and connections.
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
// actor waits with [Sleep], [Wait] and the calls of its node, and never with a
// channel, a select, a sync.WaitGroup or time.Sleep: nobody could wake it. A
// watchdog names the actor that tries, and one that never waits. It reads clocks
// with [Wall], starts others with [Go], and makes deadlines with [WithTimeout];
// context.WithCancel and context.WithValue work as ever, context.AfterFunc does not,
// for it starts a goroutine. No mutex may be held while waiting. Where the order of a map, the
// real time or a source of randomness other than [World.Rand] decides what an actor
// does, the same seed no longer means the same run.
//
// # Faults and proofs
//
// Faults are methods of [World.Net], of a [Host] and of its clock, to be called from
// [World.At], from actors of [World.Go], or between two calls of Run. Each is one verb:
//
//   - the network: Partition, PartitionOneWay, Isolate, Swizzle, Heal; Hold, Release,
//     InFlight, Rule for single messages; SetLink, SetLinkOneWay, SetLinks; Reset
//   - hosts: Crash, PowerOff, Restart, Leave; Pause, Resume; Slow, Stall; BreakReplica
//   - clocks: SetRate, Wave, Noise, Step, SetOffset
//   - failure detectors: DelayGossip, SilenceGossip, RestoreGossip, LieDead
//   - the end of all, for a World: HealAll; HealCore and HealSomeCore, after which the rest stays broken
//
// A verb that names a host that does not exist, or a number out of its range, panics with
// a text that names it: within Run that fails the run. To crash what is down, to resume
// what runs, or to end what has not begun is no mistake, and does nothing.
//
// How the world stands is told by [World.Serving], [World.Queue], [Net.Reaches],
// [Net.InFlight] and [World.State]: a scenario can wait, with [World.RunUntil], until it is
// worth breaking.
//
// [World.Chaos] draws faults from the seed, as the world's [Profile] has them.
// [World.History] takes down what the callers of nodes are told and believe, without a
// word of theirs, and judges it against the mesh's promises: exclusion, fencing tokens,
// order, leases, an end to every call, nothing left behind. [Lockers] are a load that
// demands at the end that everything can be locked again. What your own code promises you
// say with [World.Always] and [World.Sometimes];
// a [Register] is a resource that refuses old tokens.
//
// # Many worlds
//
// A scenario is a function of a World. Package search plays it under many seeds, in a test or anywhere,
// until one fails, makes the failure small, and names it by one line that repeats it. Sizes that a
// scenario draws with [World.Pick] are parameters, as are those of the profile: each has a source of its
// own, can be set (Options.Set), and is lowered in shrinking. The faults of a storm have names, and can be
// left out one by one (Options.Only). [Play] plays one world. With Options.Timeline a world keeps an
// account of itself: see package timeline.
//
// Package drill is a scenario for the mesh itself, and story has scenarios as text.
package simulate

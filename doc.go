// Package mesh lets the processes of a fleet lock keys among themselves. Every process
// embeds a node; there is no server to run.
//
//	node, err := mesh.Join([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})
//	if err != nil {
//		return err
//	}
//	defer node.Close()
//
//	lock, err := node.Lock(ctx, "orders/42")
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock(ctx)
//	return bill(lock.Context(), lock.Token())
//
// At most one [Lock] of a key is held at a time, in the whole mesh, as long as clocks run
// at rates that are wrong by 1 % at most. Every grant carries a token that is larger than
// those before it ([Lock.Token]): a resource that refuses smaller tokens than it has seen
// is safe even where clocks are not. Who loses a lock, for example because its machine
// was cut off, is told before anybody else can have it: [Lock.Context] ends with the
// cause [ErrLost].
//
// Beside locks there are read locks ([Node.RLock]) and semaphores ([Node.Acquire]). All
// are served first come, first served.
//
// Every function that waits takes a context ([Join] has [JoinContext]), which governs the
// wait and never the hold; only that of Do ([Node.Do]) also governs the work. All functions
// and methods may be called from several goroutines at once.
package mesh

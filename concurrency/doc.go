// Package concurrency has the shape of etcd's package go.etcd.io/etcd/client/v3/concurrency: sessions, mutexes, lockers and elections
// of the same names, on a node of a mesh in place of a client of etcd. It is for programs that were written for etcd. New programs are
// better served by package mesh itself, where a lock is a value with a context of its own.
//
// # Moving a program
//
// Both imports and the constructor of the client change:
//
//	import clientv3 "go.etcd.io/etcd/client/v3"                     // import "github.com/lockmesh/mesh"
//	import "go.etcd.io/etcd/client/v3/concurrency"                  // import "github.com/lockmesh/mesh/concurrency"
//	cli, err := clientv3.New(clientv3.Config{Endpoints: endpoints}) // cli, err := mesh.Join(core)
//
// The rest stays, if it uses what is here:
//
//	defer cli.Close()
//	s, err := concurrency.NewSession(cli)
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	m := concurrency.NewMutex(s, "/my-lock")
//	if err := m.Lock(ctx); err != nil {
//		return err
//	}
//	defer m.Unlock(ctx)
//
// Close of a node that keeps locks for others is like a crash of one of etcd's servers: such a process ends with [mesh.Node.Leave].
//
// Types of etcd's client that a program names have their counterparts here: clientv3.LeaseID is [LeaseID], clientv3.Cmp is [Cmp],
// clientv3.GetResponse is [GetResponse], mvccpb.KeyValue is [KeyValue], and etcdserverpb.ResponseHeader is [ResponseHeader].
//
// # What a session does otherwise
//
//   - Its TTL is the node's lease TTL by default, 10 s unless set, and not 60 s. A TTL above the mesh's MaxTTL, also 10 s unless set,
//     is mesh.ErrInvalidOption: see [WithTTL]. So is one of less than a second, for which etcd takes the default.
//   - [NewSession] sends nothing: the lease begins with the first lock.
//   - A lease is not used again by its number: there is no WithLease. A process that starts again waits until the locks of the
//     one before are free, for a TTL at most.
//   - A session that was orphaned has ended. Close after [Session.Orphan] does not release its locks.
//   - A session that cannot renew its lease ends before another one can get its locks, and calls that wait return
//     ErrSessionExpired at once.
//   - An operator may break one lock or leadership of a session (mesh.Node.Break), and the session goes on. The calls of a mutex or election that
//     had it then return ErrSessionExpired or ErrElectionNotLeader until Unlock or Resign, and Done of the session is not closed.
//   - Close of a session that has expired returns nil.
//
// # What a mutex does otherwise
//
//   - Its name is a key of the mesh, and not a prefix: "jobs" and "jobs/1" have nothing to do with each other. In etcd, a
//     mutex of "jobs" also waits for holders of "jobs/1".
//   - As in etcd, a session that holds a lock can lock all of its mutexes of that name at once. Here the lock is released when all of
//     them are unlocked; in etcd, when one of them is.
//   - If the first of two calls of a session that wait for a lock gives up, the second goes on, at the end of the queue.
//   - [Mutex.Unlock] says if the lock was lost: ErrSessionExpired. In etcd it returns nil then. With a [NewLocker], that is a
//     panic.
//   - A lock outlives an Unlock whose confirmation does not come, for its lease at most: mesh.ErrUnconfirmed. The request to unlock is
//     repeated without another call.
//   - If ctx ends, Lock returns an error that unwraps to ctx.Err(), and says who holds the lock: use errors.Is, not ==.
//     ErrLocked, ErrSessionExpired and ErrLockReleased are returned as they are.
//   - [Mutex.TryLock] may return mesh.ErrQuiet, after the whole core has restarted, for example: perhaps nobody holds the lock, but it is not
//     granted yet.
//   - [Mutex.IsOwner] is no part of a transaction, as a mesh keeps no data: see [Cmp].
//   - [Mutex.Key] ends with the fencing token, not with the lease's number. That of a mutex that is not locked is "", and never "\x00".
//   - A mutex may be used by several goroutines.
//
// # What an election does otherwise
//
//   - Its name is a key of the mesh, which cannot be a mutex at the same time: mesh.ErrCapacityMismatch.
//   - A value has at most 4096 bytes.
//   - [Election.Campaign] never returns nil to a session that has expired while it waited. In etcd it may.
//   - If the session leads already, and Campaign cannot proclaim the value, it goes on leading. In etcd it resigns then.
//   - [Election.Resign] says if the leadership was lost: ErrElectionNotLeader. In etcd it returns nil then.
//   - [Election.Key] ends with the fencing token, not with the lease's number. It is "" until the election leads, and once it does
//     not lead any more; see [Election.Key] for what it is after [ResumeElection].
//   - [ResumeElection] goes on with a leadership of the same session only. A process that starts again campaigns anew.
//   - [Election.Observe] ends with its context or the node, and with nothing else. It does not end if the mesh cannot be reached: while
//     nobody can say who leads, it sends nothing.
//   - [KeyValue].Lease is zero for the leader of another session. [KeyValue].ModRevision orders the values of one leader, and
//     CreateRevision the leaders.
//   - [Election.Leader] may return mesh.ErrQuiet, as TryLock may.
//
// # What is not here
//
// Transactions (STM and its like) need data that lasts, and the methods of clientv3.Client are not those of a node.
//
// This package uses goroutines and channels of its own for Observe, for [WithContext], and where several goroutines share a session: such
// programs do not run in a simulated world.
package concurrency

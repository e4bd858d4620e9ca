// Package lockhttp makes a node's locks and resources usable over HTTP, for processes in other languages, and has a client in Go
// that uses them as such a process would.
//
//	http.Handle("/", lockhttp.Handler(node, lockhttp.Options{}))
//
// # Guests
//
// A caller over HTTP is a guest of the mesh, with a name of its own, its node_id: 1 to 255 bytes, unique among all callers of all
// servers. A guest has a lease. Each POST, PUT and DELETE of the guest renews it, and so does each GET that carries its node_id. Nothing else
// does, an open connection neither. Every answer says for how long it lasts, lease_ms, which the guest counts from the moment at which it sent
// the request. When that time is over without another request, the guest must stop: what it held is free soon
// after, what it ran has failed, and its places in queues are gone.
//
// Any server carries any guest. The first request to another server moves the guest there, with all that it holds and waits for; as
// long as the lease lasts, nothing is lost when a server ends. But a move costs a message to every shard of the mesh: a guest
// uses one server, and another one only if that does not answer. A load balancer must be sticky by node_id.
//
// A guest that comes back to a server which it has left is moved again, and told what has become of its requests meanwhile: before a
// server answers, the shards confirm that it carries the guest. So each answer costs a message to the leaders of two shards at
// least, and comes only while the guest's own shard, and those in which it has something, have a majority. If other servers take the
// guest away each time before one has answered, or what it asks about changes each time, that is 503 with the code moved.
//
// A lease_ms of zero, or none, extends nothing: an earlier lease ends when it was to end. So it is while a shard that has lost
// its majority is quiet (P27 in PROTOCOL.md): its servers cannot know then what a guest holds. A guest that names all that it holds, with
// its tokens, by a POST /renew with "locks", is told a lease at once. What it has not named is "waiting", or "none", until the quiet
// time is over: as long as there is no lease_ms, neither says that it is lost. While a guest sends such a renewal it should have no other request under
// way: an answer to that may give it a lock which the renewal has not named, and which the lease does not cover.
//
// An operator may break something that a guest has (mesh.Node.Break). From then on its answers have no lease_ms, and "broken" names what that is: an
// answer about something else would let the guest believe in it as well. Questions about it are answered with the code broken. The guest stops what
// it does under that, and says so by a POST /unlock, whose answer is the code broken. Then there is a lease_ms again. A guest that does not is
// told one again a whole lease later: its last one is over by then, and it has stopped everything.
//
// As long as one shard has no majority, no guest can move to another server, and new guests cannot come: 503 with the code no_quorum.
//
// # Requests
//
// A request is named by its node_id, its type and its resource_id; and by a request_id of 1 to 125 bytes beside the type, if a
// guest wants the same thing twice at a time. A request that is sent again while it waits or runs is not made again: it is answered
// with what has become of it by now, and with the same token. Once it has ended, one with a request_id is still answered so; one named
// by its type is made anew. So a POST /lock whose answer got lost can be repeated, and so can
// a POST /unlock. What has ended is known until the guest's lease ends, but for each resource_id only the
// last request of a type, and of each guest the latest 64 in a shard.
//
//	POST   /lock     asks for something. Body: Request. Answer: State
//	GET    /lock     what has become of it: ?node_id= &type= &resource_id= &request_id= &wait_ms=. Answer: State
//	DELETE /lock     leaves the queue; same parameters. Answer: State, "none", or "done" if it has ended before; 409 if it is running
//	POST   /unlock   ends it: gives a lock back, or says that an operation has succeeded or, with "failed": true, that
//	                 it has not. Body: Request. Answer: State, "done"
//	POST   /renew    renews the lease. Body: node_id, and optionally "locks": all that the guest holds, Requests with their tokens, which are
//	                 looked after as by GET /lock. If the shard and the server have both lost what they knew, a guest gets its locks back in this
//	                 way. Answer: Renewal
//	POST   /release  ends the use of a resource that its user has. Body: node_id, resource_id, user
//	GET    /refs     the users of a resource: ?resource_id=. Answer: Refs
//	PUT    /locks/{key}  POST /lock of the type "lock", or another one: ?node_id= &type= &n= &capacity= &wait_ms=
//	GET    /locks/{key}  GET /lock of it
//	DELETE /locks/{key}  POST /unlock of it
//
// The types are "lock", "rlock", "semaphore" (with n of capacity permits), and the operations "pull", "update" and "delete" on a resource,
// whose meaning is that of mesh.Resource. After a pull, and after one that is skipped, the guest's user uses the resource until
// POST /release; such a use outlives the guest's lease unless "durable" is false.
//
// With wait_ms the answer comes when the state is another one than "waiting", or after that time, of which a third of the lease is
// the most. A poll that is closed keeps its place in the queue until the lease ends.
//
// # Errors
//
// An answer that is no success is an [Error]:
//
//	400  invalid     the request cannot be read, or something in it is out of range
//	403  not_locked  the guest does not hold it, and no holder is known
//	     not_holder  another caller does
//	     lost        the guest held it, and has lost it
//	     broken      the guest held it, and an operator has broken that
//	409  in_use      the resource is used; with the users
//	     locked      a "try" would have to wait
//	     mismatch    the key is in use as something else, or the request_id was
//	     running     the request has left the queue: it holds the key, or its operation runs
//	503  no_quorum   no majority of the replicas answers; retry after Retry-After seconds
//	     quiet       nothing is granted yet, after a loss of majority; a "try" is refused
//	     leaving     the server is about to end; use another one
//	     crowded     too many wait for it, or use it
//	     moved       the guest uses other servers at the same time
//
// After 503 a request can be sent again, also one with a request_id.
//
// The handler does not authenticate callers. Each of them can end the locks of every guest: serve it on a network, or behind a proxy, that
// only the fleet reaches.
package lockhttp

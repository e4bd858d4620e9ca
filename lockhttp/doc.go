// Package lockhttp makes a node's locks and resources usable over HTTP, for processes in other languages, and has a client in Go
// that uses them as such a process would.
//
//	http.ListenAndServe("127.0.0.1:7380", lockhttp.Handler(node, lockhttp.Options{}))
//
// # Guests
//
// A caller over HTTP is a guest of the mesh, with a name of its own, its node_id: 1 to 255 bytes, unique among all callers of all
// servers. A guest has a lease. Each POST, PUT and DELETE of the guest renews it, and so does each GET that carries its node_id. Nothing else
// does, not even an open connection. Every answer says for how long the lease lasts, by lease_ms, which the guest counts from the moment at
// which it sent the request. When that time is over without another request, the guest must stop: what it held is free soon
// after, what it ran has failed, and its places in queues are gone.
//
// Any server carries any guest: it keeps the guest's session with the mesh. The first request to another server moves the guest there, with
// all that it holds and waits for; as long as the lease lasts, nothing is lost when a server ends. But a move costs a message to every shard
// of the mesh: a guest should use one server, and another one only if the first does not answer. A load balancer must be sticky by node_id.
//
// A guest that comes back to a server which it has left is moved again, and told what has become of its requests meanwhile: before a
// server answers, shards confirm that it carries the guest: the guest's home shard, which follows from its node_id and knows its server,
// and those that the answer is about. So each answer costs a message to the leader of each of these shards, and comes only while they, and
// those in which the guest has something, have a majority. If other servers take the guest away each time before one has answered, or what
// it asks about changes each time, the answer is 503 with the code moved.
//
// A lease_ms of zero, or none, extends nothing: an earlier lease ends when it was to end. Answers are so while a shard that has lost
// its majority is quiet (see mesh.WithMaxTTL): no server knows then what a guest holds in it. A guest that names all that it holds, with
// its tokens, by a POST /renew with "locks", gets a lease_ms at once. What it has not named is "waiting", or "none", until the quiet
// time is over: as long as there is no lease_ms, neither says that it is lost. While a guest sends such a renewal it should have no other
// request under way: the answer to that other request may give it a lock which the renewal has not named, and which the lease does not cover.
//
// An operator may break something that a guest has (mesh.Node.Break). From then on answers to the guest have no lease_ms, whatever they are
// about: a lease covers all that a guest has, also what is broken. Their "broken" names that, except in answers to POST /release and
// GET /refs. Questions about it are answered with the code broken. The guest stops what it does under the broken lock or operation, and says so
// by a POST /unlock, whose answer has the code broken, too. After that, answers have a lease_ms again. A guest that sends no such POST /unlock
// gets a lease_ms again a whole lease later: its last one is over by then, and it has stopped everything.
//
// As long as one shard has no majority, no guest can move to another server, and new guests cannot come: 503 with the code no_quorum.
//
// # Requests
//
// A request is named by its node_id, its resource_id and its type; or, in place of the type, by a request_id of 1 to 125 bytes, if a
// guest wants the same thing twice at a time; the type must be given all the same. The same request_id with another type for the same
// resource_id is a mismatch. A request that is sent again while it waits or runs is not made again: it is answered
// with what has become of it by now, and with the same token. Once it has ended, one with a request_id is still answered so; one named
// by its type is made anew. So a POST /lock whose answer got lost can be repeated, and so can
// a POST /unlock. What has ended is known until the guest's lease ends; but of the requests named by their type only the
// last one for each type and resource_id, and of each guest only the latest 64 in a shard.
//
//	POST   /lock     asks for something. Body: Request. Answer: State
//	GET    /lock     what has become of it: ?node_id= &type= &resource_id= &request_id= &wait_ms=. Answer: State
//	DELETE /lock     leaves the queue; same parameters. Answer: State, "none", or "done" if it has ended before; 409 if it is running
//	POST   /unlock   ends it: gives a lock back, or says that an operation has succeeded or, with "failed": true, that
//	                 it has not. Body: Request. Answer: State, "done"
//	POST   /renew    renews the lease. Body: node_id, and optionally "locks": all that the guest holds, as up to 4096 Requests with their tokens.
//	                 The answer says what has become of each, as GET /lock does. If the shard and the server have both lost what they knew, a
//	                 guest gets its locks back in this way. Answer: Renewal
//	POST   /release  ends the use of a resource that its user has. Body: node_id, resource_id, user
//	GET    /refs     the users of a resource; some may be missing while its shard is quiet: ?resource_id=. Answer: Refs
//	PUT    /locks/{key}  POST /lock of the type "lock", or another one: ?node_id= &type= &n= &capacity= &try= &wait_ms=
//	GET    /locks/{key}  GET /lock of it
//	DELETE /locks/{key}  POST /unlock of it: ?node_id= &type= &token=
//
// In a key that begins with "/", or has "//" in it, or "." or ".." between two slashes, before the first one or after the last, write each / as
// %2F; and for the keys "." and ".." use /lock and /unlock. The code is "invalid" otherwise. Do not put an http.ServeMux in front of the
// handler: it would redirect such a path to another key. Many clients shorten it by themselves before they send it.
//
// The types are "lock", "rlock", "semaphore" (with n of capacity permits), and the operations "pull", "update" and "delete" on a resource,
// whose meaning is that of mesh.Resource. Everything that is asked about a semaphore must name n and capacity, a GET or an unlock as well.
// After a pull that succeeds or is skipped, the guest's user uses the resource until
// POST /release; such a use outlives the guest's lease unless "durable" is false.
//
// With wait_ms, up to 3,600,000, the answer comes when the state is another one than "waiting", or after that time, but after a third of the
// lease at the latest. Without it the server waits 100 ms at most for another state; for a "try", 3 s. A request whose
// connection the guest closes keeps its place in the queue until the lease ends. A body has at most 1 MiB.
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
//	     mismatch    the key is in use as something else, or the guest has asked for something else by this request_id or type
//	     running     the request has left the queue: it holds the key, or its operation runs
//	503  no_quorum   no majority of the replicas answers, or the server cannot serve yet; retry after Retry-After seconds
//	     quiet       the shard is quiet, and grants nothing yet; a "try" is refused
//	     leaving     the server is about to end; use another one
//	     crowded     65,536 requests wait for it, or the resource has as many uses
//	     moved       the guest uses other servers at the same time
//
// After 503 a request can be sent again, also one with a request_id.
//
// The handler does not authenticate callers. Each of them can end the locks of every guest: serve it on a network, or behind a proxy, that
// only the fleet reaches.
package lockhttp

// Package story plays scenarios that are written as text: what happens to a small mesh,
// which caller wants which lock, and what must come of it. A story is true for every seed; what
// it leaves open, above all how long each message takes, the seed decides.
//
//	# Promise: G5, a holder that is cut off stops before the key is handed on.
//	# Method:  ann holds k and is cut off; bob waits.
//
//	mesh owner heir third; clients ann bob; ttl 3s
//	----
//	founded; owner leads
//
//	ann locks k
//	bob asks for k
//	----
//	ann holds k
//
//	isolate ann
//	until bob holds k, within 6s
//	ann must have lost k before bob had it (G5)
//
// [Parse] reads a story, and its errors name file and line. [Story.Play] plays it, in a
// world of package simulate over real nodes, and says what failed: a checker's complaint,
// a sentence that did not come true, or an answer that is not the one written down. When
// the story is told, all faults end, every caller unlocks or gives up, and every call must
// end in time; then the whole history is judged.
//
// # Paragraphs
//
// A story is paragraphs with blank lines between them. A paragraph is sentences, one to a
// line, carried out in their order; below ---- stands the answer: what the sentences said.
// A paragraph whose sentences say nothing has no ----. Lines that begin with # are
// comments. The first paragraph is the head: fields, "# Name: text", that may go on for
// several lines.
//
// Every answer must be the same for every seed. What takes a message or two is not there at
// once, and of two requests that are made at the same moment either may come first: let a
// little time pass in between, or wait with "until" before asking.
//
// # The mesh
//
// The first sentence makes the mesh; what is in brackets may be left out.
//
//	mesh {hosts}[; clients {hosts}][; shards {n}][; replicas {n}][; ttl {time}][; max ttl {time}][; founded later]
//
// The hosts named first found the mesh together and hold its replicas: 3, or as many as
// "replicas" says (1, if they are fewer than 3 and there are clients). The first leads shard
// 0, the second follows it there, then the third. Clients join them, and ask; any host may.
// Defaults: 1 shard, ttl 3s, and a max ttl that equals the ttl. The sentence waits until all
// are there, and a young mesh grants (P27). With "founded later" it makes hosts only, so that
// faults may come before the founding:
//
//	start {hosts}[ with seeds {hosts:seeds}]
//	the mesh settles[ within {time}]
//
// "start all" starts all; each lists the founders as its seeds, or those that are named. A key
// is any word. "k@5" is a key of shard 5. A time is a duration, "200ms", or a range from which
// the seed draws, "1s to 3s". Hosts are one name or several: "ann, bob and eve".
//
// # Locks
//
//	{who} locks {key}[…]
//	{who} reads {key}[…]
//	{who} takes {n} of {n:of} permits of {key}[…]
//	{who} tries {key}[…]
//	{who} tries to read {key}[…]
//	{who} tries for {n} of {n:of} permits of {key}[…]
//	{who} asks for {key}[…]
//	{who} asks to read {key}[…]
//	{who} asks for {n} of {n:of} permits of {key}[…]
//
// Those that ask go on beside the story and say nothing. The others wait until the call
// returns, or for 10s, and say what came of it: "ann holds k", "ann waits for k", "ann does
// not get k: locked". In place of […] may stand, in this order:
//
//	[ for {time:hold}][ in {name:session}][ as {name:as}][ with patience {time:patience}]
//
// "for" is MaxHold; "in" a session that was opened; "as" a name by which later sentences
// tell calls of one host for one key apart (without it they mean the latest); "with
// patience" a deadline.
//
//	{who} unlocks {key}
//	{who} hastily unlocks {key}
//	{who} begins to unlock {key}
//	{who} gives up {key}
//	{who} extends {key} by {time}[ with patience {time:patience}]
//
// To unlock hastily is not to wait for the answer. To begin to is to say nothing,
// and go on. To give up ends a call that waits. All but "begins" say what came of it: "ann
// has unlocked k", "ann unlocks k: unconfirmed", "ann has lost k".
//
//	{who} enters {key} again as {name}
//	{who} forgets that it has {key}, and locks it as {name}
//
// Both call by a context that holds the key: the first with Reentrant, the second without.
//
//	{who} asks for {n} keys[ with {n:bytes} bytes each]
//	{n} callers of {who} ask for {key}
//	{who} opens session {name}[ with ttl {time}]
//	{who} closes session {name}
//	{who} writes to {name} under {key}[, {time} on its way]
//
// The first two are load: so many keys, "one-of-many-0" and so on, each with a value of so
// many bytes; and so many callers that ask for one key. The last shows a resource the token of
// a hold, whether it is still one or not: "disk takes the write of ann", "disk refuses the
// write of ann". The resource refuses tokens lower than the highest that it has seen. It is
// heard in the paragraph in which it arrives.
//
// # What must be so
//
//	until {what}[,] within {time}
//	until {what}
//	throughout {time}, {what}
//
// "Until" waits for a condition, and fails the story if it does not come about in time: in
// 2 minutes, if nothing is said. "Throughout" fails as soon as it is not so. And every
// condition can be demanded of the moment with "must":
//
//	ann must hold k (G5)
//	bob must not hold k, and k must not be free
//
// What stands in brackets at the end of such a sentence is the promise that would be broken:
// the failure begins with it, as a checker's does. Without it, that of "until" begins with
// "G6 bound", and others with "story". The conditions:
//
//	{who} holds {key}
//	{who} waits for {key}
//	{who} has heard of {key}
//	{who} has heard of {key} before {who:other}
//	{who} has lost {key}
//	{who} has lost {key} before {who:other} had it
//	{who} knows that {key} is lost
//	{who} has held {key} for at most {time}
//	{who} has unlocked {key}
//	{who} has given up {key}
//	{key} is free
//	{n} wait for {key}
//	{who} leads[ shard {n}]
//	{who} is in the mesh
//	{who} knows {n} members
//	all is well
//	session {name} is over
//	{messages} are sent
//	at most {n} {messages} are sent
//
// "Holds" goes by belief: the call returned, and its context lives. "Knows that a key is lost"
// is what Lock.Err says at this very moment. "Is free" and "wait for" go by the shard's table.
// "Somebody leads" and "nobody leads" name no host. "All is well" when every host that is up has
// joined, and says that every shard is fully replicated. "Are sent" looks from the beginning of
// its sentence on, and "at most" counts from there. Each condition can be denied: "does not
// hold", "is not free", "has not lost". Several are joined by ", and ".
//
// # Questions
//
//	who holds {key}
//	who waits for {key}
//	what of {who} and {key}
//	what of {who}
//	who leads[ shard {n}]
//	the tokens of {key}
//	the health of {who}
//
// "Who holds" goes by belief, "who waits" by the table, in the order of the queue. "What of
// dan" asks whether dan is in the mesh, and if not, why. The tokens are compared in the order in
// which they were told: "ann < bob < ann".
//
// # Time
//
//	pass {time}
//	after {time}: {what}
//	every {time}: {what}
//	when {messages} are sent: {what}
//
// The last three carry another sentence out beside the story: later, again and again until
// the story ends, or once as soon as such a message is sent. What it says is not heard.
//
// # Faults
//
//	partition {what}
//	isolate {who}
//	cut {hosts} -> {hosts:to}
//	cut {hosts} - {hosts:to}
//	heal
//	heal all
//	crash {who}
//	power off {who}
//	restart {who}
//	pause {who}
//	resume {who}
//	slow {who} {n} times
//	reset {who} - {who:other}
//	{who} calls {who:other} dead
//	the clock of {who} gains {n} ppm
//	the clock of {who} loses {n} ppm
//	the clock of {who} steps ahead by {time}
//	the clock of {who} steps back by {time}
//	the clock of {who} is noisy by {n} ppm
//	silence the gossip of {who}
//	restore the gossip of {who}
//	delay the gossip of {who} by {time}
//	stall the shard loop of {who} for {time}
//	stall the loops of {who} for {time}
//	the replica of {who} stops[ in shard {n}]
//	swizzle {hosts} for {time}
//	link {who} - {who:other}: {what}
//	links: {what}
//	depose the leader[ of shard {n}]
//
// "Partition owner ann | heir | the rest" makes groups that hear nothing of each other. "Cut
// ann -> owner" cuts one way, and "ann - owner" both. "Heal" ends cuts, and "heal all" every
// fault but what is done to messages. Other hosts notice a crash at once, and "power off" only
// by silence. "Restart" begins the next incarnation, which joins under the old name. "Reset"
// breaks connections, which may be made again. "Silence the gossip" keeps from a host what
// gossip tells of others. "Stall the shard loop" stops the loop that has a node's
// shards, and "stall the loops" the whole node, while mail comes in. A replica that stops does so as if it
// had panicked; its node lives. "Swizzle" cuts hosts off one after another, and lets them in
// again in another order. "Depose" cuts the leader off until another one serves, and heals. A
// link is "latency 6ms, jitter 1ms, loss 10%, duplicates 5%, reorders 5%, bandwidth 20000,
// queue 65536", or some of that, in both directions.
//
// # Messages
//
//	drop {messages}[, {n} times]
//	hold {messages}[, {n} times]
//	duplicate {messages}[, {n} times]
//	garble {messages}[, {n} times]
//	delay {messages} by {time}[, {n} times]
//	let {messages} through
//
// Messages are named by their kind, then what they are about, then "from" hosts and "to"
// hosts: "unlock replies of k from owner to ann". "Let … through" ends the sentences about the
// same messages, and releases all that is held on their way; "let all through" ends all such
// sentences. A garbled message lacks its last byte: its receiver ends the connection, which may be
// made again. A frame may carry several messages: the first one that a sentence is about decides
// for the whole frame. The kinds:
//
//	everything, requests, lock requests, unlock requests, cancels, fixes, closes,
//	replies, lock replies, grants, unlock replies, cancel replies, fix replies, close replies,
//	redirects, renewals, renewal answers, announcements, passed on messages,
//	replication, appends, empty appends, append answers, heartbeats, heartbeat answers, votes,
//	expiries, silences, promotions, conclusions, snapshots, snapshot answers, orders, removals,
//	missing replicas, declined votes, digests, offers,
//	founding messages, status reports, farewells
//
// Any may be "of shard 5"; requests and replies of a key; expiries and silences, which are
// appends with such a command in the log, of a host whose session it is. Promotions are appends
// with an entry that makes a replica vote, conclusions those with the end of a change of voters
// that takes two steps. Requests go to the
// leader, replies come from it. A request from a host to itself is no message. Everything is
// what nodes say about shards: not founding messages, status reports and farewells.
//
// # Members
//
//	{who} joins
//	{who} joins as a replica
//	{who} joins as the owner
//	{who} joins with {n} shards
//	{who} joins and asks for nothing
//	{who} joins mesh {name}
//	{who} joins by the name of {who:other}
//	{who} joins as {what:address}
//	{who} joins without seeds
//	{who} founds a mesh of one
//	there may be {n} meshes
//	{who} leaves[ within {time}]
//	{who} begins to leave[ within {time}]
//	{who} closes its node
//
// A host that joins is new. It says "dan is in the mesh" when it is, or "dan cannot join: an
// invalid option". With "joins" it gets no part in shard 0, with "as a replica" a replica of it,
// and "as the owner" the ring would have it lead there. The other forms ask for something else
// than the others do, and lie anywhere on the ring: "joins as g:1" says at which address the node
// can be dialled. Stories place nodes on the ring as if those that left were there: a host that
// joins after one has left may be placed otherwise. Two meshes in one world break G1, unless a
// sentence says before that there may be as many.
package story

// Package members holds what a node believes of the other nodes of its mesh: which of them are
// members, which of them live, and the state of the shards.
//
// A [Machine] takes in what gossip, the network, other nodes and the core say, and says what is to be
// done: connect, send, or act on a new [View]. It starts no goroutine and reads no clock. All that it
// believes is a hint: the core's table alone says which nodes vote.
//
// (P12), (C8) and the like are rules in PROTOCOL.md. ARCHITECTURE.md defines the terms, also E and ρ.
package members

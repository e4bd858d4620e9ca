// Package members holds what a node believes of the other nodes of its mesh: which of them are
// members, which of them live, and the state of the shards.
//
// A [Machine] takes in what gossip, the network, other nodes and the core say, and says what is to be
// done: connect, send, or act on a new [View]. It starts no goroutine and reads no clock. All that it
// believes is a hint: the core's table alone says which nodes vote.
//
// References like (P12) and (C8) are to the rules in PROTOCOL.md; E is the election timeout, and ρ bounds how far the rates of two
// clocks differ from true. ARCHITECTURE.md defines the terms.
package members

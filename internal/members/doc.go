// Package members holds what a node believes of the other nodes of its mesh: which of them are
// members, which of them live, and the state of the shards.
//
// A [Machine] takes in what gossip, the network and other nodes say, and says what is to be done:
// connect, dial, send, or act on a new [View]. It starts no goroutine and reads no clock. All
// that it believes is a hint. It decides where replicas are wanted, and only a shard's log
// decides which nodes have them (P33).
package members

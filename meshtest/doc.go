// Package meshtest helps to test code that embeds a mesh.
//
// [Fleet] is the real thing: nodes in this process, over loopback, that can be killed, restarted and cut off. It shows what a
// service does when it loses a lock, or cannot get one. [Fake] is a lock in memory, for unit tests of code that
// only wants something done under a lock. For random faults in virtual time, see package simulate.
package meshtest

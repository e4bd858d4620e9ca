// Package founding is how a starting node becomes part of a mesh: it finds a living
// one and joins it, or founds one together with all the listed seeds. It is also how a
// member answers those who come later. A [Machine] is one node's part in that, a plain
// state machine.
//
// # The way of a node
//
// It dials every seed again and again. A seed that answers with the node's own ID is
// the node itself. A seed that is in a mesh, and any member of a mesh that dials the
// node, is a living mesh: the node asks to be let in and founds nothing. The member
// compares parameters (P29), dials the joiner back (P31), looks whether a living
// node answers to the joiner's name (P30), and welcomes it with the founding value.
//
// Only when all the seeds are connected, list the same seeds, agree in what they ask
// for explicitly, and have listened for [Listen] without meeting a mesh do they found
// one (P25). A node that is not listed waits for the seeds.
//
// # Founding
//
// It is single-decree Paxos. A ballot is (round, proposer), and has a roster: who
// answered at each seed, as node IDs, each of which is one incarnation. The acceptors
// of a ballot are its roster. Nobody remembers anything after a restart, so both
// phases need all of them. The value is a [Mesh], whose Roster is always the roster of
// the ballot in which it was proposed or one with the same nodes.
//
// Phase one reports what was accepted at the highest ballot, and the proposer adopts
// it: unchanged if its roster is the ballot's, else the same mesh with the ballot's
// roster and the next Epoch. The proposer accepts last. Who has decided takes part in
// no ballot any more and answers with the decision.
//
// # Why two meshes are never founded
//
// Assume that at one address no older incarnation lives once a newer one answers.
//
// (1) A prepare is sent after its proposer has seen every node of the roster alive, and
// each answers it later. So if phase one of a ballot ends, there was an instant, the
// sending, at which all of its roster lived; call it the ballot's. Rosters cover the
// same addresses. So if two such rosters share no node, then by the assumption all nodes of the
// one with the earlier instant were dead at the later instant.
//
// (2) Let v be accepted by all of the roster B of ballot b. Then every value that is
// proposed at a higher ballot c, whose roster C shares a node with B, has the MeshID of
// v, and is v or has a larger Epoch. By induction over c: a node X in both accepted at b
// before it promised c, so it reports b or a higher ballot. Take the highest that is
// reported: ballot d, of roster D, by a node Y. If D shares a node with B then the
// induction does the rest. If not, then by (1) one of B and D was all dead at the
// other's instant. Say B at that of d. Then X promised c before that instant and Y
// after it, since it accepted at d first. So the proposer of c lived at the instant
// of d, and was in D by the assumption; but it had promised c to itself first of all,
// and never promised the lower d: phase one of d cannot have ended. If D was dead at the
// instant of b, the same holds with X and Y exchanged, and b for d.
//
// So all values ever decided while a node of their rosters lives are one mesh, with
// Epochs that never repeat: for two MeshIDs, every founder of one must be dead at the
// instant of the other. If all the founders of a mesh are dead there is nobody left to
// remember it but nodes that joined, which contact the seeds all the time: that is
// what listening is for, and P27's grace is for the case that they cannot.
//
// (3) A larger Epoch exists only if a founder was replaced by a new incarnation after
// some founder had accepted. Did the dead one decide, and serve? The survivors cannot
// know, and need not. If phase one of ballot c ends, nobody alive knows of a decision
// at a lower ballot b, nor ever will. Each node of C promised while it knew of none. It
// will not decide a lower ballot of its own, since its promise ended that. It believes
// a lower decision only as the answer to a question asked after the promise, and so
// from a node that lived then and knew. The first node Z of C to learn in that way
// would learn from a node outside C. Nobody joins through a founder before each founder
// knows of the mesh or was replaced, so that node is a founder, and by the assumption
// started after the instant of c. Then the instant of b is later still; Z lived at it,
// was in B, and promised b before it promised the higher c. Had the proposer of c lived
// then, it would have been in B too, and it had promised c already; so it was dead
// before Z promised c, and phase one of c cannot have ended.
//
// So whoever may have acted on the smaller Epoch is dead, and what its tables granted
// alone ends with leases: the new Epoch's tables wait for that (Grace), and its tokens
// begin above (Founded). A founder lost in mid-founding hence costs no shard its voters,
// and a founding that was never decided goes on with the new incarnation.
//
// The last rule has one exception: after 30 s a founder lets nodes in although another
// founder neither acknowledged nor was replaced, so that a machine that died for good
// in the instant of founding does not close the mesh. A node that joined so stays
// behind in an old Epoch if, on top, all who knew the decision die and the missing founder
// comes back never having heard of it.
//
// Where the assumption fails (a load balancer behind one seed address), an acceptor
// still refuses a roster that leaves out a founder that it is connected to, nobody
// promises while two connected nodes answer at one seed, and a node that shares its
// own seed address with another fails and says so.
package founding

// Package founding makes a starting node part of a mesh: the node finds a living mesh
// and joins it, or founds one together with all the listed seeds. The package also answers,
// for a member, nodes that start later. A [Machine] is one node's part in that, a plain state
// machine.
//
// # The steps of a node
//
// The node dials every seed again and again. A seed that answers with the node's own ID is
// the node itself. A seed that is in a mesh, and any member of a mesh that dials the
// node, shows that a mesh lives: the node asks to join it and founds nothing. The member
// compares parameters (P29), dials the joiner back (P31), checks that no other living
// node has the joiner's name (P30), and sends it a welcome with the founding value.
//
// Only when all the seeds are connected, list the same seeds, agree in what they ask
// for explicitly, and have listened for [Listen] without meeting a mesh do they found
// one (P25). A node that is not listed waits for the seeds.
//
// # Founding
//
// It is single-decree Paxos. A ballot is (round, proposer). It has a roster: the ID of
// the node that answered at each seed. An ID stands for one incarnation of a node. The
// acceptors of a ballot are its roster. An acceptor remembers nothing after a restart, so
// the quorum of both phases is all of them. The value is a [Mesh], whose Roster is always
// the roster of the ballot in which it was proposed, or one with the same nodes.
//
// Phase one reports the value that was accepted at the highest ballot, and the proposer
// adopts it: unchanged if its roster is the ballot's, else the same mesh with the ballot's
// roster and the next Epoch. The proposer accepts last. A node that knows the decision
// takes part in no further ballot and answers with the decision.
//
// # Why two meshes are never founded
//
// Assumption: at one address, no older incarnation lives once a newer one answers.
//
// (1) A prepare is sent after its proposer has seen every node of the roster alive, and
// each answers it later. So if phase one of a ballot ends, its whole roster lived at the
// instant of the sending; call that the ballot's instant. Rosters cover the same addresses.
// So if two such rosters share no node, then by the assumption all nodes of the one with
// the earlier instant were dead at the later instant.
//
// (2) Let v be accepted by all of the roster B of ballot b. Then every value that is
// proposed at a higher ballot c, whose roster C shares a node with B, has the MeshID of
// v, and is v or has a larger Epoch. By induction over c:
//
//   - (a) Let X be a node in both B and C. It accepted at b before it promised c, so its promise
//     of c reports b or a higher ballot. Let d be the highest ballot that a promise of c reports,
//     D its roster, and Y a node that reports it.
//   - (b) If D shares a node with B, the induction does the rest. If not, then by (1) all of one
//     of B and D was dead at the instant of the other's ballot.
//   - (c) Say that B was dead at the instant of d. Then X promised c before that instant. Y
//     promised c after that instant, since Y accepted at d first. So the proposer of c lived at
//     the instant of d, and was in D by the assumption. But it had promised c to itself before
//     any other node did, and never promised the lower d: phase one of d cannot have ended.
//   - (d) Say that D was dead at the instant of b. Then Y promised c before that instant, and X
//     after it, since X accepted at b first. So, as in (c), the proposer of c was in B and never
//     promised the lower b: phase one of b cannot have ended.
//
// So all values ever decided while a node of their rosters lives are one mesh, with
// Epochs that never repeat: for two MeshIDs, every founder of one must be dead at the
// instant of the other. If all the founders of a mesh are dead, only the nodes that joined
// it still know of it. They contact the seeds again and again, which is why a founder listens
// first. If they cannot reach the seeds, a second mesh is founded: that is the limit that P25
// names. P27's waiting time covers the locks of shards that ended with the founders.
//
// (3) A larger Epoch exists only if a founder was replaced by a new incarnation after
// some founder had accepted. Did the dead founder learn the decision, and serve? The
// survivors cannot know, and need not: if phase one of ballot c ends, no living node knows
// of a decision at a lower ballot b, nor ever will.
//
//   - (a) Each node of C promised while it knew of no decision. It will not decide a lower
//     ballot of its own, since its promise ended that ballot. It believes a lower decision only
//     as the answer to a question asked after the promise, and so from a node that lived then
//     and knew of the decision.
//   - (b) Let Z be the first node of C to learn in that way. It would learn from a node outside
//     C. No node joins through a founder before each founder knows of the mesh or was replaced.
//     So the node outside C is a founder, and by the assumption it started after the instant of
//     c. Then the instant of b is later still.
//   - (c) Z lived at the instant of b, was in B, and promised b before it promised the higher c.
//     Had the proposer of c lived at the instant of b, it would have been in B too, and it had
//     promised c already. So it was dead before Z promised c, and phase one of c cannot have
//     ended.
//
// So every node that may have acted on the smaller Epoch is dead, and the locks that its
// tables granted end with their leases. The new Epoch's tables wait for that (Grace), and
// their tokens begin above (Founded). Hence a founder that is lost during the founding costs
// no shard its voters, and a founding that was never decided goes on with the new incarnation.
//
// The last rule has one exception: after 30 s a founder lets nodes join although another
// founder neither acknowledged the decision nor was replaced. So a machine that died for
// good in the instant of founding does not close the mesh. A node that joined in this way
// stays behind in an old Epoch if, in addition, all nodes that knew the decision die and
// the missing founder comes back without ever having received it.
//
// Where the assumption fails (a load balancer behind one seed address), an acceptor
// still refuses a roster that omits a founder to which it is connected. No acceptor promises
// while two connected nodes answer at one seed. A node that shares its own seed address
// with another node fails with an error.
package founding

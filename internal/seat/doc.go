// Package seat is one node's part in the core of its mesh: a [Machine], which finds the nodes at the
// entries of the list, and carries out what package core decides by its rules. It knows time and
// messages; core knows neither. It runs on the node's shard loop, beside the replicas that it may fence.
//
// (P12), (C8) and the like are rules in PROTOCOL.md. ARCHITECTURE.md defines the terms, also E and ρ.
//
// # Contact
//
// A node dials every entry of its own list, and of the mesh's (before it knows one, of those that others show), about
// once a second, its own entry as well; the name is resolved anew. The dial shows which incarnation answers there. The two
// exchange short reports of what each knows and has promised; a node asks for a decision that it lacks. A change is reported
// at once, and voids the reports received before it: each report names the receiver's state for which it was made.
//
// While every entry counts and is connected, a node dials those of others every other second only, and in between sends
// them its report without a dial. Each of them still dials its own entry every second.
//
// Where all entries are on loopback, all that is faster until a node is idle, and for clients always: a dial every 0.1 to 0.2 s, 1 s in
// place of 3 s and of 5 s, and 3 to 6 s in place of 15 to 30 s.
//
// An entry does not count if it has not reported for 3 s; if two connected nodes answer at it; if its node has not yet reached
// itself there; or if its node would take the seat of one with which this node, or a node that it hears, is connected.
//
// A node whose entry is answered by another one ends. After a stall of more than a second it answers no proposer, says of no entry
// that it is its own, and its replicas are fenced, until a dial of its entry, begun after the stall, has reached it: meanwhile
// another one may have taken its place.
//
// A node at no entry is a client of the core. Its list is of contact points only: several nodes may answer at
// one, and it dials the entries of the mesh that they show. It takes over the table that a majority of those
// bound in it stand by, and asks for nothing. So does a node whose entry has left the mesh's list, or is not
// in it yet. Nodes of the core tell a client what is new, each at most once a second; it asks them every 5 s, since
// that may be lost. It dials an entry whose node is connected every 15 to 30 s, and ends connections with nodes
// that are not of the core: see [Part]. At rest it costs each node of the core 0.4 frames a second in each direction, and 0.04 dials
// (TestWhatAClientCosts).
//
// # Other meshes
//
// Another mesh of the same name may have one of the entries: by a wrong list, or a name that leads to two nodes. A node that
// hears of one, from a node of the core or from the node at one of its own entries, dials the nodes that are bound in it, and
// counts their reports beside those of the entries. Then core.Next says which mesh this node goes by. It changes over by a
// release: a majority of the other mesh confirms it, and has raised its revisions above this node's if it is the earlier mesh.
// Clients go by the same order.
//
// # Attempts
//
// After each input core.Next says what comes next. A node makes one attempt at a time; nodes that are told
// the same take turns, in the order of their seats, and pauses grow while attempts fail, or while roll calls
// overtake each other before a generation can serve. Nodes that remember call first, except those that were dropped. A call
// that comes to nothing before its value was proposed is withdrawn: each report says which ones the sender has. A roll call for a list
// that lacks an entry of a known mesh waits until that entry has reported, or has been silent for so long that it does not count.
//
//	what                 messages                                 done when
//	a roll call          call, answer; propose, proposed          all of the roster have accepted
//	the next version     read, value; write, written              a majority of the bound have accepted
//	its own release      confirm, confirmed                       a majority of the bound have confirmed
//
// They are sent again until they are answered. A node that brought about a decision shows it to all entries; an
// entry that missed it asks for it after the next report. An acceptor that does not answer a ballot says why, and what it
// promised and knows.
//
// A shard asks for a [Change]. All that are wanted at one time become one version. To recover a shard, a
// node asks the shard's voters to fence their replicas: see [Cut]. An output that fences comes before the message
// that tells of it, and the node must carry outputs out in their order.
//
// A shard's new generation begins with revisions above all that those who answered, or fenced their replicas, tell
// of, their clocks among them; and with a quiet time. What clients know of revisions they tell as well: see
// [Machine.Floor]. What the shard held comes from its holders: see package hosting.
//
// # Death
//
// An operator or an oracle may say that a node has ended before another one answers at its entry: see
// [Machine.DeclareDead] and [Inquire]. Every node tells which nodes with a seat it is not connected with; the word is
// proposed only while most of the core says so of that node, and nobody who is heard has a connection with it. A node
// that learns that it was meant ends.
//
// # Orders
//
// An operator changes the list of a mesh that runs ([Machine.ChangeList]). That is a change like a shard's: core.Table.Order. The
// Machine of each node with a seat and another list asks its node to store the ordered one ([Keep]), and uses it after
// [Machine.Kept]. The rest follows from core.Next.
// What else an operator may ask of the core is an [Order]: to end the quiet time, or to change MaxTTL. A node with a seat
// proposes it as a change, until the table shows it. Another one sends it to a node with a seat, and a second later to the
// next one, until one tells the outcome. An order that nobody repeats is dropped after 5 s.
//
// A raise of MaxTTL is two decisions: that it is to be; and that it is in force, once all nodes that may remember the mesh (C5) have told
// that they know it and, where there is a state directory, have saved it. They tell the stamp of the table that they know, and whether it is saved.
//
// # What it costs
//
// Of three nodes at rest, each sends 2.1 frames of 186 bytes and dials 2.1 times a second, to all peers together (TestFigures). Where
// frames take 10 ms on the average, a mesh of three is founded in 120 ms after the last one starts, and a
// restarted node is bound in as long.
//
// # What is open
//
//   - One name that leads to several nodes, as the only entry, may found several meshes if the operator allows a mesh
//     of one there (Config.Found). Each ends at the first dial that reaches another node; with the default MaxTTL they
//     are quiet for ten dials. A name server that gives each host another one of the nodes, always, hides that.
//   - A ballot of the highest round that there is leaves no room for others; any peer may send one.
//   - A node tells after a dial that succeeds. While names cannot be resolved for long, no report is fresh, and
//     the core decides nothing; shards go on.
//   - Of three entries one is gone for good, and another node restarts before the seat of the first is vacant (see
//     Machine.Gone): both wait for a process at that entry, or are restarted with a list without it. The shards could go on from what the third one knows.
package seat

// Package core decides which nodes a mesh consists of: which incarnation has the seat of each entry of
// the list, which mesh it is, and in which generation each shard lives, with which voters. No node
// restores any of that from a disk (a state directory has the list, and what tokens and quiet times
// follow from), and still no two meshes can grant a key, however many nodes restart.
//
// The package has the memory of one incarnation, an [Acceptor], what a decision may change (the methods
// of [Table]), and what a node does next ([Next]). It sends nothing and knows no time: package seat does.
// Its tests explore the rules as they stand here.
//
// # What is decided
//
// The core's state is small (the seats, and a line for each shard), so each decision is a whole new
// [Table]. A table's [Stamp] names it: the ballot of the roll call that began its generation, and the
// number of decisions since. What an operator orders is such a decision as well: [Table.End], [Table.Order],
// [Table.Calm] and [Table.SetMaxTTL].
//
// There is no log and no leader. The decision on version k+1 is single-decree Paxos among the
// incarnations that are bound in version k; the quorum is a majority of them. Nothing else is needed
// for a change of seats: an acceptor of version k+1 is one that knows version k to be decided, so the
// acceptors of two versions never mix, and any number of seats may change in one decision (Lamport,
// "Paxos Made Simple", §3, with a window of one). A group of raft was the alternative: its joint
// changes, learners, snapshots and heartbeats, for a few decisions an hour.
//
// An incarnation that restarts is another acceptor. It decides nothing until a majority of those bound,
// its predecessor counted, has bound it in the place of the one before it: so memory that is lost is never mistaken for memory
// that is empty.
//
// An incarnation has ended if another one has its seat, or has had it since. A proof may come earlier: an
// operator or an oracle says that its machine is gone for good. Then [Table.End] notes it, and the shards go on
// without it ([Table.Recover]). It still counts in the core's majority, until another one has its seat, or that is vacated:
//
//   - Without it two of five would decide, and step 2 below would be wrong. The list a, b, c, d becomes a, b, c, e
//     and then a, b, f, e; a and b end, and e and f decide without them. c, d, and the next incarnations of a and b,
//     which still start with the list before, have all forgotten, and found another mesh at a, b, c, d: that call asks
//     neither e nor f.
//   - A false proof changes nothing in who decides. Its harm is what the replicas on that node do in shards
//     that begin another generation because of it, until it learns what was said of it. Then it ends.
//   - A majority of living seats must be left, or nothing could be decided any more, not even the next End. So one of
//     three may be said to have ended, and two of five.
//
// # Roll call
//
// If fewer than a majority of the bound incarnations remember, no decision is possible any more. Then a
// roll call begins a new generation. It is single-decree Paxos as well, among the incarnations that
// answer at all entries of a list; the quorum of both phases is all of them. The founding of a mesh is
// the roll call in which nobody remembers anything.
//
//   - Before the first phase every entry tells what it knows ([Report]), which binds nothing. The call
//     begins only if all have told, and too few of the bound can decide ([Next]). That a report is not
//     older than what the asking node knows is told by its [Mark].
//   - Who answers a [Call] is fenced: it takes no part in decisions of an earlier generation, and no
//     replica on it votes, appends or answers.
//   - The value goes on from what the answers show ([Call.Recovered]): the same mesh. Its seats are those
//     who answered this ballot, never those of an older value.
//   - What only nodes remember that may have been dropped from the list does not count. Whether they may is said at Call.outlived: no other node
//     that answers has one of their entries on its list, for example. They may lack the last decisions, even those that all who are bound must know.
//     Then a mesh is founded, of which they are a part.
//   - A shard goes on in its generation if a majority of its voters answered and remember, and if the answers
//     show all that can have been decided ([Call.Value]). Else it begins a new generation.
//   - A call has no value once a later incarnation than one of its roster may have been bound: it could not be decided any more,
//     and whoever accepted it would take what that one knows for over ([Call.Elders]).
//   - A node that promised a call which never ends is released by the mesh that lives on: when a
//     majority of its bound incarnations confirms that it serves, and refuses that ballot for ever
//     ([Acceptor.Confirm], [Acceptor.Release]). Nothing is released by time.
//   - A proposer that has not proposed a value may give its call up for ever, and say so ([Acceptor.Withdraw]): there
//     is nothing that anybody could accept, so the call is as if it had never been. An earlier promise binds as
//     before: the value of that call may have been accepted, and by such a value others judge which generation is over.
//   - An entry at which nobody answers is left out where it does not matter what it knows: see Short calls.
//   - A node answers a call only if its own list, and that of the table that it knows, have at most one
//     entry outside the call's: so a list that is half rolled out can found a mesh, and an entry that
//     is gone for good can be left out.
//
// Roll calls of two lists need not meet in a common acceptor. So ballots alone do not say which of two
// generations is the later: a node that was left out may remember the higher ballot. [Call.Recovered]
// goes by who lives, and a node takes over another generation only if it promised that, or has no seat in the
// one that it knows ([Acceptor.Learn]), or a majority confirms it ([Acceptor.Release]).
//
// When do the answers show all that can have been decided? Certainly if those bound that forgot are fewer than a majority of the
// bound: two of four, but not three of five. Each later version needs one that remembers, which shows what it accepted, and is
// fenced. Then
// the call does what binding those that forgot one by one would do, if somebody could. It must be of the mesh's own
// list: elsewhere one that was not asked might live. A shard that so goes on is the same raft group as before, with
// the same voters and the same number of moves. No later generation of it began: that would need a decision, and all that
// were made are shown. Where one may be lost, the number of a lost move might be given a second time.
//
// # Short calls
//
// A call may leave out an entry at which nobody answers, if it is certain what was decided, by the rule above with those
// that are not asked counted like those that forgot (Call.certain): then no majority of the bound is left that could
// decide anything without one that answered, and was fenced. The seats of those that were not asked stay as they are, so
// that majorities keep their sizes. Where the answers turn out not to show all, the call has no value ([Call.Value]).
//
// It must be known that the generation was decided (one that answers knows its table), and the list must be settled: none is
// ordered, all have it, and no node votes that was dropped. Else two calls may go on from generations of which others are bound,
// or more of them: what follows holds among equals. Who was not asked has not promised the call, so it cannot make
// it void ([Seat.Unasked]).
//
// Two short calls have a common member. Each goes on from half of the bound, which remember: with more no call would be
// needed, unless some are fenced. If the halves of two calls are disjoint, each call was answered, at the entry of one of
// the other half, by a later incarnation, for it leaves out one entry alone. So in each half one had ended
// before anybody answered the other call, and both cannot be first. And a short call meets every call of its own list, for
// that asks all that live; one of a list that follows drops one entry at most: with the one that was not asked these are no
// majority of four or more. Of three they are. But the node at the dropped entry has promised the short call, or has ended. So a node
// that a later call with a value has asked does not count as one that may live in a generation of another list (mayLive).
//
// Of three entries a call is short in this way only if the two others remember, and are fenced: one that forgot and one that was
// not asked are a majority. So the seat of a silent node is vacated ([Table.Vacate]): then two are bound, both decide together, and
// one that remembers shows all. Its incarnation votes in no shard, and may live: it can decide nothing, for the two have decided
// without it, and what it knows is an older version. It is bound again when it is heard. Two of three are also the majority that
// step 2 needs: of a list of three one entry at most is not asked.
//
// # Two meshes
//
// Under the assumptions below there is one mesh. Where they do not hold, two may be founded, and meet: see PROTOCOL.md,
// C10. Then a node goes by the one that most of the bound stand by, of two such by the earlier ([Table.Before]), and
// gives way by a release alone. It has forgotten what it accepted in its old mesh, and is to that as if it had ended,
// but with no successor: it has no way back into it ([Acceptor.Left]). And nobody binds an incarnation that is in another
// mesh still.
//
// # Shards
//
// A table allows a shard one change of voters at a time ([Table.Move], [Table.Settle]): raft makes it,
// by a joint configuration, also if one voter alone comes or goes. A shard that has lost its majority
// begins a new generation ([Table.Recover]) once every quorum of its voters, now and next, has a member
// that has ended ([Table.End]) or was fenced for that ([Acceptor.Fence]). The new generation begins
// with empty tables and its holders' reports, and grants after a quiet time; that is not decided here.
//
// # Why there is one mesh
//
// This is an argument, not a proof: see below for what the model explores of it. It assumes that at one
// entry no older incarnation lives once a newer one answers; that an operator starts no node with a new
// list before the change to the one before it is complete, and sets no node's list back
// after that. Until then a change can be taken back, on all nodes: the mesh cannot see a node that was
// set back and has no seat yet, and would let the list change a second time without it.
//
// An order ([Table.Order]) keeps to this by itself: each incarnation keeps the ordered list where its next one finds it, before it
// says that it has it; and while a list is ordered that is not in force, there is no other. An ordered list may be set back
// though it is complete, for that is an order as well: in the table, which no other change passes.
//
//  1. Two decisions of one stamp are equal. For version 0 the ballot has one proposer, which proposes
//     one value. For version k+1 it is Paxos among the bound of version k, of which there is one, by
//     induction.
//  2. When a roll call r of the mesh's list is decided, every incarnation that lives at an entry of it
//     has accepted r's value, and was not released from it: a release needs a confirmation by an incarnation of
//     r's roster, which refuses r for ever. An incarnation that knew a generation then is fenced. One that knew none
//     may be bound in one without having heard of it; it learns of no generation but r's, since r's ballot might not fence it in
//     another. So no earlier generation can decide after r: a majority of its bound would have to live unfenced. Where lists differ, three of them count: the call's, those
//     of the nodes that answer it, each one change behind at most, and the mesh's. So two changes may
//     lie between the call and the mesh. In a list of four or more two entries are no majority. A list
//     of three or fewer adds an entry or drops one; and an entry that calls a list two changes behind
//     has been dropped since, so that one entry was added at most, which is no majority of two or more.
//  3. Where there is one list, a decision that any incarnation of r's roster knew when it answered is
//     in r's value, or one made out of it; so is a roll call that was decided before, if one of its
//     roster lives on in r's: it accepted that value before it promised r, and it shows it. Where lists
//     differ, that holds for a decision that most of its bound live to show.
//
// What is open: step 2 is about the core. A shard serves without it, and where two changes lie between the call
// and the mesh, a majority of its voters may be at the two entries that are not asked. The list a, b, c, d becomes a,
// b, c, e and then a, b, f, e, and e and f have two votes of a shard. They are cut off, and a, b, c and d restart, with the
// lists that they had. They found another mesh at a, b, c, d, and both serve. So it is assumed as well that a node which
// was dropped runs no more when the list changes again. Lists of three or fewer need that for step 2 itself. And of three, if one's
// seat is vacant while another one's entry is dropped, two are missed: a decision of the third with that one may be lost.
//
// An order may take a change back that is complete, while the node that was dropped runs on. If all others forget then, it seems to have
// its seat: a raise of MaxTTL is known to the state directories alone, which each node has that keeps an ordered list.
//
// So of all generations the latest decided one alone can act, and it remembers whatever a living node
// of its roster remembered, unless that may have been dropped. If nobody remembers, or only such nodes, which are fenced as they answer,
// no other node of an earlier mesh lives at any entry but one, and a new mesh is safe.
//
// # What the model found
//
// TestModel explores small worlds whole, TestWalks larger ones at random: two to seven entries, with
// restarts, lost answers, old reports, several roll calls, proofs of death, true and false, and one or two changes of
// the list, which the operator may take back. A shard's raft is taken to be right; TestVotersChangeAtOneMoment asks raft.
// A node may be given the next list while it runs, and while a change may be taken back the one before.
// After each walk, and in one of twenty states (in large worlds of 200 to 2,000), all entries are up and
// connected, and the mesh must come to serve by Next, if need be after the operator has restarted those
// that have another list than the last, or, if the operator takes that back, than the one before. What was broken,
// by the walks and by readers:
//
//   - A release was taken for proof that its ballot is void, though the node that confirmed it had no
//     part in that call: its list had another entry. Now only the released node says so.
//   - The accepted value of the highest ballot displaced the mesh that serves: a node that had been
//     left out came back with it. Now a generation counts for which most may live.
//   - Then a node's own memory was taken apart: the decision that it knew counted for more than the
//     value that it accepted after that. Of one node the last thing counts.
//   - A node took over an older generation, whose ballot was higher, from one that had been left out.
//   - A fresh node learned of a generation that was over, then had a seat in the next, and waited for a
//     confirmation that needed its own vote. Now a node learns only of tables in which it has a seat,
//     or by a release.
//   - A proposer learned of a higher ballot between its call and its value, and could not take over
//     what it had decided.
//   - A proposer began two calls under one ballot. Now it is the first to answer its own.
//   - The list a, b, c became a, b, d and then e, b, d. A node that was a change behind, another fresh
//     one, and c, which had been dropped two changes before, made a roll call of a, b, c while d and e
//     were a majority. (A reader; see 2 above.)
//   - An older version of a generation was taken for the latest, since more of its bound answered. (A
//     reader.)
//   - A roll call whose roster was out of date took a generation for over, as an incarnation of it was
//     newer than the one in the roster. Now the order in which one node accepted counts first.
//   - By an old report of an incarnation that had ended, a node gave it the seat of the one after it,
//     which lived, and lost it; and by reports from before a roll call nodes called again and again. Now
//     a report counts until the node that asked for it learns or promises something.
//   - A node had been started with the next list when the mesh was founded anew with the one before. It
//     counted as one that may come back with an earlier list, and held up the change to its own for ever.
//     And a change could not be taken back before it was complete. Now the table has the list of each
//     incarnation, and the list before the last change ([Table.Relist]).
//   - A short call bound two of three, and one of them ended. The call of all three then counted the other one as a living
//     member of the generation before as well, which seemed to live. Now a node counts for what it shows last.
//   - Two pairs of four each made a short call. Now those that are not asked must be too few for that. (On paper.)
//   - A short call went on from a call that was accepted, and not decided: in that the vacant seat of a list of three was bound
//     again, and so two short calls did not meet. Another one went on while a list was ordered that dropped an entry; one
//     while a node that had been dropped was one of two voters. (A reader; see course_test.go.)
//   - A node that a short call had not asked made that call void, by what it had been released from before. A short call counted
//     an incarnation as asked that had ended since, while the next one was bound. And one of five left out two. (Another reader.)
//   - A call, also one of all, went on from a version by which an incarnation was bound that was later than the one that had answered.
//     One node accepted that value, which could not be decided; and what the later ones decided was taken for over. (A third reader.)
//   - Such a call went on from a generation that the one who had ended might have lived in, past what another answer showed of the
//     later one. (The model, of three entries with a vacant seat.)
//   - A short call of three was decided, and the list dropped another entry than the one that was not asked, by a change or by a call
//     that one alone had accepted. The node that was not asked and the dropped one, which no call asks any more, counted as two of
//     three that might live in the generation before. Now a node that was asked by a call with a value counts in no earlier generation.
//     (The model, of three entries, in one of a hundred thousand walks.)
//   - Of five, two were bound before they had heard of the mesh, and founded another one with three by the next list. Its ballot was
//     the lower one: when they heard of the first mesh they took it over, unfenced, and both decided. Now a node that has accepted the
//     value of a roll call takes over no other generation without a confirmation. (A simulated fleet, of three, in which only one could decide.)
//   - Then a promise alone kept a node from taking over the mesh that had bound it, also where its caller had ended: so it founded another
//     one. And a value that one alone had accepted, and that the others who answered never would, went before what was decided. (A reader;
//     see learn_test.go.)
//   - A raise of MaxTTL waited for all that had a seat, and not for a node that was dropped, votes no more and runs on. The list a, b,
//     c, d became a, b, d, MaxTTL was raised, and a, b and d restarted. Then c called a, b, c, d, the mesh went on from what c remembered, and was
//     quiet for leases as they were before the raise. Now a node that may have been dropped is not believed alone, and a raise waits until all
//     have the list. (A reader; see dropped_test.go.)
//   - A node that was dropped was believed alone if the others had it on their lists again. One node serves alone with the list a. A second
//     one comes with the list a, b, and the list becomes a again. MaxTTL is raised, and the first one restarts with the list a, b. Now a node
//     that has accepted the decision which drops it is not believed alone. (Walk 97,318.)
//   - So was a node that a call had bound, where another one that was bound could call again without it, by its own list: a, which
//     serves alone, accepts the value of a call of a, b, and calls a alone. MaxTTL is raised, b completes its own call, and a restarts with
//     the list a, b. (Walk 103,998.)
//   - So was one that a release had shown a table in which it has no seat: a raise of MaxTTL does not wait for it. (Walk 169,603.)
//   - Of two meshes, a node that heard too few of its own went over to the later one, and was bound in the earlier one
//     still when that was to stay: it waited for ever. Now it is told so ([Acceptor.Left]), and ends.
//
// Of quiet times it explores what tables say: how long leases may last (of two lengths), and which generations need not be quiet. A
// roll call must go on from a table that counts leases as long as any that may last, and while the list stays as it is, each node that
// lives and knows the mesh must remember such a table. The word of an operator must be about the generation of which it was said. In
// place of what seat hears, a raise is in force once all that are bound know of it or have ended, and leases are over at any time after
// that.
//
// What the model does not show yet: time itself, that is when quiet times and leases end, and stalls; and lists that are ordered
// ([Table.Order]): it starts nodes with the next list, or gives it to them, in any order. What random walks alone
// show: a second change of the list, and most roll calls while a list of three or more changes. Whole worlds
// have up to five entries; those of six and seven begin in the middle of a course. Some of the largest are explored to a depth
// only, those with short calls to six to nine steps: see worlds in its test.
//
// A mutant of this package that the model notices says so in its patch. For half of the others it was tried whether the model, as CI
// runs it, or 4,000 walks notice them. Those that neither notices are about orders and a second mesh, which the model does not have;
// about names and counters (of a generation, of a move, of a report), where it needs a coincidence; and about courses that readers
// found, with values that one node alone has accepted, which are too rare. Table tests and courses of events notice these.
//
// Measured on 2026-11-27, on two cores, with GOGC=off and GOMEMLIMIT=8GiB, before the worlds in which MaxTTL changes:
//
//	TestModel -deep              26.1 million states (730 million with renamings), up to 35 steps deep    416 s
//	TestWalks -walks 200000      the longest walk has 141 steps                                          396 s
//	both in one run              about 8 GB                                                              813 s
//
// With those worlds, 200,000 walks took 1,060 s of CPU time (2026-11-28). The walks that are named above are the first ones that failed on the
// way there.
//
// Those worlds, and one whose list changes three times, have 660,000 states more, and take some 40 s. One in which an entry was dropped
// has 92,000, and takes 6 s.
//
// # Five courses of events
//
// Entries a, b, c; incarnations a1, a2 and so on.
//
// One restart. a1 is replaced by a2. b1 and c1 remember: a2's report shows nothing, theirs show version
// k. No roll call begins (2 of 3 can decide). b1 proposes version k+1 with a2 in a's seat; b1 and c1
// accept. a2 learns k+1, and takes part in k+2.
//
// A cut. a1 is cut off from b1 and c1, which bind nothing new: a1 lives, and silence is no proof. b1
// and c1 decide without a1. a1 cannot: its reads reach nobody. When the cut heals, a1 learns the
// versions that it missed.
//
// Two restarts. b2 and c2 are fresh, a1 remembers version k. No majority: c2 gathers three reports, and
// calls with ballot (r, c2). a1 is fenced as it answers. Its answer shows version k, so the value is
// the same mesh in generation (r, c2), with a1, b2, c2 bound and every shard in a new generation, for
// b1 and c1 may have decided more. c2 stops before its proposal has reached a1; c3 comes up, and calls with a higher ballot. a1 answers
// again, and b2 shows the value that it accepted, of which c2 was one of three: two may live, so c3
// goes on from it. Had it been decided, somebody would act by it only if it knew: a1 and b2 do not.
//
// Three restarts. a2, b2 and c2 are fresh: all three reports show nothing. While c is not back, a2 and b2 wait, and name c: c1 may
// live, and know of others. Then a2 gathers three reports, and calls with ballot (1, a2); b2 may call as well, with (1, b2), which is
// higher, and then a2's call gets no further than the nodes that had not promised b2's. All answer that they remember nothing, so b2's
// value is a new mesh, with another ID, with a2, b2, c2 bound. Its shards begin with empty tables, a quiet time and what holders report.
// If c2 stops before it accepts, c3 comes up, and calls with a higher ballot. a2 and b2 show the value that they accepted. It may
// count, as no answer shows another mesh; so c3 goes on from it: the mesh keeps its ID, with c3 in c's seat.
//
// A change of the list, from a, b, c to a, b, c, d. d1 starts with the new list, and waits: none of the others has it, and it has no
// seat. c1 is replaced by c2, which starts with it. a1 and b1 bind c2 (version k+1), and the seat says which list c2 has. c2 learns k+1,
// and proposes the new list: the change before is complete, and one entry is added. Two of a1, b1, c2 accept k+2, and bind d1 in
// k+3; from there on three of four decide. If all that know k+2 end but one, that one answers a call of either list, as neither list
// has more than one entry outside the other. It shows k+2, and the mesh goes on from that. Else a1 and b1 are replaced by a2 and b2,
// with the new list, one after the other. Until both are bound, and each shard has two voters that live, every other change is
// refused (errOngoing), but that back to a, b, c, once a, b and c have been started with that again.
package core

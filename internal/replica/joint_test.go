package replica

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/placement"
	"github.com/lockmesh/mesh/shard"
)

// voterChanges are changes of voters, of a shard whose replicas 1 to n vote, and 4 is a learner unless it votes.
var voterChanges = []struct {
	name   string
	voters int
	change placement.ChangeVoters
	deaf   []uint64 // to whom no entry gets from the change on; the others are most of the voters before it
	want   []uint64
}{
	{"one of three goes", 3, placement.ChangeVoters{Remove: []uint64{2}}, []uint64{3}, []uint64{1, 3}},
	{"a second one comes", 1, placement.ChangeVoters{Promote: []uint64{4}}, []uint64{4}, []uint64{1, 4}},
	{"a third one comes", 2, placement.ChangeVoters{Promote: []uint64{4}}, []uint64{4}, []uint64{1, 2, 4}},
	{"a fourth one comes", 3, placement.ChangeVoters{Promote: []uint64{4}}, []uint64{3, 4}, []uint64{1, 2, 3, 4}},
	{"one of four goes", 4, placement.ChangeVoters{Remove: []uint64{2}}, []uint64{3}, []uint64{1, 3, 4}},
	{"one of two goes", 2, placement.ChangeVoters{Remove: []uint64{2}}, nil, []uint64{1}},
	{"one of two is replaced", 2, placement.ChangeVoters{Promote: []uint64{4}, Remove: []uint64{2}}, []uint64{4}, []uint64{1, 4}},
	{"one of three is replaced", 3, placement.ChangeVoters{Promote: []uint64{4}, Remove: []uint64{2}}, []uint64{3, 4}, []uint64{1, 3, 4}},
	{"two of four go", 4, placement.ChangeVoters{Remove: []uint64{2, 4}}, []uint64{3}, []uint64{1, 3}},
}

// voting returns a shard of which replicas 1 to n vote, and 4 is a learner at least.
func voting(t *testing.T, n int) (*trio, *Replica) {
	t.Helper()
	w, leader := led(t)
	w.add(1)
	leader.addLearner(w.replicas[3].cfg.Self)
	w.run(t, 4*HeartbeatTicks)
	switch n {
	case 1:
		w.swap(t, leader, placement.ChangeVoters{Remove: []uint64{2, 3}})
	case 2:
		w.swap(t, leader, placement.ChangeVoters{Remove: []uint64{3}})
	case 4:
		w.swap(t, leader, placement.ChangeVoters{Promote: []uint64{4}})
	}
	w.run(t, 2*HeartbeatTicks)
	if got := leader.Voters(); len(got) != n || leader.Joint() {
		t.Fatalf("voters %v, want %d", got, n)
	}
	return w, leader
}

// swap makes the leader propose a change of voters, when those have answered who must.
func (w *trio) swap(t *testing.T, leader *Replica, c placement.ChangeVoters) {
	t.Helper()
	leader.swap(c)
	w.run(t, 2*HeartbeatTicks)
	if leader.swap(c); !leader.leading.placing.pending {
		t.Fatal("the leader does not propose the change")
	}
}

// Promise: P30: whenever the voters are not being changed, most of them have what the leader has applied,
// and told. So of two voters each has it, whatever came of the change before.
// Method: a grant follows a change at once, and both get only to those whom the change does not need.
func TestMostVotersHaveWhatIsBehindAChange(t *testing.T) {
	for _, tt := range voterChanges {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := voting(t, tt.voters)
			check := func() {
				t.Helper()
				has := func(id uint64) bool { return lastIndex(t, w.replicas[id-1]) >= leader.applied.index }
				if c := leader.members.conf; !leader.Joint() && !majority(c.Voters, has) {
					t.Errorf("of the voters %v no majority has what %v have", c.Voters, slices.DeleteFunc([]uint64{1, 2, 3, 4}, func(id uint64) bool { return !has(id) }))
				}
			}
			c := tt.change
			leader.swap(c)
			w.run(t, 2*HeartbeatTicks)
			w.loses = func(f Frame) bool { return f.Message.GetType() == raftpb.MsgApp && slices.Contains(tt.deaf, f.To) }
			leader.swap(c)
			a, raw := ask(1, "k")
			if err := leader.Submit(w.now, a, raw); err != nil {
				t.Fatal(err)
			}
			w.settle(t)
			if !slices.ContainsFunc(w.events, func(e shard.Event) bool { return e.What == shard.Granted }) {
				t.Fatal("nothing is granted behind the change")
			}
			check()
			w.run(t, electionTicks/2)
			check()
			w.loses = nil
			w.run(t, 2*HeartbeatTicks)
			check()
			if got := leader.Voters(); leader.Joint() || !slices.Equal(got, tt.want) {
				t.Errorf("voters %v, want %v", got, tt.want)
			}
		})
	}
}

// Each change of voters is joint, also that of a single one. Learners come and go by simple ones.
func TestEveryChangeOfVotersIsJoint(t *testing.T) {
	joint := func(r *Replica, after uint64) (all []bool) { // for each change since
		last := lastIndex(t, r)
		entries, err := r.store.Entries(after+1, last+1, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			cc := &raftpb.ConfChangeV2{}
			if e.GetType() != raftpb.EntryConfChangeV2 {
				continue
			}
			if err := proto.Unmarshal(e.Data, cc); err != nil {
				t.Fatal(err)
			}
			_, is := cc.EnterJoint()
			all = append(all, is)
		}
		return all
	}
	for _, tt := range voterChanges {
		t.Run(tt.name, func(t *testing.T) {
			w, leader := voting(t, tt.voters)
			before := lastIndex(t, leader)
			w.swap(t, leader, tt.change)
			w.run(t, 2*HeartbeatTicks)
			if got := joint(leader, before); !slices.Equal(got, []bool{true, false}) { // the second one is the end
				t.Errorf("the changes are joint: %v", got)
			}
		})
	}
	t.Run("learners", func(t *testing.T) {
		w, leader := voting(t, 3)
		w.add(1)
		before := lastIndex(t, leader)
		leader.addLearner(w.replicas[4].cfg.Self)
		w.run(t, 2*HeartbeatTicks)
		leader.change([]*raftpb.ConfChangeSingle{single(raftpb.ConfChangeRemoveNode, 4)}, nil)
		w.run(t, 2*HeartbeatTicks)
		if got := joint(leader, before); !slices.Equal(got, []bool{false, false}) || !slices.Equal(leader.Learners(), []uint64{5}) {
			t.Errorf("the changes are joint: %v, and the learners are %v", got, leader.Learners())
		}
	})
}

// Promise: G6, P30: a change of one voter that has begun is ended by whoever leads next, or by its leader when that
// is back.
// Method: the leader is lost when only it knows that the change has begun; or when the others know that, too.
func TestAnotherLeaderEndsTheChange(t *testing.T) {
	for _, tt := range []struct {
		name   string
		voters int
		change placement.ChangeVoters
		other  uint64 // than the leader
		want   []uint64
	}{
		{"one of three goes", 3, placement.ChangeVoters{Remove: []uint64{3}}, 2, []uint64{1, 2}},
		{"a fourth one comes", 3, placement.ChangeVoters{Promote: []uint64{4}}, 4, []uint64{1, 2, 3, 4}},
		{"one of four goes", 4, placement.ChangeVoters{Remove: []uint64{4}}, 4, []uint64{1, 2, 3}},
		{"the old leader goes", 3, placement.ChangeVoters{Remove: []uint64{1}}, 3, []uint64{2, 3}},
		{"one of two goes", 2, placement.ChangeVoters{Remove: []uint64{2}}, 2, []uint64{1}},
		{"a second one comes", 1, placement.ChangeVoters{Promote: []uint64{4}}, 4, []uint64{1, 4}},
	} {
		for _, known := range []bool{false, true} {
			w, leader := voting(t, tt.voters)
			if tt.want[0] != 1 {
				leader.Receive(w.now, 102, &Accept{leader.Term()})
				if w.run(t, 2*HeartbeatTicks); !w.replicas[1].Serving() {
					t.Fatal("2 does not lead")
				}
				leader = w.replicas[1]
			}
			leader.swap(tt.change)
			w.run(t, 2*HeartbeatTicks)
			leader.swap(tt.change)
			before := lastIndex(t, leader)
			w.loses = func(f Frame) bool { return endsChange(f) || !known && f.Message.GetCommit() > before }
			w.run(t, 1)
			if known {
				w.run(t, HeartbeatTicks)
			}
			if other := w.replicas[tt.other-1]; !leader.Joint() || other.Joint() != known {
				t.Fatalf("%s: to %d the change is under way: %v, and to %d: %v", tt.name, leader.ID(), leader.Joint(), tt.other, other.Joint())
			}
			w.cut[leader.ID()], w.loses = true, nil
			w.run(t, 4*electionTicks)
			w.cut[leader.ID()] = false
			w.run(t, 4*electionTicks)
			serving := 0
			for _, id := range tt.want {
				r := w.replicas[id-1]
				if r.Serving() {
					serving++
				}
				if got := r.Voters(); r.Joint() || !slices.Equal(got, tt.want) {
					t.Errorf("%s, and others know of it: %v: to %d the voters are %v, want %v", tt.name, known, id, got, tt.want)
				}
			}
			if serving != 1 {
				t.Errorf("%s, and others know of it: %v: %d lead", tt.name, known, serving)
			}
		}
	}
}

// unheard returns a shard whose replica 4 has lost its vote. Only the first replica, which led and is now cut off, knows that. The
// heir, replica 2 or 3, has the end of that change in its log, and behind it an entry of a later leader.
func unheard(t *testing.T) (w *trio, first, heir *Replica, ends uint64) {
	t.Helper()
	w, first = voting(t, 4)
	w.swap(t, first, placement.ChangeVoters{Remove: []uint64{4}})
	begins := lastIndex(t, first) + 1
	w.loses = func(f Frame) bool { return f.From == 1 && f.Message.GetCommit() > begins }
	for n := 0; first.applied.index <= begins || first.Joint(); n++ {
		if w.run(t, 1); n > electionTicks {
			t.Fatal("the leader does not end the change")
		}
	}

	w.cut[1] = true
	w.loses = func(f Frame) bool { return f.Message.GetType() == raftpb.MsgAppResp }
	leads := func(r *Replica) bool { return r.role == raft.StateLeader && r != first }
	for n := 0; !slices.ContainsFunc(w.replicas, leads); n++ {
		if w.run(t, 1); n > 10*electionTicks {
			t.Fatal("no other one leads")
		}
	}
	w.run(t, 1)
	heir = w.replicas[1]
	if leads(heir) {
		heir = w.replicas[2]
	}
	if term, err := heir.store.Term(heir.Last()); err != nil || !heir.Joint() || term <= first.Term() {
		t.Fatalf("%d goes by two configurations: %v; its log ends in term %d, and that of the first in %d, %v", heir.ID(), heir.Joint(), term, first.Term(), err)
	}
	w.loses = nil
	return w, first, heir, begins + 1
}

// Promise: G6, P30: when a change of voters is over and those that lost their votes have ended, any majority of the
// new voters elects a leader, also if the one that knows that it is over has the shorter log.
func TestVotersHearThatAChangeIsOver(t *testing.T) {
	w, first, heir, _ := unheard(t)
	w.cut = map[uint64]bool{2: heir.ID() != 2, 3: heir.ID() != 3, 4: true}
	w.run(t, 4*electionTicks)
	if !heir.Serving() || heir.Joint() || first.Joint() {
		t.Errorf("the heir leads: %v, of the voters %v", heir.Serving(), heir.Voters())
	}
}

// Promise: G6, P30: a replica that is to get a vote, and has the longest log, hears of that, and leads or votes.
// Method: the first alone knows that the change has begun. The third leads after it, gets an entry more to the fourth
// alone, and is lost; the first has the shorter log then, the second lacks the change, and the fourth has no vote yet.
func TestWhoIsToVoteHearsOfIt(t *testing.T) {
	w, first := voting(t, 3)
	w.swap(t, first, placement.ChangeVoters{Promote: []uint64{4}, Remove: []uint64{2}})
	begins := lastIndex(t, first) + 1
	w.loses = func(f Frame) bool {
		return f.From == 1 && (f.To == 2 && f.Message.GetType() == raftpb.MsgApp || f.Message.GetCommit() >= begins)
	}
	for n := 0; first.applied.index < begins; n++ {
		if w.run(t, 1); n > electionTicks {
			t.Fatal("the leader does not begin the change")
		}
	}

	w.cut[1] = true
	w.loses = func(f Frame) bool {
		kind := f.Message.GetType()
		return f.From == 2 && kind == raftpb.MsgPreVote || f.To == 2 && kind == raftpb.MsgApp || kind == raftpb.MsgAppResp
	}
	third, fourth := w.replicas[2], w.replicas[3]
	for n := 0; third.role != raft.StateLeader; n++ {
		if w.run(t, 1); n > 10*electionTicks {
			t.Fatal("the third does not lead")
		}
	}
	w.run(t, 1)
	if term, err := fourth.store.Term(fourth.Last()); err != nil || term != third.Term() || fourth.members.votes(4) || !first.Joint() {
		t.Fatalf("the log of the fourth ends in term %d, and it votes: %v; the first is joint: %v; %v", term, fourth.members.votes(4), first.Joint(), err)
	}

	w.cut, w.loses = map[uint64]bool{3: true}, nil
	w.run(t, 6*electionTicks)
	if !slices.ContainsFunc(w.replicas, func(r *Replica) bool { return r != third && r.Serving() }) {
		t.Errorf("nobody leads; the fourth has a vote: %v", fourth.members.votes(4))
	}
}

// hearsAnswer lets a replica hear that the first does not give it its pre-vote, and has applied the log up to an entry.
func hearsAnswer(r *Replica, commit, term uint64) {
	r.Receive(r.now, 101, &Frame{Generation: r.cfg.Generation, From: 1, To: r.ID(), Message: &raftpb.Message{
		Type: raftpb.MsgPreVoteResp.Enum(), From: proto.Uint64(1), To: proto.Uint64(r.ID()), Term: proto.Uint64(r.Term()), Reject: proto.Bool(true),
		Commit: proto.Uint64(commit), LogTerm: proto.Uint64(term),
	}})
	r.Ready(r.now, &Output{})
}

// Promise: G6, P20, P30: what others tell deposes no leader that a replica follows, and ends no election that has come to votes.
func TestWhoHearsNoAnswer(t *testing.T) {
	for _, role := range []string{"it follows a leader", "it asks for votes"} {
		_, first, heir, ends := unheard(t)
		if role == "it asks for votes" {
			heir.now += 2 * ElectionTimeout
			heir.stand()
			heir.Ready(heir.now, &Output{})
			for _, id := range heir.Voters() {
				if id != heir.ID() {
					heir.Receive(heir.now, 100+id, &Frame{Generation: heir.cfg.Generation, From: id, To: heir.ID(), Message: &raftpb.Message{
						Type: raftpb.MsgPreVoteResp.Enum(), From: proto.Uint64(id), To: proto.Uint64(heir.ID()), Term: proto.Uint64(heir.Term() + 1),
					}})
				}
			}
			heir.Ready(heir.now, &Output{})
		}
		state, lead := heir.role, heir.lead
		if is := lead != 0; is != (role == "it follows a leader") || !is && state != raft.StateCandidate {
			t.Fatalf("%s: its leader is %d, and its role %v", role, lead, state)
		}
		hearsAnswer(heir, ends, first.Term())
		if !heir.Joint() || heir.role != state || heir.lead != lead {
			t.Errorf("%s: the change is over: %v; its leader is %d, and its role %v", role, !heir.Joint(), heir.lead, heir.role)
		}
	}
}

// Promise: G1, P30: nothing is committed by an answer that does not name the entry which the log here has, and an answer that
// tells nothing of voters does not hold up an election.
func TestWhatAnAnswerTells(t *testing.T) {
	_, first, heir, ends := unheard(t)
	term := first.Term()
	last, err := heir.store.Term(heir.Last())
	if err != nil || heir.Last() <= ends {
		t.Fatalf("the log ends at entry %d, and the change at %d: %v", heir.Last(), ends, err)
	}
	for _, tt := range []struct {
		name         string
		commit, term uint64
		over         bool // the change is, as far as the heir knows
		again        bool // the heir begins its election anew, at once
	}{
		{"nothing", 0, 0, false, false},
		{"the beginning of the change, which is known", ends - 1, term, false, false},
		{"another entry at that place", ends, term - 1, false, false},
		{"an entry beyond the log", ends + 100, term + 100, false, false},
		{"a number that no entry can have", math.MaxUint64, 0, false, false},
		{"the end of the change", ends, term, true, true},
		{"an entry behind it, which changes no voters", heir.Last(), last, true, false},
	} {
		heir.now += 2 * ElectionTimeout
		heir.stand()
		heir.Ready(heir.now, &Output{})
		hearsAnswer(heir, tt.commit, tt.term)
		stands, soon := heir.role == raft.StatePreCandidate, heir.WakeAt() <= heir.now
		if heir.Joint() == tt.over || stands == tt.again || soon != tt.again || heir.Err() != nil {
			t.Errorf("%s: the change is over here: %v; it stands for election: %v, and again at once: %v; %v", tt.name, !heir.Joint(), stands, soon, heir.Err())
		}
	}
}

// Promise: P21, P30: what an answer tells does not move the times at which the first of them asks for votes after its leader died.
func TestWhatAnAnswerTellsEarly(t *testing.T) {
	_, first, heir, ends := unheard(t)
	heir.now += 2 * ElectionTimeout
	heir.stand()
	heir.election.early = heir.now + time.Millisecond
	heir.Ready(heir.now, &Output{})
	hearsAnswer(heir, ends, first.Term())
	if at := heir.WakeAt() - heir.now; heir.Joint() || at != time.Millisecond {
		t.Errorf("it asks again after %v, by two configurations: %v", at, heir.Joint())
	}
}

// Of three replicas one is gone. The second is elected while a change is on its way that
// leaves only the first with a vote, and ends with that change; what it appended after
// the end of the joint configuration reaches nobody. The first has to lead, and needs the
// vote of the second, which must not have a longer log.
func TestALeaderThatIsTakenOutAppendsNothingMore(t *testing.T) {
	w, first := led(t)
	second := w.replicas[1]
	w.run(t, 2*HeartbeatTicks)
	w.cut[3] = true

	// The first cannot commit its change, and leads no more. It has to hear of the second before.
	first.swap(placement.ChangeVoters{Remove: []uint64{2, 3}})
	w.run(t, HeartbeatTicks)
	w.loses = func(f Frame) bool {
		return f.From == 2 && second.Term() == first.Term() ||
			f.From == 1 && f.Message.GetType() == raftpb.MsgPreVote
	}
	first.swap(placement.ChangeVoters{Remove: []uint64{2, 3}})
	for n := 0; first.Serving(); n++ {
		if w.run(t, 1); n > 2*electionTicks {
			t.Fatal("the first leads without a majority")
		}
	}

	// The second does, and is taken out.
	leave := uint64(0)
	w.loses = func(f Frame) bool {
		if f.From == 1 {
			return f.Message.GetType() == raftpb.MsgPreVote
		}
		for _, e := range f.Message.GetEntries() {
			if leave != 0 && e.GetIndex() > leave {
				return true
			}
			if e.GetType() == raftpb.EntryConfChangeV2 && len(e.Data) == 0 {
				leave = e.GetIndex()
			}
		}
		return false
	}
	for n := 0; second.members.votes(2); n++ {
		if w.run(t, 1); n > 10*electionTicks {
			t.Fatalf("the second has the configuration %v, of which it leads %v", second.members.conf, second.Serving())
		}
	}
	if leave == 0 || second.Serving() || first.Serving() {
		t.Fatalf("the end of the change is entry %d; serving: %v, %v", leave, first.Serving(), second.Serving())
	}

	w.loses = nil
	w.run(t, 10*electionTicks)
	if !first.Serving() || first.Joint() {
		t.Errorf("the only voter does not lead: its log ends at %d, and the other's at %d",
			lastIndex(t, first), lastIndex(t, second))
	}
}

func lastIndex(tb testing.TB, r *Replica) uint64 {
	tb.Helper()
	last, err := r.store.LastIndex()
	if err != nil {
		tb.Fatal(err)
	}
	return last
}

// Promise: G1, G6 and P30: any voters become any others, whoever is cut off meanwhile and whatever gets lost; each
// time that is over, most of those who vote then have what a leader has applied, and in the end somebody leads.
// Method: whoever leads a shard of one to four voters proposes changes at random, is asked for locks, and hands over
// now and then, also while the voters change.
func TestVotersChangeAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		if changeAtRandom(t, seed); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func changeAtRandom(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	w, _ := led(t)
	loss, request := random.IntN(20), uint64(0)
	w.loses = func(Frame) bool { return random.IntN(100) < loss }
	for range 400 {
		switch random.IntN(30) {
		case 0:
			w.cut[1+random.Uint64N(uint64(len(w.replicas)))] = true
		case 1, 2:
			clear(w.cut)
		}
		for _, r := range w.replicas {
			if !r.Serving() {
				continue
			}
			if !r.Joint() && r.leading.placing.look(w.now) {
				w.changeSome(r, random)
			}
			if voters := r.Voters(); random.IntN(20) == 0 {
				r.Receive(w.now, 100+voters[random.IntN(len(voters))], &Accept{r.Term()})
			}
			for range random.IntN(3) {
				request++
				a, _ := ask(request, "k")
				a.Value = nil
				_ = r.Submit(w.now, a, shard.AppendCommand(nil, a)) // it serves
			}
		}
		w.run(t, 1)
		for _, r := range w.replicas {
			if !r.Serving() {
				continue
			}
			has := func(id uint64) bool { return w.replicas[id-1].Last() >= r.applied.index }
			if c := r.members.conf; !majority(c.Voters, has) && (!r.Joint() || !majority(c.VotersOutgoing, has)) {
				t.Errorf("at entry %d, the leader %d counts by %v, and no majority has what it has applied", r.applied.index, r.ID(), c)
			}
		}
	}
	clear(w.cut)
	w.loses = nil
	w.run(t, 10*electionTicks)
	serving := slices.DeleteFunc(slices.Clone(w.replicas), func(r *Replica) bool { return !r.Serving() })
	if len(serving) != 1 || serving[0].Joint() || !serving[0].members.votes(serving[0].ID()) {
		t.Errorf("in the end %d lead", len(serving))
		for _, r := range w.replicas {
			t.Logf("%d: term %d, serves %v, of %v, last %d", r.ID(), r.Term(), r.Serving(), r.members.conf, r.Last())
		}
		return
	}
	for _, id := range serving[0].Voters() {
		r := w.replicas[id-1]
		if r.Last() < serving[0].Applied() || r.Applied() == serving[0].Applied() && r.Table().Sum() != serving[0].Table().Sum() {
			t.Errorf("%d has %d entries, or another table, and the leader %d has applied %d", id, r.Last(), serving[0].ID(), serving[0].Applied())
		}
	}
}

// changeSome lets a leader change a voter or two, or add a learner.
func (w *trio) changeSome(leader *Replica, random *rand.Rand) {
	var c placement.ChangeVoters
	voters, learners := slices.Clone(leader.members.conf.Voters), leader.Learners()
	n := len(voters)
	for _, id := range learners {
		if random.IntN(2) == 0 && n < 4 && leader.replicates(id) {
			c.Promote = append(c.Promote, id)
			n++
		}
	}
	for _, id := range voters {
		switch {
		case id == leader.ID() || n < 2:
		case random.IntN(4) == 0:
			c.Remove = append(c.Remove, id)
			n--
		}
	}
	if len(learners) < 2 && len(w.replicas) < 12 {
		for uint64(len(w.replicas)) < leader.members.next() {
			w.add(1)
		}
		leader.addLearner(w.replicas[leader.members.next()-1].cfg.Self)
		return
	}
	if len(c.Promote)+len(c.Remove) > 0 {
		leader.swap(c)
	}
}

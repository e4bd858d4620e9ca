package story

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// traffic is what a story does to messages.
type traffic struct {
	stage   *stage
	rules   []*rule
	watches []*watch
}

// rule is what becomes of some messages.
type rule struct {
	phrase  *phrase
	verdict simulate.Verdict
	late    span // instead of verdict, if it is not zero
	left    int  // of how many frames; below zero: of all
	teller  *teller
}

// watch hears whether some messages were sent.
type watch struct {
	phrase *phrase
	seen   int    // how many
	then   func() // called once, with the first
}

func newTraffic(s *stage) *traffic {
	tr := &traffic{stage: s}
	s.Net.Rule(tr.judge)
	return tr
}

// judge looks at a frame: the first of its messages that a rule is about decides for the
// whole of it.
func (tr *traffic) judge(f simulate.Frame) simulate.Verdict {
	if len(tr.rules) == 0 && len(tr.watches) == 0 || f.Kind == transport.KindGossip {
		return simulate.Pass
	}
	verdict := simulate.Pass
	for _, w := range words(f) {
		for _, x := range tr.watches {
			if x.phrase.fits(tr.stage, f, w) {
				if x.seen++; x.seen == 1 && x.then != nil {
					x.then()
				}
			}
		}
		if verdict != simulate.Pass {
			continue
		}
		for _, r := range tr.rules {
			if r.left != 0 && r.phrase.fits(tr.stage, f, w) {
				verdict = r.decide()
				break
			}
		}
	}
	return verdict
}

func (r *rule) decide() simulate.Verdict {
	r.left--
	if r.late != (span{}) {
		return simulate.Verdict(r.late.draw(r.teller))
	}
	return r.verdict
}

// let ends the rules about a phrase, and lets go what they kept.
func (tr *traffic) let(p *phrase) (found bool) {
	n := len(tr.rules)
	tr.rules = slices.DeleteFunc(tr.rules, func(r *rule) bool { return r.phrase.text == p.text })
	from, to := p.from, p.to
	var all []string
	for _, h := range tr.stage.Hosts() {
		all = append(all, h.Name())
	}
	if from == nil {
		from = all
	}
	if to == nil {
		to = all
	}
	for _, a := range from {
		for _, b := range to {
			if a != b {
				tr.stage.Net.Release(a, b)
			}
		}
	}
	return len(tr.rules) < n
}

// sent returns how many messages of a phrase were sent since its latest watch began.
func (tr *traffic) sent(p *phrase) int {
	for _, x := range slices.Backward(tr.watches) {
		if x.phrase == p {
			return x.seen
		}
	}
	return 0
}

// clear ends all rules.
func (tr *traffic) clear() {
	tr.rules, tr.watches = nil, nil
	tr.stage.Net.ReleaseAll()
}

// word is one message of a frame.
type word struct {
	message message.Message // nil: of the founding and the like
	shard   int
	name    string // as Frame.Messages has it
	logged  []shard.Command
	change  *raftpb.ConfChangeV2 // of voters, in the log entries that it brings; nil: none
}

// key returns the key that a request or a reply is about, or "": "lock k", "granted k token
// 7", "refused lock k: locked". Keys of stories have no blanks.
func (w word) key() string {
	part := strings.Fields(strings.TrimPrefix(w.name, "refused "))
	if len(part) < 2 || !is[*message.Request](w) && !is[*message.Reply](w) {
		return ""
	}
	return strings.TrimSuffix(part[1], ":")
}

// words takes a frame apart.
func words(f simulate.Frame) (all []word) {
	names := f.Messages()
	if f.Kind != transport.KindShard {
		return []word{{name: strings.Join(names, ", ")}}
	}
	var r message.Reader
	for r.Reset(f.Body, 1<<20); r.Next(); r.Keep() {
		w := word{message: r.Message, shard: r.Shard}
		if f, ok := r.Message.(*replica.Frame); ok {
			w.logged, w.change = logged(f.Message), change(f.Message)
		}
		if len(all) < len(names) {
			w.name = names[len(all)]
		}
		all = append(all, w)
	}
	return all
}

// logged returns the commands in the log entries that a raft message brings.
func logged(m *raftpb.Message) (all []shard.Command) {
	if m.GetType() != raftpb.MsgApp {
		return nil
	}
	for _, e := range m.Entries {
		if e.GetType() != raftpb.EntryNormal || len(e.Data) == 0 {
			continue
		}
		r := wire.NewReader(e.Data)
		r.Uint(1<<64 - 1) // version
		r.Uint(1<<64 - 1) // time
		for r.Len() > 0 && r.Err() == nil {
			if c := shard.ReadCommand(r); r.Err() == nil {
				all = append(all, c)
			}
		}
	}
	return all
}

// change returns the last change of voters that a raft message brings, or the end of one.
func change(m *raftpb.Message) (last *raftpb.ConfChangeV2) {
	for _, e := range m.Entries {
		cc := &raftpb.ConfChangeV2{}
		if e.GetType() == raftpb.EntryConfChangeV2 && proto.Unmarshal(e.Data, cc) == nil && (concludes(cc) || promotes(cc) || demotes(cc)) {
			last = cc
		}
	}
	return last
}

func concludes(cc *raftpb.ConfChangeV2) bool { return cc != nil && len(cc.Changes) == 0 }

func promotes(cc *raftpb.ConfChangeV2) bool {
	return cc != nil && slices.ContainsFunc(cc.Changes, func(c *raftpb.ConfChangeSingle) bool { return c.GetType() == raftpb.ConfChangeAddNode })
}

func demotes(cc *raftpb.ConfChangeV2) bool {
	return cc != nil && slices.ContainsFunc(cc.Changes, func(c *raftpb.ConfChangeSingle) bool { return c.GetType() == raftpb.ConfChangeRemoveNode })
}

// phrase names messages: "unlock replies of k to ann".
type phrase struct {
	text     string
	what     func(w word) bool
	of       string // the host whose sessions logged commands are of
	key      string // as the mesh calls it
	shard    int    // -1: any
	from, to []string
}

// fits reports whether the phrase is about a message of a frame.
func (p *phrase) fits(s *stage, f simulate.Frame, w word) bool {
	if p.from != nil && !slices.Contains(p.from, f.From) || p.to != nil && !slices.Contains(p.to, f.To) ||
		p.shard >= 0 && (w.message == nil || w.shard != p.shard) || !p.what(w) {
		return false
	}
	if p.key != "" {
		return w.key() == p.key
	}
	if p.of != "" {
		return slices.ContainsFunc(w.logged, func(c shard.Command) bool { return s.ids[sessionOf(c).Node] == p.of })
	}
	return true
}

func sessionOf(c shard.Command) shard.SessionID {
	switch c := c.(type) {
	case shard.Expire:
		return c.Session
	case shard.Silent:
		return c.Session
	}
	return shard.SessionID{}
}

func is[M message.Message](w word) bool { _, ok := w.message.(M); return ok }

func called[M message.Message](prefixes ...string) func(word) bool {
	return func(w word) bool {
		return is[M](w) && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(w.name, p) })
	}
}

func logs(what func(shard.Command) bool) func(word) bool {
	return func(w word) bool { return slices.ContainsFunc(w.logged, what) }
}

func isExpiry(c shard.Command) bool { _, ok := c.(shard.Expire); return ok }

// isSilence: a Silent for no time ends a silence.
func isSilence(c shard.Command) bool { s, ok := c.(shard.Silent); return ok && s.For > 0 }

// vocabulary is how stories call messages. Those that are about a session, in the log,
// may be "of" a host; those with a key "of" a key.
var vocabulary = []struct {
	name string
	what func(word) bool
}{
	{"everything", func(w word) bool { return w.message != nil }},
	{"requests", is[*message.Request]},
	{"lock requests", called[*message.Request]("lock ")},
	{"unlock requests", called[*message.Request]("unlock ")},
	{"downgrade requests", called[*message.Request]("downgrade ")},
	{"cancels", called[*message.Request]("cancel")},
	{"fixes", called[*message.Request]("fix ")},
	{"closes", called[*message.Request]("close")},
	{"operations", called[*message.Request]("pull ", "update ", "delete ", "run ")},
	{"ends", called[*message.Request]("end ", "fail ")},
	{"drops", called[*message.Request]("drop ")},
	{"campaigns", called[*message.Request]("stand ")},
	{"proclamations", called[*message.Request]("proclaim ")},
	{"arrivals", called[*message.Request]("arrive ")},
	{"replies", is[*message.Reply]},
	{"lock replies", called[*message.Reply]("granted", "queued", "refused lock")},
	{"grants", called[*message.Reply]("granted")},
	{"unlock replies", called[*message.Reply]("unlocked", "refused unlock")},
	{"downgrade replies", called[*message.Reply]("downgraded", "refused downgrade")},
	{"cancel replies", called[*message.Reply]("cancelled", "refused cancel")},
	{"fix replies", called[*message.Reply]("fixed", "refused fix")},
	{"close replies", called[*message.Reply]("closed", "refused close")},
	{"skips", called[*message.Reply]("skipped")},
	{"end replies", called[*message.Reply]("ended", "failed", "refused end", "refused fail")},
	{"drop replies", called[*message.Reply]("dropped", "refused drop")},
	{"questions", is[*message.Query]},
	{"views", is[*message.View]},
	{"questions for leaders", is[*message.Observe]},
	{"leaders", is[*message.Led]},
	{"looks", is[*message.Inspect]},
	{"sights", is[*message.State]},
	{"redirects", is[*message.Redirect]},
	{"renewals", is[*message.Renewal]},
	{"renewal answers", is[*message.Answer]},
	{"announcements", is[*message.Serving]},
	{"passed on messages", is[*message.Forward]},
	{"replication", is[*replica.Frame]},
	{"appends", func(w word) bool {
		return called[*replica.Frame]("append ")(w) && !strings.HasPrefix(w.name, "append 0")
	}},
	{"empty appends", called[*replica.Frame]("append 0")},
	{"append answers", called[*replica.Frame]("appended")},
	{"heartbeats", func(w word) bool { return is[*replica.Frame](w) && w.name == "heartbeat" }},
	{"heartbeat answers", called[*replica.Frame]("heartbeat answered")},
	{"votes", called[*replica.Frame]("prevote", "vote")},
	{"expiries", logs(isExpiry)},
	{"silences", logs(isSilence)},
	{"promotions", func(w word) bool { return promotes(w.change) }},
	{"demotions", func(w word) bool { return demotes(w.change) }},
	{"conclusions", func(w word) bool { return concludes(w.change) }},
	{"snapshots", is[*replica.Chunk]},
	{"snapshot answers", is[*replica.ChunkAck]},
	{"orders", is[*replica.Host]},
	{"missing replicas", is[*replica.Missing]},
	{"digests", is[*replica.Sum]},
	{"removals", is[*replica.Removed]},
	{"offers", func(w word) bool { return is[*replica.Offer](w) || is[*replica.Accept](w) }},
	{"transfers", called[*replica.Frame]("campaign")},
	{"founding messages", func(w word) bool {
		return w.message == nil && w.name != "status" && w.name != "leaving"
	}},
	{"status reports", func(w word) bool { return w.message == nil && w.name == "status" }},
	{"farewells", func(w word) bool { return w.message == nil && w.name == "leaving" }},
}

// messages reads a phrase: "unlock replies of k from owner to ann and bob".
func (p *parser) messages(text string) (*phrase, error) {
	ph := &phrase{text: text, shard: -1}
	rest := text
	var err error
	for _, part := range []struct {
		word  string
		hosts *[]string
	}{{" to ", &ph.to}, {" from ", &ph.from}} {
		if before, after, ok := strings.Cut(rest, part.word); ok {
			rest = before
			if *part.hosts, err = p.hostsOf(after); err != nil {
				return nil, err
			}
		}
	}
	what, of, ok := strings.Cut(rest, " of ")
	if n, is := strings.CutPrefix(of, "shard "); is {
		if ph.shard, err = strconv.Atoi(n); err != nil {
			return nil, err
		}
	} else if ok && (what == "expiries" || what == "silences") {
		ph.of = of
		if err := p.host(of); err != nil {
			return nil, err
		}
	} else if ok {
		if err := p.story.plan.hasKey(of); err != nil {
			return nil, err
		}
		ph.key = p.story.plan.key(of)
	}
	for _, v := range vocabulary {
		if v.name == what {
			ph.what = v.what
			return ph, nil
		}
	}
	return nil, fmt.Errorf("there are no messages %q", what)
}

package simulate

import (
	"strings"

	"github.com/lockmesh/mesh/transport"
)

// sieve is what makes a world's network lose or double frames for what they carry: so one kind of
// message is lost again and again while all others arrive. The seed draws which kinds, and how
// often. What is doubled arrives twice in a row: frames of one class keep their order, as on any
// connection.
type sieve struct {
	kinds  map[string]*sifted // by a message's name or its first word; looked up, never ranged over
	chance *stream
	on     bool // something is lost or doubled
}

// sifted is what befalls frames with a kind of message.
type sifted struct {
	lose, double int64  // in percent
	taken        uint64 // how many were lost or doubled
}

// sievePrefix begins the names of the parameters that say what a sieve does.
const sievePrefix = "net-"

// sieveKinds are the kinds of messages, each with the names, or the first words of the names, that
// [Frame.Messages] gives to its messages.
var sieveKinds = [...]struct {
	name     string
	messages []string
}{
	{"requests", []string{"lock", "stand", "proclaim", "enter", "wait", "arrive", "unlock", "downgrade", "resize", "break", "fix", "cancel", "close"}},
	{"operations", []string{"pull", "update", "delete", "run", "end", "fail"}},
	{"uses", []string{"drop", "remember", "recall", "report"}},
	{"replies", []string{"granted", "queued", "skipped", "refused", "refused:", "unlocked", "downgraded", "resized", "broken", "ended", "failed", "dropped", "fixed", "cancelled", "closed", "proclaimed", "arrived", "recalled", "done"}},
	{"questions", []string{"who", "look"}},
	{"views", []string{"who uses it", "leader", "nobody", "seen"}},
	{"renewals", []string{"renewal"}},
	{"answers", []string{"renewal answered"}},
	{"redirects", []string{"not here"}},
	{"leaders", []string{"I lead"}},
	{"offers", []string{"will you lead", "I will lead", "campaign"}},
	{"hosts", []string{"host"}},
	{"removals", []string{"you are removed", "no such replica"}},
	{"digests", []string{"table's digest"}},
	{"appends", []string{"append"}},
	{"appended", []string{"appended"}},
	{"heartbeats", []string{"heartbeat", "heartbeat answered"}},
	{"votes", []string{"vote", "prevote"}},
	{"chunks", []string{"snapshot"}},
	{"received", []string{"chunk received"}},
	{"status", []string{"status"}},
	{"leaving", []string{"leaving"}},
	{"told", []string{"core: told"}},
	{"tables", []string{"core: show", "core: shown"}},
	{"calls", []string{"core: call", "core: answer", "core: propose", "core: proposed", "core: refused", "core: confirm", "core: confirmed"}},
	{"versions", []string{"core: read", "core: value", "core: write", "core: written", "core: order", "core: outcome"}},
	{"fences", []string{"core: fence", "core: fenced"}},
}

// drawSieve draws what the world's network loses or doubles for what it carries. As with fault
// points, the trace does not count these draws.
func (w *World) drawSieve() *sieve {
	defer func(before uint64) { w.draws = before }(w.draws)
	v := &sieve{kinds: make(map[string]*sifted), chance: w.stream(sieveStream)}
	for _, k := range sieveKinds {
		x := &sifted{
			lose:   w.sometimes(sievePrefix+"lose-"+k.name+"-percent", w.climate.sieve),
			double: w.sometimes(sievePrefix+"double-"+k.name+"-percent", w.climate.sieve),
		}
		v.on = v.on || x.lose > 0 || x.double > 0
		for _, m := range k.messages {
			v.kinds[m] = x
		}
	}
	return v
}

// sift judges a frame that is sent. The message in it that fares worst decides: frames with
// several are lost no more often than others.
func (n *Net) sift(f Frame) Verdict {
	v := n.sieve
	if !v.on || n.world.faultless || f.conn.line || f.Kind == transport.KindGossip || f.from() == f.to() {
		return Pass
	}
	lost, doubled := &sifted{}, &sifted{} // the worst
	for _, m := range f.named(unasked) {
		n.world.marks.message(f.from(), m)
		x := v.kindOf(m)
		if x != nil && x.lose > lost.lose {
			lost = x
		}
		if x != nil && x.double > doubled.double {
			doubled = x
		}
	}
	switch {
	case v.chance.chance(lost.lose * million / 100):
		lost.taken++
		return Drop
	case v.chance.chance(doubled.double * million / 100):
		doubled.taken++
		return Twice
	}
	return Pass
}

// kindOf returns what befalls a message of that name; nil if nothing can.
func (v *sieve) kindOf(name string) *sifted {
	name = strings.TrimPrefix(name, passedOn)
	if x := v.kinds[name]; x != nil {
		return x
	}
	word, _, _ := strings.Cut(name, " ")
	return v.kinds[word]
}

// unasked asks no node which command it sent: the kind of a message is enough.
func unasked(transport.ID, int, uint64, uint64) string { return "" }

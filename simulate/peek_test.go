package simulate_test

import (
	"bytes"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// word is one message between two lanes, as far as scripts look into it.
type word struct {
	kind    int
	shard   int
	raft    shard.Frame   // of rafts
	replica uint64        // of hosts: the ID of the replica that is to be
	command shard.Command // of requests
	session uint64        // of replies, answers and renewals: its number
	outcome uint64        // of replies
}

// The kinds of words, by their numbers on the wire.
const (
	rafts    = 1
	chunks   = 2
	hosts    = 4
	removals = 5
	requests = 8
	replies  = 9
	renews   = 11
	answers  = 12
	forwards = 14
)

// words takes a frame apart.
func words(f simulate.Frame) (all []word) {
	if f.Kind != transport.KindLane {
		return nil
	}
	header := wire.NewReader(f.Body)
	for range 3 {
		header.Uint(1<<64 - 1)
	}
	for rest := header.Rest(); len(rest) > 0; {
		tail := bytes.NewReader(rest)
		if err := msgpack.NewDecoder(tail).Skip(); err != nil {
			panic(err)
		}
		r := wire.NewReader(rest[:len(rest)-tail.Len()])
		rest = rest[len(rest)-tail.Len():]
		r.Array(16)
		w := word{kind: int(r.Uint(100))}
		w.shard = int(r.Uint(1 << 20))
		switch w.kind {
		case rafts:
			w.raft = shard.ReadFrame(r)
		case hosts:
			r.Uint(1<<64 - 1)
			w.replica = r.Uint(1<<64 - 1)
		case requests:
			r.Bool()
			w.command = shard.ReadCommand(r)
		case replies:
			w.session = r.Uint(1<<64 - 1)
			r.Uint(1<<64 - 1)
			w.outcome = r.Uint(100)
		case answers:
			w.session = r.Uint(1<<64 - 1)
		case renews:
			r.Uint(1<<64 - 1)
			w.session = r.Uint(1<<64 - 1)
		}
		if r.Err() != nil {
			panic(r.Err())
		}
		all = append(all, w)
	}
	return all
}

// is reports whether w is a raft message of that type.
func (w word) is(t raftpb.MessageType) bool { return w.kind == rafts && w.raft.Message.GetType() == t }

// appends reports whether w brings log entries.
func (w word) appends() bool { return w.is(raftpb.MsgApp) && len(w.raft.Message.Entries) > 0 }

// logs reports whether w brings a log entry with a command that f likes.
func (w word) logs(f func(shard.Command) bool) bool {
	if !w.appends() {
		return false
	}
	for _, e := range w.raft.Message.Entries {
		if e.GetType() != raftpb.EntryNormal || len(e.Data) == 0 {
			continue
		}
		r := wire.NewReader(e.Data)
		r.Uint(1<<64 - 1)
		r.Uint(1<<64 - 1)
		for r.Len() > 0 && r.Err() == nil {
			if f(shard.ReadCommand(r)) {
				return true
			}
		}
	}
	return false
}

// expires reports whether w brings the Expire of a session of the node on host.
func (s *stage) expires(w word, host string) bool {
	return w.logs(func(c shard.Command) bool {
		e, is := c.(shard.Expire)
		return is && e.Session.Node == s.NodeOf(host)
	})
}

// rule judges every word that is sent from now on: the first that is not to Pass
// decides for its whole frame.
func (s *stage) rule(f func(from, to string, w word) simulate.Verdict) (stop func()) {
	return s.Rule(func(fr simulate.Frame) simulate.Verdict {
		for _, w := range words(fr) {
			if v := f(fr.From, fr.To, w); v != simulate.Pass {
				return v
			}
		}
		return simulate.Pass
	})
}

// mute loses what the lanes of one host say to any other; what they hear goes on.
func (s *stage) mute(host string) (stop func()) {
	return s.rule(func(from, _ string, _ word) simulate.Verdict {
		if from == host {
			return simulate.Drop
		}
		return simulate.Pass
	})
}

// deafen loses what the lanes of a host are told.
func (s *stage) deafen(host string) (stop func()) {
	return s.rule(func(_, to string, _ word) simulate.Verdict {
		if to == host {
			return simulate.Drop
		}
		return simulate.Pass
	})
}

func late(d time.Duration) simulate.Verdict { return simulate.Verdict(d) }

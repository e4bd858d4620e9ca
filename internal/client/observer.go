package client

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
)

// The observers of an election on one node share a watch: it asks the shard's leader who leads the election, and to be told of
// changes. It asks again every third of a TTL, for what it was told may get lost, and the leader forgets it after a TTL; and at
// once when a new leader serves. What nobody has confirmed for a TTL is not known any more.

// Leader is what is known of an election's leader.
type Leader struct {
	Unknown  bool   // nothing was confirmed for a TTL, or the shard does not know either
	Token    uint64 // zero: there is none, if that is known
	Sequence uint64
	Value    []byte // nobody may change it
	Name     string // of its node
}

func (l Leader) same(o Leader) bool {
	return l.Unknown == o.Unknown && l.Token == o.Token && l.Sequence == o.Sequence && l.Name == o.Name && bytes.Equal(l.Value, o.Value)
}

// Observer is one who wants to know who leads an election. Next and Latest are safe for concurrent use.
type Observer struct {
	Key   string
	Shard int
	Owner any // the driver's

	mu   sync.Mutex
	last Leader // the latest
	news bool   // it has not been taken
	over error
}

// Next returns the latest state; news says that Next has not returned it before. An error says that there will be no other.
func (o *Observer) Next() (l Leader, news bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l, news, err = o.last, o.news, o.over
	o.news = false
	return l, news, err
}

// Latest returns the latest state, whether or not Next has returned it. An error says that there will be no other.
func (o *Observer) Latest() (Leader, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last, o.over
}

// tell lets the observer know, and drops what it has not taken yet.
func (o *Observer) tell(l Leader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.news = l, true
}

func (o *Observer) end(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = why
}

// watch is what the observers of an election share.
type watch struct {
	key       string
	observers []*Observer

	last      Leader // what they know
	told      bool   // they know something
	revision  uint64 // of the shard, as of the last word, in this generation
	token     uint64 // of the latest leader in any generation, which never goes back
	sequence  uint64
	held      Leader        // the latest word, also if it is not told
	confirmed bool          // a question was answered
	heard     time.Duration // when the latest question was sent that was answered, or the first at all

	ref     uint64        // of the question under way; zero: none
	sent    time.Duration // when it was first sent
	askAt   time.Duration // when the next one is due
	retryAt time.Duration
	tries
}

// watchTTL is for how long what was confirmed counts as known.
func (s *shardClient) watchTTL() time.Duration { return min(s.client.cfg.TTL, s.client.limit) }

// observe lets o know who leads an election, from now on.
func (s *shardClient) observe(o *Observer) {
	w := s.watching(o.Key)
	if w == nil {
		w = &watch{key: o.Key, heard: s.client.now}
		s.watches = append(s.watches, w)
		s.askLeader(w)
	}
	s.refresh(w) // after a pause it may have expired, and no Tick has come yet
	w.observers = append(w.observers, o)
	if w.told {
		s.tellObserver(o, w.last)
	}
}

// unobserve: o need not know any more. The shard's leader forgets this node when it is not asked again.
func (s *shardClient) unobserve(o *Observer) {
	w := s.watching(o.Key)
	if w == nil {
		return
	}
	if w.observers = slices.DeleteFunc(w.observers, func(p *Observer) bool { return p == o }); len(w.observers) == 0 {
		s.watches = slices.DeleteFunc(s.watches, func(x *watch) bool { return x == w })
	}
}

func (s *shardClient) watching(key string) *watch {
	if i := slices.IndexFunc(s.watches, func(w *watch) bool { return w.key == key }); i >= 0 {
		return s.watches[i]
	}
	return nil
}

func (s *shardClient) tellObserver(o *Observer, l Leader) {
	o.tell(l)
	s.client.emit(Observed{o})
}

// tell lets all observers of w know.
func (s *shardClient) tell(w *watch, l Leader) {
	if w.told && w.last.same(l) {
		return
	}
	w.last, w.told = l, true
	for _, o := range w.observers {
		s.tellObserver(o, l)
	}
}

// askLeader asks anew who leads w's election.
func (s *shardClient) askLeader(w *watch) {
	c := s.client
	c.lastAsk++
	w.ref, w.sent, w.tries = c.lastAsk, c.now, tries{}
	w.askAt = c.now + s.watchTTL()/3
	s.sendWatch(w)
}

func (s *shardClient) sendWatch(w *watch) {
	c := s.client
	w.retryAt = c.now + s.delay(w.attempt)
	c.wakeAt(min(w.retryAt, w.askAt))
	s.postObserve(replica.Observe{Node: c.cfg.Node, Ref: w.ref, Key: w.key, For: s.watchTTL()}, w.attempt)
}

// postObserve sends a question where an attempt goes.
func (s *shardClient) postObserve(q replica.Observe, attempt int) {
	if to, relay := s.route(attempt); to != 0 {
		s.post(to, &message.Observe{Observe: q, Generation: s.generation, Relay: relay})
	}
}

// led handles what a leader says of an election: in answer to a question or, with Ref zero, unasked.
func (s *shardClient) led(m *message.Led) {
	s.learn(m.Revision)
	if i := slices.IndexFunc(s.asks, func(c *Call) bool { return m.Ref != 0 && c.number == m.Ref && c.Request.Mode == Elects }); i >= 0 {
		c := s.asks[i]
		s.asks = slices.Delete(s.asks, i, i+1)
		c.Leader = leaderOf(m.Led.Leader)
		s.client.finish(c, nil)
		return
	}
	w := s.watching(m.Key)
	if w == nil {
		return
	}
	if m.Ref != 0 && m.Ref == w.ref {
		w.ref, w.heard, w.confirmed = 0, w.sent, true
	}
	if m.Revision < w.revision {
		return // told late
	}
	w.revision = m.Revision
	back := false
	if l := m.Led.Leader; l.Token != 0 {
		if cmp.Or(cmp.Compare(l.Token, w.token), cmp.Compare(l.Sequence, w.sequence)) < 0 {
			w.held, back = Leader{Unknown: true}, true // told by a table that does not know of a later one
		} else {
			w.token, w.sequence = l.Token, l.Sequence
		}
	}
	if !back {
		w.held = leaderOf(m.Led.Leader)
	}
	s.refresh(w)
	if s.client.now >= w.heard+s.watchTTL() && w.ref == 0 {
		s.askLeader(w) // a change after a silence: it may be an old one
	}
}

// leaderOf returns what a shard's leader says of an election's.
func leaderOf(l shard.Leader) Leader {
	if l.Quiet {
		return Leader{Unknown: true}
	}
	return Leader{Token: l.Token, Sequence: l.Sequence, Value: slices.Clone(l.Value), Name: l.Name}
}

// refresh tells what is known now.
func (s *shardClient) refresh(w *watch) {
	switch {
	case s.client.now >= w.heard+s.watchTTL():
		s.tell(w, Leader{Unknown: true})
	case w.confirmed:
		s.tell(w, w.held)
	}
}

// tickWatches asks what is due, and tells what is not known any more.
func (s *shardClient) tickWatches() {
	now := s.client.now
	for _, w := range s.watches {
		stale := w.heard + s.watchTTL()
		switch {
		case now >= stale:
			s.tell(w, Leader{Unknown: true})
		default:
			s.client.wakeAt(stale)
		}
		switch {
		case now >= w.askAt:
			s.askLeader(w)
		case w.ref != 0 && now >= w.retryAt:
			w.repeat()
			s.client.counters.Retries.Add(1)
			s.sendWatch(w)
		}
		s.client.wakeAt(w.askAt)
		if w.ref != 0 {
			s.client.wakeAt(w.retryAt)
		}
	}
}

// watchAsked returns the watch whose question a node has refused to answer, or nil.
func (s *shardClient) watchAsked(r message.Redirect) *watch {
	if i := slices.IndexFunc(s.watches, func(w *watch) bool { return r.Session == 0 && w.ref != 0 && w.ref == r.Number }); i >= 0 {
		return s.watches[i]
	}
	return nil
}

// watchAnew asks a new leader, or the leader of another generation, whose revisions need not be later.
func (s *shardClient) watchAnew(generation bool) {
	for _, w := range s.watches {
		if generation {
			w.revision = 0
		}
		s.askLeader(w)
	}
}

// endWatches ends the observers.
func (s *shardClient) endWatches() {
	for _, w := range s.watches {
		for _, o := range w.observers {
			o.end(fault.ErrClosed)
			s.client.emit(Observed{o})
		}
	}
	s.watches = nil
}

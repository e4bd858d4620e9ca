package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// What is told of elections (P46), in true time. That one leads at a time is judged as for all holds. An answer is about a moment
// between the question and itself. What an observer is told was so at most a TTL before; it never goes back to an earlier leader or
// an earlier value; and an observer that is told nothing of a leader for longer than that is told that it does not know.

// word names a value of an election's leader.
type word struct{ token, sequence uint64 }

// compare compares by the time at which the words were said.
func (w word) compare(o word) int {
	return cmp.Or(cmp.Compare(w.token, o.token), cmp.Compare(w.sequence, o.sequence))
}

// watcher is what one observer of an election is told.
type watcher struct {
	history *History
	key     *keyHistory
	process Process
	began   time.Duration
	lasts   time.Duration // by its clock
	heard   bool
	told    env.Elected // the latest, if heard
	latest  word        // of all that it was told
}

// leader returns the leadership of k that is believed in, and is not being given back; nil if there is none.
func (k *keyHistory) leader() *Hold {
	for _, x := range slices.Backward(k.live) {
		if x.leads() {
			return x
		}
	}
	return nil
}

func (x *Hold) leads() bool {
	return x.call.want.Leads && x.unlocking == running && x.believed()
}

// Asks implements env.Clients.
func (h clients) Asks(_ transport.ID, key string) (answered func(env.Elected)) {
	k, p := h.key(key), h.process
	floor, leader, sequence := k.highest, k.leader(), uint64(0)
	if leader != nil {
		sequence = leader.proclaimed
	}
	return func(e env.Elected) {
		if e.Unknown || p.Dead() {
			return
		}
		h.checkWord(k, e)
		switch {
		case e.Token != 0 && e.Token < floor && floor <= k.highest:
			h.world.Fail(fmt.Errorf("P46 leader: %s asked who leads %q, and was told of token %d, though %v had returned before", p.Host(), key, e.Token, k.tokens[floor]))
		case leader == nil || !leader.leads():
		case e.Token != leader.token:
			h.world.Fail(fmt.Errorf("P46 leader: %s asked who leads %q, and was told of token %d, and %v leads", p.Host(), key, e.Token, leader))
		case e.Sequence < sequence:
			h.world.Fail(fmt.Errorf("P46 leader: %s asked who leads %q, and was told of word %d of %v, which had said word %d before", p.Host(), key, e.Sequence, leader, sequence))
		}
	}
}

// checkWord: nobody is told anything else of the same word.
func (h *History) checkWord(k *keyHistory, e env.Elected) {
	if e.Token == 0 {
		return
	}
	w := word{e.Token, e.Sequence}
	if was, known := k.words[w]; known && was != e.Value {
		h.world.Fail(fmt.Errorf("P46 value: the leader of %q with token %d says %q, as word %d, and said %q", k.key, e.Token, e.Value, e.Sequence, was))
	}
	if k.words == nil {
		k.words = make(map[word]string)
	}
	k.words[w] = e.Value
}

// Observes implements env.Clients.
func (h clients) Observes(_ transport.ID, key string, lasts time.Duration) env.Watcher {
	k := h.key(key)
	w := &watcher{history: h.History, key: k, process: h.process, began: h.world.Now(), lasts: lasts}
	k.watchers = slices.DeleteFunc(k.watchers, func(o *watcher) bool { return o.process.Dead() })
	k.watchers = append(k.watchers, w)
	return w
}

// Told implements env.Watcher.
func (w *watcher) Told(e env.Elected) {
	h, k := w.history, w.key
	if w.process.Dead() || !slices.Contains(k.watchers, w) {
		return
	}
	h.checkWord(k, e)
	if said := (word{e.Token, e.Sequence}); e.Token != 0 {
		if said.compare(w.latest) < 0 {
			h.world.Fail(fmt.Errorf("P46 back: an observer of %q on %s is told of token %d, word %d, after token %d, word %d",
				k.key, w.process.Host(), said.token, said.sequence, w.latest.token, w.latest.sequence))
		}
		w.latest = said
	}
	w.heard, w.told = true, e
	if x := k.leader(); x != nil && w.bound() < h.world.Now()-x.began && w.ignores(x) {
		h.world.Fail(fmt.Errorf("P46 stale: an observer of %q on %s is told of token %d, and %v leads", k.key, w.process.Host(), e.Token, x))
	}
}

// Over implements env.Watcher.
func (w *watcher) Over() {
	w.key.watchers = slices.DeleteFunc(w.key.watchers, func(o *watcher) bool { return o == w })
}

// bound is for how long, in true time, what was confirmed last may count as known.
func (w *watcher) bound() time.Duration { return w.lasts + w.lasts/20 + lossGrace }

// ignores reports whether the observer believes that x does not lead.
func (w *watcher) ignores(x *Hold) bool {
	return !w.heard || !w.told.Unknown && w.told.Token != x.token
}

// checkWatchers: every observer knows of a leader by now, or that it does not know. Those whose host stood still are late.
func (x *Hold) checkWatchers() {
	if !x.leads() {
		return
	}
	h := x.call.history
	now := h.world.Now()
	for _, w := range x.key.watchers {
		p := w.process
		if p.Dead() || p.Paused() || !p.Well(timerGrace) || now-p.Hung() < timerGrace || now-max(x.began, w.began) < w.bound()+timerGrace {
			continue
		}
		if w.ignores(x) {
			h.world.Fail(fmt.Errorf("P46 missed: %v leads, and what an observer of %q on %s was told last is %+v", x, x.key.key, p.Host(), w.told))
			return
		}
	}
}

// timerGrace is how late an observer may be in a busy world.
const timerGrace = time.Second

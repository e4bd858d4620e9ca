package check

import (
	"fmt"
	"time"

	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

// What is told of keys (P48): each page is of one moment between the question and its answer. So a holder that is named held the key at
// some time between; and if a page has all holders of a key, who held it all the time is among them.

// tokenName names a hold of a key.
type tokenName struct {
	key   string
	token uint64
}

// span is when a hold lasted, as the first replica told it.
type span struct{ from, to time.Duration } // to is running while it is not over

// Looks implements env.Clients.
func (h clients) Looks(transport.ID) (answered func(shard.Page)) {
	began := h.world.Now()
	return func(page shard.Page) {
		if !h.process.Dead() {
			for _, k := range page.Keys {
				h.checkSight(h.process, began, k)
			}
		}
	}
}

func (h *History) checkSight(p Process, began time.Duration, k shard.KeyState) {
	f, named := &h.inside.queue, make(map[uint64]bool)
	for _, x := range k.Holders {
		named[x.Token] = true
		if s, held := f.tokens[tokenName{k.Key, x.Token}]; !held || s.to != running && s.to < began {
			h.world.Fail(fmt.Errorf("P48 holder: %s asked at %v what is known of %q, and was told that %q holds it with token %d, which was over",
				p.Host(), began, k.Key, x.Name, x.Token))
		}
	}
	if len(k.Holders) < k.Holding || h.world.Meshes() > 1 {
		return // there are more
	}
	for _, q := range f.order {
		if q.key != k.Key || q.over {
			continue
		}
		for _, g := range q.held { // order-free: any one fails the world
			if s := f.tokens[tokenName{k.Key, g.token}]; s.to == running && s.from < began && !named[g.token] {
				h.world.Fail(fmt.Errorf("P48 missing: %s asked at %v what is known of %q, and was not told of token %d, which has held it since %v",
					p.Host(), began, k.Key, g.token, s.from))
				return
			}
		}
	}
}

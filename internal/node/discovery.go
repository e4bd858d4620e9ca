package node

import (
	"context"

	"github.com/lockmesh/mesh/internal/seat"
)

// discover lets the program find contact points, on a thread of control of its own: the function is the program's, and
// may block. It ends by itself; Close ends its context, and does not wait for it.
func (l *shardLoop) discover() {
	n := l.node
	cancel := n.env.Go("discovery", seat.DiscoverLimit, func(ctx context.Context) {
		points, err := n.cfg.Discover(ctx)
		l.post(func(l *shardLoop) {
			l.carryOutCore(l.core.seat.Discovered(l.now, points, err, nil))
		})
	})
	n.mu.Lock()
	n.search = cancel
	down := n.down
	n.mu.Unlock()
	if down {
		cancel()
	}
}
